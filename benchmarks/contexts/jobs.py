"""Background jobs of Celery and of Django's tasks, by the recipe in ``docs/how-to/celery.md``."""

from __future__ import annotations

import sys
import time
from typing import Any
from uuid import UUID

import django

django.setup()

import strands
from celery import Celery
from django.conf import settings
from django.db import transaction

from benchmarks.contexts.agents import say
from benchmarks.contexts.models import Note
from django_agent_sessions.db.bridge import run_orm
from django_agent_sessions.values.owners import NOBODY
from tests.adapters.strands import scripted
from tests.contexts.job import recipe

if sys.version_info < (3, 12):
    from django_tasks import task
else:
    from django.tasks import task

SECONDS = 0.15
"""How long a model thinks, so that a kill meets it."""

app = Celery("contexts", broker=settings.BROKER, backend=settings.BROKER)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    # A task whose worker was killed is delivered again after this time.
    broker_transport_options={"visibility_timeout": 4},
)
_answer = recipe()["answer"]


def note(text: str) -> str:
    """Notes a text down, once.

    Args:
        text: The text.
    """
    run_orm(Note.objects.get_or_create, text=text)
    return "noted"


def build(manager: Any) -> strands.Agent:
    def choose(messages: Any) -> Any:
        texts = [block["text"] for m in messages for block in m["content"] if "text" in block]
        noted = any("toolResult" in block for block in messages[-1]["content"])
        time.sleep(SECONDS)
        return f"noted {texts[-1]}" if noted else scripted.call("note", text=texts[-1])

    return strands.Agent(
        model=scripted.ScriptedModel(choose=choose),
        tools=[strands.tool(note)],
        session_manager=manager,
        callback_handler=None,
    )


def answer_once(session_id: str, text: str, job_id: str) -> str:
    return str(_answer(build, NOBODY, session_id, text, UUID(job_id)))


def fail_in_transaction(sdk: str, session_id: str, text: str) -> None:
    with transaction.atomic():
        say(sdk, session_id, text)
        raise LookupError(text)


@app.task(name="answer", bind=True)
def celery_answer(self: Any, session_id: str, text: str) -> str:
    return answer_once(session_id, text, self.request.id)


@app.task(name="undo")
def celery_undo(sdk: str, session_id: str, text: str) -> str:
    try:
        fail_in_transaction(sdk, session_id, text)
    except LookupError:
        return "undone"
    raise AssertionError("it did not fail")


@task
def django_answer(session_id: str, text: str, job_id: str) -> str:
    return answer_once(session_id, text, job_id)


@task
def django_undo(sdk: str, session_id: str, text: str) -> str:
    return celery_undo(sdk, session_id, text)
