"""The message formats of agent frameworks, read without the frameworks.

Each agent has a *dialect*, the message format of its framework. Lists, search, pages and exports
show the neutral parts of a payload; its neutral columns are computed when it is written.

This package imports neither a framework nor Django. ``configure`` adds the dialects of a project.
"""

from __future__ import annotations

import functools
import importlib
import logging
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from .base import Dialect, NodePath, ToolCallIds, TranscriptBlock, UnknownDialect, ValueKindOf
from .parts import EMPTY_SUMMARY, TEXT_CAP, Part, PartKind, Summary, displayable
from .vocabulary import Vocabulary

__all__ = [
    "ASSISTANT_UI",
    "EMPTY_SUMMARY",
    "OPENAI",
    "STRANDS",
    "STRANDS_NODE",
    "TEXT_CAP",
    "Dialect",
    "NodePath",
    "Part",
    "PartKind",
    "Summary",
    "ToolCallIds",
    "TranscriptBlock",
    "UnknownDialect",
    "Vocabulary",
    "all_dialects",
    "client_written",
    "configure",
    "displayable",
    "get",
    "labels",
    "load",
    "node_messages",
    "recognize",
    "vocabulary",
]

STRANDS = "strands"
"""Messages of Strands Agents, in the format of Amazon Bedrock's Converse API."""

STRANDS_NODE = "strands-node"
"""Messages of the nodes of a graph or swarm of Strands, which no agent continues."""

OPENAI = "openai"
"""Items of OpenAI's Responses API, and messages of its chat API."""

ASSISTANT_UI = "assistant-ui"
"""Messages that a browser stored with assistant-ui's client; the server did not create them."""

_BUILT_IN = (
    f"{__name__}.strands.Strands",
    f"{__name__}.strands_nodes.StrandsNode",
    f"{__name__}.openai.OpenAI",
    f"{__name__}.assistant_ui.AssistantUI",
)
_MAX_NAME = 32

logger = logging.getLogger("django_agent_sessions")


def get(name: str) -> Dialect:
    """Return the dialect of a name; one that shows JSON if the name is unknown."""
    return _by_name().get(name, _UNKNOWN)


@functools.lru_cache
def warn_of_unknown(name: str) -> None:
    """Log once in a process that new messages will have no text, because of their dialect."""
    if name not in _by_name():
        logger.warning(
            "no dialect is named %r, so messages of the agent have no text for titles and search: "
            "the dialects are %s, and AGENT_SESSIONS['DIALECTS'] adds others",
            name[:_MAX_NAME],
            ", ".join(_by_name()),
        )


@functools.cache
def all_dialects() -> Sequence[Dialect]:
    """Return all dialects, the built-in ones first."""
    return tuple(_by_name().values())


def labels() -> dict[str, str]:
    """Return the labels of all dialects by name."""
    return {dialect.name: dialect.label or dialect.name for dialect in all_dialects()}


def client_written() -> list[str]:
    """Return the names of the dialects whose messages clients wrote."""
    return [dialect.name for dialect in all_dialects() if dialect.is_client_written]


def recognize(payload: Mapping[str, Any]) -> Dialect:
    """Return the dialect that a payload of an unknown format has, or the unknown one."""
    return next((found for found in all_dialects() if _recognizes(found, payload)), _UNKNOWN)


def _recognizes(dialect: Dialect, payload: Mapping[str, Any]) -> bool:
    # A redaction asks this, and must not end with the error of a project's dialect.
    try:
        return dialect.recognize(payload)
    except Exception:
        logger.exception("the dialect %r could not read a payload", dialect.name)
        return False


def node_messages(state: object, *before: object) -> tuple[str, list[tuple[NodePath, Any]]]:
    """Return what the nodes of an orchestrator said since earlier states, and its dialect.

    Each message is a pair with its node's path. ``before`` are the orchestrator's earlier state,
    and those of other orchestrators.
    """
    for dialect in all_dialects():
        try:
            if found := list(dialect.node_messages(state, before)):
                return dialect.name, found
        except Exception:
            # The state is stored in any case, and shown as JSON.
            logger.exception("the dialect %r could not read a state", dialect.name)
    return "", []


@functools.cache
def value_kinds() -> Mapping[str, Sequence[ValueKindOf]]:
    """Return the functions of all dialects that tell the kinds of values, by key."""
    found: dict[str, list[ValueKindOf]] = {}
    for dialect in all_dialects():
        for key, kind_of in dialect.value_kinds.items():
            if kind_of not in found.setdefault(key, []):
                found[key].append(kind_of)
    return found


@functools.cache
def vocabulary() -> Vocabulary:
    """Return the vocabulary of all dialects: a state may have keys of several."""
    return functools.reduce(operator.or_, (dialect.vocabulary for dialect in all_dialects()))


def configure(paths: Sequence[str]) -> None:
    """Set the dotted paths of the project's dialects."""
    global _paths
    _paths = tuple(paths)
    for cached in (_by_name, all_dialects, warn_of_unknown, value_kinds, vocabulary):
        cached.cache_clear()


def load(path: str) -> Dialect:
    """Return the dialect at a dotted path."""
    module, _, attribute = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (AttributeError, ValueError):
        raise ImportError(f"{path!r} does not exist") from None
    if not (isinstance(found, type) and issubclass(found, Dialect)):
        raise TypeError(f"{path!r} is not a subclass of Dialect")
    if not 0 < len(found.name) <= _MAX_NAME:
        raise TypeError(f"{path!r} must have a name of 1 to {_MAX_NAME} characters")
    return found()


@functools.cache
def _by_name() -> dict[str, Dialect]:
    """Return the dialects by name; a project's own one overrides a built-in one."""
    found = [load(path) for path in _BUILT_IN]
    for path in _paths:
        try:
            found.append(load(path))
        except Exception:  # noqa: S112 - the system check reports it
            continue
    return {dialect.name: dialect for dialect in found}


_paths: tuple[str, ...] = ()
_UNKNOWN = UnknownDialect()
