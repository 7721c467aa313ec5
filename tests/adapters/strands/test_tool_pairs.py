"""The calls and results of a restored conversation are paired, as models require."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from django_agent_sessions.adapters.strands.tool_pairs import calls_of, pair_calls, results_of


def text(value: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": [{"text": value}], "tracking_id": value}


def calls(*keys: str) -> dict[str, Any]:
    blocks = [{"toolUse": {"toolUseId": key, "name": "tool", "input": {}}} for key in keys]
    return {"role": "assistant", "content": blocks, "tracking_id": f"calls {keys}"}


def result(key: str, value: str = "done") -> dict[str, Any]:
    return {"toolResult": {"toolUseId": key, "status": "success", "content": [{"text": value}]}}


def results(*keys: str) -> dict[str, Any]:
    return {"role": "user", "content": [*map(result, keys)], "tracking_id": f"results {keys}"}


def paired(*messages: dict[str, Any]) -> list[Any]:
    copied: Any = copy.deepcopy([*messages])
    return pair_calls(copied)


def statuses(message: Any) -> list[tuple[str, str]]:
    found = [block["toolResult"] for block in message["content"] if "toolResult" in block]
    return [(each["toolUseId"], each["status"]) for each in found]


def test_a_conversation_without_tools_is_the_same_list():
    messages: Any = [text("a"), text("b", "assistant")]

    assert pair_calls(messages) is messages


def test_complete_pairs_stay_as_they_are():
    messages = [text("a"), calls("1", "2"), results("2", "1"), text("b", "assistant")]

    assert paired(*messages) == messages


def test_a_call_without_a_result_before_another_turn_gets_an_error():
    first, answer, prompt = paired(calls("1", "2"), text("next"))

    assert calls_of(first) == {"1", "2"}
    assert answer["role"] == "user"
    assert answer["tracking_id"]
    assert statuses(answer) == [("1", "error"), ("2", "error")]
    assert prompt == text("next")


def test_missing_results_are_added_to_those_that_exist_and_other_blocks_stay_last():
    message = results("2")
    message["content"].insert(0, {"text": "and this"})

    _, answer = paired(calls("1", "2"), message)

    assert statuses(answer) == [("1", "error"), ("2", "success")]
    assert answer["content"][-1] == {"text": "and this"}
    assert answer["tracking_id"] == message["tracking_id"]


def test_results_of_other_calls_are_left_out():
    _, answer = paired(calls("1"), results("1", "gone"))

    assert statuses(answer) == [("1", "success")]


def test_results_without_a_call_are_left_out_with_a_message_that_has_nothing_else():
    mixed = results("2")
    mixed["content"].append({"text": "kept"})

    found = paired(results("1"), text("a", "assistant"), mixed)

    assert [message["content"] for message in found] == [[{"text": "a"}], [{"text": "kept"}]]


def test_the_calls_of_the_last_message_stay_open():
    messages = [text("a"), calls("1")]

    assert paired(*messages) == messages


def test_results_move_to_their_calls_past_what_another_process_wrote():
    found = paired(calls("1"), text("other"), results("1"))

    assert found == [calls("1"), results("1"), text("other")]


def test_of_repeated_results_the_last_is_kept():
    message = results("1")
    message["content"].append(result("1", "later"))

    _, answer = paired(calls("1"), message)

    assert answer["content"] == [result("1", "later")]


KEYS = st.lists(st.sampled_from("123"), min_size=1, max_size=3, unique=True)
MESSAGES = st.one_of(
    st.sampled_from("ab").map(text),
    st.sampled_from("ab").map(lambda value: text(value, "assistant")),
    KEYS.map(lambda keys: calls(*keys)),
    KEYS.map(lambda keys: results(*keys)),
)


@given(st.lists(MESSAGES, max_size=8))
def test_afterwards_each_call_has_exactly_its_results_in_the_next_message(messages):
    found = paired(*messages)

    for before, after in pairwise(found):
        assert sorted(key for key, _ in statuses(after)) == sorted(calls_of(before))
    assert not found or not results_of(found[0])
    texts = [message for message in messages if "text" in message["content"][0]]
    assert [message for message in found if "text" in message["content"][0]] == texts
