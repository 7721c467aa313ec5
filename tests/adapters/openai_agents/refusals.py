"""What OpenAI's API refuses in the input of a model, as its errors say."""

from __future__ import annotations

from typing import Any


def asks(text: str) -> Any:
    return {"role": "user", "content": text}


def thinks(key: str) -> Any:
    summary = [{"type": "summary_text", "text": f"thought {key}"}]
    return {"id": f"rs_{key}", "type": "reasoning", "summary": summary, "encrypted_content": "E"}


def says(text: str, key: str) -> Any:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "id": f"msg_{key}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


def calls(key: str) -> Any:
    return {
        "id": f"fc_{key}",
        "type": "function_call",
        "call_id": key,
        "name": "look",
        "arguments": "{}",
    }


def searches(key: str) -> Any:
    action = {"type": "search", "query": "tea"}
    return {"id": f"ws_{key}", "type": "web_search_call", "status": "completed", "action": action}


def answers(key: str) -> Any:
    return {"type": "function_call_output", "call_id": key, "output": "seen"}


CONVERSATION: list[Any] = [
    asks("a"),
    thinks("0"),
    says("one", "0"),
    asks("b"),
    thinks("1"),
    calls("c1"),
    calls("c2"),
    answers("c1"),
    answers("c2"),
    thinks("2"),
    searches("2"),
    thinks("3"),
    says("two", "3"),
    asks("c"),
    says("three", "4"),
]
"""With a model that reasons; the last answer has no reasoning."""

# By the id of each of the model's items, the reasoning that it requires.
_REQUIRED = {
    "msg_0": "rs_0",
    "fc_c1": "rs_1",
    "fc_c2": "rs_1",
    "ws_2": "rs_2",
    "msg_3": "rs_3",
}


def refusals(sent: list[Any]) -> list[str]:
    """Returns why the API would refuse the input of a model."""
    found = []
    keys = [item.get("id") for item in sent]
    for index, item in enumerate(sent):
        following = sent[index + 1 :]
        if item.get("type") == "reasoning":
            key, after = item["id"], following[0].get("id") if following else None
            if _REQUIRED.get(after or "") != key:
                found.append(f"{key} was provided without its required following item")
        required = _REQUIRED.get(item.get("id", ""))
        if required and required not in keys[:index]:
            found.append(f"{item['id']} was provided without its required reasoning {required}")
        if item.get("type") == "function_call_output":
            made = [each.get("call_id") for each in sent[:index] if "arguments" in each]
            if item["call_id"] not in made:
                found.append(f"no tool call found for {item['call_id']}")
    return found
