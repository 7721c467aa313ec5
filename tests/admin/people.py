"""Staff with chosen permissions, and sessions for them to find."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

from django_agent_sessions.models import Session, SessionAgent

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def staff(name: str, *permissions: str):
    """Makes a member of staff who has these permissions of ours."""
    user = get_user_model().objects.create_user(name, is_staff=True)
    grant(user, *permissions)
    return user


def grant(user, *permissions: str) -> None:
    """Adds permissions of ours."""
    for codename in permissions:
        user.user_permissions.add(
            Permission.objects.get(content_type__app_label="agent_sessions", codename=codename)
        )


def many(count: int, *, moment: datetime = NOON, apart: timedelta = timedelta(0)) -> list[UUID]:
    """Adds sessions with an agent each; all of the same moment, unless they are apart."""
    sessions = Session.objects.bulk_create(
        Session(session_id=f"s-{number}", last_activity_at=moment + number * apart)
        for number in range(count)
    )
    SessionAgent.objects.bulk_create(
        SessionAgent(session=session, agent_id="default", dialect="strands") for session in sessions
    )
    return [session.pk for session in sessions]
