"""The list of sessions, filtered by their metadata: exact texts, of the own sessions only."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection

from django_agent_sessions.store import SessionStore
from tests.encryption.conftest import encrypt  # noqa: F401 - a fixture

SESSIONS = "/api/sessions/"

pytestmark = pytest.mark.django_db

METADATA: dict[str, dict[str, Any]] = {
    "blue": {"team": "blue", "order.id": "A-1", "equipe_é": "x"},
    "upper": {"team": "Blue"},
    "padded": {"team": "blue "},
    "longer": {"team": "blueish", "order.id": "A-1"},
    "number": {"team": 7, "level": "7"},
    "text": {"team": "7"},
    "nested": {"team": {"blue": "blue"}, "order": {"id": "A-1"}},
    "list": {"team": ["blue"]},
    "quote": {"team": "b\"l\\u'e%_"},
    "none": {},
    "true": {"team": True},
    "null": {"team": None},
    "true's text": {"team": "true"},
    "the list's text": {"team": '["blue"]'},
}

# As the page on the API says, it compares without spaces at the end.
ON_MARIADB = {("metadata[team]", "blue"): {"padded"}}


@pytest.fixture
def found(api, ada, bob):
    for name, metadata in METADATA.items():
        SessionStore(owner=ada).create(name, metadata=metadata)
        SessionStore(owner=bob).create(f"bobs {name}", metadata=metadata)

    def found(*parameters):
        answer = api.get(f"{SESSIONS}?{urlencode(parameters)}")
        assert answer.status_code == 200, answer.content
        return {row["session_id"] for row in answer.json()["results"]}

    return found


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ([("metadata[team]", "blue")], {"blue"}),
        ([("metadata[team]", "7")], {"text"}),
        ([("metadata[team]", "true")], {"true's text"}),
        ([("metadata[team]", "null")], set()),
        ([("metadata[team]", '["blue"]')], {"the list's text"}),
        ([("metadata[team]", '{"blue": "blue"}')], set()),
        ([("metadata[team]", "b\"l\\u'e%_")], {"quote"}),
        ([("metadata[team]", "")], set()),
        ([("metadata[order.id]", "A-1")], {"blue", "longer"}),
        ([("metadata[order.id]", "A-1"), ("metadata[team]", "blueish")], {"longer"}),
        ([("metadata[order.id]", "A-1"), ("session_id", "blue")], {"blue"}),
        ([("metadata[equipe_é]", "x")], {"blue"}),
        ([("metadata[team__blue]", "blue")], set()),
        ([("metadata[missing]", "x")], set()),
    ],
)
def test_exact_texts_are_found_in_the_own_sessions(found, parameters, names):
    if connection.vendor == "mysql":
        names = names | ON_MARIADB.get(parameters[0], set())
    assert found(*parameters) == names


@pytest.mark.parametrize(
    "parameter",
    [
        "metadata",
        "metadata[]",
        "metadata[team",
        "metadata[team]x",
        "metadata[a][b]",
        "metadata[1]",
        "metadata[_x]",
        "metadata[a'b]",
        'metadata[a"b]',
        "metadata[a b]",
        "metadata[" + "a" * 65 + "]",
        "archived[x]",
        "Metadata[team]",
        "metadata__team",
    ],
)
def test_what_is_no_filter_is_refused_and_lists_nothing(api, parameter):
    answer = api.get(f"{SESSIONS}?{urlencode({parameter: 'blue'})}")

    assert answer.status_code == 400
    assert answer.json()["errors"]


@pytest.mark.parametrize(
    "parameters",
    [
        [("metadata[team]", "x" * 256)],
        [("metadata[team]", "a\x00b")],
        [("metadata[team]", "blue"), ("metadata[team]", "red")],
        [(f"metadata[key{number}]", "x") for number in range(11)],
    ],
    ids=["long", "nul", "twice", "many"],
)
def test_values_are_bounded(api, parameters):
    answer = api.get(f"{SESSIONS}?{urlencode(parameters)}")

    assert answer.status_code == 400
    assert "metadata" in answer.json()["errors"]


def test_the_next_page_has_the_same_filter(api, ada):
    for number in range(5):
        metadata = {"team": ("blue", "red")[number % 2]}
        SessionStore(owner=ada).create(f"s{number}", metadata=metadata)

    page = api.get(f"{SESSIONS}?{urlencode({'metadata[team]': 'blue', 'limit': 2})}").json()
    rest = api.get(page["next"]).json()
    names = [row["session_id"] for row in (*page["results"], *rest["results"])]
    assert names == ["s4", "s2", "s0"]
    assert rest["next"] is None
    other = page["next"].replace("blue", "red")
    assert api.get(other).status_code == 400


def test_encrypted_metadata_is_not_filtered_and_the_answer_says_so(api, ada, request):
    request.getfixturevalue("encrypt")(METADATA=True)
    SessionStore(owner=ada).create("s", metadata={"team": "blue"})
    answer = api.get(f"{SESSIONS}?{urlencode({'metadata[team]': 'blue'})}")

    assert answer.status_code == 400
    assert answer.json()["detail"] == "metadata is encrypted, so it cannot be filtered"


def test_a_filter_by_metadata_counts_as_a_search(api, monkeypatch):
    rates = {"agent-sessions-search": "2/min"}
    monkeypatch.setattr("rest_framework.throttling.SimpleRateThrottle.THROTTLE_RATES", rates)
    query = urlencode({"metadata[team]": "blue"})
    answers = [api.get(f"{SESSIONS}?{query}").status_code for _ in range(3)]

    assert answers == [200, 200, 429]
    assert api.get(SESSIONS).status_code == 200
