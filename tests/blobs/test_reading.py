"""A message reads alike with its binaries in it and with references in their places."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from django_agent_sessions.admin.transcript.json_tree import tree
from django_agent_sessions.blobs import extract_binaries
from django_agent_sessions.content import dialects
from django_agent_sessions.content.blob_refs import BlobRef, references, resolve
from django_agent_sessions.content.dialects import ASSISTANT_UI, OPENAI, STRANDS, Part, PartKind
from django_agent_sessions.content.exact_json import dumps, loads, without_hashes
from django_agent_sessions.interchange.markdown import _json_block
from django_agent_sessions.rest.chat.ai_sdk.ui_parts import content_part
from django_agent_sessions.rest.serializers.fields import displayable_json
from tests.strategies import exactly, json_values

from .messages import PNG

SMALL = {"BLOB_STORAGE": "default", "BLOB_MIN_BYTES": 1}

contents = st.binary(min_size=1, max_size=40).map(lambda data: PNG + data) | st.binary(min_size=1)
encoded = contents.map(lambda data: base64.b64encode(data).decode())
types = st.sampled_from(["image/png", "application/pdf", "audio/wav", "", "text/html;charset=x"])
urls = st.builds(lambda kind, text: f"data:{kind};base64,{text}", types, encoded)
texts = st.sampled_from(["hello", "", "https://example.com/a.png"])
marked = encoded.map(lambda text: {"__bytes_encoded__": True, "data": text})
formats = st.sampled_from(["png", "pdf", "wav", "mp4", "html", 3])


def fields(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(values)


held = fields(format=formats, source=fields(bytes=contents | encoded | urls | marked))
strands_media = st.one_of(*(fields(**{kind: held}) for kind in ("image", "document", "video")))
strands_blocks = st.one_of(
    fields(text=texts),
    strands_media,
    fields(guardContent=fields(image=held)),
    fields(reasoningContent=fields(redactedContent=contents)),
    fields(toolUse=fields(name=texts, toolUseId=texts, input=fields(data=contents | encoded))),
    fields(
        toolResult=fields(
            toolUseId=texts,
            content=st.lists(strands_media | fields(json=fields(data=encoded)), max_size=3),
        )
    ),
    fields(novelty=contents),
)
strands = fields(role=st.just("user"), content=st.lists(strands_blocks, max_size=4))

openai_blocks = st.one_of(
    fields(type=st.just("input_text"), text=texts),
    fields(type=st.just("input_image"), image_url=urls | texts),
    fields(type=st.just("image_url"), image_url=fields(url=urls)),
    fields(type=st.just("input_file"), filename=texts, file_data=urls | encoded),
    fields(type=st.just("file"), file=fields(file_data=urls | encoded)),
    fields(type=st.just("input_audio"), input_audio=fields(data=encoded | urls, format=formats)),
    fields(type=st.just("novelty"), data=encoded),
)
openai = st.one_of(
    fields(role=st.just("user"), content=st.lists(openai_blocks, max_size=4)),
    fields(role=st.just("assistant"), content=texts, audio=fields(id=texts, data=encoded)),
    fields(type=st.just("image_generation_call"), id=texts, result=encoded),
    fields(
        type=st.just("function_call_output"),
        call_id=texts,
        output=st.lists(openai_blocks, max_size=3),
    ),
    fields(
        type=st.just("computer_call_output"),
        call_id=texts,
        output=fields(type=st.just("computer_screenshot"), image_url=urls),
    ),
    fields(
        type=st.just("code_interpreter_call"),
        id=texts,
        code=texts,
        outputs=st.lists(fields(type=st.just("image"), url=urls | texts), max_size=2),
    ),
)

frontend_parts = st.one_of(
    fields(type=st.just("text"), text=texts),
    fields(type=st.just("file"), url=urls | texts, mediaType=types),
    fields(type=st.just("file"), data=encoded | urls, mimeType=types),
    fields(type=st.just("image"), image=urls | texts),
    fields(type=st.just("audio"), audio=fields(data=encoded, format=formats)),
    fields(
        type=st.just("tool-x"), toolCallId=texts, input=st.just({}), output=fields(data=encoded)
    ),
)
frontend = fields(
    id=texts,
    format=st.just("ai-sdk/v6"),
    content=fields(role=st.just("user"), parts=st.lists(frontend_parts, max_size=4)),
)


def small(payload: Any) -> tuple[Any, dict[str, bytes]]:
    """A payload as it is stored when every binary is a file, and the files."""
    with override_settings(AGENT_SESSIONS=SMALL):
        found = extract_binaries(payload)
    files = {reference.sha256: data for reference, data in found.binaries.items()}
    return loads(dumps(found.value)), files


def filled(parts: tuple[Part, ...], files: dict[str, bytes]) -> tuple[Part, ...]:
    """Parts in whose raw data the binaries are back."""
    return tuple(
        replace(part, data=resolve(part.data, files), parts=filled(part.parts, files))
        for part in parts
    )


def compare(dialect: str, payload: Any) -> None:
    stored, files = small(payload)
    parts = dialects.get(dialect).parts
    # By their text, because no NaN equals another.
    assert exactly(filled(parts(stored), files)) == exactly(parts(payload))
    before, after = dialects.get(dialect).blocks(payload), dialects.get(dialect).blocks(stored)
    assert [block.path for block in after] == [block.path for block in before]
    for block in before:
        for place in (block, *block.inner):
            plain, found = (
                dialects.get(dialect).binary_at(one, place.path) for one in (payload, stored)
            )
            if found is not None and isinstance(found[0], BlobRef):
                found = (files[found[0].sha256], found[1])
            assert found == plain


@given(strands)
def test_strands_messages_read_alike(message):
    compare(STRANDS, message)


@given(openai)
def test_openai_items_read_alike(item):
    compare(OPENAI, item)


@given(frontend)
def test_messages_of_a_frontend_read_alike(message):
    compare(ASSISTANT_UI, message)


@given(json_values)
def test_whatever_it_is_it_reads_alike(value):
    for dialect in (STRANDS, OPENAI, ASSISTANT_UI):
        for payload in (value, {"role": "user", "content": value}, {"content": {"parts": value}}):
            compare(dialect, payload)


URL = "data:image/png;base64," + base64.b64encode(PNG + bytes(100)).decode()


@pytest.mark.parametrize(
    ("dialect", "payload", "path"),
    [
        (STRANDS, {"role": "user", "content": URL}, ("content",)),
        (STRANDS, {"role": "user", "content": [{"text": URL}]}, ("content", 0)),
        (OPENAI, {"role": "user", "content": URL}, ("content",)),
        (OPENAI, {"role": "user", "content": [{"type": "input_text", "text": URL}]},
         ("content", 0)),
        (OPENAI, {"type": "function_call_output", "call_id": "1", "output": URL}, ("output",)),
        (ASSISTANT_UI, {"content": {"role": "user", "parts": [{"type": "text", "text": URL}]}},
         ("content", "parts", 0)),
    ],
)  # fmt: skip
def test_a_text_that_is_nothing_but_a_picture_is_one_when_it_is_elsewhere(dialect, payload, path):
    stored, files = small(payload)
    (part,) = dialects.get(dialect).parts(stored)
    (part,) = part.parts or (part,)
    assert (part.kind, part.media_type, part.size) == (PartKind.IMAGE, "image/png", 108)
    found = dialects.get(dialect).binary_at(stored, path)
    assert found is not None
    assert isinstance(found[0], BlobRef)
    assert files[found[0].sha256] == PNG + bytes(100)


@given(json_values)
def test_the_hash_of_a_binary_is_shown_nowhere_and_nothing_else_changes(value):
    looks = {"$blob": {"sha256": "a" * 64, "size": 1}, 'x{"$blob': {"sha256": "b" * 64, "size": 1}}
    for payload in ({"a": value, "b": looks}, [value, {"$blob": looks}], looks):
        stored, _ = small(payload)
        text = dumps(stored)
        cleaned = without_hashes(text)
        found = [reference for _, reference in references(stored)]
        kept = text
        for reference in found:
            kept = kept.replace(f'{{"$blob":{{"sha256":"{reference.sha256}",', '{"$blob":{')
            assert reference.sha256 not in cleaned
            assert reference.sha256 not in json.dumps(displayable_json(stored))
            assert reference.sha256 not in tree(stored)
            assert reference.sha256 not in _json_block(stored)
        assert cleaned == kept
        assert cleaned.count("a" * 64) == text.count("a" * 64)


def test_a_reference_has_an_address_in_the_parts_of_the_ai_sdk():
    stored, _ = small({"role": "user", "content": [{"image": {"source": {"bytes": PNG}}}]})
    (block,) = dialects.get(STRANDS).blocks(stored)
    told = content_part(block.parts[0], block.path, lambda path: f"/media/{path[1]}")
    assert told == {"type": "file", "mediaType": "application/octet-stream", "url": "/media/0"}
