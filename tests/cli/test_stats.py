"""``stats``: sums over turns, each turn once, and what is not known of them."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import pytest

from backstory.cli.commands.stats_command import print_turns
from backstory.cli.views.counting import counting
from backstory.derive.pricing import Cost, CostKind
from backstory.derive.tally import Group, GroupKey, Tally
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.history.stats import Stats, StatsGroup, StatsQuery
from tests.support.forked import COMMAND
from tests.support.machines import SMALL, case
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

FIRST, SECOND = "3f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f", "4f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f"
OPUS = "claude-opus-4-5-20251101"
KINDS = ("input", "output", "cache_read", "cache_write")


def record(uuid: str, kind: str, content: Any, at: str | None, session: str = FIRST, **message: Any) -> dict[str, Any]:
    times = {} if at is None else {"timestamp": at}
    return {
        "type": kind, "sessionId": session, "uuid": uuid, "parentUuid": None, "cwd": "/p", "version": "2.1.100",
        "gitBranch": "main", "message": {"role": kind, "content": content, **message}, **times,
    }  # fmt: skip


def turn(
    name: str, at: str | None, *, done: str | None = None, output: int = 1000, model: str = OPUS, session: str = FIRST
) -> list[dict[str, Any]]:
    """A prompt at a time, and an answer of 500 tokens of input and so many of output."""
    usage = {"input_tokens": 500, "output_tokens": output, "cache_read_input_tokens": 0}
    answer = record(
        f"{name}-a", "assistant", [{"type": "text", "text": "ok"}], done or at, session, id=f"msg_{name}", model=model,
        stop_reason="end_turn", usage=usage,
    )  # fmt: skip
    return [record(f"{name}-q", "user", "go", at, session), answer | {"parentUuid": f"{name}-q"}]


def put(bare: Shell, *records: dict[str, Any], session: str = FIRST, folder: str = "p") -> None:
    path = bare.home / ".claude" / "projects" / folder / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records))


def stats(bare: Shell, *words: str, **environ: str) -> dict[str, Any]:
    done = bare("stats", "--all", "--json", *words, **environ)
    assert done.code == 0, done.err
    return dict(done.json())


def tokens(figures: dict[str, Any]) -> list[int]:
    return [figures["tokens"][kind] or 0 for kind in KINDS]


def logged_tokens(names: tuple[str, ...]) -> dict[str, Counter[str]]:
    """What Claude Code's logs say of each day: of each message the largest count, each message once in all files."""
    largest: dict[tuple[str, str | None], tuple[str, Counter[str]]] = {}
    for name in names:
        for line in case(name).decode().splitlines():
            said = json.loads(line)
            message = said.get("message") or {}
            used = message.get("usage")
            if said.get("type") != "assistant" or not used or message.get("model") == "<synthetic>":
                continue
            fields = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            counts = Counter({kind: used.get(field) or 0 for kind, field in zip(KINDS, fields, strict=True)})
            key = message["id"], said.get("requestId")
            day, known = largest.get(key, (said["timestamp"][:10], Counter[str]()))
            largest[key] = day, known | counts
    days: dict[str, Counter[str]] = defaultdict(Counter)
    for day, counts in largest.values():
        days[day].update(counts)
    return days


def test_the_sum_of_all_is_the_sum_of_what_list_shows(read_once: Shell) -> None:
    listed = read_once("list", "--all", "--json").json()["sessions"]
    total = stats(read_once)["sums"]
    assert total["session_count"] == len(listed)
    assert total["low_usd"] == math.fsum(each["low_usd"] or 0 for each in listed)
    # A fork holds copies of its original's turns, which list shows in both.
    assert 0 < total["turn_count"] < sum(each["turn_count"] for each in listed)


def test_one_session_costs_what_list_says_to_the_last_digit(bare: Shell) -> None:
    each = [turn(f"t{n}", f"2026-05-01T10:00:{n:02}.000Z", output=1009 * n + 7) for n in range(40)]
    put(bare, *(said for records in each for said in records))
    assert bare("ingest").code == 0
    (listed,) = bare("list", "--all", "--json").json()["sessions"]
    total = stats(bare)["sums"]
    same = ("cost_usd", "cost_kind", "low_usd", "duration_ms", "turn_count")
    assert [total[name] for name in same] == [listed[name] for name in same]
    assert total["cost_kind"] == "computed"


def test_tokens_of_a_day_are_those_that_the_logs_hold(read_once: Shell) -> None:
    claude = tuple(name for name in SMALL if name.startswith("claude/"))
    found = {each["day"]: tokens(each) for each in stats(read_once, "--by", "day", "--agent", "claude")["groups"]}
    logged = {day: [counts[kind] for kind in KINDS] for day, counts in logged_tokens(claude).items()}
    assert {day: each for day, each in found.items() if any(each)} == logged


@pytest.mark.parametrize("by", ["day", "hour", "weekday", "project", "model", "agent", "branch"])
def test_groups_add_up_to_the_whole(read_once: Shell, by: str) -> None:
    found = stats(read_once, "--by", by)
    groups, total = found["groups"], found["sums"]
    assert len(groups) > 1
    assert [sum(column) for column in zip(*map(tokens, groups), strict=True)] == tokens(total)
    assert sum(each["turn_count"] for each in groups) == total["turn_count"]
    assert sum(each["duration_ms"] or 0 for each in groups) == total["duration_ms"]
    assert math.fsum(each["low_usd"] or 0 for each in groups) == pytest.approx(total["low_usd"])
    assert (
        max(each["session_count"] for each in groups)
        <= total["session_count"]
        <= sum(each["session_count"] for each in groups)
    )


def test_a_copy_of_a_turn_counts_once(bare: Shell) -> None:
    first = turn("t1", "2026-05-01T10:00:00.000Z")
    put(bare, *first)
    copied = [each | {"sessionId": SECOND} for each in first]
    put(bare, *copied, *turn("t2", "2026-05-02T10:00:00.000Z", session=SECOND), session=SECOND)
    assert bare("ingest").code == 0
    total = stats(bare)["sums"]
    assert (total["session_count"], total["turn_count"], tokens(total)) == (2, 2, [1000, 2000, 0, 0])
    days = {each["day"]: (each["session_count"], each["turn_count"]) for each in stats(bare, "--by", "day")["groups"]}
    assert days == {"2026-05-01": (2, 1), "2026-05-02": (1, 1)}


def test_what_a_subagent_used_counts_and_its_turns_do_not(bare: Shell) -> None:
    bare.put("claude/with-a-helper", "claude/helper")
    assert bare("ingest").code == 0
    total = stats(bare)["sums"]
    (parent,) = bare("list", "--all", "--json").json()["sessions"]
    assert (total["session_count"], total["turn_count"], total["duration_ms"]) == (
        1,
        parent["turn_count"],
        parent["duration_ms"],
    )
    own = bare("show", parent["uid"], "--json").json()["turns"]
    logged = sum(logged_tokens(("claude/with-a-helper", "claude/helper")).values(), Counter[str]())
    assert tokens(total) == [logged[kind] for kind in KINDS]
    assert total["tokens"]["output"] > sum(each["tokens"]["output"] or 0 for each in own)


@pytest.mark.parametrize(
    ("at", "zone", "day"),
    [
        ("2026-03-28T22:59:59.999Z", "Europe/Berlin", "2026-03-28"),
        ("2026-03-28T23:00:00.000Z", "Europe/Berlin", "2026-03-29"),
        ("2026-03-29T21:59:59.999Z", "Europe/Berlin", "2026-03-29"),  # a day of 23 hours
        ("2026-03-29T22:00:00.000Z", "Europe/Berlin", "2026-03-30"),
        ("2026-10-25T22:59:59.999Z", "Europe/Berlin", "2026-10-25"),  # a day of 25 hours
        ("2026-10-25T23:00:00.000Z", "Europe/Berlin", "2026-10-26"),
        ("2026-05-01T18:14:59.999Z", "Asia/Kathmandu", "2026-05-01"),
        ("2026-05-01T18:15:00.000Z", "Asia/Kathmandu", "2026-05-02"),
    ],
)  # fmt: skip
def test_a_day_begins_at_midnight_where_the_person_is(bare: Shell, at: str, zone: str, day: str) -> None:
    put(bare, *turn("t1", at))
    assert bare("ingest").code == 0
    (group,) = stats(bare, "--by", "day", TZ=zone)["groups"]
    assert group["day"] == day
    assert stats(bare, "--since", day, "--until", day, TZ=zone)["sums"]["turn_count"] == 1


def test_an_hour_and_a_weekday_are_those_of_the_person_in_their_order(bare: Shell) -> None:
    at = (
        "2026-05-03T21:59:00.000Z",
        "2026-05-03T22:00:00.000Z",
        "2026-05-04T08:30:00.000Z",
        "2026-05-08T09:00:00.000Z",
    )
    put(bare, *(each for n, moment in enumerate(at) for each in turn(f"t{n}", moment)))
    assert bare("ingest").code == 0
    hours, days = (stats(bare, "--by", by, TZ="Europe/Berlin")["groups"] for by in ("hour", "weekday"))
    assert [(each["hour"], each["turn_count"]) for each in hours] == [("00", 1), ("10", 1), ("11", 1), ("23", 1)]
    assert [(each["weekday"], each["turn_count"]) for each in days] == [("Monday", 2), ("Friday", 1), ("Sunday", 1)]


def test_since_and_until_choose_turns_by_when_they_began(bare: Shell) -> None:
    put(
        bare,
        *turn("t1", "2026-05-01T23:59:00.000Z", done="2026-05-02T00:10:00.000Z", output=1),
        *turn("t2", "2026-05-02T10:00:00.000Z", output=20),
        *turn("t3", "2026-05-03T00:00:00.000Z", output=300),
    )
    assert bare("ingest").code == 0
    since, until = ("--since", "2026-05-02"), ("--until", "2026-05-02")
    chosen = ((), since, until, (*since, *until))
    assert [stats(bare, *words, TZ="UTC")["sums"]["tokens"]["output"] for words in chosen] == [321, 320, 21, 20]
    before = stats(bare, "--since", "2026-06-01")["sums"]
    assert (before["session_count"], before["turn_count"], before["tokens"]["output"]) == (0, 0, None)


def test_turns_without_a_time_have_no_day_and_are_in_no_time(bare: Shell) -> None:
    put(bare, *turn("t1", None))
    put(bare, *turn("t2", "2026-05-02T10:00:00.000Z", session=SECOND), session=SECOND)
    assert bare("ingest").code == 0
    found = stats(bare, "--by", "day")
    assert [(each["day"], each["turn_count"]) for each in found["groups"]] == [("2026-05-02", 1), (None, 1)]
    assert found["undated_turns"] == 0
    since = stats(bare, "--since", "2026-01-01")
    assert (since["sums"]["turn_count"], since["undated_turns"]) == (1, 1)
    report = bare("chronicle", "cost", "--since", "2026-01-01", "--json").json()
    assert (report["sums"]["turn_count"], report["undated_turns"]) == (1, 1)
    assert "1 turn without a time left out." in bare("stats", "--all", "--since", "2026-01-01").err


def test_what_is_not_known_is_said_and_is_not_nothing(bare: Shell) -> None:
    put(bare, *turn("t1", "2026-05-01T10:00:00.000Z", model="nobody-knows"))
    assert bare("ingest").code == 0
    total = stats(bare)["sums"]
    assert (total["cost_usd"], total["low_usd"], total["cost_kind"]) == (None, None, "unknown")
    assert (total["turns_without_cost"], total["turns_without_tokens"]) == (1, 0)
    assert total["tokens"]["cache_write"] in (None, 0)
    shown = bare("stats", "--all")
    assert "Cost      –" in shown.out and "$" not in shown.out
    assert "Not counted, because unknown: cost of 1 turn." in shown.err


def test_a_cost_of_which_only_bounds_are_known_is_shown_between_them(bare: Shell) -> None:
    prompt, answer = turn("t1", "2026-05-01T10:00:00.000Z")
    answer["message"] |= {"stop_reason": None, "content": [{"type": "text", "text": "x" * 300_000}]}
    put(bare, prompt, answer)
    assert bare("ingest").code == 0
    total = stats(bare)["sums"]
    assert (total["cost_kind"], total["cost_usd"]) == ("lower bound", None)
    assert total["low_usd"] == pytest.approx(0.0275) and total["high_usd"] == pytest.approx(2.5025)
    assert "$0.03–$2.50" in bare("stats", "--all").out


def test_calls_are_counted_by_tool(bare: Shell) -> None:
    bare.put(*SMALL)
    assert bare("ingest").code == 0
    found = stats(bare, "--by", "tool")
    asked = "select tool_name, count(*), sum(coalesce(is_error, 0)) from tool_calls where not is_copy group by 1"
    rows = bare("sql", "--json", asked).json()
    expected = {tuple(each.values()) if isinstance(each, dict) else tuple(each) for each in rows.get("rows", rows)}
    assert {(each["tool"], each["calls"], each["failed_calls"]) for each in found["groups"]} == expected
    assert found["sums"]["calls"] == sum(each["calls"] for each in found["groups"]) > 0


def test_without_a_store_there_is_nothing_and_it_is_said(bare: Shell) -> None:
    done = bare("stats")
    assert (done.code, done.out) == (0, "") and "Nothing was imported yet" in done.err
    total = stats(bare)["sums"]
    assert (total["session_count"], total["turn_count"], total["tokens"]["output"], total["cost_usd"]) == (
        0,
        0,
        None,
        None,
    )
    assert bare("stats", "--line").out == "today 0 sessions · 0 turns\n"


def test_the_line_is_about_today_and_reads_no_logs(bare: Shell) -> None:
    from datetime import UTC, datetime

    now = datetime.now(UTC).isoformat()
    put(bare, *turn("t1", now))
    assert bare("ingest").code == 0
    assert bare("stats", "--line").out == "today 1 session · 1 turn · ~$0.03\n"
    put(bare, *turn("t2", now, session=SECOND), session=SECOND)
    assert bare("stats", "--line").out.startswith("today 1 session ")
    # What the other forms count they first import.
    assert stats(bare)["sums"]["session_count"] == 2
    assert bare("stats", "--line").out.startswith("today 2 sessions · 2 turns ")


@pytest.mark.parametrize("words", [["--json"], ["--by", "day"], ["--since", "monday"]], ids=lambda words: words[0])
def test_the_line_takes_nothing_that_is_not_of_today(bare: Shell, words: list[str]) -> None:
    done = bare("stats", "--line", *words)
    assert done.code == 2 and "--line is about today" in done.err


def test_only_this_projects_sessions_count_unless_all_are_asked_for(bare: Shell) -> None:
    put(bare, *turn("t1", "2026-05-01T10:00:00.000Z"))
    assert bare("ingest").code == 0
    assert bare("stats", "--json").json()["sums"]["session_count"] == 0
    assert stats(bare)["sums"]["session_count"] == 1


def test_a_pipe_gets_whole_numbers_and_no_bars(read_once: Shell) -> None:
    head, *lines = read_once("stats", "--all", "--by", "agent").out.splitlines()
    assert head.split() == [
        "AGENT", "SESSIONS", "TURNS", "INPUT", "OUTPUT", "CACHE", "READ", "CACHE", "WRITE", "TIME", "COST",
    ]  # fmt: skip
    assert not any("█" in line or "k " in line for line in lines)
    assert {line.split()[0] for line in lines} == {"claude", "codex", "Total"}


def test_a_terminal_gets_the_columns_and_bars_that_it_has_room_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = {"feat/a-very-long-name-of-a-branch-that-goes-on": 1.0, "main": 0.5, "empty": 0.0}
    tally = Tally()
    for number, (name, usd) in enumerate(groups.items()):
        group = tally.group(GroupKey(value=name))
        group.add_session(number)
        group.add_cost(Cost(kind=CostKind.EXACT, usd=usd, low_usd=usd, high_usd=usd))
        group.add_tokens(1_234_567, 89, None, None)
    shown = tuple(StatsGroup(key=key, figures=each.figures) for key, each in tally.groups.items())
    found = Stats(
        query=StatsQuery(wanted=SessionFilter(), by="branch"), total=tally.whole.figures, groups=shown,
        summaries=Group().figures, undated=0,
    )  # fmt: skip
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for width in (40, 80, 100, 160, 400):
        monkeypatch.setenv("COLUMNS", str(width))
        print_turns(found)
        head, first, second, third, total = click.unstyle(capsys.readouterr().out).splitlines()
        assert max(map(len, (head, first, second, third, total))) <= width
        bars = [line.count("█") for line in (first, second, third, total)]
        assert bars[0] >= 8 and bars[1] == bars[0] // 2 and bars[2:] == [0, 0]
        assert ("CACHE READ" in head) == (width >= 100) and ("1.2 M" in first) == (width >= 80)


def test_progress_is_shown_once_it_takes_long_and_only_to_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[int, int]] = []

    @contextmanager
    def progress(_what: str) -> Iterator[Callable[[int, int], None]]:
        yield lambda done, total: shown.append((done, total))

    now = iter([0.0, 0.1, 1.0, 0.0, 9.0])
    monkeypatch.setattr("backstory.cli.output.progress", progress)
    monkeypatch.setattr("backstory.cli.views.counting.time.monotonic", lambda: next(now))
    for is_watched in (True, False):
        monkeypatch.setattr("backstory.cli.output.is_watched", lambda is_watched=is_watched: is_watched)
        with counting("Counting") as report:
            report(1, 3)
            report(2, 3)
            report(3, 3)
    assert shown == [(2, 3), (3, 3)]


def test_a_count_that_could_not_be_kept_makes_sums_lower_bounds_and_is_no_zero(bare: Shell) -> None:
    lost = turn("t1", "2026-05-01T10:00:00.000Z")
    lost[1]["message"]["usage"] = {"input_tokens": 10**23, "output_tokens": -1}
    put(bare, *lost)
    assert bare("ingest").code == 0
    total = stats(bare)["sums"]
    assert (total["tokens"]["input"], total["tokens"]["output"]) == (None, None)
    assert (total["low_usd"], total["cost_kind"], total["turns_without_cost"]) == (None, "unknown", 1)
    assert "– in, – out" in bare("show", "-S", FIRST).out
    kinds = json.loads(bare("sql", "--json", "select tokens_kind, cost_kind from usage").out)
    assert list(kinds["rows"][0].values() if isinstance(kinds["rows"][0], dict) else kinds["rows"][0]) == [
        "partial", "unknown",
    ]  # fmt: skip
    put(bare, *turn("t2", "2026-05-02T10:00:00.000Z", session=SECOND), session=SECOND)
    assert bare("ingest").code == 0
    total = stats(bare)["sums"]
    assert (total["tokens"]["input"], total["turns_with_partial_tokens"]) == (500, 1)
    assert (total["cost_usd"], total["cost_kind"]) == (None, "lower bound")
    said = bare("stats", "--all")
    assert "Tokens are at least these: some of 1 turn are not known." in said.err
    assert "≥ 500" in said.out
    assert (
        bare("list", "--all", "--json").out.count('"cost_kind":"unknown"')
        + bare("list", "--all", "--json").out.count('"cost_kind": "unknown"')
        == 1
    )


def test_a_group_with_a_count_that_could_not_be_kept_is_a_lower_bound_and_another_is_not(bare: Shell) -> None:
    lost = turn("t1", "2026-05-01T10:00:00.000Z")
    lost[1]["message"]["usage"] = {"input_tokens": 10**23, "output_tokens": 7, "cache_read_input_tokens": 0}
    put(bare, *lost)
    put(bare, *turn("t2", "2026-05-02T10:00:00.000Z", session=SECOND), session=SECOND)
    assert bare("ingest").code == 0
    groups = stats(bare, "--by", "day")["groups"]
    assert [(each["day"], each["turns_with_partial_tokens"]) for each in groups] == [
        ("2026-05-01", 1), ("2026-05-02", 0),
    ]  # fmt: skip
    _, first, second, total = bare("stats", "--all", "--by", "day").out.splitlines()
    assert ("≥ 7" in first, "≥" in second, "≥ 500" in total, "≥ 1,007" in total) == (True, False, True, True)
    cost = json.loads(bare("chronicle", "cost", "--since", "2026-01-01", "--json").out)
    assert [each["turns_with_partial_tokens"] for each in (cost["sums"], *cost["by_day"])] == [1, 1, 0]


def test_a_list_says_of_which_turns_not_all_tokens_are_known_and_that_a_sum_is_at_least_the_rest(bare: Shell) -> None:
    lost, nothing = turn("t1", "2026-05-01T10:00:00.000Z"), turn("t3", "2026-05-01T11:00:00.000Z")
    lost[1]["message"]["usage"] = {"input_tokens": 10**23, "output_tokens": 7}
    nothing[1]["message"]["usage"] = dict.fromkeys(lost[1]["message"]["usage"], -1)
    put(bare, *turn("t2", "2026-05-01T09:00:00.000Z"), *lost, *nothing)
    put(bare, *turn("t4", "2026-05-02T10:00:00.000Z", session=SECOND), session=SECOND)
    assert bare("ingest").code == 0
    listed = bare("list", "--all", "--json").json()["sessions"]
    assert [each["turns_with_partial_tokens"] for each in listed] == [0, 2]
    assert bare("show", "-S", FIRST, "--json").json()["session"]["turns_with_partial_tokens"] == 2
    groups = stats(bare, "--by", "day")["groups"]
    assert [each["turns_with_partial_tokens"] for each in groups] == [2, 0]
    with Terminal([*COMMAND, "list", "--all", "--sort", "tokens"], bare.cwd, bare.environ, width=140) as terminal:
        shown = terminal.end()
    assert ("≥ 1,507 tokens" in shown, "≥ 1,500 tokens" in shown, "1,500 tokens" in shown) == (True, False, True)
    assert "≥ 1.5 k tokens" in bare("show", "-S", FIRST).out


def test_a_list_by_tokens_has_no_zero_where_none_is_known(bare: Shell) -> None:
    uncounted = turn("t1", "2026-05-01T10:00:00.000Z")
    del uncounted[1]["message"]["usage"]
    put(bare, *uncounted)
    assert bare("ingest").code == 0
    with Terminal([*COMMAND, "list", "--all", "--sort", "tokens"], bare.cwd, bare.environ, width=140) as terminal:
        shown = terminal.end()
    assert ("– tokens" in shown, "0 tokens" in shown) == (True, False)
