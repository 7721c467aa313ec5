"""URLs in a conversation: which may become links, and which are only text."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.utils.translation import gettext as _

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.content.dialects.parts import cited_url


def safe_link(url: str) -> tuple[str, str]:
    """Return the URL if it may be a link, else an empty text; and its host or a short form."""
    url = displayable(url)[:2000]
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", url[:200]
    if parts.scheme in ("http", "https") and parts.hostname:
        return url, parts.hostname
    return "", f"{parts.scheme}://{parts.netloc}"[:200] if parts.scheme else url[:200]


def citations(data: Any) -> list[tuple[str, str]]:
    """Return the title and the link of each source that a text cites."""
    sources = []
    for source in data if isinstance(data, list | tuple) else ():
        if not isinstance(source, dict):
            continue
        url = cited_url(source)
        link, host = safe_link(url) if url else ("", "")
        title = next(
            (
                source[key]
                for key in ("title", "filename", "source")
                if isinstance(source.get(key), str) and source[key]
            ),
            host or _("source"),
        )
        sources.append((displayable(title)[:200], link))
    return sources
