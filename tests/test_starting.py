"""The start of a project with the app: every process and command waits for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

APPS = (
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django_agent_sessions",
)
PROGRAM = """
import sys
import django
from django.conf import settings
settings.configure(INSTALLED_APPS=sys.argv[1:], SECRET_KEY="test", USE_TZ=True)
django.setup()
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def loaded(other_process) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *APPS], stdout=subprocess.PIPE, check=True, text=True
    )
    return set(done.stdout.split())


def test_a_start_registers_the_system_checks(loaded):
    assert "django_agent_sessions.checks" in loaded


def test_a_start_registers_the_admin(loaded):
    assert "django_agent_sessions.admin.sessions" in loaded
    assert "django_agent_sessions.admin.usage" in loaded


@pytest.mark.parametrize(
    "package", ["agents", "asyncpg", "opentelemetry", "rest_framework", "storages", "strands"]
)
def test_a_start_loads_nothing_that_is_optional(loaded, package):
    assert package not in loaded


@pytest.mark.parametrize(
    "module",
    [
        "zipfile",
        "django_agent_sessions.admin.charts",
        "django_agent_sessions.blobs",
        "django_agent_sessions.admin.redaction",
        "django_agent_sessions.admin.transcript",
        "django_agent_sessions.admin.usage_page",
        "django_agent_sessions.interchange",
        "django_agent_sessions.content.masking.payloads",
        "django_agent_sessions.governance.redaction",
        "django_agent_sessions.usage",
    ],
)
def test_a_start_loads_nothing_that_only_a_page_or_a_command_needs(loaded, module):
    assert module not in loaded
