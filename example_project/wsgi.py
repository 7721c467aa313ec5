"""The WSGI application."""

from __future__ import annotations

import gc
import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")

application = get_wsgi_application()
# The SDKs take seconds to import: now, and not in the first request.
_ = get_resolver().url_patterns
# What was imported stays: it need not be looked through for garbage again and again.
gc.freeze()
