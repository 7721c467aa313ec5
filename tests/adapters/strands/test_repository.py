"""Strands' ``SessionRepository``: every method, its errors, and Strands' own manager on it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from strands import Agent
from strands.multiagent import GraphBuilder
from strands.multiagent.graph import Graph
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from django_agent_sessions.adapters.strands import DjangoSessionRepository
from django_agent_sessions.exceptions import ConfigurationError, InvalidIdError, PayloadError
from django_agent_sessions.models import Session as SessionRow
from django_agent_sessions.models import SessionMessage as MessageRow
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import HOSTILE_IDS, INVALID_IDS, columns_containing
from django_agent_sessions.values.owners import EVERYBODY
from tests.texts import text_of

from .scripted import ScriptedModel, call
from .tools import add

pytestmark = pytest.mark.django_db

MIDNIGHT = datetime(2024, 2, 29, tzinfo=UTC).isoformat()
LATER = datetime(2024, 2, 29, 1, 2, 3, 456_789, tzinfo=UTC).isoformat()


@pytest.fixture
def repository() -> DjangoSessionRepository:
    return DjangoSessionRepository()


@pytest.fixture
def session(repository: DjangoSessionRepository) -> Session:
    return repository.create_session(Session("s", SessionType.AGENT))


@pytest.fixture
def agent(repository: DjangoSessionRepository, session: Session) -> SessionAgent:
    made = SessionAgent(
        "a", {"mood": "good"}, {"removed_message_count": 0}, {"interrupt_state": {}}
    )
    repository.create_agent("s", made)
    return made


def message(text: str, message_id: int, **content: Any) -> SessionMessage:
    blocks: Any = [{"text": text}, *([content] if content else [])]
    return SessionMessage(
        {"role": "user", "content": blocks}, message_id, created_at=MIDNIGHT, updated_at=LATER
    )


def graph(graph_id: str = "g", answer: str = "done") -> Graph:
    builder = GraphBuilder()
    builder.set_graph_id(graph_id)
    builder.set_max_node_executions(9)
    builder.add_node(
        Agent(model=ScriptedModel([answer]), name="only", callback_handler=None), "only"
    )
    return builder.build()


class TestSessions:
    def test_a_session_comes_back_equal(self, repository):
        session = Session("s", SessionType.AGENT, created_at=MIDNIGHT, updated_at=LATER)

        assert repository.create_session(session) is session

        assert repository.read_session("s") == session

    def test_a_time_without_a_zone_is_utc(self, repository):
        repository.create_session(Session("s", SessionType.AGENT, created_at="2024-02-29T00:00:00"))

        assert repository.read_session("s").created_at == MIDNIGHT

    def test_a_session_that_is_not_there_is_none(self, repository):
        assert repository.read_session("nowhere") is None

    def test_a_second_session_of_a_name_is_refused(self, repository, session):
        with pytest.raises(SessionException, match="'s' already exists"):
            repository.create_session(Session("s", SessionType.AGENT))
        assert SessionRow.objects.count() == 1

    def test_sessions_are_listed_most_recent_first(self, repository):
        for hour, name in enumerate(["old", "middle", "new"]):
            at = datetime(2024, 1, 1, hour, tzinfo=UTC).isoformat()
            repository.create_session(Session(name, SessionType.AGENT, created_at=at))
        DjangoSessionRepository(namespace="other").create_session(Session("x", SessionType.AGENT))

        assert [s.session_id for s in repository.list_sessions()] == ["new", "middle", "old"]
        assert [s.session_id for s in repository.list_sessions(limit=1)] == ["new"]

    def test_a_deleted_session_is_gone_with_all_that_was_in_it(self, repository, agent):
        repository.create_message("s", "a", message("plantedsecret", 0))
        repository.create_multi_agent("s", graph())

        repository.delete_session("s")

        assert repository.read_session("s") is None
        assert repository.read_agent("s", "a") is None
        assert repository.list_messages("s", "a") == []
        assert repository.read_multi_agent("s", "g") is None
        assert columns_containing("plantedsecret") == []
        repository.create_session(Session("s", SessionType.AGENT))
        assert repository.read_agent("s", "a") is None

    def test_deleting_a_session_that_is_not_there_is_refused(self, repository):
        with pytest.raises(SessionException, match="'nowhere'"):
            repository.delete_session("nowhere")

    def test_an_owner_reaches_own_sessions_only(self, repository, session, ada, bob):
        adas, bobs = DjangoSessionRepository(owner=ada), DjangoSessionRepository(owner=bob.pk)
        adas.create_session(Session("adas", SessionType.AGENT))

        assert bobs.read_session("adas") is None
        assert bobs.list_sessions() == []
        with pytest.raises(SessionException):
            bobs.delete_session("adas")
        with pytest.raises(SessionException):
            bobs.create_agent("adas", SessionAgent("a", {}, {}))
        assert [s.session_id for s in adas.list_sessions()] == ["adas"]
        assert [s.session_id for s in repository.list_sessions()] == ["s"]
        everybodys = DjangoSessionRepository(owner=EVERYBODY)
        assert {s.session_id for s in everybodys.list_sessions()} == {"s", "adas"}
        with pytest.raises(ConfigurationError, match="create=True"):
            everybodys.create_session(Session("new", SessionType.AGENT))

    @pytest.mark.parametrize("session_id", INVALID_IDS)
    def test_an_id_that_cannot_be_one_is_refused(self, repository, session_id):
        with pytest.raises(InvalidIdError):
            repository.create_session(Session(session_id, SessionType.AGENT))
        with pytest.raises(InvalidIdError):
            repository.read_session(session_id)

    @pytest.mark.parametrize("name", HOSTILE_IDS)
    def test_any_other_text_is_an_id_of_everything(self, repository, name):
        repository.create_session(Session(name, SessionType.AGENT))
        repository.create_agent(name, SessionAgent(name, {}, {}))
        repository.create_message(name, name, message("here", 0))
        repository.create_multi_agent(name, graph(name))

        assert repository.read_message(name, name, 0) == message("here", 0)
        assert repository.read_multi_agent(name, name)["id"] == name


class TestAgents:
    def test_an_agent_comes_back_equal(self, repository, session):
        agent = SessionAgent(
            "a",
            {"z": 1, "a": [None, 1.5, "\x00\ud800", b"\x00\xff"]},
            {"__name__": "Null", "removed_message_count": 3},
            {"interrupt_state": {"activated": False}, "model_state": {}},
            created_at=MIDNIGHT,
            updated_at=LATER,
        )

        repository.create_agent("s", agent)

        assert repr(repository.read_agent("s", "a")) == repr(agent)

    def test_an_agent_that_is_not_there_is_none(self, repository, session):
        assert repository.read_agent("s", "a") is None
        assert repository.read_agent("nowhere", "a") is None

    def test_a_second_agent_of_a_name_is_refused(self, repository, agent):
        with pytest.raises(SessionException, match="'a' already exists"):
            repository.create_agent("s", SessionAgent("a", {}, {}))
        assert repository.read_agent("s", "a").state == {"mood": "good"}

    def test_an_agent_needs_its_session(self, repository):
        with pytest.raises(SessionException, match="'nowhere'"):
            repository.create_agent("nowhere", SessionAgent("a", {}, {}))

    def test_an_update_replaces_the_state_and_keeps_when_it_was_made(self, repository, session):
        repository.create_agent("s", SessionAgent("a", {"old": 1}, {}, created_at=MIDNIGHT))

        repository.update_agent("s", SessionAgent("a", {"new": 2}, {"x": 3}, {"y": 4}))

        found = repository.read_agent("s", "a")
        assert (found.state, found.conversation_manager_state) == ({"new": 2}, {"x": 3})
        assert found._internal_state == {"y": 4}
        assert found.created_at == MIDNIGHT
        assert found.updated_at > LATER

    @pytest.mark.parametrize("session_id", ["s", "nowhere"])
    def test_updating_an_agent_that_is_not_there_is_refused(self, repository, session, session_id):
        with pytest.raises(SessionException):
            repository.update_agent(session_id, SessionAgent("a", {}, {}))

    def test_a_state_that_is_no_json_is_refused(self, repository, agent):
        with pytest.raises(PayloadError):
            repository.update_agent("s", SessionAgent("a", {"now": {1, 2}}, {}))
        assert repository.read_agent("s", "a").state == {"mood": "good"}


class TestMessages:
    def test_a_message_comes_back_equal(self, repository, agent):
        written = message("hello", 0, document={"source": {"bytes": b"\x00\xff" * 500}})

        repository.create_message("s", "a", written)

        assert repr(repository.read_message("s", "a", 0)) == repr(written)

    @pytest.mark.parametrize(
        "lookalike",
        [
            {"__bytes_encoded__": True, "data": "AA=="},
            {"__bytes_encoded__": True, "data": b"real"},
            {"$bytes": "AA=="},
        ],
    )
    def test_what_only_looks_like_encoded_bytes_stays_what_it_is(
        self, repository, agent, lookalike
    ):
        written = message("hello", 0, toolResult={"content": [{"json": lookalike}]})

        repository.create_message("s", "a", written)

        assert repository.read_message("s", "a", 0) == written

    def test_a_message_that_is_not_there_is_none(self, repository, agent):
        assert repository.read_message("s", "a", 0) is None
        assert repository.read_message("s", "nobody", 0) is None
        assert repository.read_message("nowhere", "a", 0) is None

    def test_a_second_message_at_a_position_is_refused(self, repository, agent):
        repository.create_message("s", "a", message("first", 0))

        with pytest.raises(SessionException, match="position 0"):
            repository.create_message("s", "a", message("second", 0))

        assert [m.message["content"] for m in repository.list_messages("s", "a")] == [
            [{"text": "first"}]
        ]

    def test_a_gap_is_refused(self, repository, agent):
        with pytest.raises(SessionException, match="position 1"):
            repository.create_message("s", "a", message("first", 1))
        assert not MessageRow.objects.exists()

    def test_a_message_needs_its_agent(self, repository, session):
        with pytest.raises(SessionException, match="no agent 'a'"):
            repository.create_message("s", "a", message("first", 0))

    def test_messages_are_listed_in_pages(self, repository, agent):
        for number in range(5):
            repository.create_message("s", "a", message(str(number), number))

        def listed(**page: Any) -> list[int]:
            return [m.message_id for m in repository.list_messages("s", "a", **page)]

        assert listed() == [0, 1, 2, 3, 4]
        assert listed(limit=2) == [0, 1]
        assert listed(offset=3) == [3, 4]
        assert listed(limit=2, offset=1) == [1, 2]
        assert listed(limit=0) == []
        assert listed(offset=9) == []

    def test_an_agent_that_is_not_there_has_no_messages(self, repository, session):
        assert repository.list_messages("s", "nobody") == []
        assert repository.list_messages("nowhere", "nobody") == []

    def test_an_update_replaces_the_message(self, repository, agent):
        repository.create_message("s", "a", message("old", 0))

        repository.update_message("s", "a", message("new", 0))

        found = repository.read_message("s", "a", 0)
        assert found.message == message("new", 0).message
        assert found.redact_message is None
        assert found.created_at == MIDNIGHT
        assert text_of(MessageRow.objects.get()) == "new"

    def test_updating_a_message_that_is_not_there_is_refused(self, repository, agent):
        for redacted in (None, message("x", 0).message):
            missing = message("new", 7)
            missing.redact_message = redacted
            with pytest.raises(SessionException):
                repository.update_message("s", "a", missing)
        with pytest.raises(SessionException):
            repository.update_message("s", "nobody", message("new", 0))

    def test_a_redaction_overwrites_the_original(self, repository, agent):
        written = message("plantedsecret", 0)
        repository.create_message("s", "a", written)
        written.redact_message = message("[gone]", 0).message

        repository.update_message("s", "a", written)

        found = repository.read_message("s", "a", 0)
        assert found.to_message() == found.message == written.redact_message
        assert columns_containing("plantedsecret") == []

    def test_a_type_of_session_that_an_import_brought_is_read(self, repository):
        SessionStore().create("imported", session_type="LATER")

        assert repository.read_session("imported").session_type == "LATER"

    def test_what_is_no_json_is_refused(self, repository, agent):
        named = "^message 0 of agent 'a' of session 's': "
        with pytest.raises(PayloadError, match=named):
            repository.create_message("s", "a", message("bad", 0, json=object()))
        repository.create_message("s", "a", message("good", 0))
        with pytest.raises(PayloadError, match=named):
            repository.update_message("s", "a", message("bad", 0, json=object()))
        assert repository.read_message("s", "a", 0) == message("good", 0)


class TestMultiAgents:
    def test_the_state_of_an_orchestrator_comes_back_equal(self, repository, session):
        made = graph()

        repository.create_multi_agent("s", made)

        assert repository.read_multi_agent("s", "g") == made.serialize_state()

    @pytest.mark.django_db(transaction=True)
    def test_an_update_replaces_the_state(self, repository, session):
        made = graph()
        repository.create_multi_agent("s", made)
        made("Go")

        repository.update_multi_agent("s", made)

        found = repository.read_multi_agent("s", "g")
        assert found["status"] == "completed"
        assert found == made.serialize_state()

    def test_an_orchestrator_that_is_not_there_is_none(self, repository, session):
        assert repository.read_multi_agent("s", "g") is None
        assert repository.read_multi_agent("nowhere", "g") is None

    def test_a_second_orchestrator_of_a_name_is_refused(self, repository, session):
        repository.create_multi_agent("s", graph())
        with pytest.raises(SessionException, match="already exists"):
            repository.create_multi_agent("s", graph())

    def test_what_is_not_there_is_not_updated(self, repository, session):
        with pytest.raises(SessionException, match="'g'"):
            repository.update_multi_agent("s", graph())
        with pytest.raises(SessionException, match="'nowhere'"):
            repository.update_multi_agent("nowhere", graph())
        with pytest.raises(SessionException, match="'nowhere'"):
            repository.create_multi_agent("nowhere", graph())


class TestUnderStrandsOwnManager:
    """``RepositorySessionManager`` works on the repository as on Strands' own ones."""

    def agent(self, *steps: Any) -> Agent:
        manager = RepositorySessionManager("s", DjangoSessionRepository())
        return Agent(
            model=ScriptedModel(steps),
            tools=[add],
            agent_id="a",
            session_manager=manager,
            callback_handler=None,
        )

    def expect_whole_conversation(self) -> None:
        restored = self.agent()
        assert [m["role"] for m in restored.messages] == ["user", "assistant"] * 3
        assert restored.messages[2]["content"][0]["toolResult"]["content"] == [{"text": "5"}]
        assert restored.state.get() == {"sums": 1}

    @pytest.mark.django_db(transaction=True)
    def test_a_conversation_goes_on_in_another_process(self):
        agent = self.agent(call("add", a=2, b=3), "Five.")
        agent("What is 2 + 3?")
        self.agent("Bye.")("Thanks")

        self.expect_whole_conversation()

    @pytest.mark.django_db(transaction=True)
    def test_a_conversation_in_a_running_loop(self):
        async def converse() -> None:
            agent = self.agent(call("add", a=2, b=3), "Five.")
            await agent.invoke_async("What is 2 + 3?")
            await self.agent("Bye.").invoke_async("Thanks")
            self.expect_whole_conversation()

        asyncio.run(converse())

        self.expect_whole_conversation()

    @pytest.mark.django_db(transaction=True)
    def test_a_graph_on_strands_own_manager(self):
        for _ in range(2):
            builder = GraphBuilder()
            builder.set_graph_id("g")
            builder.set_max_node_executions(9)
            builder.set_session_manager(RepositorySessionManager("s", DjangoSessionRepository()))
            builder.add_node(
                Agent(model=ScriptedModel(["done"]), name="only", callback_handler=None), "only"
            )
            assert builder.build()("Go").status.value == "completed"
