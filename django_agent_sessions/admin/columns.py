"""What the columns of the list of sessions show."""

from __future__ import annotations

from django.contrib import admin
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from django_agent_sessions.models import Session
from django_agent_sessions.transcripts import displayable

from .changelist import Listed
from .filters import FRAMEWORKS
from .moments import local

_LONGEST = 80

COLUMNS = (
    "conversation",
    "active",
    "owned_by",
    "framework",
    "agent_names",
    "messages",
    "tokens",
)
"""The columns in order: what a phone shows first is what matters most."""


class SessionColumns:
    """The columns, for the admin of sessions."""

    @admin.display(description=gettext_lazy("session"))
    def conversation(self, session: Session) -> SafeString:
        """The title, with the id below it; only the id for whoever may not read content.

        What is special about it stands beside it, because of most sessions that is nothing.
        """
        name, signs = _short(session.session_id), _signs(session)
        if not (_listed(session).readable and session.title):
            return format_html('<span class="as-session">{}</span>{}', name, signs)
        return format_html(
            '<span class="as-session">{}</span>{} <span class="as-session-id">{}</span>',
            _short(session.title),
            signs,
            name,
        )

    @admin.display(description=gettext_lazy("owner"), empty_value="–")
    def owned_by(self, session: Session) -> SafeString | None:
        """The owner, with a link to all sessions of the same."""
        if session.owner is None:
            return None
        name = _short(session.owner.get_username())
        label = _("All sessions of %(owner)s") % {"owner": name}
        url = _listed(session).owner_url
        return format_html('<a href="{}" title="{}">{}</a>', url, label, name)

    @admin.display(description=gettext_lazy("framework"), empty_value="–")
    def framework(self, session: Session) -> str | None:
        """The frameworks of the agents."""
        found = _listed(session).frameworks
        return ", ".join(str(FRAMEWORKS.get(name, name)) for name in found if name) or None

    @admin.display(description=gettext_lazy("agents"), empty_value="–")
    def agent_names(self, session: Session) -> SafeString | None:
        """The first agents, and how many more there are."""
        listed = _listed(session)
        names = format_html_join(", ", "{}", ((_short(name),) for name in listed.agents))
        if not listed.more_agents:
            return names or None
        more = _("and %(count)s more agents") % {"count": listed.more_agents}
        return format_html(
            '{} <span class="as-more" title="{}">+{}</span>', names, more, listed.more_agents
        )

    @admin.display(description=gettext_lazy("messages"))
    def messages(self, session: Session) -> SafeString:
        """How many messages."""
        return format_html('<span class="as-figure">{}</span>', _figure(session.message_count))

    @admin.display(description=gettext_lazy("tokens in / out"))
    def tokens(self, session: Session) -> SafeString:
        """How many tokens went into the models, and came out."""
        read, written = _figure(session.input_tokens), _figure(session.output_tokens)
        figure = '<span class="as-figure">{}</span>'
        return format_html(f"{figure} / {figure}", read, written)

    @admin.display(description=gettext_lazy("last activity"))
    def active(self, session: Session) -> SafeString:
        """When something was last said."""
        shown = local(session.last_activity_at)
        return format_html(
            '<time datetime="{}"><span class="as-figure">{}</span> {}</time>',
            shown.isoformat(),
            shown.strftime("%Y-%m-%d"),
            shown.strftime("%H:%M"),
        )


def _signs(session: Session) -> SafeString:
    """Makes small signs that say in words what they mean."""
    return format_html_join(
        "",
        ' <span class="as-sign as-sign-{}" role="img" aria-label="{}" title="{}"></span>',
        ((name, label, label) for name, label in _flags(session)),
    )


def _flags(session: Session) -> list[tuple[str, str]]:
    found = []
    if session.legal_hold:
        found.append(("held", _("Under legal hold")))
    if session.redactions:
        found.append(("redacted", pgettext("session", "Redacted")))
    if session.archived_at is not None:
        found.append(("archived", pgettext("session", "Archived")))
    if session.expires_at is not None and session.expires_at <= timezone.now():
        found.append(("expired", pgettext("session", "Expired")))
    return found


def _listed(session: Session) -> Listed:
    # The page's own list has said so; another page that shows a column may not read content.
    listed: Listed = getattr(session, "listed", Listed(readable=False))
    return listed


def _short(text: str) -> str:
    return str(Truncator(displayable(text)).chars(_LONGEST))


def _figure(number: int) -> str:
    return str(number_format(number, use_l10n=True, force_grouping=True))
