"""Token counts with those of a prompt cache, as providers report them and as they are stored.

Stored input tokens include those read from the cache and written to it, as in OpenTelemetry's
conventions. OpenAI and Gemini report them so. Bedrock and Anthropic report the cached tokens beside
the input tokens; their total is the sum of all.
"""

from __future__ import annotations

from typing import NamedTuple


class TokenCounts(NamedTuple):
    """Token counts as they are stored; None is unknown."""

    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None


def token_counts(
    input_tokens: int | None,
    output_tokens: int | None,
    total_tokens: int | None,
    cache_read_tokens: int | None,
    cache_write_tokens: int | None,
) -> TokenCounts:
    """Return the counts of a report. Its total tells whether the input includes the cached tokens.

    Without tokens of a cache, both counts are None: an SDK reports 0 also for providers without a
    cache.
    """
    cached = (cache_read_tokens or 0) + (cache_write_tokens or 0)
    if not cached:
        return TokenCounts(input_tokens, output_tokens)
    known = input_tokens or 0
    beside = min(max((total_tokens or 0) - known - (output_tokens or 0), 0), cached)
    if known + beside < cached:
        # A part cannot be larger than the whole.
        beside = cached
    return TokenCounts(known + beside, output_tokens, cache_read_tokens, cache_write_tokens)
