"""Sums over turns, in groups: what they used, what that costs, how long they took. Pure.

What is not known of a turn is counted as not known, and adds nothing.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from backstory import bounds
from backstory.derive.pricing import INCLUDED, Cost, CostKind, exact_sum, summed
from backstory.model import PARTIAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class GroupKey(Struct, frozen=True, kw_only=True):
    """The values that the turns of a group share.

    ``value``: a day, hour ("09"), weekday ("Monday"), model, agent, tool, branch, a session's uid, or the name of a
    repository (owner/name) or project.

    ``project``: the key of the project that a branch or a name is of. ``within``: in a grouping by two properties, the
    day or weekday. None where something is not known.
    """

    value: str | None = None
    project: str | None = None
    project_name: str | None = None
    within: str | None = None


class Figures(Struct, frozen=True, kw_only=True):
    """The sums of some turns. A sum is over known values, None if there are none; ``without_…`` counts the rest.

    ``turns`` and ``duration_ms`` are without those of subagents, whose work is part of a turn; tokens and costs are
    with them. ``cost.high_usd`` is what a lower bound may come to, where that can be estimated of every turn;
    ``reported_usd`` the part of ``cost.low_usd`` that agents said, ``computed_usd`` the part that prices say.
    """

    sessions: int
    turns: int
    input: int | None
    output: int | None
    cache_read: int | None
    cache_write: int | None
    cost: Cost
    reported_usd: float | None
    computed_usd: float | None
    duration_ms: int | None
    without_tokens: int
    partial_tokens: int
    """The number of turns of which a count is missing or was lost: the sums are at least the values given."""
    without_cost: int
    without_duration: int


class Group(Struct, kw_only=True):
    """A sum that grows. There may be one for each of very many sessions: most lists and sets are made when needed.

    ``session`` is the first session, ``others`` are those besides; any numbers that tell sessions apart.
    """

    session: int | None = None
    others: set[int] | None = None
    turns: int = 0
    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    kinds: frozenset[CostKind] = frozenset()
    reported: list[float] | None = None
    computed: list[float] | None = None
    highs: list[float] | None = None
    without_high: int = 0
    duration_ms: int | None = None
    without_tokens: int = 0
    partial_tokens: int = 0
    without_cost: int = 0
    without_duration: int = 0

    def add_session(self, number: int) -> None:
        """Add a session; one that is here already counts once."""
        if self.session is None:
            self.session = number
        elif number != self.session:
            if self.others is None:
                self.others = set()
            self.others.add(number)

    def add_tokens(
        self,
        read: int | None,
        wrote: int | None,
        cache_read: int | None,
        cache_write: int | None,
        source: str | None = None,
    ) -> None:
        """Add what a turn used: its input and output, and what of it came from a cache and went into one.

        ``source``: how that is known, as ``Turn.tokens_source`` says it.
        """
        if read is None and wrote is None and cache_read is None and cache_write is None:
            self.without_tokens += 1
            # What was counted and lost leaves the sum of the others at least what it says.
            self.partial_tokens += source == PARTIAL
            return
        self.partial_tokens += source == PARTIAL or read is None or wrote is None
        if read is not None:
            self.input = (self.input or 0) + read
        if wrote is not None:
            self.output = (self.output or 0) + wrote
        if cache_read is not None:
            self.cache_read = (self.cache_read or 0) + cache_read
        if cache_write is not None:
            self.cache_write = (self.cache_write or 0) + cache_write

    def add_cost(self, cost: Cost) -> None:
        """Add what a turn cost; nothing where that is in another turn's cost."""
        if cost is INCLUDED:
            return
        if cost.kind not in self.kinds:
            self.kinds = _with(self.kinds, cost.kind)
        low, high = cost.low_usd, cost.high_usd
        if low is None:
            self.without_cost += 1
        else:
            if cost.kind is CostKind.EXACT:
                self.reported = _longer(self.reported, (low,))
            else:
                self.computed = _longer(self.computed, (low,))
        if high is None:
            self.without_high += 1
        else:
            self.highs = _longer(self.highs, (high,))

    def add_turn(self, duration_ms: int | None) -> None:
        """Count a turn, and how long it took."""
        self.turns += 1
        if duration_ms is None:
            self.without_duration += 1
        else:
            self.duration_ms = (self.duration_ms or 0) + duration_ms

    def add_marked(self, cost: Cost, duration_ms: int | None) -> None:
        """Add what a session without turns is marked with."""
        if cost.low_usd is not None:
            self.add_cost(cost)
        if duration_ms is not None:
            self.duration_ms = (self.duration_ms or 0) + duration_ms

    def add(self, other: Group, sums: Sequence[str]) -> None:
        """Add another group: its sessions and costs, and of its other sums these."""
        if other.session is not None:
            self.add_session(other.session)
        if other.others:
            # Not a new set each time: there may be very many sessions in both.
            if self.others is None:
                self.others = set()
            self.others |= other.others
            self.others.discard(self.session)
        self.kinds |= other.kinds
        for name in _AMOUNTS:
            if (amounts := getattr(other, name)) is not None:
                setattr(self, name, _longer(getattr(self, name), amounts))
        for name in sums:
            setattr(self, name, _added((getattr(self, name), getattr(other, name))))

    @property
    def figures(self) -> Figures:
        """Return the sums."""
        return Figures(
            sessions=0 if self.session is None else 1 + len(self.others or ()),
            turns=self.turns,
            input=_kept(self.input),
            output=_kept(self.output),
            cache_read=_kept(self.cache_read),
            cache_write=_kept(self.cache_write),
            cost=self.cost,
            reported_usd=exact_sum(self.reported) if self.reported else None,
            computed_usd=exact_sum(self.computed) if self.computed else None,
            duration_ms=_kept(self.duration_ms),
            without_tokens=self.without_tokens,
            partial_tokens=self.partial_tokens,
            without_cost=self.without_cost,
            without_duration=self.without_duration,
        )

    @property
    def cost(self) -> Cost:
        """Return the cost of all turns."""
        cost = summed(self.kinds, [*(self.reported or ()), *(self.computed or ())])
        high = exact_sum(self.highs or ()) if cost.low_usd is not None and not self.without_high else None
        return Cost(kind=cost.kind, usd=cost.usd, low_usd=cost.low_usd, high_usd=high)


class Tally(Struct, kw_only=True):
    """The groups there are. ``undated``: how many turns were left out because nobody knows when they began.

    ``summaries``: what summaries took that were asked for, each as a turn; they are in no group. ``counted``: a key of
    each, as copies of a session have the same ones.
    """

    groups: dict[GroupKey, Group] = field(default_factory=dict)
    undated: int = 0
    summaries: Group = field(default_factory=Group)
    counted: set[object] = field(default_factory=set)

    def group(self, key: GroupKey) -> Group:
        """The group of a key, empty where there was none."""
        found = self.groups.get(key)
        if found is None:
            found = self.groups[key] = Group()
        return found

    @property
    def whole(self) -> Group:
        """All groups as one, with what summaries took; a session that is in several of them counts once."""
        whole = Group()
        for each in self.groups.values():
            whole.add(each, SUMMED)
        whole.add(self.summaries, _USED)
        return whole


_AMOUNTS = ("reported", "computed", "highs")
_USED: Sequence[str] = ("input", "output", "cache_read", "cache_write", "without_high")
"""The sums of a summary that are part of the whole: it is no turn, and nobody waited for it."""
SUMMED: Sequence[str] = (
    *_USED, "turns", "duration_ms", "without_tokens", "partial_tokens", "without_cost", "without_duration",
)  # fmt: skip


@cache
def _with(kinds: frozenset[CostKind], kind: CostKind) -> frozenset[CostKind]:
    """The same set each time, as there are few."""
    return kinds | {kind}


def _longer(amounts: list[float] | None, more: Iterable[float]) -> list[float]:
    if amounts is None:
        return list(more)
    amounts += more
    return amounts


class CostTally:
    """The costs alone of very many groups, which are told apart by their values; the rest of a ``Tally`` is counted."""

    def __init__(self) -> None:
        self.undated, self.summaries, self.counted = 0, Group(), set[object]()
        self._paid: dict[str | None, CostSum] = {}

    def group(self, key: GroupKey) -> CostSum:
        """The costs of a group, none where there was no such group."""
        found = self._paid.get(key.value)
        if found is None:
            found = self._paid[key.value] = CostSum()
        return found

    def costs(self) -> dict[str | None, Cost]:
        """Return the cost of each group. Equal ones are one object, and no more can be added."""
        found, same = dict[str | None, Cost](), dict[Cost, Cost]()
        while self._paid:
            value, paid = self._paid.popitem()
            cost = paid.cost
            found[value] = same.setdefault(cost, cost)
        return found


class CostSum:
    """The costs of the turns of a group: in very many sessions of one."""

    __slots__ = ("_costs",)

    def __init__(self) -> None:
        self._costs: Cost | list[Cost] | None = None

    @property
    def cost(self) -> Cost:
        """The cost of all of them."""
        group = Group()
        for each in self._costs if isinstance(self._costs, list) else filter(None, (self._costs,)):
            group.add_cost(each)
        return group.cost

    def add_cost(self, cost: Cost) -> None:
        """Add what a turn cost."""
        if isinstance(self._costs, list):
            self._costs.append(cost)
        else:
            self._costs = cost if self._costs is None else [self._costs, cost]

    def add_marked(self, cost: Cost, duration_ms: int | None) -> None:
        """Add what a session without turns is marked with."""
        if cost.low_usd is not None:
            self.add_cost(cost)

    def add_session(self, number: int) -> None:
        """A session is no cost."""

    def add_turn(self, duration_ms: int | None) -> None:
        """Neither is a turn."""

    def add_tokens(
        self, read: int | None, wrote: int | None, cache_read: int | None, cache_write: int | None,
        source: str | None = None,
    ) -> None:  # fmt: skip
        """Nor are tokens, of which the cost is known."""


GrowingSum: TypeAlias = "Group | CostSum"
"""A sum of turns, or of their costs alone, as those who read turns add to it."""
GrowingSums: TypeAlias = "Tally | CostTally"
"""The sums of groups, likewise."""


def _kept(count: int | None) -> int | None:
    """A sum as far as it can be stored and printed."""
    return None if count is None else min(count, bounds.INTEGER_MAX)


def _added(values: Iterable[int | None]) -> int | None:
    known = [each for each in values if each is not None]
    return sum(known) if known else None
