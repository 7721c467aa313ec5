"""Titles and, by choice, metadata are encrypted in their columns, and read as plain text."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import connection
from django.db.models import Subquery
from django.utils import timezone

from django_agent_sessions import usage
from django_agent_sessions.content import codec
from django_agent_sessions.exceptions import (
    EncryptedSearchError,
    EncryptionError,
    EncryptionKeyError,
)
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import DataKey, MessageFeedback, Session, SessionMessage
from django_agent_sessions.models.stored_text import stored_metadata
from django_agent_sessions.queries.search import find_sessions
from django_agent_sessions.store import SessionStore
from tests.encryption.test_encryption import stored, user

pytestmark = pytest.mark.django_db(transaction=True)

METADATA = {"channel": "web", "note": "a word"}


def columns() -> str:
    return str([*stored(Session, "title"), *stored(Session, "metadata")])


@pytest.mark.parametrize("metadata", [False, True])
def test_titles_and_by_choice_metadata_are_encrypted_whoever_writes_them(encrypt, ada, metadata):
    encrypt(METADATA=metadata)
    mine = SessionStore(owner=ada)
    first = mine.open("first", title="Lisbon", metadata=METADATA)
    mine.sessions.start("second", "a", [user("x")], dialect="openai", title="Lisbon")
    mine.sessions.update(first.id, title="Lisbon in May", metadata=METADATA)
    mine.sessions.fork(first)
    row = Session(session_id="third", owner=ada, title="Lisbon", metadata=METADATA)
    row.save()

    assert "Lisbon" not in columns()
    assert ("a word" not in columns()) is metadata
    assert sorted(Session.objects.values_list("title", flat=True)) == [
        "Lisbon",
        "Lisbon",
        "Lisbon in May",
        "Lisbon in May",
    ]
    assert mine.open("first").title == "Lisbon in May"
    assert mine.open("first").metadata == METADATA
    assert {each.title for each in mine.sessions.list()} == {"Lisbon", "Lisbon in May"}
    assert Session.objects.get(session_id="third").metadata == METADATA
    deferred = Session.objects.defer("title", "metadata").get(pk=first.id)
    assert (deferred.title, deferred.metadata) == ("Lisbon in May", METADATA)


def test_empty_titles_and_metadata_take_no_key(encrypt):
    encrypted = encrypt(METADATA=True)
    SessionStore().open("s")
    assert stored(Session, "title") == [""]
    assert encrypted.keys.ids("") == []
    assert Session.objects.filter(title="").count() == 1


def test_titles_cannot_be_searched_and_the_error_says_so(encrypted, store):
    store.open("s", title="Lisbon")
    for lookup in ("title__icontains", "title__startswith", "title__gt", "title", "title__in"):
        with pytest.raises(EncryptedSearchError, match="encrypted"):
            list(Session.objects.filter(**{lookup: ["Lisbon"] if "in" in lookup[7:9] else "L"}))
    with pytest.raises(EncryptedSearchError):
        find_sessions("lisb", sessions=Session.objects.all(), content=True)
    with pytest.raises(TypeError, match="sealed"):
        Session.objects.update(title="Porto")


def test_metadata_is_filtered_only_while_it_is_plain(encrypt, store):
    encrypt()
    store.open("s", metadata=METADATA)
    assert Session.objects.filter(metadata__channel="web").count() == 1
    encrypt(METADATA=True)
    for condition in ({"metadata__channel": "web"}, {"metadata__has_key": "channel"}):
        with pytest.raises(EncryptedSearchError):
            Session.objects.filter(**condition).count()
    with pytest.raises(TypeError, match="sealed"):
        Session.objects.update(metadata={"a": 1})


@pytest.mark.parametrize("title", ["enc1:mine", "enc0:" + "0" * 32, "\x1fx", "enc", "a/b/c", "é😀"])
def test_a_title_that_looks_encrypted_stays_what_it_is(settings, encrypt, title):
    settings.AGENT_SESSIONS = {}
    plain = Session.objects.create(session_id="plain", title=title)
    if codec.is_plain():
        assert Session.objects.get(title=title).title == title
    encrypt()
    sealed = Session.objects.create(session_id="sealed", title=title)
    encrypt(DECRYPT_ONLY=True)
    again = Session.objects.create(session_id="again", title=title)
    for row in (plain, sealed, again):
        assert Session.objects.get(pk=row.pk).title == title


def test_without_the_setting_an_encrypted_title_is_an_error(encrypt, store, settings):
    encrypt(METADATA=True)
    store.open("s", title="Lisbon")
    store.open("t", metadata=METADATA)
    settings.AGENT_SESSIONS = {}
    if not codec.is_plain():
        pytest.skip("all tests are encrypted")
    for key in ("s", "t"):
        with pytest.raises(EncryptionKeyError, match="ENCRYPTION"):
            store.open(key)


def test_the_command_encrypts_rotates_and_decrypts_titles_and_metadata(encrypt, ada, settings):
    settings.AGENT_SESSIONS = {}
    SessionStore(owner=ada).open("s", title="Lisbon", metadata=METADATA)

    def run(action: str) -> str:
        output = StringIO()
        call_command("agent_sessions_encrypt", action, stdout=output)
        return output.getvalue()

    def read() -> Any:
        record = SessionStore(owner=ada).open("s")
        return record.title, record.metadata

    encrypt(METADATA=True)
    run("encrypt")
    assert "Lisbon" not in columns()
    assert "word" not in columns()
    assert run("encrypt").endswith(" 0 rewritten\n")
    before = columns()
    run("rotate")
    assert columns() != before
    assert read() == ("Lisbon", METADATA)
    encrypt()
    run("encrypt")
    assert "word" in columns()
    encrypt(METADATA=True)
    run("encrypt")
    encrypt(METADATA=True, DECRYPT_ONLY=True)
    run("decrypt")
    assert read() == ("Lisbon", METADATA)
    assert "Lisbon" in columns()
    assert "word" in columns()


def test_the_length_of_the_plain_title_is_validated(encrypted, ada):
    with pytest.raises(ValidationError):
        Session(session_id="s", title="x" * 256).full_clean()
    mine = SessionStore(owner=ada)
    assert len(mine.open("s", title="😀" * 300).title) == 255


def test_a_redaction_masks_titles_comments_and_metadata(encrypt, ada):
    encrypt(METADATA=True)
    mine = SessionStore(owner=ada)
    session = mine.open("s", title="call hunter2", metadata={"note": "hunter2"})
    mine.append(mine.agents.open(session), user("x"))
    mine.feedback.save(SessionMessage.objects.get().pk, 1, comment="hunter2 is right")
    assert all(codec.ENVELOPE.match(text) for text in stored(MessageFeedback, "comment"))

    redact(session.id, Find("hunter2"), actor="test", reason="a test")

    row = Session.objects.get()
    assert (row.title, row.metadata) == ("call [REDACTED]", {"note": "[REDACTED]"})
    assert MessageFeedback.objects.get().comment == "[REDACTED] is right"


def test_expressions_read_a_title_and_metadata_with_their_row(encrypt, store):
    encrypt(METADATA=True)
    store.open("s", title="Lisbon", metadata=METADATA)
    rows = Session.objects.annotate(text=stored_metadata(), first=stored_metadata(5))
    row = rows.values("text", "first").get()
    assert ('"channel"' in row["text"], row["first"]) == (True, row["text"][:5])
    inner = Subquery(Session.objects.values("title")[:1])
    assert Session.objects.annotate(other=inner).values_list("other").get() == ("Lisbon",)


def test_a_swapped_title_is_refused(encrypted, store):
    for name in ("one", "two"):
        store.open(name, title=name)
    table = connection.ops.quote_name(Session._meta.db_table)
    (text, _) = sorted(stored(Session, "title"))
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET title = %s", [text])
    with pytest.raises(EncryptionError):
        store.sessions.list()


def test_the_admins_pages_show_the_titles_that_can_be_decrypted(encrypted, ada, bob, admin_client):
    for person in (ada, bob):
        SessionStore(owner=person).open(f"of-{person}", title=f"about {person}")
    DataKey.objects.filter(owner=str(ada.pk)).delete()
    encrypted.forget()

    page = admin_client.get("/admin/agent_sessions/session/").content.decode()

    assert "about bob" in page
    assert "about ada" not in page
    assert "of-ada" in page


def test_the_usage_page_and_the_api_show_the_titles_that_can_be_decrypted(
    encrypted, ada, bob, admin_client
):
    for person in (ada, bob):
        SessionStore(owner=person).open(f"of-{person}", title=f"about {person}")
    usage.roll_up(until=timezone.now() + timedelta(minutes=1))
    DataKey.objects.filter(owner=str(ada.pk)).delete()
    encrypted.forget()

    page = admin_client.get("/admin/agent_sessions/usagerollup/?days=7").content.decode()
    rows = admin_client.get("/api/sessions/?scope=all").json()["results"]

    assert "about bob" in page
    assert "of-ada" in page
    assert {row["session_id"]: row["title"] for row in rows} == {
        "of-ada": "",
        "of-bob": "about bob",
    }
