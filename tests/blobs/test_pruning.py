"""A session that is deleted after its retention time takes its files with it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from django_agent_sessions.governance.retention import prune
from django_agent_sessions.models import Blob, Session
from django_agent_sessions.store import SessionStore

from .messages import image, picture, user

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_files_of_expired_sessions_go_and_those_of_others_stay(store, stored):
    keys = {}
    for name in ("first", "second", "stays"):
        session = store.open(name)
        keys[name] = session.id
        agent = SessionStore().agents.open(session, dialect="strands")
        store.append(agent, user(image(picture())))
    assert len(stored()) == 3
    expired = Session.objects.exclude(session_id="stays")
    expired.update(expires_at=timezone.now() - timedelta(days=1))

    assert prune().sessions.total() == 2

    assert len(stored()) == 1
    assert Blob.objects.get().session_id == keys["stays"]
