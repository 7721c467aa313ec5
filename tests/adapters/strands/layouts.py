"""Places where both Strands' own managers and ours keep sessions: a directory, a bucket."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

from django.core.files.storage import FileSystemStorage
from strands import Agent
from strands.multiagent import GraphBuilder, Swarm
from strands.session import FileSessionManager, S3SessionManager
from strands.session.repository_session_manager import RepositorySessionManager

from django_agent_sessions.adapters.strands import StorageSessionRepository
from tests.s3 import TestBucket

from .scripted import ScriptedModel, call
from .tools import add

NAMES = ("research", "write")


class Directory:
    """A directory, for ``FileSessionManager`` and a ``FileSystemStorage``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def storage(self) -> Any:
        return FileSystemStorage(self.path)

    def repository(self) -> StorageSessionRepository:
        return StorageSessionRepository(self.storage, "sessions")

    def strands(self, session_id: str) -> Any:
        return FileSessionManager(session_id, str(self.path / "sessions"))

    def ours(self, session_id: str) -> Any:
        return RepositorySessionManager(session_id, self.repository())

    def files(self) -> dict[str, bytes]:
        """All files, and the folders, which are empty."""
        return {
            str(found.relative_to(self.path)): b"" if found.is_dir() else found.read_bytes()
            for found in self.path.rglob("*")
        }

    def put(self, name: str, data: bytes) -> None:
        """Puts a file there as something else may."""
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_bytes(data)


class Bucket(Directory):
    """A bucket, for ``S3SessionManager`` and an ``S3Storage``."""

    def __init__(self, bucket: TestBucket) -> None:
        self.bucket = bucket

    @property
    def storage(self) -> Any:
        return self.bucket.storage

    def strands(self, session_id: str) -> Any:
        return S3SessionManager(
            session_id,
            self.bucket.name,
            "sessions/",
            boto_session=self.bucket.session,
            endpoint_url=self.bucket.endpoint,
        )

    def files(self) -> dict[str, bytes]:
        return {
            key: self.bucket.client.get_object(Bucket=self.bucket.name, Key=key)["Body"].read()
            for key in self.bucket.found()
        }

    def put(self, name: str, data: bytes) -> None:
        self.bucket.client.put_object(Bucket=self.bucket.name, Key=name, Body=data)


def agent(manager: Any, *steps: Any, agent_id: str = "a", **options: Any) -> Agent:
    """Builds an agent as a new process would."""
    return Agent(
        model=ScriptedModel(steps),
        tools=[add],
        agent_id=agent_id,
        session_manager=manager,
        callback_handler=None,
        **options,
    )


def graph(manager: Any) -> Any:
    """Two nodes in a row."""
    builder = GraphBuilder()
    builder.set_graph_id("graph")
    builder.set_max_node_executions(9)
    builder.set_session_manager(manager)
    for name in NAMES:
        builder.add_node(_node(name, f"{name} is done"), name)
    for one, next_one in itertools.pairwise(NAMES):
        builder.add_edge(one, next_one)
    return builder.build()


def swarm(manager: Any) -> Any:
    """Two agents, one handing over to the other."""
    one, other = NAMES
    handing_over = call("handoff_to_agent", agent_name=other, message="go on")
    return Swarm(
        [_node(one, {**handing_over, "toolUseId": "call"}, "handed over"), _node(other, "done")],
        id="swarm",
        session_manager=manager,
    )


def normalised(files: dict[str, bytes]) -> dict[str, str]:
    """Files without what differs from one run to the next: times and random ids."""
    moving = [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(\+00:00)?", "TIME"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
        (r'("(execution_time|latencyMs)": )\d+', r"\g<1>0"),
        # Strands leaves it out if it was less than a millisecond.
        (r',\s+"timeToFirstByteMs": \d+', ""),
    ]
    found = {name: data.decode() for name, data in files.items()}
    for pattern, replacement in moving:
        found = {name: re.sub(pattern, replacement, text) for name, text in found.items()}
    return found


def _node(name: str, *steps: Any) -> Agent:
    return Agent(model=ScriptedModel(steps), name=name, agent_id=name, callback_handler=None)
