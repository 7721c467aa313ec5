"""Nothing is read, written or deleted through a symbolic link."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from strands.session import FileSessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionType

from tests.adapters.strands.layouts import graph

from .messages import message


class TestLinks:
    @pytest.mark.parametrize(
        "name",
        [
            "session.json",
            "agents/agent_a/agent.json",
            "agents/agent_a/messages/message_0.json",
            "multi_agents/multi_agent_graph/multi_agent.json",
        ],
    )
    def test_a_file_that_is_a_link_is_refused_as_strands_does(self, place, name, tmp_path):
        repository = place.repository()
        repository.create_session(Session("s", SessionType.AGENT))
        repository.create_agent("s", SessionAgent("a", {}, {}))
        repository.create_message("s", "a", message("x", 0))
        repository.create_multi_agent("s", graph(None))
        file = tmp_path / "sessions/session_s" / name
        elsewhere = tmp_path / "elsewhere.json"
        elsewhere.write_bytes(file.read_bytes())
        file.unlink()
        file.symlink_to(elsewhere)
        of_strands = FileSessionManager.__new__(FileSessionManager)
        of_strands.storage_dir = str(tmp_path / "sessions")

        for both in (repository, of_strands):
            calls: dict[str, Any] = {
                "session.json": lambda both=both: both.read_session("s"),
                "agent.json": lambda both=both: both.update_agent("s", SessionAgent("a", {}, {})),
                "message_0.json": lambda both=both: both.list_messages("s", "a"),
                "multi_agent.json": lambda both=both: both.update_multi_agent("s", graph(None)),
            }
            with pytest.raises(SessionException, match="link"):
                calls[Path(name).name]()
        assert elsewhere.read_bytes()

    def test_a_deleted_session_takes_nothing_along_that_a_link_leads_to(self, place, tmp_path):
        repository = place.repository()
        repository.create_session(Session("s", SessionType.AGENT))
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        (theirs / "precious").write_bytes(b"x")
        (tmp_path / "sessions/session_s/agents/agent_x").symlink_to(theirs)
        (tmp_path / "sessions/session_s/more").symlink_to(theirs / "precious")
        (tmp_path / "sessions/session_t").symlink_to(theirs)

        repository.delete_session("s")
        repository.delete_session("t")

        assert (theirs / "precious").read_bytes() == b"x"
        assert not (tmp_path / "sessions/session_s").exists()
        assert not (tmp_path / "sessions/session_t").is_symlink()
