"""Django admin pages for conversations, usage and the audit trail."""

from __future__ import annotations

from django.contrib import admin

from django_agent_sessions.models import AuditEvent, Operation, Session, UsageRollup
from django_agent_sessions.values.chosen_classes import chosen_class

from .audit import AuditEventAdmin
from .operation_pages import OperationAdmin
from .sessions import SessionAdmin
from .usage import UsageAdmin

admin.site.register(Session, SessionAdmin)
admin.site.register(UsageRollup, UsageAdmin)
admin.site.register(Operation, OperationAdmin)
admin.site.register(AuditEvent, AuditEventAdmin)


def register_session_admin() -> None:
    """Register the class that ``AGENT_SESSIONS["SESSION_ADMIN"]`` names.

    Called when all apps are loaded, because the project's module imports this package.
    """
    chosen = chosen_class("SESSION_ADMIN", SessionAdmin)
    admin.site.unregister(Session)
    admin.site.register(Session, chosen)


__all__ = [
    "AuditEventAdmin",
    "OperationAdmin",
    "SessionAdmin",
    "UsageAdmin",
    "register_session_admin",
]
