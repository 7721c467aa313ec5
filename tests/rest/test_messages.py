"""Messages through the API: pages in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from django_agent_sessions.models import SessionMessage
from tests.admin.transcripts import said

from .conftest import Talk, listed

pytestmark = pytest.mark.django_db


def texts(page: dict[str, Any]) -> list[str]:
    return [message["parts"][0]["text"] for message in page["results"]]


@pytest.fixture
def many(ada) -> Talk:
    """Twelve messages of one agent and, between them, six of another."""
    talk = Talk(ada)
    writer = talk.store.agents.open(talk.session, "writer/two", dialect="openai")
    for number in range(12):
        talk.say(said("user" if number % 2 == 0 else "assistant", f"m{number}"))
        if number % 2:
            talk.store.append(writer, {"role": "user", "content": f"w{number}"})
    return talk


def in_time() -> list[str]:
    return [str(key) for key in SessionMessage.objects.order_by("id").values_list("pk", flat=True)]


@given(limit=st.integers(1, 20), order=st.sampled_from(["asc", "desc"]), agent=st.booleans())
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pages_hold_everything_once_in_both_orders_and_lead_back(many, api, limit, order, agent):
    query = {"limit": limit, "order": order, **({"agent": "concierge"} if agent else {})}
    every = [row["id"] for row in listed(api, many, **{**query, "limit": 200})["results"]]
    assert len(every) == (12 if agent else 18)
    found: list[str] = []
    page = last = listed(api, many, **query)
    while page:
        found += [row["id"] for row in page["results"]]
        last = page
        page = api.get(page["next"]).json() if page["next"] else {}
    assert found == every
    assert len(last["results"]) in (limit, len(every) % limit)
    back = [row["id"] for row in last["results"]]
    while last["previous"]:
        last = api.get(last["previous"]).json()
        back = [row["id"] for row in last["results"]] + back
    assert back == every


def test_the_oldest_are_first_unless_the_newest_are_asked_for(many, api):
    rising = [row["id"] for row in listed(api, many)["results"]]
    falling = [row["id"] for row in listed(api, many, order="desc")["results"]]
    assert rising == falling[::-1] == in_time()


def test_a_first_page_has_no_page_before_it_and_a_last_one_none_after(many, api):
    for order in ("asc", "desc"):
        page = listed(api, many, limit=5, order=order)
        assert page["previous"] is None
        while page["next"]:
            page = api.get(page["next"]).json()
        assert page["results"]
        assert listed(api, many, limit=18, order=order)["next"] is None


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_an_id_is_a_place_and_after_is_further_down_the_list(many, api, order):
    every = [row["id"] for row in listed(api, many, order=order)["results"]]
    after = listed(api, many, order=order, after=every[7], limit=3)
    assert [row["id"] for row in after["results"]] == every[8:11]
    before = listed(api, many, order=order, before=every[7], limit=3)
    assert [row["id"] for row in before["results"]] == every[4:7]
    around = listed(api, many, order=order, around=every[7], limit=5)
    assert every[7] in [row["id"] for row in around["results"]]
    assert len(around["results"]) == 5
    both = [api.get(around[side]).json()["results"] for side in ("previous", "next")]
    together = [row["id"] for row in [*both[0], *around["results"], *both[1]]]
    assert together == [one for one in every if one in together]


def test_around_the_ends_there_is_what_there_is(many, api):
    every = in_time()
    first, last = (listed(api, many, around=key, limit=6) for key in (every[0], every[-1]))
    assert first["previous"] is None
    assert first["results"][0]["id"] == every[0]
    assert last["next"] is None
    assert last["results"][-1]["id"] == every[-1]


def test_one_agents_messages_are_read_by_position(many, api):
    page = listed(api, many, agent="writer/two")
    assert texts(page) == [f"w{number}" for number in range(1, 12, 2)]
    assert {row["agent"] for row in page["results"]} == {"writer/two"}
    assert [row["position"] for row in page["results"]] == list(range(6))
    assert listed(api, many, agent="nobody")["results"] == []


def test_a_query_finds_what_has_it_in_any_case(many, api):
    assert texts(listed(api, many, q="M1")) == ["m1", "m10", "m11"]
    assert texts(listed(api, many, q="m1", limit=2)) == ["m1", "m10"]
    assert texts(listed(api, many, q="m1", agent="writer/two")) == []
    following = api.get(listed(api, many, q="m1", limit=2)["next"]).json()
    assert texts(following) == ["m11"]


@pytest.mark.parametrize(
    "query",
    ["order=up", "limit=0", "limit=201", "limit=-1", "limit=1e2", "after=x", "around=1",
     "before=%00", "raw=1", "cursor=x", "cursor=", f"q={'x' * 501}"],
)  # fmt: skip
def test_a_wrong_parameter_is_an_error_that_names_it(many, api, query):
    answer = api.get(f"{many.url}messages/?{query}")
    assert answer.status_code == 400
    assert query.split("=")[0] in answer.json()["errors"]


def test_two_places_at_once_are_none(many, api):
    key = in_time()[0]
    answer = api.get(f"{many.url}messages/", {"after": key, "before": key})
    assert answer.status_code == 400
    assert set(answer.json()["errors"]) == {"after", "before"}


def test_a_conversation_without_a_message_is_an_empty_page(ada, api):
    page = listed(api, Talk(ada))
    assert page == {"results": [], "next": None, "previous": None}
