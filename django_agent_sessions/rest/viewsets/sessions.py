"""Sessions: list, make, read, change, delete, redact, export, count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Prefetch, Sum, Value
from django.db.models.functions import Coalesce, Substr
from django.http import Http404
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import status, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from django_agent_sessions import audit, replicas, serving
from django_agent_sessions.ids import new_id
from django_agent_sessions.interchange import export_markdown, export_sessions
from django_agent_sessions.models import (
    MAIN_BRANCH,
    AuditEvent,
    Session,
    SessionAgent,
    SessionMessage,
)
from django_agent_sessions.owners import EVERYBODY
from django_agent_sessions.permissions import Allowed
from django_agent_sessions.querysets import SessionQuerySet
from django_agent_sessions.records import SessionRecord
from django_agent_sessions.rest import throttles
from django_agent_sessions.rest.access import uuid_of
from django_agent_sessions.rest.etags import require_match, tagged
from django_agent_sessions.rest.examples import CHANGE, CREATE, REDACT_SESSION
from django_agent_sessions.rest.filters import SessionFilter
from django_agent_sessions.rest.negotiation import FileNegotiation
from django_agent_sessions.rest.pagination import SessionPagination
from django_agent_sessions.rest.problems import Conflict
from django_agent_sessions.rest.queries import is_search, query_of, refuse_unknown
from django_agent_sessions.rest.redacting import redacted
from django_agent_sessions.rest.schema import (
    ETAG,
    ID,
    IF_MATCH,
    IF_NONE_MATCH,
    SCOPED,
    UNCHANGED,
    answer,
    described,
    headed,
    problems,
)
from django_agent_sessions.rest.serializers.redaction import (
    RedactionSerializer,
    SessionRedactionRequest,
)
from django_agent_sessions.rest.serializers.sessions import (
    AgentSerializer,
    SessionChangeSerializer,
    SessionCreateSerializer,
    SessionRowSerializer,
    SessionSerializer,
)
from django_agent_sessions.rest.serializers.usage import UsageSerializer
from django_agent_sessions.search import MAX_QUERY, find_sessions
from django_agent_sessions.store import SessionStore
from django_agent_sessions.transcripts import displayable

from .forking import Forking

_MARKDOWN, _JSONL = "markdown", "jsonl"
_LOOKED_AT = 20
_BEGINNING = 500


@described(parameters=SCOPED, tags=["Sessions"])
class SessionViewSet(Forking, viewsets.GenericViewSet[Session]):
    """Sessions of the user; with ``scope=all`` and a permission, those of everybody."""

    queryset = Session.objects.none()
    lookup_url_kwarg = "session"
    lookup_value_converter = "str"
    serializer_class = SessionSerializer
    row_serializer_class: ClassVar[type[SessionRowSerializer]] = SessionRowSerializer
    pagination_class = SessionPagination
    filter_backends: Any = [DjangoFilterBackend]
    filterset_class = SessionFilter

    def get_queryset(self) -> Any:
        """Gives what the user reaches."""
        if getattr(self, "swagger_fake_view", False):
            return Session.objects.none()
        return self.reachable_sessions()

    def get_throttles(self) -> list[Any]:
        """Counts searches apart, because they cost more."""
        if self.action == "list" and is_search(self.request):
            self.throttle_scope = throttles.SEARCH
        return super().get_throttles()

    @described(
        operation_id="sessions_list",
        parameters=[
            OpenApiParameter(
                "q",
                {"type": "string", "maxLength": MAX_QUERY},
                description="Words of titles and messages, or an exact id.",
            )
        ],
        responses={
            200: answer(SessionRowSerializer(many=True), "A page of sessions."),
            **problems(400, 404),
        },
    )
    def list(self, request: Any) -> Response:
        """Lists sessions, the most recently active first.

        The rows hold nothing that was said.
        """
        more: dict[str, Any] = {}
        paginator: Any = self.paginator
        paginator.refuse_unknown(request, self)
        query = query_of(request)

        def read(using: str) -> Sequence[Session]:
            # Joined rows would be read, where rows are all that an order by an index needs.
            reached = self.get_queryset().using(using).defer("metadata", "origin")
            sessions: Any = self.filter_queryset(reached)
            if query:
                found = find_sessions(query, sessions=sessions, content=True, using=using)
                sessions = sessions.filter(pk__in=found.sessions)
                more["search"] = {"truncated": found.truncated, "limited": found.limited}
            rows: Sequence[Session] = paginator.paginate_queryset(sessions, request, view=self)
            return rows

        rows = replicas.listed(request, read)
        if self.reaches_everybody:
            self._record_listing(rows, searched=bool(query))
        data = self.row_serializer_class(rows, many=True, context=self.get_serializer_context())
        response: Response = paginator.get_paginated_response(data.data, **more)
        return response

    @described(
        operation_id="sessions_create",
        parameters=[ETAG, headed("Location", "Where the session is.", 200, 201)],
        request=SessionCreateSerializer,
        responses={
            200: answer(SessionSerializer, "The session that has the `external_id`."),
            201: answer(SessionSerializer, "The session that was made."),
            **problems(400, 404, 409, 413),
        },
        examples=CREATE,
    )
    def create(self, request: Any) -> Response:
        """Makes a session, or finds the one that has the ``external_id``.

        The server chooses its id. A session that is found gets the title and metadata that are
        given, so that a client may ask again whenever it does not know whether it was heard.
        """
        _ = self.reaches_everybody  # So that a wrong `scope` is an error here, too.
        given = SessionCreateSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        found, made = self._made(dict(given.validated_data))
        row = self.row_of(self.own_sessions(), found.id)
        return self.placed(row, made, request.path.rstrip("/"))

    @described(
        operation_id="sessions_retrieve",
        parameters=[ID, IF_NONE_MATCH, ETAG],
        responses={200: answer(SessionSerializer, "The session."), **UNCHANGED, **problems(404)},
    )
    def retrieve(self, request: Any, session: str) -> Any:
        """Gives a session with its agents, its figures, and how it begins and ends.

        The ``ETag`` of the answer is for ``If-Match`` when the session is changed.
        """
        refuse_unknown(request, ())
        row = self.row_of(self.reachable_sessions(), session)
        self.record_reading(row, view="session")
        return tagged(request, self.representation(row))

    @described(
        operation_id="sessions_change",
        parameters=[ID, IF_MATCH, ETAG],
        request=SessionChangeSerializer,
        responses={
            200: answer(SessionSerializer, "The session, as it is now."),
            **problems(400, 404, 409, 412, 413),
        },
        examples=CHANGE,
    )
    def partial_update(self, request: Any, session: str) -> Any:
        """Changes the title, the metadata, whether it is archived, or when it expires."""
        row = self.session(session, Allowed.READ, Allowed.CHANGE)
        given = SessionChangeSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        if "expires_at" in given.validated_data and not self.allows(row, Allowed.DELETE):
            # What expires is deleted.
            raise Http404
        with transaction.atomic(self.using):
            if "If-Match" in request.headers:
                # Locked, so that what was compared is what is changed.
                Session.objects.using(self.using).select_for_update().filter(pk=row.pk).first()
                require_match(
                    request, self.representation(self.row_of(self.reachable_sessions(), session))
                )
            self._store(row).update(row.pk, **given.validated_data)
            self.record_reading(row, view="change")
        return tagged(request, self.representation(self.row_of(self.reachable_sessions(), session)))

    @described(
        operation_id="sessions_delete",
        parameters=[ID],
        responses={204: OpenApiResponse(description="It is gone."), **problems(404, 409)},
    )
    def destroy(self, request: Any, session: str) -> Response:
        """Deletes a session with all that was said in it, unless it is under legal hold."""
        row = self.session(session, Allowed.DELETE)
        with audit.acting(request.user):
            if not self._store(row).delete(row.session_id):
                raise Http404
        return Response(status=status.HTTP_204_NO_CONTENT)

    @described(
        operation_id="sessions_redact",
        tags=["Redaction"],
        parameters=[ID],
        request=SessionRedactionRequest,
        responses={
            200: answer(RedactionSerializer, "What was redacted, or would be."),
            **problems(400, 404, 409, 413, 503),
        },
        examples=REDACT_SESSION,
    )
    @action(detail=True, methods=["post"], throttle_scope=throttles.REDACT)
    def redact(self, request: Any, session: str) -> Response:
        """Redacts a text, or what detectors find, wherever it is in the session.

        Messages, states of agents, the title and the metadata: what is found is replaced by a
        mask, for good. ``dry_run`` only tells what it would be, and takes no reason.
        """
        row = self.session(session, Allowed.READ, Allowed.REDACT)
        return redacted(self, row, SessionRedactionRequest, SessionRedactionRequest.scope)

    @described(
        operation_id="sessions_export",
        parameters=[
            ID,
            OpenApiParameter(
                "as", str, enum=[_MARKDOWN, _JSONL], default=_MARKDOWN, description="The format."
            ),
            headed("Content-Disposition", "The name of the file.", 200),
        ],
        responses={
            (200, "text/markdown"): answer(str, "The file."),
            (200, "application/jsonl"): answer(str, "The file."),
            **problems(400, 404, 503),
        },
    )
    @action(
        detail=True,
        methods=["get"],
        throttle_scope=throttles.EXPORT,
        content_negotiation_class=FileNegotiation,
    )
    def export(self, request: Any, session: str) -> Any:
        """Gives the whole conversation as a file: Markdown for people, JSON Lines for programs."""
        refuse_unknown(request, ["as"])
        form = request.query_params.get("as", _MARKDOWN)
        if form not in (_MARKDOWN, _JSONL):
            raise ValidationError({"as": [f"Give {_MARKDOWN} or {_JSONL}."]})
        row = self.session(session, Allowed.READ, Allowed.EXPORT)
        audit.record(
            AuditEvent.Action.EXPORTED,
            session=row.pk,
            actor=request.user,
            details={"via": "api", "format": form, "messages": row.message_count},
            using=self.using,
        )
        if form == _MARKDOWN:
            texts, ending = export_markdown(row, using=self.using), "md"
        else:
            states = self.allows(row, Allowed.VIEW_STATE)
            texts, ending = export_sessions([row], using=self.using, states=states), "jsonl"
        name = serving.file_name(row)
        return serving.download(request._request, serving.encoded(texts), name, ending)

    @described(
        operation_id="sessions_usage",
        parameters=[ID],
        responses={200: answer(UsageSerializer, "The figures."), **problems(404)},
    )
    @action(detail=True, methods=["get"])
    def usage(self, request: Any, session: str) -> Response:
        """Counts messages and tokens, by agent and in all.

        A copy that a branch keeps was neither said nor paid for again, and is not counted beside
        its original.
        """
        refuse_unknown(request, ())
        row = self.session(session, Allowed.READ)
        self.record_reading(row, view="usage")
        rows = SessionMessage.objects.using(self.using).filter(session=row)
        messages = rows.exclude(Exists(rows.filter(pk=OuterRef("source")))).order_by()
        agents = messages.values("agent__agent_id").annotate(
            messages=Count("pk"),
            input_tokens=Coalesce(Sum("input_tokens"), Value(0)),
            output_tokens=Coalesce(Sum("output_tokens"), Value(0)),
        )
        names = ("messages", "input_tokens", "output_tokens")
        by_agent: Any = agents.order_by("agent__agent_id").values_list("agent__agent_id", *names)
        found = [
            {"agent": displayable(name), **dict(zip(names, counts, strict=True))}
            for name, *counts in by_agent
        ]
        total = {name: sum(agent[name] for agent in found) for name in names}
        return Response(UsageSerializer({**total, "agents": found}).data)

    def representation(self, row: Session) -> dict[str, Any]:
        """Represents a session by itself."""
        messages = SessionMessage.objects.using(self.using).filter(session=row, branch=MAIN_BRANCH)
        shown: Any = row
        shown.first_text = _said(messages.order_by("id"))
        shown.last_text = _said(messages.order_by("-id"))
        shown.fork = self.origin_of(row)
        # Not the manager: rows that were prefetched would not be read anew.
        found: dict[str, Any] = self.get_serializer(row).data
        return {**found, "agents": list(found["agents"])}

    def row_of(self, sessions: SessionQuerySet, key: object) -> Session:
        """Reads a session to be represented."""
        # From the same database, and without the states, which may be large.
        columns = [*AgentSerializer.Meta.fields, "session_id"]
        agents = SessionAgent.objects.using(self.using).only(*columns)
        rows = sessions.defer("origin").prefetch_related(Prefetch("agents", agents))
        row = rows.filter(pk=uuid_of(key)).first()
        if row is None or not self.allows(row, Allowed.READ):
            raise Http404
        return row

    def _store(self, row: Session) -> SessionStore:
        owner = self.request.user if self.owns(row) else EVERYBODY
        return SessionStore(owner=owner, namespace=row.namespace, using=self.using)

    def _made(self, given: dict[str, Any]) -> tuple[SessionRecord, bool]:
        store = SessionStore(
            owner=self.request.user, namespace=self.namespace or "", using=self.using
        )
        external_id = given.pop("external_id", None)
        if external_id is None:
            key = new_id()
            return store.create(str(key), id=key, **given), True
        record, made = store.open_external(external_id, **given)
        if made:
            return record, True
        row = self.own_sessions().defer("metadata", "origin").filter(pk=record.id).first()
        if row is None:
            detail = "Another session of yours has this external_id already. Choose another."
            raise Conflict(detail)
        if not self.allows(row, Allowed.READ, *([Allowed.CHANGE] if given else [])):
            raise Http404
        return (store.update(record.id, **given) if given else record), False

    def placed(self, row: Session, made: bool, place: str) -> Response:
        """Answers with a session that was made or found, and where it is."""
        code = status.HTTP_201_CREATED if made else status.HTTP_200_OK
        response: Response = tagged(self.request, self.representation(row), status=code)
        slash = "/" if self.request.path.endswith("/") else ""
        response["Location"] = self.request.build_absolute_uri(f"{place}/{row.pk}{slash}")
        return response

    def _record_listing(self, rows: Sequence[Session], *, searched: bool) -> None:
        """Records that titles of others are about to be shown."""
        ends: dict[str, Any] = {"sessions": len(rows), "via": "api"}
        if rows:
            ends |= {"first": str(rows[0].pk), "last": str(rows[-1].pk)}
        act = AuditEvent.Action.SEARCHED if searched else AuditEvent.Action.READ
        audit.record(act, actor=self.request.user, details=ends, using=self.using)


def _said(messages: Any) -> dict[str, Any] | None:
    """Finds a message that says something, among the first few."""
    found = messages.values_list("pk", "role", Substr("text", 1, _BEGINNING))[:_LOOKED_AT]
    key: UUID
    for key, role, text in found:
        if text:
            return {"message": str(key), "role": role, "text": displayable(text)}
    return None
