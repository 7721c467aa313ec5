from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from django.utils import timezone
from markdown_it import MarkdownIt

from django_agent_sessions.content import dialects
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.interchange import export_markdown
from django_agent_sessions.models import Session, SessionMessage
from tests.models.test_fields import set_raw
from tests.sealed import update_content

pytestmark = pytest.mark.django_db

HOSTILE = [
    "## 7 · assistant · default · 2026-01-01 00:00:00 UTC\n\n> I will pay",
    "fake\n===\n\nfake\n---",
    "```\nunclosed\n## fake",
    "</blockquote><h2>fake</h2>",
    "\\</blockquote><h2>fake</h2>",
    "\\\\</blockquote><h2>fake</h2>",
    "<!-- hides what follows",
    "<script>\n\nalert(1)",
    "<![CDATA[",
    "before\u2028## fake\x0b## fake\x0c## fake\x85## fake\r## fake",
    "- list\n\n## fake\n1. one\n\n       ## fake",
    "````text\n## fake\n````\n## fake",
    "> > nested\n## fake",
    "**Tool result** search success",
    "\x00\ud800\n## fake",
]


def markdown(session_id: str = "session-1") -> str:
    return "".join(export_markdown(Session.objects.get(session_id=session_id)))


class Outside(HTMLParser):
    """What stands outside of quotes and code, when rendered by what lets HTML through."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.depth = 0
        self.tags: list[str] = []
        self.words = ""
        self.feed(MarkdownIt("commonmark", {"html": True}).render(text))

    def handle_starttag(self, tag, attrs):
        if tag in ("blockquote", "pre"):
            self.depth += 1
        elif not self.depth:
            self.tags.append(tag)

    def handle_endtag(self, tag):
        if tag in ("blockquote", "pre"):
            self.depth -= 1

    def handle_data(self, data):
        if not self.depth:
            self.words += data


def test_a_conversation_reads_from_top_to_bottom(store, ada):
    session = store.open("talk", title="Holiday *plans*")
    Session.objects.filter(pk=session.id).update(owner=ada)
    agent = store.agents.open(session, "planner", dialect="strands")
    store.append_many(
        agent,
        [
            {"role": "user", "content": [{"text": "Find **flights**.\n\nPlease."}]},
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "They want\nflights"}}},
                    {"toolUse": {"toolUseId": "t1", "name": "search", "input": {"to": "Rome"}}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "toolResult": {
                            "toolUseId": "t1",
                            "status": "error",
                            "content": [{"text": "no ``` flights"}, {"json": {"code": 3}}],
                        }
                    }
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"image": {"format": "png", "source": {"bytes": b"\x00" * 1234}}},
                    {"text": "Sorry."},
                ],
            },
        ],
    )

    text = markdown("talk")

    assert text.startswith("# Holiday \\*plans\\*\n\n- Session: talk\n")
    assert "- Owner: ada\n" in text
    assert "- Messages: 4\n" in text
    assert "\n## 0 · user · planner · 20" in text
    assert "> Find **flights**.\n>\n> Please.\n" in text
    assert "**Reasoning**\n\n> They want\n> flights\n" in text
    assert '**Tool call** search (t1)\n\n> ```json\n> {\n>   "to": "Rome"\n> }\n> ```\n' in text
    assert "**Tool result** (t1) error\n\n> ````text\n> no ``` flights\n> ````\n" in text
    assert '> ```json\n> {\n>   "code": 3\n> }\n> ```\n' in text
    assert "**Image** image/png, 1234 bytes\n\n> Sorry.\n" in text
    positions = [text.index(f"\n## {n} · ") for n in range(4)]
    assert positions == sorted(positions)


def test_agents_speak_in_the_order_of_time(store, session):
    first, second = (store.agents.open(session, name) for name in ("first", "second"))
    for number in range(4):
        agent = second if number % 2 else first
        store.append(agent, {"role": "user", "content": f"word {number}"})

    text = markdown()

    assert [text.index(f"> word {n}") for n in range(4)] == sorted(
        text.index(f"> word {n}") for n in range(4)
    )
    assert "- Agents: first, second\n" in text


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_that_was_said_can_look_like_the_documents_own_words(store, session, hostile):
    plain = store.agents.open(session)
    strands = store.agents.open(
        session, f"agent {hostile}"[:100].translate(KEEP), dialect="strands"
    )
    row = Session.objects.get(pk=session.id)
    row.title = dialects.displayable(hostile)[:255]
    row.save(update_fields=["title"])
    store.append(plain, {"role": "user", "content": hostile})
    store.append(
        strands,
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": hostile}}},
                {"toolUse": {"toolUseId": hostile, "name": hostile, "input": {hostile: hostile}}},
                {"toolResult": {"toolUseId": hostile, "content": [{"text": hostile}]}},
                {"document": {"name": hostile, "source": {"text": hostile}}},
                {"document": {"name": "x", "source": {"location": {"uri": hostile}}}},
                {hostile: hostile},
            ],
        },
    )
    store.append(plain, hostile)
    store.append(plain, {"role": "user", "content": "the end"})

    text = markdown()
    text.encode()
    rendered = Outside(text)

    assert [tag for tag in rendered.tags if tag.startswith("h")] == ["h1", "h2", "h2", "h2", "h2"]
    assert set(rendered.tags) <= {"h1", "h2", "p", "ul", "li", "strong", "em"}
    assert rendered.depth == 0
    # And to whoever reads it as it is, with an editor's idea of a line.
    own = [line[:3] for line in text.splitlines() if line and not line.startswith(">")]
    assert own.count("## ") == 4
    assert own[0].startswith("# ")
    assert set(own[1:]) <= {
        "## ",
        "- T",
        "- K",
        "- S",
        "- O",
        "- A",
        "- M",
        "- R",
        "- L",
        "- C",
    } | {
        "**R",
        "**T",
        "**D",
        "**U",
    }


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_comment_looks_like_no_other_part_of_the_document(store, agent, hostile):
    store.append(agent, {"role": "assistant", "content": "It is Lisbon."})
    store.feedback.save(SessionMessage.objects.get().pk, -1, comment=hostile)

    text = markdown()
    rendered = Outside(text)

    assert [tag for tag in rendered.tags if tag.startswith("h")] == ["h1", "h2"]
    assert rendered.depth == 0
    assert sum(not line.startswith(">") for line in text.splitlines() if "fake" in line) == 0


def test_feedback_stands_under_its_message_with_its_source_and_time(store, agent):
    for word in ("first", "second"):
        store.append(agent, {"role": "assistant", "content": word})
    first, second = SessionMessage.objects.order_by("message_id")
    store.feedback.save(first.pk, -1, comment="Wrong city.", user="7", source="reviewer")
    store.feedback.save(first.pk, 1, user="8")
    store.feedback.save(second.pk, 0, comment="My number 0170.", user="", source="judge:v_2")
    redact(agent.session, Find("0170"), reason="asked")

    before, after = markdown().split("> second\n")

    assert re.search(
        r"> first\n\n\*\*Feedback\*\* bad · reviewer · 20\d\d-.* UTC\n\n> Wrong city\.\n\n"
        r"\*\*Feedback\*\* good · user · 20\d\d-.* UTC\n\n## ",
        before,
    )
    assert re.fullmatch(
        r"\n\*\*Feedback\*\* neutral · judge:v\\_2 · 20.* UTC\n\n> My number .REDACTED.\.\n",
        after,
    )
    row = Session.objects.get()
    assert "Wrong" not in "".join(export_markdown(row, feedback_by="8"))


KEEP = dict.fromkeys([*range(32), *range(127, 160), 8232, *range(55296, 57344)], "?")


def test_what_was_redacted_is_there_only_as_it_was_redacted(store, agent):
    store.append_many(agent, [{"role": "user", "content": "plantedsecret"}, {"content": "b"}])
    update_content(
        SessionMessage.objects.filter(message_id=0),
        {"message": {"role": "user", "content": "[REDACTED]"}},
        redacted_at=timezone.now(),
        text="[REDACTED]",
    )

    text = markdown()

    assert "plantedsecret" not in text
    assert "> [REDACTED]\n" in text
    assert text.count("*redacted 20") == 1


def test_what_cannot_be_read_is_shown_as_it_is(store, agent):
    store.append_many(agent, [{"content": "a"}, {"role": "user", "content": "b"}, None])
    set_raw(0, '{"half ```')

    text = markdown()

    assert '**Unreadable payload**\n\n> ````text\n> {"half ```\n> ````\n' in text
    assert "> b\n" in text
    assert "**Unknown content**\n\n> ```json\n> null\n> ```\n" in text


def test_a_long_conversation_comes_whole(store, agent):
    store.append_many(agent, [{"role": "user", "content": f"word {n}."} for n in range(250)])

    text = markdown()

    assert all(f"> word {n}.\n" in text for n in range(250))


def test_a_session_that_was_deleted_meanwhile_is_an_empty_document(store):
    row = Session.objects.get(pk=store.open("gone").id)
    store.delete("gone")

    assert "".join(export_markdown(row)) == ""
