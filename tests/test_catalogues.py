"""Every string that people see has a translation, in each language of the catalogues."""

from __future__ import annotations

import gettext
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract
from babel.messages.pofile import read_po
from django.utils.translation.template import templatize

ROOT = Path(__file__).parent.parent
LANGUAGES = ("de", "es", "fr", "ja")
DOMAINS = (
    ("django_agent_sessions", "django"),
    ("example_project/chat", "django"),
    ("example_project/chat", "djangojs"),
)
# The functions that Django's makemessages looks for, beside those that Babel knows.
KEYWORDS: Any = {
    "_": None,
    "gettext": None,
    "gettext_noop": None,
    "gettext_lazy": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
    "npgettext_lazy": ((1, "c"), 2, 3),
}
# ``%(name)s``, ``%s``, ``%%``, and the tags of HTML.
PLACEHOLDER = re.compile(r"%\(\w+\)[a-z]|%[a-z%]|</?\w+>")
# A template writes a translation into an attribute as it is.
UNESCAPED = set('<>&"')

Key = tuple[str | None, str | tuple[str, ...]]


def sources(folder: str, domain: str) -> Iterator[tuple[str, bytes]]:
    """The kind and the text of each file that may have strings of a domain."""
    suffixes = {".js": "javascript"} if domain == "djangojs" else {".py": "python", ".html": "html"}
    for path in sorted((ROOT / folder).rglob("*")):
        kind = suffixes.get(path.suffix)
        text = path.read_text() if kind else ""
        if kind == "html":
            # As makemessages does it: the tags of a template become calls of gettext. In
            # parentheses, the rest needs no indentation of Python.
            yield "python", f"({templatize(text)})".encode()
        elif kind and "gettext" in text:
            yield kind, text.encode()


@cache
def marked(folder: str, domain: str) -> set[Key]:
    """The strings that the code marks for translation now."""
    found: set[Key] = set()
    for kind, text in sources(folder, domain):
        for _, names, _, context in extract(kind, BytesIO(text), KEYWORDS):
            found.add((context, tuple(names) if isinstance(names, (list, tuple)) else names))
    return found


def catalogue(folder: str, domain: str, language: str) -> Catalog:
    path = ROOT / folder / "locale" / language / "LC_MESSAGES" / f"{domain}.po"
    return read_po(BytesIO(path.read_bytes()), locale=language, abort_invalid=True)


def messages(catalog: Catalog) -> dict[Key, Message]:
    return {(each.context, _id(each.id)): each for each in catalog if each.id}


def _id(value: Any) -> str | tuple[str, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else value


def forms_of(value: Any) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def in_each_language() -> Any:
    return pytest.mark.parametrize(
        ("folder", "domain", "language"),
        [(*domain, language) for domain in DOMAINS for language in LANGUAGES],
    )


@in_each_language()
def test_a_catalogue_has_all_strings_and_no_other_ones(
    folder: str, domain: str, language: str
) -> None:
    known, now = messages(catalogue(folder, domain, language)), marked(folder, domain)
    assert sorted(now - set(known), key=str) == [], "not in the catalogue; run `make messages`"
    assert sorted(set(known) - now, key=str) == [], "obsolete; run `make messages`"


@in_each_language()
def test_each_string_is_translated(folder: str, domain: str, language: str) -> None:
    catalog = catalogue(folder, domain, language)
    missing = [key for key, each in messages(catalog).items() if not all(forms_of(each.string))]
    assert missing == []
    assert [key for key, each in messages(catalog).items() if each.fuzzy] == []
    assert not catalog.obsolete


@in_each_language()
def test_a_translation_has_the_placeholders_and_markup_of_its_string(
    folder: str, domain: str, language: str
) -> None:
    wrong = []
    for key, each in messages(catalogue(folder, domain, language)).items():
        of_source = [Counter(PLACEHOLDER.findall(one)) for one in forms_of(each.id)]
        forms = forms_of(each.string)
        for index, form in enumerate(forms):
            # A language with one form uses it for all numbers.
            may = of_source if len(forms) > 1 and index == 0 else of_source[-1:]
            markup = UNESCAPED & set(form) - set("".join(forms_of(each.id)))
            if markup or Counter(PLACEHOLDER.findall(form)) not in may:
                wrong.append((key, form))
    assert wrong == []


@in_each_language()
def test_the_compiled_catalogue_is_that_of_the_source(
    folder: str, domain: str, language: str
) -> None:
    path = ROOT / folder / "locale" / language / "LC_MESSAGES" / f"{domain}.mo"
    with path.open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    for (context, names), each in messages(catalogue(folder, domain, language)).items():
        first = names if isinstance(names, str) else names[0]
        key = f"{context}\x04{first}" if context else first
        for index, form in enumerate(forms_of(each.string)):
            stored = compiled._catalog.get(key if isinstance(names, str) else (key, index))  # type: ignore[attr-defined] # it has no public way to read a form by its number
            assert stored == form, f"{key!r} is out of date; run `make messages`"
