"""Kinds of records that show nothing: their bytes are kept. A kind that is neither read nor named here is unknown."""

from __future__ import annotations

KEPT = frozenset(
    {
        "agent-setting", "api-request", "api-request-blob", "api-request-shape", "atis-latch", "bridge-session",
        "file-history-snapshot", "frame-link", "last-prompt", "mode", "permission-mode", "pr-link", "progress",
        "queue-operation", "tools-used", "worktree-state",
    }
)  # fmt: skip
"""Types of a log's records."""

KEPT_SYSTEM = frozenset(
    {
        "away_summary", "compact_boundary", "informational", "microcompact_boundary", "model_fallback",
        "scheduled_task_fire", "turn_duration",
    }
)  # fmt: skip
"""Subtypes of a log's ``system`` records."""

KEPT_ATTACHMENTS = frozenset(
    {
        "agent_listing_delta", "auto_mode", "auto_mode_exit", "budget_usd", "command_permissions", "companion_intro",
        "compact_file_reference",
        "date", "date_change", "deferred_tools_delta", "diagnostics", "directory", "edited_text_file", "environment",
        "file", "goal_status", "invoked_skills", "mcp_instructions_delta", "mcp_resource", "model", "nested_memory",
        "opened_file_in_ide", "output_style", "plan_mode", "plan_mode_exit", "plan_file_reference", "prompt_snapshot",
        "relevant_memories", "remote_session_change", "selected_lines_in_ide", "session_context",
        "silent_turn_reminder", "skill_listing", "structured_output", "task_reminder", "task_status", "todo",
        "todo_reminder", "token_usage", "total_tokens_reminder", "ultra_memory", "unknown_command_fallback",
    }
)  # fmt: skip
"""Types of what the client put beside a prompt."""

KEPT_BLOCKS = frozenset({"redacted_thinking", "document", "container_upload", "fallback"})
"""Types of a message's blocks."""

KEPT_STREAM = frozenset(
    {
        "auth_status", "command_lifecycle", "control_cancel_request", "control_request", "control_response",
        "keep_alive", "prompt_suggestion", "rate_limit_event", "tool_progress", "tool_use_summary",
    }
)  # fmt: skip
"""Types of the records that a run prints."""

KEPT_STREAM_SYSTEM = frozenset(
    {
        "background_tasks_changed", "elicitation_complete", "files_persisted", "hook_progress", "hook_response",
        "hook_started", "local_command_output", "permission_denied", "post_turn_summary", "session_state_changed",
        "status", "task_notification", "task_progress", "task_started", "task_updated", "thinking_tokens",
        "vcs_state_changed",
    }
)  # fmt: skip
"""Subtypes of the ``system`` records that a run prints."""
