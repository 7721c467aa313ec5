"""What was redacted or held comes back as such, and an original not at all."""

from __future__ import annotations

import pytest

from django_agent_sessions.governance import legal_hold
from django_agent_sessions.interchange import JsonLines, import_sessions
from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from tests.texts import text_of

from .files import export, forget, lines, rows, write

pytestmark = pytest.mark.django_db


def test_a_legal_hold_stays_and_is_audited_and_its_copies_are_not_exported(store, agent, file):
    store.append_many(agent, [{"role": "user", "content": "plantedsecret"}, {"content": "b"}])
    legal_hold.hold(agent.session, reason="case 1")
    store.messages.redact(agent, 0, {"role": "user", "content": "[gone]"})
    store.messages.update(agent, 1, {"content": "c"})
    assert "plantedsecret" not in export(file)
    forget()

    import_sessions(JsonLines(file))

    session = Session.objects.get()
    assert session.legal_hold
    [event] = AuditEvent.objects.filter(session=session.pk, actor="agent_sessions_import")
    assert event.action == AuditEvent.Action.HELD
    first, second = SessionMessage.objects.order_by("message_id")
    assert first.redact_message == {"role": "user", "content": "[gone]"}
    assert text_of(first) == "[gone]"
    assert (second.message, second.redact_message) == ({"content": "c"}, None)


@pytest.mark.parametrize("is_redacted", [True, False])
def test_an_original_in_a_file_is_not_read(store, agent, file, is_redacted):
    store.append(agent, {"role": "user", "content": "plantedsecret"})
    if is_redacted:
        store.messages.redact(agent, 0, {"role": "user", "content": "[gone]"})
    else:
        store.messages.update(agent, 0, {"role": "user", "content": "[gone]"})
    [line] = lines(export(file))
    before = rows()
    [message] = line["agents"][0]["messages"]
    message["original"] = {"role": "user", "content": "plantedsecret"}
    forget()

    assert import_sessions(write(file, line)).skips == 0

    assert rows() == before
    assert "plantedsecret" not in str(rows())
    [row] = SessionMessage.objects.all()
    assert row.redact_message == (row.message if is_redacted else None)


def test_what_was_redacted_and_what_was_rewound_is_told_apart(store, agent, file):
    store.append_many(agent, [{"content": "a"}, {"content": "b"}, {"content": "c"}])
    store.branches.rewind(agent, 1)
    store.messages.redact(agent, 0, {"content": "[gone]"})
    store.branches.rewind(agent, 0)
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
