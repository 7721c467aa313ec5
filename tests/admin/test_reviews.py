"""Reviews in the admin: the section, the page, the list; who sees them, and what they cost."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import Q
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_agent_sessions.governance import legal_hold, reviews
from django_agent_sessions.models import AuditEvent, Label, Note, Review, Session, SessionMessage
from django_agent_sessions.models.access import AccessRule
from django_agent_sessions.models.permissions import REVIEWING
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.ids import new_id
from tests.admin.people import grant, staff

pytestmark = pytest.mark.django_db

ATTACK = "</p><script>alert('planted')</script>"
LIST = "admin:agent_sessions_session_changelist"


class TenantAccess(AccessRule):
    """Permissions are valid in one namespace."""

    def sessions(self, user: Any, action: Any) -> Any:
        granted = super().sessions(user, action)
        return None if granted is None else Q(namespace="mine")


@pytest.fixture
def grace(client):
    user = staff("grace", *REVIEWING)
    client.force_login(user)
    return user


@pytest.fixture
def talk(ada):
    store = SessionStore(owner=ada, namespace="mine")
    agent = store.agents.open(store.open("talk"))
    store.append(agent, {"role": "user", "content": "Hello."})
    return Session.objects.get()


@pytest.fixture
def message(talk):
    return SessionMessage.objects.get()


def page(session: Session) -> str:
    return reverse("admin:agent_sessions_session_change", args=[session.pk])


def form(session: Session) -> str:
    return reverse("admin:agent_sessions_session_review", args=[session.pk])


def shown(client: Client, url: str, **query: Any) -> str:
    answer = client.get(url, query)
    assert answer.status_code == 200
    return answer.content.decode()


def section(text: str) -> str:
    found = re.search(r'<details class="as-card as-review".*?</details>', text, re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found[0])) if found else ""


def listed(client: Client, **query: Any) -> set[str]:
    text = shown(client, reverse(LIST), **query)
    return {row.session_id for row in Session.objects.all() if f">{row.session_id}<" in text}


# --- the jobs --------------------------------------------------------------------------------


def test_a_reviewer_sets_state_assignee_labels_and_adds_a_note(client, talk, grace):
    staff("alan", *REVIEWING)
    changes = {"state": "in_review", "assignee": "alan", "new_label": "refund"}
    assert client.post(form(talk), changes).status_code == 302
    assert client.post(form(talk), {"text": "Was it promised?\nAsk."}).status_code == 302

    text = section(shown(client, page(talk)))
    for words in ("In review", "assigned to alan", "refund", "Was it promised? Ask.", "grace"):
        assert words in text
    assert Note.objects.get().message is None
    review_page = shown(client, form(talk))
    assert '<option value="in_review" selected>In review</option>' in review_page
    assert re.search(r'name="assignee" value="alan"', review_page)
    assert '<option value="alan"></option>' in review_page
    assert re.search(r'value="refund"[^>]* checked', review_page)

    kept = {"state": "done", "assignee": "alan", "labels": ["refund"], "new_label": "x"}
    client.post(form(talk), kept)
    assert Review.objects.get().state == "done"
    assert set(Label.objects.values_list("name", flat=True)) == {"refund", "x"}
    assert AuditEvent.objects.filter(actor="grace").exclude(action="read").count() == 6


def test_a_message_has_a_link_to_its_own_notes_and_labels(client, talk, message, grace):
    url = f"{form(talk)}?message={message.pk}"
    assert f'href="{url}"' in shown(client, page(talk))
    assert client.post(url, {"text": "Here."}).status_code == 302
    assert client.post(url, {"new_label": "promise"}).status_code == 302

    assert Note.objects.get().message_id == Label.objects.get().message_id == message.pk
    assert not Review.objects.exists()
    assert section(shown(client, page(talk))).count("on a message") == 2


def test_a_note_is_edited_and_deleted_on_its_page(client, talk, grace):
    key = reviews.add_note(talk.pk, "First.", author=grace)
    url = f"{form(talk)}?note={key}"
    assert "edited" not in section(shown(client, page(talk)))
    assert ">\nFirst.</textarea>" in shown(client, url)
    client.post(url, {"text": "Second."})
    assert Note.objects.get().text == "Second."
    assert "edited" in section(shown(client, page(talk)))
    client.post(url, {"text": "", "delete": "1"})
    assert not Note.objects.exists()


def test_an_invalid_form_says_why_and_changes_nothing(client, talk, grace):
    key = reviews.add_note(talk.pk, "Kept.", author=grace)
    legal_hold.hold(talk.pk, reason="case 1")
    for url, sent, words in (
        (form(talk), {"text": " "}, "This field is required."),
        (form(talk), {"text": "x" * 4001}, "at most 4000 characters"),
        (form(talk), {"new_label": "x" * 51}, "at most 50 characters"),
        (form(talk), {"state": "closed"}, "Select a valid choice."),
        (form(talk), {"state": "open", "labels": [str(n) for n in range(21)]}, "at most 20"),
        (f"{form(talk)}?note={key}", {"text": "New."}, "under legal hold"),
        (f"{form(talk)}?note={key}", {"text": "New.", "delete": "1"}, "under legal hold"),
    ):
        answer = client.post(url, sent)
        assert answer.status_code == 200
        assert words in answer.content.decode()
    assert [str(note.text) for note in Note.objects.all()] == ["Kept."]
    assert not Label.objects.exists()
    assert not Review.objects.exists()


def test_only_who_may_review_the_session_is_assigned(client, talk, grace, settings):
    staff("clerk", "view_session", "read_transcript")
    get_user_model().objects.create_user("customer")
    for name, words in (
        ("clerk", "may not review this session"),
        ("customer", "No staff member has this name."),
        ("nobody-at-all", "No staff member has this name."),
    ):
        answer = client.post(form(talk), {"assignee": name})
        assert words in answer.content.decode()
    assert not Review.objects.exists()


def test_who_is_not_suggested_is_assigned_by_name(client, talk, grace, monkeypatch):
    monkeypatch.setattr(reviews, "MAX_REVIEWERS", 1)
    staff("zoe", *REVIEWING)
    assert '<option value="zoe"' not in shown(client, form(talk))
    assert client.post(form(talk), {"assignee": "zoe"}).status_code == 302
    assert Review.objects.get().assignee == "zoe"


def test_a_deleted_assignee_stays_until_another_is_chosen(client, talk, grace):
    alan = staff("alan", *REVIEWING)
    reviews.assign(talk.pk, alan, actor=grace)
    alan.delete()
    assert client.post(form(talk), {"state": "done", "assignee": "alan"}).status_code == 302
    assert (Review.objects.get().assignee, Review.objects.get().state) == ("alan", "done")
    assert client.post(form(talk), {"state": "done", "assignee": ""}).status_code == 302
    assert Review.objects.get().assignee_id == ""


# --- who sees them ---------------------------------------------------------------------------


@pytest.fixture
def reviewed(talk, message):
    author = staff("alan", *REVIEWING)
    reviews.add_note(talk.pk, "plantednote", author=author, message=message.pk)
    reviews.set_labels(talk.pk, ["plantedlabel"], actor=author)
    reviews.assign(talk.pk, author, actor=author)
    return talk


@pytest.mark.parametrize("missing", REVIEWING)
def test_without_one_of_the_permissions_nothing_is_shown_or_changed(client, reviewed, missing):
    client.force_login(staff("clerk", *(set(REVIEWING) - {missing}), "export", "redact"))
    note = Note.objects.get().pk
    texts = [
        client.get(page(reviewed)).content.decode(),
        client.get(reverse(LIST), {"columns": "review_state"}).content.decode(),
        client.get(reverse(LIST), {"label": "plantedlabel"}).content.decode(),
    ]
    export = reverse("admin:agent_sessions_session_export", args=[reviewed.pk])
    answer = client.post(export, {"form": "jsonl", "reason": "r"})
    if answer.status_code == 200:
        texts.append(b"".join(answer.streaming_content).decode())
    for text in texts:
        assert not re.search(r"plantednote|alan|review/", text)
    assert all('value="plantedlabel"' in text or "plantedlabel" not in text for text in texts)
    for query in ("", f"?note={note}"):
        for answer in (client.get(form(reviewed) + query), client.post(form(reviewed) + query)):
            assert answer.status_code in (403, 404)


def test_a_redaction_by_staff_who_may_not_review_does_not_show_notes(client, reviewed):
    url = reverse("admin:agent_sessions_session_redact", args=[reviewed.pk])
    sent = {"what": "text", "text": "plantednot", "where": "session"}
    for permission, is_shown in (("export", False), ("review_session", True)):
        clerk = staff(permission, "view_session", "read_transcript", "redact", permission)
        client.force_login(clerk)
        text = client.post(url, sent).content.decode()
        # Not even as a number: it would tell that a guess was right.
        assert ("1 place would be redacted" in re.sub(r"\s+", " ", text)) == is_shown
        assert ("plantednote" in re.sub(r"</?del>", "", text)) == is_shown


def test_other_namespaces_are_not_there(client, ada, grace, settings):
    settings.AGENT_SESSIONS = {"ACCESS": f"{__name__}.TenantAccess"}
    other = SessionStore(owner=ada, namespace="theirs").open("other")
    boss = get_user_model().objects.create_superuser("boss")
    reviews.set_labels(other.id, ["plantedlabel"], actor=boss)
    mine = SessionStore(owner=ada, namespace="mine").open("mine")
    session = Session.objects.get(pk=mine.id)

    assert client.get(form(Session.objects.get(pk=other.id))).status_code == 404
    assert client.post(form(Session.objects.get(pk=other.id)), {"text": "x"}).status_code == 404
    assert "plantedlabel" not in shown(client, form(session))
    assert listed(client, label="plantedlabel") == set()


def test_notes_of_others_and_rows_of_other_sessions_are_not_found(client, reviewed, grace, ada):
    other = SessionStore(owner=ada).open("other")
    own = reviews.add_note(other.id, "Hers.", author=grace)
    foreign = SessionStore(owner=ada).agents.open(other)
    SessionStore(owner=ada).append(foreign, {"role": "user", "content": "x"})
    message = SessionMessage.objects.get(session=other.id).pk
    for query in (
        f"?note={Note.objects.get(session=reviewed.pk).pk}",
        f"?note={own}",
        f"?note={new_id()}",
        "?note=x",
        "?message=x",
    ):
        assert client.get(form(reviewed) + query).status_code == 404
        assert client.post(form(reviewed) + query, {"text": "x"}).status_code == 404
    assert client.post(f"{form(reviewed)}?message={message}", {"text": "x"}).status_code == 404
    assert client.get(form(Session(pk=new_id()))).status_code == 404
    assert Note.objects.count() == 2


def test_markup_in_notes_labels_and_names_is_text(client, talk, grace):
    get_user_model().objects.filter(pk=grace.pk).update(username="<b>grace</b>")
    grace.refresh_from_db()
    client.post(form(talk), {"state": "open", "assignee": grace.username, "new_label": ATTACK[:50]})
    client.post(form(talk), {"text": ATTACK})
    for url in (page(talk), form(talk), reverse(LIST) + "?columns=review_state"):
        text = shown(client, url)
        assert "<script>alert" not in text
        assert "<b>grace" not in text


# --- what they cost --------------------------------------------------------------------------


def statements(client: Client, url: str) -> int:
    client.get(url)
    with CaptureQueriesContext(connection) as captured:
        assert client.get(url).status_code == 200
    return len(captured)


def test_a_transcript_takes_two_statements_more_and_none_without_notes_or_permission(client, talk):
    clerk = staff("clerk", "view_session", "read_transcript")
    client.force_login(clerk)
    before = statements(client, page(talk))
    reviewer = staff("grace", *REVIEWING)
    reviews.add_note(talk.pk, "One.", author=reviewer)
    reviews.set_labels(talk.pk, ["one", "two"], actor=reviewer)
    reviews.assign(talk.pk, reviewer, actor=reviewer)
    assert statements(client, page(talk)) == before
    grant(clerk, "review_session")
    assert statements(client, page(talk)) == before + 2
    Note.objects.all().delete()
    Label.objects.all().delete()
    assert statements(client, page(talk)) == before


def test_the_list_takes_one_statement_more_for_its_column(client, talk, grace):
    reviews.assign(talk.pk, grace, actor=grace)
    url = reverse(LIST)
    plain = statements(client, f"{url}?columns=active")
    assert statements(client, f"{url}?columns=active,review_state") == plain + 1
    assert statements(client, f"{url}?columns=active&review=open&label=x") <= plain


# --- the list --------------------------------------------------------------------------------


def test_the_list_is_filtered_by_state_assignee_and_label(client, ada, grace):
    store = SessionStore(owner=ada)
    keys = {name: store.open(name).id for name in ("s-open", "s-mine", "s-done", "s-none")}
    alan = staff("alan", *REVIEWING)
    reviews.set_state(keys["s-open"], Review.State.OPEN, actor=alan)
    reviews.assign(keys["s-mine"], grace, actor=alan)
    reviews.set_state(keys["s-done"], Review.State.DONE, actor=alan)
    reviews.assign(keys["s-done"], alan, actor=alan)
    reviews.set_labels(keys["s-done"], ["refund"], actor=alan)
    for query, names in (
        ({"review": "open"}, {"s-open", "s-mine"}),
        ({"review": "done"}, {"s-done"}),
        ({"review": "in_review"}, set()),
        ({"review": "mine"}, {"s-mine"}),
        ({"review": "unassigned"}, {"s-open"}),
        ({"assignee": "alan"}, {"s-done"}),
        ({"review": "open", "assignee": "alan"}, set()),
        ({"label": "refund"}, {"s-done"}),
        ({"review": "nonsense"}, set(keys)),
    ):
        assert listed(client, **query) == names, query
    text = shown(client, reverse(LIST), columns="review_state")
    assert "open: grace" in text
    assert "done: alan" in text
