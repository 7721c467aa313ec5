"""The base of all views of the API: throttles, formats, entity tags and headers."""

from __future__ import annotations

import functools
import inspect
import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any, ClassVar

from django.conf import settings
from django.db import Error
from django.http import HttpResponseNotModified
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.utils.crypto import salted_hmac
from django.utils.http import parse_etags
from rest_framework.exceptions import NotAcceptable, ValidationError
from rest_framework.metadata import SimpleMetadata
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle, SimpleRateThrottle

from django_agent_sessions.content.dialects import displayable

from .access import SCOPE, SessionAccess
from .pagination import QUERY
from .parsers import SessionRequest, StrictJSONParser
from .problems import PreconditionFailed, Unavailable, exception_handler
from .schema import REASON, SessionSchema
from .serializers.fields import ReasonSerializer
from .transactions import AtomicAPI

logger = logging.getLogger("django_agent_sessions")

_MAX_NAMES = 10
_MAX_NAME_LENGTH = 100


class ThrottleScope(StrEnum):
    """The names of the rates in ``DEFAULT_THROTTLE_RATES``; see ``DEFAULT_RATES``."""

    ALL = "agent-sessions"
    """All requests; a view's own scope applies in addition."""

    SEARCH = "agent-sessions-search"
    REDACT = "agent-sessions-redact"
    EXPORT = "agent-sessions-export"
    BRANCH = "agent-sessions-branch"
    """Forks and changes of branches, which may copy many messages."""

    EVENTS = "agent-sessions-events"
    CHAT = "agent-sessions-chat"
    SHARED = "agent-sessions-shared"
    """Share links, which are read without a login: for each client address."""
    LINK = "agent-sessions-link"
    """A share link, whatever the addresses of its readers: each read is an audit event."""


DEFAULT_RATES: Mapping[str, str] = {
    ThrottleScope.ALL: "1200/min",
    ThrottleScope.SEARCH: "60/min",
    ThrottleScope.REDACT: "60/min",
    ThrottleScope.EXPORT: "60/min",
    ThrottleScope.BRANCH: "60/min",
    ThrottleScope.EVENTS: "240/min",
    ThrottleScope.CHAT: "120/min",
    ThrottleScope.SHARED: "60/min",
    ThrottleScope.LINK: "1200/min",
}
"""The requests of one user or link, for each scope without a rate in ``DEFAULT_THROTTLE_RATES``."""


class SessionThrottle(SimpleRateThrottle):
    """A throttle of one scope; a rate of ``None`` in ``DEFAULT_THROTTLE_RATES`` is no limit."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        super().__init__()

    def get_rate(self) -> str | None:
        """Return the rate of the scope, or ``None`` for no limit."""
        scope, rates = self.scope or "", self.THROTTLE_RATES
        return rates[scope] if scope in rates else DEFAULT_RATES.get(scope)

    def allow_request(self, request: Any, view: Any) -> bool:
        """Count a request; allow it, and log a warning, if the cache is not available."""
        if getattr(view, "cache_failed", False):
            # A cache that hangs would be waited for once more for each scope.
            return True
        try:
            return bool(super().allow_request(request, view))
        except Error:
            raise
        except Exception as error:
            # A cache raises errors of its own, whose texts may contain hosts and passwords.
            logger.warning("a request was not counted: the cache raised %s", type(error).__name__)
            view.cache_failed = True
            return True

    def get_cache_key(self, request: Any, view: Any) -> str:
        """Return a key per user, or per client address if the user is anonymous."""
        user = request.user
        ident = user.pk if user and user.is_authenticated else self.get_ident(request)
        return self.cache_format % {"scope": self.scope, "ident": ident}


class SafeJSONRenderer(JSONRenderer):
    """A JSON renderer that escapes half of a surrogate pair instead of failing."""

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        try:
            return bytes(super().render(data, accepted_media_type, renderer_context))
        except UnicodeEncodeError:
            escaping = _EscapingJSONRenderer()
            return bytes(escaping.render(data, accepted_media_type, renderer_context))


class _EscapingJSONRenderer(JSONRenderer):
    ensure_ascii = True


class SessionNegotiation(DefaultContentNegotiation):
    """Content negotiation by ``Accept``; an empty header accepts anything."""

    def get_accept_list(self, request: Any) -> list[str]:
        """Return the accepted media types, ``*/*`` if there are none."""
        return [media_type for media_type in super().get_accept_list(request) if media_type] or [
            "*/*"
        ]


class FileNegotiation(SessionNegotiation):
    """For files: ``Accept`` chooses the format of errors only, the file has its own type.

    A browser requests an image with ``image/*``, and a program Markdown with ``text/markdown``.
    """

    def select_renderer(
        self, request: Any, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> Any:
        """Choose the renderer of errors."""
        renderer_list = list(renderers)
        try:
            return super().select_renderer(request, renderer_list, format_suffix)
        except NotAcceptable:
            return renderer_list[0], renderer_list[0].media_type


class ViewMetadata(SimpleMetadata):
    """The response to ``OPTIONS``, without fields: those are in the OpenAPI document."""

    def determine_actions(self, request: Any, view: Any) -> dict[str, Any]:
        """Return no fields, so that the response is the same for all users and needs no query."""
        return {}


class SessionAPI(SessionAccess, AtomicAPI):
    """A JSON view of the API for authenticated users.

    Authentication is the project's (``DEFAULT_AUTHENTICATION_CLASSES``). Its throttles apply, and
    those of :class:`SessionThrottle` in addition.
    """

    permission_classes: Any = [IsAuthenticated]
    parser_classes: Any = [StrictJSONParser]
    renderer_classes: Any = [SafeJSONRenderer]
    content_negotiation_class: Any = SessionNegotiation
    metadata_class: Any = ViewMetadata
    throttle_scope: str | None = None
    filter_backends: Any = []
    query_parameters: ClassVar[Collection[str]] = ()
    """Query parameters that a subclass reads, beside those that its handlers describe."""

    rejects_unknown_parameters: ClassVar[bool] = True
    """Whether a query parameter that no handler reads is an error."""

    cache_failed = False
    # Set here, because the project's DEFAULT_SCHEMA_CLASS may be another one.
    schema = SessionSchema()

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the handler with those arguments of the path that it accepts."""
        return super().dispatch(request, *args, **self.taken(request, kwargs))

    def taken(self, request: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Drop the arguments of the project's part of the path, such as a version or a tenant."""
        handler = getattr(self, (request.method or "").lower(), None)
        parameters = {} if handler is None else inspect.signature(handler).parameters
        if handler is None or any(
            parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
        ):
            return kwargs
        return {name: value for name, value in kwargs.items() if name in parameters}

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Run REST framework's checks with all arguments of the path."""
        match = request.resolver_match
        super().initial(request, *args, **(kwargs if match is None else match.kwargs))
        if self.rejects_unknown_parameters:
            self._check_parameters(request)

    def _check_parameters(self, request: Any) -> None:
        """Raise ``ValidationError`` for a query parameter that the request's handler ignores.

        If a misspelled filter were ignored, the response would list everything; if ``dry_run`` were
        ignored, which belongs into the body, the request would change what it was to preview.
        """
        method = request.method.lower()
        # Those of all methods for OPTIONS; whatever is not allowed is a 405.
        allowed = [name.lower() for name in self.allowed_methods]
        methods = allowed if method == "options" else {method}.intersection(allowed)
        if methods:
            check_parameters(request, self._known_parameters(methods))

    def _known_parameters(self, methods: Iterable[str]) -> set[str]:
        """Return the query parameters that the handlers of some methods describe."""
        known = {SCOPE, *self.query_parameters}
        actions: Mapping[str, str] = getattr(self, "action_map", {})
        for method in methods:
            name = actions.get(method, "get" if method == "head" else method)
            # A subclass that overrides a handler need not describe it again.
            handlers = (vars(base).get(name) for base in type(self).__mro__)
            described = (getattr(handler, "query_parameters", None) for handler in handlers)
            known |= next((found for found in described if found is not None), set())
            if name == "list":
                known |= self._list_parameters()
        return known

    def _list_parameters(self) -> set[str]:
        """Return the parameters of the view's pages and filters."""
        view: Any = self
        paginator: Any = getattr(view, "pagination_class", None)
        pages = () if paginator is None else _page_parameters(paginator)
        filters = getattr(getattr(view, "filterset_class", None), "base_filters", {})
        # The filter reads all parameters such as `metadata[team]`, and rejects what is wrong.
        deep = [name for name in view.request.query_params if name.startswith("metadata[")]
        return {*pages, *filters, *(deep if "metadata" in filters else ())}

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        """Return a request that also reads bodies of unknown length."""
        initialized: Any = super().initialize_request(request, *args, **kwargs)
        return SessionRequest(
            request,
            parsers=initialized.parsers,
            authenticators=initialized.authenticators,
            negotiator=initialized.negotiator,
            parser_context=initialized.parser_context,
        )

    def get_exception_handler(self) -> Callable[..., Any]:
        """Return the handler for problem details, whatever the project uses elsewhere."""
        return exception_handler

    def get_throttles(self) -> list[BaseThrottle]:
        """Return the project's throttles and those of the API's scopes."""
        scopes = dict.fromkeys(scope for scope in (ThrottleScope.ALL, self.throttle_scope) if scope)
        return [*super().get_throttles(), *(SessionThrottle(scope) for scope in scopes)]

    def check_throttles(self, request: Any) -> None:
        """Raise ``Throttled``, or ``Unavailable`` if the cache fails the project's throttles."""
        try:
            super().check_throttles(request)
        except Exception as error:
            # A cache raises errors of its client, and of the system; others are bugs.
            library = type(error).__module__.partition(".")[0]
            bug = library in ("builtins", "django", "rest_framework")
            if bug and not isinstance(error, OSError):
                raise
            logger.error("a throttle of the project raised %s", type(error).__name__)
            raise Unavailable from error

    @property
    def is_search(self) -> bool:
        """Whether the request has a search query; one of spaces does not count."""
        return bool(self.request.query_params.get(QUERY, "").strip())

    @property
    def body_size(self) -> int:
        """The bytes of the request's body; the limit, if its length is unknown."""
        length = self.request.META.get("CONTENT_LENGTH") or ""
        return int(length) if length.isdecimal() else settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0

    def read_body(self, serializer_class: type[Any]) -> dict[str, Any]:
        """Return the fields of the request's body; raise ``ValidationError`` if they are wrong."""
        serializer = serializer_class(data=self.request.data)
        serializer.is_valid(raise_exception=True)
        fields: dict[str, Any] = serializer.validated_data
        return fields

    def read_reason(self) -> str:
        """Return the reason in the query, of a request that has no body."""
        serializer = ReasonSerializer(data={"reason": self.request.query_params.get(REASON, "")})
        serializer.is_valid(raise_exception=True)
        reason: str = serializer.validated_data["reason"]
        return reason

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Mark the response as private to its user."""
        response = super().finalize_response(request, response, *args, **kwargs)
        # With an entity tag, too: programs compare tags themselves, and disks keep no content.
        patch_cache_control(response, private=True, no_store=True)
        patch_vary_headers(response, ["Accept", "Authorization", "Cookie"])
        response["X-Content-Type-Options"] = "nosniff"
        return response


@functools.cache
def _page_parameters(paginator: type[Any]) -> frozenset[str]:
    return frozenset(page["name"] for page in paginator().get_schema_operation_parameters(None))


def check_parameters(request: Any, known: Collection[str]) -> None:
    """Raise ``ValidationError`` for unknown query parameters.

    Those of Django REST framework itself are always known.
    """
    accepted = {*known, api_settings.URL_FORMAT_OVERRIDE, api_settings.VERSION_PARAM}
    unknown = sorted(name for name in request.query_params if name not in accepted)
    if unknown:
        hint = f"Unknown parameter. The parameters are: {', '.join(sorted(known))}."
        raise ValidationError(
            {displayable(name)[:_MAX_NAME_LENGTH]: [hint] for name in unknown[:_MAX_NAMES]}
        )


def compute_etag(representation: Any) -> str:
    """Return the strong entity tag of a representation, in quotes.

    The tag covers what this user is shown: redacted content counts as its mask.
    """
    text = json.dumps(representation, sort_keys=True, default=str)
    # Keyed, because a logged tag would otherwise let its reader test guesses of the content.
    digest = salted_hmac("agent_sessions.etag", text, algorithm="sha256")
    return f'"{digest.hexdigest()[:32]}"'


def etag_response(request: Any, representation: Any, *, status: int = 200) -> Any:
    """Return a response with an entity tag, or a 304 if the client has this version."""
    etag = compute_etag(representation)
    if request.method in ("GET", "HEAD"):
        tags = _tags(request.headers.get("If-None-Match", ""))
        if etag in tags or "*" in tags:
            return HttpResponseNotModified(headers={"ETag": etag})
    return Response(representation, status=status, headers={"ETag": etag})


def require_match(request: Any, representation: Any) -> None:
    """Raise ``PreconditionFailed`` if ``If-Match`` names another version than the current one."""
    header = request.headers.get("If-Match")
    if header is None:
        return
    tags = _tags(header)
    if not tags:
        raise ValidationError({"If-Match": ["Must be the ETag that was read, in its quotes."]})
    if "*" not in tags and compute_etag(representation) not in tags:
        raise PreconditionFailed


def _tags(header: str) -> list[str]:
    """Parse tags; weak ones count, because compressing proxies weaken them."""
    return [tag.removeprefix("W/") for tag in parse_etags(header)]
