"""The example's ASGI application, with a watch on its loop."""

from __future__ import annotations

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.load.settings")

from example_project.asgi import application as example

from .lag import watched

application = watched(example)
