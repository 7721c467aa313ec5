"""The search of a redaction holds up no other writer, and misses nothing written meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from django.apps import apps
from django.db import OperationalError, connection, connections, models

from django_agent_sessions.exceptions import MatchesChangedError, SessionConflictError
from django_agent_sessions.governance.redaction import Detect, Find, WholeMessage, redact
from django_agent_sessions.governance.session_change import change, version_of
from django_agent_sessions.models import AuditEvent, Session, SessionMessage, Snapshot
from django_agent_sessions.models.content_columns import ContentColumns, ContentKind
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing
from django_agent_sessions.values.records import AgentState

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "plantedsecret"


class Interrupted:
    """A detector that lets something happen in another thread before it answers."""

    name = "interrupted"
    meanwhile: Callable[[], object] | None = None
    error: BaseException | None = None

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        happen, Interrupted.meanwhile = Interrupted.meanwhile, None
        if happen is not None:
            with ThreadPoolExecutor(1) as pool:
                # As long as nobody waits for a lock, this takes milliseconds.
                Interrupted.error = pool.submit(and_close, happen).exception(timeout=60)
        start = text.find(SECRET)
        if start >= 0:
            yield start, start + len(SECRET)


def and_close(work: Callable[[], object]) -> None:
    try:
        work()
    finally:
        connections.close_all()


@pytest.fixture
def during_search(settings) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Registers what happens in another thread, while the redaction searches the first text."""
    settings.AGENT_SESSIONS = {"DETECTORS": [f"{__name__}.Interrupted"]}

    def register(work: Callable[[], object]) -> None:
        Interrupted.meanwhile, Interrupted.error = work, None

    yield register
    assert Interrupted.meanwhile is None, "the detector was not asked"
    assert Interrupted.error is None


def said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_other_sessions_are_written_while_a_redaction_searches(
    store, session, agent, during_search
):
    store.append(agent, said(SECRET))
    other = store.agents.open(store.open("other"))
    during_search(lambda: SessionStore().append(other, said("hello")))

    redact(session.id, Detect(["interrupted"]), reason="r")

    assert store.payloads(other) == [said("hello")]
    assert columns_containing(SECRET) == []


@pytest.mark.parametrize(
    "write",
    [
        lambda store, session, agent: store.append(agent, said(f"more of {SECRET}")),
        lambda store, session, agent: store.messages.update(agent, 0, said(f"again {SECRET}")),
        lambda store, session, agent: store.agents.update(
            agent, AgentState(state={"note": SECRET})
        ),
        lambda store, session, agent: store.agents.open(
            session, "new", data=AgentState(state={"note": SECRET})
        ),
        lambda store, session, agent: store.multi_agents.create(session, "graph", {"x": SECRET}),
        lambda store, session, agent: store.sessions.update(session.id, title=SECRET),
        lambda store, session, agent: store.branches.rewind(agent, 0),
        lambda store, session, agent: store.sessions.fork(session),
        lambda store, session, agent: store.branches.create(agent),
        lambda store, session, agent: store.snapshots.take(agent),
        lambda store, session, agent: redact(session.id, Find("meanwhile"), reason="r"),
    ],
    ids=[
        "append", "update", "state", "agent", "orchestrator", "title", "rewind", "fork", "branch",
        "snapshot", "redaction",
    ],
)  # fmt: skip
def test_what_is_written_during_the_search_is_redacted_too(
    store, session, agent, during_search, write
):
    store.append_many(agent, [said(f"{SECRET} one"), said(f"{SECRET} meanwhile")])
    during_search(lambda: write(SessionStore(), session, agent))

    redact(session.id, Detect(["interrupted"]), reason="r", descendants=True)

    assert columns_containing(SECRET) == []


def test_a_copy_that_is_made_during_the_search_is_redacted_with_its_message(
    store, session, agent, during_search
):
    first, _ = store.append_many(agent, [said(SECRET), said(SECRET)])
    during_search(lambda: SessionStore().branches.create(agent))

    redact(session.id, WholeMessage(first.id), Detect(["interrupted"], first.id), reason="r")

    copies = SessionMessage.objects.filter(message_id=0)
    assert len(copies) == 2
    assert {copy.message["content"] for copy in copies} == {"[REDACTED]"}
    others = SessionMessage.objects.filter(message_id=1)
    assert {other.message["content"] for other in others} == {SECRET}


def test_a_message_that_is_removed_during_the_search_is_no_match(
    store, session, agent, during_search
):
    store.append_many(agent, [said(SECRET), said(SECRET)])
    during_search(lambda: SessionStore().pop(agent))

    done = redact(session.id, Detect(["interrupted"]), reason="r")

    assert (done.messages, len(done.hits)) == (1, 1)
    assert columns_containing(SECRET) == []


def test_other_matches_than_in_the_preview_are_not_redacted(store, session, agent):
    store.append(agent, said(SECRET))
    seen = redact(session.id, Find(SECRET), reason="", dry_run=True)
    store.append(agent, said(SECRET))

    with pytest.raises(MatchesChangedError) as caught:
        redact(session.id, Find(SECRET), reason="r", expected=seen.digest)

    assert len(caught.value.result.hits) == 2
    assert AuditEvent.objects.count() == 0
    again = redact(session.id, Find(SECRET), reason="", dry_run=True)
    assert redact(session.id, Find(SECRET), reason="r", expected=again.digest).messages == 2


def test_a_change_of_a_session_that_the_caller_has_not_seen_is_refused(store, session, agent):
    store.append(agent, said(SECRET))
    seen = version_of(Session.objects.get())
    redact(session.id, Find(SECRET), reason="r")

    with pytest.raises(SessionConflictError):
        change(session.id, lambda current: None, what="changing", expected=seen)
    present = version_of(Session.objects.get())
    assert change(session.id, lambda current: 1, what="changing", expected=present).result == 1


@pytest.fixture
def ticket_model() -> Iterator[type[models.Model]]:
    """A model of a project, with content of a session."""

    class Ticket(models.Model):  # noqa: DJ008 - nobody looks at it
        session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="+")
        note = models.TextField()
        number = models.CharField(max_length=20)

        content_columns = ContentColumns(
            "ticket",
            {"note": ContentKind.DATA, "number": ContentKind.ID},
            name="number",
        )

        class Meta:
            app_label = "agent_sessions"

    with connection.schema_editor() as editor:
        editor.create_model(Ticket)
    yield Ticket
    with connection.schema_editor() as editor:
        editor.delete_model(Ticket)
    del apps.all_models["agent_sessions"]["ticket"]
    apps.clear_cache()


def test_the_content_of_a_projects_own_model_is_redacted_with_the_session(
    store, session, agent, ticket_model
):
    mine = ticket_model.objects.create(
        session_id=session.id, note=f"She said {SECRET}.", number=SECRET
    )
    other = ticket_model.objects.create(session_id=store.open("other").id, note=SECRET, number="2")

    done = redact(session.id, Find(SECRET), reason="r")

    mine.refresh_from_db()
    other.refresh_from_db()
    assert (mine.note, other.note) == ("She said [REDACTED].", SECRET)
    assert [str(hit.place) for hit in done.hits] == [f"ticket {SECRET}, note"]
    assert [place.column for place in done.kept] == ["number"]


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the error is SQLite's")
def test_what_another_redaction_removes_between_two_attempts_stays_away(
    store, session, agent, monkeypatch
):
    document = {"data": {"state": {"note": f"{SECRET} and othersecret"}}}
    Snapshot.objects.create(
        session_id=session.id, agent_id=agent.id, snapshot_id="x", length=0, document=document
    )
    own, wait = vars(connections["default"]), time.sleep

    def fail() -> None:
        del own["_commit"]
        raise OperationalError("database is locked")

    def redact_meanwhile(seconds: float) -> None:
        monkeypatch.setattr(time, "sleep", wait)
        with ThreadPoolExecutor(1) as pool:
            work = partial(redact, session.id, Find("othersecret"), reason="r")
            pool.submit(and_close, work).result(timeout=60)

    own["_commit"] = fail
    monkeypatch.setattr(time, "sleep", redact_meanwhile)
    redact(session.id, Find(SECRET), reason="r")

    assert columns_containing("othersecret") == columns_containing(SECRET) == []
    assert Session.objects.get(pk=session.id).redaction_epoch == 2
