"""The meaning of each option: one, whatever the command. docs/commands.md lists them, from click's own data."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from backstory.cli import ALIASES, GROUPS, OF_TREE
from tests.support.shown_commands import ROOT, commands

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = ROOT / "docs" / "commands.md"
REPORTS = "report standup, report recap, report search, report cost, report blame, report tips, report cost-tips"
MEANINGS = {
    "--agent": (
        "The agent that is meant, by its name.",
        "list, run, resume, followup, board add, ingest, doctor formats",
    ),
    "--all": (
        "All there are, not only some: of every project, of the whole store, every command.",
        "list, search, tui, board list, restore, export, optimize, help, uninstall, sync forget",
    ),
    "--at": ("The record that is meant: go on behind it, or end with it.", "run, resume, export"),
    "--branch": ("The git branch that is meant.", "list, board list"),
    "--cwd": ("The folder to work in.", "run, resume, restore, export"),
    "--dry-run": ("Only show what would be done.", "compact, mcp install, prune, sync"),
    "--edit": ("Write the text in $EDITOR.", "run, board add"),
    "--exact": ("Exactly: as it is typed, or as the other tool writes it.", "search, export"),
    "--explain": ("Also say how the result is made.", f"{REPORTS}, context, ingest"),
    "--force": ("Do it although a file or a session in use is in its way.", "resume, restore, export"),
    "--full": ("Everything, not the short form.", "show, report tips"),
    "--here": ("Only this project.", "list, search, sql, export, config set"),
    "--json": ("Print JSON; of a run a line for each event.", "list, run"),
    "--keep": ("What stays all the same: so many, or what has a name.", "board prune, prune"),
    "--limit": ("The most that is listed.", "list, search, report search, sql"),
    "--md": ("Print Markdown.", f"show, {REPORTS}, sql"),
    "--model": ("The model that is meant.", "run, list"),
    "--name": ("The session with this name.", ", run, steer"),
    "--or-run": ("If the session is not running: run it now, as a prompt.", ", steer"),
    "--person": ("A person of the team, by their name.", "login, report cost"),
    "--plain": ("Files that are not sealed.", "pull, push"),
    "--print": ("Print the command instead of running it.", "list, resume"),
    "--redact": ("Mask secrets, and people's names in paths.", "show, export"),
    "--remote": ("Ask the team's server.", "search, report cost"),
    "--remove": ("Take out what is named, for good.", "team users, team logins"),
    "--repo": ("The repository that is meant.", "list, board list, team logins"),
    "--since": ("Only what is from this time on.", "list, doctor formats"),
    "--session": ("The session that is meant.", ", show, search, export"),
    "--sort": ("The order.", "list, search"),
    "--steer": ("Say something to what runs, or let it be said.", ", login"),
    "--to": ("The file or folder to write.", "restore, export"),
    "--trust": ("Trust a store that came from elsewhere.", ", run, import, merge"),
    "--undo": ("Take back what this command did.", "resume, compact, export, project move"),
    "--watch": ("Go on with what is new, until Ctrl-C.", "ingest, sync"),
    "--yes": ("Do not ask.", "rm, report improve, secrets scan"),
}
"""The one meaning of an option whose help differs between commands, and commands with each of these texts."""
TWO_MEANINGS = {
    ("--all", "report tips"): "the earlier name of --full, hidden, for one more release",
    ("--force", "reindex"): "parse all stored bytes again, although nothing asks for it; scripts have it",
    ("--scope", "mcp install"): "for a person or a project: the word that the agents' own `mcp add` has for it",
    ("--write", "export"): "write the log, where `report --write AGENT` has an agent write: both write only if asked",
    ("-m", "report standup"): "the earlier short name of --write-model, hidden, for one more release",
    ("-n", "list"): "the earlier name of --limit, hidden, for one more release; of `search` for good",
}  # fmt: skip
"""Each second meaning of an option, by a command that has it, with the reason."""


class OptionUse(Struct, frozen=True):
    """An option of a command: its names, and what its help says."""

    command: str
    names: tuple[str, ...]
    about: str
    is_hidden: bool

    @property
    def main(self) -> str:
        """The name that meanings are listed by: the first long one."""
        return next((name for name in self.names if name.startswith("--")), self.names[0])


def uses() -> Iterator[OptionUse]:
    """Yield every option of every command."""
    for name, command in commands():
        for each in command.params:
            if isinstance(each, click.Option):
                about = (each.help or "").removesuffix("  [default]")
                yield OptionUse(name, (*each.opts, *each.secondary_opts), about, each.hidden)


def by_text() -> dict[str, dict[str, list[OptionUse]]]:
    """Return the uses of each option, by its main name and its help."""
    found: dict[str, dict[str, list[OptionUse]]] = defaultdict(lambda: defaultdict(list))
    for each in uses():
        found[each.main][each.about].append(each)
    return found


def reference() -> str:
    """Return docs/commands.md."""
    lines = [
        "# Commands and options", "",
        "Written by `python -m tests.set_option_reference`. `backstory help COMMAND` says more of each.",
        "", "## Commands",
    ]  # fmt: skip
    for title, group in GROUPS.items():
        lines += ["", f"**{title}**", "", *(f"- `backstory {name}`: {about}" for name, about in group.items())]
    others = ", ".join(f"`{name}` is `{same}`" for name, same in {**ALIASES, **OF_TREE}.items())
    lines += ["", f"Names from other tools work for good: {others}. `backstory help --all` has the others.", ""]
    lines += ["## Options", "", "An option means the same in every command that has it.", ""]
    lines += ["| option | meaning | commands |", "|---|---|---|"]
    lines += [f"| {' '.join(f'`{name}`' for name in names)} | {about} | {where} |" for names, about, where in _rows()]
    lines += ["", "### Second meanings", "", "These few names mean something else in one place:", ""]
    lines += [f"- `{option}` of `{command}`: {reason}." for (option, command), reason in TWO_MEANINGS.items()]
    return "\n".join(lines) + "\n"


def _rows() -> Iterator[tuple[list[str], str, str]]:
    for main, texts in sorted(by_text().items()):
        shown = [each for group in texts.values() for each in group if not each.is_hidden]
        other = {each.about for each in shown if (main, each.command) in TWO_MEANINGS}
        for about in ["", *sorted(other)]:
            some = [each for each in shown if (each.about == about if about else each.about not in other)]
            if not some:
                continue
            names = sorted({name for each in some for name in each.names}, key=lambda name: (len(name) > 2, name))
            meaning = about or MEANINGS.get(main, (some[0].about,))[0]
            where = sorted({each.command or "(none)" for each in some})
            yield (
                names,
                meaning.replace("|", "\\|"),
                f"{len(where)} commands" if len(where) > MOST_LISTED else ", ".join(where),
            )


MOST_LISTED = 40
"""Of an option of more commands only their number is given."""
