"""A toy cipher: it hides the text and binds it to its row and column, and is not safe."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from django_agent_sessions.content.codec import Codec, Holder

_KEY = b"not a secret"
PREFIX = "sealed:"


class ToyCodec(Codec):
    def seal(self, row: UUID, column: str, text: str, holder: Holder) -> str:
        data = text.encode()
        return f"{PREFIX}{_tag(row, column, data)}{base64.b64encode(_mask(data)).decode()}"

    def open(self, row: UUID, column: str, stored: str) -> str:
        if not stored.startswith(PREFIX):
            raise ValueError("not sealed")
        body = stored.removeprefix(PREFIX)
        data = _mask(base64.b64decode(body[64:]))
        if not hmac.compare_digest(_tag(row, column, data), body[:64]):
            raise ValueError("sealed for another row or column")
        return data.decode()


def _tag(row: UUID, column: str, data: bytes) -> str:
    return hmac.new(_KEY, b"|".join([row.bytes, column.encode(), data]), "sha256").hexdigest()


def _mask(data: bytes) -> bytes:
    stream = hashlib.shake_256(_KEY).digest(len(data))
    mixed = int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")
    return mixed.to_bytes(len(data), "big")


def update_content(rows: QuerySet[Any], content: Mapping[str, Any], **columns: Any) -> None:
    """Writes content past the store, which is how a test damages rows, sealed for each row."""
    from django_agent_sessions.models.content_field import update_one

    for key in list(rows.values_list("pk", flat=True)):
        update_one(rows.model.objects.filter(pk=key), content, **columns)


ASK_STORED_TEXT = {
    "tests/admin/test_deletion.py::test_what_goes_with_a_session": "damages a stored text",
    "tests/admin/test_list.py::test_nothing_can_be_added": "looks a title up",
    "tests/admin/test_search_admin.py::": "searches words of titles",
    "tests/admin/transcript/test_head.py::test_the_figures_count": "counts words in the database",
    "tests/admin/transcript/test_figures.py::test_a_call_without": "as the one before",
    "tests/admin/transcript/test_sizes.py::": "sizes of stored texts",
    "tests/blobs/test_admin.py::test_what_is_corrupt": "damages a stored text",
    "tests/integrity/test_closing.py::test_figures": "compares sizes of stored bytes",
    "tests/integrity/test_damage.py::test_each_damage_is_found_and_mended_where_that_is_promised"
    "[an_object_of_a_session_is_longer": "compares sizes of stored bytes",
    "tests/models/test_fields.py::": "writes columns without their rows",
    "tests/queries/test_search.py::": "searches words of titles",
    "tests/rest/events/test_reading.py::test_a_page_holds": "sizes of stored texts",
    "tests/rest/test_contents.py::test_a_message_tells": "sizes of stored texts",
    "tests/rest/test_contents.py::test_a_page_reads": "sizes of stored texts",
    "tests/store/test_statements.py::test_states_are_written": "one statement more, for the key",
}
"""What `make test-sealed` leaves out, and why: it asks for the stored text itself."""
