"""What a share link shows: a session as its owner sees it, as JSON and as a plain page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.http import Http404
from django.template import loader
from django.templatetags.static import static
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from drf_spectacular.utils import OpenApiParameter
from rest_framework import viewsets
from rest_framework.exceptions import Throttled
from rest_framework.renderers import BaseRenderer
from rest_framework.response import Response

from django_agent_sessions.content.dialects import PartKind, displayable
from django_agent_sessions.content.role_labels import OTHER_ROLE, ROLE_LABELS
from django_agent_sessions.governance import sharing
from django_agent_sessions.models import Session, SessionMessage, ShareLink
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.models.querysets import SessionQuerySet
from django_agent_sessions.models.roles import SessionRole
from django_agent_sessions.models.sharing import hash_of
from django_agent_sessions.queries.message_pages import MessageQuery

from .access import SCOPE_OWN
from .base import FileNegotiation, SafeJSONRenderer, SessionAPI, SessionThrottle, ThrottleScope
from .pagination import MessagePagination
from .schema import MESSAGE_PARAMETER, describe_view, operation
from .serializers.fields import format_datetime
from .serializers.messages import MessageSerializer
from .serializers.sharing import SharedSessionSerializer
from .viewsets.messages import MEDIA, MEDIA_RESPONSES, MediaAPI, MessageListMixin

_POLICY = (
    "default-src 'none'; img-src 'self'; style-src {style}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_MESSAGE = UUID(int=0)
_PAGES = [
    OpenApiParameter(page["name"], page["schema"], description=page["description"])
    for page in MessagePagination().get_schema_operation_parameters(None)
]
_TOKEN = OpenApiParameter("token", str, "path", description="The secret part of the link.")


class SharedPageRenderer(BaseRenderer):
    """A renderer of a plain page without scripts, for browsers."""

    media_type = "text/html"
    # Must not add another value for ``?format=``.
    format = "json"
    charset = "utf-8"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> str:
        """Render a page of a session, or of an error."""
        response = (renderer_context or {})["response"]
        # A project may serve its static files from another origin.
        origin = urlsplit(static("agent_sessions/shared.css"))
        style = f"{origin.scheme}://{origin.netloc}" if origin.netloc else "'self'"
        response["Content-Security-Policy"] = _POLICY.format(style=style)
        name = "missing" if response.exception else "session"
        for message in data.get("results", ()):
            _label(message["parts"])
            message["speaker"] = gettext(ROLE_LABELS.get(message["role"], OTHER_ROLE))
        return loader.render_to_string(f"agent_sessions/shared/{name}.html", {"page": data})


def _label(parts: Iterable[dict[str, Any]]) -> None:
    """Add what the page shows of parts: the name of their kind, and their data as JSON."""
    for part in parts:
        part["label"] = _LABELS.get(part["kind"], "")
        data = part["data"]
        part["json"] = "" if data is None else json.dumps(data, ensure_ascii=False, indent=1)
        _label(part["parts"])


_LABELS = {
    PartKind.TOOL_CALL: gettext_lazy("Tool call"),
    PartKind.TOOL_RESULT: gettext_lazy("Tool result"),
    PartKind.IMAGE: gettext_lazy("Image"),
    PartKind.DOCUMENT: gettext_lazy("Document"),
}


class LinkThrottle(SessionThrottle):
    """A throttle of a link, which counts the requests of all addresses together."""

    def get_cache_key(self, request: Any, view: Any) -> str:
        """Return a key per token. Caches must not show tokens."""
        ident = hash_of(request.resolver_match.kwargs["token"])
        return self.cache_format % {"scope": self.scope, "ident": ident}


class SharedAPI(SessionAPI):
    """The base of views that a link opens: its session is read as a reader does, without a login.

    A wrong token, and a link that expired or was revoked, is the same 404 as a deleted session.
    """

    authentication_classes: Any = []
    permission_classes: Any = []
    throttle_scope = ThrottleScope.SHARED

    @cached_property
    def asked_scope(self) -> str:
        """Always the default: a link shows one session."""
        return SCOPE_OWN

    @cached_property
    def link(self) -> ShareLink:
        """The valid link of the request; raises ``Http404`` if there is none.

        Only the requests of valid links are counted together: a cache would have an entry for each
        guess at a token.
        """
        token = self.request.resolver_match.kwargs["token"]
        found = sharing.find_link(token, using=self.using)
        if found is None:
            raise Http404
        throttle = LinkThrottle(ThrottleScope.LINK)
        if not throttle.allow_request(self.request, self):
            raise Throttled(throttle.wait())
        return found

    def accessible_sessions(self, **few: Any) -> SessionQuerySet:
        """Return the session of the link."""
        rows = Session.objects.using(self.using).filter(pk=self.link.session_id)
        return self._in_namespace(rows.filter(**few))

    def role_in(self, session: Session) -> SessionRole:
        """Return that whoever has the link is a reader."""
        return SessionRole.READER

    def with_role(self, sessions: SessionQuerySet) -> SessionQuerySet:
        return sessions

    def record_access(
        self, session: Session | None, target: UUID | None = None, **details: Any
    ) -> None:
        """Record a read by the link; who reads is unknown."""
        values = {**details, "via": "link", "link": str(self.link.pk)}
        super().record_access(session, target, **values)

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Keep the link out of search engines, and its address from other servers."""
        if isinstance(getattr(request, "accepted_renderer", None), SharedPageRenderer):
            response.content_type = None
        response = super().finalize_response(request, response, *args, **kwargs)
        response["Referrer-Policy"] = "no-referrer"
        response["X-Robots-Tag"] = "noindex, nofollow"
        return response


@describe_view(parameters=[_TOKEN], tags=["Sharing"])
class SharedSessionView(SharedAPI, MessageListMixin, viewsets.GenericViewSet[Any]):
    """The session of a link: the title and a page of messages."""

    shows_authors = False

    queryset = SessionMessage.objects.none()
    serializer_class = MessageSerializer
    pagination_class = MessagePagination
    renderer_classes: Any = [SafeJSONRenderer, SharedPageRenderer]

    @operation(
        "shared_retrieve",
        {200: (SharedSessionSerializer, "A page of the session.")},
        errors=(400, 404),
        parameters=_PAGES,
    )
    def retrieve(self, request: Any, token: str) -> Response:
        """Return the session of a share link, with a page of its messages; without a login.

        Browsers get a plain page without scripts.
        """
        row = self.session(self.link.session_id, SessionPermission.READ)
        page = self.page_response(row, lambda _: MessageQuery(row, main=True))
        # Not the session id, which readers of a link have not seen.
        title = "" if row.display_title == row.session_id else displayable(row.display_title)
        head = {"title": title, "expires_at": format_datetime(self.link.expires_at)}
        return Response({**head, **page.data})

    def media_url(self) -> str:
        match: Any = self.request.resolver_match
        # The arguments of the project's part of the path come first.
        prefix = [value for key, value in match.kwargs.items() if key not in self.kwargs]
        token = match.kwargs["token"]
        name = f"{match.namespace}:shared-media".lstrip(":")
        url = reverse(name, args=[*prefix, token, _MESSAGE], current_app=match.namespace)
        # str.format would read braces of the prefix as a field.
        url = url.replace("{", "%7B").replace("}", "%7D")
        return url.replace(str(_MESSAGE), "{message}")


@describe_view(parameters=[_TOKEN, MESSAGE_PARAMETER], tags=["Sharing"])
class SharedMediaView(SharedAPI, MediaAPI):
    """An image or another file of a message that the page of a link shows."""

    content_negotiation_class = FileNegotiation
    main_branch_only = True

    @operation("shared_media", MEDIA_RESPONSES, errors=(400, 404, 416, 503), parameters=MEDIA)
    def get(self, request: Any, message: UUID) -> Any:
        """Return an image, document, recording or video of a message of a share link's session."""
        return self.media_response(message)
