"""Names of the files.

::

    <prefix>/
    └ session_<session id>/
      ├ session.json
      ├ agents/
      │ └ agent_<agent id>/
      │   ├ agent.json
      │   └ messages/
      │     └ message_<number>.json
      └ multi_agents/
        └ multi_agent_<multi-agent id>/
          └ multi_agent.json
"""

from __future__ import annotations

import re

from django_agent_sessions.exceptions import InvalidIdError
from django_agent_sessions.values.ids import validate_id

_MESSAGE = re.compile(r"message_(0|[1-9][0-9]*)\.json", re.ASCII)


class Names:
    """The names of the files below a prefix.

    Each method raises ``InvalidIdError``, a ``ValueError``, for an invalid id or one with a path
    separator.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix.strip("/")

    def session(self, session_id: str) -> str:
        """Return the folder of a session."""
        folder = f"session_{validate_path_id(session_id, 'session_id')}"
        return f"{self.prefix}/{folder}" if self.prefix else folder

    def session_file(self, session_id: str) -> str:
        """Return the file of a session."""
        return f"{self.session(session_id)}/session.json"

    def agents(self, session_id: str) -> str:
        """Return the folder of a session's agents."""
        return f"{self.session(session_id)}/agents"

    def agent_file(self, session_id: str, agent_id: str) -> str:
        """Return the file of an agent."""
        return f"{self._agent(session_id, agent_id)}/agent.json"

    def messages(self, session_id: str, agent_id: str) -> str:
        """Return the folder of an agent's messages."""
        return f"{self._agent(session_id, agent_id)}/messages"

    def message_file(self, session_id: str, agent_id: str, number: int) -> str:
        """Return the file of a message; raise ``ValueError`` for an invalid number."""
        # Excludes bool, a subclass of int.
        if type(number) is not int or number < 0:
            raise ValueError(
                f"the number of a message must be an integer of 0 or more, not {number!r}"
            )
        return f"{self.messages(session_id, agent_id)}/message_{number}.json"

    def multi_agents(self, session_id: str) -> str:
        """Return the folder of a session's orchestrators."""
        return f"{self.session(session_id)}/multi_agents"

    def multi_agent_file(self, session_id: str, multi_agent_id: str) -> str:
        """Return the file of an orchestrator."""
        folder = f"multi_agent_{validate_path_id(multi_agent_id, 'multi_agent_id')}"
        return f"{self.multi_agents(session_id)}/{folder}/multi_agent.json"

    def _agent(self, session_id: str, agent_id: str) -> str:
        return f"{self.agents(session_id)}/agent_{validate_path_id(agent_id, 'agent_id')}"


def validate_path_id(value: str, what: str) -> str:
    """Return an id for a path; raise :exc:`InvalidIdError` if it is invalid."""
    validate_id(value, what)
    # A backslash is a separator on Windows, and django-storages converts it to a slash.
    if "/" in value or "\\" in value:
        raise InvalidIdError(f"{what} must not contain path separators in the file layout")
    return value


def message_number(name: str) -> int | None:
    """Return the number of a message from the name of its file, or None."""
    found = _MESSAGE.fullmatch(name)
    return None if found is None else int(found[1])
