"""The check reports what cannot be decrypted, and checks everything else."""

from __future__ import annotations

import io
from collections.abc import Callable
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db.models import Model

from django_agent_sessions.content import codec
from django_agent_sessions.models import (
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentState
from tests.encryption.test_broken_places import stored, write
from tests.integrity.conftest import impatient
from tests.integrity.healthy import TEXTS, said
from tests.integrity.running import check
from tests.integrity.steps import take
from tests.sealed import update_content

__all__ = ["impatient"]

pytestmark = pytest.mark.django_db(transaction=True)

COLUMNS = {
    "a message": (SessionMessage, "message", "corrupt"),
    "a state": (SessionAgent, "state", "corrupt-state"),
    "a window": (SessionAgent, "window", "corrupt-state"),
    "a snapshot": (Snapshot, "document", "corrupt-state"),
    "the messages of a snapshot": (Snapshot, "messages", "corrupt-state"),
    "an orchestrator": (SessionMultiAgent, "state", "corrupt-state"),
    "a title": (Session, "title", "corrupt-state"),
    "metadata": (Session, "metadata", "corrupt-state"),
}


WORDS = "hunter2"


@pytest.fixture
def talks(encrypt, ada):
    """Two sessions with everything that is encrypted and checked."""
    encrypt(METADATA=True)
    mine = SessionStore(owner=ada)
    for name in ("one", "two"):
        session = mine.open(name, title=WORDS, metadata={"note": WORDS})
        data = AgentState({"note": WORDS})
        agent = mine.agents.open(session, "a", dialect="strands", data=data)
        mine.append_many(agent, [said(f"{WORDS} {text}") for text in TEXTS])
        mine.messages.redact(agent, 1, said(f"{WORDS} is removed"))
        rows = SessionAgent.objects.filter(pk=agent.id)
        update_content(rows, {"window": {"tail": 5, "kept": [[0, 5]]}})
        mine.snapshots.take(agent)
        mine.multi_agents.create(session, "g", {"note": WORDS})
    return mine


def damage(model: type[Model], column: str) -> UUID:
    """Truncates the first value that is not empty; returns its session."""
    values = stored(model, column)
    index = next(number for number, value in enumerate(values) if value)
    end = -1 if values[index].startswith('"') else None
    values[index] = values[index][:-9] + (values[index][end:] if end else "")
    write(model, column, values)
    path = "pk" if model is Session else "session"
    session: UUID = model._default_manager.order_by("pk").values_list(path, flat=True)[index]
    return session


@pytest.mark.parametrize("place", COLUMNS)
def test_a_value_that_cannot_be_decrypted_is_a_finding(talks, place):
    model, column, code = COLUMNS[place]
    second = talks.get("two")
    take(talks.agents.open(second, "a", dialect="strands"), 2)
    session = damage(model, column)

    found, summary = check()

    assert session != second.id
    wanted = [(code, str(session))]
    assert [(each["code"], each["session"]) for each in found if each["code"] == code] == wanted
    assert code == "corrupt" or found[0]["detail"] == column
    assert {"gap", code} <= {each["code"] for each in found if each["severity"] != "note"}
    assert summary["sessions"] == 2
    assert WORDS not in str(found)


@pytest.mark.parametrize("place", COLUMNS)
def test_a_repair_continues_with_other_sessions(talks, place):
    model, column, code = COLUMNS[place]
    for name in ("one", "two"):
        Session.objects.filter(session_id=name).update(message_count=9)
    session = damage(model, column)

    found, summary = check("--fix")

    counters = {each["session"]: each for each in found if each["code"] == "counters"}
    assert counters[str(talks.get("two").id)]["mended"]
    assert counters[str(session)]["mended"] or "decrypted" in counters[str(session)]["left"]
    assert code in {each["code"] for each in found}
    assert summary["found"]["counters"] == 2


def test_a_gap_beside_a_message_that_cannot_be_decrypted_is_closed(talks):
    agent = talks.agents.open(talks.get("one"), "a", dialect="strands")
    take(agent, 2)
    damage(SessionMessage, "message")

    assert "gap" in [each["code"] for each in check("--fix")[0] if each["mended"]]
    assert [each["code"] for each in check()[0] if each["severity"] == "error"] == ["corrupt"]


def test_the_output_has_keys_and_no_content(talks):
    damage(SessionMessage, "message")
    damage(Session, "title")
    (text, *_) = stored(SessionMessage, "message")
    out = io.StringIO()

    with pytest.raises(CommandError, match="2 findings left"):
        call_command("agent_sessions_check", stdout=out, stderr=io.StringIO())

    assert "error   corrupt: a message's payload cannot be read session" in out.getvalue()
    assert "error   corrupt-state: a state or snapshot cannot be read (title)" in out.getvalue()
    assert WORDS not in out.getvalue()
    assert text[45:60] not in out.getvalue()


@pytest.mark.parametrize("options", [(), ("--fix",)])
def test_rows_that_are_not_encrypted_yet_stay_and_are_counted(encrypt, ada, options):
    mine = SessionStore(owner=ada)

    def write() -> None:
        agent = mine.agents.open(mine.open("s"), "a", dialect="strands")
        mine.append_many(agent, [said(text) for text in TEXTS])

    with_plain_text(write)
    encrypt()
    before = stored(SessionMessage, "text")
    assert all(before)

    found, summary = check(*options)

    assert [(each["code"], each["detail"]) for each in found] == [
        ("not-encrypted", f"{len(TEXTS)} messages")
    ]
    assert summary["left"] == 1
    assert stored(SessionMessage, "text") == before
    call_command("agent_sessions_encrypt", "encrypt", stdout=io.StringIO(), stderr=io.StringIO())
    assert check() == ([], {**summary, "found": {}, "left": 0})


@pytest.mark.parametrize("options", [(), ("--fix",)])
def test_rows_that_are_still_encrypted_get_no_plain_text(talks, encrypt, options):
    encrypt(METADATA=True, DECRYPT_ONLY=True)

    found, _ = check(*options)

    assert not {"neutral-columns", "not-encrypted"} & {each["code"] for each in found}
    assert not any(stored(SessionMessage, "text"))


def test_plain_text_beside_an_encrypted_payload_is_removed(talks):
    write(SessionMessage, "text", [WORDS for _ in stored(SessionMessage, "text")])

    mended, _ = check("--fix")

    assert {each["code"] for each in mended if each["mended"]} == {"neutral-columns"}
    assert not any(stored(SessionMessage, "text"))


def with_plain_text(work: Callable[[], object]) -> None:
    """Does some work before the setting exists, also if all tests are encrypted."""
    before = codec.install(None)
    try:
        work()
    finally:
        codec.install(before)
