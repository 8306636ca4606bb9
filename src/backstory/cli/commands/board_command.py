"""``backstory board``: short notes about a repository and branch, for the next session."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from backstory.cli import CommandGroup, output
from backstory.cli.options import BOARD_ITEM, GIT_BRANCH, REPOSITORY, json_option, readable, store_option
from backstory.cli.prompt_input import READS_STDIN, PromptInput, input_options
from backstory.cli.trusting import may_act, trust_option
from backstory.conversation import board as rules
from backstory.errors import BoardItemNotFound, BoardTextUnusable, PromptLeftEmpty
from backstory.store.tables import boarding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from backstory.cli.app import App
    from backstory.conversation.board import BoardItem, Src
    from backstory.workspace.board import Board

STDIN = ("-",)
NAME_ROOM_LEAST = 12


def _board_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--repo`` and ``--branch``: which board, where it is not the current folder's."""
    repo = click.option(
        "--repo", type=REPOSITORY, metavar="REPO", help="The board of owner/name, or of a folder.  [default: here]"
    )
    branch = click.option("--branch", type=GIT_BRANCH, help="The board of this git branch.  [default: the current one]")
    return repo(branch(function))


_src_option = click.option(
    "--src", type=click.Choice([rules.AGENT, rules.USER]), help="The item of an agent, or of a person (user)."
)


@click.group("board", cls=CommandGroup)
def command() -> None:
    """Keep notes about a repository and branch. A run is offered those that fit its prompt."""


@command.command("list")
@click.option("--all", "lists_all", is_flag=True, help="List the boards of the machine instead.")
@_board_options
@json_option
@store_option
@click.pass_obj
def _list(app: App, lists_all: bool, repo: str | None, branch: str | None, as_json: bool) -> None:
    """List the items of a board: who wrote each, and how often it was read in how many sessions since."""
    if lists_all:
        _list_boards(app, as_json=as_json)
        return
    app.bring_up_to_date()
    board = _board(app, repo, branch)
    items = board.items()
    if as_json:
        output.json(
            {
                "repository": board.key.repository,
                "branch": board.key.branch,
                "items_max": rules.ITEMS_MAX,
                "items": [rules.as_json(each) for each in items],
            }
        )
        return
    for line in _lines(items):
        output.data(line)
    if not items and (others := board.branches):
        there = output.one_liner(", ".join(others))
        output.talk(f"The board of {_called(board)} has no items. This repository has some on (--branch): {there}")
    elif not items:
        output.talk(f"The board of {_called(board)} has no items. To add one: backstory board add NAME TEXT")
    elif sys.stdout.isatty():
        output.talk(f"{output.counted(len(items), 'item')} of {rules.ITEMS_MAX} on the board of {_called(board)}.")


def _list_boards(app: App, *, as_json: bool) -> None:
    store = app.home_store
    found = [(key, len(boarding.items(store, key))) for key in boarding.boards(store)]
    if as_json:
        boards = [{"repository": key.repository, "branch": key.branch, "item_count": items} for key, items in found]
        output.json({"boards": boards})
        return
    rows = [(key.repository, key.branch, str(items)) for key, items in found]
    for line in output.table(rows, flexible=0, heads=("REPOSITORY", "BRANCH", "ITEMS")) if rows else ():
        output.data(line)
    if not rows:
        output.talk("No board has any items. To add one: backstory board add NAME TEXT")


def _lines(items: Sequence[BoardItem]) -> Iterator[str]:
    rows = [
        (each.name, each.written_by, f"{each.read_count}/{each.count}", _about(each))
        for each in items
    ]  # fmt: skip
    if rows:
        yield from output.table(rows, flexible=3, heads=("NAME", "BY", "READS/SESSIONS", "ABOUT"))


def _about(item: BoardItem) -> str:
    """An item in a line: its description, else its first words."""
    return item.description or item.content.partition("\n")[0]


@command.command("add")
@click.argument("name", type=BOARD_ITEM)
@click.argument("text", nargs=-1)
@click.option("--description", "-d", default=None, metavar="LINE", help="What the item is about, in one line.")
@click.option("--agent", metavar="NAME", help="The agent that writes it; its items may be pruned.  [default: you]")
@_board_options
@json_option
@partial(input_options, what="item")
@trust_option
@store_option
@click.pass_context
def _add(
    ctx: click.Context, name: str, text: tuple[str, ...], description: str | None, agent: str | None,
    repo: str | None, branch: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Create or replace the item NAME from TEXT, stdin (-) or $EDITOR.

    NAME is kebab-case, such as build-notes. An item has at most 4,000 characters, a board 25 items. An item
    that is written anew keeps its counts, and its description unless you give one.
    """
    app: App = ctx.obj
    board = _board(app, repo, branch)
    name, agent = readable(name), readable(agent) if agent is not None else None
    board.check_name(name)
    known = _known(board, name, rules.USER if agent is None else rules.AGENT)
    if description is None:
        description = known.description if known is not None else ""
    given, content = _content(ctx, text, known)
    may_act(app, board.store)
    added = board.add(name, content, description=readable(description), agent=agent)
    given.stored()
    if as_json:
        output.json(rules.as_json(added.item) | {"is_new": added.is_new, "item_count": added.items})
    else:
        done = "Added" if added.is_new else "Updated"
        count = f"{added.items} item{'s' * (added.items != 1)}"
        output.talk(f"{done} {name} on the board of {_called(board)}: {count}.")
    if added.warning:
        output.talk(added.warning)


def _known(board: Board, name: str, src: Src) -> BoardItem | None:
    try:
        return board.find(name, src)
    except BoardItemNotFound:
        return None


def _content(ctx: click.Context, text: tuple[str, ...], known: BoardItem | None) -> tuple[PromptInput, str]:
    """Return the source of the text, and the text; the editor begins with the item's present text."""
    if text == STDIN:
        ctx.meta[READS_STDIN], text = True, ()
    given = PromptInput(ctx, "item")
    if given.edits_alone(text) and known is not None:
        text = (known.content,)
    try:
        return given, given.text(text)
    except PromptLeftEmpty as refused:
        raise BoardTextUnusable("The item is empty, so nothing was changed.") from refused


@command.command("show")
@click.argument("name", type=BOARD_ITEM)
@_src_option
@_board_options
@json_option
@store_option
@click.pass_obj
def _show(app: App, name: str, src: Src | None, repo: str | None, branch: str | None, as_json: bool) -> None:
    """Print the item NAME. This counts as a read."""
    item = _board(app, repo, branch).get(readable(name), src)
    if as_json:
        output.json(rules.as_json(item))
        return
    reads = f"read {item.read_count} time{'s' * (item.read_count != 1)}"
    sessions = f"{item.count} session{'s' * (item.count != 1)} since {output.local(item.created)}"
    output.talk(output.one_liner(f"{item.name} by {item.written_by}: {reads}, {sessions}."))
    if item.description:
        output.talk(output.one_liner(item.description))
    output.talk_apart()
    output.data(item.content)


@command.command("prune")
@click.option(
    "--keep", type=click.IntRange(0, rules.ITEMS_MAX), default=rules.ITEMS_KEPT, show_default=True,
    help="Remove no more than leaves so many.",
)  # fmt: skip
@_board_options
@json_option
@trust_option
@store_option
@click.pass_obj
def _prune(app: App, keep: int, repo: str | None, branch: str | None, as_json: bool) -> None:
    """Remove the agents' items with the fewest reads per session. People's items stay."""
    board = _board(app, repo, branch)
    may_act(app, board.store)
    app.bring_up_to_date()
    gone = board.prune(keep)
    left = len(board.items())
    if as_json:
        output.json({"removed_items": [rules.as_json(each) for each in gone], "item_count": left})
        return
    for each in gone:
        output.data(each.name)
    output.talk(f"Removed {len(gone)} item{'s' * (len(gone) != 1)}; {left} left on the board of {_called(board)}.")


@command.command("rm")
@click.argument("name", type=BOARD_ITEM)
@_src_option
@_board_options
@json_option
@trust_option
@store_option
@click.pass_obj
def _rm(app: App, name: str, src: Src | None, repo: str | None, branch: str | None, as_json: bool) -> None:
    """Remove the item NAME, for good."""
    board = _board(app, repo, branch)
    may_act(app, board.store)
    removed = board.remove(readable(name), src)
    if as_json:
        output.json(rules.as_json(removed))
        return
    output.talk(output.one_liner(f"Removed {removed.name} by {removed.written_by} from the board of {_called(board)}."))


def _board(app: App, repo: str | None, branch: str | None) -> Board:
    return app.workspace.board(
        readable(repo) if repo is not None else None,
        readable(branch) if branch is not None else None,
        report=lambda sentence: output.talk(output.one_liner(sentence)),
    )


def _called(board: Board) -> str:
    return output.one_liner(f"{board.key.repository} ({board.key.branch})")
