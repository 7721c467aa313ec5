from __future__ import annotations

import io
import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_agent_sessions.interchange import export_sessions
from django_agent_sessions.interchange.source_registry import SOURCES
from django_agent_sessions.management.commands.agent_sessions_import import Command
from django_agent_sessions.management.terminal import INTERRUPTED_STATUS
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.values.owners import NOBODY
from tests.adapters.strands.layouts import Directory, agent

pytestmark = pytest.mark.django_db


class Terminal(io.StringIO):
    """What takes itself for a terminal."""

    def isatty(self) -> bool:
        return True


def run(*arguments: object, stderr: Any = None) -> str:
    out = io.StringIO()
    call_command(
        "agent_sessions_import", *map(str, arguments), stdout=out, stderr=stderr or io.StringIO()
    )
    return out.getvalue()


def assign(found: Any) -> Any:
    """Says who owns a session, as a project's own function would."""
    from django.contrib.auth import get_user_model

    owner = get_user_model().objects.filter(username=found.session_id.split("-")[0]).first()
    return NOBODY if owner is None else owner


def fail_for_bob(found: Any) -> Any:
    """Fails as functions do that know only names of one shape."""
    if found.session_id == "bob-1":
        raise ValueError("plantedsecret")
    return NOBODY


def stop_at_bob(found: Any) -> Any:
    """Somebody types Ctrl-C while the import is at a session."""
    if found.session_id == "bob-1":
        signal.raise_signal(signal.SIGINT)
    return NOBODY


@pytest.fixture
def lines(store: Any, tmp_path: Path) -> Path:
    """An export of three sessions that are not here any more."""
    for name in ("ada-1", "bob-1", "eve-1"):
        store.append_many(store.agents.open(store.open(name)), [{"role": "user", "content": "hi"}])
    path = tmp_path / "sessions.jsonl"
    path.write_text("".join(export_sessions(Session.objects.all())))
    Session.objects.all().delete()
    return path


def owners() -> dict[str, Any]:
    found = Session.objects.values_list("session_id", "owner__username")
    return dict(found)


def test_an_import_says_what_it_did_and_again_that_it_is_done(lines):
    said = "3 messages written; sessions: 3 new, 0 continued, 0 already imported, 0 skipped\n"
    assert run("jsonl", lines) == said
    again = "0 messages written; sessions: 0 new, 0 continued, 3 already imported, 0 skipped\n"
    assert run("jsonl", lines) == again


def test_a_dry_run_says_what_it_would_do(lines):
    assert run("jsonl", lines, "--dry-run").startswith("3 messages would be written; sessions: 3 ")
    assert not Session.objects.exists()


def test_what_is_skipped_is_printed_and_the_command_ends_with_1(lines, capsys):
    lines.write_text(lines.read_text() + "plantedsecret\n")
    out = io.StringIO()

    with pytest.raises(CommandError, match="1 item could not be imported: see above") as failure:
        call_command("agent_sessions_import", "jsonl", str(lines), stdout=out)

    assert failure.value.returncode == 1
    assert out.getvalue().splitlines()[0] == "line 4: it is not JSON"
    assert Session.objects.count() == 3


def test_a_line_that_is_too_long_is_told(lines):
    with pytest.raises(CommandError, match="could not be imported"):
        run("jsonl", lines, "--max-line-bytes", 10)

    assert not Session.objects.filter(origin__isnull=False).exists()


def test_what_a_terminal_would_obey_is_printed_as_text(lines):
    [line, *_] = lines.read_text().splitlines()
    session = json.loads(line)
    session["session"]["session_id"] = "\x1b[2J"
    lines.write_text(json.dumps(session) + "\n")
    out = io.StringIO()

    with pytest.raises(CommandError):
        call_command("agent_sessions_import", "jsonl", str(lines), stdout=out)

    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize(
    ("header", "first", "second"),
    [("user", "ada", "{bob}"), ("username", "ada", "bob"), ("user_id", "{ada}", "{bob}")],
)
def test_a_file_says_who_owns_what(lines, tmp_path, ada, bob, header, first, second):
    keys = {"ada": ada.pk, "bob": bob.pk}
    path = tmp_path / "owners.csv"
    rows = [("ada-1", first.format(**keys)), ("bob-1", second.format(**keys)), ("eve-1", "")]
    path.write_text(f"session_id,{header}\n" + "".join(f"{name},{user}\n" for name, user in rows))

    run("jsonl", lines, "--owners", path)

    assert owners() == {"ada-1": "ada", "bob-1": "bob", "eve-1": None}


def test_a_user_who_is_not_there_or_could_be_two_leaves_that_session_out(lines, tmp_path, ada):
    type(ada).objects.create_user(str(ada.pk))
    path = tmp_path / "owners.csv"
    path.write_text(f"session_id,user\nada-1,{ada.pk}\nbob-1,nobody\n")
    out = io.StringIO()

    with pytest.raises(CommandError, match="2 items"):
        call_command("agent_sessions_import", "jsonl", lines, "--owners", path, stdout=out)

    assert f"'{ada.pk}' is the name of one user and the key of another" in out.getvalue()
    assert "session 'bob-1': user 'nobody' does not exist" in out.getvalue()
    assert owners() == {"eve-1": None}


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_session_that_is_given_to_two_users_is_refused_with_the_lines(lines, tmp_path, dry):
    path = tmp_path / "owners.csv"
    path.write_text("session_id,user\nada-1,ada\nbob-1,bob\nbob-1,bob\nada-1,bob\n")

    with pytest.raises(CommandError, match=r"lines 2 and 5 give different users .* 'ada-1'"):
        run("jsonl", lines, "--owners", path, *dry)

    assert not Session.objects.exists()


def test_a_line_that_names_no_user_is_told_and_one_with_semicolons_explained(lines, tmp_path, ada):
    path = tmp_path / "owners.csv"
    path.write_text("session_id,user\nada-1,ada\nbob-1\neve-1, \n")

    told = run("jsonl", lines, "--owners", path).splitlines()

    assert told[:2] == [
        f"{path}, line {line}: no user is given for session '{name}': it is imported without an "
        "owner"
        for line, name in ((3, "bob-1"), (4, "eve-1"))
    ]
    assert owners() == {"ada-1": "ada", "bob-1": None, "eve-1": None}
    path.write_text("session_id;user\nada-1;ada\n")
    with pytest.raises(CommandError, match="with commas between them and not semicolons"):
        run("jsonl", lines, "--owners", path)


def test_a_session_for_which_the_owner_function_fails_is_left_out_and_told(lines):
    out = io.StringIO()

    with pytest.raises(CommandError, match="1 item could not be imported") as failure:
        call_command(
            "agent_sessions_import",
            "jsonl",
            str(lines),
            owner_function="tests.interchange.test_import_command.fail_for_bob",
            stdout=out,
        )

    assert failure.value.returncode == 1
    assert out.getvalue().startswith("session 'bob-1': the owner function 'tests.interchange.")
    assert "raised ValueError: return NOBODY" in out.getvalue()
    assert "plantedsecret" not in out.getvalue()
    assert owners() == {"ada-1": None, "eve-1": None}


@pytest.mark.django_db(transaction=True)
def test_an_import_that_is_stopped_says_so_in_a_sentence_and_goes_on_when_run_again(lines, capsys):
    stop = ("--owner-function", "tests.interchange.test_import_command.stop_at_bob")
    with pytest.raises(SystemExit) as end:
        Command().run_from_argv(["manage.py", "agent_sessions_import", "jsonl", str(lines), *stop])

    assert end.value.code == INTERRUPTED_STATUS == 130
    assert capsys.readouterr().err == "Stopped. Run the command again to continue from here.\n"
    assert owners() == {"ada-1": None}
    assert "sessions: 2 new, 0 continued, 1 already imported" in run("jsonl", lines)


@pytest.mark.parametrize(
    ("kind", "place", "words"),
    [
        ("strands-files", "{path}/sessions/session_s", "session_<id>; pass the parent directory$"),
        ("strands-files", "{path}", "looked for folders called session_<id>$"),
        ("strands-files", "old:elsewhere", "in old:elsewhere: looked for folders"),
        ("strands-files", "old:sessions/session_s/", "pass the parent directory$"),
        ("strands-snapshots", "{path}/sessions", "looked for folders called session/<id>$"),
        ("strands-snapshots", "{path}/session", "session/<id>; pass the parent directory$"),
        ("jsonl", "{path}/empty.jsonl", "looked for lines, each with a session$"),
    ],
)
def test_an_import_that_finds_nothing_says_what_it_looked_for(
    tmp_path, settings, kind, place, words
):
    agent(Directory(tmp_path).strands("s"), "hello")("hi")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "session").mkdir()
    settings.STORAGES = {
        **settings.STORAGES,
        "old": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path)},
        },
    }

    with pytest.raises(CommandError, match=words) as failure:
        run(kind, place.format(path=tmp_path))

    assert str(failure.value).startswith("no session was found in ")
    assert failure.value.returncode == 1


def test_an_empty_database_is_imported_and_told(tmp_path):
    from agents import SQLiteSession

    SQLiteSession("s", tmp_path / "sdk.db").close()

    said = run("openai-sqlite", str(tmp_path / "sdk.db"))

    assert said.endswith("no session was found in these tables of openai-sqlite\n")


def test_one_user_may_own_them_all_or_a_function_says_whose_they_are(lines, ada):
    run("jsonl", lines, "--owner", "ada", "--namespace", "hers")
    run("jsonl", lines, "--owner", ada.pk, "--namespace", "hers too")
    assert set(Session.objects.values_list("owner", flat=True)) == {ada.pk}

    Session.objects.all().delete()
    run("jsonl", lines, "--owner-function", "tests.interchange.test_import_command.assign")
    assert owners() == {"ada-1": "ada", "bob-1": None, "eve-1": None}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["jsonl"], "PLACE is required: FILE of an export"),
        (["jsonl", "nowhere.jsonl"], "file nowhere.jsonl does not exist"),
        (["openai-sqlite", "nowhere.db"], "nowhere.db is not a file"),
        (["strands-files", "nowhere"], "directory nowhere does not exist: pass a directory"),
        (["openai-django-sessions", "nope"], "nope"),
        (["jsonl", "{lines}", "--owner", "nobody"], "user 'nobody' does not exist"),
        # As scripts give them whose variables are empty.
        (["jsonl", "{lines}", "--owner", ""], "user '' does not exist"),
        (["jsonl", "{lines}", "--owners", ""], "cannot be read"),
        (["jsonl", "{lines}", "--owner-function", ""], "the owner function '' cannot be imported"),
        (["jsonl", "{lines}", "--owners", "no.csv"], "no.csv cannot be read"),
        (["jsonl", "{lines}", "--owners", "{lines}"], "must name the columns session_id and user"),
        (["jsonl", "{lines}", "--owner-function", "no.such"], "'no.such' cannot be imported"),
        (["jsonl", "{lines}", "--owner-function", "os.sep"], "'os.sep' is not a function"),
        (["jsonl", "{lines}", "--namespace", " "], "namespace must not be blank"),
        (["jsonl", "{lines}", "--owner", "a", "--owners", "b"], "not allowed with argument"),
        (["paper", "x"], "invalid choice: 'paper'"),
    ],
)
def test_what_is_mistyped_is_told_in_a_line_and_nothing_is_done(lines, arguments, words):
    with pytest.raises(CommandError, match=words):
        run(*[argument.format(lines=lines) for argument in arguments])

    assert not Session.objects.exists()


def test_progress_is_shown_on_a_terminal_only_and_goes_away(lines, monkeypatch):
    monkeypatch.setattr("django_agent_sessions.management.terminal._SECONDS", 0)
    terminal, file, quiet = Terminal(), io.StringIO(), Terminal()

    run("jsonl", lines, stderr=terminal)
    run("jsonl", lines, stderr=file)
    run("jsonl", lines, "--no-progress", stderr=quiet)

    assert "] 3/3, 3 sessions, 3 messages" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r")
    assert file.getvalue() == quiet.getvalue() == ""


def test_files_of_strands_come_from_a_directory_or_any_storage(tmp_path, settings):
    place = Directory(tmp_path)
    agent(place.strands("s"), "hello")("hi")
    settings.STORAGES = {
        **settings.STORAGES,
        "old": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path)},
        },
    }

    run("strands-files", tmp_path / "sessions", "--namespace", "a")
    run("strands-files", "old:sessions/", "--namespace", "b")

    assert SessionMessage.objects.count() == 4


def test_a_database_of_openais_sdk_comes_in(tmp_path):
    import asyncio

    from agents import SQLiteSession

    path = tmp_path / "sdk.db"
    session = SQLiteSession("s", path)
    asyncio.run(session.add_items([{"role": "user", "content": "hi"}]))
    session.close()

    assert run("openai-sqlite", path).startswith("1 message written; sessions: 1 new")
    assert SessionMessage.objects.get().message == {"role": "user", "content": "hi"}
    # Used itself in `with`, a connection commits, and stays open.
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM agent_messages").fetchone() == (1,)


def test_every_kind_says_what_its_place_is():
    assert all(place and callable(opened) for place, opened in SOURCES.values())
    assert set(SOURCES) >= {
        "strands-files",
        "openai-sqlite",
        "openai-advanced-sqlite",
        "openai-sqlalchemy",
        "openai-django-sessions",
        "jsonl",
    }
