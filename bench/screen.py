"""The screen on very many sessions, in a terminal: ``python -m bench.screen [--sessions N] [--folder FOLDER]``.

The sessions are made once, and kept in FOLDER. One of them is as long as sessions get.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.store.file.migrate import DERIVED_VERSION, SCHEMA_VERSION
from bench.figures import Figure, arguments, report
from bench.homes import Working
from bench.measuring import spend
from bench.multiplied import multiply
from bench.plan import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSIONS, LONG_EVENTS = 100_000, 100_000
COPIES = 50
"""So many sessions are alike but for their ids and times."""
EVENTS = 49
"""The events of each, so that all together are five million."""
KEPT_IN = Path("~/.cache/backstory-bench")


def machine(kept: Path, sessions: int, long_events: int) -> Machine:
    """The machine with so many sessions, and a long one that is the newest; made if it is not kept yet."""
    folder = kept.expanduser() / f"screen-{SCHEMA_VERSION}.{DERIVED_VERSION}-{sessions}x{EVENTS}+{long_events}"
    made, is_made = Machine(folder / "home", folder / "store"), folder / "made"
    if not is_made.exists():
        shutil.rmtree(folder, ignore_errors=True)
        made.home.mkdir(parents=True)
        working = Working(made.home)
        working.sessions(max(sessions // COPIES, 1), EVENTS)
        spend(made.command("ingest"))
        multiply(made.store, min(sessions, COPIES) - 1)
        working.long(long_events)
        spend(made.command("ingest"))
        is_made.touch()
    return made


def figures(kept: Path, sessions: int, long_events: int) -> Iterator[Figure]:
    """What the screen takes."""
    began = time.monotonic()
    made = machine(kept, sessions, long_events)
    yield Figure("making the sessions", time.monotonic() - began, "s", note=f"{made.store.stat().st_size / 1e6:.0f} MB")


def main() -> None:
    """Print a line for each figure."""
    parser = arguments(__doc__)
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--events", type=int, default=LONG_EVENTS, help="of the long session")
    parser.add_argument("--folder", type=Path, default=KEPT_IN, help="where the sessions are kept")
    given = parser.parse_args()
    report(given, figures(given.folder, given.sessions, given.events))


if __name__ == "__main__":
    main()
