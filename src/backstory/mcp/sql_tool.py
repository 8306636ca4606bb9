"""The tool that answers SQL."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from backstory.errors import SqlWrong
from backstory.mcp.answer import Answer, Answered, Tool, shortened, without_asking

if TYPE_CHECKING:
    from backstory.workspace.history.agent_history import AgentHistory

ROWS_MAX = 1_000
CELL_CHARS = 4_000
WHY_STOPPED = {
    "rows": f"No more than {ROWS_MAX:,} rows are read.",
    "bytes": "The rest is too large; select fewer columns.",
    "time": "The time was up; there may be more rows.",
}
NAMES = (
    "sessions(id, uid, name, agent, project, repository, branch, summary, created_at, updated_at), "
    "turns(session_id, turn_index, user_message, assistant_response, timestamp, is_copy, first_seq, outcome, "
    "cost_usd), "
    "tool_calls(session_id, seq, tool_name, tool, command, file_path, is_error, exit_code, output, at, is_copy), "
    "session_files(session_id, file_path, action, touches), session_refs(session_id, ref_type, ref_value), "
    "usage, events(session_id, seq, kind, text), compactions, checkpoints, branches, dynamic_context_items"
)
"""The views that answer most questions, as a model is told of them."""


class SessionStoreSql(Tool, frozen=True, kw_only=True):
    """One reading statement."""

    name: ClassVar[str] = "session_store_sql"
    about: ClassVar[str] = (
        f"Ask the session store one read-only SQL statement (SQLite). Views: {NAMES}. Functions: "
        "event_text(session_id, seq), event_full(session_id, seq). Cite rows as uid @seq. For words use "
        "search_sessions: the full-text index cannot be asked here."
    )

    query: Annotated[str, Meta(max_length=100_000, description="One select statement.")] = ""
    sql: Annotated[str, Meta(max_length=100_000, description="The same as query.")] = ""

    def answer(self, history: AgentHistory, remarks: list[str]) -> Answered:
        statement = self.query.strip() or self.sql.strip()
        if not statement:
            raise SqlWrong("there is no statement: give it as query")
        answer, said = Answer(), list[str]()
        found = history.sql(statement, answer.redactor.text, ROWS_MAX)
        columns = [answer.shown(each) for each in found.columns]
        answer.add_field("columns", columns, " | ".join(columns))
        rows = (msgspec.json.encode([_cell(cell, answer) for cell in row]).decode() for row in found.rows)
        shown = sum(takewhile(bool, (_add_row(answer.shown(row), answer) for row in rows)))
        if found.rows and not shown:
            said.append("Left out: the first row alone is too long. Select fewer columns, or substr(column, 1, 2000).")
        elif shown < len(found.rows):
            said.append(
                f"Left out: {shown} of {len(found.rows)} rows are shown. Add `limit {shown} offset {shown}`, or select "
                "fewer columns."
            )
        if found.stopped_by:
            said.append(WHY_STOPPED[found.stopped_by])
        elif not found.rows:
            said.append("No rows.")
        without_asking(history, said)
        return answer.answered([*said, *remarks])


def _add_row(row: str, answer: Answer) -> bool:
    """Add a row that was encoded, then masked; False where it does not fit."""
    try:
        return answer.add_item("rows", msgspec.json.decode(row), row)
    except msgspec.DecodeError:
        # A mask took the quotes of a value, too: as one text it is as readable.
        return answer.add_item("rows", row, row)


def _cell(cell: Any, answer: Answer) -> Any:
    if isinstance(cell, bytes):
        cell = f"x'{cell[:CELL_CHARS].hex()}'"
    # Masked before it is cut: of half a secret nobody could tell what it is.
    return shortened(answer.redactor.text(cell), CELL_CHARS) if isinstance(cell, str) else cell
