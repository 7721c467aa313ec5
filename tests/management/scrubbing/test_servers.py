"""What a scrub promises on every database server, each with its own files."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError
from django.db import connections, transaction

from django_agent_sessions.governance.erasure import erase, verify
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import AuditEvent
from django_agent_sessions.testing import columns_containing
from tests.governance.person import OTHERS, WORD, fill, fill_others
from tests.governance.redaction.planted_spellings import SECRET as SPELLED
from tests.governance.redaction.planted_spellings import UNREAD
from tests.governance.redaction.planting import SECRET

from .conftest import ALIAS
from .scenario import execute, files_with, plant_everywhere, remove_everywhere, scrub
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


def test_an_erased_person_is_in_no_file_of_the_server_or_of_the_bucket(private, bucket):
    users = get_user_model()._default_manager
    lovelace = users.create_user("lovelace1815", email="countess1852@example.org", pk=917_364_529)
    bob = users.create_user("bob")
    for number in range(5):
        _session, fork = fill(lovelace, bob, number)
    fill_others(lovelace, bob, fork)
    assert files_with(bucket, WORD)

    receipt = erase(lovelace, reason="Request 31 of lovelace1815", actor="desk")
    lovelace.delete()
    # The table of users is the project's, which a scrub leaves alone.
    is_postgresql = connections[ALIAS].vendor == "postgresql"
    execute("VACUUM FULL auth_user" if is_postgresql else "OPTIMIZE TABLE auth_user")
    scrub()

    for text in (WORD, "lovelace1815", "countess1852", "917364529"):
        assert files_with(private.data, text) == files_with(bucket, text) == {}, text
        assert columns_containing(text, using=ALIAS) == []
    assert files_with(private.data, OTHERS)
    assert verify(receipt.to_json()) == []
