"""Titles of the sessions of several owners, some of whom may have no key any more."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from django_agent_sessions.exceptions import EncryptionError
from django_agent_sessions.models import Session

logger = logging.getLogger(__name__)


def with_readable_titles(rows: Any) -> list[Session]:
    """Return the sessions of a queryset with what ``display_title`` needs.

    Titles that cannot be decrypted are empty.
    """
    rows = rows.with_display_title()
    try:
        return list(rows)
    except EncryptionError:
        return with_titles(rows.defer("title"))


def with_titles(rows: Iterable[Session]) -> list[Session]:
    """Read the deferred titles one by one; those that cannot be decrypted are empty."""
    found = list(rows)
    for row in found:
        try:
            row.refresh_from_db(fields=["title"])
        except EncryptionError as error:
            logger.warning("the title of session %s cannot be decrypted: %s", row.pk, error)
            row.title = ""
        except Session.DoesNotExist:
            # It was deleted after the page was read.
            row.title = ""
    return found
