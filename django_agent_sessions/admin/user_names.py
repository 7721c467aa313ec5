"""The names of users who are known by their keys as text."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError


def user_names(keys: Iterable[str]) -> dict[str, str]:
    """Return the names of users by primary key as text, with one query."""
    user = get_user_model()
    primary_keys = []
    for key in keys:
        try:
            primary_keys.append(user._meta.pk.to_python(key))
        except ValidationError:
            # The key is from a former user model of the project.
            continue
    rows = user._default_manager.filter(pk__in=primary_keys)
    return {str(pk): str(name) for pk, name in rows.values_list("pk", user.USERNAME_FIELD)}
