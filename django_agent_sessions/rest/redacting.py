"""Redacting through the API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.views.decorators.debug import sensitive_variables
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from django_agent_sessions.models import Session
from django_agent_sessions.permissions import Allowed, may
from django_agent_sessions.redaction import Hit, Place, Redaction, redact

from .serializers.redaction import RedactionRequest, RedactionSerializer

_STATES = ("agent", "orchestrator", "snapshot", "object")
_ORIGINAL = "original"


# Not even a report of an error shall hold what somebody wanted to be gone.
@sensitive_variables()
def redacted(
    view: Any, session: Session, request_class: type[Any], scope: Callable[[Any], Any]
) -> Response:
    """Redacts what a request asks for, or tells what it would."""
    given: RedactionRequest = request_class(data=view.request.data)
    given.is_valid(raise_exception=True)
    wanted = given.validated_data
    if wanted["pattern"] and not may(view.request.user, Allowed.REDACT):
        # A pattern can be made to take for ever, by whoever means to.
        detail = "Patterns are for people with the permission to redact. Give the text itself."
        raise ValidationError({"pattern": [detail]})
    # Whether something is found, or refused, already tells of what was said.
    view.record_reading(session, view="redact")
    result = redact(
        session.pk,
        scope(given),
        reason=wanted.get("reason", ""),
        actor=view.request.user,
        dry_run=wanted["dry_run"],
        using=view.using,
    )
    return Response(RedactionSerializer(_told(view, session, result)).data)


def _told(view: Any, session: Session, found: Redaction) -> Redaction:
    """Leaves out what stands where the user may not look.

    All of it is redacted, but a preview would answer guess after guess about a state, and the
    surroundings of what was found are of the state or the original themselves.
    """
    states = view.allows(session, Allowed.VIEW_STATE)
    originals = view.allows(session, Allowed.VIEW_ORIGINAL)

    def seen(place: Place) -> bool:
        return states if place.kind in _STATES else originals or place.column != _ORIGINAL

    def bare(hit: Hit) -> Hit:
        # An original is shown for a reason that is recorded, and nowhere else.
        if seen(hit.place) and hit.place.column != _ORIGINAL:
            return hit
        return replace(hit, before="", after="")

    hits = [bare(hit) for hit in found.hits if seen(hit.place) or not found.dry_run]
    found = replace(found, kept=[place for place in found.kept if seen(place)])
    if len(hits) == len(found.hits):
        return replace(found, hits=hits)
    places = {(hit.place.kind, hit.place.key) for hit in hits}
    messages = sum(kind == "message" for kind, _ in places)
    return replace(found, hits=hits, messages=messages, states=len(places) - messages)
