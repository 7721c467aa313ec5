"""The example's site on the database of the tests, with its offline models."""

from __future__ import annotations

import pytest
from agents import set_tracing_disabled
from django.utils.module_loading import import_string
from rest_framework.views import APIView

from example_project import settings as example
from example_project.chat import model_choice

REAL_MODELS = ("OPENAI_API_KEY", "OLLAMA_HOST", *model_choice.AWS_CREDENTIALS)

# Nothing that a test says shall leave this machine.
set_tracing_disabled(True)

_NAMES = (
    "INSTALLED_APPS",
    "MIDDLEWARE",
    "TEMPLATES",
    "ROOT_URLCONF",
    "LOGIN_URL",
    "LOGIN_REDIRECT_URL",
    "LOGOUT_REDIRECT_URL",
    "REST_FRAMEWORK",
)


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    """Nobody's real credentials are used by a test."""
    for name in REAL_MODELS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def site(settings, monkeypatch, client, db):
    """The example's site, which the test client now asks."""
    for name in _NAMES:
        setattr(settings, name, getattr(example, name))
    # REST framework reads this once, when it is imported.
    classes = example.REST_FRAMEWORK["DEFAULT_AUTHENTICATION_CLASSES"]
    monkeypatch.setattr(APIView, "authentication_classes", [import_string(c) for c in classes])
    return client


@pytest.fixture
def adas_site(site, ada):
    """The same, with ada logged in."""
    site.force_login(ada)
    return site
