"""Signals that are sent after a change of a session is committed, and never after a rollback.

Connect receivers as those of any Django signal. The sender is the model ``Session``; all arguments
are ids and counts, never content. Receivers run in the thread that wrote, after the commit: keep
them short. An error of a receiver is logged by Django (``django.dispatch``) and changes nothing for
the writer. Without receivers nothing is prepared or sent.

Every signal has the arguments ``using`` (alias of the database) and ``session`` (primary key).
"""

from __future__ import annotations

from django.dispatch import Signal

session_created = Signal()
"""A session was created. The further arguments are ``namespace``, ``scope``, ``session_id`` and
``kind`` (``"create"`` or ``"fork"``). No ``messages_added`` is sent for the messages of a fork."""

messages_added = Signal()
"""Messages were added. The further arguments are ``agent`` (primary key; None for an import),
``count`` and ``kind`` (``"append"`` or ``"import"``)."""

session_redacted = Signal()
"""Content of a session was redacted."""

session_deleted = Signal()
"""A session was deleted; the last messages of a large one may be deleted later. The further
arguments are ``namespace``, ``scope``, ``session_id`` and ``count`` (of its messages)."""

lease_lost = Signal()
"""A run lost the lease of its session, because another process holds it, or because it expired
while it could not be renewed. The signal is sent once per lease."""
