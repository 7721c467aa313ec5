"""A process that rolls up usage beside others, in small batches.

``python -m tests.usage.usage_process BATCH UNTIL``; prints the figures of each batch.
"""

from __future__ import annotations

import sys
import time
from datetime import datetime

import django

django.setup()

from django_agent_sessions import usage


def main(batch: int, until: datetime) -> None:
    print("ready")
    sys.stdin.readline()
    while True:
        counted = usage.roll_up(batch=batch, until=until, seconds=0)
        print(counted.messages, counted.sessions)
        if counted.complete:
            return
        # SQLite gives the lock to whoever asks at the moment, which else is this one again.
        time.sleep(0.02)


if __name__ == "__main__":
    main(int(sys.argv[1]), datetime.fromisoformat(sys.argv[2]))
