"""Sessions of which only the database still has rows."""

from __future__ import annotations

from typing import Any

from backstory import ids
from backstory.agents.copilot import rows
from backstory.agents.copilot.fold import Fold
from backstory.agents.copilot.places import NAME
from backstory.agents.copilot.tools import TOOLS
from backstory.agents.copilot.values import as_number, as_text, camel, tokens_in
from backstory.model import AssistantText, At, Compacted, Event, FoundRef, Ref, Tool, ToolCall, ToolResult, UserMessage

REF_TYPES = frozenset({"pr", "issue", "commit"})


class RowFold(Fold):
    """Folds the rows of a session whose log is gone."""

    def _row(self, table: str, row: dict[str, Any], at: int | None, seq: int) -> list[Event]:
        """Return the events of a database's row about a session whose log is gone."""
        match table:
            case "sessions":
                self._note_place(row)
                self._state.session.title = as_text(row.get("summary")).strip() or self._state.session.title
                return []
            case "turns":
                prompt, answer = as_text(row.get("user_message")), as_text(row.get("assistant_response"))
                if prompt.strip():
                    self._begin_prompt(f"{self._native_id}/{as_number(row.get('turn_index'))}", prompt, at, seq)
                said: list[Event] = [UserMessage(content=prompt)] if prompt.strip() else []
                return [*said, AssistantText(text=answer)] if answer.strip() else said
            case "session_files":
                return self._row_file(row)
            case "session_refs":
                return self._row_ref(row, at, seq)
            case "checkpoints":
                text = rows.checkpoint_text(row)
                return [Compacted(summary=text)] if text else []
            case "assistant_usage_events":
                self._note_row_usage(row)
                return []
            case _:
                return []

    def _row_file(self, row: dict[str, Any]) -> list[Event]:
        """A file that was written, as the call that did it: only calls that went well have such a row."""
        name, path = as_text(row.get("tool_name")), as_text(row.get("file_path"))
        call_id, tool = f"session_files/{as_number(row.get('id'))}", TOOLS.get(name, Tool.EDIT)
        about: dict[str, Any] = {"tool_use_id": call_id, "tool_name": name, "tool": tool, "file_path": path}
        return [ToolCall(**about, input={"path": path}), ToolResult(**about)] if path else []

    def _row_ref(self, row: dict[str, Any], at: int | None, seq: int) -> list[Event]:
        """Return the reference of a row, which gives the turn, but not the words."""
        kind, value = as_text(row.get("ref_type")), row.get("ref_value")
        named = as_text(value) or (str(value) if as_number(value) is not None else "")
        if kind not in REF_TYPES or not named:
            return [self.unknown.emit(f"session_refs of type {kind}")]
        uid = ids.turn_uid(NAME, f"{self._native_id}/{as_number(row.get('turn_index'))}")
        turn = self._state.turn
        where = At(seq, 0, uid if turn is not None and turn.uid == uid else None, at)
        self._refs.append(FoundRef(where, Ref(kind, named)))
        return []

    def _note_row_usage(self, row: dict[str, Any]) -> None:
        names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
        self._give(tokens_in({camel(name): row.get(name) for name in names}))
        self._give_latency(row.get("duration_ms"))
        if self._state.turn is not None and not row.get("agent_id"):
            self._state.turn.model = as_text(row.get("model")) or self._state.turn.model
