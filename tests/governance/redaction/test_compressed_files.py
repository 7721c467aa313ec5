"""A redaction reaches compressed files, and names those that it did not search."""

from __future__ import annotations

import gzip

import pytest

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import SessionMessage
from tests.content.masking.test_compressed import FILES, NOT_SEARCHED

pytestmark = pytest.mark.django_db


def attached(data: bytes, name: str = "docx") -> dict[str, object]:
    block = {"document": {"format": name, "name": "a", "source": {"bytes": data}}}
    return {"role": "user", "content": [{"text": "Read this."}, block]}


@pytest.mark.parametrize("name", ["docx", "pdf", "gzip"])
def test_a_message_stays_valid_without_its_file(store, name):
    agent = store.agents.open(store.open("s"), dialect="strands")
    store.append(agent, attached(FILES[name]))

    done = redact(agent.session, Find("hunter2"), reason="r")

    assert (done.total, done.messages, done.unread) == (1, 1, [])
    (payload,) = store.payloads(agent)
    text, block = payload["content"]
    assert text == {"text": "Read this."}
    assert "document" not in block or b"REDACTED" in block["document"]["source"]["bytes"]
    assert "REDACTED" in str(block)
    assert FILES[name] not in [SessionMessage.objects.get().message]
    assert redact(agent.session, Find("hunter2"), reason="r").total == 0


def test_a_file_in_a_state_is_replaced(store):
    session = store.open("s")
    store.multi_agents.create(session, "g", {"id": "g", "file": gzip.compress(b"hunter2")})

    assert redact(session.id, Find("hunter2"), reason="r").states == 1
    assert store.multi_agents.find(session, "g").state["file"] == b"[REDACTED]"


def test_files_that_were_not_searched_are_named(store):
    agent = store.agents.open(store.open("s"), dialect="strands")
    store.append_many(agent, [attached(NOT_SEARCHED["encrypted"]), attached(FILES["docx"])])

    preview = redact(agent.session, Find("another"), reason="", dry_run=True)

    assert (preview.total, [place.name for place in preview.unread]) == (0, ["0"])
    assert preview.unread[0].path == ("content", 1, "document", "source", "bytes")
    assert "docx" not in str(preview.unread[0])
