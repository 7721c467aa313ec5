"""The OpenAPI document: complete, valid, in plain words, and what it was."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.urls import URLResolver, get_resolver
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.validation import validate_schema
from rest_framework.exceptions import APIException

from django_agent_sessions.rest import problems

from .openapi import FILE, document, written


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    GENERATOR_STATS.reset()
    found: dict[str, Any] = json.loads(written(document()))
    return found


def operations(made: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_the_document_is_made_without_a_warning_and_is_valid(made):
    assert not GENERATOR_STATS
    validate_schema(made)


def test_the_document_is_the_one_that_clients_know(made):
    # A change of it is a change for them: `python -m tests.rest.openapi` writes it anew.
    assert made == json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.django_db
def test_the_document_is_served_to_whoever_asks(client, made):
    answer = client.get("/api/schema/", {"format": "json"})
    assert answer.status_code == 200
    assert answer.json() == made
    assert client.get("/api/schema/").content.startswith(b"openapi: 3")


def test_every_route_is_described_and_nothing_else(made):
    api = next(
        pattern
        for pattern in get_resolver("tests.urls").url_patterns
        if isinstance(pattern, URLResolver) and pattern.app_name == "agent_sessions_api"
    )
    routes = {
        re.sub(r"<\w+:(\w+)>", r"{\1}", f"/api/{pattern.pattern}") for pattern in api.url_patterns
    }
    assert set(made["paths"]) == routes - {"/api/schema/"}


def test_every_operation_has_a_name_a_summary_a_group_and_all_is_explained(made):
    names = [operation["operationId"] for _, operation in operations(made)]
    assert len(set(names)) == len(names)
    groups = {tag["name"] for tag in made["tags"]}
    for where, operation in operations(made):
        assert operation["summary"][0].isupper(), where
        assert not operation["summary"].endswith("."), where
        assert operation["description"].endswith("."), where
        assert "``" not in operation["description"], where
        assert set(operation["tags"]) <= groups, where
        for parameter in operation["parameters"]:
            assert parameter["description"], (where, parameter["name"])
        for status, response in operation["responses"].items():
            assert response["description"], (where, status)


def test_every_error_is_a_problem_and_each_that_can_be_is_described(made):
    for where, operation in operations(made):
        responses = operation["responses"]
        errors = {status for status in responses if status >= "400"}
        assert {"401", "403", "404", "406", "429"} <= errors, where
        if "requestBody" in operation:
            assert {"400", "413", "415"} <= errors, where
            assert list(operation["requestBody"]["content"]) == ["application/json"], where
        for status in errors:
            assert list(responses[status]["content"]) == ["application/problem+json"], where
            schema = responses[status]["content"]["application/problem+json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Problem"}, where


def test_parts_of_parts_are_parts(made):
    part = made["components"]["schemas"]["Part"]
    assert part["properties"]["parts"]["items"] == {"$ref": "#/components/schemas/Part"}


def test_what_a_search_adds_to_a_page_is_described(made):
    page = made["components"]["schemas"]["PaginatedSessionRowList"]
    assert set(page["required"]) == {"results", "next", "previous"}
    assert page["properties"]["search"]["required"] == ["truncated", "limited"]


def test_requests_take_nothing_but_what_is_described(made):
    for where, operation in operations(made):
        if body := operation.get("requestBody"):
            name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            assert made["components"]["schemas"][name]["additionalProperties"] is False, where
            assert body["content"]["application/json"]["examples"], where


def test_every_code_of_an_error_is_on_the_page_about_errors():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "rest.md").read_text()
    mine = {name for _, _, name in problems._PACKAGE_ERRORS} | {
        "file_missing",
        "database_unavailable",
        "storage_unavailable",
    }
    kinds = [APIException]
    for kind in kinds:
        kinds += kind.__subclasses__()
    known = [
        kind
        for kind in kinds[1:]
        if kind.__module__.startswith(("django_agent_sessions.", "rest_framework."))
    ]
    codes = mine | {kind.default_code for kind in known}

    assert [code for code in sorted(codes) if f"`{code}`" not in page] == []
