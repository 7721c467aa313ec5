from __future__ import annotations

import pytest
from django.urls import reverse

from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore
from example_project.policy import HEADER

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_login_is_asked_for_before_the_page_or_the_api_shows_anything(site, ada) -> None:
    session = SessionStore(owner=ada).open("private", title="Private")
    for address in (reverse("chat:home"), reverse("chat:chat", args=[session.id])):
        answer = site.get(address)
        assert answer.status_code == 302
        assert answer["Location"].startswith(reverse("login"))
    assert site.get("/api/agent-sessions/sessions/").status_code == 403
    assert not SessionMessage.objects.exists()


def test_logging_in_leads_to_the_chat_and_logging_out_back(site, ada) -> None:
    ada.set_password("lovelace")
    ada.save()
    login = site.post(reverse("login"), {"username": "ada", "password": "lovelace"}, follow=True)
    assert "Which agent should answer?" in login.text
    logout = site.post(reverse("logout"), follow=True)
    assert "Password" in logout.text


def test_the_page_says_nothing_of_any_chat_so_that_a_strangers_address_tells_nothing(
    adas_site, bob
) -> None:
    session = SessionStore(owner=bob).open("bobs", title="Of Bob")

    page = adas_site.get(reverse("chat:chat", args=[session.id]))
    assert page.status_code == 200
    assert "Of Bob" not in page.text
    missing = adas_site.get(f"/api/agent-sessions/sessions/{session.id}/")
    assert missing.status_code == 404
    assert "Of Bob" not in adas_site.get("/api/agent-sessions/sessions/").text


def test_nothing_inline_and_nothing_from_elsewhere_may_run(adas_site) -> None:
    page = adas_site.get(reverse("chat:home"))

    policy = page[HEADER]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "trusted-types" not in adas_site.get("/admin/")[HEADER]
    assert " style=" not in page.text
    assert "http://" not in page.text.replace("http://testserver", "")


def test_a_request_of_another_site_is_refused(site, ada) -> None:
    site.handler.enforce_csrf_checks = True
    site.force_login(ada)

    refused = site.post("/api/agent-sessions/sessions/", {}, content_type="application/json")
    assert refused.status_code == 403
    assert not Session.objects.exists()
