"""Payloads with a secret in them, in every way in which one hides."""

from __future__ import annotations

import base64
import contextlib
import json
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st

from django_agent_sessions.content.masking import TextFinder

SECRET = "Zoë's pläntéd/secret"
FINDERS = [TextFinder(SECRET)]


def escaped(text: str, times: int, ascii_only: bool) -> str:
    for _ in range(times):
        text = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
    return text


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "upper case": str.upper,
    "lower case": str.lower,
    "composed": lambda text: unicodedata.normalize("NFC", text),
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
    "decomposed upper case": lambda text: unicodedata.normalize("NFD", text).upper(),
    "white space": lambda text: text.replace(" ", " \t\r\n\u00a0 "),
    "percent": lambda text: quote(text, safe=""),
    "percent and plus": lambda text: quote(text, safe=" ").replace(" ", "+"),
    "html": lambda text: text.replace("'", "&#x27;").replace(" ", "&nbsp;"),
    **{
        f"JSON {times} times, {'ASCII' if ascii_only else 'Unicode'}": partial(
            escaped, times=times, ascii_only=ascii_only
        )
        for times in (1, 2, 3, 4)
        for ascii_only in (True, False)
    },
}

spellings = st.sampled_from(sorted(SPELLINGS)).map(lambda name: SPELLINGS[name](SECRET))
# Nothing that could be a piece of the secret or of a mask.
words = st.text("bfgjkmqwxBFGJ ,.!?\n\"'\\", max_size=30)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def halves(text: str) -> tuple[str, str]:
    middle = len(text) // 2
    return text[:middle], text[middle:]


def _strands(*blocks: Any, role: str = "user") -> Any:
    return {"role": role, "content": list(blocks)}


def _result(*contents: Any) -> Any:
    result = {"toolUseId": "call_1", "status": "success", "content": list(contents)}
    return _strands({"toolResult": result})


def _use(arguments: Any) -> Any:
    return _strands(
        {"toolUse": {"toolUseId": "call_1", "name": "search", "input": arguments}},
        role="assistant",
    )


HIDING_PLACES: dict[str, Callable[[str], Any]] = {
    "text": lambda s: _strands({"text": s}),
    "two texts": lambda s: _strands(*({"text": half} for half in halves(s))),
    "texts around a cache point": lambda s: _strands(
        {"text": halves(s)[0]}, {"cachePoint": {"type": "default"}}, {"text": halves(s)[1]}
    ),
    "tool input": lambda s: _use({"deep": [{"query": s}]}),
    "key of a tool input": lambda s: _use({s: 1}),
    "JSON in a tool input": lambda s: _use({"body": json.dumps({"query": s})}),
    "JSON in JSON": lambda s: _use({"body": json.dumps([json.dumps({"query": s})])}),
    "bytes marked by Strands": lambda s: _use({"__bytes_encoded__": True, "data": encoded(s)}),
    "result": lambda s: _result({"text": s}),
    "two result texts": lambda s: _result(*({"text": half} for half in halves(s))),
    "JSON result": lambda s: _result({"json": {"rows": [[s]]}}),
    "key of a JSON result": lambda s: _result({"json": {"a": {s: None}}}),
    "reasoning": lambda s: _strands({"reasoningContent": {"reasoningText": {"text": s}}}),
    "signed reasoning": lambda s: _strands(
        {"reasoningContent": {"reasoningText": {"text": s, "signature": "c2ln"}}}, {"text": "b"}
    ),
    "two signed reasonings": lambda s: _strands(
        *(
            {"reasoningContent": {"reasoningText": {"text": half, "signature": "c2ln"}}}
            for half in halves(s)
        )
    ),
    "document": lambda s: _strands(
        {"document": {"format": "txt", "name": "b", "source": {"bytes": f"b {s} b".encode()}}}
    ),
    "name of a document": lambda s: _strands(
        {"document": {"format": "txt", "name": s, "source": {"bytes": b"b"}}}
    ),
    "custom metadata": lambda s: {**_strands({"text": "b"}), "metadata": {"custom": {"note": s}}},
    "chat text": lambda s: {"role": "user", "content": s},
    "chat arguments": lambda s: {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "search", "arguments": json.dumps({"query": s})},
            }
        ],
    },
    "arguments": lambda s: {
        "type": "function_call",
        "call_id": "call_1",
        "name": "search",
        "arguments": json.dumps({"query": s}, ensure_ascii=False, separators=(",", ":")),
    },
    "output": lambda s: {"type": "function_call_output", "call_id": "call_1", "output": s},
    "JSON output": lambda s: {
        "type": "function_call_output",
        "call_id": "call_1",
        "output": json.dumps({"found": [s]}),
    },
    "two output texts": lambda s: {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "status": "completed",
        "content": [
            {"type": "output_text", "text": half, "annotations": [], "logprobs": []}
            for half in halves(s)
        ],
    },
    "reasoning summary": lambda s: {
        "type": "reasoning",
        "id": "rs_1",
        "encrypted_content": "gAAAA",
        "summary": [{"type": "summary_text", "text": half} for half in halves(s)],
    },
    "data URL": lambda s: {
        "role": "user",
        "content": [
            {
                "type": "input_file",
                "filename": "b.txt",
                "file_data": f"data:text/plain;base64,{encoded(s)}",
            }
        ],
    },
    "bare base64": lambda s: {
        "role": "user",
        "content": [{"type": "input_audio", "input_audio": {"data": encoded(s), "format": "wav"}}],
    },
    "result of a program": lambda s: {
        "type": "program_output",
        "id": "p_1",
        "call_id": "call_1",
        "status": "completed",
        "result": f"the result is {s} and no base64",
    },
}


def leaves(value: Any) -> Iterator[Any]:
    """All keys and values of a payload, and what is inside of JSON and base64 in it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(key)
            yield from leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
        # What one block begins the next may end.
        texts = [block["text"] for block in value if isinstance(block, dict) and "text" in block]
        yield "".join(map(str, texts))
    elif isinstance(value, bytes):
        yield value.decode(errors="replace")
    elif isinstance(value, str):
        yield value
        yield from _inside(value)
    else:
        yield str(value)


def _inside(text: str) -> Iterator[Any]:
    with contextlib.suppress(ValueError):
        yield from leaves(json.loads(text)) if text[:1] in '{["' and text else ()
    with contextlib.suppress(ValueError):
        body = text.rpartition(";base64,")[2]
        yield base64.b64decode(body, validate=True).decode()


def holds_secret(value: Any) -> bool:
    """Whether the secret can be read anywhere, by means that are not those of the app."""
    wanted = _squeezed(SECRET)
    return any(wanted in _squeezed(str(leaf)) for leaf in leaves(value))


def _squeezed(text: str) -> str:
    return "".join(unicodedata.normalize("NFC", text).casefold().split())
