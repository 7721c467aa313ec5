"""A process of :class:`~.processes.ProcessContract`, which appends texts to a session.

Its arguments are ``MODULE:CONTRACT SESSION COUNT PREFIX``.
"""

from __future__ import annotations

import importlib
import os
import sys
from functools import reduce
from typing import Any

from django.db import connections


def main() -> None:
    """Print ``ready``, wait for a line, and print each text that was appended."""
    contract, session_id, count, prefix = sys.argv[1:]
    if name := os.environ.get("CONTRACT_DATABASE"):
        connections["default"].settings_dict["NAME"] = name
    module, qualified_name = contract.split(":")
    found: Any = reduce(getattr, qualified_name.split("."), importlib.import_module(module))
    driver = found().driver()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for number in range(int(count)):
        text = f"{prefix}-{number}"
        driver.append(session_id, [driver.payload(text)])
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
