"""Names of documents after a redaction: providers refuse odd, empty and equal ones."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import Runner
from strands import Agent

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.content import masking
from django_agent_sessions.governance.redaction import Detect, Find, aredact, redact
from django_agent_sessions.models import Session
from tests.adapters.openai_agents import scripted as openai_models
from tests.adapters.strands import scripted as strands_models

pytestmark = pytest.mark.django_db(transaction=True)

PDF = b"%PDF-1.7"
# What Bedrock accepts.
ACCEPTED = re.compile(r"(?!.*\s\s)[A-Za-z0-9\s()\[\]-]{1,200}")
SECRETS: Any = [Find("Ada"), Find("Bob"), Find("Lovelace"), Detect("email"), Detect("card")]
NAMES = [
    "Ada",
    "Bob",
    "Ada Lovelace",
    "letter of Ada 1",
    "letter of Bob 1",
    "4111 1111 1111 1111",
    "5500 0000 0000 0004",
    "[Ada]",
    "(Ada)",
    "x" * 190 + " Ada Ada",
    "report",
]


def documents(names):
    return [
        {"document": {"format": "pdf", "name": name, "source": {"bytes": PDF}}} for name in names
    ]


def strands_agent():
    return Agent(
        model=strands_models.ScriptedModel(),
        session_manager=DjangoSessionManager("s"),
        callback_handler=None,
    )


def document_names(messages):
    return [
        block["document"]["name"]
        for message in messages
        for block in message["content"]
        if "document" in block
    ]


def is_accepted(names):
    return all(map(ACCEPTED.fullmatch, names)) and len({*names}) == len(names)


def test_redacted_names_of_documents_are_accepted_by_the_provider_in_strands(ada):
    agent = strands_agent()
    for name in NAMES:
        agent([*documents([name]), {"text": "Read it"}])

    redact(Session.objects.get(), *SECRETS, actor=ada, reason="asked")

    # In the running process and in a new one.
    for continued in (agent, strands_agent()):
        continued("And now?")
        names = document_names(continued.model.requests[-1])
        assert len(names) == len(NAMES)
        assert is_accepted(names), names
        assert names[-1] == "report"
        assert not any(word in "".join(names) for word in ("Ada", "Bob", "4111"))


def test_the_files_of_one_message_have_unique_names_after_a_redaction(ada):
    agent = strands_agent()
    agent([*documents(NAMES), {"text": "Read them"}])

    redact(Session.objects.get(), *SECRETS, actor=ada, reason="asked")

    assert is_accepted(document_names(strands_agent().messages))


def test_a_redacted_name_is_redacted_no_further(ada):
    strands_agent()([*documents(["Ada"]), {"text": "Read it"}])
    session = Session.objects.get()
    redact(session, *SECRETS, actor=ada, reason="asked")
    before = document_names(strands_agent().messages)

    redact(session, Find("redacted"), Detect("phone"), actor=ada, reason="asked")

    assert document_names(strands_agent().messages) == before


async def test_redacted_names_of_files_keep_their_extensions_in_openai(ada):
    names = [
        *(f"{name}.pdf" for name in NAMES),
        "Ada",
        "ada@example.com",
        "bob@example.com.pdf",
        "carol@example.de.pdf",
        "pdf of Ada.tar.gz",
    ]
    session = DjangoSession("s")
    model: Any = openai_models.ScriptedModel()
    agent = OpenAIAgent(name="a", model=model)
    data = f"data:application/pdf;base64,{base64.b64encode(PDF).decode()}"
    for name in names:
        file: Any = {"type": "input_file", "filename": name, "file_data": data}
        await Runner.run(agent, [{"role": "user", "content": [file]}], session=session)

    stored = await Session.objects.aget()
    await aredact(stored, *SECRETS, actor=ada, reason="asked")
    await Runner.run(agent, "And now?", session=DjangoSession("s"))

    sent = [
        part["filename"]
        for item in model.requests[-1]
        if isinstance(item.get("content"), list)
        for part in item["content"]
        if part["type"] == "input_file"
    ]
    assert len({*sent}) == len(names)
    assert not any("@" in name for name in sent)
    for before, after in zip(names, sent, strict=True):
        assert before == after or "[REDACTED-" in after
        assert after.endswith(".pdf") == before.endswith(".pdf")


@pytest.mark.parametrize("path", [("content", 0, "document", "name"), ("content", 0, "filename")])
def test_a_part_of_a_name_that_is_redacted_replaces_the_name(path):
    strands = {"role": "user", "content": documents(["letter of Ada"])}
    openai = {"role": "user", "content": [{"type": "input_file", "filename": "of Ada.pdf"}]}
    message = openai if path[-1] == "filename" else strands
    start = 3 if path[-1] == "filename" else 10
    masked = masking.redact_spans(message, path, (start, start + 3))

    value = masked["content"][0]
    name = value["filename"] if "filename" in value else value["document"]["name"]
    assert re.fullmatch(r"(letter )?of \[REDACTED-[g-v]{12}\](\.pdf)?", name)
    assert name.endswith(".pdf") == ("filename" in value)


def test_a_name_of_something_else_is_masked_as_a_text():
    masked, _ = masking.mask_tree({"name": "Ada", "text": "x"}, [masking.TextFinder("Ada")])
    assert masked == {"name": "[REDACTED]", "text": "x"}
