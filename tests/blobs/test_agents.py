"""Real agents with large documents and images, on the file system and on S3."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from agents import Runner
from django.contrib.auth import get_user_model
from django.db import connection, connections
from openai.types.responses.response_output_item import ImageGenerationCall

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.db import bridge
from django_agent_sessions.governance.redaction import Find, WholeMessage, redact
from django_agent_sessions.models import Blob, Session, SessionMessage
from django_agent_sessions.store import SessionStore
from tests.adapters.openai_agents.team import assistant
from tests.adapters.openai_agents.team import requests as openai_requests
from tests.adapters.strands.agents import build
from tests.processes import outputs, ready, start
from tests.s3 import bucket_fixture  # noqa: F401 - a fixture

from .deeds import SECRET, expect_clean, picture
from .process import digest

pytestmark = pytest.mark.django_db(transaction=True)

MEGABYTE = 1024 * 1024


class Place:
    """Where large binaries are."""

    def __init__(self, storage: dict[str, Any], folder: Path | None, bucket: Any) -> None:
        self.storage = storage
        self.folder = folder
        self.bucket = bucket

    def names(self) -> list[str]:
        if self.folder is None:
            return list(self.bucket.found())
        return [str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file()]


@pytest.fixture(params=["files", "s3"])
def place(request, tmp_path, settings) -> Place:
    """Sends large binaries to a folder, or to a bucket."""
    if request.param == "files":
        folder = tmp_path / "blobs"
        backend = "django.core.files.storage.FileSystemStorage"
        found = Place({"BACKEND": backend, "OPTIONS": {"location": str(folder)}}, folder, None)
    else:
        bucket = request.getfixturevalue("bucket")
        backend = "storages.backends.s3.S3Storage"
        found = Place({"BACKEND": backend, "OPTIONS": bucket.options}, None, bucket)
    settings.STORAGES = {**settings.STORAGES, "blobs": found.storage}
    settings.AGENT_SESSIONS = {**getattr(settings, "AGENT_SESSIONS", {}), "BLOB_STORAGE": "blobs"}
    return found


def database_bytes() -> int:
    """How much the tables take; what is only in a log, or dead, is put away first."""
    tables = [model._meta.db_table for model in (Session, SessionMessage, Blob)]
    tables += [f"{Blob._meta.db_table}reference"]
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return os.path.getsize(connection.settings_dict["NAME"])
        if connection.vendor == "postgresql":
            # Without the rows of before an update.
            for table in tables:
                cursor.execute(f"VACUUM FULL {table}")
            sizes = ", ".join(f"pg_total_relation_size('{table}')" for table in tables)
            cursor.execute(f"SELECT {sizes.replace(', ', ' + ')}")
            return int(cursor.fetchone()[0])
        total = 0
        for table in tables:
            cursor.execute(f"SELECT * FROM {table}")
            total += sum(len(str(value)) for row in cursor.fetchall() for value in row)
        return total


def pdf(size: int) -> bytes:
    return b"%PDF-1.7\n" + os.urandom(size - 9)


def image_block(data: bytes) -> Any:
    return {"image": {"format": "png", "source": {"bytes": data}}}


def input_image(data: bytes) -> Any:
    return {"type": "input_image", "detail": "auto", "image_url": data_url(data)}


def data_url(data: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def restored_elsewhere(sdk: str, place: Place) -> str:
    """The hash of the conversation that another process restores."""
    connections.close_all()
    process = start("tests.blobs.process", "restore", sdk, json.dumps(place.storage))
    ready([process])
    ((found,),) = outputs([process])
    return found


@pytest.mark.process
def test_a_strands_agent_with_20_megabytes_and_ten_images(place):
    # The first rows of a table take a page of it, and of each of its indexes.
    build("Hello.")([{"text": "Hi"}, *(image_block(picture(f"first {n}")) for n in range(12))])
    before = database_bytes()

    agent = build("A long one.", "Ten images.")
    document = {"name": "report", "format": "pdf", "source": {"bytes": pdf(20 * MEGABYTE)}}
    said: Any = [{"text": "Read this"}, {"document": document}]
    agent(said)
    agent([{"text": "Look"}, *(image_block(picture(str(n))) for n in range(10))])

    assert database_bytes() - before < 20_000
    assert len(place.names()) == 12 + 11
    assert restored_elsewhere("strands", place) == digest(agent.messages)


@pytest.mark.process
async def test_an_openai_agent_with_images_that_it_gets_and_makes(place):
    session = DjangoSession("s")
    # The first rows of a table take a page of it, and of each of its indexes.
    first: list[Any] = [input_image(picture(f"first {n}")) for n in range(12)]
    await session.add_items([{"role": "user", "content": first}])
    before = await bridge.arun_orm(database_bytes)

    made = ImageGenerationCall(
        id="ig_1",
        type="image_generation_call",
        status="completed",
        result=base64.b64encode(picture("made")).decode(),
    )
    agent = assistant([made], "Here it is.", "Thanks.")
    images = [input_image(picture(str(n))) for n in range(10)]
    file = {"type": "input_file", "filename": "a.pdf", "file_data": data_url(pdf(MEGABYTE))}
    await Runner.run(agent, [{"role": "user", "content": [*images, file]}], session=session)  # type: ignore[list-item, misc] # plain dicts
    items = await session.get_items()

    assert await bridge.arun_orm(database_bytes) - before < 20_000
    assert len(place.names()) == 12 + 12
    assert [i for i in items if i.get("role") == "user"][1]["content"] == [*images, file]  # type: ignore[typeddict-item] # any item has one
    assert await bridge.arun_orm(restored_elsewhere, "openai", place) == digest(items)
    # And the model gets them, from whoever goes on.
    other = assistant("Thanks.")
    await Runner.run(other, "Go on", session=DjangoSession("s"))
    assert openai_requests(other)[0][:-1] == items


def test_an_image_sent_twenty_times_is_stored_once(place):
    agent = build()
    for _ in range(20):
        agent([{"text": "Again"}, image_block(picture("same"))])
    assert len(place.names()) == 1
    assert build().messages == agent.messages


def two_sessions() -> tuple[Session, Session]:
    """Two agents that were shown the same image."""
    for name in ("mine", "other"):
        build("Nice.", session_id=name)([{"text": "Look"}, image_block(picture("same"))])
    return Session.objects.get(session_id="mine"), Session.objects.get(session_id="other")


def redact_message(session: Session) -> None:
    found = SessionMessage.objects.get(session=session, message_id=0)
    redact(session.pk, WholeMessage(found.pk), reason="A request")


def delete_by_store(session: Session) -> None:
    SessionStore().delete(session.session_id)


def delete_rows(session: Session) -> None:
    Session.objects.filter(pk=session.pk).delete()


def delete_user(session: Session) -> None:
    user = get_user_model().objects.create_user("ada")
    Session.objects.filter(pk=session.pk).update(owner=user)
    user.delete()


def delete_in_admin(session: Session) -> None:
    from django.test import Client

    get_user_model().objects.create_superuser("admin", password="x")
    browser = Client()
    browser.login(username="admin", password="x")
    answer = browser.post(
        f"/admin/agent_sessions/session/{session.pk}/delete/", {"post": "yes", "reason": "Asked"}
    )
    assert answer.status_code == 302


ENDS = [redact_message, delete_by_store, delete_rows, delete_user, delete_in_admin]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_nothing_is_left_in_the_bucket_and_another_sessions_image_stays(place, end):
    place.bucket.keep_versions()
    mine, other = two_sessions()
    assert len(place.bucket.versions()) == 2

    end(mine)

    (left,) = place.bucket.versions()
    assert str(other.pk) in left
    assert build(session_id="other").messages[0]["content"][1] == image_block(picture("same"))


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_secret_in_a_document_is_masked_before_the_upload(place, settings):
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "REDACT_ON_WRITE": ["email"]}
    place.bucket.keep_versions()
    table = {"name": "people", "format": "csv"}
    people = b"name,address\n" * 1000 + b"ada,ada@example.com\n"
    with place.bucket.requests() as sent:
        said: Any = [{"text": "Who?"}, {"document": {**table, "source": {"bytes": people}}}]
        build("Nobody.")(said)
    assert len([line for line in sent if line.startswith("PUT")]) == 1
    (key,) = place.bucket.found()
    assert len(place.bucket.versions()) == 1
    body = place.bucket.client.get_object(Bucket=place.bucket.name, Key=key)["Body"].read()
    assert b"ada@example.com" not in body
    assert body.startswith(people[:10_000])


@pytest.mark.parametrize("place", ["files"], indirect=True)
def test_an_agent_that_has_it_in_memory_does_not_write_a_redacted_binary_again(place):
    agent = build("Nice.", "Fine.", "Well.")
    agent([{"text": "Look"}, image_block(picture("secret", SECRET))])
    agent([{"text": "And"}, image_block(picture("other"))])

    session = Session.objects.get()
    redact(session.pk, Find(SECRET), reason="A request")
    redact_message(session)
    agent([{"text": "Again"}, image_block(picture("third"))])

    contents = [(place.folder / name).read_bytes() for name in place.names()]
    assert sorted(contents) == sorted([picture("other"), picture("third")])
    assert build().messages == agent.messages
    expect_clean(place.folder)


@pytest.mark.parametrize("place", ["files"], indirect=True)
async def test_a_history_from_memory_does_not_bring_a_redacted_image_back(place):
    session = DjangoSession("s")
    image = input_image(picture("secret"))
    keep: Any = {"role": "user", "content": "keep this"}
    await session.add_items([{"role": "user", "content": [image]}, keep])
    items = await session.get_items()

    await bridge.arun_orm(lambda: redact_message(Session.objects.get()))
    # As a compaction does.
    await session.clear_session()
    await session.add_items(items)

    assert place.names() == []
    assert (await session.get_items())[1] == keep
