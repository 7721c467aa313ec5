"""Branches are listed, compared, restored and deleted, unless a legal hold keeps them."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from django_agent_sessions.governance.legal_hold import hold
from django_agent_sessions.models import Branch, SessionMessage
from tests.admin.transcripts import said, shown

from .pages import Action, confirmed, events, first, key, url, words

pytestmark = pytest.mark.django_db


def test_branches_are_listed_compared_restored_and_deleted(client, traveller, talker, store):
    store.branches.rewind(talker, 2)
    store.append(talker, said("user", "word x"))

    page = shown(client, url(talker, "branches"))
    for text in ("main", "branch-1", "kept by a rewind", "3 of its own", "message 3"):
        assert text in page

    page = shown(client, url(talker, "compare", left=0, right=1))
    assert "The first 3 messages are the same on both branches." in page
    assert "word 2" not in page
    assert page.index("word x") < page.index("word 3") < page.index("word 5")

    page = confirmed(client, url(talker, "branch_restore", talker.id, 1))
    assert "Branch branch-1 was restored. The former main branch is now branch-2." in page
    assert words(talker) == list("012345")
    assert words(talker, 2) == list("012x")
    (event,) = events(Action.RESTORED)
    assert event.details == {"branch": 1, "left": 2}

    asked = shown(client, url(talker, "branch_delete", talker.id, 2))
    assert "Branch branch-2 of agent planner will be deleted, with its 4 messages." in asked
    page = confirmed(client, url(talker, "branch_delete", talker.id, 2))
    assert "Branch branch-2 was deleted." in page
    assert not Branch.objects.exists()
    (event,) = events(Action.BRANCH_DELETED)
    assert event.details == {"branch": 2, "messages": 4}


def test_every_link_of_a_high_branch_leads_there_where_numbers_are_written_with_points(
    client, traveller, talker, store, settings
):
    settings.LANGUAGE_CODE, settings.USE_THOUSAND_SEPARATOR = "de", True
    store.branches.rewind(talker, 2)
    for model in (Branch, SessionMessage):
        number = "number" if model is Branch else "branch"
        model.objects.filter(agent=talker.id, **{number: 1}).update(**{number: 1234})

    page = shown(client, url(talker, "branches"))
    page += shown(client, url(talker, "compare", left=0, right=1234))
    page += shown(client, f"{url(talker, 'change')}?agent={talker.id}&branch=1234")
    addresses = re.findall(r'(?:href|value)="([^"]*)"', page)
    assert sum("1234" in address for address in addresses) > 5
    assert not any("1.234" in address for address in addresses)


def test_under_legal_hold_no_branch_is_deleted_and_it_is_said_why(client, traveller, talker, store):
    store.branches.rewind(talker, 2)
    address = url(talker, "branch_delete", talker.id, 1)
    seen = first(r'name="seen" value="([^"]*)"', shown(client, address))
    hold(talker.session, reason="case 1")

    assert "under legal hold" in shown(client, address)
    answer = client.post(address, {"seen": seen})
    assert answer.status_code == 200
    assert "under legal hold" in answer.content.decode()
    assert words(talker, 1) == list("012345")
    assert events(Action.BRANCH_DELETED) == []
    # What loses nothing is allowed.
    confirmed(client, url(talker, "branch_restore", talker.id, 1))
    confirmed(client, url(talker, "rewind", key(talker, 0)))
    assert words(talker) == ["0"]


def test_many_branches_are_paged(client, traveller, talker, store):
    for _number in range(53):
        store.branches.create(talker, upto=1)

    newest = shown(client, url(talker, "branches"))
    assert "branch-53<" in newest
    assert "branch-3<" not in newest
    older = first(r'href="([^"]*before=[^"]*)"', newest)
    second = shown(client, older)
    assert "branch-3<" in second
    assert "branch-4<" not in second


def test_a_session_without_agents_has_no_branches(client, traveller, session):
    address = reverse("admin:agent_sessions_session_branches", args=[session.id])
    assert client.get(address).status_code == 404
    page = shown(client, reverse("admin:agent_sessions_session_change", args=[session.id]))
    assert "/branches/" not in page
    shown(client, reverse("admin:agent_sessions_session_snapshots", args=[session.id]))
