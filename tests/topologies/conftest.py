"""What comes from a replica."""

from __future__ import annotations

import os

# They need servers of their own: `make test-replica` starts them.
collect_ignore = [] if "REPLICAPORT" in os.environ else ["live"]
