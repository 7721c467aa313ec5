"""Redaction through the API: what goes is gone from every answer, and a preview changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from django_agent_sessions.content import codec, detectors
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.store import SessionStore
from tests.admin.people import grant
from tests.admin.transcripts import said
from tests.texts import with_text

from .conftest import Talk, client_of
from .planted import (
    COMMENT,
    GONE,
    INTERNAL,
    SAID,
    STATES,
    Planted,
    ask,
    body_of,
    plant,
    recorded,
    routes,
    rows,
    seen_in,
)

pytestmark = pytest.mark.django_db

CARD = "4111 1111 1111 1111"


def post(client: Any, url: str, **given: Any) -> Any:
    return client.post(f"{url}redact/", given, format="json")


def done(client: Any, url: str, **given: Any) -> dict[str, Any]:
    answer = post(client, url, reason="a ticket", **given)
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def text_of(client: Any, url: str) -> list[str]:
    return [part["text"] for part in client.get(url).json()["parts"]]


def everything(client: Any, planted: Planted) -> str:
    """Reads all that any route answers about a session."""
    found = []
    for route in sorted(routes()):
        for message in range(4) if "<agent_sessions_uuid:message>" in route else (0,):
            url = planted.url(route, message)
            if route.endswith("events/"):
                continue
            if route.endswith("original/"):
                found.append(body_of(ask(client, "post", url, None, {"reason": "a court"})))
            elif route.endswith("redact/"):
                given = {"find": "a", "dry_run": True}
                found.append(body_of(ask(client, "post", url, None, given)))
            else:
                for query in ({}, {"raw": "true"}, {"as": "jsonl"}, {"path": '["content", 0]'}):
                    found.append(body_of(ask(client, "get", url, query)))
    return "\n".join(found)


def test_a_whole_message_goes(trip, api):
    found = done(api, trip.messages[2])
    assert (found["messages"], found["states"], found["redactions"]) == (1, 0, 1)
    shown = api.get(trip.messages[2]).json()
    assert CARD not in json.dumps(shown)
    assert shown["role"] == "user"
    assert shown["redacted_at"] is not None
    # Its neighbours stay.
    assert text_of(api, trip.messages[1]) == ["To Lisbon."]


def test_a_part_goes_by_its_path(ada, api):
    talk = Talk(ada)
    url = talk.say({"role": "user", "content": [{"text": "keep"}, {"text": "secret"}]})
    part = api.get(url).json()["parts"][1]
    done(api, url, path=part["path"])
    assert text_of(api, url)[0] == "keep"
    assert "secret" not in api.get(url, {"raw": "true"}).content.decode()


def test_a_part_in_a_tools_result_goes_by_its_path(ada, api):
    talk = Talk(ada)
    content = [{"text": "keep"}, {"text": "secret"}]
    url = talk.say(
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": content}}]}
    )
    inner = api.get(url).json()["parts"][0]["parts"][1]
    done(api, url, path=inner["path"])
    body = api.get(url, {"raw": "true"}).content.decode()
    assert "secret" not in body
    assert "keep" in body


@pytest.mark.parametrize("inner", [[], ["text"]])
def test_a_piece_of_a_text_goes_by_the_path_of_its_part_or_its_own(trip, api, inner):
    url = trip.messages[2]
    (part,) = api.get(url).json()["parts"]
    start = part["text"].index(CARD)
    done(api, url, path=[*part["path"], *inner], start=start, end=start + len(CARD))
    assert text_of(api, url) == ["My card is [REDACTED]."]


def test_a_text_goes_wherever_it_is_in_a_session_in_any_case(trip, api):
    trip.say(said("user", "LISBON? lisbon!"))
    found = done(api, trip.url, find="Lisbon")
    assert found["messages"] == 2
    body = api.get(f"{trip.url}messages/", {"raw": "true"}).content.decode().lower()
    assert "lisbon" not in body
    found = api.get("/api/sessions/", {"q": "lisbon"}).json()
    assert codec.refuses_search() or found["results"] == []


def test_a_text_goes_from_one_message_only(trip, api):
    again = trip.say(said("user", "To Lisbon, then."))
    done(api, trip.messages[1], find="Lisbon")
    assert text_of(api, again) == ["To Lisbon, then."]
    assert text_of(api, trip.messages[1]) == ["To [REDACTED]."]


def test_what_detectors_find_goes(trip, api):
    trip.say(said("user", "Write to ada@example.com."))
    found = done(api, trip.url, detectors=[detector_of("card")])
    assert len(found["hits"]) == 1
    assert found["hits"][0]["kind"]
    assert CARD not in api.get(trip.messages[2]).content.decode()
    done(api, trip.messages[4], detectors=[detector_of("email")])
    assert "ada@example.com" not in api.get(trip.messages[4]).content.decode()


def detector_of(what: str) -> str:
    return next(name for name in detectors.names() if what in name)


def test_a_preview_shows_what_would_go_and_changes_nothing(trip, api):
    before, trail = rows(), recorded()
    answer = post(api, trip.url, find=CARD, dry_run=True)
    found = answer.json()
    assert found["dry_run"] is True
    (hit,) = found["hits"]
    assert hit["before"] == f"My card is {CARD}."
    assert hit["after"] == "My card is [REDACTED]."
    assert hit["place"]["kind"] == "message"
    assert f"/api/messages/{hit['place']['id']}/" == trip.messages[2]
    assert found["messages"] == 1
    assert (rows(), recorded()) == (before, trail)


@pytest.mark.parametrize(
    ("given", "before", "after"),
    [
        ({}, f"My card is {CARD}.", "[REDACTED]"),
        ({"path": ["content", 0]}, f"My card is {CARD}.", "[REDACTED]"),
        (
            {"path": ["content", 0, "text"], "start": 11, "end": 30},
            f"My card is {CARD}.",
            "My card is [REDACTED].",
        ),
        (
            {"path": ["content", 0], "start": 11, "end": 15},
            f"My card is {CARD}.",
            "My card is [REDACTED] 1111 1111 1111.",
        ),
        ({"find": CARD}, f"My card is {CARD}.", "My card is [REDACTED]."),
    ],
)
def test_a_preview_shows_what_would_go_from_a_message(trip, api, given, before, after):
    stored, trail = rows(), recorded()
    (hit,) = post(api, trip.messages[2], dry_run=True, **given).json()["hits"]
    assert (hit["before"], hit["after"]) == (before, after)
    assert (rows(), recorded()) == (stored, trail)
    # What is done tells no more what it was.
    assert [one["before"] for one in done(api, trip.messages[2], **given)["hits"]] == [""]
    if "start" not in given:
        assert post(api, trip.messages[2], dry_run=True, **given).json()["hits"] == []


def test_a_preview_of_a_whole_message_shows_all_kinds_of_parts(ada, api):
    call = {"toolUseId": "t", "name": "search", "input": {"city": "Lisbon\x00"}}
    talk = Talk(ada)
    content = [{"text": "x" * 5000}, {"toolUse": call}]
    url = talk.say({"role": "assistant", "content": content})
    (whole,) = post(api, url, dry_run=True).json()["hits"]
    # Enough to know it again; the whole of it is what a GET answers.
    assert whole["before"].startswith("xxx")
    assert len(whole["before"]) <= 2001
    (part,) = post(api, url, dry_run=True, path=["content", 1]).json()["hits"]
    assert part["before"] == json.dumps(call["input"])


def test_a_preview_shows_others_what_they_may_read_and_is_recorded(trip, bob):
    grant(bob, "view_session", "redact")
    url = f"{trip.messages[2]}redact/?scope=all"
    ask_for = {"dry_run": True}
    assert client_of(bob).post(url, ask_for, format="json").status_code == 404
    assert recorded() == []
    grant(bob, "read_transcript")
    answer = client_of(bob).post(url, ask_for, format="json")
    assert answer.json()["hits"][0]["before"] == f"My card is {CARD}."
    (event,) = recorded()
    assert (event.action, event.actor) == ("read", "bob")
    assert CARD not in str(event.details)


def test_a_preview_of_a_whole_message_shows_none_of_what_was_redacted_in_it(ada, api):
    talk = Talk(ada, f"My card is {CARD}, and I live in Lisbon.")
    done(api, talk.messages[0], find=CARD)
    (hit,) = post(api, talk.messages[0], dry_run=True).json()["hits"]
    assert hit["before"] == "My card is [REDACTED], and I live in Lisbon."


def test_what_is_done_does_not_say_what_it_was(trip, api):
    answer = post(api, trip.url, find=CARD, reason=f"the card {CARD}")
    assert answer.status_code == 200
    assert CARD not in answer.content.decode()
    assert CARD not in str(list(AuditEvent.objects.values()))


def test_once_more_is_no_different_from_once(trip, api):
    assert done(api, trip.messages[2])["messages"] == 1
    before, trail = rows(), recorded()
    again = done(api, trip.url, find=CARD)
    assert (again["hits"], again["messages"], again["redactions"]) == ([], 0, 1)
    assert (rows(), recorded()) == (before, trail)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"find": "Lisbon"},
        {"find": "Lisbon", "reason": ""},
        {"find": "Lisbon", "reason": "   "},
        {"find": "", "reason": "a ticket"},
        {"find": " ", "reason": "a ticket"},
        {"find": "a", "detectors": ["card"], "reason": "a ticket"},
        {"detectors": [], "reason": "a ticket"},
        {"detectors": ["no such"], "reason": "a ticket"},
        {"detectors": "card", "reason": "a ticket"},
        {"find": "a", "message": "x", "reason": "a ticket"},
        {"find": "a", "pattern": True, "reason": "a ticket"},
        {"pattern": True, "reason": "a ticket"},
        {"find": 5 * ["a"], "reason": "a ticket"},
        {"find": "a" * 10_001, "reason": "a ticket"},
        {"find": "a\x00", "reason": "a ticket"},
        {"find": "Lisbon", "reason": "x" * 2001},
        {"find": "Lisbon", "reason": "a ticket", "dry_run": "perhaps"},
    ],
)
def test_what_cannot_be_meant_is_refused_and_changes_nothing(trip, api, given):
    before, trail = rows(), recorded()
    answer = post(api, trip.url, **given)
    if given.get("find") == "a\x00" and answer.status_code == 200:
        assert answer.json()["hits"] == []
    else:
        assert answer.status_code == 400, answer.content
        assert answer.json()["detail"]
    assert (rows(), recorded()) == (before, trail)


@pytest.mark.parametrize(
    "given",
    [
        {"path": ["content", 9]},
        {"path": ["content", -1]},
        {"path": "content"},
        {"path": [1.5]},
        {"path": [True]},
        {"path": ["content"] * 21},
        {"path": ["content", 0, "text"], "start": 5},
        {"path": ["content", 0, "text"], "start": 5, "end": 5},
        {"path": ["content", 0, "text"], "start": -1, "end": 5},
        {"path": ["content", 0, "text"], "start": 900, "end": 901},
        {"path": ["content"], "start": 0, "end": 3},
        {"path": ["role"], "start": 0, "end": 300},
        {"start": 0, "end": 3},
        {"path": ["content", 0], "find": "card"},
        {"path": ["content", 10**30]},
    ],
)
def test_a_place_that_there_is_not_is_refused_and_changes_nothing(trip, api, given):
    before, trail = rows(), recorded()
    answer = post(api, trip.messages[2], reason="a ticket", **given)
    assert answer.status_code == 400, answer.content
    assert "card" not in answer.content.decode()
    assert (rows(), recorded()) == (before, trail)


def test_a_pattern_is_for_whoever_has_the_permission(ada, trip, api):
    refused = post(api, trip.url, find=r"4\d{3}", pattern=True, reason="a ticket")
    assert refused.status_code == 400
    assert "pattern" in refused.json()["errors"]
    grant(ada, "redact")
    client = client_of(ada)
    assert done(client, trip.url, find=r"4\d{3}", pattern=True)["messages"] == 1
    wrong = post(client, trip.url, find="(", pattern=True, reason="a ticket")
    assert wrong.status_code == 400


def test_a_held_session_refuses_every_redaction(trip, api):
    legal_hold.hold(trip.session.id, reason="A lawsuit")
    before, trail = rows(), recorded()
    for url, asked in ((trip.messages[2], {}), (trip.url, {"find": "A trip"})):
        answer = post(api, url, **asked, reason="a ticket")
        assert answer.status_code == 409
        assert answer.json()["code"] == "legal_hold"
    assert (rows(), recorded()) == (before, trail)


def test_the_answer_of_a_redaction_has_no_other_place_of_what_it_redacted(ada, api):
    store = SessionStore(owner=ada)
    record = store.open("twice")
    agent = store.agents.open(record, dialect="openai")
    store.append(agent, {"role": "user", "content": "code 5551234 again 5551234, to a@b.example"})
    url = f"/api/sessions/{record.id}/"

    asked: dict[str, Any] = {
        "5551234": {"find": "5551234"},
        "a@b.example": {"detectors": ["email"]},
    }
    for secret, given in asked.items():
        answer = post(api, url, **given, reason="a ticket")
        assert answer.json()["messages"] == 1, answer.content
        assert secret not in answer.content.decode()


# Over a second: it asks every route.
def test_after_it_no_route_shows_what_was_there(ada):
    planted = plant(ada)
    for one in ("view_sessionagent", "redact"):
        grant(ada, one)
    client = client_of(ada)
    before = seen_in(everything(client, planted))
    assert {"plantedtitle", "plantedmetadata", INTERNAL, COMMENT, *SAID, *STATES} == before
    done(client, planted.url("sessions/<agent_sessions_uuid:session>/"), find="planted")
    assert "planted" not in everything(client, planted).replace("planted-x", "").replace(
        f'"{planted.session.session_id}"', ""
    ).replace("Session: planted", "")


def test_what_was_redacted_is_in_no_row_and_no_answer(ada):
    planted = plant(ada)
    for one in SessionPermission:
        grant(ada, one)
    client = client_of(ada)
    assert GONE not in str(rows())
    assert GONE not in everything(client, planted)
    session, message = planted.session.pk, planted.messages[3].pk
    for url in (f"/api/sessions/{session}/", f"/api/messages/{message}/"):
        found = post(client, url, find=GONE, dry_run=True).json()
        assert (found["hits"], found["messages"]) == ([], 0)


@pytest.mark.parametrize("secret", [*STATES, INTERNAL])
def test_a_preview_answers_no_guess_about_a_state_that_may_not_be_seen(ada, secret):
    planted = plant(ada)
    url = planted.url("sessions/<agent_sessions_uuid:session>/")
    client = client_of(ada)
    right = post(client, url, find=secret[:-2], dry_run=True).json()
    wrong = post(client, url, find="nowhere at all", dry_run=True).json()
    assert right == wrong
    # Nor does the redaction itself, unless the conversation has the text, too.
    before = rows()
    answer = post(client, url, find=secret, reason="a ticket")
    assert (answer.status_code, answer.json()) == (200, {**right, "dry_run": False})
    assert rows() == before
    store = SessionStore(owner=ada)
    record = store.open(planted.session.session_id)
    store.append(store.agents.open(record, "concierge"), said("user", secret))
    assert post(client, url, find=secret, reason="a ticket").json()["messages"] == 1
    assert secret not in str(rows())


def test_whoever_may_see_states_previews_them(ada):
    planted = plant(ada)
    grant(ada, "view_sessionagent")
    found = post(
        client_of(ada),
        planted.url("sessions/<agent_sessions_uuid:session>/"),
        find="plantedstate",
        dry_run=True,
    )
    assert [hit["place"]["kind"] for hit in found.json()["hits"]] == ["agent", "snapshot"]
    assert found.json()["states"] == 2


def test_a_message_of_another_session_is_redacted_in_its_own_only(ada, api, trip, bob):
    other = Talk(bob, "Lisbon", session_id="other")
    assert post(api, other.messages[0], reason="a ticket").status_code == 404
    done(api, trip.url, find="Lisbon")
    assert with_text("Lisbon", SessionMessage.objects.filter(session=other.session.id))
    assert Session.objects.get(pk=other.session.id).redaction_epoch == 0


def test_a_session_tells_how_it_begins_and_ends_as_it_was_redacted(trip, api):
    done(api, trip.messages[0], find="Where")
    found = api.get(trip.url).json()
    assert found["first_text"]["text"] == "[REDACTED] to?"
    assert found["redactions"] == 1


def test_a_client_that_has_it_already_is_told_anew(trip, api):
    etag = api.get(trip.url)["ETag"]
    done(api, trip.url, find="Where")
    assert api.get(trip.url, headers={"If-None-Match": etag}).status_code == 200


def test_a_redaction_reaches_the_forks_of_a_session_and_theirs(trip, api):
    fork = api.post(f"{trip.url}fork/", {}, format="json").json()["id"]
    second = api.post(f"/api/sessions/{fork}/fork/", {}, format="json").json()["id"]

    preview = done(api, trip.url, find=CARD, dry_run=True)
    found = done(api, trip.url, find=CARD)

    assert [one["session"] for one in found["forks"]] == [fork, second]
    assert [one["hits"] for one in found["forks"]] == [len(found["hits"])] * 2
    assert preview["forks"] == found["forks"]
    assert (found["unreached"], found["more_unreached"]) == ([], 0)
    for key in (fork, second):
        assert CARD not in api.get(f"/api/sessions/{key}/messages/").content.decode()
    events = AuditEvent.objects.filter(action="redacted")
    assert {str(event.session) for event in events} == {str(trip.session.id), fork, second}


def test_a_message_is_redacted_in_forks_too_and_only_in_the_session_if_that_is_asked_for(trip, api):
    fork = api.post(f"{trip.url}fork/", {}, format="json").json()["id"]

    alone = done(api, trip.messages[1], find="Lisbon", descendants=False)
    found = done(api, trip.messages[2])

    assert alone["forks"] == []
    body = api.get(f"/api/sessions/{fork}/messages/").content.decode()
    assert "Lisbon" in body
    assert CARD not in body
    assert [one["session"] for one in found["forks"]] == [fork]


def test_a_fork_that_the_user_may_not_redact_is_named_or_counted_and_stays(trip, api, ada, bob):
    own, strangers = (
        api.post(f"{trip.url}fork/", {}, format="json").json()["id"] for _ in range(2)
    )
    Session.objects.filter(pk=strangers).update(owner=bob)

    found = done(api, trip.url, find=CARD)

    assert [one["session"] for one in found["forks"]] == [own]
    assert (found["unreached"], found["more_unreached"]) == ([], 1)
    assert CARD in str(list(SessionMessage.objects.filter(session=strangers).values("message")))
    assert not AuditEvent.objects.filter(session=strangers, action__in=["redacted", "read"])

    # Staff see it by its id, if they may read but not redact it.
    grant(ada, "view_session", "read_transcript")
    named = api.post(
        f"{trip.url}redact/?scope=all", {"find": "Lisbon", "dry_run": True}, format="json"
    ).json()
    assert (named["unreached"], named["more_unreached"]) == ([strangers], 0)
    grant(ada, "redact")
    all_of_it = api.post(
        f"{trip.url}redact/?scope=all", {"find": CARD, "reason": "r"}, format="json"
    ).json()
    assert [one["session"] for one in all_of_it["forks"]] == [strangers]
    assert AuditEvent.objects.filter(session=strangers, action="read").exists()


def test_a_hold_on_a_fork_refuses_the_whole_redaction(trip, api):
    api.patch(trip.url, {"title": CARD}, format="json")
    fork = api.post(f"{trip.url}fork/", {}, format="json").json()["id"]
    legal_hold.hold(fork, reason="case")

    answer = post(api, trip.url, find=CARD, reason="r")

    assert (answer.status_code, answer.json()["code"]) == (409, "legal_hold")
    assert CARD in api.get(trip.messages[2]).content.decode()
