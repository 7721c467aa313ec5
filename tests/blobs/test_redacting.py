"""A redaction leaves no file in the storage that no row names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_agent_sessions.db.db_errors import RetryError
from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.governance import session_change
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.governance.redaction.redaction_plan import RedactionPlan
from django_agent_sessions.models import Blob, Session
from django_agent_sessions.store import SessionStore

from .deeds import SECRET, Scene, message, picture, scene

pytestmark = pytest.mark.django_db(transaction=True)


def check_files(stored: Callable[[], list[Any]]) -> None:
    assert sorted(path.name for path in stored()) == sorted(
        name.rpartition("/")[2] for name in Blob.objects.values_list("file", flat=True)
    )


def before_the_lock(monkeypatch: pytest.MonkeyPatch, happen: Callable[[], Any]) -> None:
    """Lets something happen once, after the search of a redaction and its uploads."""
    compare = RedactionPlan.is_outdated

    def compare_after(self: RedactionPlan, session: Session) -> bool:
        monkeypatch.setattr(RedactionPlan, "is_outdated", compare)
        happen()
        return compare(self, session)

    monkeypatch.setattr(RedactionPlan, "is_outdated", compare_after)


def forked(s: Scene) -> Any:
    store = SessionStore()
    return store.sessions.fork(store.get(s.name))


def test_binaries_of_rows_that_change_before_the_lock_are_not_left(stored, monkeypatch):
    s = scene()
    other = message("1", picture("other", SECRET))
    before_the_lock(monkeypatch, lambda: SessionStore().messages.update(s.agent, 1, other))
    monkeypatch.setattr(session_change, "_SEARCHES_WITHOUT_LOCK", 1)

    redact(s.key, Find(SECRET), reason="A request")

    check_files(stored)


def test_binaries_of_a_fork_that_goes_before_the_lock_are_not_left(stored, monkeypatch):
    s = scene()
    fork = forked(s)
    before_the_lock(monkeypatch, lambda: SessionStore().delete(fork.session_id))

    redact(s.key, Find(SECRET), reason="A request", descendants=True)

    check_files(stored)


def test_binaries_of_a_redaction_that_gives_up_are_not_left(stored, settings, monkeypatch):
    s = scene()
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "WRITE_RETRIES": 2}

    def conflict(*args: Any, **kwargs: Any) -> None:
        raise RetryError

    monkeypatch.setattr("django_agent_sessions.store._redaction.replace_messages", conflict)
    with pytest.raises(SessionConflictError):
        redact(s.key, Find(SECRET), reason="A request")

    check_files(stored)
