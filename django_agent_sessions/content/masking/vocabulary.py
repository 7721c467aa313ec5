"""Vocabulary of the SDKs: keys and values that are never content."""

from __future__ import annotations

import re

ENUMS = frozenset(
    {
        "role", "type", "status", "format", "object", "stop_reason", "stopReason", "detail",
        "phase", "button", "execution", "environment",
    }
)  # fmt: skip
"""Keys of enumerated values."""

NAMES = frozenset(
    {
        "completed_nodes", "failed_nodes", "interrupted_nodes", "execution_order",
        "next_nodes_to_execute", "node_history", "handoff_node", "__name__",
        "server_label", "connector_id", "container_id", "namespace", "model", "toolName",
    }
)  # fmt: skip
"""Keys of names that programs look up."""

NAME_KEYED_DICTS = frozenset({"node_results", "results"})
"""Keys of dicts whose keys are such names."""

COUNTS = frozenset(
    {"usage", "metrics", "accumulated_usage", "accumulated_metrics", "logprobs", "top_logprobs"}
)
"""Keys of values that consist of numbers only."""

IDS = frozenset(
    {
        "id", "toolUseId", "tool_use_id", "call_id", "tool_call_id", "tracking_id",
        "approval_request_id", "item_id", "response_id", "previous_response_id",
        # assistant-ui
        "parent_id", "toolCallId", "sourceId",
    }
)  # fmt: skip

NUMBERS = frozenset(
    {
        "bytes", "code", "created_at", "display_height", "display_width", "embedding_weight",
        "end_index",
        "exit_code", "frame_count", "frame_duration_ms", "index", "input_tokens", "logprob",
        "max_num_results", "max_output_length", "output_compression", "output_tokens",
        "partial_images", "reasoning_tokens", "score", "score_threshold", "scroll_x", "scroll_y",
        "start_index", "text_weight", "timeout_ms", "total_tokens", "x", "y", "output_index",
        "content_index", "summary_index", "sequence_number", "removed_message_count",
        "execution_time", "execution_count", "message_id", "start", "end", "documentIndex",
        "documentChunk", "height", "width",
    }
)  # fmt: skip
"""Keys of positions, sizes and counts."""

_KEYS = frozenset(
    {
        "acknowledged_safety_checks", "action", "actions", "allowed_callers", "allowed_domains",
        "allowed_tools", "always", "annotations", "approve", "arguments", "async", "attributes",
        "audio", "authorization", "background", "caller", "caller_id", "categories", "city",
        "code", "command", "commands", "complexity", "connector_id", "container", "content",
        "country", "created_by", "custom", "data", "defer_loading", "definition", "description",
        "diff", "domain", "domain_secrets", "effort", "encrypted_content", "env", "error",
        "external_web_access", "file", "file_data", "file_id", "file_ids", "file_url", "filename",
        "filters", "fingerprint", "function", "function_call", "headers", "hybrid_search",
        "image_url", "input", "input_audio", "input_fidelity", "input_image_mask", "input_schema",
        "key", "keys", "logs", "media_type", "memory_limit", "message", "messages", "mode",
        "moderation", "moderation_details", "moderation_stage", "name", "network_policy", "never",
        "operation", "outcome", "output", "output_format", "output_schema", "outputs", "param",
        "parameters", "path", "pattern", "pending_safety_checks", "prompt_cache_breakpoint",
        "quality", "queries", "query", "ranker", "ranking_options", "read_only", "reason",
        "reasoning", "refusal", "region", "require_approval", "result", "results",
        "revised_prompt", "search_content_types", "search_context_size", "server_description",
        "server_url", "size", "skills", "source", "sources", "stderr", "stdout", "strict",
        "summary", "svg", "svg_usage", "syntax", "text", "timezone", "title", "token",
        "tool_calls", "tool_choice", "tool_names", "tools", "ttl", "url", "user",
        "user_location", "value", "version", "working_directory",
        "async_", "enabled", "schema", "skill_id", "tunnel_id", "vector_store_ids", "env_vars",
        # Strands
        "reasoningSignature", "searchResultIndex",
        "toolUse", "toolResult", "json", "image", "document", "video", "s3Location", "uri",
        "bucketOwner", "reasoningContent", "reasoningText", "redactedContent", "signature",
        "cachePoint", "guardContent", "qualifiers", "citationsContent", "citations", "location",
        "sourceContent", "context", "metadata", "structuredContent", "structured_output",
        "summary_message", "current_task", "shared_context", "app_data", "invocation_state",
        "node_results", "interrupt_state", "interrupts", "activated", "response", "state",
        "checkpoint", "model_state", "_internal_state", "__bytes_encoded__", "pinned",
        "interrupt_id", "traces", "cycle_durations", "tool_metrics", "inputTokens",
        "outputTokens", "totalTokens", "cacheReadInputTokens", "cacheWriteInputTokens",
        "latencyMs", "timeToFirstByteMs", "web", "domainLocation", "documentChar",
        "documentPage", "tool_result", "assistant_message", "completed_tool_results",
        # assistant-ui and the AI SDK
        "approval", "approved", "args", "argsText", "attachments", "callProviderMetadata",
        "contentType", "content_digest", "errorText", "isError", "mediaType", "mimeType", "parts",
        "preliminary", "providerExecuted", "providerMetadata", "rawInput",
        "resultProviderMetadata", "sourceType",
    }
)  # fmt: skip
KEYS = _KEYS | ENUMS | NAMES | COUNTS | IDS | NUMBERS
"""The keys of the SDKs' formats; all other keys are content."""

_WORDS = frozenset(
    """
    additional_tools allowlist and apply_patch apply_patch_call apply_patch_call_output approximate
    auto base64 click code_interpreter code_interpreter_call compaction compaction_summary
    compaction_trigger configuration_update computer
    computer_call computer_call_output computer_screenshot computer_use_preview container_auto
    container_file_citation container_reference create_file custom custom_tool_call
    custom_tool_call_output delete_file direct disabled double_click drag eq exec exit
    file_citation file_path file_search file_search_call find_in_page function function_call
    function_call_output grammar gt gte http_error image image_generation image_generation_call in
    inline input_audio input_file input_image input_text item_reference keypress local local_shell
    local_shell_call local_shell_call_output logs lt lte mcp mcp_approval_request
    mcp_approval_response mcp_call mcp_list_tools mcp_protocol_error mcp_tool_execution_error
    message move namespace ne nin open_page or output_text program program_output
    programmatic_tool_calling reasoning reasoning_text refusal screenshot scroll search shell
    shell_call shell_call_output skill_reference summary_text text timeout tool_search
    tool_search_call tool_search_output type update_file url url_citation wait web_search
    web_search_2025_08_26 web_search_call web_search_preview web_search_preview_2025_03_11
    image_url file json_schema json_object audio document video
    assistant critic developer discriminator system tool unknown user
    calling completed failed generating in_progress incomplete interpreting searching
    commentary final_answer high low original medium back forward left right wheel client server
    browser linux mac ubuntu windows
    none minimal max xhigh explicit opaque transparent programmatic regex lark
    success error cancelled checkpoint content_filtered content_filter end_turn
    guardrail_intervened interrupt interrupted limit_output_tokens limit_total_tokens limit_turns
    max_tokens stop_sequence tool_use stop length tool_calls pending executing default
    graph swarm multiagent_result agent_result node_result regular
    png jpeg jpg gif webp svg wav mp3 flac opus aac pcm16 mkv mov mp4 webm flv mpeg mpg wmv three_gp
    pdf csv doc docx xls xlsx html txt md
    response response.compaction chat.completion conversation conversation.item
    ai-sdk/v6 aui/v0 data dynamic-tool source source-document source-url step-start tool-call
    """.split()  # noqa: SIM905 - two hundred words are read as words, not as literals
)
TOOL_STATES = frozenset(
    {
        "input-streaming", "input-available", "approval-requested", "approval-responded",
        "output-available", "output-error", "output-denied",
    }
)  # fmt: skip
"""States of a tool call in the AI SDK."""

_NAMED_TYPES = ("tool-", "data-")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.\-/]{0,63}")
_NAME = re.compile(r"[^\W\d][\w.\-/: ]{0,63}")


def is_word(value: object) -> bool:
    """Return whether a value is an enumerated value of an SDK."""
    return isinstance(value, str) and value in _WORDS


def may_be_word(value: str) -> bool:
    """Return whether a value may be an enumerated value of an SDK newer than this list."""
    return _WORD.fullmatch(value) is not None


def is_prefixed_type(value: str) -> bool:
    """Return whether a type of the AI SDK ends in the name of a tool or of data."""
    return value.startswith(_NAMED_TYPES)


def is_name(value: object) -> bool:
    """Return whether a value may be the name of a tool, a node or a class."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None
