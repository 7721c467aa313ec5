"""What was said is Markdown or plain text, and never markup that runs."""

from __future__ import annotations

import builtins
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from django_agent_sessions.admin.transcript import text_rendering
from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.values.records import AgentState
from tests.admin.transcripts import page_url, result, said, shown

pytestmark = pytest.mark.django_db


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](java&#115;cript:alert(1))",
    "<javascript:alert(1)>",
    "[a](data:text/html,<script>alert(1)</script>)",
    '[a](http://x.example "onmouseover=alert(1)")',
    '"><svg onload=alert(1)>',
    "</textarea></title></script><script>alert(1)</script>",
    "{{ 7|add:7 }}{% load x %}",
    "<a x-data x-on:click=alert(1) hx-get=/x>a</a>",
    "`</code><script>alert(1)</script>`",
    '```"><script>alert(1)</script>\nx\n```',
    "\u202e\x00\ud800",
]


def tags(page: str) -> list[str]:
    return re.findall(r"<[a-zA-Z][^>]*>", page[page.index("as-root") :])


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("query", [{}, {"plain": 1}])
def test_nothing_that_was_said_becomes_markup_that_runs(client, reader, store, text, query):
    sound = "".join(letter for letter in text if letter.isprintable())
    session = store.open("session-1", title=sound)
    state = AgentState({text: [text]}, {"b": text}, {"c": text})
    agent = store.agents.open(session, f"x{sound}", dialect=STRANDS, data=state)
    reasoning = {"reasoningContent": {"reasoningText": {"text": text}}}
    cited = {"citationsContent": {"content": [{"text": text}], "citations": [
        {"title": text, "location": {"web": {"url": f"javascript:{text}"}}}]}}  # fmt: skip
    document = {"document": {"format": text, "name": text, "source": {"bytes": b"x"}}}
    arguments = {"toolUse": {"toolUseId": text, "name": text, "input": {text: text}}}
    blocks = (text, reasoning, cited, document, arguments, {text: text}, result(text, text))
    store.append(agent, said("assistant", *blocks))
    store.append(agent, {"role": text, "content": text})
    store.multi_agents.create(session, "graph", {text: text}, kind="kind")

    page = shown(client, page_url("session-1"), **query)

    for tag in tags(page):
        assert not re.search(r"\s(on\w+|style|x-\w+|hx-\w+|srcdoc)\s*=", re.sub('"[^"]*"', "", tag))
        assert not re.match(r"<(script|img|svg onload|iframe|object|embed|base|meta|link)", tag)
        assert not re.search(r'(href|src|action)="\s*(javascript|data|vbscript):', tag, re.I)


def test_text_is_markdown_unless_plain_is_asked_for(client, reader, talker, store):
    store.append(talker, said("assistant", "**bold** [shop](https://shop.example/a)\n\n| a |\n|-|"))

    page = shown(client, page_url("session-1"))
    plain = shown(client, page_url("session-1"), plain=1)

    assert "<strong>bold</strong>" in page
    assert '<a href="https://shop.example/a" rel="noopener nofollow noreferrer">shop</a>' in page
    assert "<table>" in page[page.index("as-turns") :]
    assert "**bold** [shop](https://shop.example/a)" in plain


@given(st.text(alphabet="aZé漢٣1 ,.?!;()-_*#&<\t\u00a0", max_size=20))
@example("Please look again.  ")
@example("See (this) - or that; 1. no list!")
def test_a_line_is_rendered_alone_as_before_another_paragraph(text):
    render = text_rendering.markdown()

    assert render is not None
    assert render(f"{text}\n\n**bold**") == render(text) + "<p><strong>bold</strong></p>\n"


def test_without_the_packages_for_markdown_text_is_plain(
    client, reader, talker, store, monkeypatch
):
    store.append(talker, said("assistant", "**bold**"))
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith(("nh3", "markdown_it")):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    text_rendering.markdown.cache_clear()
    monkeypatch.setattr(builtins, "__import__", missing)
    try:
        page = shown(client, page_url("session-1"))
    finally:
        monkeypatch.undo()
        text_rendering.markdown.cache_clear()

    assert "**bold**" in page
