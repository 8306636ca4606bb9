"""The pages on very many sessions, as a browser gets them: ``python -m bench.pages [--sessions N] [--folder FOLDER]``.

The sessions are those of ``bench.screen``, kept in FOLDER; one of them is as long as sessions get. The pages are served
by a process of their own, whose clock is that of the newest sessions, so that a month of them is to report. An answer
is timed from its request to its last byte, on a connection that is open. The processor's part is in the notes.
"""

from __future__ import annotations

import gzip
import http.client
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote_plus, urlsplit

from backstory.workspace.history.sessions import Page, SessionFilter
from backstory.workspace.opening import open_workspace
from bench.figures import Figure, arguments, not_measured, report
from bench.measuring import Failed, Quiet, environment
from bench.screen import KEPT_IN, LONG_EVENTS, SESSIONS, machine
from bench.watch import cpu_s, memory_mb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench.plan import Machine

LIST_MS, SEARCH_MS, SESSION_MS, LONG_MS, REPORT_MS, PAINT_MS = 20, 100, 50, 200, 200, 500
MEMORY_MB, WEIGHT_KB = 150, 150
LONG_OF = 50_000
"""The events of a session that may take ``LONG_MS``."""
ASKED, REPORTED, PAINTED = 60, 5, 5
READERS, READS = 50, 200
MONTH = 2
"""The period of a report that is a month."""
AFTER_MS = 3_600_000
SERVED = """
import backstory.cli.app as app
app.now_ms = lambda: NOW
from backstory.cli import main
main()
"""
"""A command whose clock stands still at NOW."""


class Browser:
    """Asks for pages as a browser does, and keeps the connection. ``pid``: of the process that serves them."""

    def __init__(self, address: str, pid: int) -> None:
        parts = urlsplit(address)
        self.address, self.host, self.pid = address, parts.netloc, pid
        self._connection = http.client.HTTPConnection(self.host, timeout=120)
        self.cookie = ""
        self.get(f"{parts.path}?{parts.query}")

    def get(self, path: str) -> tuple[float, bytes]:
        """Ask for a path; the ms until all of it was there, and its bytes as they came."""
        started = time.perf_counter()
        self._connection.request("GET", path, headers={"Cookie": self.cookie, "Accept-Encoding": "gzip"})
        answer = self._connection.getresponse()
        data = answer.read()
        took = (time.perf_counter() - started) * 1000
        if set_cookie := answer.getheader("set-cookie"):
            self.cookie = set_cookie.partition(";")[0]
        elif answer.status != 200:
            raise ValueError(f"{path}: {answer.status}")
        return took, data

    def timed(self, name: str, paths: Sequence[str], most: float, loads: tuple[float, ...]) -> Figure:
        """The p95 of these paths, in ms."""
        before = cpu_s(self.pid)
        took = [self.get(each)[0] for each in paths]
        cpu = (cpu_s(self.pid) - before) * 1000 / len(paths)
        value = statistics.quantiles(took, n=20, method="inclusive")[-1] if len(took) > 1 else took[0]
        note = f"median {statistics.median(took):.1f} ms, of the processor {cpu:.1f}"
        return Figure(name, value, "ms", most=most, runs=len(took), loads=loads, note=note)


def begun(address: str, pid: int) -> Browser:
    """A browser, once the pages that were named are served."""
    for _ in range(1_000):
        with suppress(ConnectionRefusedError):
            return Browser(address, pid)
        time.sleep(0.01)
    raise Failed("the pages did not begin")


@contextmanager
def served(made: Machine, now: int) -> Iterator[Browser]:
    """The pages of a machine, at a time."""
    code = SERVED.replace("NOW", str(now))
    process = subprocess.Popen(
        [sys.executable, "-c", code, "web"], env=made.command().env, cwd=made.home, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        yield begun(address, process.pid)
    finally:
        process.terminate()
        process.wait()


class Asked:
    """What is there to ask for."""

    def __init__(self, made: Machine) -> None:
        with open_workspace(made.home, environment(made.home, made.folder)) as workspace:
            page = workspace.reader.sessions(SessionFilter(everywhere=True), Page(limit=10 * ASKED))
            self.long, *others = page.sessions
            self.others = [each.uid for each in others]
            words = OrderedDict.fromkeys(word for each in others for word in each.heading.split() if len(word) > 3)
            self.words = list(words)[:ASKED]
            newest = [each.last_active or 0 for each in (self.long, others[0])]
            self.now, self.at_work = max(newest) + AFTER_MS, newest[1] + AFTER_MS


def in_pages(browser: Browser, asked: Asked, quiet: Quiet) -> Iterator[Figure]:
    """What each page takes, the first time and then."""
    load = (quiet.load(),)
    first, _ = browser.get("/sessions")
    yield Figure("the first list after a start", first, "ms", loads=load)
    paths = ["/sessions"]
    while len(paths) < ASKED // 2:
        more = re.search(r'href="([^"]+)" data-more', text_of(browser.get(paths[-1])[1]))
        assert more is not None
        paths.append(more[1].replace("&amp;", "&"))
    yield browser.timed("a part of the list", ["/sessions", *paths[1:]] * 2, LIST_MS, load)
    typed = [f"/search?part=1&q={quote_plus(word)}" for word in asked.words]
    yield browser.timed("a search for a word, each another", typed, SEARCH_MS, load)
    pairs = [f"{typed[n]}+{quote_plus(asked.words[n - 1])}" for n in range(len(typed))]
    yield browser.timed("… for two words", pairs, SEARCH_MS, load)
    yield browser.timed("a session, each another", [f"/s/{each}" for each in asked.others[:ASKED]], SESSION_MS, load)
    long, most = f"/s/{asked.long.uid}", LONG_MS * asked.long.events / LONG_OF
    name = f"a session of {asked.long.events:,} events"
    yield browser.timed(f"{name}, opened first", [long], most, load)
    yield browser.timed("… and again", [long] * REPORTED, most, load)
    yield Figure("… over the wire", len(browser.get(long)[1]) / 1e3, "kB", most=WEIGHT_KB)
    yield Figure(
        "the list over the wire, with script and style", weight(browser, "/sessions") / 1e3, "kB", most=WEIGHT_KB
    )


def text_of(data: bytes) -> str:
    """The text of an answer."""
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


def weight(browser: Browser, path: str) -> int:
    """The bytes of a page with all that it loads."""
    data = browser.get(path)[1]
    return len(data) + sum(len(browser.get(each)[1]) for each in set(re.findall(r'"(/static/[^"]+)"', text_of(data))))


def of_reports(browser: Browser, quiet: Quiet) -> Iterator[Figure]:
    """Each report of a month."""
    load = (quiet.load(),)
    for name in ("standup", "costs", "activity", "tips"):
        paths = [f"/reports/{name}?period={MONTH}"] * REPORTED
        yield browser.timed(f"the report {name} of a month", paths, REPORT_MS, load)


def at_once(browser: Browser, asked: Asked) -> Iterator[Figure]:
    """Many readers, each on a connection of its own."""
    paths = ["/sessions", *(f"/search?part=1&q={each}" for each in asked.words[:9]),
             *(f"/s/{each}" for each in asked.others[:10])]  # fmt: skip

    def read(n: int) -> float:
        return Browser(browser.address, browser.pid).get(paths[n % len(paths)])[0]

    started = time.perf_counter()
    with ThreadPoolExecutor(READERS) as readers:
        took = sorted(readers.map(read, range(READS)))
    value = READS / (time.perf_counter() - started)
    yield Figure(f"pages a second, {READERS} readers at once", value, note=f"the slowest {took[-1]:.0f} ms")


def painted(browser: Browser, quiet: Quiet) -> Iterator[Figure]:
    """What a person waits for who opens the list in a browser."""
    program, load = shutil.which("chromium"), (quiet.load(),)
    name = "first contentful paint of the list"
    if program is None:
        yield not_measured(name, "there is no chromium here", most=PAINT_MS)
        return
    from playwright.sync_api import sync_playwright

    took = list[float]()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program)
        for _ in range(PAINTED):
            context = chromium.new_context()
            page = context.new_page()
            page.goto(browser.address)
            page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
            took.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            context.close()
        chromium.close()
    yield Figure(name, statistics.median(took), "ms", most=PAINT_MS, runs=PAINTED, loads=load)


def figures(kept: Path, sessions: int, long_events: int, wait_s: float) -> Iterable[Figure]:
    """What the pages take."""
    quiet = Quiet(wait_s)
    made = machine(kept, sessions, long_events)
    asked = Asked(made)
    with served(made, asked.now) as browser:
        yield from in_pages(browser, asked, quiet)
        yield from painted(browser, quiet)
        yield Figure("memory, after all of them", memory_mb(browser.pid)[0], "MB", most=MEMORY_MB)
        yield from at_once(browser, asked)
        yield Figure("memory, after those readers", memory_mb(browser.pid)[0], "MB", most=MEMORY_MB)
    with served(made, asked.at_work) as browser:
        yield from of_reports(browser, quiet)
        yield Figure("memory, after the reports", memory_mb(browser.pid)[0], "MB", most=MEMORY_MB)


def main() -> None:
    """Print a line for each figure."""
    parser = arguments(__doc__)
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--events", type=int, default=LONG_EVENTS, help="of the long session")
    parser.add_argument("--folder", type=Path, default=KEPT_IN, help="where the sessions are kept")
    parser.add_argument("--wait", type=float, default=0, help="so many seconds for a quiet machine, before each part")
    given = parser.parse_args()
    report(given, figures(given.folder, given.sessions, given.events, given.wait))


if __name__ == "__main__":
    main()
