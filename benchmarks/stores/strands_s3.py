"""Strands' ``S3SessionManager``: one object per message, on moto's server on this machine.

There is no network between: a real bucket takes some milliseconds more for each request.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from strands.session.repository_session_manager import RepositorySessionManager
from strands.session.s3_session_manager import S3SessionManager

from benchmarks.object_storage import BUCKET, served, session

from .strands_files import Repository


class StrandsS3(Repository):
    """One boto session for all."""

    name = "Strands S3SessionManager, moto"
    packages = ("strands-agents", "boto3", "moto")
    longest = 1_000
    remark = (
        "S3SessionManager requests each message separately. Its longest conversation here has "
        "1,000 messages, because one restore of them takes seconds."
    )

    async def start(self) -> None:
        self._open = ExitStack()
        self._endpoint = self._open.enter_context(served())
        self._session = session()
        self._written = 0
        self._session.events.register("before-send.s3", self._count)
        self._s3 = self._session.client("s3", endpoint_url=self._endpoint)

    async def stop(self) -> None:
        self._s3.close()
        self._open.close()

    def manager(self, name: str) -> RepositorySessionManager:
        return S3SessionManager(
            name, BUCKET, boto_session=self._session, endpoint_url=self._endpoint
        )

    async def size(self) -> int | None:
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return sum(int(found["Size"]) for page in pages for found in page.get("Contents", ()))

    async def written(self) -> int | None:
        return self._written

    def _count(self, request: Any, **more: Any) -> None:
        body = request.body
        if request.method in ("PUT", "POST") and body is not None:
            content = body if isinstance(body, bytes) else body.getvalue()
            self._written += len(content)
