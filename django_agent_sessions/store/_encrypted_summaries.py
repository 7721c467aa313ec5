"""Find encrypted summaries of messages that are redacted."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django_agent_sessions.content import dialects, masking
from django_agent_sessions.models import Branch, SessionMessage
from django_agent_sessions.models.fields import decode_payload
from django_agent_sessions.models.stored_text import VISIBLE_TEXT

from ._rows import MessageRow


def redacted_summaries(
    using: str, session: UUID | None, keys: Collection[UUID]
) -> list[tuple[UUID, int, MessageRow]]:
    """Return redacted versions of the encrypted summaries that may contain some messages.

    A model's provider encrypts the summary of a compaction, so that no text is found in it. All
    later ones of the agent are redacted, because each was made from the previous one.
    """
    branches = Branch.objects.using(using).filter(session=session, kind=Branch.Kind.COMPACTED)
    redacted = set(keys)
    messages = SessionMessage.objects.using(using).order_by()
    first: dict[UUID, UUID] = {}
    for agent, branch in branches.values_list("agent_id", "number"):
        replaced = messages.filter(agent=agent, branch=branch).values_list("pk", flat=True)
        for key in redacted.intersection(replaced.iterator()):
            first[agent] = min(key, first.get(agent, key))
    result = []
    for agent, key in first.items():
        rows = messages.filter(agent=agent, pk__gt=key, text="", redact_message__isnull=True)
        columns = ("pk", "revision", VISIBLE_TEXT, "agent__dialect")
        for found, revision, text, dialect in rows.values_list(*columns).iterator():
            payload = decode_payload(text)
            if found not in redacted and dialects.get(dialect).is_encrypted_summary(payload):
                replacement = masking.redact_message(dialect, payload)
                result.append((found, revision, MessageRow(dialect, replacement)))
    return result
