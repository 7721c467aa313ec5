"""The participants of a session, and the links that show it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.http import Http404
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter
from rest_framework import status, viewsets
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from django_agent_sessions import conf
from django_agent_sessions.exceptions import ConfigurationError, SessionNotFoundError
from django_agent_sessions.governance import sharing
from django_agent_sessions.models import Participant, Session, ShareLink
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.rest.base import SessionAPI
from django_agent_sessions.rest.pagination import AgentPagination
from django_agent_sessions.rest.problems import Conflict
from django_agent_sessions.rest.schema import (
    PARTICIPANT,
    SCOPE_PARAMETERS,
    SESSION_PARAMETER,
    SHARE_LINK,
    describe_view,
    operation,
)
from django_agent_sessions.rest.serializers.sharing import (
    NewShareLinkSerializer,
    ParticipantRequest,
    ParticipantSerializer,
    ShareLinkRequest,
    ShareLinkSerializer,
)

_PARTICIPANT = OpenApiParameter(
    "participant", {"type": "string", "format": "uuid"}, "path", description="The `id` in the list."
)
_LINK = OpenApiParameter(
    "link", {"type": "string", "format": "uuid"}, "path", description="The link's id."
)
_NO_USER = "No user has this id, or the user owns the session."


class _SharingAPI(SessionAPI, viewsets.GenericViewSet[Any]):
    """The base of both view sets: sharing needs the permission ``share`` beside reading."""

    pagination_class: Any = AgentPagination
    lookup_value_converter = "agent_sessions_uuid"

    def shared_session(self, key: UUID) -> Session:
        """Return a session that the user may share; raise ``Http404`` otherwise."""
        return self.session(key, SessionPermission.READ, SessionPermission.SHARE)

    def page(self, session: Session, rows: Any, view: str) -> Response:
        """Return a page of rows, and record the read."""
        page: Any = self.paginate_queryset(rows.using(self.using).filter(session=session))
        self.record_access(session, view=view)
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


@describe_view(parameters=[*SCOPE_PARAMETERS, SESSION_PARAMETER], tags=["Sharing"])
class ParticipantViewSet(_SharingAPI):
    """The participants of a session: users who read or write it beside its owner."""

    queryset = Participant.objects.none()
    serializer_class = ParticipantSerializer
    lookup_url_kwarg = "participant"

    @operation(
        "participants_list", {200: (ParticipantSerializer(many=True), "A page.")}, errors=(400, 404)
    )
    def list(self, request: Any, session: UUID) -> Response:
        """List the participants, in the order in which they were added."""
        return self.page(self.shared_session(session), Participant.objects, "participants")

    @operation(
        "participants_create",
        {200: (ParticipantSerializer, "The participant.")},
        errors=(400, 404, 409, 413),
        request=ParticipantRequest,
        examples=PARTICIPANT,
    )
    def create(self, request: Any, session: UUID) -> Response:
        """Add a participant, or give a participant another role.

        A reader sees what the owner sees; a writer also adds messages and rates them.
        """
        row = self.shared_session(session)
        fields = self.read_body(ParticipantRequest)
        try:
            participant = sharing.add_participant(
                row,
                fields["user"],
                fields["role"],
                actor=request.user,
                via="api",
                using=self.using,
            )
        except (ConfigurationError, SessionNotFoundError):
            raise ValidationError({"user": [_NO_USER]}) from None
        return Response(self.get_serializer(participant).data)

    @operation(
        "participants_delete",
        {204: "The user is no participant."},
        errors=(404, 409),
        parameters=[_PARTICIPANT],
    )
    def destroy(self, request: Any, session: UUID, participant: UUID) -> Response:
        """Remove a participant. Participants may remove themselves."""
        row = self.session(session, SessionPermission.READ)
        rows = Participant.objects.using(self.using).filter(session=row, pk=participant)
        user = rows.values_list("user", flat=True).first()
        leaves = user is not None and str(user) == str(request.user.pk)
        if user is None or not (leaves or self.has_permissions(row, SessionPermission.SHARE)):
            raise Http404
        sharing.remove_participant(row, user, actor=request.user, via="api", using=self.using)
        return Response(status=status.HTTP_204_NO_CONTENT)


@describe_view(parameters=[*SCOPE_PARAMETERS, SESSION_PARAMETER], tags=["Sharing"])
class ShareLinkViewSet(_SharingAPI):
    """The links that show a session to anybody who has them."""

    queryset = ShareLink.objects.none()
    serializer_class = ShareLinkSerializer
    lookup_url_kwarg = "link"

    @operation("links_list", {200: (ShareLinkSerializer(many=True), "A page.")}, errors=(400, 404))
    def list(self, request: Any, session: UUID) -> Response:
        """List the links, also those that expired or were revoked, oldest first."""
        return self.page(self.shared_session(session), ShareLink.objects, "links")

    @operation(
        "links_create",
        {201: (NewShareLinkSerializer, "The link.")},
        errors=(400, 404, 409, 413),
        request=ShareLinkRequest,
        examples=SHARE_LINK,
    )
    def create(self, request: Any, session: UUID) -> Response:
        """Create a link by which anybody can read the session, without a login.

        The response has its URL, which is not shown again. The server limits for how long a link
        is valid, and may not allow links at all (409).
        """
        row = self.shared_session(session)
        seconds, settings = self.read_body(ShareLinkRequest)["seconds"], conf.get_settings()
        if not settings.SHARE_LINKS:
            raise Conflict("Share links are switched off on this server.")
        if seconds > settings.SHARE_LINK_SECONDS:
            hint = f"Must be at most {settings.SHARE_LINK_SECONDS}."
            raise ValidationError({"seconds": [hint]})
        link, token = sharing.create_link(
            row, timedelta(seconds=seconds), actor=request.user, via="api", using=self.using
        )
        shown: Any = link
        shown.url = request.build_absolute_uri(self._path(token))
        return Response(NewShareLinkSerializer(shown).data, status=status.HTTP_201_CREATED)

    @operation(
        "links_delete", {204: "The link was revoked."}, errors=(404, 409), parameters=[_LINK]
    )
    def destroy(self, request: Any, session: UUID, link: UUID) -> Response:
        """Revoke a link: from now on it shows nothing."""
        row = self.shared_session(session)
        if not sharing.revoke_link(row, link, actor=request.user, via="api", using=self.using):
            raise Http404
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _path(self, token: str) -> str:
        match = self.request.resolver_match
        namespace = "" if match is None else match.namespace
        # The arguments of the project's part of the path come first.
        kwargs = {} if match is None else match.kwargs
        prefix = [value for key, value in kwargs.items() if key not in self.kwargs]
        return reverse(f"{namespace}:shared".lstrip(":"), args=[*prefix, token])
