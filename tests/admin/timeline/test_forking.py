"""A fork leads to its conversation, names where it comes from, and brings nothing redacted back."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Session
from tests.admin.transcripts import said, shown

from .pages import Action, confirmed, events, key, url, words

pytestmark = pytest.mark.django_db


def test_a_fork_leads_to_the_new_conversation_and_both_name_each_other(client, traveller, talker):
    page = confirmed(client, url(talker, "fork", key(talker, 2)))

    fork = Session.objects.exclude(pk=talker.session).get()
    assert "This is the fork." in page
    assert "word 2" in page
    assert "word 3" not in page
    assert "Forked from" in page
    assert f"/{talker.session}/change/?at={key(talker, 2)}" in page
    origin = shown(client, url(talker, "change"))
    assert f"/{fork.pk}/change/" in origin
    assert words(talker) == list("012345")
    (event,) = events(Action.FORKED)
    assert event.details == {"fork": str(fork.pk), "messages": 3}
    assert (event.session, event.target) == (talker.session, key(talker, 2))


@pytest.mark.parametrize("step", ["fork", "rewind"])
def test_the_time_of_the_message_is_marked_up_so_that_no_line_breaks_it(
    client, traveller, talker, step
):
    page = shown(client, url(talker, step, key(talker, 2)))

    assert re.search(r'message 2 \(<time datetime="[^"]+">[^<]+</time>\)', page)


def test_a_fork_of_a_side_branch_has_what_was_said_there(client, traveller, talker, store):
    later = key(talker, 4)
    store.branches.rewind(talker, 2)

    confirmed(client, url(talker, "fork", later))

    fork = Session.objects.exclude(pk=talker.session).get()
    assert words(store.agents.find(store.get(fork.session_id), "planner")) == list("01234")


def test_a_fork_does_not_tell_of_an_origin_that_is_gone_or_hidden(client, traveller, talker, store):
    fork = store.sessions.fork(store.get("talk"))
    store.delete("talk")

    page = shown(client, reverse("admin:agent_sessions_session_change", args=[fork.id]))
    assert "Forked from another conversation." in page
    assert str(talker.session) not in page


def test_a_redacted_message_stays_redacted_in_a_fork_and_on_every_branch(
    client, traveller, talker, store
):
    store.append(talker, said("user", "my secret is plantedsecret"))
    redact(talker.session, Find("plantedsecret"), reason="a ticket")
    store.branches.rewind(talker, 2)

    confirmed(client, url(talker, "fork", key(talker, 6, 1)))
    fork = Session.objects.exclude(pk=talker.session).get()
    for address in (
        reverse("admin:agent_sessions_session_change", args=[fork.pk]),
        url(talker, "change", agent=talker.id, branch=1),
        url(talker, "compare", agent=talker.id, left=0, right=1),
    ):
        page = shown(client, address)
        assert "plantedsecret" not in page
        assert "my secret is" in page
