"""A redaction reaches the forks of a session if that is chosen, and names branches."""

from __future__ import annotations

import pytest
from django.urls import reverse

from django_agent_sessions.models import SessionMessage
from django_agent_sessions.values.records import AgentState
from tests.admin.people import staff
from tests.admin.transcripts import said, shown
from tests.texts import text_of

from .pages import Action, events, first, url

pytestmark = pytest.mark.django_db


@pytest.fixture
def redactor(client):
    user = staff("redactor", "view_session", "read_transcript", "redact")
    client.force_login(user)
    return user


def redacted(client, address: str, **given) -> str:
    """Previews a redaction of a text, confirms it, and gives the page of the preview."""
    asked = {"what": "text", "text": "plantedsecret", **given}
    page = client.post(address, asked).content.decode()
    seal = first(r'name="seal" value="([^"]*)"', page)
    confirming = {**asked, "step": "confirm", "reason": "a ticket", "seal": seal}
    assert client.post(address, confirming).status_code == 302
    text: str = page
    return text


def test_a_redaction_offers_the_forks_and_reaches_them_if_that_is_chosen(
    client, redactor, talker, store
):
    store.append(talker, said("user", "my secret is plantedsecret"))
    forks = [store.sessions.fork(store.get("talk")) for _number in range(2)]
    store.sessions.fork(forks[0])
    address = url(talker, "redact")

    assert "Also in 3 forks" in shown(client, address)
    page = redacted(client, address, forks="on")
    assert "4 places would be redacted" in page
    assert page.count("<b>1</b> place<") == 3
    assert "plantedsecret" not in str([text_of(row) for row in SessionMessage.objects.all()])
    assert len({event.session for event in events(Action.REDACTED)}) == 4


def test_a_redaction_leaves_the_forks_alone_if_they_are_not_chosen(client, redactor, talker, store):
    store.append(talker, said("user", "my secret is plantedsecret"))
    fork = store.sessions.fork(store.get("talk"))

    redacted(client, url(talker, "redact"))
    of_fork = SessionMessage.objects.filter(session=fork.id)
    assert "plantedsecret" in str([text_of(row) for row in of_fork])
    page = shown(client, reverse("admin:agent_sessions_session_redact", args=[fork.id]))
    assert "Also in" not in page


def test_the_preview_tells_of_which_branch_a_message_is(client, redactor, talker, store):
    store.append(talker, said("user", "my secret is plantedsecret"))
    store.branches.rewind(talker, 2)

    assert "branch 1" in redacted(client, url(talker, "redact"))


def test_the_preview_says_which_copies_would_stay(client, redactor, talker, store):
    store.append(talker, said("user", "my secret is plantedsecret"))
    fork = store.sessions.fork(store.get("talk"))

    asked = {"what": "text", "text": "plantedsecret"}
    page = client.post(url(talker, "redact"), asked).content.decode()
    assert "1 fork of this conversation keeps its copies" in page
    page = client.post(url(talker, "redact"), {**asked, "forks": "on"}).content.decode()
    assert "keeps its copies" not in page
    assert "This conversation is a fork" not in page
    there = reverse("admin:agent_sessions_session_redact", args=[fork.id])
    assert "This conversation is a fork" in client.post(there, asked).content.decode()


def test_the_preview_counts_what_is_kept_beside_the_messages(client, redactor, talker, store):
    store.agents.update(talker, AgentState(state={"word": "plantedsecret"}))
    for _number in range(2):
        store.snapshots.take(talker)
    asked = {"what": "text", "text": "plantedsecret"}

    page = client.post(url(talker, "redact"), asked).content.decode()

    assert "<b>2</b> snapshots" in page
    assert "state of <b>1</b> agent" in page


def test_a_redaction_leads_to_the_main_branch_where_something_of_it_is_there(
    client, redactor, talker, store
):
    stays = store.append(talker, said("user", "plantedsecret"))
    store.append(talker, said("assistant", "plantedsecret, you say"))
    store.branches.rewind(talker, stays.message_id)
    page = client.post(
        url(talker, "redact"), {"what": "text", "text": "plantedsecret"}
    ).content.decode()
    sure = {
        "step": "confirm",
        "what": "text",
        "text": "plantedsecret",
        "reason": "a ticket",
        "seal": first(r'name="seal" value="([^"]*)"', page),
    }

    answer = client.post(url(talker, "redact"), sure)

    assert answer["Location"].endswith(f"?at={stays.id}#m-{stays.id}")
