"""The documentation that is written by hand stays short enough to be read."""

from __future__ import annotations

import re

from tests.processes import ROOT, repository_files

MOST_WORDS = 40_000
# The tables of what SDKs and clients do are for looking a thing up, and each row has its own test.
TABLES = r"docs/reference/[a-z]+-behaviour\.md"
FENCED = re.compile(r"^ *(`{3,})[^\n]*\n.*?^ *\1`*[ ]*$", re.DOTALL | re.MULTILINE)


def words(page: str) -> int:
    """The number of words outside fenced code; the bars and rules of tables are not words."""
    return sum(any(map(str.isalnum, token)) for token in FENCED.sub("", page).split())


# Git lists the files.
def test_at_most_40_000_words(other_process: None) -> None:
    named = {path.relative_to(ROOT).as_posix(): path for path in repository_files()}
    pages = [name for name in named if re.fullmatch(rf"README\.md|(?!{TABLES})docs/.*\.md", name)]
    assert "README.md" in pages
    assert "docs/tutorial.md" in pages
    counts = {page: words(named[page].read_text(encoding="utf-8")) for page in pages}
    longest = sorted(counts, key=counts.__getitem__, reverse=True)[:10]
    assert sum(counts.values()) <= MOST_WORDS, {page: counts[page] for page in longest}


def test_code_and_bars_do_not_count() -> None:
    code = "```python\ncode\n```\n\n  ````\n  ```\n  code\n  ````\n"
    assert words(f"one *two*\n\n{code}\n| three | – |\n|---|---:|\n\nfour\n") == 4
