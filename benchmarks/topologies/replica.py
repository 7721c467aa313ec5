"""A streaming replica of a PostgreSQL server, which is behind on purpose."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.servers import PostgreSQLServer, ServerError, processes
from benchmarks.servers.postgresql import program

_PATIENCE = 60.0


class Replica(PostgreSQLServer):
    """A hot standby."""

    def __init__(
        self,
        directory: Path | str,
        primary: PostgreSQLServer,
        *,
        delay: str = "0",
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, port, {"recovery_min_apply_delay": delay, **(settings or {})})
        self.primary = primary

    def initialize(self) -> None:
        """Copies the primary, and notes that it is to be followed."""
        shutil.rmtree(self.data, ignore_errors=True)
        where = ["--host", self.primary.host, "--port", str(self.primary.port)]
        options = ["--username=postgres", "--write-recovery-conf", "--checkpoint=fast"]
        processes.run(
            [program("pg_basebackup"), "-D", self.data, *where, *options, "--no-sync"],
            user=self.user,
            directory=self.directory,
        )

    def catch_up(self) -> None:
        """Waits until it shows all that is committed on the primary now."""
        deadline = time.monotonic() + _PATIENCE
        written = self.primary.run("SELECT pg_current_wal_lsn()::text")[0][0]
        asked = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        while not self.run(asked, "postgres", written)[0][0]:
            if time.monotonic() > deadline:
                raise ServerError(f"the replica did not come to {written}:\n{self.last_lines()}")
            time.sleep(0.1)
