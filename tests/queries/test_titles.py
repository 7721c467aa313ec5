from __future__ import annotations

from django_agent_sessions.models import Session
from django_agent_sessions.queries.titles import with_titles


def test_a_session_that_is_deleted_while_a_page_is_read_has_no_title(db, store):
    store.create("s", title="Trip")
    rows = list(Session.objects.defer("title"))
    store.delete("s")

    assert [row.title for row in with_titles(rows)] == [""]
