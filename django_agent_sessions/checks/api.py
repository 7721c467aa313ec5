"""A system check of the apps that the API needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Tags, register
from django.core.checks import Warning as CheckWarning
from django.urls import URLPattern, URLResolver, get_resolver

_APPS = ("rest_framework", "django_filters")
_VIEWS = "django_agent_sessions.rest."


@register(Tags.urls)
def check_api_apps(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that the apps of the API are installed if its URLs are."""
    missing = [name for name in _APPS if not apps.is_installed(name)]
    if not missing or not getattr(settings, "ROOT_URLCONF", None):
        return []
    if not any(_modules(get_resolver().url_patterns)):
        return []
    return [
        CheckWarning(
            "The project's URLs include views of django_agent_sessions.rest, but INSTALLED_APPS "
            f"lacks {' and '.join(missing)}, whose templates, translations and settings they need",
            hint=f"Add {', '.join(map(repr, missing))} to INSTALLED_APPS.",
            id="agent_sessions.W016",
        )
    ]


def _modules(patterns: Iterable[Any]) -> Iterator[str]:
    """Yield the modules of the views of the API among URL patterns."""
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _modules(pattern.url_patterns)
        elif isinstance(pattern, URLPattern):
            view = pattern.callback
            kind = getattr(view, "cls", None) or getattr(view, "view_class", view)
            bases = getattr(kind, "__mro__", (kind,))
            yield from (one for base in bases if (one := base.__module__).startswith(_VIEWS))
