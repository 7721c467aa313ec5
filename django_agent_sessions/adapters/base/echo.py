"""What the echo models of all SDKs share."""

from __future__ import annotations

from collections.abc import Iterable


def texts_only(answers: Iterable[str]) -> list[str]:
    """Return the answers of an echo model; raise ``TypeError`` if one is no text."""
    answers = list(answers)
    for answer in answers:
        if not isinstance(answer, str):
            raise TypeError(
                f"an EchoModel answers with texts, not with {type(answer).__name__}: for calls of "
                "tools, write a model of the SDK"
            )
    return answers
