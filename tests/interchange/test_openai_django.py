"""The tables of openai-django-sessions, made and filled by models that are equal to its own.

The package itself needs Python 3.12; where it is installed, it writes too.
"""

from __future__ import annotations

from typing import ClassVar

import pytest
from asgiref.sync import async_to_sync
from django.apps.registry import Apps
from django.db import connection, models, transaction
from hypothesis import given
from hypothesis import strategies as st

from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.interchange.openai_sources import OpenAIDjangoSessionsSource
from django_agent_sessions.interchange.sources import Skipped

from .openai_items import agent_of, items_of, messages_of, said, session_of, sessions_of, skipped_of

pytestmark = [
    pytest.mark.django_db,
    # MariaDB commits when a table is made, and keeps the table.
    pytest.mark.skipif(connection.vendor == "mysql", reason="tables are not rolled back there"),
]

registry = Apps()


class AgentSession(models.Model):  # noqa: DJ008 - the other app's model
    session_id = models.CharField(max_length=255, unique=True, db_index=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    objects: ClassVar[models.Manager[AgentSession]] = models.Manager()

    class Meta:
        db_table = "agent_sessions"
        app_label = "openai_django_sessions"
        apps = registry


class AgentMessage(models.Model):  # noqa: DJ008 - the other app's model
    session = models.ForeignKey(AgentSession, on_delete=models.CASCADE, related_name="messages")
    data = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)
    objects: ClassVar[models.Manager[AgentMessage]] = models.Manager()

    class Meta:
        db_table = "agent_messages"
        app_label = "openai_django_sessions"
        ordering = ["created_at", "id"]
        apps = registry


@pytest.fixture
def tables(db):
    # Without the editor's own context, which SQLite refuses within the test's transaction.
    editor = connection.schema_editor()
    editor.deferred_sql = []
    for model in (AgentSession, AgentMessage):
        statement, parameters = editor.table_sql(model)
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters)


def add(name, items):
    """What its ``add_items`` does."""
    session, _ = AgentSession.objects.get_or_create(session_id=name)
    AgentMessage.objects.bulk_create(AgentMessage(session=session, data=item) for item in items)


def stored(name):
    """What its ``get_items`` does."""
    found = AgentMessage.objects.filter(session__session_id=name).order_by("created_at", "id")
    return [each.data for each in found]


@pytest.mark.usefixtures("tables")
def test_items_are_what_the_package_gives():
    add("s", [{"n": number} for number in range(1200)])
    add("other", said("x"))
    add(
        "s", [{"role": "user", "content": "é 🐇", "big": 10**30, "half": 0.5, "list": [None, True]}]
    )
    # Later in the order, although its key is the first.
    AgentMessage.objects.filter(data={"n": 0}).update(created_at="2100-01-01T00:00Z")
    source = OpenAIDjangoSessionsSource()

    assert items_of(source, "s") == stored("s")
    assert stored("s")[-1] == {"n": 0}
    assert [each.session_id for each in sessions_of(source)] == ["s", "other"]
    assert source.count() == 2


_texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=9)
_items = st.dictionaries(
    _texts, st.one_of(st.none(), st.booleans(), st.integers(), st.floats(0.001, 1e9), _texts)
)


@pytest.mark.usefixtures("tables")
def test_any_items_are_what_the_package_gives():
    @given(st.lists(_items, min_size=1, max_size=5))
    def check(items):
        AgentMessage.objects.all().delete()
        add("s", items)

        assert items_of(OpenAIDjangoSessionsSource(), "s") == stored("s") == items

    check()


@pytest.mark.usefixtures("tables")
def test_times_are_those_of_the_rows():
    add("s", said("a"))
    source = OpenAIDjangoSessionsSource()
    session, [message] = session_of(source, "s"), messages_of(source, "s")
    row = AgentSession.objects.get()

    assert (session.created_at, session.updated_at) == (row.created_at, row.updated_at)
    assert message.created_at == AgentMessage.objects.get().created_at


@pytest.mark.usefixtures("tables")
def test_rows_that_hold_no_object_are_skipped_by_key_and_hide_no_others():
    add("s", [*said("a"), ["no object"], "nor this", *said("b")])
    keys = AgentMessage.objects.order_by("id").values_list("id", flat=True)[1:3]
    source = OpenAIDjangoSessionsSource()

    assert items_of(source, "s") == said("a") + said("b")
    assert skipped_of(source, "s") == [
        Skipped(f"agent_messages id={key}", "it is JSON, but not an object") for key in keys
    ]


@pytest.mark.usefixtures("tables")
def test_messages_can_be_read_again():
    add("s", said("a"))
    messages = agent_of(OpenAIDjangoSessionsSource(), "s").messages

    assert list(messages) == list(messages) != []


def test_a_database_without_the_tables_is_refused_and_stays_usable():
    with transaction.atomic():
        with pytest.raises(ConfigurationError, match="no table 'agent_sessions'"):
            OpenAIDjangoSessionsSource().count()
        with pytest.raises(ConfigurationError, match="no table 'agent_sessions'"):
            next(OpenAIDjangoSessionsSource().sessions())
        with pytest.raises(ConfigurationError, match="no alias 'elsewhere'"):
            OpenAIDjangoSessionsSource("elsewhere").count()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")


@pytest.mark.usefixtures("tables")
def test_tables_of_the_sdk_are_not_taken_for_them():
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE agent_messages RENAME COLUMN data TO message_data")

    with pytest.raises(ConfigurationError, match="'agent_messages' with data"):
        OpenAIDjangoSessionsSource().count()


@pytest.mark.django_db(transaction=True)
def test_the_package_itself_writes_what_is_read():
    package = pytest.importorskip("openai_django_sessions")
    session = package.DjangoSession("s", create_tables=True)
    items = [*said("a", "b"), {"type": "reasoning", "z": 1, "a": [1.5, None]}]
    try:
        # Its ORM calls then run in this thread, on the test's connection.
        async_to_sync(session.add_items)(items)
        async_to_sync(session.add_items)(items)
        expected = async_to_sync(session.get_items)()

        assert items_of(OpenAIDjangoSessionsSource(), "s") == expected == items * 2
    finally:
        with connection.cursor() as cursor:
            for table in ("agent_messages", "agent_sessions"):
                cursor.execute(f"DROP TABLE {table}")
