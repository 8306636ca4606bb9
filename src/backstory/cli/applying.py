"""A person decides about each proposal; those that are agreed to are added to the file of instructions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from backstory.chronicle.improve import content_with, diff_of
from backstory.cli import output
from backstory.cli.improve_view import diff_lines, proposal_lines
from backstory.errors import NotConfirmed, UncommittedChanges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backstory.chronicle.improve import Improvements
    from backstory.chronicle.proposals import Proposal
    from backstory.workspace.instructions import Instructions

CHOICES = "y: add it · n: leave it · q: leave this and the rest"


def apply(
    report: Improvements, instructions: Instructions, environ: Mapping[str, str], *, yes: bool, dirty: bool
) -> None:
    """Ask about each proposal, and add those that are agreed to; all of them with ``yes``.

    A file that git could not bring back is asked about apart, and with ``yes`` changed only if it may be ``dirty``.
    Raises NotConfirmed if no person can be asked, UncommittedChanges, and as ``Instructions.write``.
    """
    if not report.proposals:
        output.talk("Nothing to propose, so nothing was changed.")
        return
    what = f"Adding to {report.file}"
    if not yes and not output.can_ask():
        raise NotConfirmed(what)
    why = None if dirty else instructions.uncommitted(environ)
    if why is not None and yes:
        raise UncommittedChanges(instructions.file.target, why)
    if why is not None and not output.confirm(f"{report.file}: {why}. Change it nevertheless?"):
        output.talk("Nothing was changed.")
        return
    chosen = list(report.proposals) if yes else _chosen(report, instructions)
    if not chosen:
        output.talk("Nothing was changed.")
        return
    instructions.write(content_with(instructions, chosen))
    output.talk(f"Added {output.counted(len(chosen), 'line')} to {instructions.file.target}. See: git diff")


def _chosen(report: Improvements, instructions: Instructions) -> Sequence[Proposal]:
    chosen: list[Proposal] = []
    for number, each in enumerate(report.proposals, 1):
        for line in ("", *proposal_lines(report, number, each), "", *diff_lines(diff_of(instructions, [each]))):
            output.talk(line)
        answer = _answer(f"Add this to {report.file}? [y/n/q] ")
        if answer == "q":
            break
        if answer == "y":
            chosen.append(each)
    return chosen


def _answer(question: str) -> str:
    """``y``, ``n`` or ``q``; the end of the input is ``q``."""
    while True:
        output.ask(question)
        line = sys.stdin.readline()
        answer = line.strip().lower()[:1]
        if not line or answer in ("y", "n", "q"):
            return answer or "q"
        output.talk(CHOICES)
