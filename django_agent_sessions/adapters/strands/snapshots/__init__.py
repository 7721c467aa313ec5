"""Strands' snapshots, stash and every other key of its ``Storage`` in the project's database.

* ``storage``: the class that Strands calls; ``storage_operations``: its database operations;
* ``keys``: which keys name a snapshot;
* ``json_documents``: parses and builds the bytes of a snapshot;
* ``messages``: finds the messages that are known;
* ``save``, ``load``, ``orchestrators``: convert between snapshots and the store;
* ``saved_redaction``: applies redactions to what is written;
* ``cache``: what a storage caches between saves.
"""

from __future__ import annotations

from .storage import DjangoStorage

__all__ = ["DjangoStorage"]
