"""One redaction removes a secret in every spelling, encoding and file from everything stored."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import AuditEvent, SessionMessage
from django_agent_sessions.models.content_columns import content_models
from django_agent_sessions.testing import columns_containing, files_containing
from django_agent_sessions.values.records import AgentState

from .planted_spellings import FILES, SECRET, TEXTS, UNREAD

pytestmark = pytest.mark.django_db(transaction=True)


def attached(data: bytes) -> Any:
    return {"document": {"format": "pdf", "name": "a", "source": {"bytes": data}}}


def message(*blocks: Any) -> Any:
    return {"role": "user", "content": [{"text": "so"}, *blocks]}


def test_one_redaction_reaches_every_spelling_and_file(upstream_sqlite, store, caplog):
    texts = {name: spell(SECRET) for name, spell in TEXTS.items()}
    files = {name: make(SECRET) for name, make in FILES.items()}
    assert len(texts) + len(files) >= 40
    session = store.open("s", title=f"About {SECRET}", metadata=dict(texts))
    state = AgentState(state={"texts": dict(texts), "files": dict(files)})
    agent = store.agents.open(session, dialect="strands", data=state)
    store.append_many(agent, [message({"text": f"it is {text} here"}) for text in texts.values()])
    store.append_many(agent, [message(attached(data)) for data in files.values()])
    unread = store.append_many(agent, [message(attached(data)) for data in UNREAD.values()])
    store.multi_agents.create(session, "graph", {"id": "graph", "said": list(texts.values())})
    store.snapshots.take(agent)
    caplog.set_level(logging.DEBUG)
    logging.getLogger("django.db.backends").setLevel(logging.INFO)

    done = redact(session.id, Find(SECRET), reason=f"the text {texts['base64']}")

    payloads = store.payloads(agent)
    for (name, text), payload in zip(texts.items(), payloads, strict=False):
        assert payload["content"][1]["text"].startswith("it is "), name
        assert "[REDACTED]" in payload["content"][1]["text"], name
        assert text.strip() not in str(payload), name
    for (name, data), payload in zip(files.items(), payloads[len(texts) :], strict=False):
        assert data not in [block.get("document") for block in payload["content"]], name
        assert repr(data)[2:-1] not in str(payload), name
    left = [columns_containing(text) for text in texts.values() if len(text) < 500]
    assert not any(left), left
    for spelled in (SECRET, SECRET.upper(), texts["base64"], texts["%41"], texts["\\u0041"]):
        assert files_containing(spelled) == []
        assert spelled not in caplog.text
    everything = str([list(model._base_manager.values()) for model in content_models()])
    assert SECRET not in everything
    assert AuditEvent.objects.get(action="redacted").reason == "the text [REDACTED]"
    assert {place.key for place in done.unread if place.kind == "message"} == {
        row.id for row in unread
    }
    assert redact(session.id, Find(SECRET), reason="r").total == 0
    assert SessionMessage.objects.filter(redacted_at=None).count() == len(UNREAD)
