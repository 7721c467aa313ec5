"""What a scrub promises on every database server, each with its own files."""

from __future__ import annotations

import pytest
from django.core.management import CommandError
from django.db import transaction

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import AuditEvent
from tests.governance.redaction.planted_spellings import SECRET as SPELLED
from tests.governance.redaction.planted_spellings import UNREAD
from tests.governance.redaction.planting import SECRET

from .conftest import ALIAS
from .scenario import files_with, plant_everywhere, remove_everywhere, scrub
from .spellings import forms_in, plant_every_spelling

# A whole server each: ten seconds.
pytestmark = pytest.mark.process


def test_neither_the_files_nor_the_bucket_the_log_and_the_audit_trail_have_it(private, bucket, log):
    plant_everywhere()
    assert len(files_with(bucket)) >= 12

    remove_everywhere(keep_events=True)
    scrub()

    assert files_with(private.data) == files_with(bucket) == {}
    assert SECRET not in log.text
    reasons = AuditEvent.objects.filter(action=AuditEvent.Action.REDACTED).values_list("reason")
    assert set(reasons) == {("She told us [REDACTED]",)}


def test_no_byte_has_any_spelling_of_what_one_redaction_removed(private):
    session = plant_every_spelling()
    assert len(forms_in(private.data)) > 30

    done = redact(session, Find(SPELLED), reason="A request")
    scrub()

    assert len(done.unread) == len(UNREAD)
    assert forms_in(private.data) == set()


def test_a_transaction_is_refused(private):
    with transaction.atomic(ALIAS), pytest.raises(CommandError, match=r"cannot run in a transact"):
        scrub()
