"""An id or a number that leads elsewhere is refused, and any other is one for Strands too."""

from __future__ import annotations

import pytest
from strands.types.session import Session, SessionAgent, SessionType

from django_agent_sessions.exceptions import InvalidIdError
from django_agent_sessions.interchange.strands_layout import Layout
from django_agent_sessions.testing import HOSTILE_IDS, INVALID_IDS
from tests.adapters.strands.layouts import graph

from .messages import message

SEPARATED = ("../x", "a/b", "/etc/passwd", "..\\x", "a\\b", "C:\\temp\\x", "x/..")


class TestIds:
    @pytest.mark.parametrize("bad", [*SEPARATED, *INVALID_IDS])
    def test_an_id_that_leads_elsewhere_is_refused_everywhere(self, place, bad):
        repository = place.repository()
        repository.create_session(Session("s", SessionType.AGENT))
        before = place.files()
        orchestrator = graph(None)
        orchestrator.id = bad
        for attempt in (
            lambda: repository.create_session(Session(bad, SessionType.AGENT)),
            lambda: repository.read_session(bad),
            lambda: repository.delete_session(bad),
            lambda: repository.create_agent("s", SessionAgent(bad, {}, {})),
            lambda: repository.create_agent(bad, SessionAgent("a", {}, {})),
            lambda: repository.read_agent("s", bad),
            lambda: repository.update_agent("s", SessionAgent(bad, {}, {})),
            lambda: repository.create_message("s", bad, message("x", 0)),
            lambda: repository.read_message(bad, "a", 0),
            lambda: repository.update_message("s", bad, message("x", 0)),
            lambda: repository.list_messages("s", bad),
            lambda: repository.create_multi_agent("s", orchestrator),
            lambda: repository.read_multi_agent("s", bad),
            lambda: repository.update_multi_agent("s", orchestrator),
        ):
            with pytest.raises(ValueError, match=r"must|has"):
                attempt()

        assert issubclass(InvalidIdError, ValueError)
        assert place.files() == before

    @pytest.mark.parametrize("number", ["../../x", "0", None, 1.0, True, -1])
    def test_a_number_that_is_none_is_refused(self, place, number):
        repository = place.repository()
        for attempt in (
            lambda: repository.create_message("s", "a", message("x", number)),
            lambda: repository.read_message("s", "a", number),
            lambda: repository.update_message("s", "a", message("x", number)),
        ):
            with pytest.raises(ValueError, match="integer"):
                attempt()
        assert place.files() == {}

    @pytest.mark.parametrize(
        "name",
        [name for name in HOSTILE_IDS if not {"/", "\\"} & set(name) and len(name) < 200],
    )
    def test_any_other_text_is_an_id_for_both(self, place, name):
        repository = place.repository()
        repository.create_session(Session(name, SessionType.AGENT))
        repository.create_agent(name, SessionAgent(name, {}, {}))
        repository.create_message(name, name, message("here", 0))

        assert place.strands(name).read_message(name, name, 0) == message("here", 0)
        assert Layout(place.storage, "sessions").session_ids() == [name]
