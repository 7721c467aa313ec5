"""System checks of the limits of the API, for ``manage.py check --deploy``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Tags, register
from django.core.checks import Warning as CheckWarning

from django_agent_sessions import conf

from .settings import requires_valid

_QUOTAS = ("MAX_OWNER_SESSIONS", "MAX_OWNER_BRANCHES", "MAX_OWNER_BYTES", "SEARCH_BYTES")
_SCOPE = "agent-sessions"
_OF_ONE_PROCESS = ("locmem.LocMemCache", "dummy.DummyCache")


@register(Tags.security, deploy=True)
@requires_valid(*_QUOTAS)
def check_quotas(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that no limit of a user is off."""
    values = conf.get_settings()
    off = [name for name in _QUOTAS if getattr(values, name) is None]
    if not off or not apps.is_installed("rest_framework"):
        return []
    return [
        CheckWarning(
            f"these limits of AGENT_SESSIONS are off: {', '.join(off)}. One user of the API can "
            "fill the database, or keep it busy",
            hint="Set them to numbers, or silence this check if another layer limits the users.",
            id="agent_sessions.W020",
        )
    ]


@register(Tags.security, deploy=True)
def check_throttles(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that the API's throttles are on, and count in all processes together."""
    if not apps.is_installed("rest_framework"):
        return []
    rates = _mapping(_mapping(getattr(settings, "REST_FRAMEWORK", {})).get(_RATES))
    off = sorted(
        scope for scope, rate in rates.items() if str(scope).startswith(_SCOPE) and rate is None
    )
    found: list[CheckMessage] = []
    if off:
        found.append(
            CheckWarning(
                f"REST_FRAMEWORK[{_RATES!r}] turns off the throttles {', '.join(off)}",
                hint="Set rates such as '60/min', or remove the keys for the default rates.",
                id="agent_sessions.W021",
            )
        )
    backend = str(_mapping(settings.CACHES.get("default")).get("BACKEND", ""))
    if backend.endswith(_OF_ONE_PROCESS):
        found.append(
            CheckWarning(
                f"the default cache is {backend}, so that the API's throttles and quotas count, "
                "and chats are stopped and resumed, in each process separately, or not at all",
                hint="Use a cache that all processes share, such as Redis, as CACHES['default'].",
                id="agent_sessions.W022",
            )
        )
    return found


@register(Tags.security, deploy=True)
def check_proxies(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that the addresses that share links are limited by cannot be made up."""
    if not apps.is_installed("rest_framework") or not conf.get_settings().SHARE_LINKS:
        return []
    if _mapping(getattr(settings, "REST_FRAMEWORK", {})).get("NUM_PROXIES") is not None:
        return []
    return [
        CheckWarning(
            "REST_FRAMEWORK['NUM_PROXIES'] is not set, so that a client of a share link can avoid "
            "its limit by sending another X-Forwarded-For header",
            hint="Set it to the number of proxies in front of Django; 0 without a proxy.",
            id="agent_sessions.W023",
        )
    ]


_RATES = "DEFAULT_THROTTLE_RATES"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
