"""Nothing that a user, a model or a tool wrote is ever more than text on any page."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from django_agent_sessions.models import AuditEvent, Session, SessionMessage

from . import hostile

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]

LIST = "/admin/agent_sessions/session/"

ELEMENTS = """() => {
  const names = ["script", "iframe", "img", "form", "style", "link", "svg", "math", "object",
    "embed", "base", "meta", "video", "audio", "input", "button", "textarea", "title", "template",
    "frame", "frameset", "applet", "noscript", "use", "animate", "foreignObject"];
  // The script adds a button for copying to each block of code, of which Markdown may have more.
  const selector = (name) => name === "button" ? "button:not(.as-copy-code)" : name;
  const all = (name) => document.querySelectorAll(selector(name));
  return Object.fromEntries(names.map((name) => [name, all(name).length]));
}"""

WRONG = """() => {
  const wrong = [];
  const addresses = ["href", "src", "action", "formaction", "data", "poster", "ping"];
  for (const element of document.querySelectorAll("body *")) {
    for (const { name, value } of element.attributes) {
      if (name.startsWith("on") || name === "srcdoc") wrong.push(`${element.tagName} ${name}`);
      if (!addresses.includes(name)) continue;
      let scheme = "";
      try { scheme = new URL(value, location).protocol; } catch { continue; }
      if (/^(https?|mailto):$/.test(scheme)) continue;
      wrong.push(`${element.tagName} ${value}`);
    }
  }
  return [...wrong, ...window.__pwned, ...window.__violations];
}"""


def pages(keys):
    """Every page that shows something of what was planted."""

    def of(name, key, **query):
        return reverse(f"admin:agent_sessions_session_{name}", args=[key], query=query)

    found = {
        "list": LIST,
        "usage": "/admin/agent_sessions/usagerollup/?days=7",
        "audit": "/admin/agent_sessions/auditevent/",
        "event": reverse(
            "admin:agent_sessions_auditevent_change", args=[AuditEvent.objects.latest("id").pk]
        ),
    }
    for dialect, key in keys.items():
        found |= {
            f"{dialect}: everything": of("change", key, all=1),
            f"{dialect}: plain": of("change", key, plain=1, **{"from": "start"}),
        }
    # Pages that show nothing of the messages.
    for name in ("export", "redact", "history", "delete"):
        found[name] = of(name, keys["strands"])
    return found


def look(page, path):
    """Opens a page and all that is folded in it, and counts its elements."""
    answer = page.goto(path)
    assert answer.status == 200, path
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    # What loads when it is opened.
    page.wait_for_selector("[data-as-load][open]", state="detached")
    assert page.evaluate(WRONG) == [], path
    return page.evaluate(ELEMENTS)


def post(page, path, **fields):
    """Fills in a form of a page and sends it."""
    for name, value in fields.items():
        page.locator(f"main [name={name}]:visible").first.fill(value)
    page.evaluate("document.documentElement.dataset.left = 1")
    page.locator(path).first.click()
    page.wait_for_selector("html:not([data-left])", state="attached")
    page.wait_for_load_state()
    assert page.evaluate(WRONG) == []
    return page.evaluate(ELEMENTS)


def everything(page, texts):
    """Looks at all pages when they show these texts."""
    keys = hostile.plant(texts)
    counted = {name: look(page, path) for name, path in pages(keys).items()}
    for dialect, key in keys.items():
        base = reverse("admin:agent_sessions_session_change", args=[key]).removesuffix("change/")
        page.goto(f"{base}redact/")
        page.get_by_label("The text").fill("REDACTED" if dialect == "strands" else "evil.test")
        counted[f"{dialect}: preview"] = post(page, ".as-redact-form button[type=submit]")
        page.goto(f"{base}change/")
        counted[f"{dialect}: found"] = post(page, ".as-find button", query="a")
    return counted


def test_no_hostile_text_becomes_an_element_or_runs_on_any_page(open_page, clerk):
    page = open_page()
    expected = everything(page, hostile.HARMLESS)
    hostile.clear()

    found = everything(page, hostile.HOSTILE)

    assert len(hostile.HOSTILE) >= 40
    for name, elements in expected.items():
        assert found[name] == elements, name


def test_no_hostile_text_that_is_typed_comes_back_as_an_element(open_page, clerk):
    hostile.plant(hostile.HARMLESS)
    page = open_page()
    for number, text in enumerate(hostile.HOSTILE[::10]):
        page.goto(LIST)
        page.locator("#searchbar").fill(text)
        elements = post(page, "#changelist-search [type=submit]")
        assert elements["iframe"] == elements["style"] == elements["object"] == 0, number


def test_what_is_stored_is_never_served_as_a_page(live_server, clerk):
    keys = hostile.plant(hostile.HOSTILE)
    client = Client()
    client.force_login(clerk)
    for key in keys.values():
        base = reverse("admin:agent_sessions_session_change", args=[key]).removesuffix("change/")
        for row in SessionMessage.objects.filter(session=key).values_list("pk", flat=True)[:40]:
            for path in (f"messages/{row}/raw/", f"messages/{row}/raw/?download=1"):
                answer = client.get(f"{base}{path}")
                assert answer.status_code == 200
                assert answer["Content-Type"].partition(";")[0] in {
                    "text/plain",
                    "application/json",
                }
                assert answer["X-Content-Type-Options"] == "nosniff"
                assert "sandbox" in answer["Content-Security-Policy"]
    assert Session.objects.count() > len(hostile.HOSTILE)
