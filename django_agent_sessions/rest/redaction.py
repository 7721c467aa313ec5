"""Redaction through the API."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.views.decorators.debug import sensitive_variables
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from django_agent_sessions.content import detectors, masking
from django_agent_sessions.content.masking import MAX_LISTED_MATCHES
from django_agent_sessions.content.work_budget import check_work, limit_work
from django_agent_sessions.exceptions import MissingDependencyError
from django_agent_sessions.governance.reasons import clean_reason
from django_agent_sessions.governance.redaction import (
    Block,
    Detect,
    Find,
    Hit,
    Place,
    Redaction,
    Scope,
    Span,
    Visibility,
    WholeMessage,
    descendants_of,
    redact,
    request_budget,
)
from django_agent_sessions.governance.redaction.scope_groups import SHORTEST_TEXT
from django_agent_sessions.governance.redaction.visibility import SessionVisibility
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.models.access import reach_of
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.models.querysets import groups_of_keys
from django_agent_sessions.rest.serializers.fields import (
    DisplayableField,
    PathKeyField,
    ReasonField,
    StrictBooleanField,
    StrictIntegerField,
    StrictSerializer,
    StrictTextField,
)


# An error report must not contain the text that is to be redacted.
@sensitive_variables()
def redaction_response(
    view: Any, session: Session, request_class: type[Any], scope: Callable[[Any], Any]
) -> Response:
    """Redact what the request names, or return a preview of it."""
    serializer: RedactionRequest = request_class(data=view.request.data)
    serializer.is_valid(raise_exception=True)
    data = serializer.validated_data
    reason = data.get("reason", "")
    if not data["dry_run"]:
        # Before a reading is recorded.
        reason = clean_reason(AuditEvent.Action.REDACTED, reason)
    redactable = reach_of(view.request.user, SessionPermission.REDACT)
    if data["pattern"] and not redactable.includes(session):
        # A malicious pattern can run for hours.
        detail = "Patterns require the permission to redact. Send the text itself."
        raise ValidationError({"pattern": [detail]})
    within = view.sessions_with(SessionPermission.REDACT)
    with limit_work(request_budget(staff=redactable.includes(session))):
        forks = _forks(view, session, within) if data["descendants"] else {}
        # Recorded first: whether there are hits already reveals content.
        for row in (session, *forks.values()):
            check_work()
            view.record_access(row, view="redact")
        result = redact(
            session,
            scope(serializer),
            reason=reason,
            actor=view.request.user,
            dry_run=data["dry_run"],
            descendants=data["descendants"],
            within=within,
            visibility=_visibility(view),
            using=view.using,
        )
    found = [fork for fork in result.forks if fork.session in forks]
    context = {"unreached": _visible(view, result.unreached)}
    return Response(RedactionSerializer(replace(result, forks=found), context=context).data)


def _forks(view: Any, session: Session, within: QuerySet[Session]) -> dict[UUID | None, Session]:
    keys = descendants_of(session, using=view.using)
    forks: dict[UUID | None, Session] = {}
    for batch in groups_of_keys(keys):
        check_work()
        forks |= {row.pk: row for row in within.filter(pk__in=batch).defer("metadata", "origin")}
    return forks


def _visible(view: Any, keys: list[UUID]) -> list[UUID]:
    """Return the first of the sessions that the user may read, as many as are listed."""
    found: list[UUID] = []
    for batch in groups_of_keys(keys):
        rows = view.accessible_sessions(pk__in=batch).order_by("pk")
        found += rows.values_list("pk", flat=True)[: MAX_LISTED_MATCHES - len(found)]
        if len(found) == MAX_LISTED_MATCHES:
            break
    return found


def _visibility(view: Any) -> SessionVisibility:
    """Return what the user of a request may see, of which alone the answer tells."""

    @functools.cache
    def see(session: Session) -> Visibility:
        has_role = view.role_in(session) is not None
        return Visibility(
            states=view.has_permissions(session, SessionPermission.VIEW_STATE),
            reviews=view.may_review(session),
            comments_of=str(view.request.user.pk) if has_role else None,
        )

    return see


class _PathField(serializers.ListField):
    def to_internal_value(self, data: Any) -> Any:
        keys = super().to_internal_value(data)
        if not all(type(key) is str or (type(key) is int and key >= 0) for key in keys):
            raise serializers.ValidationError("Must be the `path` of a part, unchanged.")
        return tuple(keys)


class DetectorField(StrictTextField):
    """The name of a detector."""


class RedactionRequest(StrictSerializer):
    """The fields that redactions of sessions and of messages share."""

    find = StrictTextField(
        required=False,
        min_length=SHORTEST_TEXT,
        max_length=10_000,
        trim_whitespace=False,
        help_text="A text; case, whitespace, escaping and Unicode form do not matter.",
    )
    pattern = StrictBooleanField(
        default=False,
        help_text="Whether `find` is a regular expression; requires the permission `redact`.",
    )
    detectors = serializers.ListField(
        child=DetectorField(max_length=100),
        required=False,
        # Not for all detectors: a program's list may be empty by mistake.
        min_length=1,
        max_length=100,
        help_text="The names of the detectors to use, each once.",
    )
    reason = ReasonField(
        help_text="The reason, kept in the audit trail. Required unless `dry_run`, by default."
    )
    dry_run = StrictBooleanField(default=False, help_text="Only preview the redaction.")
    descendants = StrictBooleanField(
        default=True,
        help_text="Whether to redact in the session's forks, too, as far as the user may.",
    )

    def validate_detectors(self, names: list[str]) -> list[str]:
        """Reject unknown detectors, and those whose dependency is not installed."""
        if len(set(names)) < len(names):
            raise serializers.ValidationError("Name each detector once.")
        available = detectors.names()
        if any(name not in available for name in names):
            raise serializers.ValidationError(f"Must be detectors of: {', '.join(available)}.")
        try:
            detectors.load(names)
        except MissingDependencyError:
            detail = "One of these detectors is not installed on this server."
            raise serializers.ValidationError(detail) from None
        return names

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["pattern"] and "find" not in attrs:
            raise serializers.ValidationError({"find": ["Required if `pattern` is true."]})
        return attrs


class SessionRedactionRequest(RedactionRequest):
    """What to redact in a whole session: a text, or the findings of detectors."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        if ("find" in attrs) == ("detectors" in attrs):
            raise serializers.ValidationError("Send either `find` or `detectors`.")
        return attrs

    def scope(self) -> Scope:
        """Return the scope of a valid request."""
        data = self.validated_data
        if "find" in data:
            return Find(data["find"], data["pattern"])
        return Detect(data["detectors"])


class MessageRedactionRequest(RedactionRequest):
    """What to redact in a message: all of it, one part, a range of a text, or findings."""

    path = _PathField(
        child=PathKeyField(), required=False, max_length=20, help_text="The path of a part."
    )
    start = StrictIntegerField(
        required=False, min_value=0, help_text="The first character of the text at `path`."
    )
    end = StrictIntegerField(
        required=False, min_value=1, help_text="The end of the range, exclusive."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        kinds = [name for name in ("find", "detectors", "path") if name in attrs]
        if len(kinds) > 1:
            raise serializers.ValidationError("Send only one of `find`, `detectors` and `path`.")
        bounds = {"start", "end"} & set(attrs)
        if bounds and (len(bounds) < 2 or "path" not in attrs):
            raise serializers.ValidationError("`start` and `end` require each other and `path`.")
        if bounds and attrs["start"] >= attrs["end"]:
            raise serializers.ValidationError({"end": ["Must be greater than `start`."]})
        return attrs

    def scope(self, message: UUID) -> Scope:
        """Return the scope of a valid request."""
        data = self.validated_data
        if "find" in data:
            return Find(data["find"], data["pattern"], message)
        if "detectors" in data:
            return Detect(data["detectors"], message)
        if "start" in data:
            return Span(message, data["path"], data["start"], data["end"])
        if "path" in data:
            return Block(message, data["path"])
        return WholeMessage(message)


class PlaceSerializer(serializers.Serializer[Place]):
    """The place of a hit."""

    kind = serializers.ChoiceField(
        choices=[
            "message",
            "agent",
            "orchestrator",
            "session",
            "snapshot",
            "object",
            "branch",
            "feedback",
            "note",
            "label",
        ]
    )
    id = serializers.UUIDField(source="key")
    name = DisplayableField()
    column = serializers.CharField()


class HitSerializer(serializers.Serializer[Hit]):
    """A hit of a redaction."""

    place = PlaceSerializer()
    kind = serializers.CharField(
        help_text="The kind that the mask names, such as EMAIL; may be empty."
    )
    before = DisplayableField(
        help_text="The hit with the text around it, or its start; only in a dry run."
    )
    after = DisplayableField(
        help_text="The same text with this hit masked; the mask alone if it is no dry run."
    )


class ForkRedactionSerializer(serializers.Serializer[Redaction]):
    """The result of a redaction in a fork."""

    session = serializers.UUIDField()
    hits = serializers.SerializerMethodField(help_text="How many hits the fork has.")
    messages = serializers.IntegerField(help_text="How many messages change.")
    states = serializers.IntegerField(
        help_text="How many states, snapshots, comments, titles and metadata change."
    )

    def get_hits(self, fork: Redaction) -> int:
        """Return the number of hits."""
        return fork.total


class RedactionSerializer(serializers.Serializer[Any]):
    """The result of a redaction or of its preview."""

    dry_run = serializers.BooleanField()
    hits = HitSerializer(many=True)
    more_hits = serializers.IntegerField(help_text="How many hits are not listed.")
    kept = PlaceSerializer(
        many=True, help_text="Ids that contain a hit and are kept, because programs use them."
    )
    unread = PlaceSerializer(
        many=True,
        help_text="Files that were not searched completely: missing in their storage, or "
        "compressed and encrypted, damaged, too large, or in an unknown format.",
    )
    hidden = serializers.ListField(
        child=serializers.CharField(),
        help_text="What the user may not see, with or without a hit. In a `state`, a `note` and a "
        "`comment` of others, only texts are masked that were also found elsewhere in the "
        "session. They are neither counted nor listed.",
    )
    messages = serializers.IntegerField(help_text="How many messages change.")
    states = serializers.IntegerField(
        help_text="How many states, snapshots, comments, titles and metadata change."
    )
    redactions = serializers.IntegerField(
        source="epoch", help_text="How often the session was redacted, this redaction included."
    )
    forks = ForkRedactionSerializer(many=True, help_text="The forks with hits.")
    unreached = serializers.ListField(
        child=serializers.UUIDField(),
        help_text="Forks that the user may read but not redact: they were not searched.",
    )
    more_unreached = serializers.IntegerField(
        help_text="How many other forks were not searched, because the user does not reach them."
    )

    def to_representation(self, instance: Redaction) -> dict[str, Any]:
        """Represent the result; only a preview contains the text around a hit."""
        hits = instance.hits
        if not instance.dry_run:
            # The text around a hit may have another one.
            hits = [replace(hit, before="", after=masking.mask(hit.kind)) for hit in hits]
        shown: dict[str, Any] = {
            field.name: getattr(instance, field.name) for field in fields(instance)
        }
        shown |= {
            "hits": hits,
            "more_hits": instance.total - len(hits),
            "kept": instance.kept[:MAX_LISTED_MATCHES],
            "unread": instance.unread[:MAX_LISTED_MATCHES],
            "forks": [fork for fork in instance.forks if fork.total][:MAX_LISTED_MATCHES],
            "unreached": self.context.get("unreached", []),
            "more_unreached": len(instance.unreached) - len(self.context.get("unreached", [])),
        }
        return super().to_representation(shown)
