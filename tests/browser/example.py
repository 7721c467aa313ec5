"""A shop's support conversations: what the pictures in the documentation show.

What is said is made up; the tests of the browser read, find and redact it, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.test import override_settings
from django.utils import timezone

from django_agent_sessions import usage
from django_agent_sessions.content import dialects
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import (
    MessageFeedback,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import add_known
from tests.admin.transcripts import call, result, said
from tests.usage.usage_data import key_made_at

from .pictures import parcel

CARD = "4111 1111 1111 1111"
"""What is redacted before anybody looks."""

SECRET = "DE89 3704 0044 0532 0130 00"
"""What is redacted in the browser."""

_OWNERS = (
    "mia.hoffmann",
    "jonas.weber",
    "aiko.tanaka",
    "lena.fischer",
    "omar.haddad",
    "sofia.ruiz",
)
_TITLES = (
    "Where is my order 48213?",
    "Change of delivery address",
    "Invoice for a company",
    "Headphones stopped working",
    "Cancel my subscription",
    "Gift card is not accepted",
    "Two parcels, one missing",
    "Wrong size, exchange",
    "Warranty of a coffee machine",
    "Password reset does not arrive",
    "Bulk order for a school",
    "Refund has not arrived",
)


def image(data: bytes) -> dict[str, Any]:
    """A block with a picture, as it comes back from the database."""
    return {"image": {"format": "png", "source": {"bytes": data}}}


def spent(message: dict[str, Any], read: int, written: int, latency: int) -> dict[str, Any]:
    """A message of a model with its figures."""
    usage_of_it = {"inputTokens": read, "outputTokens": written, "totalTokens": read + written}
    return {**message, "metadata": {"usage": usage_of_it, "metrics": {"latencyMs": latency}}}


def write(agent: SessionAgent, messages: Iterable[tuple[datetime, Any]]) -> list[SessionMessage]:
    """Writes messages at chosen times, behind those that the agent has, and counts them."""
    first = agent.messages.count()
    rows = [
        _row(agent, number, when, payload) for number, (when, payload) in enumerate(messages, first)
    ]
    SessionMessage.objects.bulk_create(rows, batch_size=200)
    session = agent.session
    session.message_count += len(rows)
    for name in ("input_tokens", "output_tokens"):
        known = add_known(getattr(session, name), *(getattr(row, name) for row in rows))
        setattr(session, name, known)
    if rows:
        session.last_activity_at = rows[-1].created_at
    session.save()
    return rows


def _row(agent: SessionAgent, number: int, when: datetime, payload: Any) -> SessionMessage:
    found = dialects.get(agent.dialect).summary(payload)
    return SessionMessage(
        id=key_made_at(when),
        session=agent.session,
        agent=agent,
        message_id=number,
        message=payload,
        role=found.role,
        text=found.text,
        input_tokens=found.input_tokens,
        output_tokens=found.output_tokens,
        latency_ms=found.latency_ms,
        created_at=when,
        updated_at=when,
    )


def owner(name: str) -> Any:
    """A user of the shop."""
    return get_user_model().objects.get_or_create(username=name)[0]


def conversation(began: datetime | None = None) -> Session:
    """A customer, an agent that answers, and one that pays back."""
    began = began or timezone.now() - timedelta(minutes=20)
    session = Session.objects.create(
        id=key_made_at(began),
        session_id="support-2024-71835",
        title="Parcel arrived damaged, refund wanted",
        namespace="shop-eu",
        owner=owner("mia.hoffmann"),
        metadata={"channel": "web chat", "locale": "de-DE", "order": 71835},
        created_at=began,
    )
    support = SessionAgent.objects.create(
        session=session,
        agent_id="support",
        dialect=dialects.STRANDS,
        state={"customer": {"tier": "gold", "since": 2019}, "open_tickets": 1},
        conversation_manager_state={"removed_message_count": 0, "summary": None},
        created_at=began,
    )
    billing = SessionAgent.objects.create(
        session=session,
        agent_id="billing",
        dialect=dialects.STRANDS,
        state={"refund": {"amount": "34.90", "currency": "EUR"}},
        created_at=began,
    )
    SessionMultiAgent.objects.create(
        session=session,
        multi_agent_id="support-graph",
        kind="graph",
        state={
            "status": "completed",
            "completed_nodes": ["triage", "refund"],
            "execution_order": ["triage", "refund"],
        },
    )

    def at(seconds: float) -> datetime:
        return began + timedelta(seconds=seconds)

    write(support, ((at(seconds), message) for seconds, message in _support()))
    write(billing, ((at(seconds), message) for seconds, message in _billing()))
    write(support, ((at(seconds), message) for seconds, message in _end()))
    _rate(support)
    redact(
        session.pk,
        Find(CARD),
        reason="Card number in a chat, ticket 5120",
        actor=owner("ines.keller"),
    )
    return session


def _rate(agent: SessionAgent) -> None:
    """What the customer and a colleague think of the first answer."""
    answer = SessionMessage.objects.get(agent=agent, branch=0, message_id=2)
    feedback = SessionStore(owner=EVERYBODY).feedback
    feedback.save(answer.pk, 1, user=owner("mia.hoffmann"))
    comment = "It should have asked for a photo of the label, too."
    reviewer = owner("ines.keller")
    feedback.save(answer.pk, -1, comment=comment, source="reviewer", user=reviewer)


def _support() -> list[tuple[float, Any]]:
    lookup = call("t1", "find_order", customer="mia.hoffmann", number=71835)
    tracking = call("t2", "track_parcel", carrier="DHL", code="JJD0099", history=True)
    stock = call("t3", "check_stock", article="tea-pot-glass-1.2l", warehouse="leipzig")
    return [
        (0, said("user", "Hello! My order 71835 came today, but the box is dented and the glass "
                 f"teapot inside is broken. I paid with card {CARD}. Can I get my money back?")),
        (4, said("user", "This is how it looked:", image(parcel(264, 168)))),
        (11, spent(said(
            "assistant",
            {"reasoningContent": {"reasoningText": {"text":
                "The customer reports damage in transit. I need the order and what the carrier "
                "recorded. A refund of up to 50 EUR needs no approval; above that a person decides."
            }}},
            "I am sorry to hear that. Let me look at your order and at what the carrier recorded.",
            lookup, tracking, stock), 1834, 112, 2140)),
        (14, said("user",
            result("t1", '{"order": 71835, "article": "Glass teapot 1.2 l", "paid": "34.90 EUR"}'),
            result("t2", "2 events: handed over undamaged; delivered 10:42, no note of damage"),
            result("t3", "warehouse service answered 503 after 3 attempts", "error"))),
        (19, spent(said("assistant",
            "I found it. Here is what I see:\n\n"
            "| | |\n|---|---|\n| **Order** | 71835, *Glass teapot 1.2 l* |\n"
            "| **Paid** | 34.90 EUR |\n| **Delivered** | today, 10:42 |\n\n"
            "You have two choices:\n\n"
            "1. a **full refund**, within three working days, or\n"
            "2. a **new teapot**, as soon as I can see the stock again.\n\n"
            "Your photo is enough as proof; you need not send anything back."), 2410, 164, 2890)),
        (64, said("user", "The refund, please. My card has expired meanwhile, so could you use my "
                  f"bank account instead? It is {SECRET}, Mia Hoffmann.")),
        (69, spent(said("assistant", "Of course. I hand this over to billing.",
            call("t4", "hand_over", to="billing", why="refund to a bank account")),
            2655, 48, 1310)),
        (70, said("user", result("t4", "billing has taken over"))),
    ]  # fmt: skip


def _billing() -> list[tuple[float, Any]]:
    return [
        (72, spent(said("assistant", "I check the account and prepare the refund.",
            call("b1", "validate_iban", country="DE", checksum=True),
            call("b2", "prepare_refund", order=71835, amount="34.90", currency="EUR")),
            980, 71, 1620)),
        (77, said("user", result("b1", "valid"), result("b2", "refund RF-20931 prepared"))),
        (80, spent(said("assistant",
            "Refund **RF-20931** over 34.90 EUR is on its way to your bank account. "
            "It takes up to three working days."), 1204, 52, 1180)),
    ]  # fmt: skip


def _end() -> list[tuple[float, Any]]:
    return [
        (95, said("user", "That was quick, thank you!")),
        (98, spent(said("assistant", "You are welcome, and sorry again for the broken teapot. "
                        "Is there anything else that I can do?"), 2790, 24, 910)),
    ]  # fmt: skip


_RATED = {1: (1,), 2: (-1,), 4: (1, -1), 8: (0,)}
"""The feedback in some of the other conversations."""


def others(count: int = 36) -> None:
    """Further conversations for a list, with every flag among them."""
    chance = random.Random(7)
    now = timezone.now()
    for number in range(count):
        when = now - timedelta(minutes=35 + number * 47)
        session = Session.objects.create(
            id=key_made_at(when),
            session_id=f"support-2024-{71830 - number}",
            title=_TITLES[number % len(_TITLES)],
            namespace="shop-eu",
            owner=owner(_OWNERS[number % len(_OWNERS)]),
            legal_hold=number == 3,
            redactions=int(number in {1, 3, 8}),
            archived_at=when if number == 5 else None,
            expires_at=now - timedelta(days=1) if number == 7 else None,
            created_at=when,
        )
        openai = number % 3 == 1
        dialect = dialects.OPENAI if openai else dialects.STRANDS
        names = ["default"] if openai else ["support", "billing"][: 1 + (number % 4 == 0)]
        for name in names:
            SessionAgent.objects.create(session=session, agent_id=name, dialect=dialect)
        session.message_count = chance.randrange(4, 60)
        session.input_tokens = session.message_count * chance.randrange(300, 1900)
        session.output_tokens = session.message_count * chance.randrange(20, 90)
        session.cost = session.input_tokens * 1_000 + session.output_tokens * 5_000
        session.last_activity_at = when
        session.save()
        for value in _RATED.get(number, ()):
            MessageFeedback.objects.create(
                id=key_made_at(when),
                session=session,
                message_id=new_id(),
                value=value,
                created_at=when,
            )


WITH_PRICES = {
    "PRICES": {
        "claude-sonnet-4": {"input": 3, "output": 15},
        "claude-haiku-4": {"input": 1, "output": 5},
    },
    "CURRENCY": "EUR",
}
"""Settings with which costs are counted and shown."""


def dear_day() -> date:
    """The day on which one agent changed its model."""
    return timezone.localdate() - timedelta(days=1)


def usage_of_90_days() -> None:
    """Three agents and six owners, busier during the week, rolled up; yesterday is expensive."""
    chance = random.Random(11)
    now = timezone.localtime()
    sessions: list[Session] = []
    agents: list[SessionAgent] = []
    rows: list[SessionMessage] = []
    owners = [owner(name) for name in _OWNERS]
    for day in range(90):
        morning = (now - timedelta(days=day)).replace(hour=9, minute=0, second=0)
        dear_today = morning.date() == dear_day()
        busy = (0.35 if morning.weekday() >= 5 and not dear_today else 1) * (1.35 - day / 120)
        for number in range(1 + round(5 * busy * chance.uniform(0.7, 1.2))):
            when = morning + timedelta(minutes=9 * number)
            who = chance.choices(owners, (9, 7, 5, 3, 2, 1))[0]
            session = Session(
                id=key_made_at(when),
                session_id=f"day {day} {number}",
                namespace="shop-eu" if number % 3 else "shop-us",
                owner=who,
                created_at=when,
                last_activity_at=when,
            )
            name = chance.choices(("support", "billing", "research"), (6, 2, 1))[0]
            agent = SessionAgent(session=session, agent_id=name, dialect="strands")
            sessions.append(session)
            agents.append(agent)
            dear = name == "research" or dear_today
            rows += _busy(chance, agent, when, "claude-sonnet-4" if dear else "claude-haiku-4")
    Session.objects.bulk_create(sessions, batch_size=200)
    SessionAgent.objects.bulk_create(agents, batch_size=200)
    SessionMessage.objects.bulk_create(rows, batch_size=200)
    with override_settings(AGENT_SESSIONS=WITH_PRICES):
        usage.roll_up(until=now + timedelta(days=1))
    # The figures stay; the list shows conversations with more in them. Raw, because to delete one
    # in the usual way would be audited.
    for model in (SessionMessage, SessionAgent, Session):
        model._default_manager.all()._raw_delete("default")


def _busy(
    chance: random.Random, agent: SessionAgent, when: datetime, model: str
) -> list[SessionMessage]:
    return [
        SessionMessage(
            id=key_made_at(when + timedelta(seconds=20 * position)),
            session=agent.session,
            agent=agent,
            message_id=position,
            message={},
            role="assistant" if position % 2 else "user",
            created_at=when,
            input_tokens=chance.randrange(800, 4200) if position % 2 else None,
            output_tokens=chance.randrange(30, 420) if position % 2 else None,
            latency_ms=int(chance.lognormvariate(7.3, 0.5)) if position % 2 else None,
            model=model if position % 2 else "",
        )
        for position in range(chance.randrange(4, 10))
    ]
