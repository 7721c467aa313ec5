"""Triggers with which PostgreSQL refuses, also by plain SQL, what services refuse elsewhere.

Audit events are only added. Of a session under legal hold no row is deleted, its title, metadata
and messages do not change, and the hold ends by a release alone. TRUNCATE is free, because `flush`
and therefore TransactionTestCase use it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from django.db import connections

from django_agent_sessions.db.db_errors import UNDER_HOLD

_ROW, _BEFORE, _DELETE, _UPDATE = 1, 2, 8, 16
"""PostgreSQL's bits of ``tgtype``."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger of a table, and the function that it calls."""

    name: str
    table: str
    event: str
    body: str
    kind: int
    function: str = ""
    protects: str = "sessions under legal hold"

    @property
    def create(self) -> str:
        """The SQL that creates the trigger, or replaces one that is disabled or changed."""
        function = self.function or self.name
        return f"""
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $${self.body}$$;
DROP TRIGGER IF EXISTS {self.name} ON {self.table};
CREATE TRIGGER {self.name} {self.event} EXECUTE FUNCTION {function}();
"""

    @property
    def drop(self) -> str:
        """The SQL that drops the function, and with it its triggers."""
        return f"DROP FUNCTION IF EXISTS {self.function or self.name}() CASCADE;\n"


_AUDIT_BODY = """
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('agent_sessions.purge', true) = 'on' THEN
        RETURN OLD;
    END IF;
    IF TG_OP = 'UPDATE' AND current_setting('agent_sessions.mask', true) = 'on'
        AND to_jsonb(NEW) - 'reason' = to_jsonb(OLD) - 'reason' THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'UPDATE' AND current_setting('agent_sessions.erase', true) = 'on'
        AND to_jsonb(NEW) - ARRAY['actor', 'actor_id', 'reason', 'details']
            = to_jsonb(OLD) - ARRAY['actor', 'actor_id', 'reason', 'details'] THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'audit events are only ever added; see manage.py agent_sessions_purge_audit'
        USING ERRCODE = 'restrict_violation';
END """

AUDIT = Trigger(
    "agent_sessions_audit_append_only",
    "agent_sessions_auditevent",
    "BEFORE UPDATE OR DELETE ON agent_sessions_auditevent FOR EACH ROW",
    _AUDIT_BODY,
    _ROW + _BEFORE + _DELETE + _UPDATE,
    protects="audit events",
)

_REFUSE = f"""RAISE EXCEPTION '{UNDER_HOLD}'
            USING ERRCODE = 'restrict_violation';"""

# The session's table by the schema of the row's, because there may be one of each tenant.
_DELETED_BODY = """
DECLARE held boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM deleted JOIN %I.agent_sessions_session AS session '
        'ON session.id = deleted.session_id WHERE session.legal_hold)', TG_TABLE_SCHEMA) INTO held;
    IF held THEN
        REFUSE
    END IF;
    RETURN NULL;
END """.replace("REFUSE", _REFUSE)

_MESSAGE_BODY = """
DECLARE held boolean;
BEGIN
    IF (NEW.message, NEW.text) IS NOT DISTINCT FROM (OLD.message, OLD.text) THEN
        RETURN NEW;
    END IF;
    EXECUTE format('SELECT legal_hold FROM %I.agent_sessions_session WHERE id = $1',
        TG_TABLE_SCHEMA) INTO held USING OLD.session_id;
    IF held AND position(OLD.session_id::text IN
        coalesce(current_setting('agent_sessions.held', true), '')) = 0 THEN
        REFUSE
    END IF;
    RETURN NEW;
END """.replace("REFUSE", _REFUSE)

_SESSION_BODY = f"""
BEGIN
    IF NOT OLD.legal_hold OR position(OLD.id::text IN
        coalesce(current_setting('agent_sessions.held', true), '')) > 0 THEN
        RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.legal_hold
        AND (OLD.title = '' OR NEW.title = OLD.title)
        AND (OLD.metadata::text = '{{}}' OR NEW.metadata::text = OLD.metadata::text)
        AND NEW.session_id = OLD.session_id THEN
        RETURN NEW;
    END IF;
    {_REFUSE}
END """


def _deletion(model: str) -> Trigger:
    table = f"agent_sessions_{model}"
    return Trigger(
        f"agent_sessions_hold_{model}",
        table,
        f"AFTER DELETE ON {table} REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT",
        _DELETED_BODY,
        _DELETE,
        "agent_sessions_hold_deleted",
    )


HOLD = (
    Trigger(
        "agent_sessions_hold_content",
        "agent_sessions_session",
        "BEFORE DELETE OR UPDATE OF legal_hold, title, metadata, session_id"
        " ON agent_sessions_session FOR EACH ROW",
        _SESSION_BODY,
        _ROW + _BEFORE + _DELETE + _UPDATE,
    ),
    Trigger(
        "agent_sessions_hold_payload",
        "agent_sessions_sessionmessage",
        "BEFORE UPDATE OF message, text ON agent_sessions_sessionmessage FOR EACH ROW",
        _MESSAGE_BODY,
        _ROW + _BEFORE + _UPDATE,
    ),
    *map(
        _deletion,
        [
            "sessionmessage",
            "sessionagent",
            "sessionmultiagent",
            "branch",
            "snapshot",
            "storedobject",
            "heldcopy",
            "messagefeedback",
            "note",
            "label",
        ],
    ),
)
TRIGGERS = (AUDIT, *HOLD)

_STATE = """
    SELECT tgenabled, prosrc, tgtype, tgqual IS NOT NULL FROM pg_trigger
    JOIN pg_proc ON pg_proc.oid = tgfoid
    WHERE tgrelid = to_regclass(%s) AND tgname = %s
"""


def trigger_problem(using: str, trigger: Trigger) -> str:
    """Return what is wrong with a trigger: missing, disabled, changed, or an empty text."""
    connection = connections[using]
    if connection.vendor != "postgresql":
        return ""
    with connection.cursor() as cursor:
        # A view in its place, or no table before the first migration, has no trigger.
        cursor.execute(
            "SELECT FROM pg_class WHERE oid = to_regclass(%s) AND relkind IN ('r', 'p')",
            [trigger.table],
        )
        if cursor.fetchone() is None:
            return ""
        cursor.execute(_STATE, [trigger.table, trigger.name])
        found = cursor.fetchone()
    if found is None:
        return "missing"
    enabled, body, kind, is_conditional = found
    if enabled not in ("O", "A"):
        return "disabled"
    if body != trigger.body or kind != trigger.kind or is_conditional:
        return "changed"
    return ""


def create_trigger(using: str, trigger: Trigger) -> None:
    """Create a trigger, or replace one that is disabled or changed."""
    with connections[using].cursor() as cursor:
        cursor.execute(trigger.create)  # Without parameters: %I is not one.


_FORBID = "SELECT set_config('agent_sessions.held', '', true)"
_PERMIT = """
    SELECT set_config('agent_sessions.held',
        CASE WHEN position(%s IN held) > 0 THEN held ELSE concat(held, ' ', %s::text) END, true)
    FROM (SELECT coalesce(current_setting('agent_sessions.held', true), '') AS held) AS permitted
"""


def permit_change(using: str, sessions: Collection[UUID]) -> None:
    """Let this transaction change held sessions, besides those that it may change already.

    Their hold ends, or copies of what changes are kept. Without sessions, it may change none.
    """
    connection = connections[using]
    if connection.vendor == "postgresql":
        keys = " ".join(map(str, sessions))
        with connection.cursor() as cursor:
            cursor.execute(_PERMIT if keys else _FORBID, [keys, keys] if keys else None)
