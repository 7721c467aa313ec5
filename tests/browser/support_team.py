"""A shop with forty customers and three weeks of conversations, for the tasks of a support team.

A customer was promised a refund last Tuesday, and said a card number in five conversations, of
which a tool's result and a file have it, too. Yesterday an agent answered with an expensive model.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.test import override_settings
from django.utils import timezone

from django_agent_sessions import usage
from django_agent_sessions.content import dialects
from django_agent_sessions.models import AuditEvent, Session, SessionAgent, SessionMessage
from django_agent_sessions.values.prices import cost_of
from django_agent_sessions.values.records import Usage
from tests.admin.transcripts import call, result, said
from tests.usage.usage_data import key_made_at

CARD = "4242 4242 4242 4242"
CUSTOMER = "nora.lindqvist"
PROMISE = (
    "I am sorry that the coffee machine arrived broken for the second time. I promise you a full "
    "refund of 249.00 EUR. It will be on your account by Friday."
)
SETTINGS: dict[str, Any] = {
    "PRICES": {
        "claude-opus-4": {"input": 15, "output": 75},
        "claude-haiku-4": {"input": 1, "output": 5},
    },
    "CURRENCY": "EUR",
}
DAYS = 21
SESSIONS = 300
STAFF = ("ines.keller", "tom.baker", "priya.nair")

_DEAR, _CHEAP = SETTINGS["PRICES"]
_FIRST = ("mia", "jonas", "aiko", "lena", "omar", "sofia", "paul", "nina", "hugo", "vera")
_LAST = ("hoffmann", "weber", "tanaka", "fischer")
_TOPICS: tuple[tuple[str, str, str], ...] = (
    (
        "Where is my order?",
        "My order should have come two days ago. Where is it?",
        "It left our warehouse this morning and should arrive tomorrow.",
    ),
    (
        "Change of address",
        "I have moved. Can you send it to my new address?",
        "Yes, I have changed the address of the order.",
    ),
    (
        "Refund has not arrived",
        "You wrote that a refund is possible. Where is it?",
        "The refund was sent last week; banks take up to five working days.",
    ),
    (
        "Return of shoes",
        "The shoes are too small. Can I get a refund?",
        "A refund is not possible after 30 days, but I can offer an exchange.",
    ),
    (
        "Invoice for a company",
        "I need an invoice with our VAT number.",
        "I have attached the invoice with your VAT number.",
    ),
    (
        "Headphones stopped working",
        "The left side is silent since yesterday.",
        "Please hold both buttons for ten seconds. Did that help?",
    ),
    (
        "Cancel my subscription",
        "Please cancel my subscription.",
        "It is cancelled and ends with this month.",
    ),
)


@dataclass(frozen=True)
class Shop:
    """What the tasks are about."""

    tuesday: datetime
    promised: Session
    with_card: list[Session]


def shop() -> Shop:
    """Make everything; the figures of usage, too."""
    chance, now = random.Random(5), timezone.now()
    users = get_user_model().objects
    for name in STAFF:
        users.get_or_create(username=name, defaults={"is_staff": True})
    customers = [users.create_user(f"{first}.{last}") for first in _FIRST for last in _LAST][:39]
    nora = users.create_user(CUSTOMER)
    book = _Book(chance)
    yesterday = (now - timedelta(days=1)).date()
    for number in range(SESSIONS):
        when = _working_hour(chance, now, chance.randrange(1, DAYS + 1))
        title, question, answer = chance.choice(_TOPICS)
        agent = chance.choices(("support", "billing", "research"), (6, 2, 1))[0]
        dear = agent == "research" and when.date() == yesterday
        book.write(
            when,
            chance.choice(customers),
            title,
            _talk(question, answer, chance.randrange(1, 4)),
            agent=agent,
            number=number,
            model=_DEAR if dear else _CHEAP,
            size=9 if dear else 1,
        )
    for number in range(12):
        # Yesterday's long reports, which one agent wrote with the expensive model.
        when = _working_hour(chance, now, 1)
        talk = _talk("Compare our three carriers for October.", "Here is the report.", 4)
        owner = chance.choice(customers)
        book.write(
            when, owner, "Carrier report", talk, agent="research", number=900 + number,
            model=_DEAR, size=14,
        )  # fmt: skip
    tuesday = _last_tuesday(now)
    promised = book.write(tuesday, nora, "Coffee machine, again", _promise(), number=501)
    with_card = [
        book.write(tuesday - timedelta(days=days, hours=days), nora, title, talk, number=510 + days)
        for days, title, talk in _card_talks()
    ]
    book.save()
    _audit(promised, now)
    with override_settings(AGENT_SESSIONS=SETTINGS):
        usage.roll_up(until=now)
    return Shop(tuesday, promised, with_card)


def _working_hour(chance: random.Random, now: datetime, days: int) -> datetime:
    morning = timezone.localtime(now - timedelta(days=days)).replace(hour=8, minute=0, second=0)
    return morning + timedelta(minutes=chance.randrange(9 * 60))


def _last_tuesday(now: datetime) -> datetime:
    day = now.astimezone(UTC) - timedelta(days=1)
    while day.weekday() != 1:
        day -= timedelta(days=1)
    return day.replace(hour=14, minute=20, second=0)


def _talk(question: str, answer: str, rounds: int) -> list[dict[str, Any]]:
    more = [said("user", "Thank you. Anything else I should know?"), said("assistant", "No.")]
    return [said("user", question), said("assistant", answer), *more * (rounds - 1)]


def _promise() -> list[dict[str, Any]]:
    return [
        said("user", "The second coffee machine is broken, too. I have had enough."),
        said("assistant", "Let me look at both orders.", call("o1", "find_orders", customer=77)),
        said("user", result("o1", "2 orders: coffee machine, 249.00 EUR, replaced once")),
        said("assistant", PROMISE),
        said("user", "Thank you. I will wait until Friday, then."),
    ]


def _card_talks() -> Iterator[tuple[int, str, list[dict[str, Any]]]]:
    sorry = said("assistant", "Please never send card numbers in the chat. I have noted it.")
    yield 3, "Payment failed", [said("user", f"Take my card {CARD}, it works elsewhere."), sorry]
    yield (
        5,
        "Payment of a replacement",
        [
            said("user", "Which card do you have of me?"),
            said("assistant", "I look it up.", call("c1", "find_card", customer=77)),
            said("user", result("c1", f"card on file: {CARD}, expires 04/28")),
            said("assistant", "A card that expires in April 2028."),
        ],
    )
    statement = f"Statement of October\ncard {CARD}\ncoffee machine 249.00 EUR\n".encode()
    document = {"document": {"format": "txt", "name": "statement", "source": {"bytes": statement}}}
    yield (
        8,
        "Charged twice",
        [
            said("user", "You charged me twice. My statement is attached.", document),
            said("assistant", "I see one charge on it."),
        ],
    )
    yield 11, "Gift card", [said("user", f"Pay the rest with {CARD}, please."), sorry]
    yield 14, "First order", [said("user", f"I want to pay by card: {CARD}"), sorry]


class _Book:
    """Writes conversations, all at once."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._sessions: list[Session] = []
        self._agents: list[SessionAgent] = []
        self._messages: list[SessionMessage] = []

    def write(
        self,
        when: datetime,
        owner: Any,
        title: str,
        talk: list[dict[str, Any]],
        *,
        number: int,
        agent: str = "support",
        model: str = _CHEAP,
        size: int = 1,
    ) -> Session:
        session = Session(
            id=key_made_at(when),
            session_id=f"chat-{20_000 + number}",
            title=title,
            namespace="shop-eu" if number % 4 else "shop-us",
            owner=owner,
            created_at=when,
        )
        speaker = SessionAgent(
            id=key_made_at(when), session=session, agent_id=agent, dialect=dialects.STRANDS,
            created_at=when,
        )  # fmt: skip
        for position, payload in enumerate(talk):
            moment = when + timedelta(seconds=25 * position)
            self._messages.append(self._row(speaker, position, moment, payload, model, size))
            session.last_activity_at = session.updated_at = moment
        session.message_count = len(talk)
        self._sessions.append(session)
        self._agents.append(speaker)
        return session

    def _row(
        self,
        agent: SessionAgent,
        position: int,
        moment: datetime,
        payload: Any,
        model: str,
        size: int,
    ) -> SessionMessage:
        found = dialects.get(agent.dialect).summary(payload)
        row = SessionMessage(
            id=key_made_at(moment), session=agent.session, agent=agent, message_id=position,
            message=payload, role=found.role, text=found.text,
            created_at=moment, updated_at=moment,
        )  # fmt: skip
        if found.role == "assistant":
            read, written = (
                self._chance.randrange(900, 2600) * size,
                self._chance.randrange(40, 220),
            )
            row.model, row.input_tokens, row.output_tokens = model, read, written
            row.latency_ms = self._chance.randrange(600, 2400) * (1 + size // 4)
            session = agent.session
            session.input_tokens = (session.input_tokens or 0) + read
            session.output_tokens = (session.output_tokens or 0) + written
            cost = cost_of(SETTINGS["PRICES"], model, Usage(0, read, written))
            session.cost = (session.cost or 0) + (cost or 0)
        return row

    def save(self) -> None:
        written: dict[Any, list[Any]] = {
            Session: self._sessions,
            SessionAgent: self._agents,
            SessionMessage: self._messages,
        }
        for model, rows in written.items():
            model._default_manager.bulk_create(rows, batch_size=200)


def _audit(session: Session, now: datetime) -> None:
    """Staff who read the conversation of the promise, and others."""
    users = {user.username: user for user in get_user_model().objects.filter(is_staff=True)}
    others = list(Session.objects.exclude(pk=session.pk).order_by("pk")[:30])
    events = [
        (now - timedelta(hours=3 * number + 2), STAFF[number % 3], row)
        for number, row in enumerate(others)
    ]
    events += [(now - timedelta(hours=20), "ines.keller", session)]
    events += [(now - timedelta(hours=17), "tom.baker", session)]
    AuditEvent.objects.bulk_create(
        AuditEvent(
            id=key_made_at(when), created_at=when, actor=name, actor_id=str(users[name].pk),
            session=row.pk, action=AuditEvent.Action.READ, details={"page": "messages"},
        )
        for when, name, row in sorted(events, key=lambda one: one[0])
    )  # fmt: skip
