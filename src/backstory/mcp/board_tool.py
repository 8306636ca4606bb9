"""The tool that reads and writes the context board, the only one that writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from msgspec import Meta, field

from backstory.conversation import board as rules
from backstory.errors import BoardTextUnusable
from backstory.mcp.answer import Answer, Answered, Tool, minute

if TYPE_CHECKING:
    from backstory.conversation.board import BoardItem
    from backstory.workspace.board import Board
    from backstory.workspace.history.agent_history import AgentHistory

NAME = "The item's name, in kebab-case."
WRITER = "Where an agent and a person have an item of one name: whose."


class BoardTool(Tool, frozen=True, kw_only=True):
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
        board, answer = history.board(self.branch.strip() or None, said.append), Answer()
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


def _list(board: Board, answer: Answer) -> list[str]:
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
