"""Words are found within a conversation, and stand in no URL, record or report."""

from __future__ import annotations

import pytest
from django.views.debug import ExceptionReporter

from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from tests.admin.transcripts import page_url, said

pytestmark = pytest.mark.django_db


def test_a_search_of_ones_own_is_not_recorded_and_one_for_nothing_finds_nothing(
    client, reader, talker, store
):
    store.append(talker, said("user", "a needle"))
    url = page_url("session-1").removesuffix("change/") + "find/"
    Session.objects.update(owner=reader)

    assert "1 message found" in client.post(url, {"query": "needle"}).content.decode()
    assert "0 messages found" in client.post(url, {"query": "  "}).content.decode()
    assert not AuditEvent.objects.exists()


def test_words_are_found_by_a_post_so_that_they_are_in_no_url(client, reader, talker, store):
    store.append_many(talker, [said("user", f"filler {number}") for number in range(60)])
    store.append(talker, said("user", "a needle in it"))
    hit = SessionMessage.objects.get(message_id=60)
    url = page_url("session-1").removesuffix("change/") + "find/"

    page = client.post(url, {"query": "NEEDLE"}).content.decode()

    assert "1 message found" in page
    assert f"?at={hit.pk}#m-{hit.pk}" in page
    assert "a needle in it" in page
    assert client.get(url, {"query": "needle"}).status_code == 404
    event = AuditEvent.objects.get(action=AuditEvent.Action.SEARCHED)
    assert "needle" not in str(event.details).lower() + event.reason.lower()


def test_a_search_within_is_recorded_with_what_it_showed(client, reader, talker, store):
    store.append_many(talker, [said("user", f"filler {number}") for number in range(5)])
    keys = [str(key) for key in SessionMessage.objects.order_by("id").values_list("pk", flat=True)]
    url = page_url("session-1").removesuffix("change/") + "find/"

    client.post(url, {"query": "filler"})
    client.post(url, {"query": "nowhere"})

    some, none = AuditEvent.objects.filter(action=AuditEvent.Action.SEARCHED).order_by("id")
    assert some.details == {"found": 5, "first": keys[0], "last": keys[-1]}
    assert none.details == {"found": 0}


def test_what_was_looked_for_is_in_no_report_of_an_error(
    client, reader, talker, store, monkeypatch
):
    store.append(talker, said("user", "a needle"))

    def fail(*args, **kwargs):
        raise RuntimeError("broken")

    monkeypatch.setattr(AuditEvent, "save", fail)
    client.raise_request_exception = False
    url = page_url("session-1").removesuffix("change/") + "find/"
    answer = client.post(url, {"query": "-".join(["a", "planted", "word"])})

    assert answer.status_code == 500
    request, error = answer.wsgi_request, answer.exc_info
    for report in (ExceptionReporter(request, *error).get_traceback_html(),
                   ExceptionReporter(request, *error).get_traceback_text()):  # fmt: skip
        assert "broken" in report
        assert "a-planted-word" not in report
