"""Sessions, agents, messages and orchestrators in their files.

Of agents and messages, bytes are given and taken as bytes; in the files they are marked. Files that
do not belong there are passed over and reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.core.files.storage import Storage, storages

from django_agent_sessions import storing
from django_agent_sessions.exceptions import PayloadError

from .documents import Document, mark_bytes, unmark_bytes
from .files import Files, Report, log_report
from .names import Names, message_number


class Layout:
    """A place in a storage that holds sessions.

    Nothing is locked: of two who write the same file, the last one wins, except where a method says
    otherwise.
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
        self.files = Files(self.storage, report)

    # --- Sessions --------------------------------------------------------------------------------

    def session_ids(self) -> list[str]:
        """Lists the sessions, in alphabetic order."""
        return self.files.ids(self.names.prefix, "session_", "session_id")

    def read_session(self, session_id: str) -> Document | None:
        """Reads what ``session.json`` says."""
        return self.files.read(self.names.session_file(session_id))

    def create_session(self, session_id: str, document: Document) -> None:
        """Writes ``session.json``, which must not be there."""
        self.files.create(self.names.session_file(session_id), document)
        for folder in (self.names.agents(session_id), self.names.multi_agents(session_id)):
            # The file manager expects them.
            storing.make_folder(self.storage, folder)

    def delete_session(self, session_id: str) -> bool:
        """Deletes a session with all files in its folder."""
        return self.files.delete_folder(self.names.session(session_id))

    # --- Agents ----------------------------------------------------------------------------------

    def agent_ids(self, session_id: str) -> list[str]:
        """Lists the agents of a session, in alphabetic order."""
        return self.files.ids(self.names.agents(session_id), "agent_", "agent_id")

    def read_agent(self, session_id: str, agent_id: str) -> Document | None:
        """Reads what ``agent.json`` says."""
        name = self.names.agent_file(session_id, agent_id)
        document = self.files.read(name)
        return None if document is None else unmark_bytes(document, name)

    def create_agent(self, session_id: str, agent_id: str, document: Document) -> None:
        """Writes ``agent.json``, which must not be there."""
        self.files.create(self.names.agent_file(session_id, agent_id), mark_bytes(document))
        # The file manager expects it.
        storing.make_folder(self.storage, self.names.messages(session_id, agent_id))

    def write_agent(self, session_id: str, agent_id: str, document: Document) -> None:
        """Writes ``agent.json``, replacing one that is there."""
        self.files.write(self.names.agent_file(session_id, agent_id), mark_bytes(document))

    # --- Messages --------------------------------------------------------------------------------

    def message_numbers(self, session_id: str, agent_id: str) -> list[int]:
        """Lists the messages of an agent."""
        folder = self.names.messages(session_id, agent_id)
        folders, files = storing.list_folder(self.storage, folder)
        numbers: list[int] = []
        for name in files:
            number = message_number(name)
            if number is None:
                self.files.report(f"{folder}/{name}", "it is no message")
            else:
                numbers.append(number)
        for name in folders:
            self.files.report(f"{folder}/{name}", "it is a folder among messages")
        return sorted(numbers)

    def read_message(self, session_id: str, agent_id: str, number: int) -> Document | None:
        """Reads a message."""
        name = self.names.message_file(session_id, agent_id, number)
        document = self.files.read(name)
        return None if document is None else _as_message(document, name)

    def read_messages(
        self, session_id: str, agent_id: str, numbers: Sequence[int]
    ) -> Iterator[tuple[int, Document | Exception]]:
        """Reads messages in parallel."""
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
        """Writes a message where there is none."""
        name = self.names.message_file(session_id, agent_id, number)
        self.files.create(name, mark_bytes(document))

    def write_message(
        self, session_id: str, agent_id: str, number: int, document: Document
    ) -> None:
        """Writes a message, replacing one that is there."""
        name = self.names.message_file(session_id, agent_id, number)
        self.files.write(name, mark_bytes(document))

    # --- Orchestrators ---------------------------------------------------------------------------

    def multi_agent_ids(self, session_id: str) -> list[str]:
        """Lists the orchestrators of a session, in alphabetic order."""
        folder = self.names.multi_agents(session_id)
        return self.files.ids(folder, "multi_agent_", "multi_agent_id")

    def read_multi_agent(self, session_id: str, multi_agent_id: str) -> Document | None:
        """Reads the state of an orchestrator."""
        return self.files.read(self.names.multi_agent_file(session_id, multi_agent_id))

    def create_multi_agent(self, session_id: str, multi_agent_id: str, state: Document) -> None:
        """Writes the state of an orchestrator, which must not be there."""
        self.files.create(self.names.multi_agent_file(session_id, multi_agent_id), state)

    def write_multi_agent(self, session_id: str, multi_agent_id: str, state: Document) -> None:
        """Writes the state of an orchestrator, replacing one that is there."""
        self.files.write(self.names.multi_agent_file(session_id, multi_agent_id), state)


def _as_message(document: Document, name: str) -> Document:
    found: Document = unmark_bytes(document, name)
    message = found.get("message")
    if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
        raise PayloadError(f"file {name!r} is no message")
    if not isinstance(found.get("redact_message"), dict | None):
        raise PayloadError(f"file {name!r} has no message in place of the redacted one")
    return found
