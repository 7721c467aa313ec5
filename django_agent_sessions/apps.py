"""The Django app configuration."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import django
from django.apps import AppConfig, apps
from django.conf import settings
from django.core.signals import setting_changed
from django.db.backends.signals import connection_created
from django.db.models.signals import post_delete, pre_delete, pre_save
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.exceptions import ConfigurationError

if django.VERSION < (5, 2):
    raise ConfigurationError(
        f"django-agent-sessions requires Django 5.2 or newer, and {django.get_version()} is "
        'installed. Install it with: pip install "Django>=5.2"'
    )


class AgentSessionsConfig(AppConfig):
    name = "django_agent_sessions"
    label = "agent_sessions"
    verbose_name = _("Agent sessions")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_agent_sessions import (
            checks,  # noqa: F401 - registers the system checks
            encryption,
        )
        from django_agent_sessions.db import sqlite_secure_delete, transaction_join, workers
        from django_agent_sessions.models import Session, fixtures
        from django_agent_sessions.models.content_columns import content_models
        from django_agent_sessions.models.deletion import session_tombstoned
        from django_agent_sessions.sql import sqlite_deletions

        _configure_dialects()
        encryption.configure()
        setting_changed.connect(encryption.configure, dispatch_uid="agent_sessions_encryption")
        setting_changed.connect(_configure_dialects, dispatch_uid="agent_sessions")
        connection_created.connect(
            transaction_join.remember_thread_connection, dispatch_uid="agent_sessions"
        )
        connection_created.connect(workers.remember_connection, dispatch_uid="agent_sessions_own")
        connection_created.connect(
            sqlite_secure_delete.set_secure_delete, dispatch_uid="agent_sessions_overwrite"
        )
        connection_created.connect(sqlite_deletions.watch, dispatch_uid="agent_sessions_deletions")
        _turn_telemetry_on()
        _register_session_admin()
        session_tombstoned.connect(_before_batch, Session, dispatch_uid="agent_sessions")
        # By its label, because a project's user model may be loaded later.
        pre_delete.connect(_before_user, settings.AUTH_USER_MODEL, dispatch_uid="agent_sessions")
        post_delete.connect(_after_user, settings.AUTH_USER_MODEL, dispatch_uid="agent_sessions")
        pre_delete.connect(_before_session, Session, dispatch_uid="agent_sessions")
        for model in content_models():
            pre_save.connect(fixtures.seal_loaded_row, model, dispatch_uid="agent_sessions_load")


# What follows a deletion is imported with the first one, so that every process starts sooner.


def _before_batch(**kwargs: Any) -> None:
    from django_agent_sessions.governance import deletion_record

    deletion_record.before_batch(**kwargs)


def _before_session(**kwargs: Any) -> None:
    from django_agent_sessions.blobs.blob_rows import before_session_deletion
    from django_agent_sessions.governance import deletion_record

    # In this order: a session that must be kept must keep its files.
    deletion_record.before_session(**kwargs)
    before_session_deletion(**kwargs)


def _before_user(**kwargs: Any) -> None:
    from django_agent_sessions.governance.owner_removal import before_user_deletion

    before_user_deletion(**kwargs)


def _after_user(**kwargs: Any) -> None:
    from django_agent_sessions.governance.owner_removal import after_user_deletion

    after_user_deletion(**kwargs)


def _register_session_admin() -> None:
    from django_agent_sessions import conf

    chosen = conf.are_valid("SESSION_ADMIN") and conf.get_settings().SESSION_ADMIN
    if chosen and apps.is_installed("django.contrib.admin"):
        from django_agent_sessions.admin import register_session_admin

        # The system check reports what is wrong.
        with suppress(ConfigurationError):
            register_session_admin()


def _turn_telemetry_on() -> None:
    from django_agent_sessions import conf

    if not (conf.are_valid("TELEMETRY") and conf.get_settings().TELEMETRY):
        return
    try:
        from django_agent_sessions import telemetry
    except ImportError as error:
        raise ConfigurationError(
            "AGENT_SESSIONS['TELEMETRY'] requires OpenTelemetry's API. Install it with: "
            'pip install "django-agent-sessions[otel]"'
        ) from error
    telemetry.start_recording()


def _configure_dialects(*, setting: str = "AGENT_SESSIONS", **kwargs: Any) -> None:
    from django_agent_sessions import conf

    if setting != conf.SETTING:
        return
    # The system check reports an invalid value.
    paths = conf.get_settings().DIALECTS if conf.are_valid("DIALECTS") else ()
    # Without dialects of the project, the package is imported when a message is read or written.
    if paths or kwargs:
        from django_agent_sessions.content import dialects

        dialects.configure(paths)
