"""The example's WSGI application."""

from __future__ import annotations

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.load.settings")

from example_project.wsgi import application

__all__ = ["application"]
