"""A stored payload leaves out the text of its row, and every reader gets it whole."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from django_agent_sessions.content import exact_json
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.models.functions import OctetLength
from django_agent_sessions.models.shared_text import ESCAPED, has_marker, with_text, without_text
from django_agent_sessions.models.stored_text import VISIBLE_TEXT
from tests.strategies import exactly

pytestmark = pytest.mark.django_db

PLAIN = "the words of a message, long enough to be stored once"
ESCAPES = 'several lines\n\n* with "quotes"\n* and \\ and \t and \r too, é 日 \U0001f600'

_characters = st.characters(codec=None, exclude_categories=())
_texts = st.one_of(
    st.text(_characters, min_size=25, max_size=60),
    st.text(st.sampled_from('ab"\\\n\r\t\b\f\x1e\x1f\x7f\x00é日\U0001f600\ud800'), min_size=30),
    st.sampled_from([PLAIN, ESCAPES, f'{PLAIN}","{PLAIN}', "53" * 20, "\U0001f600" * 4_000]),
)


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


@given(text=_texts)
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_text_is_read_exactly_wherever_it_stands(agent, store, text):
    store.clear(agent)
    payloads = [user(text), user([{"type": "text", "text": text}]), {**user(text), text: [text]}]
    store.append_many(agent, payloads)
    rows = SessionMessage.objects.order_by("message_id")

    assert exactly(store.payloads(agent)) == exactly(payloads)
    assert exactly(list(rows.values_list("message", flat=True))) == exactly(payloads)
    assert exactly([row.message for row in rows]) == exactly(payloads)
    sizes = [len(exact_json.dumps(payload).encode()) for payload in payloads]
    assert list(rows.values_list(OctetLength(VISIBLE_TEXT), flat=True)) == sizes
    assert exactly(store.pop(agent)) == exactly(payloads[-1])


def test_every_character_is_escaped_by_the_database_as_in_a_payload():
    # NUL and surrogates are in no column `text`.
    points = [chr(point) for point in range(1, 0x110000) if not 0xD800 <= point <= 0xDFFF]
    size = 4096
    for start in range(0, len(points), size):
        text = "".join(points[start : start + size]) + ESCAPES
        characters = "".join(c for c in text if ord(c) >= 32 or c in "\n\r\t")
        payload = exact_json.dumps(characters)
        stored = without_text(payload, characters)
        assert stored.startswith(ESCAPED)
        sql = with_text(connection.vendor, "s.p", "s.t")
        with connection.cursor() as cursor:
            cast = "::text" if connection.vendor == "postgresql" else ""
            cursor.execute(
                f"SELECT {sql} FROM (SELECT %s{cast} AS p, %s{cast} AS t) s", [stored, characters]
            )
            assert cursor.fetchone()[0] == payload


@pytest.mark.parametrize("text", [PLAIN, ESCAPES])
def test_the_words_of_a_message_are_stored_once(store, agent, text):
    payloads = [
        user(text),
        user([{"type": "output_text", "text": text}]),
        {**user(text), "name": "\U0001f600" * 15_000},
    ]
    store.append_many(agent, payloads)

    assert [stored.count(exact_json.dumps(text)[1:-1]) for stored in _stored("message")] == [0] * 3
    assert _stored("text") == [text] * 3
    assert store.payloads(agent) == payloads


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (user("short"), "the marker would be as long"),
        (user("long " * 5_000), "its size and beginning are read without the whole"),
        (user(f"{PLAIN}\n\x0b"), "MariaDB escapes a vertical tab in another way"),
        (user(f"{PLAIN}\ud800"), "the column has no lone surrogate"),
        (user([{"type": "text", "text": PLAIN}] * 2), "the column has both texts, a line each"),
    ],
)
def test_some_payloads_are_stored_whole(store, agent, payload, reason):
    store.append(agent, payload)
    assert _stored("message") == [exact_json.dumps(payload)], reason
    assert exactly(store.payloads(agent)) == exactly([payload])


@pytest.mark.parametrize("text", [PLAIN, ESCAPES])
def test_a_redaction_keeps_no_byte_of_the_original(store, agent, text):
    store.append(agent, user(f"{text} secret-word"))

    redact(agent.session, Find("secret-word"), reason="a test")

    row = SessionMessage.objects.get()
    assert row.message == row.redact_message
    assert "secret-word" not in row.text + json.dumps(row.redact_message)
    assert "secret-word" not in str(_stored("message"))
    assert not _has_marker()


@pytest.mark.parametrize("text", [PLAIN, ESCAPES])
def test_a_new_text_leaves_the_payload_as_it_was(store, agent, text):
    store.append(agent, user(text))
    rows = SessionMessage.objects.all()
    found = rows.get()

    ways = [
        lambda: rows.update(text="other"),
        lambda: rows.update(text=F("role"), role="x"),
        lambda: rows.update(text="other"),
        lambda: rows.bulk_update([_changed(found)], ["text"]),
        lambda: _changed(found).save(update_fields=["text"]),
        lambda: _changed(rows.defer("message").get()).save(),
        lambda: rows.update_or_create(defaults={"text": "other"}, pk=found.pk),
    ]
    for number, write in enumerate(ways):
        store.clear(agent)
        store.append(agent, user(text))
        found = rows.get()
        assert _has_marker()
        write()
        assert store.payloads(agent) == [rows.get().message] == [user(text)], number
        assert rows.get().text != text


def test_a_payload_whose_text_was_changed_or_lost_is_corrupt(store, agent):
    store.append_many(agent, [user(PLAIN), user(ESCAPES)])
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {SessionMessage._meta.db_table} SET text = 'lost'")

    assert [type(row.message) for row in SessionMessage.objects.all()] == [CorruptPayload] * 2


def test_a_copy_shares_its_own_text(store, agent):
    store.append_many(agent, [user(PLAIN), user(ESCAPES)])
    fork = store.sessions.fork(store.get("session-1"), session_id="fork")

    assert store.payloads(store.agents.find(fork, "default")) == [user(PLAIN), user(ESCAPES)]
    assert all(has_marker(stored) for stored in _stored("message"))


def test_payloads_are_searched_whole(store, agent):
    store.append_many(agent, [user(PLAIN), user(ESCAPES)])
    found = SessionMessage.objects.filter

    assert found(message__contains='"content":"the words').count() == 1
    assert found(message__contains=r"lines\n\n* with \"quotes\"").count() == 1
    assert found(text__contains='with "quotes"').count() == 1


def test_the_documented_expression_reads_whole_payloads(store, agent):
    store.append_many(agent, [user(PLAIN), user(ESCAPES), user("short")])
    page = Path("docs/discussions/data-model.md").read_text(encoding="utf-8")
    name = {"postgresql": "PostgreSQL", "sqlite": "SQLite", "mysql": "MariaDB and MySQL"}
    _, _, after = page.partition(f"-- {name[connection.vendor]}\n")
    expression = re.split(r"\n\n|\n```", after)[0]

    whole = [exact_json.dumps(user(text)) for text in (PLAIN, ESCAPES, "short")]
    assert _stored(expression) == whole


def _changed(row: SessionMessage) -> SessionMessage:
    row.text = "other"
    return row


def _has_marker() -> bool:
    return any(map(has_marker, _stored("message")))


def _stored(column: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {column} FROM {SessionMessage._meta.db_table} ORDER BY branch, message_id"
        )
        return [value for (value,) in cursor.fetchall()]
