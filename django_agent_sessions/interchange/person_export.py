"""Everything about a person as one zip file, written while it is sent.

::

    from django_agent_sessions.interchange.person_export import export_person

    with open("ada.zip", "wb") as file:
        file.writelines(export_person(user, reason="Request 32", actor=request.user))
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.blobs import stream_blob
from django_agent_sessions.content import exact_json
from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    BlobError,
    ConfigurationError,
    DestroyedKeyError,
    ReasonRequiredError,
)
from django_agent_sessions.governance import reasons
from django_agent_sessions.governance.erasure_receipt import hashed
from django_agent_sessions.governance.person_data import PersonData, each_row
from django_agent_sessions.models import (
    AuditEvent,
    Blob,
    Snapshot,
    StoredObject,
    deletion,
)
from django_agent_sessions.models.stored_text import PAYLOAD_TEXT
from django_agent_sessions.serving import encode_in_chunks
from django_agent_sessions.store.contents import object_pieces
from django_agent_sessions.values.owners import EVERYBODY, NOBODY, owner_key

from .json_rows import json_object, plain, read_row
from .jsonl_export import export_sessions
from .markdown import export_markdown
from .row_pages import each_message, each_session
from .zip_stream import Entry, stream_zip

_FORMAT = "django-agent-sessions-person"


_FEEDBACK = ("id", "session_id", "message_id", "source", "value", "created_at", "updated_at")
_SNAPSHOT = ("id", "agent_id", "multi_agent_id", "snapshot_id", "branch", "created_at")
_OBJECT = ("id", "namespace", "scope", "session_id", "key", "size", "created_at", "updated_at")
_COPY = ("id", "agent_id", "branch", "message_id", "source", "role", "created_at")
_WRITTEN = ("id", "session_id", "message_id", "role", "external_id", "created_at")
_EVENT = ("id", "action", "session", "target", "created_at")
_PARTICIPATION = ("id", "session_id", "role", "added_at")
_LINK = ("id", "session_id", "created_at", "expires_at", "revoked_at")
_USAGE = (
    "dimension",
    "period",
    "sessions",
    "messages",
    "errors",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cost",
)
_README = """\
Everything that is stored about a person in agent sessions.

manifest.json                   whose data it is, when it was exported, and how many rows there are
sessions/KEY/transcript.md      a session, to read
sessions/KEY/session.jsonl      the same session, complete, for programs
sessions/KEY/session.blobs/     its images, documents and recordings, by their SHA-256
sessions/KEY/snapshots.jsonl    states of its agents at earlier times
forks/KEY.jsonl                 copies of the person's messages in sessions that others own
written.jsonl                   messages of the person in sessions that others own
objects.jsonl, objects/KEY      data that agents stored
feedback.jsonl                  ratings and comments of the person
participations.jsonl            sessions of others that the person reads or writes
links.jsonl                     share links of the person's sessions
usage.jsonl                     figures by month (owner) and by day (owner_day)
audit.jsonl                     what the person did, and what was done with the person's sessions
problems.txt                    what could not be read; missing if everything was
"""


class PersonExport(Iterator[bytes]):
    """The pieces of a zip file; see :func:`export_person`.

    Attributes:
        problems: Files of sessions that are missing or damaged, which are known at the end. The
            archive has them in ``problems.txt``.
    """

    def __init__(self, person: PersonData) -> None:
        self.problems: list[str] = []
        self._person = person
        self._pieces = stream_zip(self._entries())

    def __next__(self) -> bytes:
        return next(self._pieces)

    def _entries(self) -> Iterator[Entry]:
        for name, pieces in self._every_entry():
            yield name, self._readable(name, pieces)
        if self.problems:
            yield "problems.txt", [("\n".join(self.problems) + "\n").encode()]

    def _readable(self, name: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield what can be read; what a destroyed data key encrypted is a problem."""
        try:
            yield from pieces
        except DestroyedKeyError as error:
            self.problems.append(f"{name} is incomplete: {error}")

    def _every_entry(self) -> Iterator[Entry]:
        yield "README.txt", [_README.encode()]
        yield "manifest.json", [self._manifest()]
        for key in each_session(self._person.sessions):
            yield from self._session(key)
        for fork in self._person.forks():
            yield f"forks/{fork}.jsonl", encode_in_chunks(self._fork(fork))
        yield "written.jsonl", encode_in_chunks(self._written())
        yield "objects.jsonl", encode_in_chunks(self._rows(self._objects(), _OBJECT))
        for (key,) in each_row(self._objects()):
            yield f"objects/{key}", object_pieces(self._person.using, key)
        yield "feedback.jsonl", encode_in_chunks(self._feedback())
        participations = self._rows(self._person.participations, _PARTICIPATION)
        yield "participations.jsonl", encode_in_chunks(participations)
        yield "links.jsonl", encode_in_chunks(self._rows(self._person.links, _LINK))
        yield "usage.jsonl", encode_in_chunks(self._rows(self._person.usage, _USAGE))
        yield "audit.jsonl", encode_in_chunks(self._events())

    def _manifest(self) -> bytes:
        person, user = self._person, self._person.user()
        document = {
            "format": _FORMAT,
            "version": 1,
            "person": {
                "id": str(person.key),
                "username": "" if user is None else user.get_username(),
            },
            "exported_at": timezone.now().isoformat(),
            "counts": {
                "sessions": person.sessions.count(),
                "written": person.written.count(),
                "objects": self._objects().count(),
                "feedback": person.feedback.count(),
            },
        }
        return (json.dumps(document, indent=2) + "\n").encode()

    # --- sessions ----------------------------------------------------------------------------

    def _session(self, key: UUID) -> Iterator[Entry]:
        using, folder = self._person.using, f"sessions/{key}"
        # Again with the owner: it may have another one since the keys were read.
        session = self._person.sessions.defer(*deletion.ENCRYPTED).filter(pk=key).first()
        if session is None:
            return
        blobs: list[Blob] = []
        # What other users wrote is about them.
        own = str(self._person.key)
        lines = export_sessions(
            [session],
            using=using,
            blobs=blobs.append,
            lost=self._report,
            feedback_by=own,
            reviews=False,
        )
        yield f"{folder}/session.jsonl", encode_in_chunks(lines)
        for blob in blobs:
            # Where an import of the line looks for them.
            yield f"{folder}/session.blobs/{key}/{blob.sha256}", self._binary(blob)
        transcript = export_markdown(session, using=using, feedback_by=own)
        yield f"{folder}/transcript.md", encode_in_chunks(transcript)
        snapshots = Snapshot.objects.using(using).filter(session=key)
        if snapshots.exists():
            rows = self._rows(snapshots, _SNAPSHOT, "messages", "document")
            yield f"{folder}/snapshots.jsonl", encode_in_chunks(rows)

    def _binary(self, blob: Blob) -> Iterator[bytes]:
        try:
            with_pieces = stream_blob(blob)
            try:
                yield from with_pieces
            finally:
                with_pieces.close()
        except BlobError as error:
            self._report(error)

    def _report(self, error: AgentSessionsError) -> None:
        self.problems.append(str(error))

    def _fork(self, fork: UUID) -> Iterator[str]:
        yield _line({"copies_of": str(self._person.key), "in_session": str(fork)})
        copies = self._person.copied_messages(fork)
        for row in each_message(copies, "pk", _COPY, content=PAYLOAD_TEXT):
            yield json_object(row, ["content"]) + "\n"

    def _written(self) -> Iterator[str]:
        for row in each_message(self._person.written, "pk", _WRITTEN, content=PAYLOAD_TEXT):
            yield json_object(row, ["content"]) + "\n"

    # --- other rows --------------------------------------------------------------------------

    def _objects(self) -> Any:
        """Return the objects of the person, and those of the person's sessions."""
        own = Q(owner=self._person.key) | Q(session__owner=self._person.key)
        return StoredObject.objects.using(self._person.using).filter(own)

    def _rows(self, rows: Any, columns: Iterable[str], *texts: str) -> Iterator[str]:
        for (key,) in each_row(rows):
            row = read_row(rows.filter(pk=key), columns, texts)
            if row is not None:
                yield json_object(row, texts) + "\n"

    def _feedback(self) -> Iterator[str]:
        yield from self._rows(self._person.feedback, _FEEDBACK, "comment")

    def _events(self) -> Iterator[str]:
        """Yield the person's events, and those of the person's sessions without who did it."""
        person = self._person
        own = str(person.key)
        sessions = person.sessions.order_by().values("pk")
        events = AuditEvent.objects.using(person.using).filter(
            Q(actor_id=own) | Q(session__in=sessions)
        )
        columns = (*_EVENT, "actor_id", "reason", "details")
        for values in each_row(events, *columns):
            row = dict(zip(columns, values[1:], strict=True))
            # Who else acted, and what they wrote, is about them.
            by_person = row.pop("actor_id") == own
            reason, details = row.pop("reason"), row.pop("details")
            if by_person:
                row |= {"reason": reason, "details": details}
            yield _line({**row, "by_the_person": by_person})


@sync_only
def export_person(
    owner: Any, *, reason: str | None = None, actor: Any = None, using: str | None = None
) -> PersonExport:
    """Export all data of an owner as a zip file, with one message or binary in memory at a time.

    Redacted content is exported redacted. Of forks that others own, the copies of the person's
    messages are included, and not what the others wrote. The caller checks who may export.

    Args:
        owner: The user, or the user's primary key, also of a deleted user.
        reason: The reason, for the audit trail.
        actor: The user who exports, or a text that names a program.
        using: The database alias.

    Returns:
        The pieces of the file. One audit event is recorded before the first of them.

    Raises:
        ConfigurationError: The owner is not a user.
        ReasonRequiredError: The reason is blank.
    """
    key = None if owner in (None, "") else owner_key(owner)
    if key is None or key is NOBODY or key is EVERYBODY:
        raise ConfigurationError("export_person() requires a user or a user's primary key")
    reason = reasons.clean_reason(AuditEvent.Action.EXPORTED, reason, what="exporting a person")
    if not reason:
        raise ReasonRequiredError("exporting a person: a reason is required")
    audit.refuse_username(actor, using=bridge.database(using))
    person = PersonData(bridge.database(using), key)
    audit.record_checked(
        AuditEvent.Action.EXPORTED,
        actor=actor,
        reason=reason,
        details={
            "format": "person",
            "person": hashed("person", key),
            "sessions": person.sessions.count(),
        },
        using=person.using,
    )
    return PersonExport(person)


def _line(values: dict[str, Any]) -> str:
    return exact_json.dumps({name: plain(value) for name, value in values.items()}) + "\n"
