"""What the store does with messages that hold large binaries, and how it is afterwards.

Each deed begins with a session of its own, in which three messages hold three images, and another
session that holds one of these too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django_agent_sessions.blobs.garbage_collection import collect
from django_agent_sessions.content.blob_refs import references
from django_agent_sessions.governance.redaction import Find, WholeMessage, redact
from django_agent_sessions.models import Blob, BlobReference, Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import AgentRecord, NewMessage
from tests.sealed import update_content

from .messages import PNG, image, user

SECRET = "planted-secret-in-a-binary"
NONE = timedelta()


def picture(name: str, secret: str = "") -> bytes:
    """An image of some kilobytes, the same for the same name."""
    noise = b"".join(hashlib.sha256(f"{name}{i}".encode()).digest() for i in range(400))
    return PNG + noise + secret.encode()


def message(text: str, *pictures: bytes) -> dict[str, Any]:
    return user(*map(image, pictures), text=text)


A, B, C, D, E = (picture(name) for name in "ABCDE")
BEFORE = [message("0", A), message("1", B, picture("S", SECRET)), message("2", A, C)]


@dataclass(frozen=True)
class Scene:
    """A session to do something in.

    Attributes:
        name: The session's id.
        key: Its primary key.
        agent: Its agent.
        last: The message that was written last, for a retry.
    """

    name: str
    key: UUID
    agent: AgentRecord
    last: NewMessage


def scene() -> Scene:
    store = SessionStore()
    session = store.open(f"deed-{new_id().hex}")
    agent = store.agents.open(session, "main", dialect="strands")
    last = NewMessage(BEFORE[2])
    store.append_many(agent, [*BEFORE[:2], last])
    if store.find("bystander") is None:
        other = store.agents.open(store.open("bystander"), "main", dialect="strands")
        store.append(other, message("mine", A))
    return Scene(session.session_id, session.id, agent, last)


def again(name: str) -> Scene:
    """Finds a scene that another process made."""
    store = SessionStore()
    session = store.get(name)
    agent = store.agents.open(session, "main", dialect="strands")
    last = SessionMessage.objects.get(agent=agent.id, message_id=2)
    return Scene(name, session.id, agent, NewMessage(BEFORE[2], id=last.pk))


def _append(s: Scene) -> Any:
    return SessionStore().append(s.agent, message("3", D, A)).content


def _append_many(s: Scene) -> Any:
    new = [message("3", D), message("4", A, E), message("5"), message("6", E, D)]
    return [record.content for record in SessionStore().append_many(s.agent, new)]


def _retry(s: Scene) -> Any:
    retried = NewMessage(message("2 again", D), id=s.last.id)
    return SessionStore().append(s.agent, retried, again=True).content


def _update(s: Scene) -> Any:
    return SessionStore().messages.update(s.agent, 1, message("new", A, D, E))


def _update_with_epoch(s: Scene) -> Any:
    return SessionStore().messages.update(s.agent, 1, message("new", D), epoch=0)


def _guardrail(s: Scene) -> Any:
    SessionStore().messages.redact(s.agent, 0, message("[REDACTED]", D))


def _redact_whole(s: Scene) -> Any:
    found = SessionMessage.objects.get(agent=s.agent.id, message_id=1)
    redact(s.key, WholeMessage(found.pk), reason="A request")


def _redact_find(s: Scene) -> Any:
    redact(s.key, Find(SECRET), reason="A request")


def _pop(s: Scene) -> Any:
    return SessionStore().pop(s.agent)


def _clear(s: Scene) -> Any:
    return SessionStore().clear(s.agent)


def _delete(s: Scene) -> Any:
    return SessionStore().delete(s.name)


def _delete_rows(s: Scene) -> Any:
    Session.objects.filter(pk=s.key).delete()


def _restore(s: Scene) -> Any:
    return [payload for _, payload, _ in SessionStore().messages.restore(s.agent)]


def _collect(s: Scene) -> Any:
    collect(older_than=NONE, unknown_sessions=True)


def litter(s: Scene) -> None:
    """What a crash leaves: a file without a row, and a row that no message uses."""
    from django_agent_sessions.blobs import blob_files

    for name in ("lost", "lost too"):
        blob_files.save("blobs", blob_files.new_name(s.key), picture(name))
    BlobReference.objects.filter(session=s.key, message=s.last.id).delete()
    update_content(SessionMessage.objects.filter(pk=s.last.id), {"message": message("gone")})


DEEDS: dict[str, Callable[[Scene], Any]] = {
    "append": _append,
    "append many": _append_many,
    "retry": _retry,
    "update": _update,
    "update with epoch": _update_with_epoch,
    "guardrail": _guardrail,
    "redact a message": _redact_whole,
    "redact a text": _redact_find,
    "pop": _pop,
    "clear": _clear,
    "delete": _delete,
    "delete rows": _delete_rows,
    "restore": _restore,
    "collect": _collect,
}


def state(s: Scene) -> list[Any] | None:
    """The conversation, whole, with all its binaries; None if the session is not there."""
    store = SessionStore()
    return None if store.find(s.name) is None else store.payloads(s.agent)


def bystander() -> list[Any]:
    """The conversation of the other session."""
    store = SessionStore()
    agent = store.agents.open(store.get("bystander"), "main", dialect="strands")
    return store.payloads(agent)


def expect_clean(folder: Path) -> None:
    """Asserts that rows, files and messages belong together, each to each."""
    found = collect(older_than=NONE, dry_run=True, unknown_sessions=True)
    assert (found.files, found.rows, found.missing, found.damaged) == ([], 0, [], [])
    assert (found.too_recent, found.failures) == (0, {})
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == set(Blob.objects.values_list("file", flat=True))
    used = {
        (row.pk, reference.sha256)
        for row in SessionMessage.objects.all()
        for _, reference in references([row.message, row.redact_message])
    }
    assert used == set(BlobReference.objects.values_list("message", "blob__sha256"))
    assert set(Blob.objects.values_list("pk")) == set(BlobReference.objects.values_list("blob"))
