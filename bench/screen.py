"""The screen on very many sessions, in a terminal: ``python -m bench.screen [--sessions N] [--folder FOLDER]``.

The sessions are made once, and kept in FOLDER; one of them is as long as sessions get. A key counts from its writing
until what it causes is read from the terminal, or the first byte where nothing is named. A run that streams is a script
as in ``bench.run``; it has a home of its own, so what is kept stays as it is.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.store.file.migrate import DERIVED_VERSION, SCHEMA_VERSION
from backstory.workspace.history.sessions import Page, SessionFilter
from backstory.workspace.opening import open_workspace
from bench.figures import Figure, arguments, report
from bench.homes import LAST_WORDS, Working
from bench.measuring import Command, Quiet, backstory, environment, spend
from bench.multiplied import multiply
from bench.plan import Machine
from bench.run import Place
from bench.terminal import Terminal
from bench.watch import cpu_s

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SESSIONS, LONG_EVENTS = 100_000, 100_000
COPIES = 50
"""So many sessions are alike but for their ids and times."""
EVENTS = 49
"""The events of each, so that all together are five million."""
KEPT_IN = Path("~/.cache/backstory-bench")
PAINT_MS, OURS_MS, KEY_MS, OPEN_MS, TITLES_MS, WORDS_MS, PREFIX_MS = 400, 120, 50, 150, 50, 100, 300
IDLE_S, MEMORY_MB, STREAMING_PERCENT, PASTED_MS = 10, 120, 20, 1_000
KEYS, QUICK_OPENS, STREAMED_S = 60, 100, 10
LISTED = "every project"
"""Seen as soon as the list is."""
BARE = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    def compose(self):
        yield Static("every project")
Bare().run()
"""
"""A screen of Textual with nothing on it: what no screen can do without."""
UP, DOWN, ESCAPE, CLEAR = "k", "j", "\x1b", "\x15"
PASTE, PASTED = "\x1b[200~", "\x1b[201~"


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


def first_paint(made: Machine, quiet: Quiet, runs: int) -> Iterator[Figure]:
    """From the start of the process to the list of sessions, in turn with a screen that has nothing on it."""
    tui, bare = made.command("tui", "--all"), Command([sys.executable, "-c", BARE], made.command().env, made.home)
    took: dict[str, list[float]] = {"tui": [], "bare": []}
    loads = []
    for _ in range(runs):
        loads.append(quiet.load())
        for name, command in (("bare", bare), ("tui", tui)):
            with Terminal(command) as terminal:
                took[name].append(terminal.ms_until(LISTED))
    paint, ours = statistics.median(took["tui"]), [a - b for a, b in zip(took["tui"], took["bare"], strict=True)]
    note = f"Textual alone {statistics.median(took['bare']):.0f} ms"
    yield Figure("first paint", paint, "ms", most=PAINT_MS, runs=runs, loads=tuple(loads), note=note)
    yield Figure("… without Textual's part", statistics.median(ours), "ms", most=OURS_MS, runs=runs, loads=tuple(loads))


def p95(name: str, took: Sequence[float], most: float, loads: tuple[float, ...]) -> Figure:
    """A figure of many keys."""
    note = f"median {statistics.median(took):.1f} ms"
    return Figure(name, statistics.quantiles(took, n=20)[-1], "ms", most=most, runs=len(took), loads=loads, note=note)


def in_the_list(made: Machine, quiet: Quiet) -> Iterator[Figure]:
    """Keys, the filter, the search, and doing nothing, in the list."""
    words = _words(made)
    load = (quiet.load(),)
    with Terminal(made.command("tui", "--all")) as terminal:
        terminal.ms_until(LISTED)
        terminal.rest(2)
        yield p95(
            "a key in the list", [terminal.press(DOWN if n < KEYS / 2 else UP) for n in range(KEYS)], KEY_MS, load
        )
        terminal.press("f")
        titles = [terminal.press(letter, r"titles?\x1b") for word in words for letter in _typed(terminal, word[:5])]
        yield p95("a letter of the filter, until the list is there", titles, TITLES_MS, load)
        pasting = [terminal.press(f"{PASTE}{'pasted words ' * 80_000}{PASTED}", "words pasted words")]
        yield Figure("1 MB pasted into the filter", pasting[0], "ms", most=PASTED_MS, loads=load)
        for keys in (CLEAR, ESCAPE, "/"):
            terminal.press(keys)
        whole = [terminal.press(word, r"in texts\x1b") for word in _typed(terminal, *words)]
        yield p95("whole words typed at once, until their hits are there", whole, WORDS_MS, load)
        prefixes = [terminal.press(word[:3], r"in texts\x1b") for word in _typed(terminal, *words)]
        yield p95("the beginning of a word, likewise", [each - 120 for each in prefixes], PREFIX_MS, load)
        terminal.press(CLEAR)
        terminal.press(ESCAPE)
        terminal.rest(2)
        yield Figure(f"ticks of a processor in {IDLE_S} s, idle in the list", terminal.cpu_ticks(IDLE_S), most=0)


def _typed(terminal: Terminal, *texts: str) -> Iterator[str]:
    """What to type, each into an empty field; the letters of one word, one after the other."""
    for text in texts[0] if len(texts) == 1 else texts:
        if len(texts) > 1:
            # An empty field stays as it is, so there may be nothing to wait for.
            terminal.write(CLEAR)
        yield text
    if len(texts) == 1:
        terminal.press(CLEAR)


def _words(made: Machine) -> list[str]:
    """Words of different rarity, all of titles."""
    with open_workspace(made.home, environment(made.home, made.folder)) as workspace:
        listed = workspace.reader.sessions(SessionFilter(everywhere=True), Page(limit=10)).sessions
        return [word for each in listed for word in each.heading.split()[1:3] if len(word) > 3]


def in_a_session(made: Machine, quiet: Quiet) -> Iterator[Figure]:
    """Opening the longest session, paging, doing nothing, and opening again and again."""
    load = (quiet.load(),)
    with Terminal(made.command("tui", "--all")) as terminal:
        terminal.ms_until(LISTED)
        terminal.rest(2)
        first, opened = terminal.press("\r", LAST_WORDS), list[float]()
        yield Figure("the longest session, opened first", first, "ms", loads=load)
        for _ in range(9):
            terminal.rest(3)
            terminal.press("s", LISTED)
            opened.append(terminal.press("\r", LAST_WORDS))
        yield Figure("… and again", statistics.median(opened), "ms", most=OPEN_MS, runs=9, loads=load)
        terminal.rest(3)
        yield Figure("memory, with it open", terminal.memory_mb(), "MB", most=MEMORY_MB)
        yield Figure(f"ticks of a processor in {IDLE_S} s, with it open", terminal.cpu_ticks(IDLE_S), most=0)
        yield p95("a page up in it", [terminal.press("K") for _ in range(KEYS)], KEY_MS, load)
        terminal.press("s", LISTED)
        for _ in range(QUICK_OPENS):
            terminal.press(DOWN)
            terminal.press("\r", "claude")
            terminal.press("s", LISTED)
        terminal.rest(3)
        yield Figure(f"memory, after {QUICK_OPENS} others were opened", terminal.memory_mb(), "MB", most=MEMORY_MB)


@contextmanager
def streaming(place: Place, seconds: float) -> Iterator[Command]:
    """A run that streams 200 events a second into a session that has 2,000; the command that shows it."""
    place.agent(2_000, 0)
    place.run("-n", "first")
    place.agent(round(seconds * 200), 0.005)
    command = backstory("run", "-a", "claude", "second")
    going = subprocess.Popen(
        command, cwd=place.project, env=place.environ(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield Command(backstory("tui"), place.environ(), place.project)
    finally:
        going.terminate()
        going.wait()


def in_a_run(quiet: Quiet) -> Iterator[Figure]:
    """Typing a prompt while a run streams into the session, and pasting one."""
    load = (quiet.load(),)
    with (
        tempfile.TemporaryDirectory() as folder,
        streaming(Place(Path(folder)), 4 * STREAMED_S) as command,
        Terminal(command) as terminal,
    ):
        terminal.ms_until("1 session")
        terminal.rest(2)
        terminal.press("\r", "running")
        terminal.rest(3)
        before, began = cpu_s(terminal.pid), time.perf_counter()
        terminal.rest(STREAMED_S)
        used = (cpu_s(terminal.pid) - before) / (time.perf_counter() - began) * 100
        yield Figure("a processor's share while a run streams", used, "%", most=STREAMING_PERCENT)
        terminal.write("p")
        terminal.rest(1)
        letters = "quickly typed "
        took = [terminal.seen_ms(letters[n % len(letters)], letters[: n % len(letters) + 1]) for n in range(KEYS)]
        yield p95("a letter typed meanwhile", took, KEY_MS, load)


def pasted(made: Machine, quiet: Quiet) -> Iterator[Figure]:
    """A paste of 1 MB into the field of a prompt: typed on behind it."""
    load = (quiet.load(),)
    texts = {
        "a paste of 1 MB, one line": "word " * 200_000,
        "… 20,000 lines": "a line of fifty characters, more or less so\n" * 22_000,
    }
    for name, text in texts.items():
        with Terminal(made.command("tui", "--all")) as terminal:
            terminal.ms_until(LISTED)
            terminal.rest(2)
            terminal.press("n", "A new session")
            terminal.rest(1)
            took = terminal.press(f"{PASTE}{text}{PASTED}typed behind it", "typed behind it")
            yield Figure(name, took, "ms", most=PASTED_MS, loads=load)


def figures(kept: Path, sessions: int, long_events: int, *, runs: int, wait_s: float) -> Iterator[Figure]:
    """What the screen takes."""
    began, quiet = time.monotonic(), Quiet(wait_s)
    made = machine(kept, sessions, long_events)
    size = made.store.stat().st_size / 1e6
    yield Figure("making the sessions", time.monotonic() - began, "s", note=f"{size:.0f} MB; 0 s: they were kept")
    yield from first_paint(made, quiet, runs)
    yield from in_the_list(made, quiet)
    yield from in_a_session(made, quiet)
    yield from in_a_run(quiet)
    yield from pasted(made, quiet)


def main() -> None:
    """Print a line for each figure."""
    parser = arguments(__doc__)
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--events", type=int, default=LONG_EVENTS, help="of the long session")
    parser.add_argument("--folder", type=Path, default=KEPT_IN, help="where the sessions are kept")
    parser.add_argument("--runs", type=int, default=5, help="of the first paint")
    parser.add_argument("--wait", type=float, default=0, help="so many seconds for a quiet machine, before each part")
    given = parser.parse_args()
    report(given, figures(given.folder, given.sessions, given.events, runs=given.runs, wait_s=given.wait))


if __name__ == "__main__":
    main()
