"""What the SDKs give stays, what people may have said does not, and what is kept is told."""

from __future__ import annotations

from typing import Any

import pytest

from django_agent_sessions.content.masking import TextFinder, mask_tree

SECRET = "hunter2"
CARD = 4111111111111111


def masked(value: Any, secret: str = SECRET, kept: Any = None) -> Any:
    return mask_tree(value, [TextFinder(secret)], kept=kept)[0]


def test_fixed_words_that_no_sdk_has_are_content():
    state = {"status": "hunter2", "type": "x hunter2", "notes": {"hunter2": 1}, "last": [CARD]}

    now = masked(state)

    assert now == {
        "status": "[REDACTED]",
        "type": "x [REDACTED]",
        "notes": {"[REDACTED]": 1},
        "last": [CARD],
    }
    assert masked({"last_card": CARD, "cards": [CARD]}, str(CARD)) == {
        "last_card": "[REDACTED]",
        "cards": ["[REDACTED]"],
    }


@pytest.mark.parametrize("secret", ["user", "search", "left", "completed", "text", "content", "12"])
def test_words_keys_and_figures_of_the_sdks_stay(secret):
    kept: list[Any] = []
    for item in (
        {"type": "message", "role": "user", "status": "completed", "content": [{"type": "text"}]},
        {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}},
        {"type": "computer_call", "action": {"type": "click", "button": "left", "x": 12, "y": 12}},
        {"role": "assistant", "metadata": {"usage": {"inputTokens": 12}, "metrics": {"n": 12}}},
        {"__name__": "SlidingWindow", "removed_message_count": 12},
        {"results": {"a": {"execution_time": 12}}, "completed_nodes": ["a"]},
    ):
        assert masked(item, secret, kept) is item
    assert kept == []


def test_what_an_action_of_a_model_says_is_masked_and_its_form_stays():
    item = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "search cats", "queries": ["search"]},
    }

    assert masked(item, "search")["action"] == {
        "type": "search",
        "query": "[REDACTED] cats",
        "queries": ["[REDACTED]"],
    }


def test_names_that_stay_are_told():
    kept: list[Any] = []
    graph = {
        "completed_nodes": ["hunter2"],
        "node_results": {"hunter2": {"result": "b"}},
        "__name__": "hunter2Manager",
        "type": "hunter2_graph",
    }
    use = {"content": [{"toolUse": {"toolUseId": "1", "name": "hunter2", "input": {}}}]}

    assert masked(graph, kept=kept) is graph
    assert masked(use, kept=kept) is use
    assert set(kept) == {
        ("completed_nodes", 0),
        ("node_results", "hunter2"),
        ("__name__",),
        ("type",),
        ("content", 0, "toolUse", "name"),
    }


@pytest.mark.parametrize(
    ("key", "text", "secret", "begin"),
    [
        ("id", "msg_ab12", "ab12", "msg_redacted"),
        ("id", "rs_ab12", "rs_ab12", "rs_redacted"),
        ("call_id", "call_ab12", "ab12", "call_redacted"),
        ("id", "hunter_two", "hunter_two", "redacted-"),
        ("toolUseId", "tooluse_ab12", "ab12", "redacted-"),
    ],
)
def test_an_id_stays_of_its_kind(key, text, secret, begin):
    now = masked({key: text}, secret)

    assert now[key].startswith(begin)
    assert secret not in now[key]
    assert masked(now, secret) == now


def test_encrypted_text_is_never_cut_and_goes_only_with_what_can_be_read():
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAABobBq9"}
    said = {**item, "summary": [{"type": "summary_text", "text": "Bob"}]}

    assert masked(item, "bob") is item
    assert masked(said, "bob")["encrypted_content"] is None


@pytest.mark.parametrize("key", ["signature", "encrypted_content"])
def test_what_is_no_signature_is_content(key):
    state = {"__name__": "LetterManager", key: "Yours, planted secret"}

    assert masked(state, "planted secret")[key] == "Yours, [REDACTED]"


@pytest.mark.parametrize("key", ["usage", "metrics", "accumulated_usage", "logprobs"])
def test_what_figures_are_called_is_content(key):
    counted = {key: {"planted secret": 7, "inputTokens": 3, "planted  secret": 8}}

    now = masked(counted, "planted secret")

    assert now == {key: {"[REDACTED]": 7, "inputTokens": 3, "[REDACTED] (2)": 8}}


@pytest.mark.parametrize(
    "texts", [("planted", "secret"), ("planted ", "secret"), ("planted\n", " secret")]
)
def test_a_secret_that_is_split_at_white_space_is_found(texts):
    message = {"role": "user", "content": [{"text": f"my {texts[0]}"}, {"text": f"{texts[1]} x"}]}

    now = masked(message, "planted secret")

    assert "planted" not in str(now)
    assert "secret" not in str(now)
    assert mask_tree(now, [TextFinder("planted secret")]) == (now, [])


@pytest.mark.parametrize("secret", ["hunter2", "Müller-Geheim", "密码 日本", "x😀y"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("before", [b"", b"\xff", b"\xff\xfe\x00"])
def test_a_secret_in_bytes_is_found_in_every_encoding(secret, encoding, before):
    data = before + secret.upper().encode(encoding) + b"\xc0\xff\xd8" * 5

    now = masked({"image": {"source": {"bytes": data}}}, secret)["image"]["source"]["bytes"]

    assert secret.upper().encode(encoding).removeprefix(b"\xff\xfe") not in now
    assert len(now) == len(data)
    assert now.endswith(b"\xc0\xff\xd8" * 5)
    assert masked(now, secret) is now
