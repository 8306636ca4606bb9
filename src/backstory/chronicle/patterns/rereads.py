"""Files that one context reads again and again, piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.chronicle.patterns.finding import (
    Evidence,
    Finding,
    Pattern,
    grouped,
    share_of_call,
    was_cut,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backstory.workspace.habits import Habits, HabitTurn, RepeatedRead

NAME = "rereads"
TIMES_MIN = 5
RULE = f"""\
A context read a file of which it had read before, perhaps another part: {TIMES_MIN} times or more of one file. The first read after a
change by a call or after a summary does not count, nor do calls that came together. About what it cost: the calls'
shares of their turns, one request of all."""


def find(habits: Habits) -> Iterator[Finding]:
    """A finding for each file."""
    turns = {turn.uid: turn for turn in habits.turns}
    again = [each for each in habits.repeated if not was_cut(habits, each.context, each.last_seq, each.seq)]
    of_files = [
        (reads, _evidence(habits, turns, reads))
        for reads in grouped(again, key=lambda read: (read.context, read.path))
        if len(reads) >= TIMES_MIN
    ]
    for found in grouped(of_files, key=lambda pair: _name(habits, pair[0][0])):
        key, path = _name(habits, found[0][0][0])
        agents = {turns[each.turn].agent for reads, _ in found for each in reads if each.turn in turns}
        evidence = sorted((each for _, each in found), key=lambda each: -len(each.seqs))
        yield Finding(
            pattern=NAME,
            is_calls=True,
            problem=f"{path} in {habits.named(key)} was read again {sum(len(each.seqs) for each in evidence)} times, piece by piece",
            action=f"A line for {habits.instructions(agents)}: “Read {path} whole, once.” If it is too long for that: say "
            "there which functions it holds, or split it",
            evidence=tuple(evidence),
        )  # fmt: skip


def _name(habits: Habits, read: RepeatedRead) -> tuple[str, str]:
    return habits.place(read.session), below(habits, read.session, read.path)


def _evidence(habits: Habits, turns: Mapping[str, HabitTurn], reads: list[RepeatedRead]) -> Evidence:
    costs = [share_of_call(habits, turns.get(each.turn)) for each in reads]
    known = [each for each in costs if each is not None]
    same = sum(each.same_seq is not None for each in reads)
    return Evidence(
        session=reads[0].session, context=reads[0].context, seqs=tuple(each.seq for each in reads),
        text=f"{len(reads)} times up to @{reads[-1].seq}" + (f", {same} of them the same part" if same else ""),
        usd=sum(known) if known else None,
    )  # fmt: skip


def below(habits: Habits, session: str, path: str) -> str:
    """A path as people name it: below the folder of its session."""
    place = habits.places.get(session)
    root = (place.root or "").rstrip("/") if place is not None else ""
    return path[len(root) + 1 :] if root and path.startswith(f"{root}/") else path


PATTERN = Pattern(name=NAME, rule=RULE, is_cost=True, find=find)
