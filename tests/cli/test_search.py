"""``backstory search`` as people and scripts meet it, and the times they write."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from backstory import times
from backstory.cli.commands.search_command import NOTHING_FOUND
from backstory.errors import BadPattern, BadTime
from backstory.model import AssistantText, Event, ToolCall, ToolResult, UserMessage
from backstory.runs.process import MARKER
from backstory.runs.spool import SPOOLS, Run, Spool
from backstory.search.query import PATTERN_SECONDS_MAX, Findings, find, find_exact, find_pattern, words_of_pattern
from backstory.store import Filter, Store, open_store
from tests.support.every import every

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

CLICKS_USAGE, USAGE, NO_INPUT = 2, 64, 66
LONG = "\n".join(f"line {n}" for n in range(3_000))
BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 22, 15, 30, tzinfo=BERLIN)
"""A Sunday."""


def said(store: Store, *events: Event | str) -> int:
    session = store.create_session()
    store.append_events(session, [UserMessage(content=each) if isinstance(each, str) else each for each in events])
    return session.id


def ids(findings: Findings) -> list[int]:
    return [each.session.id for each in findings.excerpts]


def marked(findings: Findings) -> list[str]:
    return [each.snippet[a:b] for each in findings.excerpts for a, b in each.marks]


@pytest.fixture
def talks(bare: Shell) -> Shell:
    """A machine whose store holds a few sessions."""
    with open_store(bare.store, shared=True) as store:
        said(store, "why is the gasket worn?", AssistantText(text="the gasket is old"))
        said(store, "order a new gasket", ToolCall(tool_name="Bash", input={"command": "order gasket"}))
        said(store, "we use C++ here")
        said(store, "grade C work C C")
    return bare


# the spelling that was typed ----------------------------------------------------------------------------------


def test_what_was_typed_comes_before_its_words_alone(store: Store) -> None:
    said(store, "C C C")
    literal = said(store, "long words about a language that is called C++ by all who write it")
    findings = find(store, "C++", Filter(), limit=1)
    assert (ids(findings), marked(findings)) == ([literal], ["C++"])


def test_what_was_typed_is_known_from_the_bytes_too(store: Store) -> None:
    said(store, "C C C")
    literal = said(store, ToolResult(tool_name="Bash", content=f"{LONG}\nC++\n{LONG}"))
    findings = find(store, "C++", Filter(), limit=1)
    assert (ids(findings), marked(findings)) == ([literal], ["C++"])


def test_of_a_session_the_hit_as_typed_is_shown(store: Store) -> None:
    said(store, "C C C", AssistantText(text="in C++"))
    assert marked(find(store, "C++", Filter(), limit=5)) == ["C++"]


# exact --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("literal", "is_there"),
    [
        ("Foo.bar(x)", True), ("foo.bar(x)", False), ("Foo bar", False), ("Foo.bar( x)", False), ("x) + 1", True),
        (") + ", True), ("++", False), ("東京", True), ("京東", False), ('"quoted"', True), ("quoted", True),
    ],
)  # fmt: skip
def test_exact_is_to_the_letter(store: Store, literal: str, is_there: bool) -> None:
    said(store, 'call Foo.bar(x) + 1 in 東京 "quoted"')
    findings = find_exact(store, literal, Filter(), limit=5)
    assert marked(findings) == ([literal] if is_there else [])
    assert findings.near == 0


def test_exact_looks_into_what_the_compact_form_leaves_out(store: Store) -> None:
    said(store, ToolResult(tool_name="Bash", content=f"{LONG}\nFoo.bar\n{LONG}"))
    assert marked(find_exact(store, "Foo.bar", Filter(), limit=5)) == ["Foo.bar"]


# regular expressions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"gask?et", ["gasket"]), (r"\bgasket\b", ["gasket"]), (r"GASKET", []),
        (r"worn (gasket|washer)", ["worn gasket"]),
        (r"ask", ["ask"]), (r"^second", ["second"]), (r"\d{3}", ["123"]), (r"nowhere", []), (r"x*", []),
        (r"the worn gask", ["the worn gask"]), (r"(?i)GASKET", ["gasket"]), (r"line\s+123", ["line 123"]),
    ],
)  # fmt: skip
def test_a_pattern_finds_what_it_matches(store: Store, pattern: str, found: list[str]) -> None:
    said(store, "the worn gasket\nsecond line 123")
    assert marked(find_pattern(store, pattern, Filter(), limit=5)) == found


def test_a_pattern_reads_all_of_a_text(store: Store) -> None:
    said(store, ToolResult(tool_name="Bash", content=f"{LONG}\nneedle 77\n{LONG}"))
    assert marked(find_pattern(store, r"needle \d+", Filter(), limit=5)) == ["needle 77"]
    assert marked(find_pattern(store, r"eedl. \d+", Filter(), limit=5)) == ["eedle 77"]


def test_a_pattern_obeys_filters(store: Store) -> None:
    session = said(store, "gasket", AssistantText(text="gasket"))
    said(store, "gasket")
    for pattern in ("gas.et", r"\bgasket\b"):
        assert ids(find_pattern(store, pattern, Filter(session_id=session), limit=5)) == [session]
        assert ids(find_pattern(store, pattern, Filter(scopes=("answer",)), limit=5)) == [session]


@pytest.mark.parametrize("pattern", ["(", "[", "*", "(?P<", "a{5}{6}**", "\\"])
def test_a_pattern_that_is_none_is_told(store: Store, pattern: str) -> None:
    said(store, "gasket")
    with pytest.raises(BadPattern):
        find_pattern(store, pattern, Filter(), limit=5)


def test_a_pattern_that_never_ends_is_ended(store: Store) -> None:
    said(store, "a" * 60)
    started = time.process_time()
    findings = find_pattern(store, "(a+)+b", Filter(), limit=5, seconds=0.2)
    assert (findings.stopped, findings.truncated, findings.excerpts) == (True, True, [])
    assert time.process_time() - started < PATTERN_SECONDS_MAX


@every(
    ("pattern", "words"),
    [
        ("rate limit", "limit*"), (r"\brate limit\b", "rate limit"), ("rate", ""), ("a|b", ""),
        (r"foo\.bar\.baz", "bar baz*"),
        (r"(?:get) user (now)?", "user"), (r"x?login y", ""), (r"\bab", ""), ("東京", "東 京"), (r"^def \w+", "def"),
        (r"\b(rate) of", "rate"), (r"[ab] cde f", "cde"),
        (r"a(?=b) c", ""), ("(?i:Rate) x", ""), (r"\bé tude", "tude*"),
        ("(", ""),
    ],
)  # fmt: skip
def test_only_words_that_every_match_has_are_looked_up(pattern: str, words: str) -> None:
    assert words_of_pattern(pattern) == words


# the command --------------------------------------------------------------------------------------------------


def hits(shell: Shell, *args: str, **environ: str) -> list[str]:
    done = shell("search", "--json", *args, **environ)
    found = done.json()["hits"]
    assert done.code == (0 if found else NOTHING_FOUND), done.err
    return [hit["number"] for hit in found]


def test_json_says_where_each_match_stands(talks: Shell) -> None:
    hit = talks("search", "worn", "--json").json()["hits"][0]
    (start, end) = hit["marks"][0]
    assert hit["snippet"][start:end] == "worn"
    assert {"kind", "part", "number", "name", "title", "branch", "repository", "parent_uid"} <= set(hit)
    assert (hit["number"], hit["kind"], hit["parent_uid"]) == ("S1", "UserMessage", None)


def test_without_a_terminal_nothing_is_coloured(talks: Shell) -> None:
    assert "\x1b" not in talks("search", "gasket").out


def test_all_hits_are_shown_when_asked_for(talks: Shell) -> None:
    assert sorted(hits(talks, "gasket")) == ["S1", "S2"]
    assert sorted(hits(talks, "gasket", "--all-hits")) == ["S1", "S1", "S2", "S2"]


@pytest.mark.parametrize(
    ("option", "sessions"),
    [
        (("--role", "assistant"), ["S1"]), (("--scope", "tool_input"), ["S2"]), (("--tool", "bash"), ["S2"]),
        (("--session", "S1"), ["S1"]), (("--not", "S1"), ["S2"]), (("--not", "S1", "--not", "S2"), []),
        (("--since", "yesterday", "--until", "today"), ["S1", "S2"]), (("--until", "last year"), []),
        (("--branch", "main"), []), (("--repo", "acme/pump"), []), (("--path", "x.py"), []), (("--ref", "#12"), []),
        (("--role", "user", "--scope", "tool_input"), []), (("--exact",), ["S1", "S2"]), (("--regex",), ["S1", "S2"]),
    ],
)  # fmt: skip
def test_each_filter(talks: Shell, option: tuple[str, ...], sessions: list[str]) -> None:
    assert sorted(hits(talks, "gasket", *option)) == sessions


def test_a_session_that_is_not_there_cannot_be_left_out(talks: Shell) -> None:
    assert talks("search", "gasket", "--not", "S99").code == NO_INPUT


@pytest.mark.parametrize(
    "options", [("--role", "nobody"), ("--exact", "--regex"), ("--until", "soon"), ("--regex", "--", "(")]
)
def test_a_mistake_is_told_in_a_line(talks: Shell, options: tuple[str, ...]) -> None:
    done = talks("search", "x", *options)
    assert (done.code in (CLICKS_USAGE, USAGE), done.out, "Traceback" in done.err) == (True, "", False)


def test_a_run_does_not_find_itself(talks: Shell) -> None:
    with open_store(talks.store, shared=True) as store:
        uid = store.session("S1").uid
    spools = talks.home / "backstory" / SPOOLS
    spools.mkdir()
    run = Run(turn_uid="T1", session_uid=uid, store="x", agent="x", prompt="x", cwd="/", started=0)
    Spool.begin(spools, run, "x")
    assert hits(talks, "gasket", **{MARKER: "T1"}) == ["S2"]
    assert hits(talks, "gasket", "--session", "S1", **{MARKER: "T1"}) == ["S1"]


@pytest.mark.parametrize("marker", ["T2", "../../etc", "", "é"])
def test_a_marker_of_no_run_is_no_trouble(talks: Shell, marker: str) -> None:
    assert len(hits(talks, "gasket", **{MARKER: marker})) == 2


def test_the_command_knows_the_marker_of_runs() -> None:
    from backstory.cli.commands import search_command

    assert search_command.MARKER == MARKER


def test_what_has_only_some_words_is_told_as_such(talks: Shell) -> None:
    done = talks("search", "gasket", "xyzzy")
    assert "why is the gasket worn?" in done.out
    assert "has all of these words" in done.err
    assert talks("search", "gasket", "xyzzy", "--json").json()["relaxed"] is True


def test_a_helpers_hit_names_the_session_that_called_it(talks: Shell, store_helper: None) -> None:
    done = talks("search", "old gasket")
    parent = talks("show", "S2", "--json").json()["session"]["uid"]
    assert f"subagent of {parent[:12]}" in done.out


@pytest.fixture
def store_helper(talks: Shell) -> None:
    import apsw

    db = apsw.Connection(str(talks.store))
    db.execute("update sessions set parent_id = 2, relation = 'subagent' where id = 1")
    db.close()


# what is shown ------------------------------------------------------------------------------------------------


def test_every_hit_has_a_title_or_how_its_session_begins(talks: Shell) -> None:
    titles = {hit["number"]: hit["title"] for hit in talks("search", "gasket", "--json").json()["hits"]}
    assert titles == {"S1": "why is the gasket worn?", "S2": "order a new gasket"}
    head, hit, *_ = talks("search", "order").out.splitlines()
    assert "  order a new gasket  " in head
    assert hit.startswith("   @1  prompt  order a new gasket")


def test_sessions_and_hits_are_counted_by_their_names(talks: Shell) -> None:
    assert talks("search", "gasket", "--json").json()["totals"] == {
        "session_count": 2, "hit_count": 4, "near_sessions": 0, "at_least": False,
    }  # fmt: skip
    assert talks("search", "gasket", "-n", "1").err == "1 of 2 sessions (4 hits) · more: --limit 4\n"


def test_what_fits_nearly_is_marked_and_can_be_left_out(talks: Shell) -> None:
    (hit,) = talks("search", "gaskets", "worn", "--json").json()["hits"]
    assert (hit["number"], hit["near"]) == ("S1", True)
    done = talks("search", "gaskets", "worn")
    assert "near" in done.out.splitlines()[0]
    assert done.err == "no exact match; 1 similar session (marked near)\n"
    assert talks("search", "gaskets", "worn", "--no-near").code == NOTHING_FOUND


def test_a_near_hit_names_the_words_that_it_has(talks: Shell) -> None:
    done = talks("search", "order", "zeppelin")
    assert done.out.splitlines()[0].endswith("near: order")
    hits = talks("search", "order", "zeppelin", "--json").json()["hits"]
    assert {(each["near"], *each["words"]) for each in hits} == {(True, "order")}
    assert talks("search", "order", "--json").json()["hits"][0]["words"] == []


def test_with_signs_in_a_query_too_another_form_in_a_prompt_comes_before_what_tools_printed(store: Store) -> None:
    printed = [said(store, ToolResult(tool_name="Bash", content="gate.py has errors")) for _ in range(3)]
    asked = said(store, "the error in gate.py")
    assert ids(find(store, "gate.py errors", Filter(), limit=9)) == [asked, *printed]


def test_the_sessions_of_hits_are_read_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [said(store, "a gasket") for _ in range(3)]
    monkeypatch.delattr(Store, "session")
    assert sorted(ids(find(store, "gasket", Filter(), limit=9))) == asked


def test_what_is_near_is_not_counted_as_what_has_the_words(talks: Shell) -> None:
    with open_store(talks.store, shared=True) as store:
        for _ in range(3):
            said(store, ToolResult(tool_name="Bash", content="washers"))
        said(store, "look for the washer")
    done = talks("search", "washers", "-n", "2")
    assert "washer" in done.out.splitlines()[1]
    assert done.err == "1 of 3 sessions (3 hits) · 1 similar session (marked near) · more: --limit 8\n"


def test_a_word_that_was_exchanged_is_told(talks: Shell) -> None:
    assert talks("search", "gakset").err.splitlines()[0] == "Nothing has 'gakset'; searched for 'gasket'."
    assert talks("search", "orde", "--json").json()["instead"] == {"orde": "orde*"}
    assert marked_in(talks("search", "orde", "--json").json()) == ["order"]


def marked_in(told: Any) -> list[str]:
    return [hit["snippet"][start:end] for hit in told["hits"] for start, end in hit["marks"]]


def test_without_words_a_filter_lists_sessions(talks: Shell) -> None:
    with open_store(talks.store, shared=True) as store:
        said(store, "look", AssistantText(text="fixed in PR #92, and ENT-221"))
    for ref in ("#92", "ent-221"):
        (hit,) = talks("search", "--ref", ref, "--json").json()["hits"]
        assert (hit["number"], hit["seq"], hit["title"]) == ("S5", 2, "look")
    assert talks("search", "--ref", "#93").code == NOTHING_FOUND
    assert talks("search").code == CLICKS_USAGE


def test_an_excerpt_of_json_is_text(store: Store) -> None:
    said(store, ToolResult(tool_name="Bash", content='{"content": "KV with TTL\\n- CSRF \\"protection\\" here"}'))
    (excerpt,) = find(store, "TTL", Filter(), limit=1).excerpts
    assert 'KV with TTL - CSRF "protection" here' in excerpt.snippet


def test_the_words_of_a_search_are_marked_in_the_record(talks: Shell) -> None:
    long = "\n".join(f"line {n}" for n in range(300))
    call = ToolCall(tool_name="Bash", tool_use_id="t1", input={"command": "cat x"})
    with open_store(talks.store, shared=True) as store:
        said(
            store, "first", "second", "third", call,
            ToolResult(tool_name="Bash", tool_use_id="t1", content=f"{long}\nthe flange\n{long}"),
            "fourth", "fifth", "sixth",
        )  # fmt: skip
    lines = talks("show", "S5", "@5", "--find", "flange").out.splitlines()
    assert lines[0] == "first"
    assert "@5 · turn 3 · result of Bash (cat x)" in lines[1]
    assert [line[:2] for line in lines if line.startswith("@")] == ["@3", "@4", "@5", "@6", "@7"]
    at = lines.index("       > the flange")
    assert "line 299" in lines[at - 1]
    assert any("--full shows all" in line for line in lines)
    assert len(lines) < 50
    assert len(talks("show", "S5", "@5", "--full").out.splitlines()) > 600


# times --------------------------------------------------------------------------------------------------------


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> int:
    return round(datetime(year, month, day, hour, minute, tzinfo=BERLIN).timestamp() * 1000)


@every(
    ("text", "begin", "end"),
    [
        ("today", at(2026, 11, 22), at(2026, 11, 23)),
        ("Yesterday", at(2026, 11, 21), at(2026, 11, 22)),
        ("day before yesterday", at(2026, 11, 20), at(2026, 11, 21)),
        ("monday", at(2026, 11, 16), at(2026, 11, 17)),
        ("sunday", at(2026, 11, 15), at(2026, 11, 16)),
        ("last fri", at(2026, 11, 20), at(2026, 11, 21)),
        ("this week", at(2026, 11, 16), at(2026, 11, 23)),
        ("last week", at(2026, 11, 9), at(2026, 11, 16)),
        ("last month", at(2026, 10, 1), at(2026, 11, 1)),
        ("this year", at(2026, 1, 1), at(2027, 1, 1)),
        ("2026-11-03", at(2026, 11, 3), at(2026, 11, 4)),
        ("2026-02", at(2026, 2, 1), at(2026, 3, 1)),
        ("2025", at(2025, 1, 1), at(2026, 1, 1)),
        ("nov 3", at(2026, 11, 3), at(2026, 11, 4)),
        ("3rd of December", at(2025, 12, 3), at(2025, 12, 4)),
        ("february 2025", at(2025, 2, 1), at(2025, 3, 1)),
        ("workday", at(2026, 11, 20), at(2026, 11, 21)),
    ],
)
def test_days_and_longer_have_a_beginning_and_an_end(text: str, begin: int, end: int) -> None:
    assert (times.since(text, NOW), times.until(text, NOW)) == (begin, end)


@pytest.mark.parametrize(("today", "workday"), [(23, 20), (24, 23), (27, 26), (28, 27), (29, 27)])
def test_the_last_workday_is_before_today_and_of_no_weekend(today: int, workday: int) -> None:
    assert times.since("workday", NOW.replace(day=today)) == at(2026, 11, workday)


@every(
    ("text", "moment"),
    [
        ("now", at(2026, 11, 22, 15, 30)), ("2h", at(2026, 11, 22, 13, 30)), ("90 min ago", at(2026, 11, 22, 14)),
        ("3 days", at(2026, 11, 19, 15, 30)), ("two weeks ago", at(2026, 11, 8, 15, 30)),
        ("last 3 days", at(2026, 11, 19, 15, 30)), ("an hour ago", at(2026, 11, 22, 14, 30)),
        ("1h30m", at(2026, 11, 22, 14)), ("1 day and 2 hours", at(2026, 11, 21, 13, 30)),
        ("9:15", at(2026, 11, 22, 9, 15)),
        ("18:00", at(2026, 11, 21, 18)), ("yesterday 9am", at(2026, 11, 21, 9)),
        ("monday at 14:05", at(2026, 11, 16, 14, 5)),
        ("2026-11-21T14:00", at(2026, 11, 21, 14)), ("2026-11-21 14:00", at(2026, 11, 21, 14)),
        ("2026-11-21T14:00Z", at(2026, 11, 21, 15)), ("2 months", at(2026, 9, 22, 15, 30)),
        ("noon", at(2026, 11, 22, 12)),
        ("12am", at(2026, 11, 22)), ("1 year ago", at(2025, 11, 22, 15, 30)),
    ],
)  # fmt: skip
def test_a_moment_begins_and_ends_at_once(text: str, moment: int) -> None:
    assert times.since(text, NOW) == times.until(text, NOW) == moment


@every(
    "text",
    [
        "soon", "", " ", "13pm", "25:00", "feb 30", "2026-13", "2026-02-30", "0000",
        "99999999999999999999 days", "-1 days",
        "3", "3 parsecs", "9999-12-31", "yesterday yesterday", "9" * 5_000, "\0", "é", "last", "ago", "9999999 years",
    ],
)  # fmt: skip
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(BadTime):
        times.since(text, NOW)


def test_a_month_ago_is_the_last_day_of_a_shorter_month() -> None:
    assert times.since("1 month", datetime(2026, 3, 31, tzinfo=BERLIN)) == at(2026, 2, 28)


def test_a_day_is_the_days_of_the_clock_on_the_wall() -> None:
    """The clocks went back on 25 October 2026, so that this day had 25 hours."""
    after = datetime(2026, 10, 26, 12, tzinfo=BERLIN)
    begin, end = times.since("yesterday", after), times.until("yesterday", after)
    assert end - begin == 25 * 3600 * 1000
    assert times.since("24h", after) == times.since("1 day", after)
    assert times.since("48h", after) == times.since("2 days", after) + 3600 * 1000


def test_without_a_zone_a_time_is_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert times.since("yesterday", NOW.replace(tzinfo=None)) == at(2026, 11, 21)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_zone_is_that_of_the_clock() -> None:
    utc = datetime(2026, 11, 22, 15, tzinfo=UTC)
    assert times.since("today", utc) == at(2026, 11, 22, 1)


def test_a_person_searches_in_their_own_zone(talks: Shell) -> None:
    an_hour_ago = datetime.now(ZoneInfo("Asia/Tokyo")).replace(tzinfo=None) - timedelta(hours=1)
    since = an_hour_ago.isoformat(timespec="minutes")
    assert hits(talks, "gasket", "--since", since, TZ="Asia/Tokyo") != []
    assert hits(talks, "gasket", "--since", since, TZ="UTC") == []
