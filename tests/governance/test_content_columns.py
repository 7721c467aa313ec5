"""The registry of content columns, and that nothing but the store writes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps
from django.db import models

import django_agent_sessions
from django_agent_sessions.models import SessionMessage, StoredObject
from django_agent_sessions.models.content_columns import (
    ContentColumns,
    ContentKind,
    content_columns_of,
    content_models,
)

PACKAGE = Path(django_agent_sessions.__file__).parent
TEXTS = (models.CharField, models.TextField, models.JSONField, models.BinaryField, models.FileField)
# The tombstone of a deleted session has no title and no metadata; adapters' contracts damage rows.
OTHER_WRITERS = {
    "models/deletion.py",
    "testing/conversation.py",
    "testing/cancellation.py",
}


def our_models() -> list[type[models.Model]]:
    return list(apps.get_app_config("agent_sessions").get_models())


@pytest.mark.parametrize("model", our_models(), ids=lambda model: model.__name__)
def test_every_column_that_can_hold_text_is_registered(model):
    texts = {field.name for field in model._meta.concrete_fields if isinstance(field, TEXTS)}
    declared = getattr(model, "content_columns", None)
    registered = set(declared.columns) if isinstance(declared, ContentColumns) else set()

    assert texts <= registered, "declare these columns in content_columns of the model"


def test_every_registered_column_exists():
    for model in our_models():
        if isinstance(getattr(model, "content_columns", None), ContentColumns):
            names = {field.name for field in model._meta.concrete_fields}
            # An object's bytes are in its parts.
            names |= {"data"} if model is StoredObject else set()
            assert set(content_columns_of(model).columns) <= names


def test_messages_are_searched_after_states_and_before_snapshots():
    names = [model.__name__ for model in content_models()]

    assert names.index("SessionMultiAgent") < names.index("SessionMessage")
    assert names.index("SessionMessage") < names.index("Snapshot")


def content_columns() -> set[str]:
    """The names of the columns that only the store writes."""
    changed = {name for model in content_models() for name in content_columns_of(model).stored}
    derived = {
        name
        for name, kind in content_columns_of(SessionMessage).columns.items()
        if kind is ContentKind.DERIVED
    }
    return changed | derived


def modules() -> Iterator[Path]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(("store/", "sql/", "migrations/")) and name not in OTHER_WRITERS:
            yield path


@pytest.mark.parametrize(
    "path", list(modules()), ids=lambda path: path.relative_to(PACKAGE).as_posix()
)
def test_only_the_store_writes_content(path):
    tree = ast.parse(path.read_text())

    assert list(writes(tree, content_columns())) == []


def writes(tree: ast.Module, columns: set[str]) -> Iterator[str]:
    """The calls of the ORM that write one of these columns.

    If the names are not at the call, every key of a dict in the module may be one of them.
    """
    keys: set[str] = {
        key.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }
    # A class of the same name may be another package's.
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and "models" in str(node.module)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and is_write(node, imported & MODELS):
            named: set[str] = set()
            for keyword in node.keywords:
                if keyword.arg is None:
                    named |= keys
                elif keyword.arg == "update_fields":
                    constants = ast.walk(keyword.value)
                    named |= {str(n.value) for n in constants if isinstance(n, ast.Constant)}
                else:
                    named.add(keyword.arg)
            if written := named & columns:
                yield f"line {node.lineno}: {', '.join(sorted(written))}"


def is_write(call: ast.Call, models: set[str]) -> bool:
    """Whether a call may write rows; those of dicts and of the store have positional arguments."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr in ("update", "create", "save", "update_or_create") and not call.args
    return isinstance(call.func, ast.Name) and call.func.id in models


MODELS = {model.__name__ for model in content_models()}


@pytest.mark.parametrize(
    "code",
    [
        "rows.update(text='')",
        "SessionMessage.objects.filter(pk=1).update(message=F('text'))",
        "columns = {'state': 1}\nrows.update(**columns)",
        "row.save(update_fields=['title'])",
        "from django_agent_sessions.models import Snapshot\nSnapshot(document={}).save()",
    ],
)
def test_another_writer_is_found(code):
    assert list(writes(ast.parse(code), content_columns()))
