from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import sys
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from django_agent_sessions import holds, payloads
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.fields import CorruptPayload
from django_agent_sessions.ids import id_at
from django_agent_sessions.interchange import JsonLines, export_sessions, import_sessions
from django_agent_sessions.interchange.sources import Skipped, SourceSession
from django_agent_sessions.models import (
    AuditEvent,
    Blob,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)
from django_agent_sessions.records import AgentState
from django_agent_sessions.redaction import Find, WholeMessage, descendants_of, redact
from tests.strategies import exactly, json_values
from tests.test_fields import set_raw

pytestmark = pytest.mark.django_db

EMPTY = hashlib.sha256().hexdigest()
MODELS = (Session, SessionAgent, SessionMessage, SessionMultiAgent)


def rows() -> dict[str, list[str]]:
    """All there is, to the last column; of where a session came from only what was there before."""
    found = {}
    for model in MODELS:
        listed: list[Any] = list(model._base_manager.order_by("pk").values())
        for row in listed:
            # The mark of a writer that may still ask for it: none does elsewhere.
            row.pop("last_write", None)
            if row.get("origin"):
                row["origin"] = {k: v for k, v in row["origin"].items() if k != "import"} or None
        found[model.__name__] = [exactly(row) for row in listed]
    return found


def forget() -> None:
    """Empties the database, legal holds and all."""
    Session.objects.update(legal_hold=False)
    Session.objects.all().delete()


def export(path: Path, **options: Any) -> str:
    text = "".join(export_sessions(Session.objects.all(), **options))
    path.write_text(text)
    return text


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def write(path: Path, *values: Any) -> JsonLines:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return JsonLines(path)


def reasons(report) -> list[tuple[str, str]]:
    return [(skipped.place, skipped.reason) for skipped in report.skipped]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sessions.jsonl"


@pytest.fixture
def rich(store, ada):
    """A session with something in each column."""
    session = store.create(
        "talk/1", title="A title", metadata={"z": [1], "a": {"$bytes": 1}}, external_id="e 1"
    )
    state = AgentState({"b": b"\xff", "a": "\x00"}, {"n": 1}, [None], {"kept": [0], "tail": 2})
    agent = store.create_agent(session, "first", dialect="strands", data=state)
    store.create_agent(session, "second")
    run = uuid4()
    usage = {"usage": {"inputTokens": 7, "outputTokens": 5}, "metrics": {"latencyMs": 3}}
    store.append_many(
        agent,
        [
            {"role": "user", "content": [{"text": "\ud800 and \x00"}]},
            {"role": "assistant", "content": [{"text": "yes"}], "metadata": usage},
            {"content": [{"text": "kept"}], "role": "user"},
        ],
        run_id=run,
    )
    store.update_message(agent, 0, {"role": "user", "content": [{"text": "\ud800 or \x00"}]})
    store.redact_message(agent, 1, {"role": "assistant", "content": [{"text": "[gone]"}]})
    SessionMessage.objects.create(
        session_id=session.id,
        agent_id=agent.id,
        branch=2,
        message_id=5,
        message={"role": "user", "content": [{"text": "elsewhere"}]},
        role="user",
        text="elsewhere",
    )
    store.create_multi_agent(session, "g", {"nodes": [b"x"]}, kind="graph")
    store.update(session.id, archived=True, expires_at=timezone.now() + timedelta(days=9))
    Session.objects.filter(pk=session.id).update(origin={"fork": str(uuid4())}, message_count=9)
    store.open("empty")
    return session


def test_branches_come_back_with_their_names_and_copies(store, file):
    agent = store.open_agent(store.open("s"), dialect="strands")
    said = [{"role": "user", "content": [{"text": text}]} for text in "abcd"]
    store.append_many(agent, said)
    store.rewind(agent, 1, name="the other way")
    store.create_branch(agent, source=1, upto=3)
    before, lengths = rows(), [(b.name, b.length) for b in store.branches(agent)]
    assert "source" not in lines(export(file))[0]["agents"][0]["messages"][0]
    forget()

    report = import_sessions(JsonLines(file))

    assert report.skips == 0
    assert rows() == before
    agent = store.read_agent(store.get("s"), agent.agent_id)
    assert [(b.name, b.length) for b in store.branches(agent)] == lengths
    assert [store.common_length(agent, 0, number) for number in (1, 2)] == [2, 2]
    named = SessionMessage.objects.get(branch=0, message_id=1)
    redact(named.session_id, WholeMessage(named.pk), reason="r")
    assert SessionMessage.objects.filter(redacted_at__isnull=False).count() == 3


def test_an_imported_fork_is_a_session_of_its_own(store, file):
    session = store.open("s")
    store.append(store.open_agent(session), {"role": "user", "content": "a"})
    store.fork(session, session_id="fork")
    export(file)
    forget()

    assert import_sessions(JsonLines(file)).skips == 0

    assert descendants_of(store.get("s").id) == []
    assert not SessionMessage.objects.filter(source__isnull=False).exists()


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


def test_what_was_exported_comes_back_to_the_last_column(rich, file):
    text = export(file)
    before = rows()
    forget()

    report = import_sessions(JsonLines(file))

    assert (report.made, report.messages, report.skips) == (2, 4, 0)
    assert rows() == before
    # And out again, and in again.
    assert [line["agents"] for line in lines(export(file))] == [
        line["agents"] for line in lines(text)
    ]
    forget()
    assert import_sessions(JsonLines(file)).skips == 0
    assert rows() == before


def test_a_legal_hold_stays_and_is_audited_with_what_it_keeps(store, agent, file):
    store.append_many(agent, [{"role": "user", "content": "plantedsecret"}, {"content": "b"}])
    holds.hold(agent.session, reason="case 1")
    store.redact_message(agent, 0, {"role": "user", "content": "[gone]"})
    store.update_message(agent, 1, {"content": "c"})
    export(file, originals=True)
    forget()

    import_sessions(JsonLines(file))

    session = Session.objects.get()
    assert session.legal_hold
    [event] = AuditEvent.objects.filter(session=session.pk, actor="agent_sessions_import")
    assert event.action == AuditEvent.Action.HELD
    first, second = SessionMessage.objects.order_by("message_id")
    assert first.message == {"role": "user", "content": "plantedsecret"}
    assert first.redact_message == {"role": "user", "content": "[gone]"}
    assert first.text == "[gone]"
    assert second.redact_message == {"content": "c"}


def test_what_was_edited_under_legal_hold_comes_back_with_its_original_and_is_not_redacted(
    store, agent, file, settings
):
    store.append(agent, {"role": "user", "content": "first words"})
    holds.hold(agent.session, reason="case 1")
    store.update_message(agent, 0, {"role": "user", "content": "later words"})
    before = rows()[SessionMessage.__name__]
    with_original = export(file, originals=True)
    without = export(file.with_name("without.jsonl"))
    forget()

    assert import_sessions(write(file, *lines(with_original))).skips == 0
    assert rows()[SessionMessage.__name__] == before
    # Nothing of it is called redacted, here or in the file.
    assert SessionMessage.objects.get().redacted_at is None
    [message] = lines(without)[0]["agents"][0]["messages"]
    assert message["redacted"] is False
    assert "first words" not in without
    forget()
    # Where nothing is held, nothing is hidden.
    settings.AGENT_SESSIONS = {"REDACTION_KEEP_ORIGINAL": True}
    [line] = lines(with_original)
    import_sessions(write(file, changed(line, "session.legal_hold", False)))
    found = SessionMessage.objects.get()
    assert (found.message["content"], found.redact_message) == ("later words", None)
    assert "first words" not in str(rows())


def test_an_original_in_a_file_is_kept_only_where_originals_are(store, agent, file, settings):
    settings.AGENT_SESSIONS = {"REDACTION_KEEP_ORIGINAL": True}
    store.append(agent, {"role": "user", "content": "plantedsecret"})
    store.redact_message(agent, 0, {"role": "user", "content": "[gone]"})
    assert "plantedsecret" in export(file, originals=True)
    before = rows()
    forget()
    import_sessions(JsonLines(file))
    assert rows() == before
    forget()

    settings.AGENT_SESSIONS = {}
    import_sessions(JsonLines(file))

    assert "plantedsecret" not in str(rows())


messages = st.fixed_dictionaries(
    {
        "branch": st.integers(0, 2),
        "payload": json_values,
        "redacted": st.none() | json_values,
        "run_id": st.none() | st.uuids(version=4),
        "revision": st.integers(0, 2**30),
        "second": st.integers(0, 10**9),
        "tokens": st.none() | st.integers(0, 2**40 - 1),
    }
)


@given(state=json_values, found=st.lists(messages, max_size=6), gap=st.integers(1, 5))
@hypothesis_settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_conversation_comes_back_exactly(store, file, state, found, gap):
    forget()
    session = store.create("s", created_at=datetime(2020, 1, 1, tzinfo=UTC))
    agent = store.create_agent(session, "a", data=AgentState(state=state))
    for place, message in enumerate(found):
        said = datetime.fromtimestamp(message["second"], UTC)
        redacted = message["redacted"]
        row = SessionMessage(
            id=id_at(said, place),
            session_id=agent.session,
            agent_id=agent.id,
            branch=message["branch"],
            message_id=place * gap,
            message=message["payload"] if redacted is None else redacted,
            redact_message=redacted,
            redacted_at=None if redacted is None else said,
            redaction=None if redacted is None else uuid4(),
            run_id=message["run_id"],
            revision=message["revision"],
            input_tokens=message["tokens"],
            created_at=said,
            updated_at=said + timedelta(seconds=place),
        )
        row.save()
    export(file)
    before = rows()
    forget()

    report = import_sessions(JsonLines(file), batch=2)

    assert report.skips == 0
    # Text and role are read from the payload, which nobody did above.
    assert without_neutral(rows()) == without_neutral(before)


def without_neutral(found: dict[str, list[str]]) -> Any:
    import re

    return {
        name: [re.sub(r"'role': .*?, 'input_tokens'", "", row, flags=re.S) for row in listed]
        for name, listed in found.items()
    }


def test_what_was_corrupt_stays_as_it_was(store, agent, file):
    store.append_many(agent, [{"content": "a"}, {"content": "b"}])
    set_raw(0, '{"half\n\u2028')
    export(file)
    forget()

    assert import_sessions(JsonLines(file)).skips == 0

    assert SessionMessage.objects.get(message_id=0).message.text == '{"half\n\u2028'
    assert store.payloads(store.open_agent(store.open("session-1"))) == [{"content": "b"}]


def test_states_that_were_corrupt_are_left_out_and_told(rich, file):
    corrupt = CorruptPayload('{"half')
    SessionAgent.objects.filter(agent_id="first").update(state=corrupt)
    SessionMultiAgent.objects.update(state=corrupt)
    export(file)
    forget()

    report = import_sessions(JsonLines(file))

    assert reasons(report) == [
        ("session 'talk/1', agent 'first', state", "it is corrupt"),
        ("session 'talk/1', orchestrator 'g'", "its state is corrupt"),
    ]
    assert SessionAgent.objects.get(agent_id="first").state == {}
    assert not SessionMultiAgent.objects.exists()


def test_what_only_says_that_it_is_corrupt_is_a_message_like_any_other(
    store, agent, file, settings
):
    store.append(agent, {"content": "a"})
    [line] = lines(export(file))
    message = line["agents"][0]["messages"][0]
    message |= {"message": None, "corrupt": {"message": '{"content": "ada@example.org"}'}}
    forget()
    settings.AGENT_SESSIONS = {"REDACT_ON_WRITE": ["email"]}

    assert import_sessions(write(file, line)).skips == 0

    assert "example.org" not in str(rows())


def test_a_line_that_is_none_is_reported_with_its_number_and_hides_no_other(rich, file):
    text = export(file)
    before = rows()
    forget()
    first, second = text.encode().splitlines(keepends=True)
    odd = [
        b"plantedsecret\n",
        b"\n",
        b'{"format": "another"}\n',
        b'"django-agent-sessions"\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"format": "django-agent-sessions", "version": "1"}\n',
        b'{"format": "django-agent-sessions", "version": 1, "session": {"session_id": 1}}\n',
    ]
    # And the last one ends in the middle, as on a full disk.
    file.write_bytes(first + b"".join(odd) + second + first[:100])

    report = import_sessions(JsonLines(file))

    assert [skipped.place for skipped in report.skipped] == [
        f"line {number}" for number in (2, 4, 5, 6, 7, 8, 9, 11)
    ]
    assert "plantedsecret" not in str(report)
    assert report.made == 2
    assert rows() == before


def test_a_later_version_is_refused_before_anything_of_it_is_written(rich, file):
    one, other = lines(export(file))
    forget()

    with pytest.raises(ConfigurationError, match=r"^line 1 is version 2 .* reads up to 1: upgrade"):
        import_sessions(write(file, {**one, "version": 2}, other))

    assert not Session.objects.exists()


def changed(line: Any, where: str, value: Any) -> Any:
    """Sets what stands at a path like ``agents.0.messages.0.id``."""
    *path, last = [int(name) if name.isdigit() else name for name in where.split(".")]
    target = line
    for name in path:
        target = target[name]
    target[last] = value
    return line


@pytest.mark.parametrize(
    ("where", "value", "reason"),
    [
        ("session.created_at", "yesterday", "its created_at is no time"),
        ("session.id", "x", "its id is no UUID"),
        ("session.title", ["x"], "the title of its session is no text"),
        ("session.external_id", 5, "the external_id of its session is no text"),
        ("session.metadata", [], "the metadata of its session are no object"),
        ("session.namespace", None, "the namespace of its session is no text"),
        ("agents", {}, "its agents are no list"),
        ("agents.0", None, "an agent is no object"),
        ("agents.0.dialect", "x" * 33, "an agent has no agent_id or no dialect"),
        (
            "session.session_type",
            "q\ud800",
            "session_type must not hold control characters or lone surrogates",
        ),
        (
            "agents.0.dialect",
            "q\0",
            "dialect must not hold control characters or lone surrogates",
        ),
        (
            "multi_agents",
            [{"multi_agent_id": "g", "kind": "q\ud800"}],
            "kind must not hold control characters or lone surrogates",
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
        ("id", 5, "its id is no UUID"),
        ("message_id", True, "its branch or message_id is no number"),
        ("message_id", -1, "its branch or position cannot be one, or is taken"),
        ("message_id", 2**31, "its branch or position cannot be one, or is taken"),
        ("branch", 2**31, "its branch or position cannot be one, or is taken"),
        ("created_at", 5, "its created_at is no time"),
        (
            "corrupt",
            {"message": '{"$blob":{"sha256":"' + "0" * 64 + '","size":5}}'},
            "it refers to a binary that is not in the file",
        ),
        (
            "message",
            {"$blob": {"sha256": EMPTY, "size": 0, "prefix": "not a data URL"}},
            "it refers to a binary as no message does",
        ),
        (
            "message",
            {"$blob": {"sha256": "0" * 64, "size": 5}},
            "it refers to a binary that is not in the file",
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


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("prefix", [None, "", "data:image/png;base64,"])
def test_one_binary_that_is_named_very_often_does_not_fill_the_memory(
    store, agent, file, settings, stored, prefix
):
    settings.STORAGES = {**settings.STORAGES, "blobs": settings.STORAGES["default"]}
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_BYTES": 4_000_000}
    if stored:
        settings.AGENT_SESSIONS["BLOB_STORAGE"] = "blobs"
    store.append_many(agent, [{"content": "a"}, {"content": "b"}])
    [line] = lines(export(file))
    image = b"\x89PNG" + bytes(1_000_000)
    sha256 = hashlib.sha256(image).hexdigest()
    reference = {"sha256": sha256, "size": 1, **({} if prefix is None else {"prefix": prefix})}
    changed(line, "agents.0.messages.0.message", {"content": [{"$blob": reference}] * 200})
    line["blobs"] = [{"sha256": sha256, "data": {"$bytes": base64.b64encode(image).decode()}}]
    forget()
    source = write(file, line)

    tracemalloc.start()
    [(place, reason)] = reasons(import_sessions(source))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 32 * 1024 * 1024
    assert place.endswith("message 0")
    assert "larger together than MAX_PAYLOAD_BYTES" in reason
    assert SessionMessage.objects.get().message == {"content": "b"}


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
    [mine] = store.append_many(store.open_agent(session), [{"content": "mine"}])
    assert mine.message_id == 2**30 + 1
    assert redact(session.id, Find("plantedsecret"), reason="asked for").messages == 1
    assert (Session.objects.get().origin or {})["import"]["complete"]


def test_what_was_redacted_and_what_was_rewound_is_told_apart(store, agent, file):
    store.append_many(agent, [{"content": "a"}, {"content": "b"}, {"content": "c"}])
    store.rewind(agent, 1)
    store.redact_message(agent, 0, {"content": "[gone]"})
    store.rewind(agent, 0)
    [line] = lines(export(file))
    assert (line["session"]["redaction_epoch"], line["session"]["redactions"]) == (3, 1)

    def brought_back() -> tuple[int, int]:
        forget()
        assert import_sessions(write(file, line)).skips == 0
        row = Session.objects.get()
        return row.redaction_epoch, row.redactions

    assert brought_back() == (3, 1)
    line["session"]["redactions"] = 0
    assert brought_back() == (3, 0)
    # What cannot be one hides no redaction, nor does an older file, which has none.
    line["session"]["redactions"] = -5
    assert brought_back() == (3, 3)
    del line["session"]["redactions"]
    assert brought_back() == (3, 3)


@pytest.mark.parametrize(
    "window",
    [
        [1],
        {"tail": "x", "kept": []},
        {"tail": -5, "kept": []},
        {"tail": 2**70, "kept": []},
        {"tail": 1},
        {"tail": 1, "kept": None},
        {"tail": 1, "kept": [0, "x"]},
    ],
)
def test_a_window_that_is_none_is_told_and_the_agent_goes_on(store, agent, file, window):
    store.append(agent, {"content": "a"})
    [line] = lines(export(file))
    forget()

    report = import_sessions(write(file, changed(line, "agents.0.window", window)))

    assert reasons(report) == [("session 'session-1', agent 'default', window", "it cannot be one")]
    found = store.open_agent(store.open("session-1"))
    assert [payload for _, payload, _ in store.restore(found)] == [{"content": "a"}]


def test_keys_in_a_file_overwrite_nothing_and_stand_before_what_is_said_now(store, agent, file):
    mine = store.append_many(agent, [{"content": "mine"}, {"content": "too"}])
    [line] = lines(export(file))
    changed(line, "session.session_id", "other")
    ahead = UUID(int=mine[0].id.int | (2**47 << 80))
    changed(line, "agents.0.messages.1.id", str(ahead))
    before = rows()

    report = import_sessions(write(file, line))

    assert (report.made, report.messages, report.skips) == (1, 2, 0)
    after = rows()
    assert all(set(before[name]) < set(after[name]) for name in before if before[name])
    other = store.open_agent(store.open("other"))
    assert store.payloads(other) == [{"content": "mine"}, {"content": "too"}]
    assert not SessionMessage.objects.filter(pk=ahead).exists()


def test_two_messages_of_one_key_are_two_messages(store, agent, file):
    store.append_many(agent, [{"content": "a"}, {"content": "b"}])
    [line] = lines(export(file))
    changed(line, "agents.0.messages.1.id", line["agents"][0]["messages"][0]["id"])
    forget()

    assert import_sessions(write(file, line)).messages == 2
    assert SessionMessage.objects.count() == 2


def test_whom_a_file_names_as_owner_owns_nothing(store, agent, ada, file):
    Session.objects.update(owner=ada)
    export(file)
    forget()

    import_sessions(JsonLines(file))
    assert Session.objects.get().owner is None

    forget()
    import_sessions(JsonLines(file), owner=lambda found: found.columns["owner"]["id"])
    assert Session.objects.get().owner == ada


def test_an_external_id_that_its_owner_has_already_leaves_the_session_out(store, ada, file, rich):
    Session.objects.filter(pk=rich.id).update(owner=ada)
    export(file)

    report = import_sessions(JsonLines(file), owner=ada, namespace="other")

    assert (report.made, report.left_out) == (1, 1)
    assert Session.objects.filter(namespace="other").get().session_id == "empty"


def test_what_is_there_already_and_no_import_made_is_left_alone(rich, file):
    export(file)
    before = rows()

    report = import_sessions(JsonLines(file))

    assert (report.left_out, report.made) == (2, 0)
    assert rows() == before


def test_an_import_again_changes_nothing(rich, file):
    export(file)
    forget()
    import_sessions(JsonLines(file))
    before = rows()

    assert import_sessions(JsonLines(file)).unchanged == 2

    assert rows() == before


def test_files_may_be_compressed_or_come_by_the_standard_input(rich, file, monkeypatch):
    text = export(file)
    before = rows()
    packed = file.with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(text.encode()))
    forget()
    assert import_sessions(JsonLines(packed)).skips == 0
    assert rows() == before

    forget()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert import_sessions(JsonLines("-")).skips == 0
    assert rows() == before
    assert (JsonLines(file).count(), JsonLines(packed).count()) == (2, None)


def test_a_compressed_file_that_ends_too_early_is_reported(rich, file):
    packed = file.with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(export(file).encode())[:-20])
    forget()

    [skipped] = import_sessions(JsonLines(packed)).skipped

    assert "the file cannot be read" in skipped.reason


@pytest.mark.parametrize("ending", [b"\n", b""])
def test_a_line_that_would_fill_the_memory_is_skipped_without_being_in_it(rich, file, ending):
    text = export(file).encode()
    limit = max(len(line) for line in text.splitlines(keepends=True))
    packed = file.with_suffix(".jsonl.gz")
    long = b" " * 64 * 1024 * 1024
    with gzip.open(packed, "wb", compresslevel=1) as written:
        for part in (text, long, ending or b"\n", text if ending else long):
            written.write(part)
    del long
    forget()

    tracemalloc.start()
    report = import_sessions(JsonLines(packed, max_line_bytes=limit))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 16 * 1024 * 1024
    assert [skipped.place for skipped in report.skipped] == (
        ["line 3"] if ending else ["line 3", "line 4"]
    )
    assert f"it has more than {limit} bytes" in str(report)
    assert report.made == 2
    # One byte too many, and the next line is there.
    first, second = JsonLines(file, max_line_bytes=limit - 1).sessions()
    assert isinstance(first, Skipped)
    assert isinstance(second, SourceSession)
    assert second.session_id == "empty"


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigurationError, match="there is no file"):
        JsonLines(tmp_path / "none.jsonl")


def test_an_export_without_states_comes_in_without(rich, file):
    export(file, states=False)
    forget()

    assert import_sessions(JsonLines(file)).skips == 0

    assert {row.state == {} for row in SessionAgent.objects.all()} == {True}
    assert payloads.dumps(SessionMultiAgent.objects.get().state) == "{}"


def test_large_binaries_go_with_the_line_and_into_the_storage_that_there_is(
    store, agent, file, settings, tmp_path
):
    image = b"\x89PNG" + bytes(range(256)) * 100
    url = "data:image/png;base64," + base64.b64encode(image).decode()
    settings.STORAGES = {
        **settings.STORAGES,
        "blobs": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path / "blobs")},
        },
    }
    settings.AGENT_SESSIONS = {"BLOB_STORAGE": "blobs"}
    payloads_before = [
        {"role": "user", "content": [{"image": {"source": {"bytes": image}}}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": url}]},
        {"role": "user", "content": [{"image": {"source": {"bytes": b"plantedsecret" * 999}}}]},
    ]
    store.append_many(agent, payloads_before)
    store.redact_message(agent, 2, {"role": "user", "content": "[gone]"})
    text = export(file)
    [line] = lines(text)
    assert [blob["sha256"] for blob in line["blobs"]] == [hashlib.sha256(image).hexdigest()]
    assert len(text) < 1.5 * len(image)
    before = rows()
    forget()

    assert import_sessions(JsonLines(file)).skips == 0

    assert rows() == before
    agent = store.open_agent(store.open("session-1"))
    assert store.payloads(agent)[:2] == payloads_before[:2]
    [blob] = Blob.objects.all()
    assert blob.references.count() == 2
    # Where there is no storage, they are in the messages.
    forget()
    settings.AGENT_SESSIONS = {}
    assert import_sessions(JsonLines(file)).skips == 0
    agent = store.open_agent(store.open("session-1"))
    assert store.payloads(agent)[:2] == payloads_before[:2]
    assert not Blob.objects.exists()
    # And whoever damages one has taken its messages away.
    forget()
    line["blobs"][0]["data"] = {"$bytes": "AAAA"}
    assert import_sessions(write(file, line)).skips == 2
