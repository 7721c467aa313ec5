"""The test project with django-jazzmin, which brings Bootstrap and AdminLTE."""

from __future__ import annotations

from tests.settings import *  # noqa: F403 - it is these settings, and an app
from tests.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = ["jazzmin", *_APPS]
# The font would come from another host.
JAZZMIN_SETTINGS = {"use_google_fonts_cdn": False}
JAZZMIN_UI_TWEAKS = {"default_theme_mode": "auto"}
