"""The recipes of the documentation, by their headings."""

from __future__ import annotations

import re
from typing import Any

from tests.processes import ROOT

PAGE = (ROOT / "docs" / "how-to" / "recipes.md").read_text()
RECIPES = {
    section.partition("\n")[0]: re.findall(r"```(?:python|console)\n(.*?)```", section, re.DOTALL)
    for section in PAGE.split("\n## ")[1:]
}


def pasted(recipe: str, **given: Any) -> dict[str, Any]:
    """The names that a recipe defines, with those that it takes from the project."""
    namespace = {"__name__": "recipe", **given}
    exec(RECIPES[recipe][0], namespace)  # noqa: S102 - our own page
    return namespace
