"""The test project with django-unfold, the other admin that ours has to look right in."""

from __future__ import annotations

from tests.settings import *  # noqa: F403 - it is these settings, and an app
from tests.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = ["unfold", *_APPS]
