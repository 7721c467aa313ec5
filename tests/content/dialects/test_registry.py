"""Message formats by name: those of the package, a project's own, and unknown ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from django.core.checks import run_checks

from django_agent_sessions.content import dialects
from django_agent_sessions.content.dialects import (
    OPENAI,
    Dialect,
    Part,
    PartKind,
    TranscriptBlock,
    Vocabulary,
)
from django_agent_sessions.content.masking import TextFinder, mask_tree, redact_message

UNKNOWN: dict[str, Any] = {
    "role": "user",
    "squawk": "jane doe",
    "id": "a-1",
    "status": "completed",
    "flags": {"jane doe": True, "text": "jane doe"},
}


class Parrot(Dialect):
    """``{"speaker": "user", "squawk": "Hello"}``."""

    name = "parrot"
    label = "Parrot"
    vocabulary: ClassVar[Vocabulary] = Vocabulary(
        keys=frozenset({"speaker", "squawk"}), names=frozenset({"species"})
    )

    def read(self, payload: Any) -> Iterator[TranscriptBlock]:
        yield TranscriptBlock(("squawk",), (Part(PartKind.TEXT, text=payload["squawk"]),))

    def role(self, payload: dict[str, Any]) -> str:
        return str(payload["speaker"])


class OwnOpenAI(Parrot):
    name = OPENAI


@pytest.fixture
def parrot(settings) -> Dialect:
    settings.AGENT_SESSIONS = {"DIALECTS": [f"{__name__}.Parrot"]}
    return dialects.get("parrot")


def test_a_project_adds_a_format(parrot):
    message = {"speaker": "user", "squawk": "Hello"}

    assert parrot.parts(message) == (Part(PartKind.TEXT, text="Hello"),)
    assert parrot.summary(message).text == "Hello"
    assert parrot.binary_at(message, ("squawk",)) is None
    assert dialects.labels()["parrot"] == "Parrot"


def test_a_format_of_a_project_is_not_known_without_the_setting():
    assert dialects.get("parrot").summary({"squawk": "Hello"}).text == ""
    assert "parrot" not in dialects.labels()


def test_a_project_replaces_a_format_of_the_package(settings):
    settings.AGENT_SESSIONS = {"DIALECTS": [f"{__name__}.OwnOpenAI"]}

    assert dialects.get(OPENAI).parts({"squawk": "Hi"}) == (Part(PartKind.TEXT, text="Hi"),)


def test_a_payload_that_a_format_cannot_read_is_shown_as_json(parrot):
    broken = {"speaker": 5}

    assert parrot.parts(broken) == (Part(PartKind.UNKNOWN, data=broken),)
    assert parrot.summary(broken).text == ""
    assert parrot.tool_calls(broken) == ((), ())
    assert parrot.part_at(broken, ("squawk",)) is None


def test_a_redaction_keeps_what_the_format_of_a_project_names(parrot):
    message = {"speaker": "Jane", "squawk": "I am Jane", "species": "Jane", "Jane": 1}

    masked, _ = mask_tree(message, [TextFinder("Jane")])

    assert masked == {
        "speaker": "[REDACTED]",
        "squawk": "I am [REDACTED]",
        "species": "Jane",
        "[REDACTED]": 1,
    }
    assert redact_message("parrot", message) == dict.fromkeys(
        ("speaker", "squawk", "species"), "[REDACTED]"
    )


def test_a_message_of_an_unknown_format_is_redacted():
    redacted = redact_message("unknown", UNKNOWN)

    assert "jane" not in str(redacted)
    assert redacted["id"] == "a-1"
    assert redacted["status"] == "completed"


def test_a_message_of_an_unknown_name_is_redacted_in_the_format_that_it_has():
    use = {"toolUse": {"toolUseId": "use-1", "name": "search", "input": {"name": "jane doe"}}}

    redacted = redact_message("unknown", {"role": "assistant", "content": [use]})

    assert redacted["content"][0]["toolUse"] == {
        "toolUseId": "use-1",
        "name": "search",
        "input": {},
    }


@pytest.mark.parametrize(
    "path", ["nowhere.Parrot", f"{__name__}.Missing", f"{__name__}.UNKNOWN", "", "Parrot"]
)
def test_a_format_that_does_not_exist_is_reported_and_shown_as_json(settings, path):
    settings.AGENT_SESSIONS = {"DIALECTS": [path]}

    found = [problem.id for problem in run_checks() if "DIALECTS" in problem.msg]

    assert found == ["agent_sessions.E009"]
    assert dialects.get("parrot").parts({"a": 1})[0].kind is PartKind.UNKNOWN
    assert dialects.get(OPENAI).parts({"role": "user", "content": "Hi"})[0].text == "Hi"


def test_a_correct_format_is_not_reported(parrot):
    assert [problem for problem in run_checks() if "DIALECTS" in problem.msg] == []
