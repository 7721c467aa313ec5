"""Texts that want to be more than text, and a place for each of them in every field that is shown.

``pwn`` is defined in every page of the tests; whoever calls it has run a script.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.utils import timezone

from django_agent_sessions import audit, usage
from django_agent_sessions.models import (
    AuditEvent,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    UsageCursor,
    UsageRollup,
)

from .example import image, write
from .pictures import parcel

HOSTILE: tuple[str, ...] = (
    "<script>pwn(1)</script>",
    "<SCRIPT SRC=//evil.test/x.js></SCRIPT>",
    "</script><script>pwn('json')</script>",
    "</title></style></textarea></template></noscript><script>pwn(2)</script>",
    "<img src=x onerror=pwn(3)>",
    "<img src=//evil.test/pixel.png>",
    "![pixel](https://evil.test/pixel.png)",
    "![x](x \"title\" onerror='pwn(4)')",
    '"><img src=x onerror=pwn(5)>',
    "' onmouseover='pwn(6)' autofocus onfocus='pwn(6)' x='",
    '" onfocus="pwn(7)" autofocus tabindex="0',
    "` onclick=pwn(8) `",
    "<svg onload=pwn(9)>",
    "<svg><script href='data:,pwn(10)'/></svg>",
    "<svg><animate onbegin=pwn(11) attributeName=x dur=1s>",
    "<svg><use href='data:image/svg+xml,<svg id=x><script>pwn(12)</script></svg>#x'/></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror=pwn(13)>",
    "<math href='javascript:pwn(14)'>CLICK</math>",
    "[go](javascript:pwn(15))",
    "[go](JaVaScRiPt&colon;pwn(16))",
    "[go](java\tscript:pwn(17))",
    "[go](data:text/html;base64,PHNjcmlwdD5wYXJlbnQucHduKDE4KTwvc2NyaXB0Pg==)",
    "[go](vbscript:pwn(19))",
    "<javascript:pwn(20)>",
    "<https://evil.test/?q=\"onmouseover='pwn(21)'>",
    "[ref]\n\n[ref]: javascript:pwn(22) 'x'",
    "&lt;script&gt;pwn(23)&lt;/script&gt;",
    "&#60;img src=x onerror=pwn(24)&#62;",
    "<!-- unclosed <img src=x onerror=pwn(25)>",
    "--><script>pwn(26)</script><!--",
    "<![CDATA[<script>pwn(27)</script>]]>",
    "<?php echo '<script>pwn(28)</script>' ?>",
    "{{ 7|add:7 }}{% include 'admin/base.html' %}{{ request.user }}{# x #}",
    "${pwn(29)} #{pwn(29)} <%= pwn(29) %> [[pwn(29)]]",
    '{"a": "</script><script>pwn(30)</script>"}',
    "<style>*{background:url(//evil.test/css)}</style>",
    "<link rel=stylesheet href=//evil.test/x.css>",
    "<p style='position:fixed;inset:0;background:url(//evil.test/css)'>over</p>",
    "<meta http-equiv=refresh content='0;url=//evil.test/'>",
    "<base href=//evil.test/>",
    "<iframe src=javascript:pwn(31)></iframe>",
    "<iframe srcdoc='<script>parent.pwn(32)</script>'></iframe>",
    "<object data=//evil.test/x></object><embed src=//evil.test/x>",
    "<form action=//evil.test/><input name=q><button formaction=javascript:pwn(33)>Go</button>",
    "<details open ontoggle=pwn(34)><summary>x</summary></details>",
    "<video src=//evil.test/v onerror=pwn(35)></video><audio src=//evil.test/a></audio>",
    "<a href=//evil.test/ ping=//evil.test/ping target=_blank>x</a>",
    "<custom-element is=x onclick=pwn(36)></custom-element>",
    "\u202edetrever txet \u2066isolated\u2069 \u200bzero\u200cwidth\u200d\ufeff",
    "null \x00 byte <script>pwn(37)\x00</script>",
    "<scr\x00ipt>pwn(38)</scr\x00ipt>",
    "lone \ud800 surrogate \udfff <b>bold</b>",
    "\x1b[31mred\x1b[0m \x07 \x08 \x7f \x85 \u2028 \u2029",
    "W" * 400,
    "Z\u0351\u036b\u0343\u0357" * 40,
    "[a](https://evil.test/" + "%22onclick=pwn(39)" * 5 + ")",
    "| <img src=x onerror=pwn(40)> | b |\n|---|---|\n| <svg onload=pwn(41)> | `</code><b>` |",
    "```html\n</code></pre><script>pwn(43)</script>\n```",
    "../../../../etc/passwd?x=<y>#z",
)  # fmt: skip
"""The corpus."""

HARMLESS = tuple(f"harmless text {number}" for number in range(len(HOSTILE)))
"""As many texts that mean nothing; a page of them has the same elements."""


def column(text: str, length: int = 150) -> str:
    """What of a text a database takes in a column; payloads take all of it."""
    return text.replace("\x00", "").encode("utf-8", "ignore").decode()[:length]


def plant(texts: Sequence[str]) -> dict[str, UUID]:
    """Puts the texts into everything that the pages show.

    Args:
        texts: As many as the corpus has.

    Returns:
        Keys of the sessions ``strands`` and ``openai`` whose messages hold them.
    """
    began = timezone.now() - timedelta(hours=2)
    keys: dict[str, UUID] = {}
    for number, text in enumerate(texts):
        agent = _session(number, text, "strands" if number % 2 else "openai")
        write(agent, [(began, {"role": text, "content": text, "type": text})])
        _event(text, agent.session_id)
    for dialect, messages in (("strands", _strands), ("openai", _openai)):
        agent = _session(len(texts) + len(keys), f"{texts[0]} {dialect}", dialect)
        keys[dialect] = agent.session_id
        payloads = [payload for text in texts for payload in messages(text)]
        write(
            agent,
            ((began + timedelta(seconds=at), payload) for at, payload in enumerate(payloads)),
        )
        _beside(agent.session, texts)
    usage.roll_up(until=timezone.now() + timedelta(days=1))
    return keys


def _session(number: int, text: str, dialect: str) -> SessionAgent:
    short = column(text)
    user, _ = get_user_model().objects.get_or_create(username=f"{short[:140]}{number}")
    session = Session.objects.create(
        session_id=f"{short}{number}",
        external_id=f"{short}{number}",
        namespace=short,
        session_type=short[:32],
        title=short,
        owner=user,
        metadata={short: short, "list": [short, {short: [short]}]},
        redactions=number % 2,
    )
    return SessionAgent.objects.create(
        session=session,
        agent_id=short,
        dialect=dialect,
        state={text: text, "nested": {text: [text]}},
        conversation_manager_state={"summary": text},
        internal_state={text: {text: text}},
    )


def _beside(session: Session, texts: Sequence[str]) -> None:
    """Agents, orchestrators and redactions, a text each."""
    for number, text in enumerate(texts[:20]):
        SessionAgent.objects.create(
            session=session,
            agent_id=f"{column(text)}-{number}",
            dialect=column(text, 32),
            state={text: text},
        )
        SessionMultiAgent.objects.create(
            session=session,
            multi_agent_id=f"{column(text)}-{number}",
            kind=column(text, 64),
            state={"status": text, "nodes": {text: {"result": text}}},
        )
    rows = SessionMessage.objects.filter(session=session, role="user").order_by("id")
    for row, text in zip(rows[: len(texts)], texts, strict=False):
        event = _event(text, session.pk, target=row.pk)
        row.redacted_at, row.redaction = timezone.now(), event.pk
        row.redact_message = {"role": "user", "content": text}
        row.save()


def _event(text: str, session: UUID, target: UUID | None = None) -> AuditEvent:
    return audit.record(
        AuditEvent.Action.REDACTED,
        session=session,
        target=target,
        actor=f"program {column(text)[:140]}",
        reason=text,
        details={column(text): column(text)},
    )


def _strands(text: str) -> list[Any]:
    call = f"id {text}"
    picture = image(parcel(8, 8))
    picture["image"]["format"] = text
    document = {"format": text, "name": text, "source": {"bytes": text.encode("utf-8", "replace")}}
    elsewhere = {"s3Location": {"uri": text, "bucketOwner": text}}
    return [
        {"role": "user", "content": [{"text": f"{text} [REDACTED] [REDACTED:EMAIL]"}]},
        {
            "role": "assistant",
            "content": [
                {"text": text},
                {"reasoningContent": {"reasoningText": {"text": text, "signature": text}}},
                {"toolUse": {"toolUseId": call, "name": text, "input": {text: text, "l": [text]}}},
                {"toolUse": {"toolUseId": text, "name": text, "input": text}},
                {"citationsContent": {
                    "content": [{"text": text}],
                    "citations": [{"title": text, "location": {"web": {"url": text}}},
                                  {"title": text, "sourceContent": [{"text": text}]}],
                }},
                {"guardContent": {"text": {"text": text, "qualifiers": [text]}}},
                {text: text},
                {"unknown": {text: [text]}},
            ],
            "metadata": {"usage": {"inputTokens": text}, "metrics": {"latencyMs": text}},
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": call, "status": "error", "content": [
                    {"text": text}, {"json": {text: [text]}}, {"document": document},
                    picture, {text: text},
                ]}},
                {"toolResult": {"toolUseId": f"none {text}", "status": text, "content": text}},
                {"document": document},
                {"document": {"format": "pdf", "name": text, "source": elsewhere}},
                {"video": {"format": text, "source": elsewhere}},
            ],
        },
    ]  # fmt: skip


def _openai(text: str) -> list[Any]:
    arguments = json.dumps({text: [text, {text: text}]})
    return [
        {"role": "user", "content": [
            {"type": "input_text", "text": text},
            {"type": "input_image", "image_url": text, "detail": text},
            {"type": "input_image", "image_url": f"https://evil.test/{text}"},
            {"type": "input_image", "image_url": f"data:image/svg+xml,{text}"},
            {"type": "input_file", "filename": text, "file_data": f"data:{text};base64,QUJD"},
            {"type": "input_file", "filename": text, "file_url": f"https://evil.test/{text}"},
            {"type": text, text: text},
        ]},
        {"type": "message", "role": "assistant", "id": text, "status": text, "content": [
            {"type": "output_text", "text": text, "annotations": [
                {"type": "url_citation", "url": text, "title": text},
                {"type": "url_citation", "url": f"https://evil.test/{text}", "title": text},
                {"type": "file_citation", "filename": text, "file_id": text},
            ]},
            {"type": "refusal", "refusal": text},
        ]},
        {"type": "reasoning", "id": text, "summary": [{"type": "summary_text", "text": text}]},
        {"type": "function_call", "call_id": f"c {text}", "name": text, "arguments": arguments},
        {"type": "function_call_output", "call_id": f"c {text}", "output": text},
        {"type": "function_call", "call_id": text, "name": text, "arguments": text},
        {"type": "computer_call", "call_id": text, "action": {"type": text, text: text}},
        {"type": "web_search_call", "id": text, "status": text, "action": {"query": text}},
        {"type": text, text: text},
        {"role": text, "content": text},
        {"role": "tool", "tool_call_id": text, "content": text},
    ]  # fmt: skip


def clear() -> None:
    """Removes all that was planted but users and audit events, which say it too."""
    for rows in (SessionMessage.objects, SessionAgent.objects, SessionMultiAgent.objects):
        rows.all()._raw_delete("default")
    Session.objects.all()._raw_delete("default")
    UsageRollup.objects.all().delete()
    UsageCursor.objects.all().delete()
