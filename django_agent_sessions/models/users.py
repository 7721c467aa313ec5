"""Users, who may be in another database than the sessions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import connections, models, router
from django.db.models import Prefetch

from django_agent_sessions import conf
from django_agent_sessions.db import bridge

S = TypeVar("S", bound=models.QuerySet[Any])

_PLACE = ("ENGINE", "NAME", "HOST", "PORT")


class UserKey(models.ForeignKey):  # type: ignore[type-arg] # declared like Django's own
    """A foreign key to a user.

    The database checks it if the users are in the database of the sessions; a foreign key cannot
    cross databases.
    """

    @property
    def db_constraint(self) -> bool:
        """Whether the table is created with a constraint."""
        return users_are_beside(bridge.database())

    @db_constraint.setter
    def db_constraint(self, value: bool) -> None:
        """Do nothing: Django sets it."""

    def deconstruct(self) -> Any:
        """Leave out the constraint, so that a migration is the same in both cases."""
        name, path, args, kwargs = super().deconstruct()
        kwargs.pop("db_constraint", None)
        return name, path, args, kwargs


def cascade(collector: Any, field: Any, sub_objs: Any, using: str) -> None:
    """Delete rows with their user; an ``on_delete``.

    Django would look for them in the database of the users: :func:`delete_rows_of` deletes them if
    they are in another one. An object that is stored with a session goes or stays with it.
    """
    if field.name == "owner" and conf.get_settings().KEEP_SESSIONS_OF_DELETED_USERS:
        sub_objs = sub_objs.filter(session=None)
    if users_are_beside(bridge.database()) and sub_objs:
        models.CASCADE(collector, field, sub_objs, using)


cascade.lazy_sub_objs = True  # type: ignore[attr-defined] # read by Django


def delete_rows_of(key: Any, alias: str) -> None:
    """Delete a user's rows in another database than the user's."""
    for model in apps.get_app_config("agent_sessions").get_models():
        for field in model._meta.concrete_fields:
            if isinstance(field, UserKey):
                model._default_manager.using(alias).filter(**{field.name: key}).delete()


def users_are_beside(using: str) -> bool:
    """Return whether the users are in the database of this alias, perhaps by another alias."""
    return same_database(router.db_for_write(get_user_model()), using)


def same_database(one: str, other: str) -> bool:
    """Return whether two aliases are of the same database."""
    return one == other or _place(one) == _place(other)


def _place(alias: str) -> tuple[Any, ...]:
    if alias not in connections:
        return (alias,)
    configuration = connections[alias].settings_dict
    return tuple(str(configuration.get(name) or "") for name in _PLACE)


def users(using: str) -> models.QuerySet[Any]:
    """Return the users, for code that reads sessions by this alias."""
    model = get_user_model()
    alias = using if users_are_beside(using) else router.db_for_read(model)
    return model._default_manager.using(alias)


def user_names(keys: Iterable[str]) -> dict[str, str]:
    """Return the names of users by primary key as text, with one query."""
    model = get_user_model()
    primary_keys = []
    for key in keys:
        try:
            primary_keys.append(model._meta.pk.to_python(key))
        except ValidationError:
            # The key is from a former user model of the project.
            continue
    rows = model._default_manager.filter(pk__in=primary_keys)
    return {str(pk): str(name) for pk, name in rows.values_list("pk", model.USERNAME_FIELD)}


def with_owners(sessions: S) -> S:
    """Read owners with their sessions: joined, or by one statement in another database."""
    if users_are_beside(bridge.database()):
        return sessions.select_related("owner")
    return sessions.prefetch_related(Prefetch("owner", users(bridge.database())))
