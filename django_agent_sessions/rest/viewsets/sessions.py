"""Sessions: list, create, read, change, delete, redact, export, usage."""

from __future__ import annotations

from dataclasses import asdict
from functools import cached_property
from typing import Any, ClassVar
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Q, Sum
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.mixins import ListModelMixin
from rest_framework.response import Response

from django_agent_sessions import serving
from django_agent_sessions.conf import get_settings
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.governance import quotas, session_deletion
from django_agent_sessions.governance.reasons import clean_reason
from django_agent_sessions.interchange import export_markdown, export_sessions
from django_agent_sessions.models import (
    AuditEvent,
    Session,
    SessionMessage,
)
from django_agent_sessions.models.deletion import TOMBSTONE_NAMESPACE
from django_agent_sessions.models.functions import one_row_each
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.models.titles import last_text
from django_agent_sessions.queries.search import MAX_QUERY_LENGTH, find_sessions
from django_agent_sessions.rest.access import SCOPE_ALL, SCOPE_OWN
from django_agent_sessions.rest.base import (
    FileNegotiation,
    ThrottleScope,
    etag_response,
    require_match,
)
from django_agent_sessions.rest.changes import named_by_fields
from django_agent_sessions.rest.filters import SessionFilter, SessionFilterBackend
from django_agent_sessions.rest.pagination import (
    SessionPagination,
    search_query,
)
from django_agent_sessions.rest.redaction import (
    RedactionSerializer,
    SessionRedactionRequest,
    redaction_response,
)
from django_agent_sessions.rest.schema import (
    CHANGE,
    CREATE,
    ETAG,
    FORK,
    IF_MATCH,
    IF_NONE_MATCH,
    METADATA_PARAMETER,
    NOT_MODIFIED,
    REASON_PARAMETER,
    REDACT_SESSION,
    SCOPE_PARAMETERS,
    SESSION_PARAMETER,
    describe_view,
    operation,
    response_header,
)
from django_agent_sessions.rest.serializers.branches import ForkSerializer
from django_agent_sessions.rest.serializers.sessions import (
    SessionChangeSerializer,
    SessionCreateSerializer,
    SessionRowSerializer,
    SessionSerializer,
    UsageSerializer,
    chosen_serializer,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.usage.costs import AgentModel, costs_of_calls
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.prices import cost_of, has_varying_price
from django_agent_sessions.values.records import SessionRecord, Usage
from django_agent_sessions.values.token_counts import TokenCounts

from .session_details import SessionDetailAPI

_MARKDOWN, _JSONL = "markdown", "jsonl"


@describe_view(parameters=SCOPE_PARAMETERS, tags=["Sessions"])
class SessionViewSet(ListModelMixin, SessionDetailAPI):
    """The user's sessions; with ``scope=shared`` those of others in which the user takes part.

    With ``scope=all`` and the permissions, the sessions of all users.
    """

    queryset = Session.objects.none()
    lookup_url_kwarg = "session"
    lookup_value_converter = "agent_sessions_uuid"
    # Without another one in a subclass, AGENT_SESSIONS["SESSION_SERIALIZER"] is used.
    serializer_class = SessionSerializer
    row_serializer_class: ClassVar[type[SessionRowSerializer]] = SessionRowSerializer
    pagination_class = SessionPagination
    filter_backends: Any = [SessionFilterBackend]
    filterset_class = SessionFilter

    def get_throttles(self) -> list[Any]:
        """Limit searches separately, because they cost more."""
        if self.action == "list" and (
            any(name.startswith("metadata[") for name in self.request.query_params)
            or self.is_search
        ):
            self.throttle_scope = ThrottleScope.SEARCH
        return super().get_throttles()

    def get_serializer_class(self) -> type[Any]:
        """Return the serializer of a row of the list, or of one session."""
        return self._serializer_class

    @cached_property
    def _serializer_class(self) -> type[Any]:
        if self.action == "list":
            return chosen_serializer(self.row_serializer_class)
        return chosen_serializer(super().get_serializer_class())

    @operation(
        "sessions_list",
        {200: (SessionRowSerializer(many=True), "A page of sessions.")},
        errors=(400, 404),
        parameters=[
            OpenApiParameter(
                "q",
                {"type": "string", "maxLength": MAX_QUERY_LENGTH},
                description="Words in titles and messages, or an exact id.",
            ),
            METADATA_PARAMETER,
        ],
    )
    def list(self, request: Any) -> Response:
        """List sessions, most recently active first.

        Each row has the title to display, and the start of the last text.
        """
        response: Response = super().list(request)
        return response

    def get_queryset(self) -> Any:
        """Return the sessions of the list, without those that are being deleted."""
        # Without joins, so that the database reads the page in the order of the index.
        rows = self.listed_sessions().defer("metadata", "origin")
        return rows.exclude(namespace=TOMBSTONE_NAMESPACE)

    def filter_queryset(self, queryset: Any) -> Any:
        """Return the sessions that the request selects, with their texts."""
        rows: Any = super().filter_queryset(queryset)
        if query := search_query(self.request):
            result = find_sessions(query, sessions=rows, content=True, using=self.using)
            rows = rows.filter(pk__in=result.sessions)
            paginator: Any = self.paginator
            paginator.search = {"truncated": result.truncated, "limited": result.limited}
        return self.get_serializer_class().setup_eager_loading(rows.annotate(last_text=last_text()))

    def paginate_queryset(self, queryset: Any) -> Any:
        """Return a page of sessions; record that titles of other users' are about to be shown."""
        rows: Any = super().paginate_queryset(queryset)
        if self.asked_scope == SCOPE_OWN:
            return rows
        # An empty list of shared sessions shows nothing that is to be recorded; a search does.
        if self.asked_scope == SCOPE_ALL or rows or self.is_search:
            details: dict[str, Any] = {"sessions": len(rows)}
            if rows:
                details |= {"first": str(rows[0].pk), "last": str(rows[-1].pk)}
            action = AuditEvent.Action.SEARCHED if self.is_search else AuditEvent.Action.READ
            self.record(action, **details)
        return rows

    @operation(
        "sessions_create",
        {
            200: (SessionSerializer, "The existing session with this `external_id`."),
            201: (SessionSerializer, "The new session."),
        },
        errors=(400, 404, 409, 413),
        parameters=[ETAG, response_header("Location", "The URL of the session.", 200, 201)],
        request=SessionCreateSerializer,
        examples=CREATE,
    )
    def create(self, request: Any) -> Response:
        """Create a session, or return the one that has the ``external_id``.

        The server chooses the id. An existing session gets the request's title and metadata, so
        that a client can repeat the request if it does not know its outcome.
        """
        self.accessible_sessions()  # Raises for a scope that the user may not ask for.
        record, created = self._create(dict(self.read_body(SessionCreateSerializer)))
        row = self.row_of(self.own_sessions().filter(pk=record.id))
        return self.placed(row, created, request.path.rstrip("/"))

    @operation(
        "sessions_retrieve",
        {
            200: (SessionSerializer, "The session."),
            **NOT_MODIFIED,
        },
        errors=(404,),
        parameters=[SESSION_PARAMETER, IF_NONE_MATCH, ETAG],
    )
    def retrieve(self, request: Any, session: UUID) -> Any:
        """Return a session with its agents, usage, and first and last text.

        Send the ``ETag`` of the response as ``If-Match`` to change the session.
        """
        row = self.row_of(self.accessible_sessions(pk=session))
        self.record_access(row, view="session")
        return etag_response(request, self.representation(row))

    @operation(
        "sessions_change",
        {200: (SessionSerializer, "The changed session.")},
        errors=(400, 404, 409, 412, 413),
        parameters=[SESSION_PARAMETER, IF_MATCH, ETAG],
        request=SessionChangeSerializer,
        examples=CHANGE,
    )
    def partial_update(self, request: Any, session: UUID) -> Any:
        """Change the title, the metadata, whether the session is archived, or when it expires."""
        row = self.session(session, SessionPermission.READ, SessionPermission.CHANGE)
        fields = self.read_body(SessionChangeSerializer)
        if "expires_at" in fields and not self.has_permissions(row, SessionPermission.DELETE):
            # Expired sessions are deleted.
            raise Http404
        with transaction.atomic(self.using):
            if "If-Match" in request.headers:
                # Locked, so that no other process changes the row after the comparison.
                Session.objects.using(self.using).select_for_update().filter(pk=row.pk).first()
                require_match(
                    request, self.representation(self.row_of(self.accessible_sessions(pk=session)))
                )
            self._store(row).sessions.update(row, **fields)
            self.record_access(row, view="change")
            # Before the commit: nothing is changed if the answer cannot show it.
            changed = self.representation(self.row_of(self.accessible_sessions(pk=session)))
        return etag_response(request, changed)

    @operation(
        "sessions_delete",
        {204: "The session was deleted."},
        errors=(400, 404, 409),
        parameters=[SESSION_PARAMETER, REASON_PARAMETER],
    )
    def destroy(self, request: Any, session: UUID) -> Response:
        """Delete a session with all its messages, unless it is under legal hold."""
        row = self.session(session, SessionPermission.DELETE)
        if not session_deletion.delete(
            row, reason=self.read_reason(), actor=request.user, via="api", using=self.using
        ):
            raise Http404
        return Response(status=status.HTTP_204_NO_CONTENT)

    @operation(
        "sessions_redact",
        {200: (RedactionSerializer, "The result, or the preview.")},
        errors=(400, 404, 409, 413, 422, 503),
        tags=["Redaction"],
        parameters=[SESSION_PARAMETER],
        request=SessionRedactionRequest,
        examples=REDACT_SESSION,
    )
    @action(detail=True, methods=["post"], throttle_scope=ThrottleScope.REDACT)
    def redact(self, request: Any, session: UUID) -> Response:
        """Redact a text, or the findings of detectors, everywhere in the session.

        Messages, states of agents, the title and the metadata are searched; each hit is replaced by
        a mask permanently. ``dry_run`` returns a preview only, and needs no reason.
        """
        row = self.session(session, SessionPermission.READ, SessionPermission.REDACT)
        return redaction_response(self, row, SessionRedactionRequest, SessionRedactionRequest.scope)

    @operation(
        "sessions_fork",
        {
            200: (SessionSerializer, "The existing fork with this `external_id`."),
            201: (SessionSerializer, "The new fork."),
        },
        errors=(400, 404, 409, 413, 503),
        tags=["Branches"],
        parameters=[
            SESSION_PARAMETER,
            ETAG,
            response_header("Location", "The URL of the fork.", 200, 201),
        ],
        request=ForkSerializer,
        examples=FORK,
    )
    @action(detail=True, methods=["post"], throttle_scope=ThrottleScope.BRANCH)
    def fork(self, request: Any, session: UUID) -> Response:
        """Create a session with a copy of the messages; both continue independently.

        The fork has the same owner, and redacted content is redacted in it, too. With an
        ``external_id`` the request is safe to repeat.
        """
        row = self.session(
            session, SessionPermission.READ, SessionPermission.CHANGE, SessionPermission.ADD
        )
        data = self.read_body(ForkSerializer)
        with named_by_fields(message="at"):
            key, created = self.timeline(row, reason=data.get("reason")).fork(
                at=data.get("at"),
                title=data.get("title"),
                external_id=data.get("external_id"),
                may_read=self._may_read,
            )
        sessions = request.path.rstrip("/").rsplit("/", 2)[0]
        fork = self.row_of(Session.objects.using(self.using).filter(pk=key), copied=True)
        return self.placed(fork, created, sessions)

    @operation(
        "sessions_export",
        {
            (200, "text/markdown"): (str, "The file."),
            (200, "application/jsonl"): (str, "The file."),
        },
        errors=(400, 404, 503),
        parameters=[
            SESSION_PARAMETER,
            OpenApiParameter(
                "as", str, enum=[_MARKDOWN, _JSONL], default=_MARKDOWN, description="The format."
            ),
            REASON_PARAMETER,
            response_header("Content-Disposition", "The name of the file.", 200),
        ],
    )
    @action(
        detail=True,
        methods=["get"],
        throttle_scope=ThrottleScope.EXPORT,
        content_negotiation_class=FileNegotiation,
    )
    def export(self, request: Any, session: UUID) -> Any:
        """Return the whole conversation as a file: Markdown for people, JSON Lines for programs."""
        form = request.query_params.get("as", _MARKDOWN)
        if form not in (_MARKDOWN, _JSONL):
            raise ValidationError({"as": [f"Must be {_MARKDOWN} or {_JSONL}."]})
        row = self.session(session, SessionPermission.READ, SessionPermission.EXPORT)
        reason = clean_reason(AuditEvent.Action.EXPORTED, self.read_reason())
        self.record(
            AuditEvent.Action.EXPORTED,
            row,
            reason=reason,
            format=form,
            messages=row.message_count,
        )
        # Owners and participants do not see what others wrote.
        rater = str(request.user.pk) if self.role_in(row) else None
        if form == _MARKDOWN:
            texts, ending = export_markdown(row, using=self.using, feedback_by=rater), "md"
        else:
            states = self.has_permissions(row, SessionPermission.VIEW_STATE)
            texts = export_sessions(
                [row],
                using=self.using,
                states=states,
                feedback_by=rater,
                reviews=self.may_review(row),
            )
            ending = "jsonl"
        name = serving.file_name(row)
        return serving.streamed_download(
            request._request, serving.encode_in_chunks(texts), name, ending
        )

    @operation(
        "sessions_usage",
        {200: (UsageSerializer, "The usage.")},
        errors=(404,),
        parameters=[SESSION_PARAMETER],
    )
    @action(detail=True, methods=["get"])
    def usage(self, request: Any, session: UUID) -> Response:
        """Return the numbers of messages and tokens, and their cost, by agent and in total.

        A message that several branches share is counted once.
        """
        row = self.session(session, SessionPermission.READ)
        self.record_access(row, view="usage")
        rows = SessionMessage.objects.using(self.using).filter(session=row)
        counts = (
            one_row_each(rows)
            .values("agent__agent_id", "model")
            .annotate(
                messages=Count("pk"),
                errors=Count("pk", filter=Q(has_error=True)),
                **{f"all_{name}": Sum(name) for name in TokenCounts._fields},
            )
        )
        by_agent: dict[str, Usage] = {}
        prices = get_settings().PRICES
        sums = (f"all_{name}" for name in TokenCounts._fields)
        found = list(
            counts.order_by("agent__agent_id").values_list(
                "agent__agent_id", "model", "messages", "errors", *sums
            )
        )
        varying = {model for _, model, *_ in found if has_varying_price(prices, model)}
        costs = costs_of_calls(one_row_each(rows), prices, varying) if varying else {}
        for agent, model, number, errors, *sums_of_tokens in found:
            tokens = TokenCounts(*sums_of_tokens)
            cost = (
                costs.get(AgentModel(agent, model))
                if model in varying
                else cost_of(prices, model, tokens)
            )
            counted = Usage(number, cost=cost, errors=errors) + Usage.of_tokens(tokens)
            by_agent[agent] = by_agent.get(agent, Usage()) + counted
        total = {
            **asdict(sum(by_agent.values(), Usage())),
            "currency": get_settings().CURRENCY,
            "agents": [
                {"agent": displayable(agent), **asdict(counted)}
                for agent, counted in by_agent.items()
            ],
        }
        return Response(UsageSerializer(total).data)

    def _store(self, row: Session) -> SessionStore:
        owner = self.request.user if self.owns(row) else EVERYBODY
        return SessionStore(owner=owner, namespace=row.namespace, scope=row.scope, using=self.using)

    def _create(self, fields: dict[str, Any]) -> tuple[SessionRecord, bool]:
        store = SessionStore(
            owner=self.request.user, namespace=self.namespace or "", using=self.using
        )
        external_id = fields.pop("external_id", None)
        if external_id is None or store.sessions.find_external(external_id) is None:
            quotas.check_sessions(self.request.user.pk, self.using)
        if external_id is None:
            key = new_id()
            return store.create(str(key), id=key, **fields), True
        record, created = store.sessions.open_external(external_id, **fields)
        if created:
            return record, True
        row = self.own_sessions().defer("metadata", "origin").filter(pk=record.id).first()
        needed = [SessionPermission.READ, *([SessionPermission.CHANGE] if fields else [])]
        if row is None or not self.has_permissions(row, *needed):
            raise Http404
        return (store.sessions.update(record, **fields) if fields else record), False
