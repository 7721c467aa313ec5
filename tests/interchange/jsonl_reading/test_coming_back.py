"""What was exported comes back as it was, to the last column."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from django_agent_sessions.content import exact_json
from django_agent_sessions.governance.redaction import WholeMessage, descendants_of, redact
from django_agent_sessions.interchange import JsonLines, import_sessions
from django_agent_sessions.models import Blob, SessionAgent, SessionMessage, SessionMultiAgent
from django_agent_sessions.values.ids import id_for_time
from django_agent_sessions.values.records import AgentState
from tests.strategies import json_values

from .files import export, forget, lines, rows, write

pytestmark = pytest.mark.django_db


def test_branches_come_back_with_their_names_and_copies(store, file):
    agent = store.agents.open(store.open("s"), dialect="strands")
    said = [{"role": "user", "content": [{"text": text}]} for text in "abcd"]
    store.append_many(agent, said)
    store.branches.rewind(agent, 1, name="the other way")
    store.branches.create(agent, source=1, upto=3)
    before, lengths = rows(), [(b.name, b.length) for b in store.branches.list(agent)]
    assert "source" not in lines(export(file))[0]["agents"][0]["messages"][0]
    forget()

    report = import_sessions(JsonLines(file))

    assert report.skips == 0
    assert rows() == before
    agent = store.agents.find(store.get("s"), agent.agent_id)
    assert [(b.name, b.length) for b in store.branches.list(agent)] == lengths
    assert [store.branches.common_length(agent, 0, number) for number in (1, 2)] == [2, 2]
    named = SessionMessage.objects.get(branch=0, message_id=1)
    redact(named.session_id, WholeMessage(named.pk), reason="r")
    assert SessionMessage.objects.filter(redacted_at__isnull=False).count() == 3


@pytest.mark.parametrize("dialect", ["strands", "openai"])
@pytest.mark.parametrize("states", [True, False])
def test_a_main_branch_gets_its_name_back_after_an_import(store, file, dialect, states):
    agent = store.agents.open(store.open("s"), dialect=dialect)
    store.append_many(agent, [{"role": "user", "content": text} for text in "ab"])
    idea = store.branches.create(agent, name="idea", upto=1)
    former = store.branches.switch(agent, idea.number)
    export(file, states=states)
    forget()

    assert import_sessions(JsonLines(file)).skips == 0

    agent = store.agents.find(store.get("s"), agent.agent_id)
    assert [b.name for b in store.branches.list(agent)] == ["main", former.name]
    assert store.branches.switch(agent, former.number).name == "idea"


def test_what_a_branch_shares_is_counted_again_if_messages_are_missing(store, file):
    agent = store.agents.open(store.open("s"), dialect="strands")
    store.append_many(agent, [{"role": "user", "content": [{"text": text}]} for text in "abc"])
    store.branches.create(agent, name="idea")
    (line,) = lines(export(file))
    del line["agents"][0]["messages"][4]["message"]
    del line["agents"][0]["messages"][5]["message"]
    forget()

    assert import_sessions(write(file, line)).skips == 2

    agent = store.agents.find(store.get("s"), agent.agent_id)
    (_, idea) = store.branches.list(agent)
    assert (idea.kind, idea.parent, idea.start, idea.length) == ("created", 0, 1, 1)


def test_an_imported_fork_is_a_session_of_its_own(store, file):
    session = store.open("s")
    store.append(store.agents.open(session), {"role": "user", "content": "a"})
    store.sessions.fork(session, session_id="fork")
    export(file)
    forget()

    assert import_sessions(JsonLines(file)).skips == 0

    assert descendants_of(store.get("s").id) == []
    assert not SessionMessage.objects.filter(source__isnull=False).exists()


def test_what_was_exported_comes_back_to_the_last_column(rich, file):
    text = export(file)
    before = rows()
    forget()

    report = import_sessions(JsonLines(file))

    assert (report.made, report.messages, report.skips) == (2, 4, 0)
    assert rows() == before
    # And out again, and in again.
    assert [line["agents"] for line in lines(export(file))] == [
        line["agents"] for line in lines(text)
    ]
    forget()
    assert import_sessions(JsonLines(file)).skips == 0
    assert rows() == before


messages = st.fixed_dictionaries(
    {
        "branch": st.integers(0, 2),
        "payload": json_values,
        "redacted": st.none() | json_values,
        "run_id": st.none() | st.uuids(version=4),
        "revision": st.integers(0, 2**30),
        "second": st.integers(0, 10**9),
        "tokens": st.none() | st.integers(0, 2**40 - 1),
    }
)


@given(state=json_values, found=st.lists(messages, max_size=6), gap=st.integers(1, 5))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_conversation_comes_back_exactly(store, file, state, found, gap):
    forget()
    session = store.create("s", created_at=datetime(2020, 1, 1, tzinfo=UTC))
    agent = store.agents.create(session, "a", data=AgentState(state=state))
    for place, message in enumerate(found):
        said = datetime.fromtimestamp(message["second"], UTC)
        redacted = message["redacted"]
        row = SessionMessage(
            id=id_for_time(said, place),
            session_id=agent.session,
            agent_id=agent.id,
            branch=message["branch"],
            message_id=place * gap,
            message=message["payload"] if redacted is None else redacted,
            redacted_at=None if redacted is None else said,
            redaction=None if redacted is None else uuid4(),
            run_id=message["run_id"],
            revision=message["revision"],
            input_tokens=message["tokens"],
            created_at=said,
            updated_at=said + timedelta(seconds=place),
        )
        row.save()
    export(file)
    before = rows()
    forget()

    report = import_sessions(JsonLines(file), batch=2)

    assert report.skips == 0
    # Text and role are read from the payload, which nobody did above.
    assert without_neutral(rows()) == without_neutral(before)


def without_neutral(found: dict[str, list[str]]) -> Any:
    import re

    return {
        name: [re.sub(r"'role': .*?, 'input_tokens'", "", row, flags=re.S) for row in listed]
        for name, listed in found.items()
    }


def test_files_may_be_compressed_or_come_by_the_standard_input(rich, file, monkeypatch):
    text = export(file)
    before = rows()
    packed = file.with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(text.encode()))
    forget()
    assert import_sessions(JsonLines(packed)).skips == 0
    assert rows() == before

    forget()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert import_sessions(JsonLines("-")).skips == 0
    assert rows() == before
    assert (JsonLines(file).count(), JsonLines(packed).count()) == (2, None)


def test_an_export_without_states_comes_in_without(rich, file):
    export(file, states=False)
    forget()

    assert import_sessions(JsonLines(file)).skips == 0

    assert {row.state == {} for row in SessionAgent.objects.all()} == {True}
    assert exact_json.dumps(SessionMultiAgent.objects.get().state) == "{}"


def test_large_binaries_go_with_the_line_and_into_the_storage_that_there_is(
    store, agent, file, settings, tmp_path
):
    image = b"\x89PNG" + bytes(range(256)) * 100
    url = "data:image/png;base64," + base64.b64encode(image).decode()
    settings.STORAGES = {
        **settings.STORAGES,
        "blobs": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path / "blobs")},
        },
    }
    settings.AGENT_SESSIONS = {"BLOB_STORAGE": "blobs"}
    payloads_before = [
        {"role": "user", "content": [{"image": {"source": {"bytes": image}}}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": url}]},
        {"role": "user", "content": [{"image": {"source": {"bytes": b"plantedsecret" * 999}}}]},
    ]
    store.append_many(agent, payloads_before)
    store.messages.redact(agent, 2, {"role": "user", "content": "[gone]"})
    text = export(file)
    [line] = lines(text)
    assert [blob["sha256"] for blob in line["blobs"]] == [hashlib.sha256(image).hexdigest()]
    assert len(text) < 1.5 * len(image)
    before = rows()
    forget()

    assert import_sessions(JsonLines(file)).skips == 0

    assert rows() == before
    agent = store.agents.open(store.open("session-1"))
    assert store.payloads(agent)[:2] == payloads_before[:2]
    [blob] = Blob.objects.all()
    assert blob.references.count() == 2
    # Where there is no storage, they are in the messages.
    forget()
    settings.AGENT_SESSIONS = {}
    assert import_sessions(JsonLines(file)).skips == 0
    agent = store.agents.open(store.open("session-1"))
    assert store.payloads(agent)[:2] == payloads_before[:2]
    assert not Blob.objects.exists()
    # And whoever damages one has taken its messages away.
    forget()
    line["blobs"][0]["data"] = {"$bytes": "AAAA"}
    assert import_sessions(write(file, line)).skips == 2
