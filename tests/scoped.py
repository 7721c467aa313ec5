"""Another default scope of session keys, for all tests: every part has to keep it."""

from __future__ import annotations

import os
from typing import Any

SCOPE = os.environ.get("TEST_SCOPE", "")
"""What the ids of sessions are unique in where a test does not say it."""


def set_default_scope() -> None:
    """Gives what opens sessions the default ``TEST_SCOPE``."""
    from django_agent_sessions.adapters import openai_agents, strands
    from django_agent_sessions.interchange import importing
    from django_agent_sessions.store import SessionStore

    for entry in (
        *(SessionStore, openai_agents.DjangoSession, strands.DjangoSessionManager),
        *(strands.DjangoSessionRepository, strands.DjangoStorage),
    ):
        _set_default(entry.__init__)
    _set_default(importing.import_sessions)


def _set_default(function: Any) -> None:
    assert not function.__kwdefaults__["scope"]
    function.__kwdefaults__["scope"] = SCOPE


NAME_THE_EMPTY_SCOPE = {
    "tests/adapters/strands/snapshots/test_reach.py::test_ten_thousand_objects": "inserts keys",
    "tests/blobs/test_store.py::test_what_was_not_there_to_be": "gives a command the id only",
    "tests/governance/redaction/test_forks.py::test_the_command_reaches": "as the one before",
    "tests/integrity/test_healthy.py::test_only_the_sessions_that_are_named": "as the one before",
    "tests/rest/chat/assistant_ui/test_attacks.py::test_a_payload": "opens a thread by its id",
    "tests/rest/chat/assistant_ui/test_attacks.py::test_a_servers_agent": "as the one before",
    "tests/rest/chat/assistant_ui/test_attacks.py::test_only_the_clients": "as the one before",
    "tests/rest/chat/assistant_ui/test_messages.py::test_a_thread_that": "as the one before",
    "tests/rest/chat/assistant_ui/test_messages.py::test_of_long_turns": "as the one before",
    "tests/rest/chat/assistant_ui/test_messages.py::test_the_client_goes_on": "as the one before",
    "tests/rest/chat/assistant_ui/test_messages.py::test_where_the_client": "as the one before",
    "tests/rest/chat/assistant_ui/test_messages.py::test_what_the_server_said": "as the one before",
    "tests/rest/chat/assistant_ui/test_never_restored.py::test_an_agent": "as the one before",
    "tests/store/test_scopes.py::test_an_export_carries": "imports into the scope of the export",
}
"""What `make test-scoped` leaves out, and why: it asks for the key without a scope."""
