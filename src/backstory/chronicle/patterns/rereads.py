"""Files that one context reads again and again, piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.chronicle.patterns.finding import (
    MINUTE_MS,
    Pattern,
    Tip,
    TipEvidence,
    grouped,
    share_of_call,
    was_cut,
)
from backstory.derive.naming import main_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backstory.ask.habits import HabitPlace
    from backstory.workspace.history.habits import Habits, HabitTurn, RepeatedRead

NAME = "rereads"
TIMES_MIN, SOON_MS = 3, 2 * MINUTE_MS
RULE = (
    f"A context read a file, and then {TIMES_MIN} times or more read it again, perhaps another part of it, each time "
    f"within {SOON_MS // MINUTE_MS} minutes, before a call changed the file or the context was summarised. Calls that "
    "came together count as one, those of a shell not at all. About what it cost: the calls' shares of their turns, "
    "one request of all."
)


def find(habits: Habits) -> Iterator[Tip]:
    """A finding for each file."""
    turns = {turn.uid: turn for turn in habits.turns}
    of_files = [(reads, _evidence(habits, turns, reads)) for reads in _runs(habits) if len(reads) >= TIMES_MIN]
    for found in grouped(of_files, key=lambda pair: _name(habits, pair[0][0])):
        key, path = _name(habits, found[0][0][0])
        agents = {turns[each.turn].agent for reads, _ in found for each in reads if each.turn in turns}
        evidence = sorted((each for _, each in found), key=lambda each: -len(each.seqs))
        times = sum(len(each.seqs) for each in evidence)
        yield Tip(
            pattern=NAME,
            is_calls=True,
            problem=f"{path} in {habits.named(key)} was read again {times} times, piece by piece",
            action=f"A line for {habits.instructions(agents)}: “Read {path} whole, once.” If it is too long for that: "
            "say there which functions it holds, or split it",
            evidence=tuple(evidence),
        )  # fmt: skip


def _runs(habits: Habits) -> Iterator[list[RepeatedRead]]:
    """Reads that soon followed one another."""
    for reads in grouped(habits.repeated, key=lambda read: (read.context, read.path)):
        run: list[RepeatedRead] = []
        for each in reads:
            is_new = run and each.last_seq != run[-1].seq
            is_apart = each.at - each.last_at > SOON_MS or was_cut(habits, each.context, each.last_seq, each.seq)
            if run and (is_new or is_apart):
                yield run
                run = []
            if not is_apart:
                run.append(each)
        yield run


def _name(habits: Habits, read: RepeatedRead) -> tuple[str, str]:
    return habits.place(read.session), below(habits, read.session, read.path)


def _evidence(habits: Habits, turns: Mapping[str, HabitTurn], reads: list[RepeatedRead]) -> TipEvidence:
    costs = [share_of_call(habits, turns.get(each.turn)) for each in reads]
    known = [each for each in costs if each is not None]
    same = sum(each.same_seq is not None for each in reads)
    return TipEvidence(
        session=reads[0].session, context=reads[0].context, seqs=tuple(each.seq for each in reads),
        text=f"{len(reads)} times up to @{reads[-1].seq}" + (f", {same} of them the same part" if same else ""),
        usd=sum(known) if known else None,
    )  # fmt: skip


def below(habits: Habits, session: str, path: str) -> str:
    """A path as people name it: below the folder of its session, else below another one of the same repository."""
    place = habits.places.get(session)
    if place is None:
        return path
    others = {root for each in habits.places.values() if each.key == place.key for root in _folders(each)}
    for root in (place.root, *sorted(others, key=len, reverse=True)):
        if root and path.startswith(f"{root.rstrip('/')}/"):
            return path[len(root.rstrip("/")) + 1 :]
    return path


def _folders(place: HabitPlace) -> Iterator[str]:
    """The folder of a session, and the one in which a worktree of it lies."""
    if place.root:
        yield place.root
        yield main_folder(place.root)


PATTERN = Pattern(name=NAME, rule=RULE, is_cost=True, find=find)
