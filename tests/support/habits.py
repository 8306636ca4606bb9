"""Habits as patterns look at them, built from little: what is not said is what causes no finding."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from backstory import agents
from backstory.ask.habits import HabitCall, HabitPlace, HabitTurn, RepeatedRead
from backstory.derive.pricing import Price, Prices, PriceTable, cost_of
from backstory.model import Tokens
from backstory.workspace.history.habits import Guide, Habits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
T0 = 1_767_600_000_000
"""2026-01-05T08:00:00Z."""
DEAR, CHEAP = "dear", "cheap"
PRICES = PriceTable(
    Prices(
        price=[
            Price(models=[DEAR], input=5, output=25, cache_read=0.5, cache_write=6.25, cache_write_1h=10),
            Price(models=[CHEAP], input=1, output=5, cache_read=0.1, cache_write=1.25, cache_write_1h=2),
        ]
    )
)
_numbers = count(1)


def turn(
    session: str = "A",
    at: int = T0,
    *,
    seq: int | None = None,
    context: str | None = None,
    agent: str = "claude",
    model: str | None = DEAR,
    prompt: str = "go",
    took: int = MINUTE,
    **tokens: int | None,
) -> HabitTurn:
    """A turn; ``tokens`` as in ``Tokens``."""
    number = next(_numbers)
    used = Tokens(**({"input": 0, "output": 0} | tokens))
    return HabitTurn(
        session=session, context=context or session, uid=f"T{number}", seq=number * 100 if seq is None else seq,
        agent=agent, model=model, prompt=prompt, started=at, ended=at + took, tokens=used,
        cost=cost_of(used, PRICES.price(agent, model, "2026-01-05")),
    )  # fmt: skip


def call(
    session: str = "A",
    at: int = T0,
    *,
    took: int = SECOND,
    name: str = "Bash",
    tool: str = "SHELL",
    words: tuple[str, ...] = (),
    reading: tuple[str, ...] = (),
    path: str | None = None,
    output: str | None = None,
    error: str = "",
    context: str | None = None,
    turn: str = "T",
) -> HabitCall:
    """A call; one with an ``output`` failed."""
    return HabitCall(
        session=session, context=context or session, turn=turn, agent="claude", seq=next(_numbers), at=at,
        tool_name=name, tool=tool, words=words, reading=reading, path=path, is_error=output is not None,
        output=output or "", error=error or output or "", duration_ms=took,
    )  # fmt: skip


def reads(
    times: int, *, path: str = "/p/a.py", session: str = "A", start: int = 10, gap: int = 10 * SECOND
) -> list[RepeatedRead]:
    """A file that was read, and then so many times again."""
    return [
        RepeatedRead(
            session=session, context=session, turn="T", path=path, seq=start + 2 * number,
            last_seq=start + 2 * number - 2, same_seq=None, at=T0 + number * gap, last_at=T0 + (number - 1) * gap,
        )
        for number in range(1, times + 1)
    ]  # fmt: skip


def habits(
    turns: Iterable[HabitTurn] = (),
    calls: Iterable[HabitCall] = (),
    *,
    places: dict[str, str] | None = None,
    roots: dict[str, str] | None = None,
    compacted: dict[str, tuple[int, ...]] | None = None,
    repeated: Sequence[RepeatedRead] = (),
    **more: Any,
) -> Habits:
    """Habits of sessions that are all in one place, below ``/p``, unless ``places`` and ``roots`` say otherwise."""
    known, made = list(turns), list(calls)
    sessions = {*(each.session for each in known), *(each.session for each in made)}
    sessions |= {each.session for each in repeated}
    named = {each: (places or {}).get(each, "p") for each in sessions}
    return Habits(
        turns=tuple(known),
        calls=tuple(sorted(made, key=lambda each: (each.context, each.seq))),
        refused=tuple(more.get("refused", ())),
        repeated=tuple(repeated),
        touched=frozenset(more.get("touched", ())),
        edited=frozenset(more.get("edited", ())),
        compacted=compacted or {},
        calls_of=more.get("calls_of", {}),
        places={
            each: HabitPlace(key=name, name=name, root=(roots or {}).get(each, "/p")) for each, name in named.items()
        },
        guides={"claude": _guide("claude")},
        prices=PRICES,
    )  # fmt: skip


def _guide(name: str) -> Guide:
    agent = agents.load(name)
    return Guide(
        title=agent.title, instructions=agent.instruction_files[0], is_run_here=agent.run is not None, part=agent.guide
    )
