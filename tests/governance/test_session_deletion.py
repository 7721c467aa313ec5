from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import transaction
from django.utils import timezone

from django_agent_sessions.exceptions import LegalHoldError
from django_agent_sessions.governance import legal_hold, session_deletion
from django_agent_sessions.models import AuditEvent, Session, SessionMessage, deletion
from tests.store.conftest import reconnected  # noqa: F401 - a fixture
from tests.store.cutting import commit_lost, user

pytestmark = pytest.mark.django_db(transaction=True)


def deletions() -> list[tuple[str, dict]]:
    return [*AuditEvent.objects.filter(action="deleted").values_list("actor", "details")]


def test_a_deletion_is_recorded_once_with_actor_and_way_whatever_the_length(
    store, agent, ada, monkeypatch
):
    monkeypatch.setattr(deletion, "MAX_MESSAGES", 2)
    store.append_many(agent, [user(str(number)) for number in range(5)])

    assert session_deletion.delete(agent.session, actor=ada, via="api")

    assert deletions() == [("ada", {"via": "api", "messages": 5})]
    assert not Session.objects.exists()
    assert not SessionMessage.objects.exists()
    assert not session_deletion.delete(agent.session, actor=ada)
    assert not session_deletion.delete(uuid4(), actor=ada)


@pytest.mark.usefixtures("reconnected")
@pytest.mark.parametrize("length", [1, 5])
def test_a_deletion_whose_commit_was_not_confirmed_succeeds_and_is_recorded_once(
    store, agent, monkeypatch, length
):
    monkeypatch.setattr(deletion, "MAX_MESSAGES", 2)
    store.append_many(agent, [user("a")] * length)

    with commit_lost():
        assert session_deletion.delete(agent.session, actor="cleaner")

    assert deletions() == [("cleaner", {"messages": length})]
    assert not SessionMessage.objects.exists()


def test_a_refused_deletion_leaves_the_callers_transaction_usable(agent):
    legal_hold.hold(agent.session, reason="Case 7")

    with transaction.atomic():
        with pytest.raises(LegalHoldError):
            session_deletion.delete(agent.session)
        Session.objects.update(expires_at=timezone.now())

    assert Session.objects.get().expires_at is not None
    assert deletions() == []
