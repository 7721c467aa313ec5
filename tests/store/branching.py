"""Branches as lists, and the same deeds done to them and to a store."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord, SessionRecord


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": text}]}


def said(store: SessionStore, agent: AgentRecord, number: int = 0) -> list[str]:
    return [m["content"][0]["text"] for m in store.payloads(agent.on_branch(number))]


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["append", "pop", "rewind", "branch", "switch", "delete", "fork"]),
        st.integers(0, 5),
        st.integers(0, 5),
    ),
    max_size=12,
)


class Model:
    """Sessions whose branches are lists; a deed is done to the newest session that it can be."""

    def __init__(self, store: SessionStore, dialect: str) -> None:
        self.store, self.dialect = store, dialect
        self.sessions: list[tuple[AgentRecord, dict[int, list[str]]]] = []
        self.begin(store.open("model"), [])

    def begin(self, session: SessionRecord, texts: list[str]) -> None:
        agent = self.store.agents.open(session, dialect=self.dialect)
        self.sessions.append((agent, {0: texts}))

    def do(self, text: str, kind: str, which: int, where: int) -> None:
        agent, branches = self.sessions[which % len(self.sessions)]
        number = sorted(branches)[where % len(branches)]
        texts = branches[number]
        if kind == "append":
            self.store.append(agent.on_branch(number), user(text))
            texts.append(text)
        elif kind == "pop":
            self.store.pop(agent.on_branch(number))
            del texts[-1:]
        elif kind == "rewind":
            self.rewind(agent, branches, where % (len(branches[0]) + 1) - 1)
        elif kind == "branch":
            # Every other one has a name of its own.
            name = f"named {text}" if which % 2 else None
            made = self.store.branches.create(agent, name=name, source=number, upto=which)
            branches[made.number] = texts[:which]
        elif kind == "fork":
            self.fork(agent, number, texts, which)
        elif number and kind == "switch":
            left = self.store.branches.switch(agent, number)
            branches[left.number], branches[0] = branches[0], branches.pop(number)
        elif number:
            self.store.branches.delete(agent, number)
            del branches[number]

    def rewind(self, agent: AgentRecord, branches: dict[int, list[str]], to: int) -> None:
        side = self.store.branches.rewind(agent, to)
        if side is not None:
            branches[side.number] = list(branches[0])
            del branches[0][to + 1 :]

    def fork(self, agent: AgentRecord, number: int, texts: list[str], which: int) -> None:
        if texts:
            rows = SessionMessage.objects.filter(agent=agent.id, branch=number)
            at = rows.get(message_id=which % len(texts))
            row = Session.objects.get(pk=agent.session)
            fork = self.store.sessions.fork(self.store.get(row.session_id), at=at.pk)
            self.begin(fork, texts[: at.message_id + 1])

    def check(self) -> None:
        for agent, branches in self.sessions:
            lengths = {branch.number: branch.length for branch in self.store.branches.list(agent)}
            assert lengths == {number: len(texts) for number, texts in branches.items()}
            for number, texts in branches.items():
                assert said(self.store, agent, number) == texts
