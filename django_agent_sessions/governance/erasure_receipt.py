"""The receipt of an erasure: what was erased, signed, without content and without ids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.signing import BadSignature, Signer
from django.db.models import QuerySet
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.exceptions import ErasureReceiptError
from django_agent_sessions.models import (
    AuditEvent,
    FileToDelete,
    MessageFeedback,
    Note,
    Operation,
    Participant,
    RedactedOriginal,
    Review,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    ShareLink,
    Snapshot,
    StoredObject,
    UsageRollup,
)
from django_agent_sessions.store.contents import walk

from .erased_keys import existing_keys

_SALT = "agent_sessions.erasure"
_BATCH = 2000
_HASH_LENGTH = 32


def hashed(kind: str, value: object, *, secret: Any = None) -> str:
    """Return a keyed hash of an id, which reveals nothing without the secret key."""
    text = f"{kind}:{value}"
    digest = salted_hmac(_SALT, text, secret=secret, algorithm="sha256").hexdigest()
    return str(digest[:_HASH_LENGTH])


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """What an erasure did, or what a dry run would do. Ids are keyed hashes.

    Attributes:
        person: Hash of the owner's primary key.
        at: When it ended, in ISO 8601.
        by: Name of the user or program that erased; a hash if it was the person.
        event: Primary key of the audit event; empty for a dry run.
        forks: ``"redact"`` or ``"delete"``.
        counts: Numbers of rows by what they are: ``sessions``, ``messages``, ``written_messages``
            (in sessions of others), ``feedback``, ``notes`` (which the person wrote, and which stay
            without the name), ``objects``, ``participations``, ``usage``, ``audit_events``,
            ``fork_sessions``, ``fork_messages``, ``files``, ``keys``.
        sessions: Hashes of the primary keys of the erased sessions, also of the runs before that
            were interrupted.
        fork_sessions: Hashes of the forks of other owners.
        fork_messages: Hashes of the messages that were redacted in them.
        fork_content: Hashes of the titles, metadata and states that were emptied in them.
        written_sessions: Hashes of the sessions of others in which the person wrote messages.
        written_messages: Hashes of these messages, which were redacted.
        held: Hashes of the sessions under legal hold. Only a dry run can have some, because an
            erasure is refused then.
        files_left: Number of files that could not be deleted from their storage;
            ``manage.py agent_sessions_gc`` or another erasure deletes them.
        keys: Ids of the person's data keys that were destroyed, also by runs before.
        keys_kept: Ids of those that were kept, because a row that they encrypted could not be
            encrypted by another key, or is in another database.
        dry_run: Whether nothing was changed.
        held_sessions: Primary keys of the sessions under legal hold; not in the file.
    """

    person: str
    at: str
    by: str
    event: str
    forks: str
    counts: Mapping[str, int]
    sessions: Sequence[str]
    fork_sessions: Sequence[str]
    fork_messages: Sequence[str]
    fork_content: Sequence[str]
    written_sessions: Sequence[str]
    written_messages: Sequence[str]
    held: Sequence[str]
    files_left: int
    keys: Sequence[str]
    keys_kept: Sequence[str]
    dry_run: bool
    held_sessions: Sequence[UUID] = field(default=(), repr=False)

    @property
    def figures(self) -> list[tuple[str, int]]:
        """The numbers of rows with their names in words."""
        labels = {
            "sessions": pgettext("agent", "Sessions"),
            "messages": _("Messages"),
            "written_messages": _("Messages in sessions of others"),
            "feedback": _("Ratings and comments"),
            "notes": _("Notes that lose the name"),
            "objects": _("Stored objects"),
            "files": _("Files"),
            "participations": _("Roles in sessions of others"),
            "usage": _("Rows of usage"),
            "audit_events": _("Audit events that lose the name"),
            "fork_sessions": _("Forks of other users"),
            "fork_messages": _("Copied messages in forks"),
            "keys": _("Data keys"),
        }
        return [(labels.get(name, name), count) for name, count in self.counts.items()]

    def to_json(self) -> str:
        """Return the receipt as JSON, signed unless it is of a dry run."""
        content = _content(self)
        signature = "" if self.dry_run else Signer(salt=_SALT).signature(_canonical(content))
        return json.dumps({"receipt": content, "signature": signature}, indent=2) + "\n"


@sync_only
def verify(text: str, *, using: str | None = None) -> list[str]:
    """Check a receipt's signature, and that nothing of what it lists is in the database again.

    It reads the keys of all sessions.

    Returns the problems, in sentences without ids; an empty list if there is none. Raises
    ``ErasureReceiptError`` if the text is not a receipt or its signature is wrong.
    """
    receipt, secret = _signed_content(text)
    return list(_problems(receipt, secret, bridge.database(using)))


def _content(receipt: ErasureReceipt) -> dict[str, Any]:
    content = asdict(receipt)
    del content["held_sessions"]
    return content


def _canonical(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def _signed_content(text: str) -> tuple[dict[str, Any], Any]:
    """Return a receipt's content, and the secret key that it was signed with."""
    try:
        document = json.loads(text, object_pairs_hook=_unique_members)
        content, signature = document.pop("receipt"), document.pop("signature")
        if document:
            # A reader would take what stands beside the signed part for a part of it.
            raise ValueError
        signed = f"{_canonical(content)}:{signature}"
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ErasureReceiptError("the file is not a receipt of an erasure") from None
    for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        try:
            Signer(key=secret, fallback_keys=[], salt=_SALT).unsign(signed)
        except BadSignature:
            continue
        return content, secret
    raise ErasureReceiptError(
        "the receipt's signature is wrong: the file was changed, is of a dry run, or was signed "
        "with a SECRET_KEY that is no longer among SECRET_KEY_FALLBACKS"
    )


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        # Of two members with one name, the signature covers the last and a person reads the first.
        raise ValueError
    return members


def _problems(receipt: Mapping[str, Any], secret: Any, using: str) -> Iterator[str]:
    person = receipt["person"]
    for what, values in _person_columns(using):
        if any(hashed("person", value, secret=secret) == person for value in values):
            yield f"{what} of the person are in the database"
    if existing_keys(receipt.get("keys", ()), using):
        yield "a destroyed data key is in the database"
    erased, forks = set(receipt["sessions"]), set(receipt["fork_sessions"])
    present = _present(Session.objects.using(using), "session", erased | forks, secret)
    files = FileToDelete.objects.using(using).order_by().values_list("session", flat=True)
    if erased & {hashed("session", key, secret=secret) for key in files.distinct()}:
        yield "a file of an erased session is in its storage"
    originals = RedactedOriginal.objects.using(using).order_by().values_list("session", flat=True)
    found = {hashed("session", key, secret=secret): key for key in originals.distinct()}
    if erased & (present.keys() | found.keys()):
        yield "an erased session is in the database"
    yield from _written_problems(receipt, secret, using)
    forks_found = [key for digest, key in present.items() if digest in forks]
    if receipt["forks"] == "delete":
        if forks_found:
            yield "a deleted fork is in the database"
        return
    content = set(receipt["fork_content"])
    for fork in forks_found:
        messages = SessionMessage.objects.using(using).filter(session=fork, redacted_at=None)
        if _present(messages, "message", set(receipt["fork_messages"]), secret):
            yield "a redacted message of a fork is in the database again"
        if content and content & content_hashes(fork, using, secret=secret):
            yield "a title, metadata or a state of a fork is in the database again"


def _written_problems(receipt: Mapping[str, Any], secret: Any, using: str) -> Iterator[str]:
    wanted = set(receipt["written_messages"])
    sessions = Session.objects.using(using) if wanted else Session.objects.none()
    for key in _present(sessions, "session", set(receipt["written_sessions"]), secret).values():
        messages = SessionMessage.objects.using(using).filter(session=key, redacted_at=None)
        if _present(messages, "message", wanted, secret):
            yield "a redacted message of the person in another user's session is there again"


def content_hashes(session: UUID, using: str, *, secret: Any = None) -> set[str]:
    """Return hashes of the title, metadata, states, snapshots and objects of a session."""
    row = Session.objects.using(using).filter(pk=session).first()
    models = (Session, SessionAgent, SessionMultiAgent, Snapshot, StoredObject)
    return {
        hashed("content", f"{copy.key}:{name}:{value!r}", secret=secret)
        for copy in (() if row is None else walk(using, row, *models))
        for name, value in copy.values.items()
        if value
    }


def _person_columns(using: str) -> Iterator[tuple[str, Iterable[Any]]]:
    """Yield the columns that have an owner's key, with their values."""
    owned = UsageRollup.objects.using(using).filter(dimension__in=UsageRollup.Dimension.of_owners())
    columns: list[tuple[str, QuerySet[Any], str]] = [
        ("sessions", Session.objects.using(using), "owner_id"),
        ("stored objects", StoredObject.objects.using(using), "owner_id"),
        ("names of files to delete", FileToDelete.objects.using(using), "owner"),
        ("usage figures", owned, "key"),
        ("ratings", MessageFeedback.objects.using(using), "user"),
        ("notes", Note.objects.using(using), "author_id"),
        ("reviews", Review.objects.using(using), "assignee_id"),
        ("reviews", Review.objects.using(using), "updated_by_id"),
        ("roles", Participant.objects.using(using), "user_id"),
        ("roles", Participant.objects.using(using), "added_by"),
        ("share links", ShareLink.objects.using(using), "created_by"),
        ("messages", SessionMessage.objects.using(using).authored(), "author"),
        ("operations", Operation.objects.using(using), "started_by"),
        ("audit events", AuditEvent.objects.using(using), "actor_id"),
    ]
    for what, rows, column in columns:
        values = rows.exclude(**{column: None}).order_by().values_list(column, flat=True)
        yield what, values.distinct()
    criteria = Operation.objects.using(using).order_by().values_list("criteria", flat=True)
    owners = (each.get("filters", {}).get("owner", ()) for each in criteria)
    yield "operations on the sessions", {key for keys in owners for key in keys}


def _present(rows: QuerySet[Any], kind: str, wanted: set[str], secret: Any) -> dict[str, UUID]:
    """Return the rows whose hashed primary keys are wanted."""
    found: dict[str, UUID] = {}
    ordered = rows.order_by("pk").values_list("pk", flat=True)
    keys = list(ordered[:_BATCH]) if wanted else []
    while keys:
        digests = {hashed(kind, key, secret=secret): key for key in keys}
        found.update({digest: digests[digest] for digest in digests.keys() & wanted})
        keys = list(ordered.filter(pk__gt=keys[-1])[:_BATCH])
    return found
