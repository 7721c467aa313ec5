"""What a client stored is seen where all else is: in the admin and in the API."""

from __future__ import annotations

import base64

import pytest
from django.test import Client

from tests.admin.people import staff
from tests.admin.transcripts import page_url, shown
from tests.rest.chat.assistant_ui.conftest import rows, session_of, ui

pytestmark = pytest.mark.django_db

PNG = b"\x89PNG\r\n\x1a\n and pixels"
SAID = ui(
    "assistant",
    {"type": "step-start"},
    {
        "type": "tool-weather",
        "toolCallId": "call-1",
        "state": "output-available",
        "input": {"city": "Lisbon"},
        "output": "mild and windy",
    },
    {
        "type": "file",
        "mediaType": "image/png",
        "url": "data:image/png;base64," + base64.b64encode(PNG).decode(),
    },
    "To <b>Lisbon</b>.",
)


def test_the_admin_shows_what_a_client_stored_and_that_a_client_did(cloud, thread):
    cloud.say(thread, SAID)
    browser = Client()
    browser.force_login(staff("clerk", "view_session", "read_transcript"))

    page = shown(browser, page_url(session_of(thread).session_id))

    for text in ("assistant-ui", "weather", "mild and windy", "Lisbon"):
        assert text in page
    assert "<b>Lisbon" not in page
    everything = shown(browser, "/admin/agent_sessions/session/", framework="assistant-ui")
    assert thread in everything


def test_the_api_gives_what_a_client_stored_part_by_part_with_its_pictures(cloud, thread, ada):
    cloud.say(thread, SAID)
    browser = Client()
    browser.force_login(ada)

    (message,) = browser.get(f"/api/sessions/{thread}/messages/").json()["results"]

    assert message["agent"] == "assistant-ui"
    kinds = [part["kind"] for part in message["parts"]]
    assert kinds == ["tool_call", "tool_result", "image", "text"]
    picture = browser.get(message["parts"][2]["url"])
    assert (picture.status_code, picture.content) == (200, PNG)


def test_a_part_is_redacted_through_the_api_and_the_client_sees_it(cloud, thread, ada):
    key = cloud.say(thread, SAID)
    browser = Client()
    browser.force_login(ada)
    body = {"path": ["content", "parts", 1, "output"], "reason": "It is mine"}

    answer = browser.post(
        f"/api/messages/{rows(thread)[0].pk}/redact/", body, content_type="application/json"
    )

    assert answer.status_code == 200, answer.content
    (found,) = cloud.messages(thread)
    assert found["id"] == key
    assert found["content"]["parts"][1] == {**SAID["parts"][1], "output": "[REDACTED]"}
    assert cloud.say(thread, SAID) == key
    assert cloud.messages(thread) == [found]
