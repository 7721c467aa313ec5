"""What the agents' tools write."""

from __future__ import annotations

from django.db import models


class Note(models.Model):
    """A text that a tool wrote down."""

    text = models.CharField(max_length=200)

    class Meta:
        app_label = "contexts"

    def __str__(self) -> str:
        return self.text
