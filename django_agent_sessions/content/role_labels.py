"""The names of the roles of messages, for pages."""

from __future__ import annotations

from django.utils.translation import gettext_noop

ROLE_LABELS = {
    "user": gettext_noop("User"),
    "assistant": gettext_noop("Assistant"),
    "tool": gettext_noop("Tool"),
    "system": gettext_noop("System"),
}
OTHER_ROLE = gettext_noop("Other")
