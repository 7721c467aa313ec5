"""A process that imports a long conversation, says how far it came, and is killed."""

from __future__ import annotations

import os
import sys

import django

if __name__ == "__main__":
    django.setup()

    from django_agent_sessions.interchange import ImportReport, import_sessions
    from tests.interchange.sources import Made, said, talk

    length = int(sys.argv[1])
    os.write(1, b"ready\n")
    sys.stdin.readline()

    def tell(report: ImportReport) -> None:
        # One write each, so that a kill leaves no half line.
        os.write(1, f"{report.messages}\n".encode())

    import_sessions(Made([talk(said(length))]), batch=10, progress=tell)
