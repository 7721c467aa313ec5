"""Redaction through the API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.views.decorators.debug import sensitive_variables
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from django_agent_sessions.governance.redaction import Hit, Place, Redaction, redact
from django_agent_sessions.models import Session
from django_agent_sessions.models.permissions import SessionPermission, has_permissions

from .serializers.redaction import RedactionRequest, RedactionSerializer

_STATE_KINDS = ("agent", "orchestrator", "snapshot", "object")
_ORIGINAL = "original"


# An error report must not contain the text that is to be redacted.
@sensitive_variables()
def redaction_response(
    view: Any, session: Session, request_class: type[Any], scope: Callable[[Any], Any]
) -> Response:
    """Redact what the request names, or return a preview of it."""
    serializer: RedactionRequest = request_class(data=view.request.data)
    serializer.is_valid(raise_exception=True)
    data = serializer.validated_data
    if data["pattern"] and not has_permissions(view.request.user, SessionPermission.REDACT):
        # A malicious pattern can run for hours.
        detail = "Patterns require the permission to redact. Send the text itself."
        raise ValidationError({"pattern": [detail]})
    # Recorded first: whether there are hits already reveals content.
    view.record_access(session, view="redact")
    result = redact(
        session.pk,
        scope(serializer),
        reason=data.get("reason", ""),
        actor=view.request.user,
        dry_run=data["dry_run"],
        using=view.using,
    )
    return Response(RedactionSerializer(_filter_hits(view, session, result)).data)


def _filter_hits(view: Any, session: Session, redaction: Redaction) -> Redaction:
    """Remove hits in states and originals that the user may not see.

    They are redacted all the same. A preview that listed them would let the user guess the content
    of a state, and the text around a hit is itself part of the state or original.
    """
    states = view.has_permissions(session, SessionPermission.VIEW_STATE)
    originals = view.has_permissions(session, SessionPermission.VIEW_ORIGINAL)

    def is_visible(place: Place) -> bool:
        return states if place.kind in _STATE_KINDS else originals or place.column != _ORIGINAL

    def without_text(hit: Hit) -> Hit:
        # Only the view of originals shows them, for a reason that is recorded.
        if is_visible(hit.place) and hit.place.column != _ORIGINAL:
            return hit
        return replace(hit, before="", after="")

    hits = [
        without_text(hit)
        for hit in redaction.hits
        if is_visible(hit.place) or not redaction.dry_run
    ]
    redaction = replace(redaction, kept=[place for place in redaction.kept if is_visible(place)])
    if len(hits) == len(redaction.hits):
        return replace(redaction, hits=hits)
    places = {(hit.place.kind, hit.place.key) for hit in hits}
    messages = sum(kind == "message" for kind, _ in places)
    return replace(redaction, hits=hits, messages=messages, states=len(places) - messages)
