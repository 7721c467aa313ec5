"""Django's settings for the upgraded database: ``UPGRADE_DATABASE`` is its entry in JSON."""

from __future__ import annotations

import json
import os

from benchmarks.base_settings import *  # noqa: F403 - settings build on settings

DATABASES = {"default": json.loads(os.environ["UPGRADE_DATABASE"])}
