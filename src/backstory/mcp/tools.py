"""The tools by their names, and the two that stand alone: SQL, and the context board."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, field

from backstory.conversation import board as rules
from backstory.errors import BoardTextUnusable, SqlWrong
from backstory.mcp.answer import Answered, McpTool, ToolAnswer, minute, shortened, without_asking
from backstory.mcp.find_tools import FileHistory, FindFix, SearchSessions
from backstory.mcp.read_tools import Expand, GetSession, Sums, SumUp

if TYPE_CHECKING:
    from backstory.conversation.board import BoardItem
    from backstory.workspace.board import Board
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


class SessionStoreSql(McpTool, frozen=True, kw_only=True):
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
        answer, said = ToolAnswer(masks=history.masks), list[str]()
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


def _add_row(row: str, answer: ToolAnswer) -> bool:
    """Add a row that was encoded, then masked; False where it does not fit."""
    try:
        return answer.add_item("rows", msgspec.json.decode(row), row)
    except msgspec.DecodeError:
        # A mask took the quotes of a value, too: as one text it is as readable.
        return answer.add_item("rows", row, row)


def _cell(cell: Any, answer: ToolAnswer) -> Any:
    if isinstance(cell, bytes):
        cell = f"x'{cell[:CELL_CHARS].hex()}'"
    # Masked before it is cut: of half a secret nobody could tell what it is. Harmless before it is encoded: an escape
    # that was written into the row's JSON would be undone where that is read.
    return shortened(answer.shown(cell), CELL_CHARS) if isinstance(cell, str) else cell


NAME = "The item's name, in kebab-case."
WRITER = "Where an agent and a person have an item of one name: whose."


class BoardTool(McpTool, frozen=True, kw_only=True):
    """Notes about a repository and branch."""

    name: ClassVar[str] = "board"
    about: ClassVar[str] = (
        "Short notes about this repository and branch that later sessions are offered. action=list names them, get "
        f"reads one, add writes one (at most {rules.CONTENT_CHARS_MAX:,} characters; the same name again replaces it), "
        "prune removes the least read ones of agents."
    )
    writes: ClassVar[bool] = True

    action: Annotated[Literal["get", "add", "prune", "list"], Meta(description="What to do.")]
    item: Annotated[str, Meta(max_length=200, description=NAME)] = field(default="", name="name")
    content: Annotated[str, Meta(max_length=20_000, description="Of add: the text.")] = ""
    description: Annotated[str, Meta(max_length=1_000, description="Of add: what it is about, in a line.")] = ""
    src: Annotated[Literal["", "agent", "user"], Meta(description=WRITER)] = ""
    branch: Annotated[str, Meta(max_length=300, description="Another git branch than the current one.")] = ""

    def answer(self, history: AgentHistory, remarks: list[str]) -> Answered:
        said = list[str]()
        board, answer = history.board(self.branch.strip() or None, said.append), ToolAnswer(masks=history.masks)
        if self.action == "list":
            said += _list(board, answer)
        elif self.action == "prune":
            removed = board.prune()
            said.append(f"Removed: {', '.join(each.name for each in removed) or 'nothing'}. {_place(board)}")
        elif not self.item.strip():
            raise BoardTextUnusable(f"action={self.action} needs the name of an item.")
        elif self.action == "get":
            item = board.get(self.item.strip(), self.src or None)
            answer.add_cut(f"{_line(item)}\n{item.content}")
        else:
            added = board.add(self.item.strip(), self.content, description=self.description, agent=history.agent)
            done = "Added" if added.is_new else "Replaced"
            said.append(f"{done}: {added.item.name}. {added.items} item{'s' * (added.items != 1)}. {_place(board)}")
            said += [added.warning] if added.warning else []
        return answer.answered([*said, *remarks])


def _list(board: Board, answer: ToolAnswer) -> list[str]:
    items = board.items()
    for each in items:
        answer.add_cut(_line(each))
    if not items:
        return [f"No items. {_place(board)}"]
    return [f"{len(items)} item{'s' * (len(items) != 1)}. {_place(board)} board(action='get', name=NAME) reads one."]


def _line(item: BoardItem) -> str:
    about = f": {item.description}" if item.description else ""
    return f"{item.name} ({item.written_by}, {minute(item.changed)}, read {item.read_count} times){about}"


def _place(board: Board) -> str:
    return f"The board of {board.key.repository}, branch {board.key.branch}."


TOOLS: dict[str, type[McpTool]] = {
    each.name: each
    for each in (SearchSessions, GetSession, Expand, SumUp, FindFix, FileHistory, Sums, SessionStoreSql, BoardTool)
}
