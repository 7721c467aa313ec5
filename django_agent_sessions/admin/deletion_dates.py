"""When a session will be deleted, and why, as the admin shows it."""

from __future__ import annotations

from datetime import timedelta

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import Session
from django_agent_sessions.models.lifetimes import DeletionDate, Lifetimes, deletion_date

from .formatting import format_integer

_DAY = timedelta(days=1)


def has_lifetimes() -> bool:
    """Return whether ``RETENTION`` has lifetimes for sessions."""
    try:
        return any(Lifetimes.from_settings().by_namespace.values())
    except ConfigurationError:
        return False


def shown_deletion_date(session: Session) -> DeletionDate | None:
    """Return when a session may be deleted; None also while the setting is invalid.

    The system check reports the setting; no page should fail because of it.
    """
    try:
        return deletion_date(session)
    except ConfigurationError:
        return None


def describe_rule(date: DeletionDate) -> str:
    """Return why a session is deleted, such as "time since the last activity: 90 days"."""
    if date.lifetime is None:
        return str(date.rule.label)
    days, rest = divmod(date.lifetime, _DAY)
    lifetime = (
        str(date.lifetime)
        if rest
        else ngettext("%(count)s day", "%(count)s days", days) % {"count": format_integer(days)}
    )
    return _("%(rule)s: %(lifetime)s") % {"rule": date.rule.label, "lifetime": lifetime}
