"""The columns of the list of sessions, and what its page shows like them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from django_agent_sessions.content import dialects
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import Session
from django_agent_sessions.models.lifetimes import DeletionDate, Lifetimes, deletion_date
from django_agent_sessions.values.local_time import to_local_time

from .formatting import (
    SECOND,
    exact_cost,
    format_cost,
    format_input,
    format_integer,
    format_moment,
    format_tokens,
    has_prices,
    is_generated,
    shown_title,
)
from .list_rows import SessionRowData
from .pages import admin_url
from .run_status import RUN_STATUS_LABELS

_MAX_LENGTH = 80

COLUMNS_PARAMETER = "columns"
"""The query parameter with the names of the columns that are shown."""

_COLUMNS = ("active", "owned_by", "agent_names", "messages", "tokens", "feedback")
_FURTHER = (
    *("status", "errors", "last_message", "framework", "created", "of_namespace", "review_state"),
)


def possible_columns() -> tuple[str, ...]:
    """Return the columns that can be chosen, those that are shown by default first."""
    return (*_default_columns(), *_FURTHER)


def chosen_columns(request: HttpRequest) -> tuple[str, ...]:
    """Return the columns of the list in order of importance: narrow screens show the first ones."""
    names = request.GET.get(COLUMNS_PARAMETER, "").split(",")
    chosen = tuple(name for name in possible_columns() if name in names)
    return ("conversation", *(chosen if COLUMNS_PARAMETER in request.GET else _default_columns()))


def _default_columns() -> tuple[str, ...]:
    costs = ("costs",) if has_prices() else ()
    return (*_COLUMNS, *costs, *(("deleted_from",) if has_lifetimes() else ()))


class SessionColumnsMixin:
    """Mixin with the ``list_display`` methods of the session admin."""

    admin_site: Any

    @admin.display(description=gettext_lazy("session"))
    def conversation(self, session: Session) -> SafeString:
        """Return what the session is called, badges, and the session id where it is a name.

        Users without the permission to read content see the id only.
        """
        row = _row_data(session)
        title = shown_title(session, readable=row.readable)
        signs = _signs(session_flags(session))
        snippet = format_html('<span class="as-snippet">{}</span>', row.snippet)
        name = format_html('<span class="as-session-id">{}</span>', _truncate(session.session_id))
        has_name = title != session.session_id and not is_generated(session.session_id)
        return format_html(
            '<span class="as-session{}">{}</span>{} {}{}',
            "" if row.readable and session.title else " as-words",
            _truncate(title),
            format_html(" {}", signs) if signs else "",
            snippet if row.snippet else "",
            name if has_name else "",
        )

    @admin.display(description=gettext_lazy("owner"), empty_value="–")
    def owned_by(self, session: Session) -> SafeString | None:
        """Return the owner, linked to the owner's page."""
        if session.owner is None:
            return None
        url = admin_url(self, "session_person", quote(session.owner.pk))
        return format_html('<a href="{}">{}</a>', url, _truncate(session.owner.get_username()))

    @admin.display(description=gettext_lazy("framework"), empty_value="–")
    def framework(self, session: Session) -> str | None:
        labels = dialects.labels()
        names = _row_data(session).frameworks
        return ", ".join(labels.get(name, name) for name in names if name) or None

    @admin.display(description=gettext_lazy("agents"), empty_value="–")
    def agent_names(self, session: Session) -> SafeString | None:
        """Return the first agents and the number of further ones."""
        row = _row_data(session)
        names = format_html_join(", ", "{}", ((_truncate(name),) for name in row.agents))
        if not row.more_agents:
            return names or None
        more = _("and %(count)s more agents") % {"count": row.more_agents}
        return format_html(
            '{} <span class="as-more" title="{}">+{}</span>', names, more, row.more_agents
        )

    @admin.display(description=gettext_lazy("messages"))
    def messages(self, session: Session) -> SafeString:
        return format_html(
            '<span class="as-figure">{}</span>', format_integer(session.message_count)
        )

    @admin.display(description=gettext_lazy("errors"), empty_value="–")
    def errors(self, session: Session) -> SafeString | None:
        """Return the number of messages that report an error."""
        if not session.error_count:
            return None
        return format_html('<span class="as-figure">{}</span>', format_integer(session.error_count))

    @admin.display(description=gettext_lazy("tokens in / out"))
    def tokens(self, session: Session) -> SafeString:
        if session.input_tokens is None and session.output_tokens is None:
            return format_html('<span class="as-figure">{}</span>', format_tokens(None))
        read, written = format_tokens(session.input_tokens), format_tokens(session.output_tokens)
        figure = '<span class="as-figure">{}</span>'
        if (whole := format_input(session)) == read:
            return format_html(f"{figure} / {figure}", read, written)
        titled = '<span class="as-figure" title="{}">{}</span>'
        return format_html(f"{titled} / {figure}", whole, read, written)

    @admin.display(description=gettext_lazy("cost"))
    def costs(self, session: Session) -> SafeString:
        """Return the cost at the prices of the time, with all digits as its title."""
        return format_html(
            '<span class="as-figure" title="{}">{}</span>',
            exact_cost(session.cost),
            format_cost(session.cost),
        )

    @admin.display(description=gettext_lazy("rated"), empty_value="–")
    def feedback(self, session: Session) -> SafeString | None:
        """Return a sign for each kind of feedback on messages of the session."""
        labels = feedback_labels().items()
        return _signs(one for one in labels if getattr(session, f"has_{one[0]}", False)) or None

    @admin.display(description=gettext_lazy("last activity"))
    def active(self, session: Session) -> SafeString:
        return moment_html(session.last_activity_at)

    @admin.display(description=gettext_lazy("last message"), empty_value="–")
    def last_message(self, session: Session) -> SafeString | None:
        """Return when the last message was written, and how it begins if that may be read."""
        row = _row_data(session)
        if row.last_message_at is None:
            return None
        words = format_html('<span class="as-snippet">{}</span>', _truncate(row.last_words))
        return format_html(
            "{} {}", moment_html(row.last_message_at), words if row.last_words else ""
        )

    @admin.display(description=gettext_lazy("status"), empty_value="–")
    def status(self, session: Session) -> str | None:
        if getattr(session, "is_running", False):
            return pgettext("session", "Running")
        return RUN_STATUS_LABELS.get(_row_data(session).status)

    @admin.display(description=gettext_lazy("created"))
    def created(self, session: Session) -> SafeString:
        return moment_html(session.created_at)

    @admin.display(description=gettext_lazy("namespace"), empty_value="–")
    def of_namespace(self, session: Session) -> str | None:
        return _truncate(session.namespace) or None

    @admin.display(description=gettext_lazy("review"), empty_value="–")
    def review_state(self, session: Session) -> str | None:
        """Return the state and the assignee, if the user may review the session."""
        return _row_data(session).review or None

    @admin.display(description=gettext_lazy("deleted from"), empty_value="–")
    def deleted_from(self, session: Session) -> SafeString | None:
        """Return the day from which retention deletes the session, with the rule as its title."""
        date = shown_deletion_date(session)
        if date is None:
            return None
        day = to_local_time(date.at)
        return format_html(
            '<time class="as-figure" datetime="{}" title="{}">{}</time>',
            day.isoformat(),
            describe_rule(date),
            day.strftime("%Y-%m-%d"),
        )


def moment_html(moment: datetime) -> SafeString:
    """Return a time for a cell of a table."""
    local = to_local_time(moment)
    return format_html(
        '<time datetime="{}" title="{}"><span class="as-figure">{}</span> {}</time>',
        local.isoformat(),
        format_moment(local, SECOND),
        local.strftime("%Y-%m-%d"),
        local.strftime("%H:%M"),
    )


def feedback_labels() -> dict[str, str]:
    """Return the labels of the kinds of feedback that the list shows."""
    return {
        "good": _("Good feedback"),
        "bad": _("Bad feedback"),
        "comment": _("Comments without a rating"),
    }


def _signs(labels: Iterable[tuple[str, str]]) -> SafeString:
    return format_html_join(
        " ",
        '<span class="as-sign as-sign-{}" role="img" aria-label="{}" title="{}"></span>',
        ((kind, label, label) for kind, label in labels),
    )


def session_flags(session: Session) -> list[tuple[str, str]]:
    """Return the kind and the label of each notable property of a session."""
    flags = []
    if getattr(session, "is_running", False):
        flags.append(("running", pgettext("session", "Running")))
    if session.legal_hold:
        flags.append(("held", _("Under legal hold")))
    if session.redactions:
        flags.append(("redacted", _("Redacted ×%(count)s") % {"count": session.redactions}))
    if session.archived_at is not None:
        flags.append(("archived", pgettext("session", "Archived")))
    if session.expires_at is not None and session.expires_at <= timezone.now():
        flags.append(("expired", pgettext("session", "Expired")))
    return flags


def _row_data(session: Session) -> SessionRowData:
    # Only the change list sets the attribute; elsewhere content stays hidden.
    data: SessionRowData = getattr(session, "listed", SessionRowData(readable=False))
    return data


def _truncate(text: str) -> str:
    return str(Truncator(displayable(text)).chars(_MAX_LENGTH))


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
    days, rest = divmod(date.lifetime, timedelta(days=1))
    lifetime = (
        str(date.lifetime)
        if rest
        else ngettext("%(count)s day", "%(count)s days", days) % {"count": format_integer(days)}
    )
    return _("%(rule)s: %(lifetime)s") % {"rule": date.rule.label, "lifetime": lifetime}
