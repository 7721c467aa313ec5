"""The health check tells what works, without texts of errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest
from django.test import Client, override_settings
from django.urls import path

from django_agent_sessions import health
from django_agent_sessions.events import postgresql_listener
from tests.docs.test_examples import example

pytestmark = pytest.mark.django_db(transaction=True)


def healthz(request: HttpRequest) -> Any:
    return example("how-to/monitoring.md", "healthz")(request)


urlpatterns = [path("healthz", healthz)]


def outcomes(report: health.HealthReport) -> dict[str, bool]:
    return {check.name: check.ok for check in report.checks}


@pytest.fixture
def applied():
    """The recorded migrations of the app, put back afterwards."""
    rows = MigrationRecorder(connection).migration_qs.filter(app="agent_sessions")
    kept = list(rows)
    yield rows
    for row in kept:
        row.save(force_insert=not rows.filter(pk=row.pk).exists())


def test_a_working_process_is_healthy():
    report = health.check()

    assert report.ok
    assert outcomes(report) == {"database": True, "migrations": True, "pool": True}
    assert json.loads(json.dumps(report.as_dict()))["ok"] is True


async def test_the_async_twin_tells_the_same():
    assert outcomes(await health.acheck()) == {"database": True, "migrations": True, "pool": True}


def test_a_missing_migration_is_named(applied):
    applied.delete()

    report = health.check()

    assert not report.ok
    (failed,) = [check for check in report.checks if not check.ok]
    assert failed.name == "migrations"
    assert failed.detail.startswith("not applied: 0001_initial, 0002_usage_hours, ")


def test_a_database_that_does_not_answer_is_told_by_the_class_of_its_error():
    def refuse(*args):
        raise DatabaseError("secret host")

    connection.ensure_connection()
    with connection.execute_wrapper(refuse):
        report = health.check()

    assert outcomes(report) == {"database": False, "pool": True}
    assert report.checks[0].detail == "DatabaseError"


@pytest.mark.parametrize("works", [True, False])
def test_the_storage_is_asked_if_requested(settings, monkeypatch, works):
    from django.core.files.storage import InMemoryStorage, storages

    settings.STORAGES = {
        **settings.STORAGES,
        "blobs": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    }
    settings.AGENT_SESSIONS = {"BLOB_STORAGE": "blobs"}
    if not works:

        def refuse(self, name):
            raise OSError("secret bucket")

        monkeypatch.setattr(InMemoryStorage, "exists", refuse)

    assert storages["blobs"] is not None
    assert "storage" not in outcomes(health.check())
    report = health.check(storage=True)
    assert outcomes(report)["storage"] is works
    assert "secret" not in str(report)


@pytest.mark.parametrize("receives", [True, False])
def test_a_listener_that_streams_need_is_part_of_it(monkeypatch, receives):
    monkeypatch.setattr(postgresql_listener, "is_receiving", lambda: receives)

    assert outcomes(health.check())["listener"] is receives
    assert health.check().ok is receives


@override_settings(ROOT_URLCONF="tests.monitoring.test_health")
def test_the_view_on_the_page_answers_200_or_503(applied):
    assert Client().get("/healthz").status_code == 200
    applied.delete()
    answer = Client().get("/healthz")
    assert answer.status_code == 503
    assert answer.json()["checks"] == {"database": True, "migrations": False, "pool": True}
