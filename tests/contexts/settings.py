"""The test project with this folder as an app, for processes outside of a test run.

``CONN_MAX_AGE`` is that of the environment.
"""

from __future__ import annotations

import os

from tests.settings import *  # noqa: F403 - it is these settings, and an app
from tests.settings import DATABASES, INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.contexts"]
DATABASES["default"]["CONN_MAX_AGE"] = int(os.environ.get("CONN_MAX_AGE", "0"))
