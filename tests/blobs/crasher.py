"""A process whose children are killed at a chosen call of the storage.

``python -m tests.blobs.crasher FOLDER``; each line it reads is a deed, the number of the call, the
way and the session's id, divided by tabs. It answers ``killed`` or ``acknowledged``.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import django
from django.test import override_settings

django.setup()

from . import faulty
from .deeds import DEEDS, again


def run(deed: str, number: str, kind: str, session: str) -> None:
    """Does a deed in a child, which has connections and threads of its own."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            found = again(session)
            faulty.begin(int(number), kind)
            DEEDS[deed](found)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    assert ended in {0, -signal.SIGKILL}, (deed, number, kind, ended)
    os.write(1, b"killed\n" if ended else b"acknowledged\n")


def main(folder: Path) -> None:
    with override_settings(**faulty.storages(folder)):
        os.write(1, b"ready\n")
        for line in sys.stdin:
            run(*line.rstrip("\n").split("\t"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
