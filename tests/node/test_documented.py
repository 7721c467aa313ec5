"""The client of the documentation, under Node, against a real server."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from tests.rest.conftest import Talk

from . import running


@pytest.mark.django_db(transaction=True)
def test_the_client_of_the_documentation_works(node_modules, live_server, ada):
    for number in range(4):
        Talk(ada, "Hello", session_id=f"s{number}")
    Talk(ada, "Where to?", "To Lisbon.", "My card is 4111 1111 1111 1111.", "Thanks.")
    browser = Client()
    browser.force_login(ada)
    browser.get(f"{live_server}/admin/login/")
    cookies = {name: morsel.value for name, morsel in browser.cookies.items()}
    headers = {
        "Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items()),
        "X-CSRFToken": cookies.get("csrftoken", ""),
    }
    running.run("documented.test.mjs", API=f"{live_server}/api/", HEADERS=json.dumps(headers))
