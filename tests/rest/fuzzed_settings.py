"""Settings of the server that schemathesis asks: the test project's, with tokens for a login."""

from __future__ import annotations

from tests.settings import *  # noqa: F403 - it is these settings, and a login
from tests.settings import REST_FRAMEWORK as _REST_FRAMEWORK

ROOT_URLCONF = "tests.rest.fuzzed_urls"
REST_FRAMEWORK = {
    **_REST_FRAMEWORK,
    "DEFAULT_AUTHENTICATION_CLASSES": ["tests.rest.fuzzed_tokens.TokenAuthentication"],
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"errors": {"class": "logging.StreamHandler", "level": "ERROR"}},
    "root": {"handlers": ["errors"], "level": "ERROR"},
}
