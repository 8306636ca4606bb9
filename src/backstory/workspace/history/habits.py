"""The work of a person with agents, of several stores together, as reports search it for what recurs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backstory.agents import load
from backstory.agents.contract import NotRun as NotRun
from backstory.ask import costs, habits
from backstory.ask.costs import price_table
from backstory.ask.habits import HabitRows
from backstory.ask.habits import HabitTurn as HabitTurn
from backstory.derive.phrasing import phrases_report
from backstory.errors import AgentUnusable, UnknownAgent
from backstory.workspace.history.stats import StatsQuery, asked_of_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from backstory.agents.contract import GuidePart
    from backstory.ask.habits import HabitCall as HabitCall
    from backstory.ask.habits import HabitPlace
    from backstory.ask.habits import RepeatedRead as RepeatedRead
    from backstory.derive.pricing import PriceTable
    from backstory.workspace.history.listing import Listing
    from backstory.workspace.history.sessions import SessionFilter


class Guide(Struct, frozen=True, kw_only=True):
    """A file in which a person writes rules for an agent."""

    title: str
    instructions: str | None
    """The file of a repository that new instructions go into."""
    is_run_here: bool
    """True if ``backstory run`` can run it."""
    part: GuidePart | None

    @property
    def settings(self) -> str:
        """The file that holds its allow rules."""
        return "" if self.part is None else self.part.settings

    def allow_rule(self, tool_name: str, words: tuple[str, ...]) -> str | None:
        """The rule by which the agent asks no more about such calls."""
        return None if self.part is None else self.part.allow_rule(tool_name, words)

    def why_not_run(self, output: str) -> NotRun | None:
        """Return the reason why a call with this error did not run; None if it ran, or nobody knows."""
        return None if self.part is None else self.part.why_not_run(output)


class Habits(Struct, frozen=True, kw_only=True):
    """The acts found. Sessions are uids of listed ones, contexts uids of the session that holds the conversation.

    ``turns`` and ``calls`` of one context are in the order of their records; ``refused`` calls are not among ``calls``.
    """

    turns: tuple[HabitTurn, ...]
    calls: tuple[HabitCall, ...]
    refused: tuple[HabitCall, ...]
    repeated: tuple[RepeatedRead, ...]
    touched: frozenset[str]
    edited: frozenset[str]
    compacted: Mapping[str, tuple[int, ...]]
    calls_of: Mapping[str, int]
    places: Mapping[str, HabitPlace]
    guides: Mapping[str, Guide]
    prices: PriceTable

    def without_reports(self) -> Habits:
        """The same without the turns that phrased a report, which are no work of a person."""
        passed = {turn.uid for turn in self.turns if phrases_report(turn.prompt)}
        if not passed:
            return self
        return replace(
            self,
            turns=tuple(turn for turn in self.turns if turn.uid not in passed),
            calls=tuple(call for call in self.calls if call.turn not in passed),
            refused=tuple(call for call in self.refused if call.turn not in passed),
            repeated=tuple(each for each in self.repeated if each.turn not in passed),
        )

    def place(self, session: str) -> str:
        """Return the key of a session's repository or project."""
        found = self.places.get(session)
        return "" if found is None else found.key

    def named(self, place: str) -> str:
        """Return the name of a place."""
        found = (each.name for each in self.places.values() if each.key == place and each.name)
        return next(found, "no repository")

    def instructions(self, agents: Iterable[str]) -> str:
        """The files of these agents' instructions, in words; a word for it where none is known."""
        known = (self.guides[each].instructions for each in agents if each in self.guides)
        return " and ".join(sorted({each for each in known if each})) or "the agent's instructions"


def habits_of(listing: Listing, wanted: SessionFilter, report: Callable[[int, int], None]) -> Habits:
    """Read the acts in the listed sessions, in the wanted time."""
    asked = asked_of_each(listing, StatsQuery(wanted=wanted, is_estimated=False), ("repository",), report)
    found = [
        store.ask_or(habits.HabitRows(), habits.rows, costs.price_table(store.prices_file), each)
        for store, each in asked
    ]
    guides = _guides({turn.agent for rows in found for turn in rows.turns})
    calls = sorted((call for rows in found for call in rows.calls), key=lambda call: (call.context, call.seq))
    fates = [_fate(guides, each) for each in calls]
    return Habits(
        turns=tuple(turn for rows in found for turn in rows.turns),
        calls=tuple(call for call, fate in zip(calls, fates, strict=True) if fate is None),
        refused=tuple(call for call, fate in zip(calls, fates, strict=True) if fate == NotRun.REFUSED),
        repeated=tuple(each for rows in found for each in rows.repeated),
        touched=frozenset(each for rows in found for each in rows.touched),
        edited=frozenset(each for rows in found for each in rows.edited),
        compacted=_by_context(found),
        calls_of={uid: count for rows in found for uid, count in rows.calls_of.items()},
        places={uid: place for rows in found for uid, place in rows.places.items()},
        guides=guides,
        prices=price_table(asked[0][0].prices_file if asked else None),
    )


def _guides(agents: Iterable[str]) -> dict[str, Guide]:
    found = {}
    for name in sorted(agents):
        try:
            agent = load(name)
        except (UnknownAgent, AgentUnusable):
            continue
        found[name] = Guide(
            title=agent.title, instructions=next(iter(agent.instruction_files), None),
            is_run_here=agent.run is not None, part=agent.guide,
        )  # fmt: skip
    return found


def _fate(guides: Mapping[str, Guide], call: HabitCall) -> NotRun | None:
    guide = guides.get(call.agent)
    return guide.why_not_run(call.output) if guide is not None and call.is_error else None


def _by_context(found: Iterable[HabitRows]) -> dict[str, tuple[int, ...]]:
    marks: dict[str, list[int]] = {}
    for rows in found:
        for context, seq in rows.compacted:
            marks.setdefault(context, []).append(seq)
    return {context: tuple(sorted(seqs)) for context, seqs in marks.items()}
