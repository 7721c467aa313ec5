from __future__ import annotations

import pytest
from django.urls import reverse

from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore
from example_project.chat import openai_agents, strands_agents, transcript, views

KINDS = pytest.mark.parametrize("kind", [strands_agents.KIND, openai_agents.KIND])

# The agents work on other connections than the test's, which must see what they committed.
pytestmark = pytest.mark.django_db(transaction=True)


def page_of(session) -> str:
    return reverse("chat:conversation", args=[session.id])


def begin(site, kind: str, text: str, title: str = "") -> str:
    """Begins a conversation; its page's address."""
    answer = site.post(reverse("chat:new"), {"agent": kind, "title": title, "text": text})
    assert answer.status_code == 302
    return str(answer["Location"].partition("#")[0])


def test_a_login_is_asked_for_before_anything_is_shown_or_said(site, ada) -> None:
    session = SessionStore(owner=ada).open("private")
    for address in (reverse("chat:conversations"), page_of(session)):
        answer = site.get(address)
        assert answer.status_code == 302
        assert answer["Location"].startswith(reverse("login"))
    for address in (reverse("chat:new"), page_of(session)):
        answer = site.post(address, {"agent": strands_agents.KIND, "text": "Hello"})
        assert answer["Location"].startswith(reverse("login"))
    assert not SessionMessage.objects.exists()


def test_logging_in_leads_to_the_conversations_and_logging_out_back(site, ada) -> None:
    ada.set_password("lovelace")
    ada.save()
    login = site.post(reverse("login"), {"username": "ada", "password": "lovelace"}, follow=True)
    assert "New conversation" in login.text
    logout = site.post(reverse("logout"), follow=True)
    assert "Password" in logout.text


@KINDS
def test_an_agent_answers_and_remembers_in_the_next_request(adas_site, kind) -> None:
    page = begin(adas_site, kind, "Hello, my name is Ada.", title="About me")
    adas_site.post(page, {"text": "What is the weather in Oslo?"})
    adas_site.post(page, {"text": "What did I tell you my name was?"})

    shown = adas_site.get(page).text
    assert "About me" in shown
    assert "weather(city=&quot;Oslo&quot;)" in shown
    assert "snow, -3 °C" in shown
    assert "You told me that your name is Ada." in shown
    assert "About me" in adas_site.get(reverse("chat:conversations")).text


def test_the_strands_agents_state_counts_on_over_requests(adas_site, ada) -> None:
    page = begin(adas_site, strands_agents.KIND, "What is the weather in Oslo?")
    adas_site.post(page, {"text": "And my appointments on Friday?"})

    assert "{&quot;lookups&quot;: 2}" in adas_site.get(page).text


@KINDS
def test_what_a_user_writes_is_text_and_never_markup(adas_site, kind) -> None:
    attack = '<script>alert("text")</script><img src=x onerror=alert(1)>'
    page = begin(adas_site, kind, f"{attack} The weather in Oslo?", title="<b>title</b>")

    for shown in (adas_site.get(page).text, adas_site.get(reverse("chat:conversations")).text):
        assert "<script" not in shown
        assert "<img" not in shown
        assert "<b>" not in shown
        assert "&lt;b&gt;title&lt;/b&gt;" in shown
    assert "&lt;script&gt;alert(&quot;text&quot;)" in adas_site.get(page).text


def test_what_a_page_cannot_carry_is_shown_all_the_same(adas_site, ada) -> None:
    store = SessionStore(owner=ada)
    agent = store.open_agent(session := store.open("a/b?c#<d>"))
    store.append(agent, {"role": "user", "content": "NUL \x00 and half a pair \ud800"})
    store.append(agent, {"type": "unheard_of", "raw": "\ud800", "bytes": b"\x00"})

    listed = adas_site.get(reverse("chat:conversations"))
    assert page_of(session) in listed.text
    shown = adas_site.get(page_of(session)).text
    assert "NUL \ufffd and half a pair \ufffd" in shown
    assert "unheard_of" in shown
    assert "1 bytes" in shown


def test_what_is_somebody_elses_does_not_exist(adas_site, bob) -> None:
    store = SessionStore(owner=bob)
    session = store.open("bobs", title="Of Bob", metadata={"agent": strands_agents.KIND})

    assert "Of Bob" not in adas_site.get(reverse("chat:conversations")).text
    assert adas_site.get(page_of(session)).status_code == 404
    assert adas_site.post(page_of(session), {"text": "Hello"}).status_code == 404
    assert adas_site.get(reverse("chat:conversations"), {"after": session.id}).status_code == 404
    assert not store.list_agents(session)


@pytest.mark.parametrize("after", ["nonsense", "\x00", "00000000-0000-0000-0000-000000000000"])
def test_a_page_of_the_list_that_never_was_is_not_found(adas_site, after) -> None:
    assert adas_site.get(reverse("chat:conversations"), {"after": after}).status_code == 404


def test_the_list_is_paged(adas_site, ada) -> None:
    store = SessionStore(owner=ada)
    for number in range(views.PAGE_SIZE + 2):
        store.open(f"session {number}.")

    first = adas_site.get(reverse("chat:conversations"))
    assert "session 2." in first.text
    assert "session 1." not in first.text
    last = first.context["sessions"][-1]
    assert f"?after={last.id}" in first.text
    second = adas_site.get(reverse("chat:conversations"), {"after": last.id})
    assert [session.session_id for session in second.context["sessions"]] == [
        "session 1.",
        "session 0.",
    ]
    assert "?after=" not in second.text


def test_a_long_conversation_shows_its_end_and_all_of_it_when_asked(adas_site, ada) -> None:
    store = SessionStore(owner=ada)
    agent = store.open_agent(session := store.open("long"))
    said = [{"role": "user", "content": f"word {n}."} for n in range(transcript.LATEST + 1)]
    store.append_many(agent, said)

    shown = adas_site.get(page_of(session)).text
    assert "word 1." in shown
    assert "word 0." not in shown
    assert "?all=1" in shown
    everything = adas_site.get(page_of(session), {"all": "1"}).text
    assert "word 0." in everything
    assert "?all=1" not in everything


def test_a_redacted_message_says_so_and_shows_no_original(adas_site, ada) -> None:
    store = SessionStore(owner=ada)
    agent = store.open_agent(session := store.open("secret"))
    store.append(agent, {"role": "user", "content": "The code is 1234."})
    store.redact_message(agent, 0, {"role": "user", "content": "The code is [code]."})

    shown = adas_site.get(page_of(session)).text
    assert "The code is [code]." in shown
    assert "redacted</span>" in shown
    assert "1234" not in shown


def test_a_graph_is_shown_node_by_node_and_takes_no_messages(adas_site, ada) -> None:
    strands_agents.trip_graph("graph", owner=ada, title="A trip")("A weekend in Lisbon")
    session = SessionStore(owner=ada).get("graph")

    shown = adas_site.get(page_of(session)).text
    assert "A weekend in Lisbon" in shown
    assert shown.index("planner") < shown.index("writer")
    assert "Dear traveller: First Lisbon&#x27;s old town" in shown
    assert "<textarea" not in shown
    assert adas_site.post(page_of(session), {"text": "Hello"}).status_code == 409


@pytest.mark.parametrize("text", ["", "  ", "x" * 4001])
def test_a_message_that_is_none_is_refused_and_nothing_written(adas_site, ada, text) -> None:
    metadata = {"agent": strands_agents.KIND}
    session = SessionStore(owner=ada).open("quiet", metadata=metadata)

    assert adas_site.post(page_of(session), {"text": text}).status_code == 400
    refused = adas_site.post(reverse("chat:new"), {"agent": strands_agents.KIND, "text": text})
    assert refused.status_code == 400
    assert Session.objects.count() == 1
    assert not SessionMessage.objects.exists()


def test_an_agent_that_is_unknown_is_refused(adas_site) -> None:
    refused = adas_site.post(reverse("chat:new"), {"agent": "root", "text": "Hello"})

    assert refused.status_code == 400
    assert not Session.objects.exists()


def test_a_form_from_another_site_is_refused(site, ada) -> None:
    site.handler.enforce_csrf_checks = True
    site.force_login(ada)

    refused = site.post(reverse("chat:new"), {"agent": strands_agents.KIND, "text": "Hello"})
    assert refused.status_code == 403
    assert not Session.objects.exists()


@KINDS
def test_a_provider_that_fails_is_said_without_its_words(
    adas_site, ada, kind, monkeypatch, caplog, unused_tcp_port
) -> None:
    metadata = {"agent": kind}
    session = SessionStore(owner=ada).open("failing", metadata=metadata)
    # A real model behind a port where nobody listens.
    monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{unused_tcp_port}")

    shown = adas_site.post(page_of(session), {"text": "The code is 1234."}, follow=True).text
    assert "The agent could not answer." in shown
    said = [r.getMessage() for r in caplog.records if r.name == "example_project.chat.views"]
    assert len(said) == 1
    assert str(session.id) in said[0]
    assert "1234" not in said[0]
