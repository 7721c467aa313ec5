"""After an erasure, nothing of the person is in any file of the database or of the storage."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection

from django_agent_sessions import audit
from django_agent_sessions.content import codec
from django_agent_sessions.exceptions import ErasureReceiptError
from django_agent_sessions.governance.erasure import erase, verify
from django_agent_sessions.models import AuditEvent, Blob, Operation, Session
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing, files_containing
from tests.blobs.conftest import blob_folder  # noqa: F401 - a fixture
from tests.governance.person import OTHERS, WORD, fill, fill_others, message
from tests.s3 import bucket_fixture  # noqa: F401 - a fixture
from tests.texts import with_text

pytestmark = pytest.mark.django_db(transaction=True)

NAME, MAIL, KEY = "lovelace1815", "countess1852", 987_654_321
SESSIONS = 30


@pytest.fixture
def person(blob_folder, bob):  # noqa: F811 - the fixture
    lovelace = get_user_model().objects.create_user(
        NAME, email=f"{MAIL}@example.org", pk=KEY, first_name="Augusta"
    )
    for number in range(SESSIONS):
        _session, fork = fill(lovelace, bob, number)
    fill_others(lovelace, bob, fork)
    return lovelace


def in_storage(folder: Path, text: str) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if text.encode() in path.read_bytes()]


@pytest.mark.skipif("PGDIRECTPORT" in os.environ, reason="a pooler cannot scrub")
def test_no_word_name_or_id_is_left_anywhere(person, blob_folder):  # noqa: F811 - the fixture
    planted = (WORD, NAME, str(KEY))
    assert all(columns_containing(text) for text in planted)
    assert codec.hides_text() or len(in_storage(blob_folder, WORD)) == SESSIONS * 2

    receipt = erase(person, reason=f"Request 31 of {NAME}", actor="desk")
    person.delete()
    connection.close()
    call_command("agent_sessions_scrub", verbosity=0)

    for text in (*planted, MAIL):
        assert columns_containing(text) == [], text
        assert in_storage(blob_folder, text) == []
    for text in (WORD, NAME, MAIL):
        assert files_containing(text) == [], text
    assert receipt.counts["sessions"] == receipt.counts["fork_sessions"] == SESSIONS
    assert receipt.files_left == 0
    assert verify(receipt.to_json()) == []
    # What others wrote is there.
    assert len(with_text(OTHERS)) == SESSIONS + 1


def test_details_of_events_have_the_persons_hash_in_place_of_the_key_and_names(person):
    audit.record(AuditEvent.Action.READ, actor="desk", details={"hits": KEY, "of": [{"user": KEY}]})

    receipt = erase(person, reason="Request 31")

    event = AuditEvent.objects.get(action="searched")
    assert event.details["owner"] == receipt.person
    assert NAME not in str(event.details["names"])
    # A figure that happens to be the same number is a figure.
    event = AuditEvent.objects.get(actor="desk", action="read")
    assert event.details == {"hits": KEY, "of": [{"user": receipt.person}]}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"counts": {', '"counts": {"sessions": 9999}, "counts": {'),
        ('"person": "', '"person": "bob@example.org", "person": "'),
        ('"signature"', '"statement": "Bob was erased, too.", "signature"'),
        ('"receipt"', '"receipt": {"person": "bob"}, "receipt"'),
        ('{\n  "receipt"', '[]\n  "receipt"'),
    ],
)
def test_a_receipt_with_a_member_twice_or_beside_it_is_refused(bob, old, new):
    text = erase(bob, reason="Request 31").to_json()
    assert old in text

    with pytest.raises(ErasureReceiptError):
        verify(text.replace(old, new, 1))


@pytest.mark.parametrize("name", ["via", "api", "yes", "held", "export", "read"])
def test_a_name_that_is_a_word_of_the_trail_rewrites_nothing_of_others(db, name):
    audit.record(AuditEvent.Action.READ, actor="desk", details={"via": "api", "view": "read"})
    audit.record(AuditEvent.Action.EXPORTED, reason="viable, they said; reread")
    Operation.objects.create(kind="export", criteria={"filters": {"held": ["yes"]}})
    before = list(AuditEvent.objects.values("pk", "details", "reason"))

    erase(get_user_model().objects.create_user(name), reason="Request 31", actor="dpo")

    keys = [row["pk"] for row in before]
    assert list(AuditEvent.objects.filter(pk__in=keys).values("pk", "details", "reason")) == before
    assert Operation.objects.count() == 1


@pytest.mark.parametrize("filters", [{"assignee": ["Ada"]}, {"metadata_team": ["a: ada"]}])
def test_an_operation_whose_filter_names_the_person_is_deleted(ada, filters):
    Operation.objects.create(kind="hold", criteria={"filters": filters})
    Operation.objects.create(kind="hold", criteria={"filters": {"metadata_team": ["adapters"]}})

    erase(ada, reason="Request 31", actor="dpo")

    assert [one.criteria["filters"] for one in Operation.objects.all()] == [
        {"metadata_team": ["adapters"]}
    ]


def test_the_receipt_stops_verifying_when_a_row_is_put_back(person):
    session: Any = Session.objects.filter(owner=person).values().first()
    text = erase(person, reason="Request 31").to_json()
    assert verify(text) == []

    Session.objects.create(**session)

    assert len(verify(text)) == 2


def test_forks_beyond_ten_thousand_of_a_line_are_found(bob, ada, monkeypatch):
    store = SessionStore(owner=ada)
    session = store.open("hers")
    store.append(store.agents.open(session, dialect="strands"), message(WORD))
    monkeypatch.setattr("django_agent_sessions.models.querysets._MAX_KEYS", 2)
    monkeypatch.setattr("django_agent_sessions.governance.person_data._BATCH", 2)
    forks = [store.sessions.fork(session) for _ in range(5)]
    Session.objects.filter(pk__in=[fork.id for fork in forks]).update(owner=bob)

    receipt = erase(ada, reason="Request 31")

    assert receipt.counts["fork_sessions"] == 5
    assert columns_containing(WORD) == []


def test_all_versions_of_a_file_in_a_bucket_are_deleted(bob, ada, bucket, settings):
    bucket.keep_versions()
    backend = {"BACKEND": "tests.s3.QuickStorage", "OPTIONS": bucket.options}
    settings.STORAGES = {**settings.STORAGES, "blobs": backend}
    settings.AGENT_SESSIONS = {"BLOB_STORAGE": "blobs"}
    store = SessionStore(owner=ada)
    agent = store.agents.open(store.open("hers"), dialect="strands")
    store.append(agent, message("a picture", binary=WORD.encode() * 2000))
    name = Blob.objects.get().file
    # Versions that a restored backup or another program wrote, below a mark of deletion.
    bucket.client.put_object(Bucket=bucket.name, Key=name, Body=WORD.encode())
    bucket.client.delete_object(Bucket=bucket.name, Key=name)
    assert len(bucket.versions()) == 3

    receipt = erase(ada, reason="Request 31")

    assert bucket.versions() == []
    assert receipt.files_left == 0
