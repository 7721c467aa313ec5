"""What assistant-ui's client stored is read into neutral parts."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from django_agent_sessions.content.dialects import (
    ASSISTANT_UI,
    Part,
    PartKind,
    Summary,
    get,
)

from .test_hostile import Treacherous

PNG = b"\x89PNG\r\n\x1a\n and pixels"
PNG_URL = "data:image/png;base64," + base64.b64encode(PNG).decode()


def stored(*said: Any, role: Any = "assistant", key: str = "parts", form: str = "ai-sdk/v6") -> Any:
    content = {"role": role, key: list(said)}
    return {"id": "m", "parent_id": None, "format": form, "content": content}


PARTS = [
    ({"type": "text", "text": "hello"}, Part(PartKind.TEXT, text="hello")),
    ({"type": "reasoning", "text": "hm"}, Part(PartKind.REASONING, text="hm")),
    (
        {"type": "file", "mediaType": "image/png", "filename": "a.png", "url": PNG_URL},
        Part(PartKind.IMAGE, name="a.png", media_type="image/png", size=len(PNG)),
    ),
    (
        {"type": "file", "mediaType": "application/pdf", "url": "https://e.example/a.pdf"},
        Part(PartKind.DOCUMENT, media_type="application/pdf", url="https://e.example/a.pdf"),
    ),
    (
        {"type": "file", "mediaType": "text/plain", "url": "data:,hi"},
        Part(PartKind.DOCUMENT, media_type="text/plain"),
    ),
    (
        {"type": "source-url", "sourceId": "s", "url": "https://e.example", "title": "E"},
        Part(PartKind.DOCUMENT, name="E", url="https://e.example"),
    ),
    (
        {"type": "source-document", "sourceId": "s", "mediaType": "application/pdf", "title": "D"},
        Part(PartKind.DOCUMENT, name="D", media_type="application/pdf"),
    ),
    ({"type": "data-x", "data": 1}, Part(PartKind.UNKNOWN, data={"type": "data-x", "data": 1})),
    ({"type": "newer"}, Part(PartKind.UNKNOWN, data={"type": "newer"})),
    ("odd", Part(PartKind.UNKNOWN, data="odd")),
    (
        {"type": "file", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()},
        Part(PartKind.IMAGE, media_type="image/png", size=len(PNG)),
    ),
    (
        {"type": "file", "mimeType": "text/csv", "data": "file-1", "sourceType": "id"},
        Part(PartKind.DOCUMENT, media_type="text/csv"),
    ),
    (
        {"type": "file", "mimeType": "text/csv", "data": "https://e.example", "sourceType": "url"},
        Part(PartKind.DOCUMENT, media_type="text/csv", url="https://e.example"),
    ),
    (
        {"type": "image", "image": PNG_URL},
        Part(PartKind.IMAGE, media_type="image/png", size=len(PNG)),
    ),
    (
        {"type": "audio", "audio": {"data": "AAAA", "format": "mp3"}},
        Part(PartKind.DOCUMENT, media_type="audio/mpeg", size=3),
    ),
]


@pytest.mark.parametrize(("said", "part"), PARTS)
def test_a_part_is_read_and_has_the_path_that_leads_to_it(said, part):
    payload = stored(said)

    assert get(ASSISTANT_UI).parts(payload) == (part,)
    (block,) = get(ASSISTANT_UI).blocks(payload)
    assert (block.path, block.parts) == (("content", "parts", 0), (part,))


CALL = {"type": "tool-search", "toolCallId": "c", "input": {"q": 1}}


@pytest.mark.parametrize(
    ("more", "key", "status", "text", "data"),
    [
        ({"state": "output-available", "output": "done"}, "output", "success", "done", None),
        (
            {"state": "output-available", "output": '{"a": 1}'},
            "output",
            "success",
            '{"a": 1}',
            {"a": 1},
        ),
        ({"state": "output-available", "output": {"a": 1}}, "output", "success", "", {"a": 1}),
        ({"state": "output-error", "errorText": "no"}, "errorText", "error", "no", None),
        ({"result": [1], "isError": True}, "result", "error", "", [1]),
    ],
)
def test_a_tools_part_is_a_call_and_its_result(more, key, status, text, data):
    call, result = get(ASSISTANT_UI).blocks(stored({**CALL, **more}))

    assert call.path == ("content", "parts", 0, "input")
    assert call.parts == (Part(PartKind.TOOL_CALL, name="search", call_id="c", data={"q": 1}),)
    assert result.path == ("content", "parts", 0, key)
    (part,) = result.parts
    assert (part.kind, part.name, part.call_id) == (PartKind.TOOL_RESULT, "search", "c")
    assert (part.status, part.text, part.data) == (status, text, data)


@pytest.mark.parametrize(
    ("said", "name", "data"),
    [
        ({"type": "dynamic-tool", "toolName": "x", "toolCallId": "c", "input": 1}, "x", 1),
        ({"type": "tool-x", "toolCallId": "c", "rawInput": "{"}, "x", "{"),
        ({"type": "tool-x", "toolCallId": "c", "state": "input-streaming"}, "x", None),
        (
            {"type": "tool-call", "toolName": "x", "toolCallId": "c", "args": {"a": 1}},
            "x",
            {"a": 1},
        ),
        (
            {"type": "tool-call", "toolName": "x", "toolCallId": "c", "argsText": '{"a":1}'},
            "x",
            {"a": 1},
        ),
    ],
)
def test_a_call_without_a_result_is_a_call(said, name, data):
    (part,) = get(ASSISTANT_UI).parts(stored(said))

    assert part == Part(PartKind.TOOL_CALL, name=name, call_id="c", data=data)


def test_the_older_format_and_a_plain_text_are_read_too():
    said = {"type": "text", "text": "hello"}

    assert get(ASSISTANT_UI).parts(stored(said, key="content", form="aui/v0"))[0].text == "hello"
    plain = {"id": "m", "format": "x", "content": {"role": "user", "content": "hello"}}
    assert [block.path for block in get(ASSISTANT_UI).blocks(plain)] == [("content", "content")]
    assert get(ASSISTANT_UI).summary(plain) == Summary("user", "hello", None, None, None)
    other = {"id": "m", "format": "x", "content": {"blob": 1}}
    assert get(ASSISTANT_UI).parts(other) == (Part(PartKind.UNKNOWN, data={"blob": 1}),)


def test_a_summary_has_the_words_and_no_figures_of_a_client():
    payload = stored(
        {"type": "step-start"},
        {"type": "reasoning", "text": "hm"},
        {**CALL, "output": "found"},
        {"type": "text", "text": "hello"},
    )
    payload["content"]["metadata"] = {"usage": {"inputTokens": 10**9}}

    assert get(ASSISTANT_UI).summary(payload) == Summary(
        "assistant", "found\nhello", None, None, None
    )


@pytest.mark.parametrize("failed", [{"errorText": "no"}, {"result": "no", "isError": True}])
def test_a_call_that_failed_is_an_error(failed):
    assert get(ASSISTANT_UI).summary(stored({**CALL, **failed})).has_error
    assert not get(ASSISTANT_UI).summary(stored({**CALL, "output": "found"})).has_error


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"type": "file", "mediaType": "image/png", "url": PNG_URL}, (PNG, "image/png")),
        ({"type": "image", "image": PNG_URL}, (PNG, "image/png")),
        ({"type": "file", "mimeType": "text/plain", "data": "aGk="}, (b"hi", "text/plain")),
        ({"type": "file", "mediaType": "text/plain", "url": "data:,h%69"}, (b"hi", "text/plain")),
        ({"type": "audio", "audio": {"data": "aGk=", "format": "wav"}}, (b"hi", "audio/wav")),
        ({"type": "file", "mediaType": "image/png", "url": "/files/x"}, None),
        ({"type": "file", "mediaType": "image/png", "url": "https://e.example"}, None),
        ({"type": "text", "text": "aGk="}, None),
    ],
)
def test_inline_binaries_are_found(said, found):
    assert get(ASSISTANT_UI).binary_at(stored(said), ("content", "parts", 0)) == found


def test_an_object_that_cannot_be_read_is_still_shown():
    payload = {"content": Treacherous(a=1)}

    assert get(ASSISTANT_UI).parts(payload)[0].kind is PartKind.UNKNOWN
    assert get(ASSISTANT_UI).summary(payload) == Summary("", "", None, None, None)
