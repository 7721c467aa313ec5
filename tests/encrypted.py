"""Runs tests with encryption, as a project sets it up."""

from __future__ import annotations

from typing import Any

from django_agent_sessions.content import codec
from django_agent_sessions.encryption.encryption_codec import EncryptionCodec

from .sealed import ASK_STORED_TEXT

OPTIONS: dict[str, Any] = {"KEYS": {"test": bytes(range(32))}}
"""What ``AGENT_SESSIONS["ENCRYPTION"]`` contains in tests."""


def install() -> None:
    codec.install(EncryptionCodec(OPTIONS))


def forget() -> None:
    """Forgets keys, as other processes have none."""
    if isinstance(installed := codec.installed(), EncryptionCodec):
        installed.forget()


_COUNTS = "counts statements without those of the keys"
_FILES = "reads, writes or redirects to a plain file"
_LARGE = "a page shows no beginning of a large encrypted message"
_READS = "reads or writes the column text"
_SEARCHES = "searches encrypted words, which is refused"
_SECRET = "looks for a secret that is stored"
_UPDATES = "updates rows with content that is not sealed, which is refused"
_MOVES = "moves rows to other primary keys, for which they are not sealed"

NEED_PLAIN_TEXT = {
    **ASK_STORED_TEXT,
    "tests/adapters/openai_agents/test_statements.py::test_a_first_write": _COUNTS,
    "tests/adapters/strands/test_node_messages.py::test_a_run_takes_few": _COUNTS,
    "tests/adapters/strands/test_node_messages.py::test_a_state_without_news": _COUNTS,
    "tests/adapters/strands/test_node_messages.py::test_what_the_nodes_said": _SEARCHES,
    "tests/adapters/strands/test_statements.py::TestCounts::test_messages_an_agent": _COUNTS,
    "tests/adapters/test_first_message.py::test_the_first_message_is_one": _COUNTS,
    "tests/admin/redaction/test_statements.py::": _COUNTS,
    "tests/admin/test_databases.py::test_the_list_shows_and_searches": _SEARCHES,
    "tests/admin/test_list_views.py::test_a_search_shows": _SEARCHES,
    "tests/admin/test_list_views.py::test_ones_own_sessions_are_searched": _SEARCHES,
    "tests/admin/test_operations_admin.py::test_a_search_is_stored": _SEARCHES,
    "tests/admin/test_permissions.py::"
    "test_a_page_or_action_does_for_each_permission_what_it_should"
    "[session_find": _SEARCHES,
    "tests/admin/test_permissions.py::test_a_search_and_filters": _SEARCHES,
    "tests/admin/test_permissions.py::test_everything_is_shown_and_done_where_a_rule_reaches"
    "[session_find": _SEARCHES,
    "tests/admin/timeline/test_rewinding.py::test_finding_does_not": _SEARCHES,
    "tests/admin/transcript/test_finding.py::": _SEARCHES,
    "tests/admin/transcript/test_links.py::test_links_to_messages_keep": _SEARCHES,
    "tests/admin/transcript/test_links.py::test_what_databases_cannot": _SEARCHES,
    "tests/admin/transcript/test_projects.py::test_everything_is_read": _SEARCHES,
    "tests/blobs/test_agents.py::test_a_secret_in_a_document": _FILES,
    "tests/blobs/test_agents.py::test_an_agent_that_has_it": _FILES,
    "tests/blobs/test_serving.py::test_a_browser_is_sent": _FILES,
    "tests/blobs/test_serving.py::test_a_file_that_is_no_image": _FILES,
    "tests/blobs/test_serving.py::test_a_large_damaged_file": _FILES,
    "tests/blobs/test_serving.py::test_a_storage_that_fails": _FILES,
    "tests/blobs/test_serving.py::test_nothing_runs_from": _FILES,
    "tests/governance/redaction/test_timeline.py::test_a_search_finds": _SEARCHES,
    "tests/governance/test_held_content.py::test_a_refusal_leaves": _UPDATES,
    "tests/integrity/test_healthy.py::test_figures_that_exceeded": _MOVES,
    "tests/governance/test_held_content.py::test_a_state_without_hold": _COUNTS,
    "tests/governance/test_held_content.py::"
    "test_no_way_of_the_orm_changes_what_a_held_session_holds"
    "[text of a message-save]": _READS,
    "tests/governance/test_held_content.py::"
    "test_no_way_of_the_orm_changes_what_a_held_session_holds"
    "[text of a message-update_or_create]": _READS,
    "tests/integrity/test_healthy.py::test_statements_are_counted": _COUNTS,
    "tests/interchange/importing/test_batches.py::test_a_batch_takes_three": _COUNTS,
    "tests/rest/chat/ai_sdk/test_transcript.py::test_a_message_that_is_too_large": _LARGE,
    "tests/rest/chat/assistant_ui/test_attacks.py::test_a_message_is": _READS,
    "tests/rest/chat/assistant_ui/test_attacks.py::test_only_the": _READS,
    "tests/rest/chat/assistant_ui/test_messages.py::test_a_message_with": _READS,
    "tests/rest/chat/assistant_ui/test_messages.py::test_reading_and": _COUNTS,
    "tests/rest/chat/assistant_ui/test_messages.py::test_what_the_client": _READS,
    "tests/rest/chat/assistant_ui/test_statements.py::": _COUNTS,
    "tests/rest/chat/assistant_ui/test_threads.py::test_a_list_takes": _COUNTS,
    "tests/rest/chat/assistant_ui/test_threads.py::test_owners_change": _READS,
    "tests/rest/test_access.py::test_a_leader_without_a_permission_does_what_the_rule_allows"
    "[get-sessions/-q": _SEARCHES,
    "tests/rest/test_access.py::test_a_list_and_a_search": _SEARCHES,
    "tests/rest/test_access.py::test_whoever_may_only_read_changes_nothing"
    "[get-sessions/-q": _SEARCHES,
    "tests/rest/test_authorization.py::test_a_session_that_is_being": _SEARCHES,
    "tests/rest/test_authorization.py::test_being_staff": _SEARCHES,
    "tests/rest/test_authorization.py::"
    "test_others_get_with_each_permission_what_it_opens_and_only_by_asking_for_everybodys"
    "[get-sessions/-q": _SEARCHES,
    "tests/rest/test_authorization.py::"
    "test_owners_need_no_permission_but_for_states"
    "[get-sessions/-q": _SEARCHES,
    "tests/rest/test_contents.py::test_a_large_message": _LARGE,
    "tests/rest/test_limits.py::test_a_search_has": _SEARCHES,
    "tests/rest/test_limits.py::test_every_request_counts": _SEARCHES,
    "tests/rest/test_messages.py::test_a_query_finds": _SEARCHES,
    "tests/rest/test_origins.py::test_a_fork_and_its_answer": _COUNTS,
    "tests/rest/test_paging.py::test_a_place_need_not": _SEARCHES,
    "tests/rest/test_paging.py::test_every_parameter": _SEARCHES,
    "tests/rest/test_quotas.py::test_a_search": _SEARCHES,
    "tests/rest/test_quotas.py::test_by_default_a_user_who_searches": _SEARCHES,
    "tests/rest/test_sessions.py::test_a_search_finds": _SEARCHES,
    "tests/rest/test_statements.py::test_a_change_takes": _COUNTS,
    "tests/rest/test_statements.py::test_a_search_takes": _SEARCHES,
    "tests/rest/test_statements.py::test_ones_own": _SEARCHES,
    "tests/rest/test_statements.py::test_others_are": _SEARCHES,
    "tests/rest/test_statements.py::test_payloads": _COUNTS,
    "tests/rest/test_strangers.py::test_a_search_does_not": _SEARCHES,
    "tests/store/test_counting.py::test_a_batch_takes_every": _READS,
    "tests/store/test_deleted_files.py::": _SECRET,
    "tests/store/test_errors.py::test_what_the_database_refuses": "refuses a text by a constraint",
    "tests/store/test_messages.py::test_a_message_is_replaced": _READS,
    "tests/store/test_messages.py::test_a_message_of_several": _READS,
    "tests/store/test_messages.py::test_neutral_columns": _READS,
    "tests/store/test_messages.py::test_text_is_capped": _READS,
    "tests/store/test_removal.py::test_after_a_redaction_no_byte": _SECRET,
}
"""What `make test-encrypted` leaves out, and why."""
