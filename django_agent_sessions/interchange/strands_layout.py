"""The layout of Strands' file and S3 session managers, over any Django storage, without the SDK.

Both managers use the same layout, so that files can be copied to a bucket and back::

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

Unexpected files are skipped and reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from django.core.files.storage import Storage, storages

from django_agent_sessions.blobs import file_storage
from django_agent_sessions.exceptions import PayloadError

from .strands_documents import (
    Document,
    DocumentFiles,
    Report,
    log_report,
    mark_bytes,
    unmark_bytes,
    validate_path_id,
)

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


def message_number(name: str) -> int | None:
    """Return the number of a message from the name of its file, or None."""
    found = _MESSAGE.fullmatch(name)
    return None if found is None else int(found[1])


class Layout:
    """Sessions below a prefix of a storage.

    There are no locks: the last write of a file wins, except in ``create_`` methods.
    """

    def __init__(
        self,
        storage: Storage | str,
        prefix: str = "",
        *,
        report: Report = log_report,
    ) -> None:
        self.storage: Storage = storages[storage] if isinstance(storage, str) else storage
        self.names = Names(prefix)
        self.files = DocumentFiles(self.storage, report)

    # --- Sessions --------------------------------------------------------------------------------

    def session_ids(self) -> list[str]:
        """Return the ids of the sessions in alphabetical order."""
        return self.files.ids(self.names.prefix, "session_", "session_id")

    def read_session(self, session_id: str) -> Document | None:
        """Read ``session.json``; None if it does not exist."""
        return self.files.read(self.names.session_file(session_id))

    def create_session(self, session_id: str, document: Document) -> None:
        """Write ``session.json``; raise :exc:`FileExistsError` if it exists."""
        self.files.create(self.names.session_file(session_id), document)
        for folder in (self.names.agents(session_id), self.names.multi_agents(session_id)):
            # The file manager requires the folders.
            file_storage.make_folder(self.storage, folder)

    def delete_session(self, session_id: str) -> bool:
        """Delete the folder of a session; return whether it existed."""
        return self.files.delete_folder(self.names.session(session_id))

    # --- Agents ----------------------------------------------------------------------------------

    def agent_ids(self, session_id: str) -> list[str]:
        """Return the ids of a session's agents in alphabetical order."""
        return self.files.ids(self.names.agents(session_id), "agent_", "agent_id")

    def read_agent(self, session_id: str, agent_id: str) -> Document | None:
        """Read ``agent.json``; None if it does not exist."""
        name = self.names.agent_file(session_id, agent_id)
        document = self.files.read(name)
        return None if document is None else unmark_bytes(document, name)

    def create_agent(self, session_id: str, agent_id: str, document: Document) -> None:
        """Write ``agent.json``; raise :exc:`FileExistsError` if it exists."""
        self.files.create(self.names.agent_file(session_id, agent_id), mark_bytes(document))
        # The file manager requires the folder.
        file_storage.make_folder(self.storage, self.names.messages(session_id, agent_id))

    def write_agent(self, session_id: str, agent_id: str, document: Document) -> None:
        """Write ``agent.json``, replacing an existing one."""
        self.files.write(self.names.agent_file(session_id, agent_id), mark_bytes(document))

    # --- Messages --------------------------------------------------------------------------------

    def message_numbers(self, session_id: str, agent_id: str) -> list[int]:
        """Return the numbers of an agent's messages, sorted; report other files."""
        folder = self.names.messages(session_id, agent_id)
        folders, files = self.files.list(folder)
        numbers: list[int] = []
        for name in files:
            number = message_number(name)
            if number is None:
                self.files.report(f"{folder}/{name}", "it is not a message")
            else:
                numbers.append(number)
        for name in folders:
            self.files.report(f"{folder}/{name}", "it is a folder, not a message")
        return sorted(numbers)

    def read_message(self, session_id: str, agent_id: str, number: int) -> Document | None:
        """Read a message; None if it does not exist."""
        name = self.names.message_file(session_id, agent_id, number)
        document = self.files.read(name)
        return None if document is None else _as_message(document, name)

    def read_messages(
        self, session_id: str, agent_id: str, numbers: Sequence[int]
    ) -> Iterator[tuple[int, Document | Exception]]:
        """Yield messages or errors, read in parallel."""
        names = [self.names.message_file(session_id, agent_id, number) for number in numbers]
        for number, (name, found) in zip(numbers, self.files.read_many(names), strict=True):
            if isinstance(found, Exception):
                yield number, found
                continue
            try:
                document = _as_message(found, name)
            except PayloadError as error:
                yield number, error
            else:
                yield number, document

    def create_message(
        self, session_id: str, agent_id: str, number: int, document: Document
    ) -> None:
        """Write a new message; raise :exc:`FileExistsError` if it exists."""
        name = self.names.message_file(session_id, agent_id, number)
        self.files.create(name, mark_bytes(document))

    def write_message(
        self, session_id: str, agent_id: str, number: int, document: Document
    ) -> None:
        """Write a message, replacing an existing one."""
        name = self.names.message_file(session_id, agent_id, number)
        self.files.write(name, mark_bytes(document))

    # --- Orchestrators ---------------------------------------------------------------------------

    def multi_agent_ids(self, session_id: str) -> list[str]:
        """Return the ids of a session's orchestrators in alphabetical order."""
        folder = self.names.multi_agents(session_id)
        return self.files.ids(folder, "multi_agent_", "multi_agent_id")

    def read_multi_agent(self, session_id: str, multi_agent_id: str) -> Document | None:
        """Read the state of an orchestrator; None if it does not exist."""
        return self.files.read(self.names.multi_agent_file(session_id, multi_agent_id))

    def create_multi_agent(self, session_id: str, multi_agent_id: str, state: Document) -> None:
        """Write the state of an orchestrator; raise :exc:`FileExistsError` if it exists."""
        self.files.create(self.names.multi_agent_file(session_id, multi_agent_id), state)

    def write_multi_agent(self, session_id: str, multi_agent_id: str, state: Document) -> None:
        """Write the state of an orchestrator, replacing an existing one."""
        self.files.write(self.names.multi_agent_file(session_id, multi_agent_id), state)


def _as_message(document: Document, name: str) -> Document:
    found: Document = unmark_bytes(document, name)
    message = found.get("message")
    if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
        raise PayloadError(f"file {name!r} is not a message")
    if not isinstance(found.get("redact_message"), dict | None):
        raise PayloadError(f"file {name!r} has an invalid redact_message")
    return found
