"""External ids, authors and the tokens of a prompt cache come back."""

from __future__ import annotations

import pytest

from django_agent_sessions.interchange import JsonLines, import_sessions
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.values.records import NewMessage, Usage

from .files import changed, export, forget, lines, reasons, rows, write

pytestmark = pytest.mark.django_db

CACHED = Usage(1, 100, 20, cache_read_tokens=70, cache_write_tokens=10)


@pytest.fixture
def keyed(store):
    agent = store.agents.open(store.open("s"))
    for name in ("m1", "m2"):
        message = NewMessage({"role": "user"}, usage=CACHED, external_id=name)
        store.append(agent, message)
    store.append(agent, {"role": "user", "content": "plain"})
    return agent


def test_keys_and_figures_come_back(keyed, store, file):
    export(file)
    before = rows()
    forget()

    assert import_sessions(JsonLines(file)).skips == 0

    assert rows() == before
    found = Session.objects.get()
    assert (found.cache_read_tokens, found.cache_write_tokens) == (140, 20)


def test_copies_on_branches_come_back_with_the_key(keyed, store, file):
    store.branches.rewind(keyed, 0)
    export(file)
    before = rows()
    forget()

    assert import_sessions(JsonLines(file), batch=1).skips == 0
    assert rows() == before
    assert SessionMessage.objects.filter(external_id="m1").count() == 2


def test_a_message_without_them_is_written_as_before(keyed, file):
    plain = lines(export(file))[0]["agents"][0]["messages"][2]

    assert not plain.keys() & {"external_id", "author", "cache_read_tokens", "cache_write_tokens"}


def test_an_author_of_another_database_is_no_user_of_this_one(store, file):
    agent = store.agents.open(store.open("s"))
    store.append(agent, NewMessage({"role": "user"}, author="7"))
    assert lines(export(file))[0]["agents"][0]["messages"][0]["author"] == "7"
    for _ in range(2):
        forget()
        import_sessions(JsonLines(file))
        assert SessionMessage.objects.get().author == "imported:7"
        export(file)


@pytest.mark.parametrize("second", ["m1", "", "a\x00b", "x" * 300])
def test_a_message_whose_key_cannot_be_stored_is_imported_without(keyed, file, second):
    line = changed(lines(export(file))[0], "agents.0.messages.1.external_id", second)
    forget()

    report = import_sessions(write(file, line), batch=1)

    assert report.messages == 3
    names = SessionMessage.objects.order_by("message_id").values_list("external_id", flat=True)
    assert list(names) == ["m1", None, None]
    assert len(reasons(report)) == 1


@pytest.mark.parametrize(("name", "value"), [("external_id", 7), ("author", 7), ("author", "\x00")])
def test_other_types_are_refused(keyed, file, name, value):
    line = changed(lines(export(file))[0], f"agents.0.messages.1.{name}", value)
    forget()

    report = import_sessions(write(file, line))

    assert (report.messages, len(reasons(report))) == (2, 1)


def test_figures_of_older_files_have_no_tokens_of_a_cache(store, file):
    agent = store.agents.open(store.open("s"), dialect="strands")
    usage = {"inputTokens": 5, "outputTokens": 2, "totalTokens": 97, "cacheReadInputTokens": 90}
    message = {"role": "assistant", "content": [], "metadata": {"usage": usage}}
    store.append(agent, message)
    SessionMessage.objects.update(input_tokens=5, cache_read_tokens=None)
    export(file)
    forget()

    import_sessions(JsonLines(file))

    row = SessionMessage.objects.get()
    assert (row.input_tokens, row.cache_read_tokens) == (5, None)
