"""What is behind the numbers of reports: the sessions that they sum up, and SQL that returns them."""

from __future__ import annotations

import html
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_args
from xml.etree import ElementTree

import pytest

from backstory import open_store
from backstory.ask.stats import WEEKDAYS, By
from backstory.bounds import duration
from backstory.chronicle import charts, explain
from backstory.chronicle.explain import SUNDAY_FIRST, TURNS, USED
from backstory.chronicle.report import Amount, BarPart, Chart
from backstory.cli.app import App
from backstory.web import charting
from backstory.web.charting import drawing
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.history.stats import StatsQuery

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.derive.tally import Figures, GroupKey
    from backstory.workspace.reader import Reader
    from tests.support.pages import Visitor
    from tests.support.shell import Shell

EVERYWHERE = SessionFilter(everywhere=True)
PLACES = ("project", "branch")
"""Groupings that no report has."""
LINKED = re.compile(r'href="(/reports/behind[^"]*)"')
QUERY = re.compile(r"<pre>(with .*?)</pre>", re.DOTALL)
SVG = re.compile(r"<svg class=.*?</svg>", re.DOTALL)


@pytest.fixture(scope="module")
def reader(recorded: Shell) -> Iterator[Reader]:
    with App(recorded.environ, recorded.cwd).new_workspace() as workspace:
        yield workspace.reader


def answers(shell: Shell, query: str) -> list[dict[str, Any]]:
    with open_store(shell.store) as store:
        found = store.execute_read_only(query)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def sums(figures: Figures) -> list[object]:
    low = figures.cost.low_usd
    return [
        figures.sessions, figures.turns, figures.duration_ms, figures.input, figures.output, figures.cache_read,
        figures.cache_write, None if low is None else round(low, 9),
    ]  # fmt: skip


def returned(turns: dict[str, Any], used: dict[str, Any]) -> list[object]:
    low = used.get("low_usd")
    return [
        turns["sessions"], turns["turns"], turns["duration_ms"],
        *(used.get(kind) for kind in ("input", "output", "cache_read", "cache_write")),
        None if low is None else round(low, 9),
    ]  # fmt: skip


def as_sql_has_it(by: str, key: GroupKey) -> tuple[object, ...]:
    within, _, second = by.rpartition(" ")
    value = (key.project or key.value) if second == "repository" else key.value
    each = [(second, value)] if not within else [(within, key.within), (second, value)]
    return tuple(str(SUNDAY_FIRST.index(v)) if name == "weekday" and v in WEEKDAYS else v for name, v in each)


@pytest.mark.parametrize("by", [each for each in get_args(By) if each not in PLACES])
def test_the_sql_of_a_grouping_returns_the_figures_of_each_group(recorded: Shell, reader: Reader, by: By) -> None:
    groups = reader.stats(StatsQuery(wanted=EVERYWHERE, by=by)).groups
    columns = len(by.split())
    by_name = {
        name: {tuple(row.values())[:columns]: row for row in answers(recorded, query)}
        for name, query in explain.grouped_queries(reader, EVERYWHERE, by).items()
    }
    assert len(groups) > 1
    for each in groups:
        name = as_sql_has_it(by, each.key)
        assert returned(by_name[TURNS][name], by_name[USED].get(name, {})) == sums(each.figures), name
    assert len(by_name[TURNS]) == len(groups)


@pytest.mark.parametrize("by", [each for each in get_args(By) if each not in PLACES])
def test_the_sql_of_a_group_returns_its_figures(recorded: Shell, reader: Reader, by: By) -> None:
    groups = reader.stats(StatsQuery(wanted=EVERYWHERE, by=by)).groups
    for each in groups[:: max(len(groups) // 4, 1)]:
        queries = explain.group_queries(reader, EVERYWHERE, by, each.key)
        (turns,), (used,) = answers(recorded, queries[TURNS]), answers(recorded, queries[USED])
        assert returned(turns, used) == sums(each.figures), each.key


def rows(text: str) -> Iterator[tuple[list[str], str]]:
    """The numbers of each row of the tables of a report, and where they lead."""
    for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", text):
        cells = re.findall(r'<a class="figure" href="([^"]*)"[^>]*>(.*?)</a>', row)
        if cells:
            assert len({where for where, _ in cells}) == 1
            yield [html.unescape(words) for _, words in cells], html.unescape(cells[0][0])


def behind(answer_text: str) -> tuple[dict[str, str], list[str]]:
    """The sums at the top of a page behind a number, and its queries."""
    shown = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", answer_text))
    return {name: html.unescape(value) for name, value in shown.items()}, [
        html.unescape(each) for each in QUERY.findall(answer_text)
    ]


@pytest.mark.parametrize("name", ["costs", "activity"])
def test_a_number_opens_its_sessions_and_the_sql_that_returns_it(visitor: Visitor, recorded: Shell, name: str) -> None:
    found = list(rows(visitor.get(f"/reports/{name}?period=3").text))
    assert len(found) > 20
    for cells, where in found[:: len(found) // 20]:
        answer = visitor.get(where)
        assert answer.status == 200, where
        shown, (turns_sql, used_sql) = behind(answer.text)
        assert list(shown.values()) == cells, where
        (turns,), (used,) = answers(recorded, turns_sql), answers(recorded, used_sql)
        assert f"{turns['sessions']:,}" == shown["Sessions"]
        assert f"{turns['turns']:,}" == shown["Turns"]
        assert (duration(turns["duration_ms"]) or "–") == shown["Time"]
        for kind in ("Input", "Output", "Cache read", "Cache write"):
            amount = used[kind.lower().replace(" ", "_")]
            assert ("–" if amount is None else f"{amount:,}") == shown[kind].removeprefix("≥ ")
        assert answer.text.count('href="/s/') == turns["sessions"], where


def test_the_sql_of_the_tools_returns_their_calls(visitor: Visitor, recorded: Shell) -> None:
    text = visitor.get("/reports/tools?period=3").text
    found = list(rows(text))
    (query,) = map(html.unescape, QUERY.findall(text))
    by_name = [[f"{row[name]:,}" for name in ("calls", "failed", "sessions")] for row in answers(recorded, query)]
    assert sorted(by_name) == sorted(cells for cells, _ in found)
    for (calls, failed, sessions), where in found[::8]:
        answer = visitor.get(where)
        shown, (of_sessions,) = behind(answer.text)
        assert (shown["Calls"], shown["Failed"], shown["Sessions"]) == (calls, failed, sessions)
        each = answers(recorded, of_sessions)
        assert sum(row["calls"] for row in each) == int(calls.replace(",", ""))
        assert answer.text.count('href="/s/') == len(each) == int(sessions)


@pytest.mark.parametrize("stack", charts.STACKS)
@pytest.mark.parametrize("measure", charts.MEASURES)
def test_the_parts_of_a_bar_are_what_is_behind_them(visitor: Visitor, stack: str, measure: str) -> None:
    text = visitor.get(f"/reports/costs?period=3&stack={stack}&measure={measure}").text
    (svg,) = SVG.findall(text)
    parts = re.findall(r'<a href="([^"]*)"[^>]*aria-label="([^"]*)"', svg)
    assert len(parts) > 3
    name = {"cost": "Cost", "time": "Time", "turns": "Turns"}.get(measure)
    for where, words in parts[:: max(len(parts) // 4, 1)]:
        if ": others" in words or " others: " in words:
            continue
        shown, _ = behind(visitor.get(html.unescape(where)).text)
        amount = html.unescape(words).rpartition(": ")[2]
        if name is not None:
            assert shown[name].partition(" turn")[0] == amount.partition(" turn")[0], words
        else:
            counts = [shown[kind] for kind in ("Input", "Output", "Cache read", "Cache write")]
            known = [int(each.removeprefix("≥ ").replace(",", "")) for each in counts if each != "–"]
            assert f"{sum(known):,} token" in amount


@pytest.mark.parametrize("name", ["costs", "activity"])
def test_a_chart_is_whole_says_what_it_is_and_has_its_numbers_in_a_table(visitor: Visitor, name: str) -> None:
    text = visitor.get(f"/reports/{name}?period=3").text
    for svg in SVG.findall(text):
        root = ElementTree.fromstring(svg)
        named = {each.get("id"): each.text for each in root.iter() if each.tag in ("title", "desc")}
        assert all(named[each] for each in str(root.get("aria-labelledby")).split())
        numbers = set(LINKED.findall(svg))
        table = text[text.index(svg) :].partition("</table>")[0]
        assert numbers
        assert numbers <= set(LINKED.findall(table.removeprefix(svg)))


def test_a_report_of_what_was_typed_is_of_it_alone(visitor: Visitor, recorded: Shell) -> None:
    asked = recorded("report", "cost", "--agent", "codex", "--since", "2026-01-01", "--until", "2026-07-01", "--json")
    words = visitor.get("/reports/costs?agent=codex&since=2026-01-01&until=2026-07-01").words
    assert f"Turns {asked.json()['sums']['turn_count']} " in words
    assert visitor.get("/reports/costs?agent=nobody").status == 400


@pytest.mark.parametrize("asked", ["by=cat", "from=x", "from=-1", "to=99999999999999999999", "by=day&value=%00'--"])
def test_an_address_that_nobody_was_given_is_answered_in_words(visitor: Visitor, asked: str) -> None:
    answer = visitor.get(f"/reports/behind?{asked}")
    assert answer.status in (200, 400)
    assert "Traceback" not in answer.text


def test_the_tips_and_the_stand_up_have_their_sql(pages: Visitor, month: Shell) -> None:
    tips = [html.unescape(each) for each in QUERY.findall(pages.get("/reports/tips?period=3").text)]
    assert len(tips) == 5
    assert all(answers(month, query) for query in tips)
    turns, cost, _ = (html.unescape(each) for each in QUERY.findall(pages.get("/reports/standup?period=3").text))
    (total,) = (month("report", "cost", "--json", "--since", "2020-01-01").json()["sums"],)
    assert sum(row["turns"] for row in answers(month, turns)) == total["turn_count"]
    assert sum(row["low_usd"] or 0 for row in answers(month, cost)) == pytest.approx(total["low_usd"])


@pytest.mark.parametrize("bars", [1, 7, 12, 52, 100, 156, 1_000])
def test_names_below_a_chart_are_apart_and_whole_however_many_bars_it_has(bars: int) -> None:
    amounts = tuple(Amount(1, "1", None) for _ in range(bars))
    heads = tuple(f"20{n:06}" for n in range(bars))
    drawn = drawing(Chart(title="Cost by day", heads=heads, parts=(BarPart("", amounts),), sums=amounts), lambda _: "")
    places = [each.x for each in drawn.names]
    assert places
    assert all(right - left >= charting.LABEL_PX - 0.1 for left, right in pairwise(places))
    assert places[-1] + charting.LABEL_PX / 2 <= drawn.width
