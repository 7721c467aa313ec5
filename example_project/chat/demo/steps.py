"""The steps of the demonstration, in order. Each runs in a process that knows nothing but its code.

``prepare`` → ``converse`` (ends by killing itself within a graph) → ``carry_on`` → ``redact`` →
``prove``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from django_agent_sessions.governance import redaction
from django_agent_sessions.models import AuditEvent
from django_agent_sessions.store import SessionStore
from django_agent_sessions.usage import roll_up

from . import transcript
from .report import Report
from .search import search

LOGIN = "demo"
"""Name and password of the user whose conversations these are; a local database's only login."""

STRANDS_SESSION = "demo-strands"
OPENAI_SESSION = "demo-openai"
GRAPH_SESSION = "demo-graph"
NAME = "Ada"
SECRET = "4111 1111 1111 1111"


def prepare(report: Report) -> None:
    """Create the tables and the user."""
    call_command("migrate", verbosity=0)
    get_user_model().objects.create_superuser(LOGIN, password=LOGIN)
    report.line("Migrated, and created a user with all permissions.")


def converse(report: Report) -> None:
    """Talk to both agents, then die in the middle of a graph."""
    from example_project.chat import model_choice, openai_agents, strands_agents

    owner = _owner()
    report.line(f"{model_choice.describe_models()}\nThis is process {os.getpid()}.\n")
    report.line(f'Strands agent with tools and a state, session "{STRANDS_SESSION}":')
    agent = strands_agents.concierge(STRANDS_SESSION, owner=owner, title="Strands: a trip")
    for text in (
        f"Hello, my name is {NAME}.",
        "What is the weather in Lisbon?",
        "What is in my calendar on Friday?",
        f"My card number is {SECRET}, for the hotel.",
    ):
        report.read_texts("user", text)
        report.read_texts("assistant", str(agent(text)).strip())
    report.read_texts("state", str(agent.state.get()))
    report.promise(agent.state.get("lookups") > 0, "the tools counted in the agent's state")

    report.line(f'\nOpenAI agent with a tool, session "{OPENAI_SESSION}":')
    for text in (f"Hi! My name is {NAME}.", "What is the weather in Oslo?"):
        report.read_texts("user", text)
        answer = openai_agents.ask(OPENAI_SESSION, text, owner=owner, title="OpenAI: the weather")
        report.read_texts("assistant", answer)

    report.line(f'\nStrands graph, a planner and then a writer, session "{GRAPH_SESSION}":')
    _run_graph_until_killed(report, owner)


def carry_on(report: Report) -> None:
    """Restore both agents and the graph, and continue."""
    from example_project.chat import openai_agents, strands_agents

    owner = _owner()
    report.line(f"This is process {os.getpid()}.\n\nStrands agent:")
    agent = strands_agents.concierge(STRANDS_SESSION, owner=owner)
    calls = sum("toolUse" in block for message in agent.messages for block in message["content"])
    state = agent.state.get()
    report.read_texts("restored", f"{len(agent.messages)} messages, state {state}")
    report.promise(
        state.get("lookups") == calls > 0, "its state counts the tool calls of the dead process"
    )
    answer = _ask(report, agent, "What did I tell you my name was?")
    report.promise(NAME in answer, "it remembers the name from the other process")
    _ask(report, agent, "Do you have my card number?")

    report.line("\nOpenAI agent:")
    for text, remembered in (
        ("What is my name?", NAME),
        ("Which city did I ask about?", "Oslo"),
    ):
        report.read_texts("user", text)
        answer = openai_agents.ask(OPENAI_SESSION, text, owner=owner)
        report.read_texts("assistant", answer)
        report.promise(remembered in answer, f"it remembers {remembered} from the other process")

    report.line("\nStrands graph:")
    _resume_graph(report, owner)


def redact(report: Report) -> None:
    """Redact the secret everywhere in the session; no SDK is needed."""
    session = SessionStore(owner=_owner()).get(STRANDS_SESSION)
    _count(report, "before", expected=True)
    secret, reason = redaction.Find(SECRET), f"Ada asked to forget {SECRET}"
    preview = redaction.redact(session.id, secret, reason=reason, dry_run=True)
    for hit in preview.hits:
        report.read_texts("found", f"{hit.place}: {hit.before} -> {hit.after}")
    report.promise(bool(preview.hits), "a dry run lists every place and changes nothing")
    redaction.redact(session.id, secret, reason=reason, actor=_owner())
    report.line("  redact(session.id, Find(…), reason=…, actor=user)")
    event = AuditEvent.objects.get(action=AuditEvent.Action.REDACTED)
    report.read_texts("audit", f"{event.actor} {event.get_action_display()}: {event.reason}")
    report.promise(
        not _holds(event.reason, SECRET), "the audit trail has the reason, without the number"
    )
    # While this process has the database open, its write-ahead log is there to be searched too.
    _count(report, "after", expected=False)


def prove(report: Report) -> None:
    """Restore a third time without the secret, and print the transcripts."""
    from example_project.chat import strands_agents

    owner = _owner()
    report.line(f"This is process {os.getpid()}.\n")
    agent = strands_agents.concierge(STRANDS_SESSION, owner=owner)
    report.read_texts("restored", f"{len(agent.messages)} messages, state {agent.state.get()}")
    report.promise(
        not _holds(agent.messages, SECRET), "the agent's conversation does not contain the number"
    )
    answer = _ask(report, agent, "What did I tell you my name was?")
    report.promise(NAME in answer, "the conversation continues, and the agent remembers the rest")
    _ask(report, agent, "Do you have my card number?")

    report.heading("The transcripts in the database")
    store = SessionStore(owner=owner)
    for session in reversed(store.sessions.list()):
        used = session.usage
        report.line(
            f'\nSession "{session.session_id}": {session.title} ({used.messages} messages, '
            f"{used.input_tokens} tokens in, {used.output_tokens} out)"
        )
        for conversation in transcript.conversations(store, session):
            report.conversation(conversation)
    # For the figures in the admin; a site runs agent_sessions_roll_up_usage every hour.
    roll_up(until=timezone.now())


STEPS: dict[str, Callable[[Report], None]] = {
    step.__name__: step for step in (prepare, converse, carry_on, redact, prove)
}
"""The steps by name."""


def _owner() -> Any:
    return get_user_model().objects.get(username=LOGIN)


def _ask(report: Report, agent: Any, text: str) -> str:
    report.read_texts("user", text)
    answer = str(agent(text)).strip()
    report.read_texts("assistant", answer)
    return answer


def _run_graph_until_killed(report: Report, owner: Any) -> None:
    from strands.hooks import BeforeNodeCallEvent

    from example_project.chat.strands_agents import trip_graph

    graph = trip_graph(GRAPH_SESSION, owner=owner, title="Graph: a letter about Lisbon")

    def die_before_the_writer(event: BeforeNodeCallEvent) -> None:
        report.read_texts("node", event.node_id)
        if event.node_id == "writer":
            report.line("  This process now kills itself (SIGKILL), before the writer writes.")
            os.kill(os.getpid(), signal.SIGKILL)

    graph.add_hook(die_before_the_writer, BeforeNodeCallEvent)
    task = "A weekend in Lisbon"
    report.read_texts("task", task)
    graph(task)


def _resume_graph(report: Report, owner: Any) -> None:
    from strands.hooks import BeforeNodeCallEvent

    from example_project.chat.strands_agents import trip_graph

    ran: list[str] = []

    def note(event: BeforeNodeCallEvent) -> None:
        report.read_texts("node", event.node_id)
        ran.append(event.node_id)

    graph = trip_graph(GRAPH_SESSION, owner=owner)
    graph.add_hook(note, BeforeNodeCallEvent)
    result = graph("A weekend in Lisbon")
    for node in result.execution_order:
        report.read_texts(node.node_id, str(result.results[node.node_id].result).strip())
    report.promise(ran == ["writer"], "only the writer ran; the planner's result was restored")
    report.promise(result.status.value == "completed", "the graph ended with its result")


def _count(report: Report, when: str, *, expected: bool) -> None:
    found = search(Path(str(connection.settings_dict["NAME"])), SECRET)
    counts = ", ".join(f"{count} in {name}" for name, count in found.items())
    report.read_texts(when, f"bytes of the card number: {counts}")
    if expected:
        report.promise(sum(found.values()) > 0, "the search finds the number where it is")
    else:
        report.promise(
            sum(found.values()) == 0, f"the number is in none of the {len(found)} files any more"
        )


def _holds(value: Any, text: str) -> bool:
    return text in repr(value)
