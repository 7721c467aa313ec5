"""Every route × method refuses a query parameter that it does not know, before it does anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rest_framework.decorators import action
from rest_framework.response import Response
from rest_framework.test import APIClient, APIRequestFactory, force_authenticate

from django_agent_sessions.rest.viewsets import SessionViewSet

from .asks import ASKS
from .planted import METHODS, ask, body_of, recorded, routes, rows

pytestmark = pytest.mark.django_db

NEW = {"dry_run": "true"}
"""What belongs into the body."""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("route", list(routes()))
def test_an_unknown_parameter_is_refused_and_nothing_is_done(planted, api, route, method):
    before, trail = rows(), recorded()
    asks = [one for one in ASKS if (one.route, one.method) == (route, method)]
    for body, query, message in [({}, {}, 0), *((a.body, dict(a.query), a.message) for a in asks)]:
        answer = ask(api, method, planted.url(route, message), {**query, **NEW}, body)
        if answer.status_code == 405:
            assert not asks
            continue
        assert answer.status_code == 400, body_of(answer)
        if method != "head":
            assert list(json.loads(body_of(answer))["errors"]) == ["dry_run"]
    assert rows() == before
    assert recorded() == trail


@pytest.mark.parametrize("given", ASKS, ids=lambda one: one.name)
def test_what_a_route_knows_is_not_refused(planted, api, given):
    query = {**dict(given.query), **({"scope": "own"} if given.scoped else {})}
    answer = ask(api, given.method, planted.url(given.route, given.message), query, given.body)
    assert "Unknown parameter" not in ("" if answer.streaming else body_of(answer))


def test_the_document_has_the_parameters_that_are_known(planted, api):
    from .openapi import document

    wrong, paths = [], document()["paths"]
    for route in routes():
        for method, operation in paths.get(_path(route), {}).items():
            answer = ask(api, method, planted.url(route), NEW)
            (hint,) = json.loads(body_of(answer))["errors"]["dry_run"]
            known = hint.removeprefix("Unknown parameter. The parameters are: ")
            named = {one["name"] for one in operation["parameters"] if one["in"] == "query"}
            if {"scope", *named} != set(known.removesuffix(".").split(", ")):
                wrong.append((method, route, known, sorted(named)))
    assert wrong == []


def _path(route: str) -> str:
    import re

    return "/api/" + re.sub(r"<\w+:(\w+)>", r"{\1}", route)


def test_it_tells_nobody_whether_there_is_such_a_session(planted, api, stranger):
    for client in (api, stranger):
        for url in (planted.url("sessions/<x:session>/"), f"/api/sessions/{planted.agent.pk}/"):
            assert client.delete(f"{url}?dry_run=true").status_code == 400
    assert stranger.delete(planted.url("sessions/<x:session>/")).status_code == 404
    assert APIClient().delete(planted.url("sessions/<x:session>/?dry_run=true")).status_code in (
        401,
        403,
    )


def test_options_knows_what_the_methods_know(planted, api):
    url = planted.url("sessions/<x:session>/export/")
    assert api.options(f"{url}?as=jsonl").status_code == 200
    assert api.options(f"{url}?format=json").status_code == 200


class Sessions(SessionViewSet):
    query_parameters = ("color",)

    def destroy(self, request: Any, session: Any) -> Response:
        return super().destroy(request, session)

    @action(detail=True)
    def paint(self, request: Any, session: Any) -> Response:
        return Response(request.query_params)


@pytest.mark.parametrize(
    ("method", "handler", "query", "status"),
    [
        ("delete", "destroy", "reason=ticket&color=red", 204),
        ("delete", "destroy", "colour=red", 400),
        ("get", "paint", "color=red", 200),
        ("get", "paint", "reason=ticket", 400),
    ],
)
def test_a_subclass_keeps_what_its_base_knows(planted, ada, method, handler, query, status):
    request = getattr(APIRequestFactory(), method)(f"/?{query}")
    force_authenticate(request, ada)
    view: Any = Sessions.as_view({method: handler})
    assert view(request, session=planted.session.pk).status_code == status


def test_a_download_is_true_or_false(planted, api):
    url = planted.url("messages/<x:message>/media/")
    answer = ask(api, "get", url, {"path": '["content", 1]', "download": "ja"})
    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == ["download"]
