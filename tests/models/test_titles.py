"""What a session is called: its title, or the first words of its first user."""

from __future__ import annotations

from typing import Any

import pytest

from django_agent_sessions.governance.redaction import Find, WholeMessage, redact
from django_agent_sessions.models import DataKey, Session, SessionMessage
from django_agent_sessions.models.titles import last_text
from django_agent_sessions.store import SessionStore
from tests.encryption.conftest import encrypt  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db

CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c", "output": ""}


@pytest.fixture
def ada(django_user_model):
    return django_user_model.objects.create_user("ada")


@pytest.fixture
def bob(django_user_model):
    return django_user_model.objects.create_user("bob")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def talk(owner, name, *items, dialect="openai", **options):
    store = SessionStore(owner=owner)
    session = store.open(name, **options)
    if items:
        store.append_many(store.agents.open(session, dialect=dialect), list(items))
    return session


def titles() -> dict[str, str]:
    return {row.session_id: row.display_title for row in Session.objects.with_display_title()}


@pytest.fixture(params=["plain", "encrypted"])
def either_codec(request) -> None:
    if request.param == "encrypted":
        request.getfixturevalue("encrypt")()


def test_titles_are_read_with_the_sessions(ada, either_codec, django_assert_num_queries):
    talk(ada, "named", user("Hello"), title="Trip to Lisbon")
    talk(ada, "words", assistant("How can I help?"), user(" Where \n is my parcel? "))
    talk(ada, "strands", {"role": "user", "content": [{"text": "Hi"}]}, dialect="strands")
    talk(ada, "empty")
    talk(ada, "tools", CALL, RESULT, assistant("Done."))
    picture = {"type": "input_image", "image_url": "https://example.org/a.png"}
    talk(ada, "picture", {"role": "user", "content": [picture]}, user("What is this?"))
    shown = {"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": b"p"}}}]}
    result = {"toolUseId": "t", "status": "success", "content": [{"text": "4711"}]}
    results = {"role": "user", "content": [{"toolResult": result}]}
    quoted = {"role": "user", "content": [{"text": 'What is "toolResult": {}?'}]}
    talk(ada, "results", shown, results, dialect="strands")
    talk(ada, "after results", shown, results, quoted, dialect="strands")
    both = {"role": "user", "content": [{"text": "Go on."}, *results["content"]]}
    talk(ada, "text and result", both, quoted, dialect="strands")
    talk(ada, "long", user("word " * 60))
    talk(ada, "endless", user("w" * 300))

    titles()  # Encryption reads its keys.
    with django_assert_num_queries(1):
        found = titles()
    assert found == {
        "named": "Trip to Lisbon",
        "words": "Where is my parcel?",
        "strands": "Hi",
        "empty": "empty",
        "tools": "tools",
        "picture": "What is this?",
        "results": "results",
        "after results": 'What is "toolResult": {}?',
        "text and result": 'What is "toolResult": {}?',
        "long": "word " * 14 + "word…",
        "endless": "w" * 79 + "…",
    }


def test_one_session_reads_its_words_itself(ada, django_assert_num_queries):
    named = Session.objects.get(pk=talk(ada, "named", user("Hello"), title="Trip").id)
    words = Session.objects.get(pk=talk(ada, "words", user("Hello")).id)

    with django_assert_num_queries(1):
        assert (named.display_title, words.display_title) == ("Trip", "Hello")


def test_a_redaction_reaches_the_title(ada, either_codec):
    session = talk(ada, "s", user("my card is 4711"), user("and nothing else"))
    row = Session.objects.get(pk=session.id)
    assert row.display_title == "my card is 4711"

    redact(session.id, Find("4711"), reason="asked", actor=ada)
    assert row.display_title == titles()["s"] == "my card is [REDACTED]"
    first = SessionMessage.objects.earliest("id")
    redact(session.id, WholeMessage(first.pk), reason="asked", actor=ada)
    assert row.display_title == titles()["s"] == "and nothing else"


def test_words_behind_many_messages_of_tools_are_not_searched_for(ada):
    talk(ada, "near", *[CALL, RESULT] * 9, user("Hello"))
    talk(ada, "far", *[CALL, RESULT] * 10, user("Hello"))

    assert titles() == {"near": "Hello", "far": "far"}


def last_texts() -> dict[str, Any]:
    rows: Any = Session.objects.annotate(last=last_text())
    return {row.session_id: row.last and (row.last["role"], row.last["text"]) for row in rows}


def test_the_last_text_is_the_newest_that_is_not_empty(ada):
    talk(ada, "s", user("Hello"), assistant("One\nmoment."), CALL, RESULT)
    talk(ada, "empty")
    talk(ada, "far", user("Hello"), *[CALL, RESULT] * 10)
    talk(ada, "long", user("x" * 600))

    assert last_texts() == {
        "s": ("assistant", "One\nmoment."),
        "empty": None,
        "far": None,
        "long": ("user", "x" * 500),
    }


def test_encrypted_words_are_opened(ada, bob, request, caplog):
    talk(ada, "before", user("plain"))
    talk(ada, "before-named", user("plain"), title="Named")
    sealing = request.getfixturevalue("encrypt")()
    talk(ada, "words", CALL, user("sealed"), assistant("answered"))
    talk(ada, "strands", {"role": "user", "content": [{"text": "Hi"}]}, dialect="strands")
    talk(ada, "named", user("sealed"), title="Sealed title")
    talk(ada, "large", user("x" * 70_000), user("small"))
    result = {"toolUseId": "t", "status": "success", "content": [{"text": "4711"}]}
    results = {"role": "user", "content": [{"toolResult": result}]}
    talk(ada, "results", results, dialect="strands")
    talk(bob, "bobs", user("lost"), assistant("lost, too"))

    assert titles() == {
        "before": "plain",
        "before-named": "Named",
        "words": "sealed",
        "strands": "Hi",
        "named": "Sealed title",
        "large": "small",
        "results": "results",
        "bobs": "lost",
    }
    assert last_texts()["words"] == ("assistant", "answered")

    DataKey.objects.filter(owner=str(bob.pk)).delete()
    sealing.forget()
    assert (titles()["bobs"], titles()["words"]) == ("bobs", "sealed")
    assert (last_texts()["bobs"], last_texts()["words"]) == (None, ("assistant", "answered"))
    assert "cannot be decrypted" in caplog.text
    assert "lost" not in caplog.text
