"""What agents yield as the AI SDK's chunks, and what a user says as agents take it."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from django_agent_sessions.rest.chat.ai_sdk import Attachment, Chat
from django_agent_sessions.rest.chat.ai_sdk.stream_writer import Writer
from django_agent_sessions.rest.chat.ai_sdk.translator import Translator

from .clients import chunks


def translated(*events):
    pieces: list[bytes] = []
    writer = Writer(pieces.append)
    translator = Translator(writer)
    for event in events:
        translator.feed(event)
    writer.finish()
    return [
        chunk
        for chunk in chunks(b"".join(pieces).decode())
        if chunk["type"] not in ("start-step", "finish-step", "finish")
    ]


def message(role, *content):
    return {"message": {"role": role, "content": list(content)}}


def item(**payload):
    return SimpleNamespace(
        type="run_item_stream_event", item=SimpleNamespace(to_input_item=lambda: payload)
    )


def test_a_data_part_of_a_projects_own_goes_through():
    part = {"type": "data-progress", "id": "p", "data": {"percent": 5}}
    assert translated(part | {"secret": 1}) == [part]


def test_numbers_that_json_does_not_have_are_null():
    (found,) = translated({"type": "data-x", "data": [float("nan"), {"y": float("inf")}, 1.5]})
    assert found["data"] == [None, {"y": None}, 1.5]
    (found,) = translated({"type": "data-x", "data": {1: float("nan"), None: True, False: 0}})
    assert found["data"] == {"1": None, "null": True, "false": 0}


def test_a_result_of_an_earlier_call_makes_its_call_known():
    found = translated(message("user", {"toolResult": {"toolUseId": "1", "content": []}}))
    assert [chunk["type"] for chunk in found] == ["tool-input-available", "tool-output-available"]
    assert found[0]["dynamic"]


def test_what_is_in_a_users_message_is_not_said_by_the_assistant():
    assert translated(message("user", {"text": "Hello"})) == []


def test_events_of_no_known_shape_say_nothing():
    odd = [{}, {"event": {}}, {"init_event_loop": True}, object(), None, 1]
    broken = SimpleNamespace(
        type="run_item_stream_event", item=SimpleNamespace(to_input_item=lambda: 1 / 0)
    )
    assert translated(*odd, broken) == []


def test_a_thing_that_nobody_knows_and_a_source_are_written():
    annotation = {"type": "url_citation", "url": "https://e.org/", "title": "There"}
    text = {"type": "output_text", "text": "See.", "annotations": [annotation]}
    found = translated(
        item(type="message", role="assistant", content=[text]), item(type="hologram", depth=3)
    )
    assert [chunk["type"] for chunk in found] == [
        "text-start",
        "text-delta",
        "text-end",
        "source-url",
        "data-unknown",
    ]


def use(number, key="f"):
    return {"toolUse": {"toolUseId": key, "name": "f", "input": {"n": number}}}


def result(words, key="f"):
    return {"toolResult": {"toolUseId": key, "status": "success", "content": [{"text": words}]}}


def calls(found):
    made: dict[str, tuple] = {}
    for chunk in found:
        if chunk["type"] == "tool-input-available":
            assert chunk["toolCallId"] not in made
            made[chunk["toolCallId"]] = (chunk["input"],)
        elif chunk["type"] == "tool-output-available":
            made[chunk["toolCallId"]] += (chunk["output"],)
    return list(made.values())


def test_calls_of_the_same_id_are_calls_of_their_own():
    def started(number):
        start = {"contentBlockStart": {"start": {"toolUse": {"toolUseId": "f", "name": "f"}}}}
        delta = {"contentBlockDelta": {"delta": {"toolUse": {"input": f'{{"n": {number}}}'}}}}
        stop: dict[str, Any] = {"contentBlockStop": {}}
        return [{"event": start}, {"event": delta}, {"event": stop}]

    found = translated(
        *started(1),
        *started(2),
        message("assistant", use(1), use(2)),
        message("user", result("one"), result("two")),
        message("assistant", use(3)),
        message("user", result("three")),
    )
    assert calls(found) == [({"n": 1}, "one"), ({"n": 2}, "two"), ({"n": 3}, "three")]
    assert [chunk["toolCallId"] for chunk in found if chunk["type"] == "tool-input-delta"] == [
        "f",
        "f-2",
    ]


def test_a_providers_own_call_ends_without_an_output():
    search = {"type": "web_search_call", "action": {"type": "search", "query": "q"}}
    found = translated(
        item(**search, id="1", status="completed"), item(**search, id="2", status="failed")
    )
    assert [(chunk["type"], chunk["toolCallId"]) for chunk in found] == [
        ("tool-input-available", "1"),
        ("tool-output-available", "1"),
        ("tool-input-available", "2"),
        ("tool-output-error", "2"),
    ]


def test_a_providers_own_call_with_a_result_has_one_output():
    outputs = [{"type": "logs", "logs": "2"}]
    found = translated(
        item(type="code_interpreter_call", id="1", code="1+1", status="completed", outputs=outputs)
    )
    assert calls(found) == [({"code": "1+1"}, "2")]


def chat(text, *files):
    return Chat("c", uuid4(), "s", "", "", None, text, files, "m", None, None)


def test_files_are_what_each_framework_takes():
    pdf = Attachment(b"%PDF", "application/pdf", "pdf", "My_report (v1.2).pdf")
    png = Attachment(b"\x89PNG", "image/png", "png")
    made = chat("Look", png, pdf)

    *others, document = made.strands_input
    assert others == [
        {"text": "Look"},
        {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}},
    ]
    assert document["document"].pop("name").startswith("My report (v1 2) ")
    assert document == {"document": {"format": "pdf", "source": {"bytes": b"%PDF"}}}
    encoded = base64.b64encode(b"%PDF").decode()
    assert made.openai_input[0]["content"] == [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": png.data_url, "detail": "auto"},
        {
            "type": "input_file",
            "filename": "My_report (v1.2).pdf",
            "file_data": f"data:application/pdf;base64,{encoded}",
        },
    ]
    assert [part["type"] for part in made.ui_parts] == ["text", "file", "file"]


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("résumé.pdf", "resume "),
        ("報告書　٣ 1.pdf", "1 "),
        ("a_b--[c]  (d)!.pdf", "a b--[c] (d) "),
        ("日本.pdf", ""),
        ("", ""),
        (".pdf", "pdf "),
        (f"{'x' * 59} {'y' * 200}.pdf", f"{'x' * 59} "),
    ],
)
def test_a_document_has_a_name_that_providers_accept_and_nothing_else_has(name, stem):
    twice = [Attachment(b"%PDF", "application/pdf", "pdf", name)] * 2
    names = [
        block["document"]["name"]
        for made in (chat("Look", *twice), chat("And?", *twice))
        for block in made.strands_input[1:]
    ]
    assert len({found.lower() for found in names}) == 4
    for found in names:
        assert re.fullmatch(re.escape(stem) + r"[0-9a-f]{8}-[12]", found)


@pytest.mark.parametrize("name", ["a.pdf", ""])
def test_a_document_alone_has_a_text_beside_it(name):
    document = Attachment(b"%PDF", "application/pdf", "pdf", name)
    shown, beside = chat("", document).strands_input
    assert beside == {"text": name or shown["document"]["name"]}
    png = Attachment(b"\x89PNG", "image/png", "png")
    assert [list(block) for block in chat("", png).strands_input] == [["image"]]


def test_parts_stay_in_the_order_in_which_they_were_sent():
    png = Attachment(b"\x89PNG", "image/png", "png")
    made = replace(chat("One\nTwo", png), parts=("One", png, "Two"))
    assert [next(iter(block)) for block in made.strands_input] == ["text", "image", "text"]
    kinds = [block["type"] for block in made.openai_input[0]["content"]]
    assert kinds == ["input_text", "input_image", "input_text"]
    assert [part["type"] for part in made.ui_parts] == ["text", "file", "text"]


def test_a_text_alone_is_a_text():
    assert chat("Hello").openai_input == "Hello"
    assert chat("Hello").strands_input == [{"text": "Hello"}]
