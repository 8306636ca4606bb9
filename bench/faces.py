"""What a face asks of a ``Reader``, of very many sessions: ``python -m bench.faces [--sessions N] [--folder FOLDER]``.

Small sessions are made and ingested; FOLDER keeps them with their store, and is used as it is the next time. Every
figure is processor time of one call in this process, in the same workspace, as a screen or a server has it.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from backstory.workspace.history.sessions import END, Page, SessionFilter
from backstory.workspace.opening import open_workspace
from bench import homes, startup
from bench.figures import Figure, arguments, report
from bench.measuring import environment, in_turn, spend
from bench.plan import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.workspace.reader import Reader

SESSIONS = 100_000
PAGE = 50
BARE_RUNS = 7
EVERYWHERE = SessionFilter(everywhere=True)


class Asked(NamedTuple):
    """A question of a face, and the most ms that an answer may take."""

    name: str
    ms_max: float | None
    ask: Callable[[Reader], object]


def machine(folder: Path, sessions: int) -> Machine:
    """A machine with so many small sessions in its home store, made if the folder has none."""
    made = Machine(folder / "home", folder / "store")
    if not made.store.exists():
        made.home.mkdir(parents=True)
        homes.small(made.home, sessions)
        spend(made.command("ingest"))
    return made


def ms(ask: Callable[[], object], times: int = 5) -> float:
    """The best of several times, in ms of the processor: so short ones are disturbed by whatever else runs."""
    taken = []
    for _ in range(times):
        started = time.process_time_ns()
        ask()
        taken.append(time.process_time_ns() - started)
    return min(taken) / 1e6


def questions(reader: Reader) -> list[Asked]:
    """What a screen and a page ask."""
    first = reader.sessions(EVERYWHERE, Page(limit=PAGE))
    word = first.sessions[-1].heading[-12:]

    def page(wanted: SessionFilter = EVERYWHERE, **more: object) -> Callable[[Reader], object]:
        return lambda reader: reader.sessions(wanted, Page(limit=PAGE, **more))  # type: ignore[arg-type]

    return [
        Asked("a page from the top", 5, page()),
        Asked("the page behind it", 5, page(after=first.end)),
        Asked("a page from the end", 5, page(before=END)),
        Asked("the number of sessions, known", 1, lambda reader: reader.count(EVERYWHERE)),
        Asked("a page by a title few have", 50, page(SessionFilter(everywhere=True, title=word))),
        Asked("a page by a title many have", 50, page(SessionFilter(everywhere=True, title="an"))),
        Asked("a page by a title nobody has", 50, page(SessionFilter(everywhere=True, title="zzzz zzzz"))),
        Asked("a page by turns", 100, page(sort="turns")),
        Asked("a page by cost", 100, page(sort="cost")),
        Asked("the change token", 1, lambda reader: reader.change_token()),
    ]


def figures(made: Machine) -> Iterator[Figure]:
    """Every question, first in a workspace that was just opened."""
    environ = environment(made.home, made.folder)
    python = in_turn({"bare": startup.bare(made)}, BARE_RUNS).median("bare") * 1000
    yield Figure("bare Python", python, "ms", note="the bounds are for a machine that takes 9 ms")
    with open_workspace(made.home, environ) as workspace:
        counted = ms(lambda: workspace.reader.count(EVERYWHERE), 1)
        total = workspace.reader.count(EVERYWHERE)
        yield Figure("the number of sessions, asked first", counted, "ms", note=f"{total:,} sessions")
    with open_workspace(made.home, environ) as workspace:
        for each in questions(workspace.reader):
            yield Figure(each.name, ms(lambda: each.ask(workspace.reader)), "ms", most=each.ms_max)  # noqa: B023


def main() -> None:
    """Print a line for each question."""
    parser = arguments(__doc__)
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--folder", type=Path, help="where the sessions are, or are to be made")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as throwaway:
        made = machine((given.folder or Path(throwaway)).absolute(), given.sessions)
        report(given, figures(made))


if __name__ == "__main__":
    main()
