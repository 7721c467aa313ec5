"""A value that cannot be one is told or left out, and what stands beside it comes in."""

from __future__ import annotations

import copy
import hashlib
import json

import pytest
from django.test import override_settings

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.interchange import JsonLines, export_sessions, import_sessions
from django_agent_sessions.models import Branch, Session, SessionAgent, SessionMessage
from django_agent_sessions.values.records import NewMessage, Usage

from .files import changed, export, forget, lines, reasons, write

pytestmark = pytest.mark.django_db

EMPTY = hashlib.sha256().hexdigest()


@pytest.mark.parametrize(
    "odd",
    [
        {"kind": "of a later release", "parent": "x", "start": -1},
        {"kind": [], "parent": 2**40, "start": True},
        {"kind": None},
    ],
)
def test_what_is_not_known_of_a_branch_is_found_out(odd, file, store):
    agent = store.agents.open(store.open("s"), dialect="strands")
    store.append_many(agent, [{"role": "user", "content": [{"text": text}]} for text in "ab"])
    store.branches.rewind(agent, 0, name="b")
    (line,) = lines(export(file))
    branch = line["agents"][0]["branches"][0]
    line["agents"][0]["branches"] = [{"number": branch["number"], "name": "b", **odd}]
    forget()

    assert import_sessions(write(file, line)).skips == 0

    (_, made) = store.branches.list(store.agents.find(store.get("s"), agent.agent_id))
    assert (made.name, made.kind, made.parent, made.start) == ("b", "imported", 0, 1)


@pytest.mark.parametrize("name", ["main", "idea", "", "a\0"])
def test_a_name_that_the_main_branch_cannot_get_is_told(name, file, store):
    agent = store.agents.open(store.open("s"), dialect="strands")
    store.append(agent, {"role": "user", "content": []})
    store.branches.create(agent, name="idea")
    (line,) = lines(export(file))
    line["agents"][0]["main_name"] = name
    forget()

    report = import_sessions(write(file, line))

    assert [place for place, _ in reasons(report)] == [
        f"session 's', agent {agent.agent_id!r}, name of the main branch"
    ]
    assert SessionAgent.objects.get().main_name is None
    assert Branch.objects.get().name == "idea"


@pytest.mark.parametrize(
    "branch", [{}, {"number": 0, "name": "a"}, {"number": True, "name": "a"}, {"number": 1}, 1]
)
def test_a_branch_that_cannot_be_one_is_told(branch, file):
    agent = {"agent_id": "a", "dialect": "openai", "branches": [branch]}
    report = import_sessions(
        write(
            file,
            {
                "format": "django-agent-sessions",
                "version": 1,
                "session": {"session_id": "s"},
                "agents": [agent],
            },
        )
    )
    assert [place for place, _ in reasons(report)] == ["line 1"]


@pytest.mark.parametrize(
    ("where", "value", "reason"),
    [
        ("session.created_at", "yesterday", "its created_at is not a time"),
        ("session.id", "x", "its id is not a UUID"),
        ("session.title", ["x"], "the title of its session is not a string"),
        ("session.external_id", 5, "the external_id of its session is not a string"),
        ("session.metadata", [], "the metadata of its session is not an object"),
        ("session.namespace", None, "the namespace of its session is not a string"),
        ("agents", {}, "its agents is not a list"),
        ("agents.0", None, "an agent is not an object"),
        ("agents.0.dialect", "x" * 33, "an agent has no agent_id or no dialect"),
        ("agents.0.main_name", 5, "the main_name of an agent is not a string"),
        (
            "session.session_type",
            "q\ud800",
            "session_type must not contain control characters or lone surrogates",
        ),
        (
            "agents.0.dialect",
            "q\0",
            "dialect must not contain control characters or lone surrogates",
        ),
        (
            "multi_agents",
            [{"multi_agent_id": "g", "kind": "q\ud800"}],
            "kind must not contain control characters or lone surrogates",
        ),
        ("multi_agents", [{}], "an orchestrator has no multi_agent_id or no kind"),
    ],
)
def test_a_session_that_is_odd_is_left_out(rich, file, where, value, reason):
    line, other = lines(export(file))
    forget()

    report = import_sessions(write(file, changed(line, where, value), other))

    assert reasons(report) == [("line 1", reason)]
    assert Session.objects.get().session_id == "empty"


@pytest.mark.parametrize(
    ("where", "value", "reason"),
    [
        ("id", 5, "its id is not a UUID"),
        ("message_id", True, "its branch or message_id is not an integer"),
        ("message_id", -1, "its branch or position is invalid or already used"),
        ("message_id", 2**31, "its branch or position is invalid or already used"),
        ("branch", 2**31, "its branch or position is invalid or already used"),
        ("created_at", 5, "its created_at is not a time"),
        (
            "corrupt",
            {"message": '{"$blob":{"sha256":"' + "0" * 64 + '","size":5}}'},
            "it consists of a binary that is not in the file",
        ),
        (
            "message",
            {"$blob": {"sha256": EMPTY, "size": 0, "prefix": "not a data URL"}},
            "its reference to a binary is invalid",
        ),
        (
            "message",
            {"$blob": {"sha256": "0" * 64, "size": 5}},
            "it consists of a binary that is not in the file",
        ),
    ],
)
def test_a_message_that_is_odd_is_left_out_and_the_others_are_not(
    store, agent, file, where, value, reason
):
    store.append_many(agent, [{"content": "a"}, {"content": "b"}])
    [line] = lines(export(file))
    line["blobs"] = [{"sha256": EMPTY, "data": {"$bytes": ""}}]
    forget()

    report = import_sessions(write(file, changed(line, f"agents.0.messages.0.{where}", value)))

    [(place, told)] = reasons(report)
    assert place.endswith("message 0")
    assert told == reason
    assert SessionMessage.objects.get().message == {"content": "b"}


def test_values_that_are_nested_too_deeply_for_something_hide_no_other_session(store, agent, file):
    store.append(agent, {"content": "X"})
    text = export(file)
    deep = []
    for depth in range(820, 1000, 6):
        nested = "[" * depth + "]" * depth
        named = text.replace('"session-1"', f'"{depth}"', 1)
        deep.append(named.replace('"content":"X"', f'"content":{nested}'))
        deep.append(named.replace('"state":{}', f'"state":{nested}'))
    forget()
    file.write_text("".join([*deep, text]))

    report = import_sessions(JsonLines(file))

    assert report.errors
    assert Session.objects.filter(session_id="session-1").exists()


def test_figures_and_times_that_no_database_has_are_not_taken(store, agent, file):
    store.append(agent, {"content": "a"})
    [line] = lines(export(file))
    for name in ("revision", "input_tokens", "output_tokens", "latency_ms"):
        changed(line, f"agents.0.messages.0.{name}", 10**30)
    changed(line, "agents.0.messages.0.created_at", "0001-01-01T00:00:00+14:00")
    changed(line, "session.redaction_epoch", -5)
    changed(line, "session.message_count", "many")
    changed(line, "session.expires_at", "9999-12-31T23:59:59-14:00")
    forget()

    assert import_sessions(write(file, line)).skips == 0

    row = SessionMessage.objects.select_related("session").get()
    assert (row.revision, row.input_tokens, row.latency_ms) == (0, None, None)
    assert row.created_at.year > 2000
    assert (row.session.redaction_epoch, row.session.message_count) == (0, 1)
    assert row.session.expires_at is None


@pytest.mark.parametrize("left_out", [None, "message", "agent"])
def test_an_import_that_skips_messages_counts_those_that_it_wrote(store, agent, file, left_out):
    def say(text: str) -> NewMessage:
        return NewMessage({"content": text}, usage=Usage(input_tokens=10, output_tokens=2, cost=5))

    other = store.agents.open(store.get("session-1"), "other")
    store.append_many(agent, [say("a"), say("b"), say("c")])
    store.append(other, say("d"))
    [line] = lines(export(file))
    changed(line, "session.cost", 40)
    # A removed message stays in the counters of its session.
    changed(line, "session.message_count", 9)
    changed(line, "session.input_tokens", 90)
    if left_out == "message":
        changed(line, "agents.0.messages.1.message", "x" * 70)
    if left_out == "agent":
        changed(line, "agents.1.agent_id", "default")
    forget()

    with override_settings(AGENT_SESSIONS={"MAX_PAYLOAD_BYTES": 60}):
        assert bool(import_sessions(write(file, line)).errors) == bool(left_out)

    session = Session.objects.get()
    figures = (session.message_count, session.input_tokens, session.output_tokens, session.cost)
    assert figures == ((3, 30, 6, 40) if left_out else (9, 90, 8, 40))


def test_whatever_numbers_a_file_has_the_session_can_be_written_and_redacted(store, agent, file):
    store.append(agent, {"role": "user", "content": "a plantedsecret"})
    [line] = lines(export(file))
    changed(line, "session.redaction_epoch", 2**31 - 1)
    changed(line, "session.message_count", 2**39)
    for name, value in (("revision", 2**31 - 1), ("message_id", 2**30)):
        changed(line, f"agents.0.messages.0.{name}", value)
    forget()

    assert import_sessions(write(file, line)).skips == 0

    session = store.get("session-1")
    assert session.usage.messages == 1
    [mine] = store.append_many(store.agents.open(session), [{"content": "mine"}])
    assert mine.message_id == 2**30 + 1
    assert redact(session.id, Find("plantedsecret"), reason="asked for").messages == 1
    assert (Session.objects.get().origin or {})["import"]["complete"]


@pytest.mark.parametrize(
    "window",
    [
        [1],
        {"tail": "x", "kept": []},
        {"tail": -5, "kept": []},
        {"tail": 2**70, "kept": []},
        {"tail": 1},
        {"tail": 1, "kept": None},
        {"tail": 1, "kept": [[0, 1], "x"]},
    ],
)
def test_a_window_that_is_none_is_told_and_the_agent_goes_on(store, agent, file, window):
    store.append(agent, {"content": "a"})
    [line] = lines(export(file))
    forget()

    report = import_sessions(write(file, changed(line, "agents.0.window", window)))

    assert reasons(report) == [("session 'session-1', agent 'default', window", "it is invalid")]
    found = store.agents.open(store.open("session-1"))
    assert [payload for _, payload, _ in store.messages.restore(found)] == [{"content": "a"}]


def _paths(value, path=()):
    yield path
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in inner:
            yield from _paths(item, (*path, key))


@pytest.mark.parametrize("odd", [{"$float": "NaN"}, {"$float": "-Infinity"}, {}, [[]], True, -1])
def test_what_is_odd_in_any_place_ends_no_import(rich, file, odd):
    line, other = lines(export(file))
    forget()
    odd_lines: list[dict] = []
    for path in _paths(line):
        if path and path[0] != "session_id":
            named = {**copy.deepcopy(line), "session_id": f"odd {len(odd_lines)}"}
            odd_lines.append(changed(named, ".".join(map(str, path)), odd))

    import_sessions(write(file, *odd_lines, other))

    assert len(odd_lines) > 100
    assert Session.objects.filter(session_id="empty").exists()
    for text in "".join(export_sessions(Session.objects.all())).splitlines():
        json.loads(text, parse_constant=pytest.fail)
