"""Strands messages, block by block. The examples are checked against the SDK's own types."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pydantic import TypeAdapter
from strands import Agent
from strands.agent.agent_result import AgentResult
from strands.multiagent.base import MultiAgentResult, NodeResult, Status
from strands.telemetry.metrics import EventLoopMetrics
from strands.types.content import ContentBlock, Message
from strands.types.tools import ToolResultContent

from django_agent_sessions.content.dialects import STRANDS, Part, PartKind, Summary, get
from django_agent_sessions.content.paths import value_at
from tests.adapters.strands.scripted import ScriptedModel

TEXT, REASONING, UNKNOWN = PartKind.TEXT, PartKind.REASONING, PartKind.UNKNOWN
CALL, RESULT = PartKind.TOOL_CALL, PartKind.TOOL_RESULT
IMAGE, DOCUMENT = PartKind.IMAGE, PartKind.DOCUMENT

CITATIONS = [
    {
        "title": "Handbook",
        "location": {"documentPage": {"documentIndex": 0, "start": 3, "end": 4}},
        "sourceContent": [{"text": "Milk is white."}],
    }
]
S3 = {"location": {"type": "s3", "uri": "s3://bucket/key"}}

BLOCKS: dict[str, tuple[dict[str, Any], Part | None]] = {
    "text": ({"text": "Hello"}, Part(TEXT, text="Hello")),
    "reasoning": (
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
        Part(REASONING, text="Hm."),
    ),
    "redacted reasoning": (
        {"reasoningContent": {"redactedContent": b"12345"}},
        Part(REASONING, size=5),
    ),
    "tool use": (
        {"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": "Ulm"}}},
        Part(CALL, name="weather", call_id="t1", data={"city": "Ulm"}),
    ),
    "tool result of text": (
        {
            "toolResult": {
                "toolUseId": "t1",
                "status": "success",
                "content": [{"text": "Sunny"}, {"text": "21 °C"}],
            }
        },
        Part(
            RESULT,
            text="Sunny\n21 °C",
            call_id="t1",
            status="success",
            parts=(Part(TEXT, text="Sunny"), Part(TEXT, text="21 °C")),
        ),
    ),
    "tool result of JSON": (
        {
            "toolResult": {
                "toolUseId": "t1",
                "status": "error",
                "content": [{"json": {"code": 7}}],
            }
        },
        Part(
            RESULT,
            call_id="t1",
            status="error",
            data={"code": 7},
            parts=(Part(RESULT, data={"code": 7}),),
        ),
    ),
    "tool result of several JSON values": (
        {
            "toolResult": {
                "toolUseId": "t1",
                "status": "success",
                "content": [{"json": 1}, {"json": [2]}],
            }
        },
        Part(
            RESULT,
            call_id="t1",
            status="success",
            data=[1, [2]],
            parts=(Part(RESULT, data=1), Part(RESULT, data=[2])),
        ),
    ),
    "tool result of media": (
        {
            "toolResult": {
                "toolUseId": "t1",
                "status": "success",
                "content": [
                    {"image": {"format": "png", "source": {"bytes": b"1234"}}},
                    {"document": {"format": "pdf", "name": "bill", "source": {"bytes": b"12"}}},
                    {"video": {"format": "mp4", "source": S3}},
                ],
            }
        },
        Part(
            RESULT,
            call_id="t1",
            status="success",
            parts=(
                Part(IMAGE, media_type="image/png", size=4),
                Part(DOCUMENT, name="bill", media_type="application/pdf", size=2),
                Part(DOCUMENT, media_type="video/mp4", url="s3://bucket/key"),
            ),
        ),
    ),
    "structured content of an MCP tool": (
        {
            "toolResult": {
                "toolUseId": "t1",
                "status": "success",
                "content": [{"text": "{}"}],
                "structuredContent": {"rows": []},
            }
        },
        Part(
            RESULT,
            text="{}",
            call_id="t1",
            status="success",
            data={"rows": []},
            parts=(Part(TEXT, text="{}"),),
        ),
    ),
    "image inline": (
        {"image": {"format": "jpeg", "source": {"bytes": b"123"}}},
        Part(IMAGE, media_type="image/jpeg", size=3),
    ),
    "image in S3": (
        {"image": {"format": "webp", "source": S3}},
        Part(IMAGE, media_type="image/webp", url="s3://bucket/key"),
    ),
    "document": (
        {
            "document": {
                "format": "docx",
                "name": "offer",
                "source": {"bytes": b"123"},
                "context": "the second one",
            }
        },
        Part(
            DOCUMENT,
            name="offer",
            data={"context": "the second one"},
            media_type="application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            size=3,
        ),
    ),
    "video": (
        {"video": {"format": "three_gp", "source": {"bytes": b"123"}}},
        Part(DOCUMENT, media_type="video/3gpp", size=3),
    ),
    "audio": (
        {"audio": {"format": "mp3", "source": {"bytes": b"123"}}},
        Part(DOCUMENT, media_type="audio/mpeg", size=3),
    ),
    "guarded text": (
        {"guardContent": {"text": {"text": "Is it?", "qualifiers": ["query"]}}},
        Part(TEXT, text="Is it?"),
    ),
    "cited text": (
        {"citationsContent": {"content": [{"text": "It is "}, {"text": "white."}]}},
        Part(TEXT, text="It is white."),
    ),
    "cited text with its citations": (
        {"citationsContent": {"citations": CITATIONS, "content": [{"text": "White."}]}},
        Part(TEXT, text="White.", data=CITATIONS),
    ),
    "cache point": ({"cachePoint": {"type": "default"}}, None),
}

BEYOND_THE_SDK: dict[str, tuple[dict[str, Any], Part]] = {
    "guarded image": (
        {"guardContent": {"image": {"format": "png", "source": {"bytes": b"1"}}}},
        Part(IMAGE, media_type="image/png", size=1),
    ),
    "older name of the location": (
        {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://b/k"}}}},
        Part(IMAGE, media_type="image/png", url="s3://b/k"),
    ),
    "document as text": (
        {"document": {"format": "txt", "name": "n", "source": {"text": "words"}}},
        Part(DOCUMENT, text="words", name="n", media_type="text/plain"),
    ),
    "document as chunks of text": (
        {
            "document": {
                "format": "txt",
                "name": "n",
                "source": {"content": [{"text": "a"}, {"text": "b"}]},
            }
        },
        Part(DOCUMENT, text="a\nb", name="n", media_type="text/plain"),
    ),
    "bytes as the SDK's own stores write them": (
        {
            "image": {
                "format": "png",
                "source": {
                    "bytes": {
                        "__bytes_encoded__": True,
                        "data": base64.b64encode(b"12345").decode(),
                    }
                },
            }
        },
        Part(IMAGE, media_type="image/png", size=5),
    ),
    "bytes as base64": (
        {"image": {"format": "png", "source": {"bytes": base64.b64encode(b"1234").decode()}}},
        Part(IMAGE, media_type="image/png", size=4),
    ),
    "a source that says nothing": (
        {"image": {"format": "png", "source": {}}},
        Part(IMAGE, media_type="image/png"),
    ),
    "a format that nobody knows": (
        {"document": {"format": "wpd", "name": "n", "source": {"bytes": b"1"}}},
        Part(DOCUMENT, name="n", size=1),
    ),
    "a status that nobody knows": (
        {"toolResult": {"toolUseId": "t", "status": "maybe", "content": []}},
        Part(RESULT, call_id="t"),
    ),
}

ODD_BLOCKS: list[Any] = [
    {"text": 5},
    {"text": None},
    {"newBlockType": {"text": "x"}},
    {"reasoningContent": "Hm."},
    {"reasoningContent": {}},
    {"reasoningContent": {"reasoningText": {"signature": "s"}}},
    {"reasoningContent": {"redactedContent": 7}},
    {"toolUse": {"toolUseId": "t"}},
    {"toolUse": "weather"},
    {"toolResult": {"toolUseId": "t", "content": "sunny"}},
    {"toolResult": None},
    {"image": b"123"},
    {"image": {"format": "png"}},
    {"image": {"format": "png", "source": "s3://b/k"}},
    {"guardContent": {}},
    {"guardContent": {"text": "plain"}},
    {"guardContent": {"image": 4}},
    {"citationsContent": {"content": "White."}},
    {"citationsContent": {"content": [{"text": "a"}, {"image": 1}]}},
    {"cachePoint": True},
    {},
    "bare text",
    7,
    None,
    ["text"],
]


def said_by_user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


@pytest.mark.parametrize(("block", "part"), BLOCKS.values(), ids=BLOCKS.keys())
def test_every_block_of_the_sdk_is_read(block, part):
    message = said_by_user(block)
    TypeAdapter(Message).validate_python(message)
    assert get(STRANDS).parts(message) == (() if part is None else (part,))


def test_the_examples_cover_every_block_the_sdk_has():
    shown = {key for block, _ in BLOCKS.values() for key in block}
    assert shown == set(ContentBlock.__annotations__)
    inside = {
        key
        for block, _ in BLOCKS.values()
        for content in block.get("toolResult", {}).get("content", [])
        for key in content
    }
    assert inside >= set(ToolResultContent.__annotations__)


@pytest.mark.parametrize(("block", "part"), BEYOND_THE_SDK.values(), ids=BEYOND_THE_SDK.keys())
def test_what_bedrock_and_stores_add_is_read_too(block, part):
    assert get(STRANDS).parts(said_by_user(block)) == (part,)


@pytest.mark.parametrize("block", ODD_BLOCKS, ids=repr)
def test_an_odd_block_is_kept_as_unknown_beside_its_neighbours(block):
    message = said_by_user({"text": "before"}, block, {"text": "after"})
    assert get(STRANDS).parts(message) == (
        Part(TEXT, text="before"),
        Part(UNKNOWN, data=block),
        Part(TEXT, text="after"),
    )
    assert get(STRANDS).summary(message).text == "before\nafter"


def test_an_odd_content_of_a_result_is_kept_inside_of_it():
    nested = {"toolResult": {"toolUseId": "inner", "content": [], "status": "success"}}
    message = said_by_user({"toolResult": {"toolUseId": "t", "content": [nested, 5]}})
    (result,) = get(STRANDS).parts(message)
    assert result.parts == (Part(UNKNOWN, data=nested), Part(UNKNOWN, data=5))


def test_a_block_with_several_keys_yields_a_part_for_each():
    block = {"text": "a", "toolUse": {"toolUseId": "t", "name": "n", "input": {}}, "new": 1}
    assert get(STRANDS).parts(said_by_user(block)) == (
        Part(TEXT, text="a"),
        Part(CALL, name="n", call_id="t", data={}),
        Part(UNKNOWN, data={"new": 1}),
    )


@pytest.mark.parametrize(
    "payload",
    [None, 5, "text", [], {}, {"role": "user"}, {"role": "user", "content": 5}, {"__enc__": 1}],
)
def test_what_is_no_message_is_one_unknown_part(payload):
    assert get(STRANDS).parts(payload) == (Part(UNKNOWN, data=payload),)


def test_a_message_with_bare_text_is_read():
    message = {"role": "user", "content": "Hello"}
    assert get(STRANDS).parts(message) == (Part(TEXT, text="Hello"),)
    assert get(STRANDS).summary(message) == Summary("user", "Hello", None, None, None)


def test_usage_and_latency_come_from_the_metadata():
    message = {
        "role": "assistant",
        "content": [{"text": "Hello"}],
        "tracking_id": "5f0c6c0e-0000-4000-8000-000000000000",
        "metadata": {
            "usage": {"inputTokens": 12, "outputTokens": 5, "totalTokens": 17},
            "metrics": {"latencyMs": 320, "timeToFirstByteMs": 80},
            "custom": {"a": 1},
        },
    }
    TypeAdapter(Message).validate_python(message)
    assert get(STRANDS).summary(message) == Summary("assistant", "Hello", 12, 5, 320)


@pytest.mark.parametrize(
    ("statuses", "has_error"),
    [([], False), (["success"], False), (["error"], True), (["success", "error"], True)],
)
def test_a_message_with_the_result_of_a_tool_that_failed_reports_an_error(statuses, has_error):
    results = [
        {"toolResult": {"toolUseId": "t", "status": status, "content": [{"text": "x"}]}}
        for status in statuses
    ]
    message = {"role": "user", "content": [{"text": "Hello"}, *results]}
    TypeAdapter(Message).validate_python(message)
    assert get(STRANDS).summary(message).has_error is has_error
    assert any(part.status == "error" for part in get(STRANDS).parts(message)) is has_error


@pytest.mark.parametrize(
    "content", ["error", None, [{"toolResult": "error"}], [{"toolResult": {"status": "error"}}]]
)
def test_what_is_no_result_reports_no_error(content):
    message = {"role": "user", "status": "error", "content": content}
    assert not get(STRANDS).summary(message).has_error


@pytest.mark.parametrize(
    ("metadata", "counts"),
    [
        ({}, (None, None, None)),
        ({"usage": {"inputTokens": 0, "outputTokens": 0}}, (0, 0, None)),
        ({"metrics": {"latencyMs": 12.7}}, (None, None, 12)),
        ({"usage": {"inputTokens": 2**31 - 1, "outputTokens": 2**31}}, (2**31 - 1, None, None)),
        ({"usage": {"inputTokens": -1, "outputTokens": 10**400}}, (None, None, None)),
        ({"usage": {"inputTokens": "5", "outputTokens": True}}, (None, None, None)),
        ({"metrics": {"latencyMs": float("nan")}}, (None, None, None)),
        ({"metrics": {"latencyMs": float("inf")}}, (None, None, None)),
        ({"usage": [1, 2], "metrics": "fast"}, (None, None, None)),
        (None, (None, None, None)),
        ([], (None, None, None)),
    ],
)
def test_counts_that_no_column_holds_are_left_out(metadata, counts):
    message = {"role": "assistant", "content": [], "metadata": metadata}
    found = get(STRANDS).summary(message)
    assert (found.input_tokens, found.output_tokens, found.latency_ms) == counts


def test_text_and_results_are_searchable_but_not_reasoning_or_calls():
    found = get(STRANDS).summary(said_by_user(*(block for block, _ in BLOCKS.values())))
    assert found.role == "user"
    assert found.text.split("\n") == [
        "Hello",
        "Sunny",
        "21 °C",
        "{}",
        "Is it?",
        "It is white.",
        "White.",
    ]


def test_a_message_of_results_keeps_the_role_it_is_stored_with():
    message = said_by_user({"toolResult": {"toolUseId": "t", "content": [{"text": "ok"}]}})
    assert get(STRANDS).summary(message).role == "user"


def test_the_messages_of_nodes_are_found_in_the_state_of_a_graph_of_graphs():
    def node(result: Any) -> dict[str, Any]:
        return NodeResult(result=result, status=Status.COMPLETED).to_dict()

    def said(words: str) -> AgentResult:
        message: Any = {"role": "assistant", "content": [{"text": words}]}
        return AgentResult("end_turn", message, EventLoopMetrics(), state={})

    inner = MultiAgentResult(
        status=Status.COMPLETED,
        results={"b": NodeResult(result=said("two"), status=Status.COMPLETED)},
    )
    state = {"type": "graph", "node_results": {"a": node(said("one")), "nested": node(inner)}}

    found = list(get(STRANDS).messages_in(state))

    assert [get(STRANDS).summary(message).text for _path, message in found] == ["one", "two"]
    assert all(value_at(state, path) is message for path, message in found)


def test_the_messages_of_a_snapshot_are_found_in_order():
    agent = Agent(
        model=ScriptedModel([]), messages=[{"role": "user", "content": [{"text": "Hello"}]}]
    )
    snapshot = agent.take_snapshot(preset="session").to_dict()

    assert [message for _path, message in get(STRANDS).messages_in(snapshot)] == agent.messages


@pytest.mark.parametrize("document", [None, "text", {}, {"role": "user"}, {"content": []}, [1]])
def test_a_document_without_messages_has_none(document):
    assert list(get(STRANDS).messages_in(document)) == []
