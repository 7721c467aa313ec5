"""Without ``TELEMETRY``, OpenTelemetry is not imported; with it, it has to be installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import django
from django.conf import settings
settings.configure(
    AGENT_SESSIONS={options},
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_agent_sessions"],
    SECRET_KEY="test",
    USE_TZ=True,
)
{before}
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values import observing
store = SessionStore()
agent = store.agents.open(store.open("user-1"))
store.append(agent, {{"role": "user", "content": "Hello"}})
print(store.payloads(agent)[0]["content"], observing.current is not None)
print(sorted(name for name in sys.modules if name.split(".")[0] == "opentelemetry")[:1])
"""


def run(options, before=""):
    program = PROGRAM.format(options=options, before=before)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("options", [{}, {"TELEMETRY": False}, {"TELEMETRY": "yes"}])
def test_off_nothing_of_opentelemetry_is_imported(other_process, options):
    done = run(options)
    assert done.stdout.split("\n")[:2] == ["Hello False", "[]"], done.stderr


def test_on_the_store_is_observed_also_without_a_configured_sdk(other_process):
    done = run({"TELEMETRY": True})
    assert done.stdout.split("\n")[:2] == ["Hello True", "['opentelemetry']"], done.stderr


def test_on_without_opentelemetry_the_error_says_what_to_install(other_process):
    done = run({"TELEMETRY": True}, before="sys.modules['opentelemetry'] = None")
    assert done.returncode != 0
    assert 'pip install "django-agent-sessions[otel]"' in done.stderr
