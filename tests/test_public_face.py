"""The names that the package itself offers: few, typed, and imported when they are used."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import django_agent_sessions
from tests.processes import ROOT, unmeasured

NAMES = sorted(django_agent_sessions.__all__)
SOURCE = Path(inspect.getfile(django_agent_sessions)).read_text()

WITHOUT_SETTINGS = """
import sys
import django_agent_sessions
assert not [name for name in sys.modules if name.split(".")[0] == "django"]
assert {*dir(django_agent_sessions)} >= {*django_agent_sessions.__all__}

from django_agent_sessions import EVERYBODY, NOBODY, AgentSessionsError, SessionNotFoundError
from django.conf import settings
assert not settings.configured

from django.core.exceptions import ImproperlyConfigured
try:
    from django_agent_sessions import SessionStore
except ImproperlyConfigured:
    pass  # As for any model.
else:
    raise AssertionError

settings.configure(
    INSTALLED_APPS=[
        "django.contrib.auth", "django.contrib.contenttypes", "django_agent_sessions",
    ],
    SECRET_KEY="test",
)
import django
django.setup()
for name in django_agent_sessions.__all__:
    assert getattr(django_agent_sessions, name) is not None
"""

SETTINGS = """
from django_agent_sessions import EVERYBODY, NOBODY

SECRET_KEY = "test"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_agent_sessions"]
WHOSE = {"jobs": EVERYBODY, "visitors": NOBODY}
"""


def imports_for_type_checkers() -> dict[str, str]:
    """Tells which name is imported from which module under TYPE_CHECKING."""
    found: dict[str, str] = {}
    for node in ast.parse(SOURCE).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in node.body:
                assert isinstance(line, ast.ImportFrom)
                assert line.level == 1
                found |= {alias.name: str(line.module) for alias in line.names}
    return found


def test_what_type_checkers_read_is_what_is_imported_and_what_is_listed():
    assert imports_for_type_checkers() == django_agent_sessions._MODULES
    assert sorted(django_agent_sessions._MODULES) == NAMES
    assert len(NAMES) == len(django_agent_sessions.__all__)


def test_there_are_few_names_and_no_adapter_is_among_them():
    assert len(NAMES) <= 17
    assert not [name for name in django_agent_sessions._MODULES.values() if "adapters" in name]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_the_one_of_its_module(name):
    module = import_module(f"django_agent_sessions.{django_agent_sessions._MODULES[name]}")

    assert getattr(django_agent_sessions, name) is getattr(module, name)
    assert name in dir(django_agent_sessions)


def test_a_name_that_is_none_is_refused_as_by_any_module():
    with pytest.raises(AttributeError, match="has no attribute 'SessionStor'"):
        getattr(django_agent_sessions, "SessionStor")  # noqa: B009 - mypy knows that it is none
    with pytest.raises(ImportError, match="cannot import name 'SessionStor'"):
        exec("from django_agent_sessions import SessionStor")  # noqa: S102 - of our own text


@pytest.mark.process
def test_importing_it_needs_neither_django_nor_settings():
    env = {**unmeasured()}
    env.pop("DJANGO_SETTINGS_MODULE", None)

    subprocess.run(
        [sys.executable, "-c", WITHOUT_SETTINGS], env=env, check=True, cwd=ROOT, timeout=60
    )


@pytest.mark.process
def test_a_settings_file_may_say_everybody_and_nobody(tmp_path):
    (tmp_path / "site_settings.py").write_text(SETTINGS)

    done = subprocess.run(
        [sys.executable, "-m", "django", "shell", "-c", "print('started')"],
        cwd=ROOT,
        env={
            **unmeasured(),
            "DJANGO_SETTINGS_MODULE": "site_settings",
            "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
        },
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "started"


# --- types ----------------------------------------------------------------------------------------

TYPED = f"""
from uuid import UUID

from typing_extensions import assert_type

from django_agent_sessions import {", ".join(NAMES)}
from django_agent_sessions.values.records import AgentRecord, MessageRecord, SessionRecord
from django_agent_sessions.governance.redaction import Redaction


async def use_twins(store: SessionStore, agent: AgentRecord) -> None:
    assert_type(await store.aappend(agent, "text", epoch=1), MessageRecord)
    assert_type(await store.agents.aopen(await store.aopen("s"), "a", dialect="x"), AgentRecord)
    assert_type(await store.branches.arewind(agent, 3) is None, bool)


def use(session: UUID) -> None:
    assert_type(SessionStore(owner=EVERYBODY).open("s"), SessionRecord)
    assert_type(redact(session, Find("text"), reason="asked for"), Redaction)
    assert_type(hold(session, reason="a claim"), bool)
    assert_type(run_orm(len, "text"), int)
    try:
        SessionStore(owner=NOBODY, create=True)
    except (SessionNotFoundError, SessionBusyError) as error:
        found: AgentSessionsError = error
        raise found from None


{"".join(f"reveal_type({name}){chr(10)}" for name in NAMES)}
"""

WRONG = {
    "a name that is none": "from django_agent_sessions import SessionStor\n",
    "an attribute that is none": "import django_agent_sessions\n\ndjango_agent_sessions.nothing\n",
    "an argument that is none": (
        "from django_agent_sessions import SessionStore\n\nSessionStore(owners=1)\n"
    ),
    "an argument that an async twin lacks": (
        "from django_agent_sessions import SessionStore\n\n"
        "async def use() -> None:\n    await SessionStore().aopen('s', titel='x')\n"
    ),
    "an argument of another type of an async twin": (
        "from django_agent_sessions import SessionStore\n\n"
        "async def use() -> None:\n    await SessionStore().aopen(1)\n"
    ),
    "an argument of another type": (
        "from django_agent_sessions import SessionStore\n\nSessionStore(create='yes')\n"
    ),
}

CHECKERS = {
    # Not the project's own settings: what a user of the package has, who needs no plugin for it.
    "mypy": ["mypy", "--config-file=", "--strict", "--cache-dir=.cache/mypy-face", "{file}"],
    # Pyright as one wheel: PyPI's own `pyright` downloads the program when it first runs.
    "pyright": ["basedpyright", f"--pythonpath={sys.executable}", "--project={folder}"],
}
REVEALED = {"mypy": r'Revealed type is "(.+)"', "pyright": r'Type of "\w+" is "(.+)"'}


def check(checker: str, file: Path) -> tuple[int, str]:
    (file.parent / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [part.format(file=file, folder=file.parent) for part in CHECKERS[checker]]
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=150,
    )
    return done.returncode, done.stdout


@pytest.mark.process
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_type_checker_knows_the_type_of_each_name(checker, tmp_path):
    file = tmp_path / "typed.py"
    file.write_text(TYPED)

    status, said = check(checker, file)

    assert status == 0, said
    revealed = re.findall(REVEALED[checker], said)
    assert len(revealed) == len(NAMES)
    assert not [one for one in revealed if one in ("Any", "Unknown", "object")]


@pytest.mark.process
@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_type_checker_refuses(checker, wrong, tmp_path):
    file = tmp_path / "wrong.py"
    file.write_text(wrong)

    status, said = check(checker, file)

    assert status == 1
    assert "error" in said
    assert "wrong.py" in said
