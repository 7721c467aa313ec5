"""A process that kills processes whose agents share commits, and prints what they acknowledged."""

from __future__ import annotations

import json
import sys

import django

django.setup()

from benchmarks.chaos.group_kills import kill_writers

if __name__ == "__main__":
    print("ready", flush=True)
    print(json.dumps(kill_writers(int(sys.argv[1]), seed=int(sys.argv[2]))), flush=True)
