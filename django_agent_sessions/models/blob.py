"""Large binaries, whose files are in a storage."""

from __future__ import annotations

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.models.content_columns import ContentColumns, ContentKind
from django_agent_sessions.models.fields import IdField
from django_agent_sessions.values.ids import new_id

from .sessions import Session, SessionRelated


class Blob(SessionRelated):
    """A large binary of a session's messages; its file is stored once per session."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    # The unique constraint below is an index on the session too.
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="blobs", db_index=False
    )
    sha256 = models.CharField(_("SHA-256"), max_length=64, editable=False)
    size = models.BigIntegerField(_("size in bytes"), editable=False)
    media_type = models.CharField(_("media type"), max_length=127, blank=True, editable=False)
    #: By value: a project that changes its storage can still read files in the old one.
    storage = models.CharField(_("storage"), max_length=100, editable=False)
    file = models.CharField(_("file"), max_length=255, editable=False)
    #: The primary key of the DataKey that encrypts the file, by value: it may be elsewhere.
    data_key = models.UUIDField(_("data key"), null=True, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    content_columns = ContentColumns(
        "blob",
        {
            # The file is content. Messages refer to it, and are redacted with it.
            "file": ContentKind.NONE,
            "sha256": ContentKind.NONE,
            "media_type": ContentKind.NONE,
            "storage": ContentKind.NONE,
        },
    )

    class Meta:
        verbose_name = _("large binary")
        verbose_name_plural = _("large binaries")
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["session", "sha256"], name="agent_sessions_blob_unique_hash"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.media_type or _('binary')} {self.id}"


class BlobReference(models.Model):
    """A message's reference to a large binary. Only the session is a database constraint.

    Rows with a constraint on the message would have to be deleted one by one with the messages.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="blob_references", db_index=False
    )
    message = models.UUIDField(_("message"), editable=False)
    blob = models.ForeignKey(
        Blob, on_delete=models.DO_NOTHING, related_name="references", db_constraint=False
    )

    class Meta:
        verbose_name = _("reference to a large binary")
        verbose_name_plural = _("references to large binaries")
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["session", "message", "blob"], name="agent_sessions_blobref_unique"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.message} {self.blob_id}"


class FileToDelete(models.Model):
    """A file whose row was deleted: written in the same transaction, deleted when it is gone.

    Without it nobody would know the file if the process ended after the commit, or the storage
    refused the deletion.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    #: By value: the session may be deleted. None for a file of an export.
    session = models.UUIDField(_("session"), null=True, editable=False)
    #: The primary key of the session's owner, so that an erasure knows the person's files.
    owner = IdField(_("owner"), blank=True, default="", editable=False)
    storage = models.CharField(_("storage"), max_length=100, editable=False)
    file = models.CharField(_("file"), max_length=255, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    content_columns = ContentColumns(
        "file_to_delete",
        {
            "owner": ContentKind.NONE,
            "storage": ContentKind.NONE,
            "file": ContentKind.NONE,
        },
    )

    class Meta:
        verbose_name = _("file to delete")
        verbose_name_plural = _("files to delete")
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.storage} {self.file}"
