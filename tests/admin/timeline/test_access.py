"""Nobody is offered what they may not do, or shown what they may not read; readers are recorded."""

from __future__ import annotations

import pytest

from django_agent_sessions.models import Session
from tests.admin.people import staff
from tests.admin.transcripts import said, shown

from .pages import Action, confirmed, events, key, url

pytestmark = pytest.mark.django_db


def test_whoever_may_not_read_sees_figures_and_can_still_go_back(client, talker, store):
    client.force_login(staff("operator", "view_session", "change_session"))
    store.append(talker, said("user", "plantedword"))

    asked = shown(client, url(talker, "rewind", key(talker, 2)))
    assert "4 messages after it" in asked
    page = confirmed(client, url(talker, "rewind", key(talker, 2)))
    compared = shown(client, url(talker, "compare", left=0, right=1))
    side = shown(client, url(talker, "change", agent=talker.id, branch=1))
    for text in (asked, page, compared, side):
        assert "plantedword" not in text
        assert "word 1" not in text
        assert "/fork/" not in text
    assert compared.count("[hidden]") == 4
    assert events(Action.READ) == []


def test_what_nobody_may_is_not_offered(client, talker, store):
    client.force_login(staff("reader", "view_session", "read_transcript"))
    store.branches.rewind(talker, 2)
    store.snapshots.take(talker)

    for address in (
        url(talker, "change"),
        url(talker, "change", agent=talker.id, branch=1),
        url(talker, "branches"),
        url(talker, "snapshots"),
    ):
        page = shown(client, address)
        for link in ("/fork/", "/rewind/", "/restore/", "/delete/", "/take/"):
            assert link not in page, (address, link)


def test_a_comparison_is_recorded_unless_it_is_ones_own(client, traveller, talker, store):
    store.branches.rewind(talker, 2)
    shown(client, url(talker, "compare", left=0, right=1))
    (event,) = events(Action.READ)
    first, last = str(key(talker, 3, 1)), str(key(talker, 5, 1))
    assert event.details == {"page": "compare", "messages": 3, "first": first, "last": last}

    Session.objects.update(owner=traveller)
    shown(client, url(talker, "compare", left=0, right=1))
    assert len(events(Action.READ)) == 1
