"""Which items of a conversation the model of a run has seen.

An application may withhold items from a model, with a ``session_input_callback`` or a
``call_model_input_filter``. The Runner records digests of what a model was really sent, and of what
it answered, for the SDK's own compaction. No public name of the SDK has both.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from django_agent_sessions.exceptions import ConfigurationError

from .item_links import kind_of

try:
    from agents.run_internal.items import digest_input_item
except ImportError:
    # An older release, which records nothing.
    digest_input_item = None  # type: ignore[assignment] # not of this type, but never called

logger = logging.getLogger("django_agent_sessions")

_EXCHANGE = "_session_compaction_model_exchange"
_RECORDS_SINCE = (0, 24)


def seen_digests(wrapper: Any) -> tuple[str, ...] | None:
    """Return the digests of a run's last exchange with the model.

    Returns None without a run, and if the SDK is a release that records none; then it logs a
    warning. Raises ``ConfigurationError`` if a later release does not record them: the summary
    would contain what the application withheld.
    """
    if wrapper is None:
        return None
    exchange = getattr(wrapper, _EXCHANGE, None)
    if exchange is not None and digest_input_item is not None:
        digests: tuple[str, ...] = exchange[0]
        return digests
    release = version("openai-agents")
    if tuple(map(int, re.findall(r"\d+", release)[:2])) >= _RECORDS_SINCE:
        raise ConfigurationError(
            f"openai-agents {release} does not record what a model has seen, as django-agent-"
            "sessions expects: call run_compaction(), which summarizes the whole conversation, or "
            "install openai-agents 0.24"
        )
    _warn_once(release)
    return None


@functools.cache
def _warn_once(release: str) -> None:
    logger.warning(
        "openai-agents %s does not record what a model has seen: a compaction after a run also "
        "sends and replaces what a session_input_callback or call_model_input_filter withheld",
        release,
    )


def count_seen(sent: Sequence[Any], digests: Sequence[str]) -> int:
    """Return how many of the last items the model has seen, in their order.

    It may have seen others between them, such as a reminder that a callback added.
    """
    remaining = reversed(digests)
    for count, item in enumerate(reversed(sent)):
        known = _digests(item)
        if not any(digest in known for digest in remaining):
            return count
    return len(sent)


def _digests(item: Any) -> set[str | None]:
    forms = [item]
    if kind_of(item) == "reasoning":
        # A run may send its reasoning without ids.
        forms.append({name: value for name, value in item.items() if name != "id"})
    return {digest_input_item(form) for form in forms}
