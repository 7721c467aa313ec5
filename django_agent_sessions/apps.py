"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks
from django.db.backends.signals import connection_created
from django.utils.translation import gettext_lazy as _


class AgentSessionsConfig(AppConfig):
    """``django_agent_sessions`` in ``INSTALLED_APPS``."""

    name = "django_agent_sessions"
    label = "agent_sessions"
    verbose_name = _("Agent sessions")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Connects the system checks, and what each new database connection needs."""
        from . import lenders
        from .checks import check_settings, check_storage
        from .store import vendors

        checks.register(check_settings)
        checks.register(check_storage, checks.Tags.models)
        connection_created.connect(lenders.remember_connection, dispatch_uid="agent_sessions")
        connection_created.connect(
            vendors.overwrite_from_the_start, dispatch_uid="agent_sessions_overwrite"
        )
