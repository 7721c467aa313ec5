"""Payloads that left out the text of their row, as 0.1.0 stored them, get it back."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import Value

from django_agent_sessions.content import exact_json
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.content_field import SealedText
from tests.strategies import exactly

pytestmark = pytest.mark.django_db(transaction=True)

migration = importlib.import_module("django_agent_sessions.migrations.0022_whole_payloads")

MESSAGE = SessionMessage._meta.get_field("message")
PLAIN = "the words of a message, long enough é 日"
ESCAPES = 'several lines\n\n* with "quotes"\n* and \\ and \t and \r too, \U0001f600'


def share(text: str) -> None:
    """Store each payload with this text as 0.1.0 did."""
    whole = exact_json.dumps(text)
    mark = f"\x1e{len(text.encode())}\x1e"
    if whole == f'"{text}"':
        mark = f'"{mark}"'.replace("\x1e", "\x1f")
    rows = SessionMessage.objects.filter(text=text)
    for key, payload in rows.values_list("pk", "message"):
        shared = exact_json.dumps(payload).replace(whole, mark)
        rows.filter(pk=key).update(message=Value(SealedText(shared), output_field=MESSAGE))


@pytest.mark.parametrize("batch", [1, 2_000])
def test_payloads_that_left_out_their_text_are_whole_again(store, agent, monkeypatch, batch):
    payloads = [
        {"role": "user", "content": text, "of": [text, number]}
        for text in (PLAIN, ESCAPES)
        for number in range(2)
    ] + [{"role": "user", "content": "short \\u001f \x1e"}]
    store.append_many(agent, payloads)
    share(PLAIN)
    share(ESCAPES)
    legal_hold.hold(agent.session, reason="case 1")
    monkeypatch.setattr(migration, "_BATCH", batch)

    for _ in range(2):  # Run again, it changes nothing.
        migration.store_whole_payloads(apps, SimpleNamespace(connection=connection))

        assert exactly(store.payloads(agent)) == exactly(payloads)
