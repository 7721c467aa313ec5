"""The load run's own eyes: what it would overlook, it would call proven."""

from __future__ import annotations

from random import Random

import pytest
from django.contrib.auth import get_user_model
from django.db import transaction

from benchmarks.load.answers import Heard, WrongError, compare
from benchmarks.load.checking import faults
from benchmarks.load.scripts import MAP, OPENAI, STRANDS, Conversation, Line
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.values.ids import new_id
from example_project.chat import openai_agents, strands_agents


@pytest.mark.django_db
@pytest.mark.parametrize("kind", [STRANDS, OPENAI])
def test_the_check_finds_what_was_planted_and_nothing_else(kind, monkeypatch):
    monkeypatch.setenv("EXAMPLE_WORD_DELAY", "0")
    owner, other = (get_user_model().objects.create(username=name) for name in ("mine", "theirs"))
    ask = strands_agents.ask if kind == STRANDS else openai_agents.ask
    conversation = Conversation("", kind, "Nr0x0", Random(0))
    for line in _one_of_each(conversation):
        assert ask("talk", line.read_texts, owner=owner) == line.answer
        conversation.acknowledge(line)
    conversation.id = str(Session.objects.get().pk)

    def found(plant=lambda: None, of=owner):
        """What the check says while something is planted."""
        with transaction.atomic():
            plant()
            said = "\n".join(faults({of.pk: [conversation]}))
            transaction.set_rollback(True)
        return said

    messages = SessionMessage.objects.order_by("message_id")
    assert found() == ""
    assert "positions [0, 2" in found(lambda: messages[1].delete())
    assert "messages in place of" in found(lambda: messages.reverse()[0].delete())
    assert "messages in place of" in found(lambda: _double(messages.reverse()[0]))
    told = messages.filter(message_id=1)
    assert "Nr1x0" in found(lambda: told.update(text="Nice to meet you, Nr1x0."))
    assert "counted 0 of" in found(lambda: Session.objects.update(message_count=0))
    assert "its session is of" in found(of=other)
    begun = "2 sessions are there, 1 were begun"
    assert found(lambda: Session.objects.create(session_id="more", owner=owner)) == begun
    assert "its session is gone" in found(lambda: Session.objects.all().delete())


def _double(message):
    message.pk, message.message_id = new_id(), message.message_id + 1
    message.save(force_insert=True)


def _one_of_each(conversation):
    """What a person may say: first a name, then what tools, thoughts and pictures come of."""
    yield conversation.next()
    told = set()
    for line in (conversation.next() for _ in range(1000)):
        if (line.write_tool_call, line.thought) not in told:
            told.add((line.write_tool_call, line.thought))
            yield line
    assert {("weather", False), (MAP, False), ("", True)} <= told


@pytest.mark.parametrize(
    "heard",
    [
        Heard(text="You told me that your name is Nr1x0.", finished=True),
        Heard(text="You told me that your name is Nr0x0.", finished=False),
        Heard(text="You told me that your name is Nr0x0.", finished=True, error="abort"),
        Heard(text="You told me that your name is Nr0x0.", finished=True, thought=True),
        Heard(
            text="You told me that your name is Nr0x0.",
            finished=True,
            calls=[("weather", {"city": "Oslo"})],
        ),
    ],
)
def test_an_answer_that_is_not_the_right_one_is_an_error(heard):
    line = Line("What is my name?", "You told me that your name is Nr0x0.")

    compare(line, Heard(text=line.answer, finished=True))
    with pytest.raises(WrongError):
        compare(line, heard)
