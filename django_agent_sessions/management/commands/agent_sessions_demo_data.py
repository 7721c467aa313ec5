"""Fill a site in development with plausible sessions."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import CommandError, CommandParser
from django.db import Error, models, transaction
from django.utils import timezone

from django_agent_sessions.management.options import add_database, get_database
from django_agent_sessions.management.terminal import StoppableCommand, pluralize
from django_agent_sessions.models import Session
from django_agent_sessions.models.users import users
from django_agent_sessions.store import SessionStore
from django_agent_sessions.usage import roll_up
from django_agent_sessions.values.ids import SessionKey, id_for_time
from django_agent_sessions.values.owners import NOBODY
from django_agent_sessions.values.records import NewMessage, Usage

_NAMESPACE = "demo"
_MAX_SESSIONS, _MAX_USERS = 10_000, 1000
_DAYS = 60
_MAX_TURNS = 6
_MODELS = ("gpt-5", "gpt-5-mini", "claude-sonnet-4-5")
_TEAMS = ("blue", "green", "red")
_TOPICS = {
    "Order {number}": (
        ("Where is my order {number}?", "Order {number} left our warehouse yesterday."),
        ("Can I still change the address?", "No, but the carrier can hold it at a shop near you."),
        ("Then hold it, please.", "Done. You will get a message when it is there."),
    ),
    "Invoice {number}": (
        ("I was charged twice, see invoice {number}.", "I see two payments of the same amount."),
        ("Please refund one of them.", "The refund of invoice {number} takes three days."),
    ),
    "A weekend in Lisbon": (
        ("What can we do in Lisbon with children?", "The aquarium, the tram 28 and the beach."),
        ("Which beach?", "Carcavelos: half an hour by train, and the water is calm."),
        ("And if it rains?", "The science museum in Parque das Nações."),
    ),
    "Summary of a meeting": (
        ("Summarize our notes in three points.", "1. The release moves. 2. Two bugs. 3. Hiring."),
        ("Who has to do what?", "Ada writes the plan, Grace fixes the bugs, Edsger interviews."),
    ),
}


def _number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isdecimal() and least <= int(text) <= most):
            raise ArgumentTypeError(f"use a whole number from {least} to {most}")
        return int(text)

    return parse


class Command(StoppableCommand):
    """``manage.py agent_sessions_demo_data``: repeating it with the same seed adds nothing."""

    help = (
        f"Creates sessions with invented conversations in the namespace {_NAMESPACE!r}, and users "
        "who own them and cannot log in. Refused if DEBUG is off."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--sessions",
            type=_number(1, _MAX_SESSIONS),
            default=50,
            help=f"The number of sessions, at most {_MAX_SESSIONS}. Default: 50.",
        )
        parser.add_argument(
            "--users",
            type=_number(0, _MAX_USERS),
            default=5,
            help=f"The number of users, at most {_MAX_USERS}; 0 creates sessions without an owner. "
            "Default: 5.",
        )
        parser.add_argument(
            "--seed", type=int, default=0, help="Another number creates other sessions."
        )
        parser.add_argument("--force", action="store_true", help="Also if DEBUG is off.")
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if not (settings.DEBUG or options["force"]):
            raise CommandError(
                "DEBUG is off, so this may be a site in production: use --force to create invented "
                "sessions there"
            )
        alias, seed = get_database(options), options["seed"]
        owners = [_demo_user(number, alias) for number in range(1, options["users"] + 1)]
        created = 0
        for number in range(options["sessions"]):
            # Of its own, so that a session does not depend on how many there are.
            random = Random(f"{seed}-{number}")  # noqa: S311 - invented data, no secret
            owner = random.choice(owners) if owners else NOBODY
            created += _create(f"demo-{seed}-{number}", owner, random, alias)
        roll_up(until=timezone.now(), using=alias)
        existing = options["sessions"] - created
        self.stdout.write(
            f"{pluralize(created, 'session')} created in the namespace {_NAMESPACE!r}"
            + (f", {existing} existed" if existing else "")
        )


def _demo_user(number: int, using: str) -> Any:
    model: Any = get_user_model()
    field = model._meta.get_field(model.USERNAME_FIELD)
    name = f"demo-{number}"
    name = f"{name}@example.org" if isinstance(field, models.EmailField) else name
    found = users(using).filter(**{field.name: name}).first()
    if found is not None:
        return found
    user = model(**{field.name: name})
    user.set_unusable_password()
    try:
        with transaction.atomic(using=users(using).db):
            user.save(using=users(using).db)
    except (Error, TypeError, ValueError) as error:
        raise CommandError(
            f"a {model._meta.label} cannot be created from a name only: use --users 0"
        ) from error
    return user


def _create(session_id: str, owner: Any, random: Random, using: str) -> bool:
    store = SessionStore(owner=owner, namespace=_NAMESPACE, using=using)
    rows = Session.objects.using(using).filter_key(SessionKey(_NAMESPACE, "", session_id))
    if rows.exists():
        return False
    begin = timezone.now() - timedelta(minutes=random.randrange(60, _DAYS * 24 * 60))
    title, turns = random.choice(list(_TOPICS.items()))
    number = random.randrange(1000, 10_000)
    openai = random.choice((True, False))
    with transaction.atomic(using):
        session = store.create(
            session_id,
            title=title.format(number=number),
            metadata={"team": random.choice(_TEAMS)},
            id=id_for_time(begin, number),
            created_at=begin,
        )
        agent = store.agents.open(session, dialect="openai" if openai else "strands")
        messages = list(_messages(turns, number, begin, openai, random))
        store.append_many(agent, messages)
        last = messages[-1].created_at
        rows.update(last_activity_at=last, updated_at=last)
    return True


def _messages(
    turns: Any, number: int, begin: datetime, openai: bool, random: Random
) -> Iterator[NewMessage]:
    moment = begin
    model = random.choice(_MODELS)
    for question, answer in turns[: random.randrange(1, _MAX_TURNS)]:
        for role, text in (("user", question), ("assistant", answer)):
            said = text.format(number=number)
            moment += timedelta(seconds=random.randrange(2, 90))
            payload: dict[str, Any] = {"role": role, "content": [{"text": said}]}
            if openai:
                payload["content"] = said
            if role == "user":
                yield NewMessage(payload, id_for_time(moment, 0), moment)
                continue
            tokens = random.randrange(200, 4000), len(said) // 4
            spent = Usage(input_tokens=tokens[0], output_tokens=tokens[1]) if openai else None
            if not openai:
                usage = zip(("inputTokens", "outputTokens"), tokens, strict=True)
                payload["metadata"] = {"usage": dict(usage)}
            yield NewMessage(payload, id_for_time(moment, 0), moment, usage=spent, model=model)
