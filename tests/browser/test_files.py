"""Images whose files are in a storage, as a person sees them."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.store import SessionStore
from tests.admin.transcripts import page_url
from tests.blobs.conftest import blob_folder, stored
from tests.blobs.messages import document, image, user

from .pictures import parcel

__all__ = ["blob_folder", "stored"]

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_image_is_seen_and_one_that_is_lost_says_so(
    browser, live_server, client, stored, settings, clerk
):
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "BLOB_MIN_BYTES": 1}
    store = SessionStore()
    agent = store.agents.open(store.open("talk"), dialect=STRANDS)
    store.append(agent, user(image(parcel())))
    (kept,) = stored()
    store.append(agent, user(image(parcel(200, 200)), document(b"%PDF-1.7")))
    for file in stored():
        if file != kept:
            file.unlink()
    # Not a page that is watched: what is missing is a fault there.
    client.force_login(clerk)
    context = browser.new_context(base_url=live_server.url)
    name = settings.SESSION_COOKIE_NAME
    cookie = {"name": name, "value": client.cookies[name].value, "url": live_server.url}
    context.add_cookies([cookie])
    page = context.new_page()
    page.goto(page_url("talk"))
    # The other one is an image too, until its file turns out to be missing.
    seen = page.locator(".as-image img").first
    seen.scroll_into_view_if_needed()
    # Not wait_for_function, which the page's Content Security Policy keeps from being evaluated.
    expect(seen).to_have_js_property("naturalWidth", 360)
    lost = page.locator(".as-lost")
    lost.scroll_into_view_if_needed()
    assert lost.inner_text() == "The file is missing, or its storage is unavailable."
    expect(page.locator(".as-image img")).to_have_count(1)
    expect(page.get_by_role("link", name="report")).to_have_count(1)
    context.close()
