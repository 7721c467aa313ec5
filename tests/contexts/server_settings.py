"""A site with the recipes that stream, for servers in processes of their own."""

from __future__ import annotations

from tests.settings import *  # noqa: F403 - it is these settings, and a server's

ROOT_URLCONF = "tests.contexts.streams"
