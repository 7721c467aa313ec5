"""A blanked item says nothing, and OpenAI's own types take it as what it was."""

from __future__ import annotations

import collections.abc
from typing import Annotated, Any, Literal, NotRequired, Required, cast, get_args, get_origin

import pytest
from typing_extensions import get_type_hints, is_typeddict

from django_agent_sessions.content.masking import redact_block, redact_message

ResponseInputItemParam = pytest.importorskip("openai.types.responses").ResponseInputItemParam
TypeAdapter = pytest.importorskip("pydantic").TypeAdapter

SECRET = "plantedsecret"


def sample(hint: Any, key: str = "", depth: int = 0) -> Any:
    """A value of a type, with the secret in every text that is no name or id."""
    origin = _origin(hint)
    if origin in (Required, NotRequired, Annotated):
        return sample(get_args(hint)[0], key, depth)
    if origin is Literal:
        return get_args(hint)[0]
    if is_typeddict(hint):
        hints = get_type_hints(hint, include_extras=True)
        return {
            name: sample(inner, name, depth + 1)
            for name, inner in hints.items()
            if depth < 2 or _origin(inner) is Required or name in hint.__required_keys__
        }
    if origin is dict:
        return {SECRET: SECRET}
    if origin in (list, collections.abc.Iterable, collections.abc.Sequence):
        return [sample(get_args(hint)[0], key, depth + 1)]
    if origin is not None and get_args(hint):
        return sample(next(arg for arg in get_args(hint) if arg is not type(None)), key, depth)
    return {int: 1, float: 1.5, bool: True}.get(hint, _text(key))


def _origin(hint: Any) -> Any:
    return cast("Any", get_origin(hint))


def _text(key: str) -> str:
    return (
        "a_1"
        if key == "id" or key.endswith(("_id", "_label")) or key in ("name", "namespace")
        else SECRET
    )


def members(hint: Any) -> list[Any]:
    if is_typeddict(hint):
        return [hint]
    return [member for arg in get_args(hint) for member in members(arg)]


ITEMS = {member.__name__: member for member in members(ResponseInputItemParam)}


def refused(kind: Any, item: Any) -> list[Any]:
    """What OpenAI's type does not take."""
    try:
        found = TypeAdapter(kind).validate_python(item)
        if "tools" not in item or item["type"] == "mcp_list_tools":
            # The many kinds of tools are more than pydantic can read one by one.
            read(found)
    except ValueError as error:
        return [str(error)]
    return []


def read(value: Any) -> None:
    """Reads lists to their end: pydantic looks at their items only then."""
    if isinstance(value, dict):
        value = value.values()
    if not isinstance(value, str | bytes) and isinstance(value, collections.abc.Iterable):
        for item in value:
            read(item)


@pytest.mark.parametrize("name", ITEMS)
def test_every_item_stays_valid_and_says_nothing(name):
    item = sample(ITEMS[name])
    assert refused(ITEMS[name], item) == []

    blanked = redact_message("openai", item)

    assert SECRET not in str(blanked)
    kind = ResponseInputItemParam if "Compaction" in name else ITEMS[name]
    assert refused(kind, blanked) == []
    assert redact_message("openai", blanked) == blanked
    assert redact_block("openai", item, ()) == blanked


def test_words_of_the_api_stay():
    message = {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "status": "completed",
        "phase": "final_answer",
        "content": [{"type": "output_text", "text": "[REDACTED]", "annotations": []}],
    }
    click = {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "call_1",
        "status": "completed",
        "pending_safety_checks": [],
        "action": {"type": "click", "button": "left", "x": 1, "y": 2},
    }

    assert redact_message("openai", message) == message
    assert redact_message("openai", click) == click


def test_an_encrypted_compaction_becomes_a_message():
    blanked = redact_message(
        "openai", {"type": "compaction", "id": "c", "encrypted_content": "abc"}
    )

    assert blanked == {"type": "message", "role": "assistant", "content": "[REDACTED]"}


def test_names_of_people_and_keys_and_numbers_of_others_go():
    said = {"role": "user", "name": "Ada Planted", "content": "x"}
    item = {"type": "x", "data": {"ada@example.org": 1, "n": 4111}, "pin": 4111, "Ada Planted": 1}

    assert redact_message("openai", said) == {"role": "user", "content": "[REDACTED]"}
    blanked = redact_message("openai", item)
    assert blanked["type"] == "x"
    assert not any(word in str(blanked) for word in ("ada@", "4111", "Planted"))
