"""What leaves the machine: no example of the documentation sends a run to OpenAI as a trace."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted(ROOT.glob("docs/**/*.md"))]
CODE = [*sorted(ROOT.glob("docs/examples/*.py")), *sorted(ROOT.glob("example_project/**/*.py"))]
METHODS = {"run", "run_sync", "run_streamed"}

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def runs(code: str) -> Iterator[ast.Call]:
    """The calls of the SDK's Runner in a piece of code."""
    # A block of a page may await outside of a function.
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for node in ast.walk(compile(code, "page", "exec", flags)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr in METHODS and ast.unparse(node.func.value).endswith("Runner"):
            yield node


def pieces() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in _BLOCK.findall(page.read_text()):
            if "Runner" in block:
                yield str(page.relative_to(ROOT)), block
    for file in CODE:
        if "Runner" in (text := file.read_text()):
            yield str(file.relative_to(ROOT)), text


@pytest.mark.parametrize(("place", "code"), list(pieces()))
def test_a_run_in_an_example_disables_the_trace_or_is_about_traces(place, code):
    for call in runs(code):
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        config = given.get("run_config", "")
        assert config.lower() in ("untraced", "_run_config") or "trace_config" in config
    if "trace_config" not in code and any(runs(code)):
        # On the page, or in a block before it.
        assert "tracing_disabled=True" in (ROOT / place).read_text()


def test_there_are_such_examples():
    found = [place for place, code in pieces() for _ in runs(code)]

    assert "README.md" in found
    assert "docs/how-to/celery.md" in found
    assert len(found) > 15
