"""A file whose row was deleted is deleted, whatever happens after the commit."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.files.storage import FileSystemStorage
from django.core.management import CommandError, call_command
from django.db import connections, transaction

from django_agent_sessions.exceptions import LegalHoldError
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.governance.erasure import erase, verify
from django_agent_sessions.governance.retention import prune
from django_agent_sessions.models import FileToDelete, Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY
from tests.processes import start

from .deleting import DELETE, DROP, WAYS, talk

pytestmark = pytest.mark.django_db(transaction=True)


def run(command: str, **options) -> tuple[int, str]:
    """Runs a command; gives its exit status and what it printed."""
    out = StringIO()
    try:
        call_command(command, stdout=out, **options)
    except CommandError as error:
        return 1, f"{out.getvalue()}{error}"
    return 0, out.getvalue()


@pytest.fixture
def refusing(monkeypatch):
    """Lets the storage refuse deletions until it is called."""

    def refuse(*_):
        raise OSError("the storage is down")

    with monkeypatch.context() as patch:
        patch.setattr(FileSystemStorage, "delete", refuse)
        yield patch.undo


@pytest.mark.process
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("way", WAYS)
def test_a_kill_after_the_commit_leaves_no_file_unknown(way, when, ada, blob_folder, stored):
    talk(ada)
    connections.close_all()
    process = start("tests.blobs.deleting", blob_folder, way, when)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -9, err
    assert not DELETE.get(way) or not Session.objects.exists()
    left = FileToDelete.objects.count()
    assert left

    assert run("agent_sessions_check")[0] == 1
    status, printed = run("agent_sessions_gc")

    assert (status, printed.splitlines()[0]) == (
        0,
        f"{left} file{'s' * (left > 1)} of deleted content deleted",
    )
    assert not FileToDelete.objects.exists()
    assert len(stored()) == len(SessionMessage.objects.filter(redacted_at=None))
    assert run("agent_sessions_check", blobs=True)[0] == 0


@pytest.mark.process
@pytest.mark.parametrize("way", DELETE)
def test_a_file_of_a_killed_append_is_deleted_even_if_its_session_is_deleted_first(
    way, ada, bob, blob_folder, stored
):
    SessionStore(owner=ada).open("s")
    connections.close_all()
    process = start("tests.blobs.deleting", blob_folder, "append", "")
    _, err = process.communicate(timeout=60)
    assert process.returncode == -9, err
    if way == "prune":
        # One event for several sessions.
        SessionStore(owner=bob).open("another")
    assert len(stored()) == 1

    DELETE[way]()

    assert not Session.objects.filter(owner=ada.pk).exists()
    status, printed = run("agent_sessions_gc", older_than=0)
    assert (status, stored()) == (0, []), printed
    assert "1 orphaned files" in printed


@pytest.mark.parametrize("way", WAYS)
def test_what_a_storage_refuses_to_delete_is_deleted_later(way, ada, stored, refusing):
    talk(ada)
    before = len(stored())

    WAYS[way]()

    assert len(stored()) == before
    assert run("agent_sessions_check")[0] == run("agent_sessions_gc")[0] == 1
    status, printed = run("agent_sessions_check", fix=True)
    assert status == 1
    assert "files of deleted content are still in a storage" in printed
    refusing()
    status, printed = run("agent_sessions_check", fix=True)
    assert status == 0, printed
    assert "fixed   file-to-delete" in printed
    assert len(stored()) == (0 if way in DELETE or way == "clear" else 1)
    assert run("agent_sessions_check", blobs=True)[0] == run("agent_sessions_gc")[0] == 0


def test_a_dry_run_deletes_nothing(ada, stored, refusing):
    talk(ada)
    Session.objects.all().delete()
    refusing()

    status, printed = run("agent_sessions_gc", dry_run=True)

    assert (status, printed.splitlines()[0]) == (0, "2 files of deleted content would be deleted")
    assert len(stored()) == 2


def test_a_prune_deletes_what_an_earlier_one_left(ada, stored, refusing):
    talk(ada)
    WAYS["prune"]()
    assert prune().files_left == 2
    refusing()

    assert prune().files_left == 0

    assert stored() == []


def test_a_storage_whose_folder_is_gone_has_deleted_nothing(ada, blob_folder, stored):
    talk(ada)
    blob_folder.rename(blob_folder.with_name("unmounted"))

    Session.objects.all().delete()

    assert run("agent_sessions_gc")[0] == 1
    blob_folder.with_name("unmounted").rename(blob_folder)
    assert run("agent_sessions_gc")[0] == 0
    assert stored() == []


def test_a_rolled_back_deletion_deletes_no_file(ada, stored):
    talk(ada)

    with transaction.atomic():
        Session.objects.all().delete()
        transaction.set_rollback(True)

    assert not FileToDelete.objects.exists()
    assert run("agent_sessions_gc")[0] == 0
    assert len(stored()) == 2


def test_an_erasure_counts_the_files_that_are_left_and_the_next_one_deletes_them(
    ada, stored, refusing
):
    talk(ada)
    first = erase(ada, reason="asked for")
    assert (first.files_left, first.counts["files"]) == (2, 2)
    assert "a file of an erased session is in its storage" in verify(first.to_json())
    refusing()

    second = erase(ada, reason="again")

    assert (second.files_left, second.counts["files"]) == (0, 2)
    assert stored() == []
    assert verify(first.to_json()) == verify(second.to_json()) == []


def test_an_erasure_counts_files_of_sessions_deleted_before_it(ada, bob, stored, refusing):
    talk(ada)
    key = ada.pk
    ada.delete()
    talk(bob)

    receipt = erase(key, reason="asked for")

    assert (receipt.counts["sessions"], receipt.files_left) == (0, 2)
    (problem,) = verify(receipt.to_json())
    assert problem == "names of files to delete of the person are in the database"
    assert erase(bob, reason="asked for").files_left == 2


def test_files_of_a_fork_that_an_erasure_redacts_are_counted(ada, bob, stored, refusing):
    talk(ada)
    store = SessionStore(owner=EVERYBODY)
    copy = store.sessions.fork(SessionStore(owner=ada).get("s"))
    Session.objects.filter(pk=copy.id).update(owner=bob)
    assert len(stored()) == 4

    assert erase(ada, reason="asked for").files_left == 4

    refusing()
    assert erase(ada, reason="again").files_left == 0
    assert stored() == []


def test_a_session_under_legal_hold_keeps_its_files(ada, stored):
    talk(ada)
    legal_hold.hold(Session.objects.get().pk, reason="a lawsuit")

    with pytest.raises(LegalHoldError):
        DROP["clear"]()
    with pytest.raises(LegalHoldError):
        DELETE["queryset"]()

    assert not FileToDelete.objects.exists()
    assert len(stored()) == 2
