"""The settings of the tests, with the SQLite file that ``UPGRADED_DATABASE`` names."""

from __future__ import annotations

import os

from tests.settings import *  # noqa: F403 - settings build on settings

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["UPGRADED_DATABASE"],
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
}
