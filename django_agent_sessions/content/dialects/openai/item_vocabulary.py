"""The vocabulary of the Responses API, the chat API and the Agents SDK."""

from __future__ import annotations

from django_agent_sessions.content.dialects.vocabulary import Vocabulary, terms

VOCABULARY = Vocabulary(
    enums=terms("button detail environment execution format object phase role status type"),
    options=terms("allowed_callers effort media_type memory_limit mode syntax ttl"),
    names=terms("connector_id container_id model namespace server_label"),
    ids=terms(
        """
        approval_request_id call_id id item_id previous_response_id response_id tool_call_id
        """
    ),
    prefixed_ids=terms("approval_request_id call_id id item_id tool_call_id"),
    object_ids=terms("caller_id connector_id container_id skill_id"),
    tool_names=terms("name namespace server_label"),
    tools=terms("arguments call_id input input_schema parameters"),
    counts=terms("logprobs top_logprobs usage"),
    numbers=terms(
        """
        bytes code content_index created_at display_height display_width embedding_weight end
        end_index exit_code frame_count frame_duration_ms index input_tokens logprob
        max_num_results max_output_length output_compression output_index output_tokens
        partial_images reasoning_tokens score score_threshold scroll_x scroll_y sequence_number
        start start_index summary_index text_weight timeout_ms total_tokens x y
        """
    ),
    file_names=terms("filename"),
    free=terms("arguments custom input parameters reason response"),
    sealed=terms("encrypted_content"),
    base64=terms("b64_json base64 blob data file_data result"),
    keys=terms(
        """
        acknowledged_safety_checks action actions allowed_domains allowed_tools always annotations
        approve async async_ attributes audio authorization background caller categories city
        command commands complexity container content context country created_by data defer_loading
        definition description diff domain domain_secrets enabled env env_vars error
        external_web_access file file_data file_id file_ids file_url filename filters fingerprint
        function function_call headers hybrid_search image image_url input_audio input_fidelity
        input_image_mask key keys logs message messages metadata moderation moderation_details
        moderation_stage network_policy never operation outcome output output_format output_schema
        outputs param path pattern pending_safety_checks prompt_cache_breakpoint quality queries
        query ranker ranking_options read_only reasoning refusal region require_approval result
        results revised_prompt schema search_content_types search_context_size server_description
        server_url size skills source sources stderr stdout strict summary svg svg_usage text
        timezone title token tool_calls tool_choice tool_names tools tunnel_id url user
        user_location value vector_store_ids version working_directory
        """
    ),
    words=terms(
        """
        aac additional_tools allowlist and apply_patch apply_patch_call apply_patch_call_output
        approximate assistant audio auto back base64 browser calling cancelled chat.completion
        click client code_interpreter code_interpreter_call commentary compaction
        compaction_summary compaction_trigger completed computer computer_call computer_call_output
        computer_screenshot computer_use_preview configuration_update container_auto
        container_file_citation container_reference content_filter conversation conversation.item
        create_file critic csv custom custom_tool_call custom_tool_call_output default delete_file
        developer direct disabled discriminator doc document docx double_click drag eq error exec
        exit explicit failed file file_citation file_path file_search file_search_call final_answer
        find_in_page flac flv forward function function_call function_call_output generating gif
        grammar gt gte high html http_error image image_generation image_generation_call image_url
        in in_progress incomplete inline input_audio input_file input_image input_text interpreting
        item_reference jpeg jpg json_object json_schema keypress lark left length linux local
        local_shell local_shell_call local_shell_call_output logs low lt lte mac max mcp
        mcp_approval_request mcp_approval_response mcp_call mcp_list_tools mcp_protocol_error
        mcp_tool_execution_error md medium message minimal mkv mov move mp3 mp4 mpeg mpg namespace
        ne nin none opaque open_page opus or original output_text pcm16 pdf pending png program
        program_output programmatic programmatic_tool_calling reasoning reasoning_text refusal
        regex response response.compaction right screenshot scroll search searching server shell
        shell_call shell_call_output skill_reference stop stop_sequence success summary_text svg
        system text three_gp timeout tool tool_calls tool_search tool_search_call
        tool_search_output transparent txt type ubuntu unknown update_file url url_citation user
        video wait wav web_search web_search_2025_08_26 web_search_call web_search_preview
        web_search_preview_2025_03_11 webm webp wheel windows wmv xhigh xls xlsx
        """
    ),
)
