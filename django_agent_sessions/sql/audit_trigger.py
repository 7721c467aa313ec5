"""The trigger with which PostgreSQL refuses changes of audit events, also by plain SQL."""

from __future__ import annotations

from django.db import connections

_NAME = "agent_sessions_audit_append_only"
_TABLE = "agent_sessions_auditevent"

# It allows TRUNCATE, because `flush` and therefore TransactionTestCase use it.
_BODY = """
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

CREATE_TRIGGER = f"""
CREATE OR REPLACE FUNCTION {_NAME}() RETURNS trigger LANGUAGE plpgsql AS $${_BODY}$$;
DROP TRIGGER IF EXISTS {_NAME} ON {_TABLE};
CREATE TRIGGER {_NAME}
    BEFORE UPDATE OR DELETE ON {_TABLE}
    FOR EACH ROW EXECUTE FUNCTION {_NAME}();
"""
DROP_TRIGGER = f"""
DROP TRIGGER IF EXISTS {_NAME} ON {_TABLE};
DROP FUNCTION IF EXISTS {_NAME}();
"""

_STATE = """
    SELECT tgenabled, prosrc, tgtype, tgqual IS NOT NULL FROM pg_trigger
    JOIN pg_proc ON pg_proc.oid = tgfoid
    WHERE tgrelid = to_regclass(%s) AND tgname = %s
"""
_ROW_BEFORE_UPDATE_OR_DELETE = 1 + 2 + 8 + 16
"""PostgreSQL's bits of ``tgtype``."""


def trigger_problem(using: str) -> str:
    """Return what is wrong with the trigger: missing, disabled, changed, or an empty text."""
    connection = connections[using]
    if connection.vendor != "postgresql":
        return ""
    with connection.cursor() as cursor:
        # A view in its place, or no table before the first migration, has no trigger.
        cursor.execute(
            "SELECT FROM pg_class WHERE oid = to_regclass(%s) AND relkind = 'r'", [_TABLE]
        )
        if cursor.fetchone() is None:
            return ""
        cursor.execute(_STATE, [_TABLE, _NAME])
        found = cursor.fetchone()
    if found is None:
        return "missing"
    enabled, body, kind, is_conditional = found
    if enabled not in ("O", "A"):
        return "disabled"
    if body != _BODY or kind != _ROW_BEFORE_UPDATE_OR_DELETE or is_conditional:
        return "changed"
    return ""


def create_trigger(using: str) -> None:
    """Create the trigger, or replace one that is disabled or changed."""
    with connections[using].cursor() as cursor:
        cursor.execute(CREATE_TRIGGER)
