"""A key or value that is not what it was: a named error, and no byte changes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from django_agent_sessions.content import codec
from django_agent_sessions.exceptions import (
    ConfigurationError,
    DecryptionError,
    EncryptionError,
    EncryptionKeyError,
)
from django_agent_sessions.models import DataKey, SessionMessage
from django_agent_sessions.store import SessionStore

pytestmark = pytest.mark.django_db(transaction=True)

MASTER = bytes(range(32))
OTHER = bytes(range(1, 33))
TABLE = SessionMessage._meta.db_table


def execute(sql: str, *parameters: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql.replace("TABLE", connection.ops.quote_name(TABLE)), parameters)
        return list(cursor.fetchall()) if cursor.description else []


def all_bytes() -> list[Any]:
    return [execute("SELECT * FROM TABLE ORDER BY id"), list(DataKey.objects.values_list())]


def change(edit: Callable[[str], str]) -> Callable[[], object]:
    """Edits the stored text of the second message."""

    def break_it() -> None:
        ((text,),) = execute("SELECT message FROM TABLE WHERE message_id = 1")
        execute("UPDATE TABLE SET message = %s WHERE message_id = 1", edit(text))

    return break_it


def keys(**changes: Any) -> Callable[[], object]:
    return lambda: DataKey.objects.update(**changes)


def swap_rows() -> None:
    texts = execute("SELECT message FROM TABLE ORDER BY message_id")
    for number, text in ((0, texts[1][0]), (1, texts[0][0])):
        execute("UPDATE TABLE SET message = %s WHERE message_id = %s", text, number)


def swap_owners() -> None:
    first, second = DataKey.objects.order_by("pk")
    DataKey.objects.filter(pk=first.pk).update(wrapped=second.wrapped)
    DataKey.objects.filter(pk=second.pk).update(wrapped=first.wrapped)


def flip(text: str, place: int) -> str:
    return text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]


BODY = len("enc1:") + 33

BROKEN_VALUES: dict[str, tuple[Callable[[], object], type[EncryptionError]]] = {
    "a character of the ciphertext": (change(lambda t: flip(t, -10)), DecryptionError),
    "a character of the nonce": (change(lambda t: flip(t, BODY + 2)), DecryptionError),
    "the tag": (change(lambda t: flip(t, -5)), DecryptionError),
    "truncated by four characters": (change(lambda t: t[:-4]), DecryptionError),
    "truncated by one character": (change(lambda t: t[:-1]), DecryptionError),
    "truncated in the nonce": (change(lambda t: t[: BODY + 8]), DecryptionError),
    "truncated after the key id": (change(lambda t: t[:BODY]), DecryptionError),
    "truncated in the key id": (change(lambda t: t[:20]), DecryptionError),
    "only the version": (change(lambda t: t[:5]), DecryptionError),
    "longer": (change(lambda t: t + "AAAA"), DecryptionError),
    "not base64": (change(lambda t: t[:BODY] + "?" + t[BODY + 1 :]), DecryptionError),
    "an old version": (change(lambda t: "enc0:" + t[5:]), DecryptionError),
    "a newer version": (change(lambda t: "enc2:" + t[5:]), DecryptionError),
    "a version of two digits": (change(lambda t: "enc11:" + t[5:]), DecryptionError),
    "an unknown key id": (change(lambda t: "enc1:" + "0" * 32 + t[37:]), EncryptionKeyError),
    "a key id in capitals": (change(lambda t: "enc1:" + "F" * 32 + t[37:]), DecryptionError),
    "swapped rows": (swap_rows, DecryptionError),
}
BROKEN_KEYS: dict[str, tuple[Callable[[], object], type[EncryptionError]]] = {
    "the key was destroyed": (lambda: DataKey.objects.all().delete(), EncryptionKeyError),
    "a key of another master key": (keys(master="two"), EncryptionKeyError),
    "a key of an unknown master key": (keys(master="gone"), EncryptionKeyError),
    "a wrapped key is truncated": (keys(wrapped="00" * 20), EncryptionKeyError),
    "a wrapped key is empty": (keys(wrapped=""), EncryptionKeyError),
    "a wrapped key is not hexadecimal": (keys(wrapped="zz"), EncryptionKeyError),
    "a wrapped key is zeros": (keys(wrapped="00" * 60), EncryptionKeyError),
    "a key was given to another owner": (
        lambda: DataKey.objects.exclude(owner="").update(owner="7"),
        EncryptionKeyError,
    ),
    "two owners' keys are swapped": (swap_owners, EncryptionKeyError),
}
BROKEN_SETTINGS: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "another key of the same id": ({"KEYS": {"one": OTHER}}, EncryptionKeyError),
    "the master key is gone": ({"KEYS": {"new": OTHER}}, EncryptionKeyError),
    "a short key": ({"KEYS": {"one": MASTER[:31]}}, ConfigurationError),
    "a key that is not base64": ({"KEYS": {"one": "no key!"}}, ConfigurationError),
    "no key": ({"KEYS": {}}, ConfigurationError),
    "two keys, none current": ({"KEYS": {"one": MASTER, "two": OTHER}}, ConfigurationError),
    "an unknown current key": ({"KEYS": {"one": MASTER, "CURRENT": "x"}}, ConfigurationError),
    "a path that does not exist": ({"KEYS": "tests.nothing.keys"}, ConfigurationError),
    "no keys at all": ({}, ConfigurationError),
}


@pytest.fixture
def conversation(settings, ada):
    settings.AGENT_SESSIONS = {
        "ENCRYPTION": {"KEYS": {"one": MASTER, "two": OTHER, "CURRENT": "one"}}
    }
    mine, common = SessionStore(owner=ada), SessionStore()
    agent = mine.agents.open(mine.open("s"))
    mine.append_many(agent, [{"role": "user", "content": text} for text in ("a", "b", "c")])
    # A second owner's key.
    installed: Any = codec.installed()
    installed.keys.current("")
    assert common is not None
    return mine, agent


def check(conversation: Any, error: type[Exception]) -> None:
    store, agent = conversation
    before = all_bytes()
    with pytest.raises(error) as refusal:
        store.payloads(agent)
    assert all_bytes() == before
    assert base64.b64encode(MASTER).decode() not in str(refusal.value)
    with pytest.raises(error):
        store.messages.list(agent)
    assert all_bytes() == before


@pytest.mark.parametrize("name", BROKEN_VALUES)
def test_a_broken_value_is_refused(conversation, name):
    break_it, error = BROKEN_VALUES[name]
    break_it()
    check(conversation, error)


@pytest.mark.parametrize("name", BROKEN_KEYS)
def test_a_broken_data_key_is_refused(conversation, name):
    break_it, error = BROKEN_KEYS[name]
    break_it()
    installed: Any = codec.installed()
    installed.forget()
    check(conversation, error)


@pytest.mark.parametrize("name", BROKEN_SETTINGS)
def test_a_broken_setting_is_refused(conversation, settings, name):
    options, error = BROKEN_SETTINGS[name]
    settings.AGENT_SESSIONS = {"ENCRYPTION": options}
    check(conversation, error)
