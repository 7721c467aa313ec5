"""A project without a database keeps its conversations in files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from strands.session import FileSessionManager

from tests.adapters.strands.layouts import agent

pytestmark = pytest.mark.process

WITHOUT_DATABASE = """
import sys
from django.conf import settings
settings.configure(
    DATABASES={},
    INSTALLED_APPS=[
        "django.contrib.contenttypes", "django.contrib.auth", "django_agent_sessions"
    ],
    STORAGES={"conversations": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": sys.argv[1]},
    }},
)
import django
django.setup()
from tests.adapters.strands.scripted import ScriptedModel
from tests.docs.test_examples import example
answer = example("how-to/storage-layouts.md", "answer")
assert answer("s", "First", ScriptedModel(["One."])).strip() == "One."
assert answer("s", "Second", ScriptedModel()).strip() == "You said: Second"
"""


def test_the_example_of_the_documentation_runs_without_a_database(tmp_path):
    subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_DATABASE, str(tmp_path)],
        check=True,
        timeout=120,
        cwd=Path(__file__).parents[4],
    )

    restored = agent(FileSessionManager("s", str(tmp_path / "chats")), agent_id="helper")

    assert [m["role"] for m in restored.messages] == ["user", "assistant"] * 2
