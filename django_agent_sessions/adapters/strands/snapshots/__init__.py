"""Strands' snapshots, stash and every other key of its ``Storage`` in the project's database.

* ``storage``: the class that Strands calls; ``work``: its database operations;
* ``keys``: which keys name a snapshot;
* ``documents``: parses and builds the bytes of a snapshot;
* ``alignment``: finds known messages by comparing bytes;
* ``saving``, ``loading``: convert between snapshots and the store;
* ``redacted``: applies redactions to what is written;
* ``memory``: what a storage caches between saves.
"""

from __future__ import annotations

from .storage import DjangoStorage

__all__ = ["DjangoStorage"]
