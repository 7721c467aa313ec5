"""A process that is killed while it deletes: ``python -m tests.blobs.deleting FOLDER WAY WHEN``.

The ways of deleting what has a file; each is done to the session ``s`` of the user ``ada``. The
way ``append`` uploads a file to it instead, and is killed before its row is written.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta
from typing import Any

import django

django.setup()

from django.contrib.auth import get_user_model
from django.core.files.storage import FileSystemStorage
from django.test import override_settings

from django_agent_sessions.governance import erasure, retention, session_deletion
from django_agent_sessions.governance.redaction import WholeMessage, redact
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore

from .messages import image, picture, storages, user

FOLDERS = "django.core.files.storage.FileSystemStorage"


def talk(owner: Any) -> None:
    """Stores two messages with a file each."""
    store = SessionStore(owner=owner)
    agent = store.agents.open(store.open("s"), "main", dialect="strands")
    for _ in range(2):
        store.append(agent, user(image(picture())))


def _ada() -> Any:
    return get_user_model().objects.get(username="ada")


def _redact() -> None:
    row = SessionMessage.objects.order_by("pk").first()
    assert row is not None
    redact(row.session_id, WholeMessage(row.pk), reason="asked for")


def _erase_with_forks() -> None:
    erasure.erase(_ada().pk, reason="asked for", forks="delete")


def _pop() -> None:
    store = SessionStore(owner=_ada())
    store.pop(store.agents.open(store.get("s"), "main", dialect="strands"))


def _clear() -> None:
    store = SessionStore(owner=_ada())
    store.clear(store.agents.open(store.get("s"), "main", dialect="strands"))


DELETE = {
    "store": lambda: SessionStore(owner=_ada()).delete("s"),
    "service": lambda: session_deletion.delete(Session.objects.get().pk),
    "queryset": lambda: Session.objects.all().delete(),
    "row": lambda: Session.objects.get().delete(),
    "user": lambda: _ada().delete(),
    "prune": lambda: retention.prune(older_than=timedelta(microseconds=1)),
    "erase": lambda: erasure.erase(_ada().pk, reason="asked for"),
    "erase with forks": _erase_with_forks,
}
"""What deletes the session."""

DROP = {
    "redact": _redact,
    "pop": _pop,
    "clear": _clear,
}
"""What deletes content of the session that has a file."""

WAYS = {**DELETE, **DROP}


def die_after_upload() -> None:
    """Lets the first upload kill the process."""
    save = FileSystemStorage.save

    def dying(self: FileSystemStorage, *args: Any, **options: Any) -> str:
        save(self, *args, **options)
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()
        return ""

    FileSystemStorage.save = dying  # type: ignore[assignment, method-assign] # in this process only


def die(when: str) -> None:
    """Lets the first deletion of a file kill the process, before or after the file is gone."""
    delete = FileSystemStorage.delete

    def dying(self: FileSystemStorage, name: str) -> None:
        if when == "after":
            delete(self, name)
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()

    FileSystemStorage.delete = dying  # type: ignore[method-assign, assignment] # in this process only


if __name__ == "__main__":
    _, folder, way, when = sys.argv
    with override_settings(**storages({"BACKEND": FOLDERS, "OPTIONS": {"location": folder}})):
        if way == "append":
            die_after_upload()
            talk(_ada())
        else:
            die(when)
            WAYS[way]()
