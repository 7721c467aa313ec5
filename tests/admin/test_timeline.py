"""Going back in time in the admin: what it shows, asks, does, refuses and records."""

from __future__ import annotations

import re
from html import unescape
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_agent_sessions.holds import hold
from django_agent_sessions.models import (
    AuditEvent,
    Branch,
    Session,
    SessionMessage,
    Snapshot,
    StoredObject,
)
from django_agent_sessions.redaction import Find, redact
from django_agent_sessions.store import SessionStore
from django_agent_sessions.transcripts import STRANDS

from .people import staff
from .transcripts import said, shown

pytestmark = pytest.mark.django_db

Action = AuditEvent.Action
TRAVELLER = ("view_session", "add_session", "change_session", "delete_session", "read_transcript")


@pytest.fixture
def traveller(client):
    user = staff("traveller", *TRAVELLER)
    client.force_login(user)
    return user


@pytest.fixture
def talker(store):
    """An agent with six messages."""
    agent = store.open_agent(store.open("talk", title="A talk"), "planner", dialect=STRANDS)
    store.append_many(agent, [said("user", f"word {number}") for number in range(6)])
    return agent


def url(talk, name: str, /, *keys, **query) -> str:
    return reverse(f"admin:agent_sessions_session_{name}", args=[talk.session, *keys], query=query)


def key(agent, position: int, branch: int = 0):
    return SessionMessage.objects.get(agent=agent.id, branch=branch, message_id=position).pk


def first(pattern: str, page: str) -> str:
    """The first thing in a page that a pattern finds."""
    found = re.search(pattern, page)
    assert found, page[page.index("as-root") :]
    return unescape(found[1])


def confirmed(client, address: str) -> str:
    """Says yes on a page that asks, and gives the page that it leads to."""
    page = shown(client, address)
    seen = first(r'name="seen" value="([^"]*)"', page)
    answer = client.post(address, {"seen": seen}, follow=True)
    assert answer.status_code == 200
    assert answer.redirect_chain
    text: str = answer.content.decode()
    return text


def words(agent, branch: int = 0) -> list[str]:
    payloads = SessionStore().payloads(agent.on_branch(branch))
    return [payload["content"][0]["text"].removeprefix("word ") for payload in payloads]


def events(action) -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(action=action))


# --- rewinding, forking ------------------------------------------------------------------------


def test_a_rewind_says_what_will_happen_and_does_it(client, traveller, talker):
    address = url(talker, "rewind", key(talker, 2))

    asked = shown(client, address)
    assert "3 messages after it are set aside" in asked
    assert "planner" in asked
    assert "Nothing is lost" in asked
    assert words(talker) == list("012345")

    page = confirmed(client, address)
    assert "3 messages were set aside as branch-1." in page
    assert "word 2" in page
    assert "word 3" not in page
    assert words(talker) == list("012")
    assert words(talker, 1) == list("012345")
    (event,) = events(Action.REWOUND)
    assert (event.session, event.target) == (talker.session, key(talker, 2))
    assert event.details == {"branch": 1, "set_aside": 3}
    assert event.actor == "traveller"


def test_the_transcript_shows_the_main_branch_only_and_a_side_branch_when_asked(
    client, traveller, talker, store
):
    later = key(talker, 4)
    store.rewind(talker, 2)
    store.append(talker, said("user", "another way"))

    page = shown(client, url(talker, "change"))
    assert "another way" in page
    assert page.count("word 1") == 1
    assert "word 4" not in page
    assert "You are reading branch" not in page

    side = shown(client, url(talker, "change", agent=talker.id, branch=1))
    assert "word 4" in side
    assert "another way" not in side
    assert "You are reading branch" in side
    assert "/rewind/" not in side
    assert "/fork/" in side
    fragment = shown(client, url(talker, "messages", agent=talker.id, branch=1, before=later))
    assert "word 3" in fragment
    assert "word 5" not in fragment


def test_a_link_to_a_message_that_was_set_aside_leads_to_its_branch(
    client, traveller, talker, store
):
    later = key(talker, 4)
    store.rewind(talker, 2)

    answer = client.get(url(talker, "change", at=later))
    assert answer.status_code == 302
    page = shown(client, answer.url)
    assert f'id="m-{later}"' in page
    assert "branch-1" in page


def test_finding_does_not_find_what_branches_have_in_common_twice(client, traveller, talker, store):
    store.rewind(talker, 2)

    def found(query: str) -> list[str]:
        answer = client.post(url(talker, "find"), {"query": query})
        text = answer.content.decode()
        return re.findall(r"<li><a href=\"[^\"]*at=.*?</li>", text)

    assert len(found("word 1")) == 1
    (aside,) = found("word 4")
    assert "branch 1" in aside


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


def test_a_fork_of_a_side_branch_has_what_was_said_there(client, traveller, talker, store):
    later = key(talker, 4)
    store.rewind(talker, 2)

    confirmed(client, url(talker, "fork", later))

    fork = Session.objects.exclude(pk=talker.session).get()
    assert words(store.read_agent(store.get(fork.session_id), "planner")) == list("01234")


def test_a_fork_does_not_tell_of_an_origin_that_is_gone_or_hidden(client, traveller, talker, store):
    fork = store.fork(store.get("talk"))
    store.delete("talk")

    page = shown(client, reverse("admin:agent_sessions_session_change", args=[fork.id]))
    assert "Forked from another conversation." in page
    assert str(talker.session) not in page


def test_a_redacted_message_stays_redacted_in_a_fork_and_on_every_branch(
    client, traveller, talker, store
):
    store.append(talker, said("user", "my secret is plantedsecret"))
    redact(talker.session, Find("plantedsecret"), reason="a ticket")
    store.rewind(talker, 2)

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


# --- branches ----------------------------------------------------------------------------------


def test_branches_are_listed_compared_restored_and_deleted(client, traveller, talker, store):
    store.rewind(talker, 2)
    store.append(talker, said("user", "word x"))

    page = shown(client, url(talker, "branches"))
    for text in ("main", "branch-1", "left behind by a rewind", "3 of its own", "message 3"):
        assert text in page

    page = shown(client, url(talker, "compare", left=0, right=1))
    assert "The first 3 messages are the same on both." in page
    assert "word 2" not in page
    assert page.index("word x") < page.index("word 3") < page.index("word 5")

    page = confirmed(client, url(talker, "branch_restore", talker.id, 1))
    assert "Branch branch-1 was restored. What was the main branch is now branch-2." in page
    assert words(talker) == list("012345")
    assert words(talker, 2) == list("012x")
    (event,) = events(Action.RESTORED)
    assert event.details == {"branch": 1, "left": 2}

    page = confirmed(client, url(talker, "branch_delete", talker.id, 2))
    assert "Branch branch-2 was deleted." in page
    assert not Branch.objects.exists()
    (event,) = events(Action.BRANCH_DELETED)
    assert event.details == {"branch": 2, "messages": 4}


def test_under_legal_hold_no_branch_is_deleted_and_it_is_said_why(client, traveller, talker, store):
    store.rewind(talker, 2)
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


def test_an_answer_to_other_figures_is_asked_for_anew(client, traveller, talker, store):
    address = url(talker, "rewind", key(talker, 2))
    seen = first(r'name="seen" value="([^"]*)"', shown(client, address))
    store.append(talker, said("user", "word 6"))

    for given in ({"seen": seen}, {"seen": ""}, {}):
        page = client.post(address, given).content.decode()
        assert "Nothing was changed yet" in page
        assert "4 messages after it" in page
    assert words(talker) == list("0123456")


def test_what_is_last_cannot_be_rewound_to(client, traveller, talker):
    address = url(talker, "rewind", key(talker, 5))
    assert "Nothing was said after this message." in shown(client, address)
    assert client.post(address, {"seen": "5 6"}).status_code == 200
    assert not Branch.objects.exists()
    assert events(Action.REWOUND) == []


def test_many_branches_are_paged(client, traveller, talker, store):
    for _number in range(53):
        store.create_branch(talker, upto=1)

    newest = shown(client, url(talker, "branches"))
    assert "branch-53<" in newest
    assert "branch-3<" not in newest
    older = first(r'href="([^"]*before=[^"]*)"', newest)
    second = shown(client, older)
    assert "branch-3<" in second
    assert "branch-4<" not in second


# --- snapshots ---------------------------------------------------------------------------------


def test_a_snapshot_is_taken_listed_and_restored(client, traveller, talker, store):
    answer = client.post(url(talker, "snapshot_take", talker.id), follow=True)
    assert "A snapshot of agent planner was taken." in answer.content.decode()
    snapshot = Snapshot.objects.get()
    store.append(talker, said("user", "word 6"))

    page = shown(client, url(talker, "snapshots"))
    assert str(snapshot.pk) in page
    assert "6 messages" in page

    asked = shown(client, url(talker, "snapshot_restore", snapshot.pk))
    assert "1 message that came later is set aside" in asked
    page = confirmed(client, url(talker, "snapshot_restore", snapshot.pk))
    assert "The snapshot was restored." in page
    assert words(talker) == list("012345")
    assert words(talker, 1) == list("0123456")
    (event,) = events(Action.RESTORED)
    assert (event.target, event.details) == (snapshot.pk, {"messages": 6})


def test_the_latest_snapshot_is_named_and_not_restored(client, traveller, talker):
    latest = Snapshot.objects.create(session_id=talker.session, agent_id=talker.id, length=6)

    assert "latest" in shown(client, url(talker, "snapshots"))
    assert client.get(url(talker, "snapshot_restore", latest.pk)).status_code == 404


def test_snapshots_are_paged_by_key(client, traveller, talker, store):
    taken = [store.take_snapshot(talker).id for _number in range(53)]

    newest = shown(client, url(talker, "snapshots"))
    assert str(taken[-1]) in newest
    assert str(taken[2]) not in newest
    older = first(r'href="([^"]*before=[^"]*)"', newest)
    second = shown(client, older)
    assert [str(one) in second for one in taken[:4]] == [True, True, True, False]


def test_what_is_kept_as_written_is_listed_with_its_size(client, traveller, talker, store):
    other = store.open("other")
    for session, name in ((talker.session, "notes.bin"), (other.id, "elsewhere.bin")):
        StoredObject.objects.create(
            session_id=session, key=name, digest=str(uuid4()), size=3 * 1024
        )

    page = shown(client, url(talker, "snapshots"))
    assert "notes.bin" in page
    assert "3.0" in page
    assert "not understood" in page
    assert "elsewhere.bin" not in page


# --- who may -----------------------------------------------------------------------------------


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
    store.rewind(talker, 2)
    store.take_snapshot(talker)

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
    store.rewind(talker, 2)
    shown(client, url(talker, "compare", left=0, right=1))
    (event,) = events(Action.READ)
    assert event.details == {"page": "compare", "messages": 3}

    Session.objects.update(owner=traveller)
    shown(client, url(talker, "compare", left=0, right=1))
    assert len(events(Action.READ)) == 1


# --- attacks -----------------------------------------------------------------------------------


@pytest.fixture
def strangers(store):
    """Another session's agent, with a branch, and a snapshot."""
    agent = store.open_agent(store.open("other"), "planner", dialect=STRANDS)
    store.append_many(agent, [said("user", "word a"), said("user", "word b")])
    store.rewind(agent, 0)
    return agent


def test_what_is_of_another_session_is_not_found(client, traveller, talker, strangers):
    snapshot = Snapshot.objects.get().pk
    foreign = [
        url(talker, "fork", key(strangers, 0)),
        url(talker, "rewind", key(strangers, 0)),
        url(talker, "branch_restore", strangers.id, 1),
        url(talker, "branch_delete", strangers.id, 1),
        url(talker, "snapshot_take", strangers.id),
        url(talker, "snapshot_restore", snapshot),
        url(talker, "branches", agent=strangers.id),
        url(talker, "snapshots", agent=strangers.id),
        url(talker, "compare", agent=strangers.id, left=0, right=1),
        url(talker, "change", agent=strangers.id, branch=1),
    ]
    for address in foreign:
        assert client.get(address).status_code == 404, address
        for seen in ("0", "0 1", "1 2", "branch-1 2 1"):
            assert client.post(address, {"seen": seen}).status_code in (403, 404), address
    assert words(strangers) == ["a"]
    assert words(strangers, 1) == ["a", "b"]
    assert words(talker) == list("012345")
    assert Session.objects.count() == 2


@pytest.mark.parametrize(
    "number", ["-1", "9", "99999999999", "2147483648", "\uff11", " 1", "x", "0x1", "1e0", "\x00"]
)
def test_a_branch_that_is_none_is_not_found(client, traveller, talker, store, number):
    store.rewind(talker, 2)

    for address in (
        url(talker, "change", agent=talker.id, branch=number),
        url(talker, "compare", agent=talker.id, left=0, right=number),
        url(talker, "change", branch="1"),
    ):
        assert client.get(address).status_code == 404
    assert client.get(url(talker, "branches", before="x")).status_code == 404
    assert client.get(url(talker, "snapshots", before="x")).status_code == 404
    assert client.get(url(talker, "snapshots", after="\x00")).status_code == 200


def test_the_main_branch_is_not_deleted_nor_restored_nor_a_side_branch_rewound(
    client, traveller, talker, store
):
    later = key(talker, 4)
    store.rewind(talker, 2)

    for address in (
        url(talker, "branch_delete", talker.id, 0),
        url(talker, "branch_restore", talker.id, 0),
        url(talker, "branch_delete", talker.id, 2**40),
        url(talker, "rewind", later),
    ):
        assert client.get(address).status_code == 404
        assert client.post(address, {"seen": "main 3 0"}).status_code == 404
    assert words(talker) == list("012")


def test_a_get_changes_nothing_and_a_post_from_elsewhere_neither(traveller, talker, store):
    side = store.rewind(talker, 3)
    snapshot = store.take_snapshot(talker)
    client = Client(enforce_csrf_checks=True)
    client.force_login(traveller)
    before = list(SessionMessage.objects.order_by("pk").values())
    addresses = {
        url(talker, "fork", key(talker, 1)): "1",
        url(talker, "rewind", key(talker, 1)): "1 4",
        url(talker, "branch_restore", talker.id, side.number): "4 6",
        url(talker, "branch_delete", talker.id, side.number): "branch-1 6 1",
        url(talker, "snapshot_restore", snapshot.id): "0 4 4 4",
        url(talker, "snapshot_take", talker.id): "",
    }
    for address, seen in addresses.items():
        assert client.get(address, {"seen": seen}).status_code in (200, 405)
        assert client.post(address, {"seen": seen}).status_code == 403
        assert client.put(address).status_code in (403, 405)
    assert list(SessionMessage.objects.order_by("pk").values()) == before
    assert Session.objects.count() == 1
    assert Snapshot.objects.count() == 2
    changed = (Action.FORKED, Action.REWOUND, Action.RESTORED, Action.BRANCH_DELETED)
    assert not AuditEvent.objects.filter(action__in=changed).exists()


def test_names_are_only_text(client, traveller, store):
    hostile = "<script>alert(1)</script>&\"'"
    agent = store.open_agent(store.open(hostile), hostile, dialect=STRANDS)
    store.append_many(agent, [said("user", "a"), said("user", "b")])
    store.rewind(agent, 0, name=hostile)
    store.take_snapshot(agent)
    StoredObject.objects.create(session_id=agent.session, key=hostile, digest="d", size=1)

    for address in (
        url(agent, "branches"),
        url(agent, "snapshots"),
        url(agent, "compare", left=0, right=1),
        url(agent, "change", agent=agent.id, branch=1),
        url(agent, "branch_delete", agent.id, 1),
        url(agent, "branch_restore", agent.id, 1),
    ):
        assert "<script>alert" not in shown(client, address)
    page = confirmed(client, url(agent, "branch_delete", agent.id, 1))
    assert "<script>alert" not in page


def test_a_session_without_agents_has_no_branches(client, traveller, session):
    address = reverse("admin:agent_sessions_session_branches", args=[session.id])
    assert client.get(address).status_code == 404
    page = shown(client, reverse("admin:agent_sessions_session_change", args=[session.id]))
    assert "/branches/" not in page
    shown(client, reverse("admin:agent_sessions_session_snapshots", args=[session.id]))


# --- statements --------------------------------------------------------------------------------


def test_pages_take_as_many_statements_for_much_as_for_little(client, traveller, store):
    def made(name: str, messages: int, times: int):
        agent = store.open_agent(store.open(name), "planner", dialect=STRANDS)
        store.append_many(agent, [said("user", f"word {n}") for n in range(messages)])
        for _time in range(times):
            store.rewind(agent, messages // 2)
            store.append_many(agent, [said("user", "x")] * (messages - messages // 2 - 1))
            store.take_snapshot(agent)
            store.fork(store.get(name))
        return agent

    def statements(agent) -> dict[str, int]:
        snapshot = Snapshot.objects.filter(agent=agent.id).latest("id").pk
        found = {}
        for name, address in {
            "change": url(agent, "change"),
            "side": url(agent, "change", agent=agent.id, branch=1),
            "branches": url(agent, "branches"),
            "snapshots": url(agent, "snapshots"),
            "compare": url(agent, "compare", left=0, right=1),
            "fork": url(agent, "fork", key(agent, 1)),
            "rewind": url(agent, "rewind", key(agent, 1)),
            "restore": url(agent, "branch_restore", agent.id, 1),
            "delete": url(agent, "branch_delete", agent.id, 1),
            "snapshot": url(agent, "snapshot_restore", snapshot),
        }.items():
            with CaptureQueriesContext(connection) as captured:
                shown(client, address)
            found[name] = len(captured)
        return found

    few = made("few", 4, 1)
    shown(client, url(few, "change"))
    counted = statements(few)

    assert statements(made("many", 120, 6)) == counted
    assert max(counted.values()) <= 20


# --- redactions in forks -----------------------------------------------------------------------


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
    forks = [store.fork(store.get("talk")) for _number in range(2)]
    store.fork(forks[0])
    address = url(talker, "redact")

    assert "Also in 3 forks" in shown(client, address)
    page = redacted(client, address, forks="on")
    assert "4 places would be redacted" in page
    assert page.count("<b>1</b> place<") == 3
    assert "plantedsecret" not in str(list(SessionMessage.objects.values_list("text")))
    assert len({event.session for event in events(Action.REDACTED)}) == 4


def test_a_redaction_leaves_the_forks_alone_if_they_are_not_chosen(client, redactor, talker, store):
    store.append(talker, said("user", "my secret is plantedsecret"))
    fork = store.fork(store.get("talk"))

    redacted(client, url(talker, "redact"))
    of_fork = SessionMessage.objects.filter(session=fork.id)
    assert "plantedsecret" in str(list(of_fork.values_list("text")))
    page = shown(client, reverse("admin:agent_sessions_session_redact", args=[fork.id]))
    assert "Also in" not in page


def test_the_preview_tells_of_which_branch_a_message_is(client, redactor, talker, store):
    store.append(talker, said("user", "my secret is plantedsecret"))
    store.rewind(talker, 2)

    assert "branch 1" in redacted(client, url(talker, "redact"))
