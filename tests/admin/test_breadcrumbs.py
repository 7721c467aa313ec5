"""Where a page is: breadcrumbs as Django has them since 6.1, on each version."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from .people import staff
from .transcripts import said

pytestmark = pytest.mark.django_db

RIGHTS = ("view_session", "read_transcript", "redact", "export", "delete_session")


@pytest.mark.parametrize(
    ("name", "of_session", "last"),
    [
        ("session_change", True, "Where is my parcel?"),
        ("session_redact", True, "Redact"),
        ("session_export", True, "Export conversation"),
        ("session_branches", True, "Branches"),
        ("session_all", False, "All sessions that match"),
        ("usagerollup_changelist", False, "Usage"),
    ],
)
def test_breadcrumbs_are_a_list_whose_last_item_is_the_page(client, store, name, of_session, last):
    session = store.open("01890000-0000-7000-8000-000000000000")
    agent = store.agents.open(session, dialect="strands")
    store.append(agent, said("user", "Where is my parcel?"))
    client.force_login(staff("clerk", *RIGHTS, "view_usagerollup"))

    page = client.get(
        reverse(f"admin:agent_sessions_{name}", args=[session.id] if of_session else [])
    ).content.decode()

    [trail] = re.findall(r'<ol class="breadcrumbs">(.*?)</ol>', page, re.DOTALL)
    items = [re.sub(r"<[^>]+>", "", item).strip() for item in trail.split("</li>")][:-1]
    assert items[0] == "Home"
    assert items[-1] == last
    assert '<li aria-current="page">' in trail
    assert 'div class="breadcrumbs"' not in page
    # A session is called by its words where they may be read, not by its key.
    assert session.session_id not in trail
    assert not of_session or "Where is my parcel?" in trail


@pytest.mark.parametrize("name", ["session_change", "session_delete", "session_history"])
def test_frames_of_other_admins_call_a_session_by_its_title_too(client, store, name):
    session = store.open("01890000-0000-7000-8000-000000000000")
    agent = store.agents.open(session, dialect="strands")
    store.append(agent, said("user", "Where is my parcel?"))
    address = reverse(f"admin:agent_sessions_{name}", args=[session.id])

    def named(*rights):
        client.force_login(staff("-".join(("clerk", *rights)), *rights))
        context = client.get(address).context
        # What django-unfold shows, of the first that there is.
        return str(context.get("original") or context.get("object"))

    assert named(*RIGHTS) == "Where is my parcel?"
    assert named("view_session", "delete_session") == session.session_id
