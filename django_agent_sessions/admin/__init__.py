"""Django admin pages for conversations, usage and the audit trail."""

from __future__ import annotations

from django.contrib import admin

from django_agent_sessions.models import AuditEvent, Operation, Session, UsageRollup

from .audit import AuditEventAdmin
from .operation_pages import OperationAdmin
from .sessions import SessionAdmin
from .usage import UsageAdmin

admin.site.register(Session, SessionAdmin)
admin.site.register(UsageRollup, UsageAdmin)
admin.site.register(Operation, OperationAdmin)
admin.site.register(AuditEvent, AuditEventAdmin)
