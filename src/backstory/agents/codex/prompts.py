"""Words in the user's place: typed as a prompt, typed as a shell command, or written by Codex."""

from __future__ import annotations

import re
from typing import Any

from backstory.agents.codex.records import ResponseItem, text_of
from backstory.lazy import lazy_regex
from backstory.model import Command

_SYNTHETIC = lazy_regex(
    r"\s*(?:# AGENTS\.md instructions"
    r"|<(?:environment_context|user_instructions|INSTRUCTIONS|permissions|turn_aborted|subagent_notification"
    r"|user_shell_command|user_action|skill|goal|goal_context|plugin|plugins_instructions|recommended_plugins"
    r"|collaboration_mode|personality_spec|model_switch|hook_prompt|app-context|apps_instructions"
    r"|codex_internal_context|realtime_conversation)\b)"
)
IDE_CONTEXT = lazy_regex(r"\A# Context from my IDE setup:.*?^## My request for Codex:\s*\n", re.DOTALL | re.MULTILINE)
_SHELL_COMMAND = lazy_regex(
    r"\s*<user_shell_command>\s*<command>\s*(.*?)\s*</command>\s*(?:<result>(.*?)</result>)?", re.DOTALL
)
_IMAGE_TAG = lazy_regex(r"\s*</?image\b[^>]*>\s*\Z")


def is_synthetic(item: ResponseItem, text: str) -> bool:
    """Return True if Codex wrote these words, not the user: newer logs say so, in older ones the words show it."""
    kinds = item.origin.content_item_kinds if item.origin is not None else None
    if kinds:
        return not any(kind.startswith("user.") for kind in kinds)
    return _SYNTHETIC.match(text) is not None


def typed(content: Any) -> tuple[str, int]:
    """The words of a user's message, and how many images came with them."""
    if not isinstance(content, list):
        return text_of(content), 0
    parts = [part for part in content if isinstance(part, dict)]
    images = sum("image" in text_of(part.get("type")) for part in parts)
    words = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return "\n".join(word for word in words if not _IMAGE_TAG.match(word)), images


def typed_command(text: str) -> list[Command]:
    """A shell command typed after a ``!``, and what it printed: two, because only the first is the person's words."""
    found = _SHELL_COMMAND.match(text)
    if found is None:
        return []
    printed = (found.group(2) or "").strip()
    command = Command(name=f"! {found.group(1)}")
    return [command, Command(name="", output=printed)] if printed else [command]
