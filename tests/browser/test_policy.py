"""The watch itself: what must not happen would be noticed."""

from __future__ import annotations

import pytest

from .watched import Watch

pytestmark = pytest.mark.django_db(transaction=True)

DEEDS = {
    "img-src": "document.body.append(Object.assign(new Image(), {src: '//a.test/'}))",
    "trusted-types": "document.body.setAttribute('onclick', 'pwn(1)')",
    "style-src": "document.body.setAttribute('style', 'color: red')",
    "connect-src": "fetch('http://127.0.0.1:9/').catch(() => 0)",
    "TrustedHTML": "document.body.innerHTML = '<p>'",
    "foreign request": "document.location = 'http://127.0.0.1:9/'",
    "pwned": "pwn('here')",
    "dialog": "alert('here')",
    "error": "setTimeout(() => { throw new Error('here') })",
}
"""What a page must not do, and the word of it by which it is told."""


def test_whatever_a_page_must_not_do_is_noticed(browser, live_server, transactional_db):
    context = browser.new_context(base_url=live_server.url)
    for noticed, deed in DEEDS.items():
        page = context.new_page()
        watch = Watch(page, live_server.url.removeprefix("http://"))
        page.goto("/admin/login/")
        assert not watch.faults

        page.evaluate(f"() => {{ try {{ {deed} }} catch {{}} }}")
        page.wait_for_timeout(50)
        page.close()

        assert any(noticed in fault for fault in watch.faults), (noticed, watch.faults)
    context.close()
