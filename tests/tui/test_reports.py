"""The reports: what is on them, what opens, and what becomes of answers that nobody waits for any more."""

from __future__ import annotations

import json
import math
import sqlite3
import threading
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from backstory.ask.stats import WEEKDAYS
from backstory.chronicle import tabs, tips
from backstory.chronicle.report import Cell, OfGroup, OfSession, OfSessions, Report, Section, Tone, row
from backstory.chronicle.tabs import PLACES_MOST, TABS, TabQuestion
from backstory.cli.tui import reports
from backstory.cli.tui.reports_screen import ReportsScreen
from backstory.cli.views.report_view import ReportLine
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.history.stats import StatsQuery
from tests.support import work_habits
from tests.support.going import DEADLINE_S
from tests.support.piloted import AtNow, Opens, Piloted, piloted, screen
from tests.support.session_screens import SessionMachine
from tests.support.shell import Shell
from tests.support.work_habits import TimedLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backstory.ask.stats import By
    from backstory.chronicle.report import About
    from backstory.chronicle.tabs import Tell
    from backstory.cli.app import App
    from backstory.workspace.reader import Reader

pytestmark = pytest.mark.slow

ALL = 3
STANDUP, COSTS, ACTIVITY, TIPS = range(4)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> SessionMachine:
    return SessionMachine(tmp_path_factory.mktemp("screen"))


@pytest.fixture
def opens(machine: SessionMachine) -> Opens:
    return partial(screen, machine.project, machine.environ)


@pytest.fixture(scope="module")
def habitual(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A machine with a month of work, in which there is something to say."""
    return work_habits.habitual(tmp_path_factory.mktemp("habits"))


@pytest.fixture
def month(habitual: Shell) -> Iterator[App]:
    app = AtNow(habitual.environ, habitual.cwd)
    yield app
    app.close()


async def listed(seen: Piloted) -> None:
    """Wait for the list; its foot may have a note instead of keys."""
    await seen.until(lambda: "session" in seen.shown().split("\n")[0])


async def reported(seen: Piloted, *keys: str) -> ReportsScreen:
    """Open the reports, press keys, and wait until all is read."""
    await listed(seen)
    await seen.press("R", *keys)
    await seen.until(lambda: isinstance(seen.app.screen, ReportsScreen) and seen.app.screen.is_settled)
    found = seen.app.screen
    assert isinstance(found, ReportsScreen)
    return found


def lines(seen: Piloted) -> list[str]:
    """The lines of the report, without the gutter."""
    return [line[2:] for line in seen.shown().split("\n")[2:-1] if line]


# what is shown --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "name"), [("1", "standup"), ("2", "cost")])
def test_a_report_has_the_lines_that_its_command_prints(
    machine: SessionMachine, opens: Opens, key: str, name: str
) -> None:
    printed = machine.shown("report", name, width=96, NO_COLOR="1").split("\n")
    expected = [line.rstrip() for line in printed if line]

    async def test() -> None:
        async with opens(size=(100, 80)) as seen:
            await reported(seen, key)
            await seen.until(lambda: lines(seen) == expected)

    piloted(test)


def test_a_period_is_longer_or_shorter_and_of_all_reports(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await reported(seen)
            await seen.until_seen("[1 Stand-up]", "last 24 hours", "Add a rate limit")
            assert "Ship it" not in seen.shown()
            await seen.press("+")
            await seen.until_seen("last 7 days", "Ship it")
            await seen.press("tab")
            await seen.until_seen("[2 Costs]", "last 7 days", "Cost from")
            await seen.press("-", "-")
            await seen.until_seen("last 24 hours")
            await seen.press("m")
            await seen.until_seen("last 30 days")

    piloted(test)


def test_the_reports_are_of_the_projects_that_the_list_was_of(opens: Opens) -> None:
    async def test() -> None:
        async with opens(everywhere=False) as seen:
            await reported(seen)
            await seen.until_seen("calc · last 24 hours", "Fix the failing test")
            assert "Add a rate limit" not in seen.shown()
            await seen.press("2", "enter")
            await seen.until_seen("calc · 2 sessions", "all · turns and costs of it alone", "Why is the sky")
            await seen.press("escape", "1", "a")
            await seen.until_seen("every project · last 24 hours", "Add a rate limit")

    piloted(test)


def test_a_time_without_sessions_names_the_nearest_day(habitual: Shell) -> None:
    async def test() -> None:
        async with screen(habitual.cwd, habitual.environ) as seen:
            await reported(seen)
            await seen.until_seen("No sessions in this time. The nearest are of 2026-05-")
            await seen.press("a")
            await seen.until_seen("work · last 24 hours", "No sessions.")

    piloted(test)


def test_a_click_chooses_a_tab_and_a_row(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await reported(seen)
            await seen.click(15, 0)
            await seen.until_seen("[2 Costs]", "Total")
            line = next(n for n, each in enumerate(seen.shown().split("\n")) if each.startswith("  Total"))
            await seen.click(8, line)
            await seen.until_seen("> Total")
            await seen.click(8, line, times=2)
            await seen.until_seen("all · turns and costs of it alone")

    piloted(test)


def test_the_palette_has_what_keys_do_in_the_reports(opens: Opens) -> None:
    async def test() -> None:
        async with opens(size=(80, 40)) as seen:
            await reported(seen)
            await seen.press("ctrl+p")
            await seen.type("by day, agent")
            await seen.until_seen("key 2")
            await seen.press("enter")
            await seen.until_seen("[2 Costs]", "Cost from")

    piloted(test)


def test_keys_go_on_from_where_a_wheel_went(opens: Opens) -> None:
    async def test() -> None:
        async with opens(size=(80, 15)) as seen:
            found = await reported(seen, "2", "+")
            await seen.until(lambda: found.is_settled)
            found.pane.scroll_to(y=20, animate=False, immediate=True)
            await seen.press("j")
            await seen.until(lambda: any(each.startswith("> ") for each in seen.shown().split("\n")[2:-1]))
            # The row that is chosen has a line above it.
            assert found.pane.scroll_offset.y in (19, 20)

    piloted(test)


def test_nothing_that_a_terminal_obeys_is_on_a_report_or_on_the_list_that_it_opens(
    machine: SessionMachine, opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = "\x1b]0;owned\x07 \x9b31m \u202egnp.exe"
    found = json.loads(machine.piped("list", "--all", "--grep", "sky", "--json"))
    about = OfSessions(tuple(each["uid"] for each in found["sessions"]))
    section = Section(title=evil, about=about, rows=(row(Cell(evil, Tone.REF), evil),), notes=(evil,))
    replaced(monkeypatch, lambda app, wanted, tell: Report(title=evil, lead=evil, sections=(section,), notes=(evil,)))

    async def test() -> None:
        async with opens(size=(60, 15)) as seen:
            await reported(seen)
            await seen.until_seen("owned", "[1 Stand-up]")
            assert seen.acting() == ""
            assert max(map(len, seen.shown().split("\n"))) <= 60
            await seen.press("enter")
            await seen.until_seen("1 session", "owned", "Why is the sky blue?")
            assert seen.acting() == ""

    piloted(test)


def test_all_of_the_sums_are_read_on_a_narrow_screen(habitual: Shell) -> None:
    async def test() -> None:
        async with screen(habitual.cwd, habitual.environ, size=(60, 15)) as seen:
            await reported(seen, "2", "+")
            await seen.until_seen("≥ 1.1 M cache", "read · ≥ 831 k cache write", "Cost of all time")

    piloted(test)


def test_what_nobody_knows_the_price_of_has_no_cost_and_that_is_said(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    TimedLog(1, model="nobody-knows").prompt("Go").answer().put(tmp_path)
    assert shell("ingest").code == 0

    async def test() -> None:
        async with screen(shell.cwd, shell.environ) as seen:
            await reported(seen, "2", "+")
            await seen.until_seen("all time", "1 turn unknown", "TOKENS")
            line = next(each for each in seen.shown().split("\n") if "nobody-knows" in each)
            assert "$" not in line
            assert "–" in line
            await seen.press("j", "j", "j", "enter")
            await seen.until_seen("model nobody-knows", "1 session")
            assert "$" not in seen.shown()

    piloted(test)


def test_a_report_without_end_is_drawn_to_a_limit_and_says_so(month: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "LINES_MOST", 5)
    _, report = tabs.read(
        month.reader, month.workspace.now(), TabQuestion(tab=STANDUP, period=ALL, everywhere=True), quiet
    )
    found = reports.drawn(report, 80, quiet)
    assert len(found) == 5 + 2
    assert found[-1].text.startswith("These are the first 5 lines.")


# what opens -----------------------------------------------------------------------------------------------------------


def quiet(done: int, total: int | None) -> None:
    """Tell nobody."""


def read_all(app: App, tab: int) -> tuple[SessionFilter, Report]:
    """A report of all time."""
    asked = TabQuestion(tab=tab, period=ALL, everywhere=True)
    return tabs.read(app.reader, app.workspace.now(), asked, quiet)


def rows_of(app: App, tab: int) -> tuple[SessionFilter, list[About]]:
    """The sessions that a report of all time is about, and what its rows are about."""
    wanted, report = tabs.read(
        app.reader, app.workspace.now(), TabQuestion(tab=tab, period=ALL, everywhere=True), quiet
    )
    found = {id(each.about): each.about for each in reports.drawn(report, 200, quiet) if each.about is not None}
    return wanted, list(found.values())


def counted(store: Path, by: By | None) -> dict[tuple[str | None, str], int]:
    """The turns of each session in each group, counted in the store."""
    at = "started / 1000, 'unixepoch', 'localtime'"
    names = "".join(f"{day:9}" for day in ("Sunday", *WEEKDAYS[:-1]))
    weekday = f"rtrim(substr('{names}', 1 + 9 * strftime('%w', {at}), 9))"
    groups = {
        "day": f"date({at})", "hour": f"strftime('%H', {at})", "weekday": weekday, "repository": "'w/tool'",
        None: "null",
    }  # fmt: skip
    sql = f"select {groups.get(by, f't.{by}')}, s.uid, count(*) from turns t join sessions s on s.id = t.session_id"
    with closing(sqlite3.connect(store)) as db:
        return {(group, uid): turns for group, uid, turns in db.execute(f"{sql} group by 1, 2")}


@pytest.mark.parametrize(
    ("tab", "groupings"),
    [(COSTS, {None, "day", "agent", "model", "repository"}), (ACTIVITY, {None, "hour", "weekday"})],
)
def test_a_row_opens_the_sessions_of_its_turns_whose_figures_add_up_to_it(
    month: App, habitual: Shell, tab: int, groupings: set[By | None]
) -> None:
    wanted, rows = rows_of(month, tab)
    groups = [each for each in rows if isinstance(each, OfGroup)]
    assert {each.by for each in groups} == groupings
    for about in groups:
        opened = reports.sessions_behind(month, wanted, about, "", quiet)
        value = about.key.value if about.key is not None else None
        expected = {uid: turns for (group, uid), turns in counted(habitual.store, about.by).items() if group == value}
        if opened is None:
            assert (expected, tab) == ({}, ACTIVITY)
            continue
        assert {each.uid: each.turns for each in opened[0].rows} == expected
        found = month.reader.stats(StatsQuery(wanted=wanted, by=about.by))
        figures = next((each.figures for each in found.groups if each.key == about.key), found.total)
        shares = opened[1].figures.values()
        assert sum(each.turns for each in shares) == figures.turns
        assert math.fsum(each.cost.low_usd or 0 for each in shares) == pytest.approx(figures.cost.low_usd)
        assert sum(each.duration_ms or 0 for each in shares) == figures.duration_ms


def test_a_session_of_two_days_is_listed_with_what_it_did_on_the_one_that_is_opened(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    log = TimedLog(1).prompt("Go").answer().prompt("On", after_s=100_000).answer().prompt("And on").answer()
    log.put(tmp_path)
    assert shell("ingest").code == 0
    app = AtNow(shell.environ, shell.cwd)
    try:
        wanted, rows = rows_of(app, COSTS)
        days = [each for each in rows if isinstance(each, OfGroup) and each.by == "day"]
        opened = [reports.sessions_behind(app, wanted, each, "", quiet) for each in days]
        assert [[row.turns for row in each[0].rows] for each in opened if each is not None] == [[1], [2]]
    finally:
        app.close()


def test_a_place_of_a_stand_up_opens_its_sessions(month: App) -> None:
    wanted, rows = rows_of(month, STANDUP)
    (place,) = (each for each in rows if isinstance(each, OfSessions))
    opened = reports.sessions_behind(month, wanted, place, "", quiet)
    assert opened is not None
    items = [each.uid for each in rows if isinstance(each, OfSession)]
    assert sorted(each.uid for each in opened[0].rows) == sorted(items)
    assert len(items) == month.reader.count(wanted)


def test_a_tip_opens_as_many_sessions_as_it_counts_and_its_evidence_a_record(month: App) -> None:
    wanted, rows = rows_of(month, TIPS)
    found = tips.tips(month.reader, wanted, report=quiet)
    opened = [reports.sessions_behind(month, wanted, each, "", quiet) for each in rows if isinstance(each, OfSessions)]
    assert [len(each[0].rows) for each in opened if each is not None] == [tip.sessions for tip in found.findings]
    places = [(each.uid, each.seq) for each in rows if isinstance(each, OfSession)]
    assert places == [(each.context, each.seqs[0]) for tip in found.findings for each in tip.evidence[:PLACES_MOST]]


def test_the_list_that_a_row_opens_says_of_what_it_is_and_goes_back_to_that_row(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await reported(seen, "2", "j", "j")
            await seen.until_seen("> 2026-09-20")
            await seen.press("enter")
            await seen.until_seen("every project · 1 session", "day 2026-09-20 · turns and costs of it alone")
            await seen.press("tab", "f")
            await seen.type("zzz")
            await seen.until_seen("Nothing found.")
            await seen.press("escape", "escape")
            await seen.until_seen("1 session", "day 2026-09-20")
            await seen.press("R")
            await seen.until_seen("[2 Costs]", "> 2026-09-20")
            await seen.press("enter")
            await seen.until_seen("1 session", "day 2026-09-20")
            await seen.press("escape")
            await seen.until_seen("[2 Costs]", "> 2026-09-20")
            await seen.press("escape")
            await seen.until_seen("8 sessions")

    piloted(test)


def test_a_line_of_a_stand_up_opens_its_session(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await reported(seen, "j")
            await seen.press("enter")
            await seen.opened("A sign was wrong.")
            await seen.press("escape")
            await seen.until_seen("[1 Stand-up]", ">   ✓ ")

    piloted(test)


def test_evidence_opens_its_session_at_its_place(habitual: Shell) -> None:
    async def test() -> None:
        async with screen(habitual.cwd, habitual.environ) as seen:
            found = await reported(seen, "4", "+", "j")
            about = found.pane.about
            assert isinstance(about, OfSession)
            await seen.press("enter")
            opened = await seen.opened()
            assert opened.pane.current is not None
            assert opened.pane.current[0] == about.seq

    piloted(test)


# answers that nobody waits for ----------------------------------------------------------------------------------------


def replaced(monkeypatch: pytest.MonkeyPatch, read: Callable[[Reader, SessionFilter, Tell], Report]) -> None:
    """Have the stand-up read by another function."""
    monkeypatch.setattr(tabs, "TABS", (TABS[STANDUP]._replace(read=read), *TABS[1:]))


class Held:
    """A report that is read until it is let go, and says how far it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on, self.ended = threading.Event(), threading.Event(), threading.Event()
        replaced(monkeypatch, self._read)

    def _read(self, reader: Reader, wanted: SessionFilter, tell: Tell) -> Report:
        self.begun.set()
        try:
            while not self.go_on.wait(0.01):
                tell(7, 164)
        finally:
            self.ended.set()
        return Report(title="A late answer")


def test_a_report_stays_in_sight_and_opens_nothing_until_the_next_is_drawn(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_read, read = threading.Event(), tabs.read

    def waits(*given: Any) -> Any:
        assert may_read.wait(DEADLINE_S)
        return read(*given)

    async def test() -> None:
        async with opens(size=(80, 24)) as seen:
            await seen.until_seen("8 sessions")
            await seen.press("R", "plus", "plus", "plus", "j")
            await seen.until_seen("[1 Stand-up]", "all time", "> ")
            before = [each.lstrip("> ") for each in seen.shown().split("\n")[3:20]]
            monkeypatch.setattr(tabs, "read", waits)
            await seen.press("2")
            await seen.until_seen("[2 Costs]", "reading …")
            await seen.press("enter")
            await seen.click(10, 6, times=2)
            assert [each.lstrip("> ") for each in seen.shown().split("\n")[3:20]] == before
            assert isinstance(seen.app.screen, ReportsScreen)
            may_read.set()
            await seen.until_seen("[2 Costs]", "> Sessions")

    try:
        piloted(test)
    finally:
        may_read.set()


def test_an_answer_that_comes_late_is_never_drawn_over_a_newer_one(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)

    async def test() -> None:
        async with opens() as seen:
            await listed(seen)
            await seen.press("R")
            await seen.until_seen("reading 7 of 164 …")
            found = seen.app.screen
            assert isinstance(found, ReportsScreen)
            await seen.press("2")
            await seen.until(lambda: found.is_settled)
            late = TabQuestion(tab=STANDUP, period=0, everywhere=True)
            found.post_message(found._Read(late, SessionFilter(), Report(title="A late answer")))
            line = ReportLine("A late answer")
            found.post_message(found._Drawn(late, Report(title="A late answer"), found.pane.columns, [line]))
            await seen.until(held.ended.is_set)
            await seen.press("j")
            await seen.until_seen("[2 Costs]", "Cost from")
            assert "A late answer" not in seen.shown()

    piloted(test)


def test_what_is_read_ends_when_a_person_goes_back(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def test() -> None:
        async with opens() as seen:
            await listed(seen)
            await seen.press("R")
            await seen.until(held.begun.is_set)
            await seen.press("escape")
            await seen.until(held.ended.is_set)
            await seen.until_seen("8 sessions")

    piloted(test)


def test_what_is_read_ends_when_a_person_leaves(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def test() -> None:
        async with opens() as seen:
            await listed(seen)
            await seen.press("R")
            await seen.until(held.begun.is_set)
            await seen.press("q")
            await seen.until(lambda: held.ended.is_set() and not seen.app.is_running)

    piloted(test)


def test_of_tabs_that_are_chosen_quickly_the_last_is_shown(habitual: Shell) -> None:
    async def test() -> None:
        async with screen(habitual.cwd, habitual.environ) as seen:
            found = await reported(seen, "+", "+", "+", "2", "3", "4", "1", "4", "3", "2")
            await seen.until(lambda: found.is_settled)
            await seen.until_seen("[2 Costs]", "Cost of all time")

    piloted(test)


def test_another_size_while_it_reads_is_that_of_what_is_drawn(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def test() -> None:
        async with opens() as seen:
            await listed(seen)
            await seen.press("R")
            await seen.until(held.begun.is_set)
            await seen.resize(60, 15)
            await seen.resize(120, 40)
            held.go_on.set()
            await seen.until_seen("A late answer")
            await seen.press("2")
            await seen.until_seen("CACHE READ", "Total")
            await seen.resize(60, 15)
            await seen.until(lambda: "CACHE READ" not in seen.shown() and "Cost from" in seen.shown())
            assert max(map(len, seen.shown().split("\n"))) <= 60

    piloted(test)
