from __future__ import annotations

import base64
import json

import pytest
from django.urls import reverse

from django_agent_sessions.store import SessionStore
from example_project.tokens import token_for

pytestmark = pytest.mark.django_db(transaction=True)

THREADS = "/api/assistant-ui/v1/threads"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_client_of_assistant_ui_lists_its_users_threads_with_the_token_it_was_given(
    adas_site, ada, bob
) -> None:
    hers = SessionStore(owner=ada).open("a", title="Lisbon")
    SessionStore(owner=bob).open("b", title="Of Bob")
    given = adas_site.post(reverse("token"))
    assert given["Cache-Control"] == "no-store"
    token = given.json()["token"]
    claims = token.split(".")[1]
    assert json.loads(base64.urlsafe_b64decode(claims + "=="))["exp"] > 0
    adas_site.logout()

    answer = adas_site.get(THREADS, headers=bearer(token))
    assert answer.status_code == 200
    assert [thread["id"] for thread in answer.json()["threads"]] == [str(hers.id)]
    assert "Of Bob" not in answer.text


def test_without_a_login_there_is_no_token_and_a_token_is_no_login(site, ada) -> None:
    assert site.post(reverse("token")).status_code == 403
    with_token = site.post(reverse("token"), headers=bearer(token_for(ada)))
    assert with_token.status_code == 403
    site.force_login(ada)
    site.handler.enforce_csrf_checks = True
    assert site.post(reverse("token")).status_code == 403


def test_a_token_that_is_old_or_changed_or_of_nobody_is_refused(site, ada, bob) -> None:
    good = token_for(ada)
    head, _, signature = good.split(".")
    claims = token_for(bob).split(".")[1]
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    for token in (
        token_for(ada, -1),
        f"{head}.{claims}.{signature}",
        f"{none}.{claims}.",
        "",
        "nothing",
        "é.é.é",
    ):
        refused = site.get(THREADS, headers=bearer(token))
        assert refused.status_code in {401, 403}, token
    bob.is_active = False
    bob.save()
    assert site.get(THREADS, headers=bearer(token_for(bob))).status_code in {401, 403}
    assert site.get(THREADS, headers=bearer(good)).status_code == 200
