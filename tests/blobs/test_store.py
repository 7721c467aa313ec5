"""Large binaries leave the database and come back, whatever the store does with the message."""

from __future__ import annotations

import base64
import hashlib
from datetime import timedelta

import pytest
from django.core.checks import run_checks
from django.core.files.storage import InMemoryStorage
from django.core.files.storage import storages as default_storages
from django.core.management import call_command
from django.db import transaction
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from django_agent_sessions.blobs import extract_binaries
from django_agent_sessions.blobs.garbage_collection import collect
from django_agent_sessions.content.blob_refs import references, resolve
from django_agent_sessions.content.exact_json import dumps, loads
from django_agent_sessions.exceptions import (
    BlobError,
    BlobNotFoundError,
    LegalHoldError,
    PayloadError,
)
from django_agent_sessions.governance.legal_hold import hold, release
from django_agent_sessions.governance.redaction import Find, WholeMessage, redact
from django_agent_sessions.models import Blob, BlobReference, HeldCopy, SessionMessage
from django_agent_sessions.rest.redaction import RedactionSerializer
from django_agent_sessions.values.records import NewMessage

from .messages import PNG, image, picture, storages, user


@pytest.fixture
def strands(session, store, blob_folder):
    return store.agents.open(session, "main", dialect="strands")


pytestmark = pytest.mark.django_db(transaction=True)


def test_a_large_binary_is_a_file_and_the_message_comes_back_equal(strands, store, stored):
    message = user(
        image(picture(20_000)), {"document": {"source": {"bytes": b"%PDF-" + bytes(9000)}}}
    )
    store.append(strands, message)
    assert store.payloads(strands) == [message]
    assert store.messages.list(strands)[0].message == message
    assert store.messages.restore(strands)[0][1] == message
    assert store.messages.find(strands, 0).message == message
    assert len(stored()) == 2
    row = SessionMessage.objects.get()
    assert len(dumps(row.message)) < 1000
    assert set(Blob.objects.values_list("media_type", flat=True)) == {
        "image/png",
        "application/pdf",
    }


class RenamingStorage(InMemoryStorage):
    """A storage that chooses the names of its files itself, as those that use hashes do."""

    def get_available_name(self, name: str, max_length: int | None = None) -> str:
        return f"{name}.chosen"


def test_a_file_is_found_under_the_name_that_its_storage_chose(session, store, settings):
    backend = {"BACKEND": f"{__name__}.RenamingStorage"}
    settings.STORAGES = {**settings.STORAGES, **storages(backend)["STORAGES"]}
    settings.AGENT_SESSIONS = storages(backend)["AGENT_SESSIONS"]
    agent = store.agents.open(session, "main", dialect="strands")
    message = user(image(picture(20_000)))

    store.append(agent, message)

    assert store.payloads(agent) == [message]
    assert Blob.objects.get().file.endswith(".chosen")
    store.clear(agent)
    assert default_storages["blobs"].listdir(f"agent_sessions/{session.id}")[1] == []


def test_a_small_binary_stays_in_the_message(strands, store, stored):
    store.append(strands, user(image(PNG + bytes(100))))
    assert stored() == []


def test_openai_data_urls_and_base64_come_back_equal(session, store, stored, blob_folder):
    agent = store.agents.open(session)
    data = base64.b64encode(picture(20_000)).decode()
    items = [
        {
            "role": "user",
            "content": [{"type": "input_image", "image_url": f"data:image/png;base64,{data}"}],
        },
        {"type": "image_generation_call", "id": "1", "result": data, "status": "completed"},
        {
            "type": "function_call_output",
            "call_id": "2",
            "output": [{"type": "input_file", "file_data": data, "filename": "a.png"}],
        },
    ]
    store.append_many(agent, items)
    assert store.payloads(agent) == items
    # One file, although it is written in two ways.
    assert len(stored()) == 1


def test_the_same_image_twenty_times_is_stored_once_in_a_session(strands, store, stored):
    one = image(picture(20_000))
    for _ in range(20):
        store.append(strands, user(one))
    assert len(stored()) == 1
    other = store.agents.open(store.open("another"), "main", dialect="strands")
    store.append(other, user(one))
    assert len(stored()) == 2


def test_what_nobody_uses_any_more_is_deleted(strands, store, stored):
    first, second = user(image(picture(20_000))), user(image(picture(20_000)))
    store.append_many(strands, [first, second, first])
    assert store.pop(strands) == first
    assert len(stored()) == 2
    assert store.pop(strands) == second
    assert len(stored()) == 1
    store.messages.update(strands, 0, user({"text": "never mind"}))
    assert stored() == []
    store.append(strands, second)
    store.clear(strands)
    assert stored() == []
    assert not Blob.objects.exists()
    assert not BlobReference.objects.exists()


def test_deleting_a_session_deletes_its_files_and_no_others(strands, store, stored, session):
    message = user(image(picture(20_000)))
    store.append(strands, message)
    other = store.agents.open(store.open("another"), "main", dialect="strands")
    store.append(other, message)
    store.delete(session.session_id)
    assert len(stored()) == 1
    assert store.payloads(other) == [message]


def test_a_redaction_takes_the_file_away(strands, store, stored, session):
    message = user(image(picture(20_000)))
    record = store.append(strands, message)
    redact(session.id, WholeMessage(record.id), reason="test")
    assert stored() == []
    assert not Blob.objects.exists()


def test_a_string_is_found_in_a_file_and_the_rest_of_the_file_stays(
    strands, store, stored, session
):
    secret = b"4111-secret-1111"
    data = PNG + bytes(10_000) + secret + bytes(10_000)
    store.append(strands, user(image(data)))
    found = redact(session.id, Find(secret.decode()), reason="test")
    assert len(found.hits) == 1
    (file,) = stored()
    assert secret not in file.read_bytes()
    (message,) = store.payloads(strands)
    assert secret not in message["content"][1]["image"]["source"]["bytes"]


def test_what_was_not_there_to_be_looked_into_is_told_until_it_is_back(
    strands, store, stored, session, capsys
):
    secret = "4111-secret-1111"
    data = PNG + bytes(10_000) + secret.encode()
    kept = [store.append(strands, user(image(data))).id for _ in range(2)]
    (file,) = stored()
    away = file.rename(file.with_suffix(".away"))
    store.append(strands, user({"text": secret}))

    found = redact(session.id, Find(secret), reason="test")

    assert len(found.hits) == 1
    assert [place.key for place in found.unread] == kept
    assert [place["id"] for place in RedactionSerializer(found).data["unread"]] == [*map(str, kept)]
    asked = ["--find", secret, "--dry-run"]
    call_command("agent_sessions_redact", session.session_id, *asked)
    told = "a file was not searched completely, because it is missing from its storage"
    assert capsys.readouterr().out.count(told) == 2
    call_command("agent_sessions_redact", "--everybody", "--find", "not said", "--dry-run")
    printed = capsys.readouterr().out
    assert (printed.count(told), printed.count("matches in 0")) == (2, 1)
    away.rename(file)
    found = redact(session.id, Find(secret), reason="test")
    assert (len(found.hits), found.unread) == (2, [])
    assert not any(secret.encode() in file.read_bytes() for file in stored())


def test_a_guardrail_takes_the_file_away(strands, store, stored):
    store.append(strands, user(image(picture(20_000))))
    store.messages.redact(strands, 0, user({"text": "[REDACTED]"}))
    assert stored() == []


def test_a_held_session_keeps_the_bytes_of_an_overwritten_message(strands, store, stored, session):
    message = user(image(picture(20_000)))
    record = store.append(strands, message)
    hold(session.id, reason="court")
    with pytest.raises(LegalHoldError):
        redact(session.id, WholeMessage(record.id), reason="test")
    assert len(stored()) == 1
    store.messages.update(strands, 0, user({"text": "something else"}))
    assert HeldCopy.objects.get().content == {"message": message}
    assert stored() == []
    release(session.id, reason="over")
    assert not HeldCopy.objects.exists()


def test_a_rollback_leaves_at_most_an_orphan(strands, store, stored):
    with transaction.atomic():
        store.append(strands, user(image(picture(20_000))))
        assert len(stored()) == 1
        transaction.set_rollback(True)
    assert store.payloads(strands) == []
    assert not Blob.objects.exists()


def test_a_file_is_deleted_only_when_the_deletion_is_committed(strands, store, stored):
    message = user(image(picture(20_000)))
    store.append(strands, message)
    with transaction.atomic():
        assert store.pop(strands) == message
        transaction.set_rollback(True)
    assert store.payloads(strands) == [message]


def test_a_missing_file_is_a_clear_error_or_a_placeholder(
    strands, store, stored, settings, session
):
    store.append(strands, user(image(picture(20_000))))
    stored()[0].unlink()
    with pytest.raises(BlobNotFoundError, match=str(session.id)):
        store.payloads(strands)
    with pytest.raises(BlobNotFoundError):
        store.pop(strands)
    assert SessionMessage.objects.count() == 1
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "BLOB_PLACEHOLDERS": True}
    (message,) = store.payloads(strands)
    assert message["content"][0] == {"text": "Look:"}
    assert set(message["content"][1]) == {"text"}


def test_a_damaged_file_is_never_given_to_an_agent(strands, store, stored):
    store.append(strands, user(image(picture(20_000))))
    stored()[0].write_bytes(b"something else")
    with pytest.raises(BlobNotFoundError, match="damaged"):
        store.payloads(strands)


def test_a_retry_of_the_same_message_is_the_same_file(strands, store, stored):
    message = NewMessage(user(image(picture(20_000))))
    store.append(strands, message)
    store.append(strands, message, again=True)
    assert len(store.payloads(strands)) == 1
    assert len(stored()) == 1


def test_limits_are_said_before_anything_is_written(strands, store, stored, settings):
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "MAX_BLOB_BYTES": 10_000, "MAX_BLOBS": 2}
    with pytest.raises(PayloadError, match="MAX_BLOB_BYTES"):
        store.append(strands, user(image(picture(20_000))))
    with pytest.raises(PayloadError, match="MAX_BLOBS"):
        store.append(strands, user(*(image(picture(9000)) for _ in range(3))))
    assert stored() == []


def test_what_merely_looks_like_a_reference_is_content(strands, store, stored):
    message = user({"text": "x"}, {"json": {"$blob": {"sha256": "a" * 64, "size": 1}}})
    store.append(strands, message)
    assert store.payloads(strands) == [message]


def test_an_append_without_binaries_is_one_statement_still(
    strands, store, django_assert_num_queries
):
    with django_assert_num_queries(1):
        store.append(strands, user({"text": "hello"}), count=False)


leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=20), st.binary(max_size=40),
    st.binary(max_size=40).map(lambda data: base64.b64encode(data).decode()),
    st.binary(max_size=40).map(lambda d: f"data:image/png;base64,{base64.b64encode(d).decode()}"),
)  # fmt: skip
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["data", "result", "$blob", "text", "image_url"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("least", [1, 16])
@given(value=trees)
def test_any_payload_comes_back_equal_from_its_parts(value, least):
    with override_settings(AGENT_SESSIONS={"BLOB_STORAGE": "default", "BLOB_MIN_BYTES": least}):
        parts = extract_binaries(value)
    read = loads(dumps(parts.value))
    assert {r for _, r in references(read)} == set(parts.binaries)
    contents = {reference.sha256: data for reference, data in parts.binaries.items()}
    assert resolve(read, contents) == value


@pytest.mark.parametrize("prefix", ["", "/", "/a/b c/"])
def test_a_prefix_may_be_the_storage_itself(strands, store, stored, settings, prefix):
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "BLOB_PREFIX": prefix}
    assert [found.id for found in run_checks() if "agent_sessions" in str(found.id)] == []
    message = user(image(picture(20_000)))
    store.append(strands, message)
    assert store.payloads(strands) == [message]
    (stored()[0].parent / "orphan").write_bytes(b"1")
    found = collect(older_than=timedelta())
    assert [file.rpartition("/")[2] for file in found.files] == ["orphan"]
    assert len(stored()) == 1


@pytest.mark.parametrize("prefix", ["../up", "a/../b", "a//b", ".", "a\\b", "a\n", "a" * 200])
def test_a_prefix_that_no_storage_takes_is_an_error(settings, prefix):
    settings.AGENT_SESSIONS = {"BLOB_PREFIX": prefix}
    found = [found for found in run_checks() if "agent_sessions" in str(found.id)]
    assert [error.id for error in found] == ["agent_sessions.E005"]


def test_taking_the_storage_away_is_warned_of(strands, store, settings):
    def told() -> list[str]:
        return [str(found.id) for found in run_checks(databases=["default"])]

    store.append(strands, user(image(picture(20_000))))
    assert told() == []
    settings.AGENT_SESSIONS = {}
    assert told() == ["agent_sessions.W005"]
    # Also where rows are read from a replica, which no migration is run on.
    with override_settings(DATABASE_ROUTERS=["tests.topologies.routers.ReadsElsewhere"]):
        assert told() == ["agent_sessions.W005"]
    assert run_checks(databases=None) == []
    Blob.objects.all().delete()
    assert told() == []


def test_neither_names_nor_errors_tell_a_hash(strands, store, stored, caplog, blob_folder):
    data = picture(20_000)
    store.append(strands, user(image(data)))
    (file,) = stored()
    told = [str(file)]
    file.write_bytes(b"damaged")
    with pytest.raises(BlobNotFoundError) as damaged:
        store.payloads(strands)
    file.unlink()
    with pytest.raises(BlobNotFoundError) as missing:
        store.payloads(strands)
    # A folder in its place cannot be deleted.
    (file / "x").mkdir(parents=True)
    store.clear(strands)
    told += [str(damaged.value), str(missing.value), caplog.text]
    assert "could not be deleted" in caplog.text
    assert not any(hashlib.sha256(data).hexdigest()[:8] in text for text in told)


def test_a_damaged_file_is_told_with_its_message_which_can_be_blanked(
    strands, store, stored, session
):
    record = store.append(strands, user(image(picture(20_000))))
    stored()[0].write_bytes(b"half of a secret")
    with pytest.raises(BlobNotFoundError, match=str(record.id)):
        redact(session.id, Find("secret"), reason="test")
    redact(session.id, WholeMessage(record.id), reason="test")
    assert stored() == []


@pytest.mark.parametrize("placeholders", [False, True])
def test_an_alias_that_is_gone_is_an_outage_and_nothing_is_missing(
    strands, store, settings, placeholders
):
    message = user(image(picture(20_000)))
    store.append(strands, message)
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "BLOB_PLACEHOLDERS": placeholders}
    before = settings.STORAGES
    settings.STORAGES = {name: given for name, given in before.items() if name != "blobs"}
    with pytest.raises(BlobError, match="no alias 'blobs'") as told:
        store.payloads(strands)
    assert not isinstance(told.value, BlobNotFoundError)
    settings.STORAGES = before
    assert store.payloads(strands) == [message]
