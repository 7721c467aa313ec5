"""Strands' snapshots, stash and any other key of its ``Storage`` on the project's database.

``storage`` is what Strands calls, ``work`` what that does. ``keys`` knows which keys name a
snapshot; ``documents`` takes its bytes apart; ``alignment`` finds by comparing them which messages
are known; ``saving`` and ``loading`` are between that and the store, and ``redacted`` keeps away
what was redacted. ``memory`` is what a storage remembers from one save to the next.
"""

from __future__ import annotations

from .storage import DjangoStorage

__all__ = ["DjangoStorage"]
