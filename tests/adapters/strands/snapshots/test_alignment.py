"""What a save does to the conversation: shares, appends, replaces, sets aside."""

from __future__ import annotations

from typing import Any

import pytest

from django_agent_sessions.adapters.strands import DjangoStorage
from django_agent_sessions.models import (
    Branch,
    Session,
    SessionAgent,
    SessionMessage,
    Snapshot,
    StoredObject,
)
from tests.adapters.strands.agents import stored as all_stored
from tests.adapters.strands.agents import texts

from .making import LATEST, immutable, message, run, saved

pytestmark = pytest.mark.django_db(transaction=True)


def stored(branch: int = 0) -> list[str]:
    rows = SessionMessage.objects.filter(branch=branch).order_by("message_id")
    assert [row.message_id for row in rows] == list(range(len(rows)))
    return texts([row.message for row in rows])


def references(snapshot_id: str = "") -> Any:
    return Snapshot.objects.get(snapshot_id=snapshot_id).messages


@pytest.fixture
def storage() -> DjangoStorage:
    return DjangoStorage()


@pytest.fixture(params=[True, False], ids=["remembered", "from rows"])
def save(request, storage) -> Any:
    """Writes as one storage does, or as one that read the agent just before."""

    def write(data: bytes, key: str = LATEST) -> DjangoStorage:
        using = storage if request.param else DjangoStorage()
        if not request.param:
            run(using.read(LATEST))
        run(using.write(key, data))
        assert run(using.read(key)) == data
        assert run(DjangoStorage().read(key)) == data
        return using

    return write


def test_a_conversation_that_grows_is_appended(save):
    a, b, c = message("a"), message("b", "assistant"), message("c")

    save(saved(a))
    save(saved(a, b))
    save(saved(a, b, c))

    assert stored() == ["a", "b", "c"]
    assert references() == [[0, 3]]
    assert Session.objects.get().message_count == 3
    assert not StoredObject.objects.exists()


def test_what_the_window_let_go_stays_in_the_conversation(save):
    messages = [message(str(number)) for number in range(6)]

    save(saved(*messages[:4]))
    save(saved(*messages[2:5]))
    save(saved(*messages[3:6]))

    assert stored() == ["0", "1", "2", "3", "4", "5"]
    assert references() == [[3, 6]]
    assert SessionAgent.objects.get().window == {"kept": [], "tail": 3}


def test_a_pinned_message_stays_before_the_window(save):
    messages = [message(str(number)) for number in range(6)]

    save(saved(*messages[:5]))
    save(saved(messages[0], *messages[3:6]))

    assert stored() == ["0", "1", "2", "3", "4", "5"]
    assert references() == [[0, 1], [3, 6]]
    assert SessionAgent.objects.get().window == {"kept": [[0, 1]], "tail": 3}


def test_a_summary_is_in_the_snapshot_and_not_in_the_conversation(save):
    messages = [message(str(number)) for number in range(5)]
    summary = message("what was said")

    save(saved(*messages[:4]))
    save(saved(summary, *messages[2:4]))
    save(saved(summary, *messages[2:5]))

    assert stored() == ["0", "1", "2", "3", "4"]
    assert references() == [{"message": summary}, [2, 5]]


def test_a_shortened_result_is_in_the_snapshot_and_whole_in_the_conversation(save):
    a, b, c, d = (message(text) for text in "abcd")
    short = {**b, "content": [{"text": "…"}]}

    save(saved(a, b, c))
    save(saved(a, short, c))
    save(saved(a, short, c, d))

    assert stored() == ["a", "b", "c", "d"]
    assert references() == [[0, 1], {"message": short, "position": 1}, [2, 4]]


def test_what_a_guardrail_took_back_is_nowhere(save):
    a, b = message("a"), message("the secret")
    taken = {**b, "content": [{"text": "[redacted]"}]}

    save(saved(a, b))
    save(saved(a, b), immutable(1))
    save(saved(a, taken))

    assert stored() == ["a", "[redacted]"]
    assert references() == [[0, 2]]
    assert b"secret" not in (run(DjangoStorage().read(immutable(1))) or b"")


def test_a_last_answer_that_changed_leaves_immutable_snapshots_alone(save):
    a, b = message("a"), message("b", "assistant")
    other = {**b, "content": [{"text": "other"}]}

    save(saved(a, b))
    save(saved(a, b), immutable(1))
    save(saved(a, other))

    assert stored() == ["a", "b"]
    assert run(DjangoStorage().read(immutable(1))) == saved(a, b)


def test_a_placeholder_becomes_what_was_heard(save):
    a, b = message(""), message("b", "assistant")
    heard = {**a, "content": [{"text": "hello"}]}

    def bidi(*messages: Any) -> bytes:
        data = saved(*messages)
        start = data.index(b', "conversation_manager_state"')
        return data[:start] + b'}, "app_data": {}}'

    save(bidi(a))
    save(bidi(a, b))
    save(bidi(heard, b))

    assert stored() == ["hello", "b"]
    assert references() == [[0, 2]]


def test_a_conversation_that_became_shorter_is_all_still_there(save):
    messages = [message(str(number)) for number in range(4)]

    save(saved(*messages))
    save(saved(*messages[:2]))

    assert stored() == ["0", "1", "2", "3"]
    assert references() == [[0, 2]]


def test_going_on_from_an_earlier_message_sets_the_later_ones_aside(save):
    messages = [message(str(number)) for number in range(4)]
    other = message("other")

    save(saved(*messages))
    save(saved(*messages), immutable(1))
    save(saved(*messages[:2]))
    save(saved(*messages[:2], other))

    assert stored() == ["0", "1", "other"]
    branch = Branch.objects.get()
    assert branch.kind == Branch.Kind.REWOUND
    assert stored(branch.number) == ["0", "1", "2", "3"]
    assert run(DjangoStorage().read(immutable(1))) == saved(*messages)


def test_a_reset_agent_goes_on_behind_what_was_said(save):
    save(saved(message("a"), message("b")))
    save(saved())
    save(saved(message("c")))

    assert stored() == ["a", "b", "c"]
    assert references() == [[2, 3]]
    assert not Branch.objects.exists()


def test_an_immutable_snapshot_appends_and_changes_nothing_else(save):
    a, b = message("a"), message("b")

    save(saved(a, state={"n": 1}))
    save(saved(a, b, state={"n": 2}), immutable(1))

    assert stored() == ["a", "b"]
    assert references() == [[0, 1]]
    assert SessionAgent.objects.get().state == {"n": 1}
    save(saved(a, b, state={"n": 2}))
    assert stored() == ["a", "b"]
    assert references() == [[0, 2]]


def test_two_writers_at_once_both_keep_what_they_said(caplog):
    a, b, c, d = (message(text) for text in "abcd")
    one, other = DjangoStorage(), DjangoStorage()
    run(one.write(LATEST, saved(a)))
    run(other.read(LATEST))

    run(one.write(LATEST, saved(a, b)))
    run(other.write(LATEST, saved(a, c)))

    assert stored() == ["a", "c"]
    branch = Branch.objects.get()
    assert branch.kind == Branch.Kind.CONFLICT
    assert stored(branch.number) == ["a", "b"]
    assert "two writers" in caplog.text
    run(one.write(LATEST, saved(a, b, d)))
    assert stored() == ["a", "b", "d"]
    assert {tuple(stored(number)) for number in (1, 2)} == {("a", "b"), ("a", "c")}


def test_without_ids_messages_are_told_apart_by_their_bytes(save):
    same = [message("ok", tracked=False) for _ in range(3)]

    save(saved(*same[:2]))
    save(saved(*same))

    assert stored() == ["ok", "ok", "ok"]
    assert len(all_stored()) == 3
