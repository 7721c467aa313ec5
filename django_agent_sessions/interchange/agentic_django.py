"""Reading of the tables of agentic-django 0.5, which need not be installed.

Its session keys are unique for each owner only. Therefore the scope of an imported session is the
primary key of the user with the owner's name, or the key in the source if there is no such user.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.db import DEFAULT_DB_ALIAS

from .openai_rows import parse_object
from .openai_sources import DjangoDatabase, as_text
from .openai_tables import Columns, Database, OpenAITablesSource
from .owner_mapping import key_of_name
from .sources import Skipped

_SESSIONS, _ITEMS = "agentic_django_agentsession", "agentic_django_agentsessionitem"


class AgenticDjangoSource(OpenAITablesSource):
    """The sessions in a database of agentic-django, each with its owner."""

    kind = "agentic-django"
    _columns = Columns(
        key="id",
        name="session_key",
        data="payload",
        order="sequence",
        more=("owner_id",),
    )

    def __init__(self, using: str = DEFAULT_DB_ALIAS) -> None:
        self._using = using
        connect = functools.partial(DjangoDatabase, using, self.kind)
        super().__init__(connect, _SESSIONS, _ITEMS)
        self._name_and_scope = functools.lru_cache(maxsize=10_000)(self._find_name_and_scope)

    def _data(self) -> str:
        return as_text("payload", self._using)

    def _session_columns(
        self, database: Database, key: Any, *more: Any
    ) -> tuple[Mapping[str, Any], Sequence[Skipped]]:
        [owner_id] = more
        # A UUID is text on some databases.
        owner = get_user_model()._meta.pk.to_python(owner_id)
        name, scope = self._name_and_scope(owner)
        columns = {"scope": scope, "owner": {"id": str(owner), "username": name}}
        rows = database.run(
            f"SELECT {as_text('metadata', self._using)} FROM {database.quote(_SESSIONS)} "
            "WHERE id = %s",
            [key],
        )
        # No row: it was deleted meanwhile.
        metadata = parse_object(rows[0][0]) if rows else {}
        if isinstance(metadata, str):
            return columns, [Skipped(f"{_SESSIONS} id={key}, metadata", metadata)]
        return {**columns, "metadata": metadata}, ()

    def _find_name_and_scope(self, owner: Any) -> tuple[str | None, str]:
        model = get_user_model()
        found = model._base_manager.using(self._using).filter(pk=owner)
        name = found.values_list(model.USERNAME_FIELD, flat=True).first()
        key = None if name is None else key_of_name(name)
        return name, str(owner if key is None else key)
