"""Seal the rows of a fixture, which Django saves without calling ``pre_save`` of their fields."""

from __future__ import annotations

from typing import Any

from django.db import models

from django_agent_sessions.content import codec

from .content_field import ContentField, holder_of
from .sessions import SessionMessage


def seal_loaded_row(instance: models.Model, raw: bool = False, **kwargs: Any) -> None:
    """Seal the content of a row that ``loaddata`` saves; ``pre_save`` of each content model."""
    if not raw or codec.is_plain():
        return
    for field in instance._meta.concrete_fields:
        if isinstance(field, ContentField) and field.is_content:
            value = field.value_from_object(instance)
            sealed = field.sealed(instance.pk, value, holder_of(instance))
            setattr(instance, field.attname, sealed)
    if isinstance(instance, SessionMessage):
        instance.text = codec.neutral_text(instance.text)
