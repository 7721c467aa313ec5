"""MariaDB and MySQL keep tables in the character set that their database has, or had."""

from __future__ import annotations

import pytest
from django.core.checks import CheckMessage
from django.db import connection

from django_agent_sessions.checks import check_character_sets
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.testing import error_texts

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        connection.vendor != "mysql", reason="others have one set, with all letters"
    ),
]
SMILE = "plantedsecret \N{GRINNING FACE} plantedsecret"


def found() -> list[CheckMessage]:
    return check_character_sets(None, databases=["default"])


def run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def mend() -> None:
    """Does what the check says."""
    for message in found():
        for statement in str(message.hint).splitlines()[1:]:
            run(statement)


@pytest.fixture(autouse=True)
def mended():
    yield
    mend()


def columns() -> dict[tuple[str, str], tuple]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name, column_type, is_nullable, character_set_name,"
            " column_default FROM information_schema.columns WHERE table_schema = DATABASE()"
            " AND table_name LIKE 'agent_sessions_%%'"
        )
        return {(table, column): tuple(rest) for table, column, *rest in cursor.fetchall()}


def test_what_has_no_emoji_is_told_with_what_mends_it_and_no_more(store, agent):
    assert found() == []
    before = columns()
    for table in ("message", "agent"):
        run(f"ALTER TABLE agent_sessions_session{table} CONVERT TO CHARACTER SET utf8mb3")
    assert columns() != before

    with pytest.raises(PayloadError, match="check --database default") as refusal:
        store.append(agent, {"role": "user", "content": SMILE})
    assert "plantedsecret" not in error_texts(refusal.value)
    [told] = found()
    assert told.id == "agent_sessions.W010"
    assert "agent_sessions_sessionmessage.text" in told.msg

    mend()
    assert found() == []
    assert columns() == before
    store.append(agent, {"role": "user", "content": SMILE})
    assert store.payloads(agent) == [{"role": "user", "content": SMILE}]


def test_a_conversion_that_makes_two_ids_one_is_told_with_what_mends_it(store):
    run("ALTER TABLE agent_sessions_session CONVERT TO CHARACTER SET utf8mb4")
    assert store.open("a").id == store.open("A").id

    [told] = found()
    assert told.id == "agent_sessions.W011"
    assert "agent_sessions_session.session_id" in told.msg

    mend()
    assert found() == []
    assert store.open("a").id != store.open("A").id
