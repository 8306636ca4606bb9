"""Every command, in a real process: its data, its talk, its exit code."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backstory import __version__, errors
from backstory.cli import ALIASES, COMMANDS
from backstory.cli.commands.search_command import NOTHING_FOUND
from backstory.cli.views.call_view import SHOWN_CHARS_MAX
from backstory.config import SETTINGS
from backstory.search.query import find
from backstory.store import Filter, open_store
from tests.support import shell as shells
from tests.support.counts import examples
from tests.support.machines import ORIGINAL_ID, PARENT_ID, SMALL, case, claude_line, claude_log, lines, place, sha256

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

ENDS_S = 120
LIST_FIELDS = (
    "number", "uid", "label", "name", "agents", "project", "branch", "created", "last_active", "turn_count",
    "event_count", "completed", "duration_ms", "cost_usd",
)  # fmt: skip
TURN_FIELDS = (
    "turn", "turn_uid", "seq", "agent", "model", "prompt", "started", "ended", "outcome", "tokens", "cost_usd",
    "cost_source",
)  # fmt: skip
TOKEN_FIELDS = ("input", "output", "cache_read", "cache_write", "reasoning")
EVENT_FIELDS = ("seq", "part", "turn", "kind", "at")
INGEST_FIELDS = (
    "logs_seen", "logs_read", "bytes_read", "sessions_new", "sessions_updated", "events_new", "unknown_records",
    "by_agent", "errors",
)  # fmt: skip
HIT_FIELDS = ("label", "uid", "agents", "project", "at", "seq", "scope", "snippet", "score")
RESTORE_FIELDS = ("uid", "label", "original", "path", "bytes", "sha256")
USAGE, NO_INPUT, DAMAGED, CANNOT_CREATE, BUSY, TOO_NEW, NO_PERMISSION, BAD_CONFIG = 64, 66, 65, 73, 75, 76, 77, 78


def has(found: dict[str, Any], fields: tuple[str, ...]) -> bool:
    return set(fields) <= set(found)


def figures_of(report: dict[str, Any], agent: str) -> dict[str, Any]:
    (figures,) = (each for each in report["by_agent"] if each["agent"] == agent)
    return dict(figures)


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# what the commands give -----------------------------------------------------------------------------------------


def test_ingest_gives_its_figures(bare: Shell) -> None:
    bare.put(*SMALL)
    told = bare("ingest", "--json").json()
    assert has(told, INGEST_FIELDS)
    assert (told["logs_seen"], told["logs_read"], told["errors"]) == (len(SMALL), len(SMALL), [])
    assert told["bytes_read"] == sum(len(case(name)) for name in SMALL)
    assert (told["sessions_new"], figures_of(told, "codex")["logs_read"]) == (len(SMALL), 6)
    again = bare("ingest", "--json").json()
    assert (again["logs_seen"], again["logs_read"], again["bytes_read"], again["events_new"]) == (len(SMALL), 0, 0, 0)


def test_ingest_lists_what_it_could_not_read_and_goes_through(bare: Shell) -> None:
    bare.put("claude/tools")
    (bare.home / claude_log("odd")).with_suffix(".jsonl.zst").write_bytes(b"\x7fELF\0\0")
    done = bare("ingest", "--json")
    assert done.code == 0
    (problem,) = done.json()["errors"]
    assert (Path(problem["path"]).name, set(problem)) == ("odd.jsonl.zst", {"path", "reason"})
    assert problem["reason"] == "its compressed content goes on with something else"
    assert done.json()["logs_read"] == 1


def test_what_nobody_understands_is_counted_listed_when_asked_for_and_given_back(bare: Shell) -> None:
    bare.put("claude/tools")
    odd = bare.home / claude_log("odd")
    odd.write_bytes(b"\x7fELF\0\0\n" * 3)
    first = bare("ingest")
    assert "Kept, but not understood, or not whole: 1 file; --explain says which and why." in first.err
    told = bare("ingest", "--json", "--explain").json()
    assert told["not_understood"] == [{"path": str(odd), "reason": "no record of this agent is in its beginning"}]
    assert any(str(odd) in line for line in told["explained"])
    assert "odd.jsonl" not in bare("list", "--all").out
    (listed,) = [
        each for each in bare("list", "--all", "--unread", "--json").json()["sessions"] if each["relation"] == "unread"
    ]
    assert (listed["title"], listed["turn_count"], listed["event_count"]) == ("odd.jsonl, not understood", 0, 3)
    assert "not understood" in bare("show", listed["uid"]).out
    assert bare("restore", "--all", "--to", "out").code == 0
    (restored,) = (bare.cwd / "out").rglob("odd.jsonl")
    assert restored.read_bytes() == odd.read_bytes()


def test_show_prints_the_beginning_of_a_long_text_and_how_much_is_left(bare: Shell) -> None:
    path = bare.home / claude_log("long")
    path.parent.mkdir(parents=True)
    text = "word " * 10_000
    path.write_bytes(lines(claude_line("user", "a", "hi"), claude_line("assistant", "b", text)))
    bare("ingest")
    shown = bare("show", "long")
    assert len(shown.out) < SHOWN_CHARS_MAX + 1_000
    assert f"(+{len(text) - SHOWN_CHARS_MAX:,} more characters; --full shows them)" in shown.out
    assert bare("show", "long", "--full").out.count("word") == 10_000


def test_ingest_counts_types_it_does_not_know(bare: Shell) -> None:
    path = bare.home / claude_log("new")
    path.parent.mkdir(parents=True)
    path.write_bytes(lines(claude_line("user", "a", "hi"), claude_line("novelty", "b"), claude_line("novelty", "c")))
    assert bare("ingest", "--json").json()["unknown_records"] == {"novelty": 2}
    path.write_bytes(path.read_bytes() + lines(claude_line("novelty", "d")))
    done = bare("ingest")
    assert "novelty (1)" in done.err


def test_ingest_of_one_agent_leaves_the_others(bare: Shell) -> None:
    bare.put(*SMALL)
    assert [each["agent"] for each in bare("ingest", "--agent", "codex", "--json").json()["by_agent"]] == ["codex"]


def test_ingest_explains_what_gave_nothing(bare: Shell) -> None:
    bare.put("claude/tools")
    (bare.home / claude_log("empty")).write_bytes(b"")
    done = bare("ingest", "--explain")
    assert "it is empty" in done.out
    assert str(bare.home / ".codex/sessions") in done.out
    assert "it does not exist" in done.out
    assert "explained" in bare("ingest", "--explain", "--json").json()


@pytest.mark.parametrize(
    ("place", "content", "why"),
    [
        (".claude/projects/p/a.jsonl", "", "it is empty (1)"),
        (".claude/projects/p/a.jsonl", "no JSON\n", "no record of this agent is in its beginning (1)"),
        (".gemini/tmp/x/chats/session-a.jsonl", '{"sessionId": "a", "projectHash": "x", "kind": "main"}\n',
         "nothing of a conversation is in it (1)"),
    ],
    ids=["empty", "not understood", "no prompt"],
)  # fmt: skip
def test_a_place_whose_logs_give_no_session_says_why_each_time(bare: Shell, place: str, content: str, why: str) -> None:
    log = bare.home / place
    log.parent.mkdir(parents=True)
    log.write_text(content, "utf-8")
    told = [bare("ingest").err for _ in range(2)]
    assert all(f"1 log: {why}" in each and "No session of" in each for each in told), told
    assert "No session" not in bare("ingest", "--json").err


def test_a_place_without_session_is_named_beside_those_with_some_when_it_was_read(bare: Shell) -> None:
    bare.put("claude/tools")
    log = bare.home / ".pi" / "agent" / "sessions" / "p" / "a.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("no JSON\n", "utf-8")
    first = bare("ingest").err
    assert "No session of pi: " in first
    assert "No session of claude" not in first
    assert "No session" not in bare("ingest").err


def test_a_place_that_holds_other_files_says_so(bare: Shell) -> None:
    (bare.home / ".codex" / "sessions").mkdir(parents=True)
    assert ".codex/sessions: it holds no logs" in bare("ingest").err
    (bare.home / ".codex" / "sessions" / "notes.txt").write_text("x", "utf-8")
    assert ".codex/sessions: it holds files, but no logs" in bare("ingest").err


def test_a_database_without_sessions_is_named_where_no_logs_are(bare: Shell) -> None:
    database = bare.home / ".local" / "share" / "opencode" / "opencode.db"
    database.parent.mkdir(parents=True)
    with contextlib.closing(apsw.Connection(str(database))) as db:
        for table in ("session(id, directory, parent_id)", "message(id, session_id, time_created, data)",
                      "part(id, message_id, session_id, data)"):  # fmt: skip
            db.execute(f"create table {table}")
    assert f"opencode: {database}: it holds no sessions" in bare("ingest").err
    database.write_bytes(b"no database")
    told = bare("ingest").err
    assert "it holds no sessions" not in told
    assert f"Not read: {database}" in told


def test_ingest_without_any_logs_says_where_it_looked(bare: Shell) -> None:
    done = bare("ingest")
    assert done.code == 0
    assert str(bare.home / ".claude/projects") in done.err
    assert not bare.store.exists()


def test_ingest_without_any_logs_says_what_to_do_and_list_does_not_send_one_back(bare: Shell) -> None:
    assert "backstory run PROMPT" in bare("ingest").err
    assert "backstory run PROMPT" in bare("list").err


def test_ingest_names_the_agents_that_are_not_read(bare: Shell) -> None:
    log = bare.home / ".qwen" / "projects" / "-w" / "chats" / "1.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("{}\n")
    assert "Also here, not read by this version: qwen (1)\n" in bare("ingest").err
    assert bare("ingest", "--json").json()["not_read"] == {"qwen": 1}
    assert "not read by this version" not in bare("ingest", "-a", "codex").err
    log.unlink()
    assert "not read by this version" not in bare("ingest").err


def test_what_ingest_and_reindex_count_is_what_list_shows(bare: Shell) -> None:
    bare.put(*SMALL)
    listed = len(SMALL) - 2
    assert re.search(r"^Read \d+ logs .*: ([a-z]+ \d+(, )?)+ sessions\.$", out := bare("ingest").out.strip())
    assert sum(int(count) for count in re.findall(r"[a-z]+ (\d+)(?=[, ])", out.rpartition(":")[2])) == listed
    assert bare("ingest").out == f"Up to date: {listed} sessions.\n"
    assert f"complete: {listed} sessions, " in bare("reindex").out
    turns = bare("stats", "--all", "--json").json()["sums"]["turn_count"]
    assert bare("reindex", "--json").json()["counts"]["turns"] == turns
    assert f"{listed} in other projects: --all" in bare("list").err
    assert len(bare("list", "--all", "-n", "0").out.splitlines()) == listed


def test_what_goes_to_a_pipe_is_whole_and_a_terminal_gets_what_fits(bare: Shell) -> None:
    prompt = "please rename the telemetry switch everywhere, also in the documentation of the command line"
    path = bare.home / claude_log("long")
    path.parent.mkdir(parents=True)
    path.write_bytes(lines(claude_line("user", "a", prompt)))
    bare("ingest")
    assert prompt in bare("list", "--all", COLUMNS="60").out
    screen = on_a_terminal(bare, "list", "--all", COLUMNS="80", NO_COLOR="1").decode().splitlines()
    row = next(line for line in screen if "please" in line)
    assert max(map(len, screen)) <= 80
    assert len(row[row.index("please") : row.index("…")]) >= 25


def test_list_gives_its_fields(read_once: Shell) -> None:
    found = read_once("list", "--all", "--json").json()["sessions"]
    assert all(has(each, LIST_FIELDS) for each in found)
    assert len(found) == len(SMALL) - 2
    assert all(each["number"] is None for each in found)
    assert [each["last_active"] for each in found] == sorted((each["last_active"] for each in found), reverse=True)
    assert all(each["last_active"].endswith("Z") and isinstance(each["agents"], list) for each in found)


def test_list_with_helpers_gives_all(read_once: Shell) -> None:
    assert len(read_once("list", "--all", "--helpers", "--json").json()["sessions"]) == len(SMALL)


def test_list_of_an_agent_and_of_a_few(read_once: Shell) -> None:
    found = read_once("list", "--all", "--agent", "codex", "--json").json()["sessions"]
    assert {tuple(each["agents"]) for each in found} == {("codex",)}
    assert len(read_once("list", "--all", "-n", "2", "--json").json()["sessions"]) == 2
    done = read_once("list", "--all", "--limit", "2")
    assert len(done.out.splitlines()) == 2
    assert done.err == "2 of 10 sessions; all: --limit 0\n"


def test_the_earlier_name_of_a_limit_works_and_says_so_but_where_installed_skills_have_it(read_once: Shell) -> None:
    for words in (("list", "--all"), ("report", "search", "the"), ("sql", "select 1 union select 2")):
        earlier, now = read_once(*words, "-n", "1"), read_once(*words, "--limit", "1")
        assert (earlier.code, earlier.out) == (now.code, now.out)
        assert earlier.err.partition("\n")[0].startswith("-n 1 is called --limit 1 now")
        assert earlier.err.partition("\n")[2] == now.err
    assert read_once("search", "the", "-n", "1").err == read_once("search", "the", "--limit", "1").err


QUESTIONS = {
    ("list", "--json"): "--here", ("stats", "--json"): "--here", ("search", "the", "--json"): "--all",
    ("report", "standup", "--since", "2020", "--json"): "--all", ("report", "search", "the", "--json"): "--all",
    ("report", "cost", "--since", "2020", "--json"): "--all",
}  # fmt: skip


@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
def test_every_question_has_both_scopes_and_one_is_the_default(read_once: Shell, words: tuple[str, ...]) -> None:
    default = QUESTIONS[words]
    (other,) = {"--all", "--here"} - {default}
    assert read_once(*words, TZ="UTC").out == read_once(*words, default, TZ="UTC").out
    assert read_once(*words, TZ="UTC").out != read_once(*words, other, TZ="UTC").out
    assert read_once(*words, "--all", "--here").code == 2


def test_list_here_is_this_projects_and_says_that_there_are_more(read_once: Shell) -> None:
    done = read_once("list")
    assert (done.code, done.out) == (0, "")
    assert "in other projects: --all" in done.err
    assert "in other projects: backstory list --all" in read_once().err
    assert read_once("list", "--json").json()["sessions"] == []


def test_list_here_finds_the_sessions_of_the_folder(bare: Shell) -> None:
    path = bare.home / claude_log("mine")
    path.parent.mkdir(parents=True)
    path.write_bytes(lines(claude_line("user", "a", "hi", cwd=str(bare.cwd)), claude_line("user", "b", "ho", cwd="/x")))
    bare.put("claude/tools")
    bare("ingest")
    (found,) = bare("list", "--json").json()["sessions"]
    assert (found["turn_count"], found["project"]) == (2, str(bare.cwd))


def test_list_before_anything_was_read_says_what_to_do(bare: Shell) -> None:
    done = bare("list", "--all")
    assert (done.code, done.out) == (0, "")
    assert "backstory ingest" in done.err
    assert bare("list", "--json").json()["sessions"] == []
    assert not bare.store.parent.exists()


def test_show_gives_its_fields(read_once: Shell) -> None:
    told = read_once("show", ORIGINAL_ID, "--json").json()
    assert has(told["session"], LIST_FIELDS)
    assert [turn["turn"] for turn in told["turns"]] == [1, 2]
    assert all(has(turn, TURN_FIELDS) and has(turn["tokens"], TOKEN_FIELDS) for turn in told["turns"])
    assert all(has(event, EVENT_FIELDS) for event in told["events"])
    assert {event["turn"] for event in told["events"]} <= {None, 1, 2}
    keys = [(event["seq"], event["part"]) for event in told["events"]]
    assert keys == sorted(set(keys))


def test_show_of_a_session_takes_what_people_call_it(read_once: Shell) -> None:
    uid = read_once("show", ORIGINAL_ID, "--json").json()["session"]["uid"]
    for wanted in (uid, uid.lower(), uid[:14]):
        assert read_once("show", wanted, "--json").json()["session"]["uid"] == uid


def test_show_in_words_and_in_full(read_once: Shell) -> None:
    done = read_once("show", ORIGINAL_ID)
    assert done.code == 0
    assert "Do the work." in done.out
    full = read_once("show", ORIGINAL_ID, "--full")
    assert len(full.out) > len(done.out)


def test_show_of_one_turn(read_once: Shell) -> None:
    told = read_once("show", ORIGINAL_ID, "--turn", "2", "--json").json()
    assert [turn["turn"] for turn in told["turns"]] == [2]
    assert {event["turn"] for event in told["events"]} == {2}


def test_a_session_that_is_not_there_is_an_error_of_its_own(read_once: Shell) -> None:
    done = read_once("show", "nonesuch")
    assert (done.code, done.out) == (NO_INPUT, "")
    assert "'nonesuch'" in done.err


def test_an_ambiguous_session_lists_the_candidates(read_once: Shell) -> None:
    done = read_once("show", "01M7Z")
    assert (done.code, done.out) == (USAGE, "")
    assert done.err.count("01M7Z") > 3


def error_of(shell: Shell, *words: str) -> dict[str, Any]:
    """The error of a command that was asked for JSON."""
    done = shell(*words)
    error: dict[str, Any] = json.loads(done.err.splitlines()[-1])["error"]
    assert (done.code, list(error)) == (error["code"], ["kind", "message", "code", "candidates", "next"])
    return error


def test_an_error_is_json_where_the_answer_would_be(read_once: Shell) -> None:
    error = error_of(read_once, "show", "nonesuch", "--json")
    assert (error["kind"], error["code"], error["next"]) == ("session_not_found", NO_INPUT, ["backstory list --all"])
    assert error["message"] == read_once("show", "nonesuch").err.removeprefix("backstory: ").rstrip()


def test_each_candidate_of_an_ambiguous_session_is_one_that_a_command_takes(read_once: Shell) -> None:
    candidates = error_of(read_once, "show", "01M7Z", "--json")["candidates"]
    assert len(candidates) > 3
    assert read_once("show", candidates[0], "--json").json()["session"]["uid"].startswith(candidates[0])


def test_a_command_line_that_is_wrong_is_json_too(read_once: Shell) -> None:
    error = error_of(read_once, "show", "--json", "--nonesuch")
    assert (error["kind"], error["code"]) == ("usage", 2)
    assert error["next"][0].endswith("backstory show --help")


@pytest.mark.parametrize("words", [("show", "--", "--json"), ("show", "-S", "--json")], ids=["argument", "value"])
def test_a_word_that_only_looks_like_the_option_asks_for_no_json(read_once: Shell, words: tuple[str, ...]) -> None:
    assert read_once(*words).err.startswith("backstory: No session matches '--json'")


@pytest.mark.parametrize("words", [("-n", "3", "--limit", "1"), ("--limit", "3", "-n", "1")], ids=["limit", "n"])
def test_of_both_names_of_a_limit_the_last_one_counts(read_once: Shell, words: tuple[str, ...]) -> None:
    assert len(read_once("list", "--all", "--json", *words).json()["sessions"]) == 1


def test_search_gives_its_fields(read_once: Shell) -> None:
    told = read_once("search", "beta", "--json").json()
    assert has(told, ("query", "total", "truncated", "hits"))
    assert (told["query"], bool(told["hits"])) == ("beta", True)
    assert all(has(hit, HIT_FIELDS) for hit in told["hits"])
    assert "beta" in told["hits"][0]["snippet"]


def test_search_has_one_hit_a_session_and_one_for_copies(read_once: Shell) -> None:
    told = read_once("search", '"notes.txt now says beta"', "--agent", "claude", "--json").json()
    uids = [hit["uid"] for hit in told["hits"]]
    assert len(uids) == len(set(uids)) == told["totals"]["session_count"]
    assert [hit["copy"] for hit in told["hits"]] == [False, *[True] * (len(uids) - 1)]
    every = read_once("search", '"notes.txt now says beta"', "--agent", "claude", "--all-hits", "--json").json()
    assert {hit["uid"] for hit in every["hits"]} == {uids[0]}


def test_search_without_hits_is_told_by_the_exit_code(read_once: Shell) -> None:
    done = read_once("search", "xyzzyplugh")
    assert (done.code, done.out) == (NOTHING_FOUND, "")
    assert "Nothing found" in done.err
    done = read_once("search", "xyzzyplugh", "--json")
    assert (done.code, done.json()["hits"]) == (NOTHING_FOUND, [])


def test_no_error_has_the_exit_code_of_a_search_that_found_nothing() -> None:
    family = [errors.BackstoryError]
    for each in family:
        family += each.__subclasses__()
    assert [each.__name__ for each in family if each.exit_code == NOTHING_FOUND] == []
    assert errors.BackstoryError.exit_code == 70


def test_search_before_anything_was_read_finds_nothing(bare: Shell) -> None:
    done = bare("search", "word")
    assert (done.code, done.out) == (NOTHING_FOUND, "")
    assert "backstory ingest" in done.err
    assert bare("search", "word", "--json").json()["hits"] == []


def test_search_since_a_time(read_once: Shell) -> None:
    assert read_once("search", "work", "--since", "2026-11-01", "--json").json()["hits"]
    assert read_once("search", "work", "--since", "2099-01-01", "--json").json()["hits"] == []
    assert read_once("search", "work", "--since", "soon").code == USAGE
    for time in ("yesterday", "3 days", "2h", "monday", "2026-11-21T14:00"):
        assert read_once("search", "work", "--since", time).code in (0, NOTHING_FOUND)
    for time in ("99999999999999999999 days", "9999999 weeks", "0001-01-01", "9999-12-31"):
        assert read_once("search", "work", "--since", time).code in (0, NOTHING_FOUND, USAGE)


NASTY: list[str | bytes] = [
    "", " ", '"', '""', "'", '"open', "a AND", "OR", "NOT", "NOT x", "*", "a*", "**", "NEAR(", "NEAR(a b)",
    "a NEAR/2 b", "#12", "C++", "login.ts", "a:b", "content:x", "col : x", "-x y", "^a", "(", ")", "{a b}: c", "a + b",
    "\\", "%", "_",
    "😀", "日本語", "テスト 漢字", "한국어", "é", "e\u0301", "\u202e", "a\tb\nc", b"\xff\xfe", b"caf\xc3", "x" * 10_000,
    "x " * 5_000, '"' * 10_000, "*" * 10_000, "--", ";drop table events;", "null", "0", "1e999", "\u200b", "SELECT *",
]  # fmt: skip


def test_whatever_people_type_is_a_query(read_once: Shell) -> None:
    for query in NASTY:
        done = read_once("search", "--json", "--", query)
        assert (query if done.err else "") == "", done.err
        assert done.code == (0 if done.json()["hits"] else NOTHING_FOUND)
    for query in NASTY[:12]:
        assert read_once("search", "--", query).code in (0, NOTHING_FOUND)


@given(st.one_of(st.text(), st.text(alphabet="\"'*^():+-{}.#,\\ abANDORT\0\ud800日é", max_size=30)))
@settings(
    max_examples=examples(200),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_text_is_a_mistake(read_once: Shell, query: str) -> None:
    with open_store(read_once.store) as store:
        find(store, query, Filter(), limit=5)


def test_bytes_that_are_no_text_are_no_trouble_elsewhere(machine: Shell) -> None:
    assert machine("show", b"\xff\xfe").code == NO_INPUT
    assert machine("rename", ORIGINAL_ID, b"caf\xe9").code == 0
    assert machine("list", "--all").code == 0
    for command in ("search", "list"):
        done = machine(command, "x" if command == "search" else "--all", "--agent", b"\xff")
        assert (done.code, done.err.count("\n")) == (USAGE, 1)
    assert machine("search", "x", "--since", b"\xff").code == USAGE
    assert machine("config", "get", b"\xff").code == USAGE
    assert machine("ingest", "--agent", b"\xff").code == USAGE
    assert machine("verify", "--store", b"/tmp/\xff").code == NO_INPUT


def test_words_with_signs_in_them_are_found(bare: Shell) -> None:
    path = bare.home / claude_log("signs")
    path.parent.mkdir(parents=True)
    texts = [
        "we use C++ here",
        "see #12 there",
        "edit src/login.ts now",
        "汉字测试 works",
        "naïve café",
        "snake_case_name",
    ]
    path.write_bytes(lines(*[claude_line("user", f"u{n}", text) for n, text in enumerate(texts)]))
    bare("ingest")
    for number, query in enumerate(["C++", "#12", "login.ts", "测试", "cafe", "case"], start=1):
        assert [hit["seq"] for hit in bare("search", query, "--json").json()["hits"]] == [number], query


def test_restore_gives_its_fields_and_every_byte(read_once: Shell, tmp_path: Path) -> None:
    told = read_once("restore", "--all", "--to", tmp_path / "out", "--json").json()["logs"]
    assert all(has(each, RESTORE_FIELDS) for each in told)
    assert sorted(each["sha256"] for each in told) == sorted(sha256(case(name)) for name in SMALL)
    assert all(digest_of(Path(each["path"])) == each["sha256"] for each in told)
    assert {each["original"] for each in told} == {str(read_once.home / place(name)) for name in SMALL}


def test_restore_of_one_session(read_once: Shell, tmp_path: Path) -> None:
    (told,) = read_once("restore", ORIGINAL_ID, "--to", tmp_path / "out", "--json").json()["logs"]
    assert told["sha256"] == sha256(case("claude/resume"))


def test_restore_refuses_to_write_over_a_file_that_differs(read_once: Shell, tmp_path: Path) -> None:
    (told,) = read_once("restore", ORIGINAL_ID, "--to", tmp_path / "out", "--json").json()["logs"]
    Path(told["path"]).write_bytes(b"mine")
    done = read_once("restore", ORIGINAL_ID, "--to", tmp_path / "out")
    assert (done.code, done.out) == (CANNOT_CREATE, "")
    assert told["path"] in done.err
    assert "1 of 1 files could not be restored" in done.err
    assert "Traceback" not in done.err
    assert Path(told["path"]).read_bytes() == b"mine"
    assert read_once("restore", ORIGINAL_ID, "--to", tmp_path / "out", "--force").code == 0
    assert digest_of(Path(told["path"])) == told["sha256"]


def test_restore_goes_on_and_lists_what_it_could_not_give_back(read_once: Shell, tmp_path: Path) -> None:
    told = read_once("restore", "--all", "--to", tmp_path / "out", "--json").json()["logs"]
    Path(told[0]["path"]).write_bytes(b"mine")
    Path(told[1]["path"]).unlink()
    again = read_once("restore", "--all", "--to", tmp_path / "out", "--json")
    assert again.code == CANNOT_CREATE
    failed = {name: told[0][name] for name in ("uid", "label", "original")}
    error = f"{told[0]['path']} exists and differs."
    assert again.json()["logs"][0]["error"].startswith(error)
    assert again.json()["logs"] == [
        {
            **failed,
            "path": None,
            "bytes": None,
            "sha256": None,
            "companions": [],
            "error": again.json()["logs"][0]["error"],
        },
        *told[1:],
    ]
    said = read_once("restore", "--all", "--to", tmp_path / "out")
    assert said.code == CANNOT_CREATE
    assert f"Not restored: {failed['label']} {failed['original']}: {error}" in said.err
    assert len(said.out.splitlines()) == len(told) - 1
    assert f"1 of {len(told)} files could not be restored" in said.err.splitlines()[-1]


def test_restore_wants_to_know_what(read_once: Shell, tmp_path: Path) -> None:
    assert read_once("restore", "--to", tmp_path).code == 2
    assert read_once("restore", "--all", ORIGINAL_ID, "--to", tmp_path).code == 2
    assert read_once("restore", "--all").code == 2


@pytest.mark.parametrize("words", [("restore", "--to", "out"), ("export", "--format", "json", "-o", "out")])
def test_all_of_a_store_that_is_not_there_is_a_store_that_is_not_found(bare: Shell, words: tuple[str, ...]) -> None:
    done = bare(*words, "--all", "--store", "nowhere")
    assert (done.code, done.err.partition(".")[0]) == (66, f"backstory: There is no store at {bare.cwd / 'nowhere'}")


def test_an_ingest_that_reads_nothing_names_agents_that_are_not_read_only_if_asked(bare: Shell) -> None:
    bare.put("claude/tools")
    other = bare.home / ".qwen" / "projects" / "-w" / "chats" / "1.jsonl"
    other.parent.mkdir(parents=True)
    other.write_text("{}\n")
    named = "Also here, not read by this version: qwen (1)"
    assert named in bare("ingest").err
    assert named not in bare("ingest").err
    assert named in bare("ingest", "--explain").err


def test_verify_gives_its_fields(read_once: Shell) -> None:
    done = read_once("verify", "--json")
    assert (done.code, done.json()["ok"], done.json()["problems"]) == (0, True, [])
    assert done.json()["checked"]["sessions"] == len(SMALL)


def test_verify_of_a_damaged_store_says_where(machine: Shell) -> None:
    db = apsw.Connection(str(machine.store))
    db.execute("update chunks set data = zeroblob(length(data)) where id = (select min(id) from chunks)")
    db.close()
    done = machine("verify", "--json")
    assert (done.code, done.json()["ok"]) == (1, False)
    assert len(done.json()["problems"]) == 1
    assert machine("verify").code == 1


def test_verify_without_a_store_is_an_error(bare: Shell) -> None:
    done = bare("verify")
    assert (done.code, done.out) == (NO_INPUT, "")


def test_rename_gives_a_name_that_finds_it(machine: Shell) -> None:
    assert machine("rename", ORIGINAL_ID, "  The big one ").code == 0
    assert machine("show", "The big one", "--json").json()["session"]["name"] == "The big one"
    machine("rename", "The big one", "")
    assert machine("show", "The big one").code == NO_INPUT


def test_a_name_outlives_its_log(machine: Shell) -> None:
    machine("rename", ORIGINAL_ID, "mine")
    path = machine.home / place("claude/resume")
    path.write_bytes(path.read_bytes() + lines(claude_line("user", "more", "one more")))
    machine("ingest")
    assert machine("show", "mine", "--json").json()["session"]["turn_count"] == 3


def test_rm_asks_and_where_nobody_can_answer_refuses(machine: Shell) -> None:
    done = machine("rm", ORIGINAL_ID, typed="y\n")
    assert (done.code, done.out) == (USAGE, "")
    assert "--yes" in done.err
    assert machine("show", ORIGINAL_ID).code == 0


@pytest.mark.parametrize(("answer", "is_gone"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_rm_does_as_answered(machine: Shell, answer: str, is_gone: bool) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "backstory", "rm", ORIGINAL_ID], stdin=theirs, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, cwd=machine.cwd, env=machine.environ,
    )  # fmt: skip
    os.write(ours, answer.encode())
    out, err = done.communicate(timeout=ENDS_S)
    os.close(ours)
    os.close(theirs)
    assert (done.returncode, out) == (0, b"")
    assert b"?" in err
    assert (b"Kept." in err) != is_gone
    assert (machine("show", ORIGINAL_ID).code == NO_INPUT) == is_gone


def test_what_was_removed_stays_away_until_asked_for(machine: Shell) -> None:
    assert machine("rm", PARENT_ID, "--yes").code == 0
    assert len(machine("list", "--all", "--helpers", "--json").json()["sessions"]) == len(SMALL) - 2
    machine("ingest")
    assert machine("show", PARENT_ID).code == NO_INPUT
    assert "--forgotten" in machine("ingest", "--explain").out
    machine("ingest", "--forgotten")
    assert machine("show", PARENT_ID).code == 0
    assert (machine.home / place("claude/with-a-helper")).read_bytes() == case("claude/with-a-helper")


def test_backup_is_one_file_that_is_a_store(machine: Shell, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "copy.db"
    assert machine("backup", target).code == 0
    assert [path.name for path in target.parent.iterdir()] == ["copy.db"]
    assert machine("verify", "--store", target, "--json").json()["ok"]
    shutil.rmtree(machine.store.parent)
    assert len(machine("list", "--all", "--db", target, "--json").json()["sessions"]) == len(SMALL) - 2
    assert [path.name for path in target.parent.iterdir()] == ["copy.db"]
    assert machine("backup", target, "--store", target).code == CANNOT_CREATE


def test_sessions_that_a_store_owns_have_numbers_that_are_never_given_again(bare: Shell, tmp_path: Path) -> None:
    path = tmp_path / "project.bks"
    with open_store(path) as store:
        for name in ("one", "two", "three"):
            store.create_session(name)
    numbers = [each["number"] for each in bare("list", "--store", path, "--json").json()["sessions"]]
    assert sorted(numbers) == ["S1", "S2", "S3"]
    assert bare("rm", "S3", "--yes", "--trust", "--store", path).code == 0
    with open_store(path) as store:
        store.create_session("four")
    assert bare("show", "s4", "--store", path, "--json").json()["session"]["number"] == "S4"
    assert bare("show", "S3", "--store", path).code == NO_INPUT


# where the store lies, and what may be wrong with it ------------------------------------------------------------


def test_a_store_that_is_named_before_or_behind_the_command_is_used(bare: Shell, tmp_path: Path) -> None:
    bare.put("claude/tools")
    path = tmp_path / "other.db"
    assert bare("--store", path, "ingest").code == 0
    assert len(bare("list", "--db", path, "--json").json()["sessions"]) == 1
    assert not bare.store.exists()


def test_folders_that_the_environment_names_are_looked_at(bare: Shell, tmp_path: Path) -> None:
    for name, variable in (("claude/tools", "CLAUDE_CONFIG_DIR"), ("codex/tools", "CODEX_HOME")):
        below = place(name).relative_to(place(name).parts[0])
        path = tmp_path / variable / below
        path.parent.mkdir(parents=True)
        path.write_bytes(case(name))
    bare.put("claude/denied")
    told = bare(
        "ingest",
        "--json",
        CLAUDE_CONFIG_DIR=str(tmp_path / "CLAUDE_CONFIG_DIR"),
        CODEX_HOME=str(tmp_path / "CODEX_HOME"),
    ).json()
    assert {each["agent"]: each["logs_read"] for each in told["by_agent"]} == {"claude": 1, "codex": 1}


def test_an_unknown_agent_is_named_with_those_that_are_known(bare: Shell) -> None:
    done = bare("ingest", "--agent", "nonesuch")
    assert done.code == USAGE
    assert "claude, cline, codex" in done.err


def refused(shell: Shell, path: Path, code: int, *commands: tuple[str, ...]) -> None:
    """Every command refuses this store with a sentence and an exit code, and leaves it as it is."""
    before = path.read_bytes()
    reading = [("list", "--all"), ("show", "x"), ("search", "x"), ("verify",), ("restore", "--all", "--to", "out")]
    for command in commands or (*reading, ("ingest",), ("rename", "x", "y"), ("rm", "x", "--yes"), ("backup", "b")):
        done = shell(*command, "--store", path)
        assert (command, done.code, done.out, done.err.count("\n")) == (command, code, "", 1), done.err
        assert str(path) in done.err
        assert path.read_bytes() == before


def test_a_store_of_a_newer_version_is_left_alone(machine: Shell) -> None:
    db = apsw.Connection(str(machine.store))
    db.execute("update meta set value = '999' where key = 'schema_version'")
    db.execute("pragma journal_mode = delete")
    db.close()
    refused(machine, machine.store, TOO_NEW)


@pytest.mark.parametrize("data", [b"not a store at all", b"\0" * 8192, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_file_that_is_no_store_is_left_alone(bare: Shell, tmp_path: Path, data: bytes) -> None:
    bare.put("claude/tools")
    path = tmp_path / "file"
    path.write_bytes(data)
    refused(bare, path, DAMAGED)


def test_another_programs_database_is_left_alone(bare: Shell, tmp_path: Path) -> None:
    bare.put("claude/tools")
    path = tmp_path / "theirs.db"
    db = apsw.Connection(str(path))
    db.execute("create table meta(key, value); insert into meta values ('schema_version', '1')")
    db.close()
    refused(bare, path, DAMAGED)
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("theirs")] == ["theirs.db"]


def test_a_folder_is_no_store(bare: Shell, tmp_path: Path) -> None:
    bare.put("claude/tools")
    (tmp_path / "folder").mkdir()
    for command in ("list", "ingest", "verify"):
        done = bare(command, "--store", tmp_path / "folder")
        assert done.code != 0
        assert "Traceback" not in done.err


def test_a_store_that_is_named_and_not_there_is_an_error_for_those_who_read_it(bare: Shell, tmp_path: Path) -> None:
    for command in (("show", "x"), ("verify",), ("backup", "b")):
        done = bare(*command, "--store", tmp_path / "none.db")
        assert (done.code, done.out) == (NO_INPUT, "")
    assert not (tmp_path / "none.db").exists()


def test_a_locked_store_is_busy_and_can_still_be_read(machine: Shell) -> None:
    machine.put("claude/tools")
    (machine.home / claude_log("more")).write_bytes(lines(claude_line("user", "m", "more")))
    db = apsw.Connection(str(machine.store))
    db.execute("begin immediate")
    done = machine("ingest")
    assert (done.code, done.out) == (BUSY, "")
    assert "locked by another process" in done.err
    assert machine("rename", ORIGINAL_ID, "x").code == BUSY
    assert len(machine("list", "--all", "--json").json()["sessions"]) == len(SMALL) - 2
    db.execute("rollback")
    db.close()
    assert machine("ingest", "--json").json()["errors"] == []


AS_SOMEONE = """
import difflib, importlib, json, os, pkgutil, random, shlex, shutil, sys, tempfile, tomllib, traceback
import backstory
from backstory.cli import main
from backstory.store.codec import shipped_codec
for module in pkgutil.walk_packages(backstory.__path__, "backstory."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
shipped_codec()
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)


def ended(words):
    # In a copy of this process: what it printed on stderr, and its exit code.
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(writing, 2)
        os.close(writing)
        sys.argv[1:] = words
        try:
            main()
        finally:
            sys.stdout.flush()
    os.close(writing)
    said = open(reading, encoding="utf-8").read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said


print(json.dumps([ended(words) for words in json.loads(sys.argv[1])]))
"""
"""The command line, run by someone who may not write everywhere, nor perhaps read where Python and we are.

One process imports everything; each command, as JSON, runs in a copy of it.
"""


def test_a_store_that_may_not_be_written_can_be_read(read_once: Shell) -> None:
    reading = [["list", "--all", "--json"], ["search", "beta", "--json"], ["show", ORIGINAL_ID], ["verify"]]
    writing = [["ingest"], ["rename", ORIGINAL_ID, "x"], ["rm", ORIGINAL_ID, "--yes"]]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        shutil.copytree(read_once.home, home / "home")
        (home / "home" / claude_log("more")).write_bytes(lines(claude_line("user", "m", "more")))
        store = home / "home" / "backstory"
        for path in (home, *home.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        before = sorted((path.name, digest_of(path)) for path in store.iterdir())
        done = subprocess.run(
            [sys.executable, "-c", AS_SOMEONE, json.dumps([*reading, *writing])], cwd="/", capture_output=True,
            env=read_once.environ | {"HOME": str(home / "home"), "BACKSTORY_HOME": str(store)}, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        ends = json.loads(done.stdout)
        assert [end for end in ends[: len(reading)] if end[0] != 0] == []
        assert [(code, "cannot be written" in said) for code, said in ends[len(reading) :]] == [
            (NO_PERMISSION, True)
        ] * len(writing)
        assert sorted((path.name, digest_of(path)) for path in store.iterdir()) == before
        for path in (home, *home.rglob("*")):
            path.chmod(0o755)


def test_a_home_that_cannot_be_made_is_an_error_with_a_sentence(bare: Shell, tmp_path: Path) -> None:
    bare.put("claude/tools")
    (tmp_path / "file").write_text("")
    done = bare("ingest", BACKSTORY_HOME=str(tmp_path / "file" / "below"))
    assert done.code not in (0, 1)
    assert done.err.startswith("backstory: ")
    assert "Traceback" not in done.err


def test_reading_leaves_nothing_behind(machine: Shell) -> None:
    def everything() -> dict[str, str]:
        return {str(path): digest_of(path) for path in machine.home.rglob("*") if path.is_file()}

    machine("ingest")
    before = everything()
    for command in (
        ("list", "--all"), ("show", ORIGINAL_ID), ("search", "beta"), ("verify",), ("config", "list"), ("ingest",)
    ):  # fmt: skip
        assert machine(*command).code == 0
        assert everything() == before, command


# how they talk --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [("list", "--all"), ("show", ORIGINAL_ID), ("search", "beta"), ("ingest",), ("config", "list"), ("--help",)],
    ids=lambda command: command[0],
)
def test_there_is_no_colour_where_nobody_looks(read_once: Shell, command: tuple[str, ...]) -> None:
    done = read_once(*command)
    assert done.code == 0
    assert "\x1b" not in done.out + done.err


def on_a_terminal(shell: Shell, *command: str, **environ: str) -> bytes:
    variables = shell.environ | {"TERM": "xterm", "PAGER": "cat"} | environ
    code, seen = shells.on_a_terminal(command, shell.cwd, variables)
    assert code == 0
    return seen


def test_there_is_colour_on_a_terminal_unless_it_is_unwanted(read_once: Shell) -> None:
    assert b"\x1b[" in on_a_terminal(read_once, "list", "--all")
    assert b"\x1b[" not in on_a_terminal(read_once, "list", "--all", NO_COLOR="1")
    assert b"\x1b[" not in on_a_terminal(read_once, "show", ORIGINAL_ID, NO_COLOR="1")


def test_a_terminal_that_knows_few_letters_gets_question_marks(bare: Shell) -> None:
    path = bare.home / claude_log("letters")
    path.parent.mkdir(parents=True)
    path.write_bytes(lines(claude_line("user", "e", "日本 naïve"), claude_line("assistant", "f", "✓ done")))
    bare("ingest")
    uid = bare("list", "--all", "--json").json()["sessions"][0]["uid"]
    for command in (("list", "--all"), ("show", uid), ("search", "naive"), ("show", uid, "--json")):
        done = bare(*command, PYTHONIOENCODING="ascii")
        assert (done.code, done.err) == (0, ""), command


def test_what_logs_say_does_not_move_the_terminal(bare: Shell) -> None:
    path = bare.home / claude_log("evil")
    path.parent.mkdir(parents=True)
    evil = "find me \x1b]0;owned\x07\x1b[2J\x9b31m \r hidden"
    path.write_bytes(lines(claude_line("user", "e", evil, cwd=f"/w/{evil}"), claude_line("assistant", "f", evil)))
    bare("ingest")
    uid = bare("list", "--all", "--json").json()["sessions"][0]["uid"]
    bare("rename", uid, evil)
    for command in (("list", "--all"), ("show", uid), ("show", uid, "--full"), ("search", "find"), ("rm", uid)):
        done = bare(*command)
        assert not set(done.out + done.err) & set("\x1b\x07\x9b\r"), command


def test_a_reader_that_goes_away_is_no_trouble(read_once: Shell) -> None:
    for command in (("show", ORIGINAL_ID, "--full"), ("show", ORIGINAL_ID, "--json"), ("list", "--all", "--json")):
        done = subprocess.Popen(
            [sys.executable, "-m", "backstory", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=read_once.cwd, env=read_once.environ,
        )  # fmt: skip
        assert done.stdout is not None
        done.stdout.close()
        assert done.stderr is not None
        said = done.stderr.read()
        done.stderr.close()
        assert (command, done.wait(timeout=ENDS_S), said) == (command, 141, b"")


WAITING = """
from backstory.store.file import connection
real = connection.be_durable
def told(db, **named):
    real(db, **named)
    print(flush=True)
connection.be_durable = told
from backstory.cli import main
main()
"""
"""``backstory`` that prints a line before it waits for a lock: then only a signal ends it early."""


def test_an_interrupted_command_says_that_nothing_is_hurt(machine: Shell) -> None:
    (machine.home / claude_log("more")).write_bytes(lines(claude_line("user", "m", "more")))
    db = apsw.Connection(str(machine.store))
    db.execute("begin immediate")
    done = subprocess.Popen(
        [sys.executable, "-c", WAITING, "ingest"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=machine.cwd,
        env=machine.environ,
    )  # fmt: skip
    assert done.stdout is not None
    done.stdout.readline()
    done.send_signal(signal.SIGINT)
    _, err = done.communicate(timeout=ENDS_S)
    db.close()
    assert done.returncode in (130, BUSY)
    assert b"Traceback" not in err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(bare: Shell, command: str) -> None:
    done = bare(command, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: python -m backstory {command}")


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (("chronicle", "cost"), "report"), (("/chronicle", "cost"), "report"), (("/reindex",), "reindex"),
        (("/chronicle", "reindex"), "report"),
    ],
)  # fmt: skip
def test_a_name_that_another_tool_has_for_a_command_means_the_same(
    bare: Shell, words: tuple[str, ...], same: str
) -> None:
    assert bare(*words, "--help").out == bare(same, *words[1:], "--help").out.replace(same, words[0], 1)
    assert bare("/list").code == 2


def test_the_first_page_of_help_fits_on_a_screen(bare: Shell) -> None:
    shown = bare("--help", COLUMNS="80").out.splitlines()
    assert len(shown) <= 30
    assert max(map(len, shown)) < 80


def test_every_command_is_on_one_of_the_pages_of_help(bare: Shell) -> None:
    first = re.findall(r"^(?:[A-Z][a-z]+ +| {10})([a-z-]+)  ", bare("--help").out, re.MULTILINE)
    listed, _, others = bare("help", "--all").out.partition("Names from other tools:")
    rest = re.findall(r"^  ([a-z][a-z-]*)  ", listed, re.MULTILINE)
    assert len(first) > 20 and {*first} < {*rest}
    assert sorted(rest) == sorted(COMMANDS)
    assert [name for name in ALIASES if name not in others] == []


SEEDS = (
    "chronicle", "/chronicle", "reindex", "/reindex", "scan", "tree", "branches", "checkout", "diff", "branch", "steer",
    "followup", "queue", "session_store_sql", "@N", "--steer", "--followup", "--db", "--name", "-n", "-S",
)  # fmt: skip


@pytest.mark.parametrize("name", SEEDS)
def test_names_that_people_know_from_other_tools_are_on_the_page_of_all_commands(bare: Shell, name: str) -> None:
    assert re.search(rf"(?<![\w/-]){re.escape(name)}(?![\w-])", bare("help", "--all").out)


def test_without_a_command_the_newest_sessions_here_are_shown(bare: Shell) -> None:
    done = bare()
    assert (done.code, done.out) == (0, "")
    assert "backstory ingest" in done.err and "backstory help" in done.err
    for n in range(7):
        path = bare.home / claude_log(f"mine{n}")
        path.parent.mkdir(parents=True, exist_ok=True)
        at = f"2026-11-2{n}T10:00:00.000Z"
        path.write_bytes(lines(claude_line("user", f"u{n}", f"number {n}", cwd=str(bare.cwd), timestamp=at)))
    bare("ingest")
    done = bare()
    assert done.code == 0
    assert [line.split("\t")[2] for line in done.out.splitlines()] == [f"number {n}" for n in (6, 5, 4, 3, 2)]


@pytest.mark.parametrize("option", [("--trust",), ("--or-run",), ("-S", "S1"), ("--name", "x")])
def test_options_of_messages_mean_nothing_without_one(bare: Shell, option: tuple[str, ...]) -> None:
    done = bare(*option)
    assert (done.code, done.out) == (2, "")
    assert "need --steer or --followup" in done.err


def test_a_command_that_does_not_exist_is_a_mistake_of_use(bare: Shell) -> None:
    done = bare("nonesuch")
    assert (done.code, done.out) == (2, "")


def test_the_version_needs_no_database(bare: Shell) -> None:
    done = bare("--version")
    assert (done.code, done.out) == (0, f"backstory {__version__}\n")
    looked = subprocess.run(
        [
            sys.executable, "-c",
            "import sys, backstory.cli\nsys.argv = ['backstory', '--version']\n"
            "try: backstory.cli.main()\nexcept SystemExit: pass\n"
            "print(sorted({'apsw', 'msgspec', 'zstandard', 'rich', 'tomlkit', 'platformdirs'} & set(sys.modules)))",
        ],
        capture_output=True, env=bare.environ, check=True,
    )  # fmt: skip
    assert looked.stdout.decode().splitlines()[-1] == "[]"


# names -----------------------------------------------------------------------------------------------------------


def test_a_session_without_a_title_is_called_the_same_wherever_it_is_shown(bare: Shell) -> None:
    plan = "Implement the following plan:\n\n# Plan: Count the pelicans\n\n## Context\nThere are many."
    log = bare.home / claude_log("a1b2c3")
    log.parent.mkdir(parents=True)
    log.write_bytes(lines(claude_line("user", "u1", plan), claude_line("assistant", "u2", "three")))
    bare("ingest")
    uid = open_store(bare.store).sessions()[0].uid
    completed = subprocess.run(
        [sys.executable, "-c", "from backstory.cli import cli; cli(prog_name='backstory')"], capture_output=True,
        cwd=bare.cwd, check=False, text=True, env=bare.environ | {
            "_BACKSTORY_COMPLETE": "zsh_complete", "COMP_WORDS": f"backstory show {uid[:6]}", "COMP_CWORD": "2",
        },
    )  # fmt: skip
    head, *_ = bare("show", uid).out.splitlines()
    (listed,) = bare("list", "--all", "--json").json()["sessions"]
    assert listed["title"] == "Count the pelicans"
    shown = [head, bare("list", "--all", COLUMNS="120").out, bare("search", "three").out, completed.stdout]
    assert all("Count the pelicans" in each and "Implement the" not in each for each in shown), shown


# settings and completion ----------------------------------------------------------------------------------------


def test_settings_are_listed_read_and_changed(bare: Shell) -> None:
    keys = {each["key"]: each for each in bare("config", "list", "--json").json()["settings"]}
    assert keys["list.limit"]["origin"] == "default"
    assert bare("config", "get", "list.limit").out == "50\n"
    assert bare("config", "set", "list.limit", "3").code == 0
    assert bare("config", "get", "list.limit").out == "3\n"
    assert bare("config", "get", "list.limit", "--json").json() == {"key": "list.limit", "value": 3}
    assert str(bare.home / "backstory" / "config.toml") in bare("config", "list").out


def test_a_projects_setting_wins(bare: Shell) -> None:
    bare("config", "set", "run.silence_s", "3")
    bare("config", "set", "run.silence_s", "4", "--here")
    assert bare("config", "get", "run.silence_s").out == "4\n"
    found = {each["key"]: each["origin"] for each in bare("config", "list", "--json").json()["settings"]}
    assert found["run.silence_s"] == str(bare.cwd / ".backstory" / "config.toml")


def test_what_a_project_may_not_set_is_refused_there(bare: Shell) -> None:
    done = bare("config", "set", "list.limit", "4", "--here")
    assert (done.code, done.out) == (USAGE, "")
    assert "only your own config may set it" in done.err
    assert not (bare.cwd / ".backstory").exists()


def test_the_programs_that_are_set_are_listed(bare: Shell) -> None:
    bare("config", "set", "agents.claude", "/opt/claude")
    (row,) = [each for each in bare("config", "list", "--json").json()["settings"] if each["key"] == "agents.claude"]
    assert (row["value"], row["origin"]) == ("/opt/claude", str(bare.home / "backstory" / "config.toml"))


def test_a_setting_is_obeyed(machine: Shell) -> None:
    machine("config", "set", "list.limit", "3")
    assert len(machine("list", "--all").out.splitlines()) == 3
    machine("config", "set", "search.limit", "1")
    assert len(machine("search", "work", "--json").json()["hits"]) == 1
    machine("config", "set", "ingest.agents", "codex")
    assert [each["agent"] for each in machine("ingest", "--json").json()["by_agent"]] == ["codex"]


def test_logs_that_are_excluded_are_not_read(bare: Shell) -> None:
    bare.put(*SMALL)
    bare("config", "set", "ingest.exclude", "*/.claude/*")
    told = bare("ingest", "--json").json()
    assert told["logs_seen"] == figures_of(told, "codex")["logs_read"] == 6


def test_unknown_settings_are_named(bare: Shell) -> None:
    done = bare("config", "get", "list.limt")
    assert (done.code, done.out) == (USAGE, "")
    assert "'list.limt'" in done.err
    assert bare("config", "set", "list.limt", "3").code == USAGE
    assert bare("config", "set", "list.limit", "three").code == USAGE
    (bare.home / "backstory").mkdir()
    (bare.home / "backstory" / "config.toml").write_text("[list]\nlimt = 3\n")
    done = bare("config", "list", "--json")
    assert done.code == 0
    assert {each.key for each in SETTINGS} <= {row["key"] for row in done.json()["settings"]}
    assert done.err.count("'list.limt'") == 1


def test_a_wrong_value_stops_the_commands_that_need_it(machine: Shell) -> None:
    (machine.home / "backstory" / "config.toml").write_text("[search]\nlimit = 'few'\n")
    assert (machine("ingest").code, machine("list", "--all").code) == (0, 0)
    done = machine("search", "work")
    assert (done.code, done.out) == (BAD_CONFIG, "")
    assert "search.limit: it must be a whole number" in done.err


def test_a_broken_file_of_settings_is_named(machine: Shell) -> None:
    path = machine.home / "backstory" / "config.toml"
    path.write_text("[list\n")
    for command in (("config", "list"), ("list", "--all"), ("search", "x"), ("config", "set", "list.limit", "3")):
        done = machine(*command)
        assert (command, done.code, done.out) == (command, BAD_CONFIG, "")
        assert str(path) in done.err
    assert path.read_text() == "[list\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_completion_script(bare: Shell, shell: str) -> None:
    done = bare("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert "_BACKSTORY_COMPLETE" in done.out
    if found := shutil.which(shell):
        assert subprocess.run([found, "-n"], input=done.out.encode(), check=False).returncode == 0


def test_sessions_are_completed(read_once: Shell) -> None:
    uid = read_once("show", ORIGINAL_ID, "--json").json()["session"]["uid"]
    done = subprocess.run(
        [sys.executable, "-c", "from backstory.cli import cli; cli(prog_name='backstory')"], capture_output=True,
        cwd=read_once.cwd, check=False, env=read_once.environ | {
            "_BACKSTORY_COMPLETE": "zsh_complete", "COMP_WORDS": f"backstory show {uid[:6]}", "COMP_CWORD": "2",
        },
    )  # fmt: skip
    assert uid[:12] in done.stdout.decode().splitlines()


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        ("MemoryError()", "There is not enough memory"), ("OSError(24, 'too many')", "Too many files are open"),
        ("OSError(23, 'too many')", "Too many files are open"),
    ],
)  # fmt: skip
def test_what_the_system_does_not_give_is_told_in_a_sentence(bare: Shell, raised: str, told: str) -> None:
    code = (
        "import sys, backstory.cli.commands.list_command as it\n"
        f"def fail(*_, **__): raise {raised}\nit.SessionFilter = fail\n"
        "sys.argv = ['backstory', 'list']\nfrom backstory.cli import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], env=bare.environ, cwd=bare.cwd, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (71, "")
    assert done.stderr.startswith(f"backstory: {told}")
    assert len(done.stderr.splitlines()) == 1
