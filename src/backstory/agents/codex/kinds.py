"""Types of records, responses, events and items that say nothing that is shown; their bytes are kept."""

from __future__ import annotations

KEPT = frozenset(
    {
        "inter_agent_communication", "inter_agent_communication_metadata", "item_completed", "realtime_item",
        "security_risk_score", "token_count", "token_usage_record", "world_state",
    }
)  # fmt: skip
KEPT_RESPONSES = frozenset(
    {
        "additional_tools", "compaction", "compaction_summary", "compaction_trigger", "context_compaction",
        "ghost_snapshot", "other",
    }
)  # fmt: skip
KEPT_EVENTS = frozenset(
    {
        "agent_message", "agent_message_content_delta", "agent_message_delta", "agent_reasoning",
        "agent_reasoning_delta", "agent_reasoning_raw_content", "agent_reasoning_raw_content_delta",
        "agent_reasoning_section_break", "apply_patch_approval_request", "background_event",
        "collab_agent_interaction_begin", "collab_agent_interaction_end", "collab_agent_spawn_begin",
        "collab_agent_spawn_end", "collab_close_begin", "collab_close_end", "collab_resume_begin", "collab_resume_end",
        "collab_waiting_begin", "collab_waiting_end", "context_compacted", "dynamic_tool_call_request",
        "dynamic_tool_call_response", "elicitation_request", "entered_review_mode", "exec_approval_request",
        "exec_command_begin", "exec_command_end", "exec_command_output_delta", "exited_review_mode", "hook_completed",
        "hook_started", "image_generation_begin", "image_generation_end", "item_started", "mcp_startup_complete",
        "mcp_startup_update", "mcp_tool_call_begin", "mcp_tool_call_end", "model_reroute", "patch_apply_begin",
        "patch_apply_end", "patch_apply_updated", "plan_delta", "plan_update", "raw_response_item",
        "reasoning_content_delta", "reasoning_raw_content_delta", "request_permissions", "request_user_input",
        "session_configured", "shutdown_complete", "terminal_interaction", "thread_goal_updated",
        "thread_settings_applied", "turn_diff", "undo_completed", "undo_started", "view_image_tool_call",
        "web_search_begin", "web_search_end",
    }
)  # fmt: skip
KEPT_ITEMS = frozenset(
    {
        "AgentMessage", "CollabAgentToolCall", "CommandExecution", "ContextCompaction", "DynamicToolCall",
        "EnteredReviewMode", "ExitedReviewMode", "FileChange", "HookPrompt", "ImageGeneration", "ImageView",
        "McpToolCall", "Plan", "Reasoning", "SubAgentActivity", "WebSearch",
    }
)  # fmt: skip
KEPT_STREAM = frozenset({"turn.started"})
KEPT_STREAM_ITEMS = frozenset({"agent_message", "error", "plan", "reasoning", "todo_list"})
"""Items that are written when they are done, if at all."""
