"""Runs the code of ADDING_AN_ADAPTER.md, so that the page stays true."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from django_agent_sessions.content import dialects, masking
from django_agent_sessions.content.dialects import Part, PartKind
from django_agent_sessions.exceptions import MissingDependencyError
from tests.adapters.processes import start_worker

PAGE = Path(__file__).resolve().parent.parent / "ADDING_AN_ADAPTER.md"
ADAPTER, FORMAT, CONTRACT_TEST = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M)
NAME = "django_agent_sessions.adapters.parrot"
FORMAT_NAME = "tests.parrot_format"


def run(code: str, name: str) -> dict[str, Any]:
    module = ModuleType(name)
    exec(compile(code, f"{PAGE.name}: {name}", "exec"), vars(module))  # noqa: S102 - our own page
    sys.modules[name] = module
    return vars(module)


class Agent:
    """The agent of the imaginary SDK, whose tricks and answers a script says."""

    def __init__(self, memory: Any, script: Sequence[Any]) -> None:
        self.memory = memory
        self.script = script

    def talk(self, prompt: str) -> list[Any]:
        """Says the script, and returns what was in the memory before its last step."""
        self.memory.save([{"speaker": "user", "words": prompt}])
        heard: list[Any] = []
        for step in self.script:
            heard = self.memory.load()
            self.memory.save(
                [{"speaker": "parrot", "words": step}]
                if isinstance(step, str)
                else [
                    {
                        "speaker": "parrot",
                        "trick": step.tool,
                        "given": step.arguments,
                        "feather_id": step.id,
                    },
                    {
                        "speaker": "perch",
                        "words": f"registered {step.arguments['name']}",
                        "feather_id": step.id,
                    },
                ]
            )
        return heard


def with_the_sdk() -> Any:
    """The page's test class, made while the imaginary SDK and its adapter can be imported."""
    sdk = ModuleType("parrot")
    vars(sdk).update(Memory=type("Memory", (), {}), Parrot=Agent)
    sys.modules["parrot"] = sdk
    run(FORMAT, FORMAT_NAME)
    try:
        run(ADAPTER, NAME)
        return run(CONTRACT_TEST, "tests.adapters.parrot.test_contract")["TestParrot"]
    finally:
        for name in ("parrot", NAME, "tests.adapters.parrot.test_contract"):
            sys.modules.pop(name, None)


class TestParrot(with_the_sdk()):  # type: ignore[misc] # the class is in a page
    start = staticmethod(start_worker)

    @pytest.fixture(autouse=True)
    def _format(self, settings):
        settings.AGENT_SESSIONS = {"DIALECTS": [f"{FORMAT_NAME}.Parrot"]}


def test_without_the_sdk_the_adapter_names_its_extra():
    with pytest.raises(MissingDependencyError, match=r"django-agent-sessions\[parrot\]"):
        run(ADAPTER, NAME)
    assert NAME not in sys.modules


def test_a_format_of_its_own_is_read_and_redacted(settings):
    settings.AGENT_SESSIONS = {"DIALECTS": [f"{FORMAT_NAME}.Parrot"]}
    message = {"speaker": "parrot", "words": "I am Polly", "data": {"age": 5}}

    assert dialects.get("parrot").parts(message) == (Part(PartKind.TEXT, text="I am Polly"),)
    assert dialects.get("parrot").summary(message)[:2] == ("assistant", "I am Polly")
    assert masking.redact_message("parrot", message) == {
        "speaker": "parrot",
        "words": "[REDACTED]",
        "data": {},
    }


NAMED = set(re.findall(r"`([a-z_./]+\.(?:py|md|toml))`", PAGE.read_text()))


@pytest.mark.parametrize("path", sorted(path for path in NAMED if "parrot" not in path))
def test_the_files_that_the_page_names_exist(path):
    root = PAGE.parent

    assert (root / path).exists() or (root / "django_agent_sessions" / path).exists()
