"""``backstory uninstall``: what is ours on this machine, and how to take it out."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.cli.options import json_option, readable
from backstory.cli.trusting import is_agreed
from backstory.errors import BackstoryError, UnknownValue
from backstory.workspace.stores.leaving import KINDS, MachineToLeave, OwnThing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.cli.app import App

ASKED = ("store", "home")
"""The kinds that hold history: a person is asked before these go."""
SHELLS = ("bash", "zsh", "fish")
PROGRAM = ("pipx uninstall backstory", "pip uninstall backstory")
HEADS = ("KIND", "SIZE", "AGENT", "PATH")


@click.command("uninstall")
@click.argument("names", metavar="[KIND|PATH]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Take out everything that is listed.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], everything: bool, yes: bool, as_json: bool) -> None:
    """List what backstory has on this machine, with sizes; take out what is named, by its kind or path.

    timer: what `ingest --schedule` wrote. mcp and skill: what `mcp install` and `skill install` put into agents'
    settings. completion: lines in shells' profiles. exclude: the line in .git/info/exclude. store: projects' stores.
    home: the home folder with the home store. Files of others are then as they were before, byte for byte. Agents' own
    logs stay in any case. Without a name nothing is changed.
    """
    app: App = ctx.obj
    machine = _machine(app, ctx)
    things = machine.things()
    chosen = things if everything else _chosen(things, names)
    histories = [each for each in chosen if each.kind in ASKED and not each.why]
    if histories:
        size = output.size(sum(each.bytes for each in histories))
        what = f"Removing {output.counted(len(histories), 'place')} with history ({size}) for good"
        if not is_agreed(what, f"{what}?", yes=yes):
            return
    removed, refused = _take_out(machine, chosen)
    if as_json:
        output.json({"things": [_as_json(each, removed) for each in things], "program": PROGRAM})
    else:
        _print(things, removed, is_list=not chosen)
    for each in refused[1:]:
        output.talk(str(each))
    if refused:
        raise refused[0]


def _machine(app: App, ctx: click.Context) -> MachineToLeave:
    from backstory.cli.installing import ingest_program, removing_program
    from backstory.cli.scheduling import timers_of

    completion = importlib.import_module("backstory.cli.commands.completion_command")
    return MachineToLeave(
        home=app.home, user_home=app.user_home, environ=app.environ, folder=app.worktree,
        known=app.workspace.known_projects, program=removing_program(app),
        importing=ingest_program(app, is_checked=False), timers=timers_of(app),
        scripts=[completion.script_for(shell, ctx.find_root().command) for shell in SHELLS],
    )  # fmt: skip


def _chosen(things: Sequence[OwnThing], names: Sequence[str]) -> list[OwnThing]:
    """The things that are named. Raises UnknownValue for a name that none has."""
    known = {*KINDS, *(str(each.path) for each in things)}
    if unknown := next((each for each in names if each not in known), None):
        raise UnknownValue("KIND|PATH", readable(unknown), [*KINDS, *sorted(known.difference(KINDS))])
    return [each for each in things if each.kind in names or str(each.path) in names]


def _take_out(machine: MachineToLeave, chosen: Sequence[OwnThing]) -> tuple[list[OwnThing], list[BackstoryError]]:
    """Take things out, each alone: what one refuses, the others do all the same. The home goes only behind the rest."""
    removed, refused = list[OwnThing](), list[BackstoryError]()
    for each in chosen:
        if each.kind == "home" and refused:
            output.talk(f"{each.path} stays, because it notes what could not be taken out.")
        if each.why or (each.kind == "home" and refused):
            continue
        try:
            left = machine.take_out(each)
        except BackstoryError as problem:
            refused.append(problem)
            continue
        removed.append(each)
        if left:
            output.talk(output.one_liner(f"Not ours, left in {each.path}: {', '.join(left)}"))
    return removed, refused


def _print(things: Sequence[OwnThing], removed: Sequence[OwnThing], *, is_list: bool) -> None:
    if not things:
        output.talk("Nothing of backstory is on this machine but the program.")
    shown = things if is_list else removed
    if shown:
        rows = [(each.kind, output.size(each.bytes), each.about, str(each.path)) for each in shown]
        for line in output.table(rows, flexible=3, heads=HEADS):
            output.data(line)
    for each in things:
        if each.why:
            output.talk(output.one_liner(f"Left as it is: {each.why}"))
    if any(each.kind == "home" for each in removed):
        for each in things:
            if each.kind != "home" and each not in removed:
                output.talk(
                    output.one_liner(f"Still there: {each.path}. To take it out: backstory uninstall {each.kind}")
                )
    if is_list and things:
        output.talk("Nothing was changed. To take out: backstory uninstall KIND or PATH, or --all.")
    elif not is_list:
        output.talk(f"Taken out: {output.counted(len(removed), 'thing')}.")
    output.talk(f"The program itself: {PROGRAM[0]}, or {PROGRAM[1]}")


def _as_json(thing: OwnThing, removed: Sequence[OwnThing]) -> dict[str, Any]:
    return {
        "kind": thing.kind, "path": str(thing.path), "bytes": thing.bytes, "agent": thing.about or None,
        "problem": thing.why or None, "taken_out": thing in removed,
    }  # fmt: skip
