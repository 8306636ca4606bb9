"""SQL that only reads: what can be asked, what is refused, and what ends by itself."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory import errors
from backstory.ask import readonly
from backstory.model import AssistantText, ToolResult
from backstory.store import Store, open_store
from backstory.store.tables import turns
from tests.support import make_golden
from tests.support.memory import PROGRAM
from tests.support.one_of_each import BEGUN, fill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENDLESS = "with recursive n(x) as (select 1 union all select x + 1 from n) select {} from n"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with a history; only for tests that change nothing."""
    path = tmp_path_factory.mktemp("told") / "store.bks"
    fill(path)
    with open_store(path) as store:
        yield store


def rows(store: Store, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    answer = store.execute_read_only(sql, parameters=parameters, timeout_s=30)
    assert not answer.truncated
    return answer.rows


def listing(folder: Path) -> list[tuple[str, int, int]]:
    return sorted((str(each), each.stat().st_size, each.stat().st_mtime_ns) for each in folder.rglob("*"))


# what can be asked


@pytest.mark.parametrize("view", [each.name for each in readonly.views()])
def test_a_view_has_the_columns_that_it_is_described_with(told: Store, view: str) -> None:
    described = next(each for each in readonly.views() if each.name == view).columns
    names = ", ".join(described)
    assert told.execute_read_only(f"select {names} from {view} where false").columns == list(described)


def test_every_view_in_the_file_is_described(told: Store) -> None:
    made = {name for (name,) in rows(told, "select name from temp.sqlite_schema where type = 'view'")}
    assert made - {"claimed", "answers"} == {each.name for each in readonly.views()}


def test_a_session_is_told_with_its_times_in_iso_8601(told: Store) -> None:
    assert rows(
        told,
        "select name, agent, repository, branch, summary, updated_at, number, turns, events, host_type "
        "from sessions where id = 1",
    ) == [("Fix the build", "one", "octo/app", "main", "Fix the build", "2026-09-20T14:13:21.234Z", 1, 1, 5, "github")]


def test_a_turn_has_its_prompt_its_answer_and_its_place_in_the_session(told: Store) -> None:
    assert rows(told, "select turn_index, user_message, assistant_response from turns where session_id = 2") == [
        (0, "Why is it red?", "A comma deadlock."),
        (1, "Go on | now", None),
    ]


def test_turns_are_numbered_as_the_store_numbers_them(told: Store) -> None:
    numbers = told.ask(turns.numbers, 5)
    assert rows(told, "select id, turn_index + 1 from turns where session_id = 5 order by 2") == list(numbers.items())


def test_the_log_of_a_run_that_is_here_is_in_no_view(told: Store) -> None:
    for view in readonly.views():
        if "session_id" in view.columns:
            assert rows(told, f"select * from {view.name} where session_id = 3") == [], view.name
    assert rows(told, "select id from sessions order by id") == [(1,), (2,), (4,), (5,)]


def test_a_helper_of_such_a_log_comes_from_the_run(told: Store) -> None:
    assert rows(told, "select p.id, p.uid = s.parent from sessions s join sessions p on p.id = s.parent_id "
                      "where s.id = 4") == [(1, 1)]  # fmt: skip


def test_a_copied_turn_is_used_once_where_it_was_first(told: Store) -> None:
    assert rows(told, "select session_id, is_copy from turns where uid = 'TURN' order by 1") == [(1, 0), (2, 1)]
    assert rows(told, "select session_id, cost_usd, cost_kind from usage where turn_uid = 'TURN'") == [
        (1, 0.5, "exact")
    ]


def test_a_cost_that_nobody_reported_is_computed_or_unknown(told: Store) -> None:
    told_kinds = rows(told, "select cost_kind, count(*) from usage where session_id in (2, 4) group by 1 order by 1")
    assert told_kinds == [("computed", 1), ("unknown", 1)]


def test_a_call_is_told_with_its_result(told: Store) -> None:
    asked = "tool_name, tool, command, is_error, exit_code, duration_ms, output, result_seq, turn_index"
    assert rows(told, f"select {asked} from tool_calls where session_id = 1") == [
        ("Bash", "SHELL", "make | tee log", 1, 2, 250, "line 8\nline 9", 4, 0)
    ]


def test_a_file_has_its_path_below_the_root_of_its_session(told: Store) -> None:
    assert rows(
        told, "select file_path, relative_path, action, touches from session_files where session_id = 1 order by id"
    ) == [
        ("/w/app/src/a.py", "src/a.py", "edit", 2),
        ("/etc/hosts", None, "read", 0),
    ]


def test_an_event_is_told_in_its_compact_form(told: Store) -> None:
    assert rows(told, "select kind, text, json from events where session_id = 1 and seq = 5") == [
        ("AssistantText", "A comma deadlock.", '{"AssistantText":{"text":"A comma deadlock."}}')
    ]


def test_the_index_is_searched_and_ranked(told: Store) -> None:
    sql = (
        "select f.session_id, f.scope, f.text, f.rank = bm25(search_index) "
        "from search_index f join sessions s on s.id = f.session_id where search_index match 'dead* AND comma' "
        "order by rank, f.rowid"
    )
    assert rows(told, sql)[0] == (1, "answer", "A comma deadlock.", 1)


def test_events_are_found_by_a_session_s_uid_too(told: Store) -> None:
    uid = told.session(1).uid
    assert rows(
        told, "select event_text(?, 1), event_json(1, 1, 0), event_text(1, 99), event_text('none', 1)", uid
    ) == [("Why is it red?", '{"UserMessage":{"content":"Why is it red?"}}', None, None)]


def test_the_whole_event_is_asked_of_whoever_can_read_logs(told: Store) -> None:
    def full_form(session_id: int, seq: int, part: int | None) -> ToolResult:
        return ToolResult(content=f"{session_id} {seq} {part}")

    answer = told.execute_read_only("select event_full(1, 4), event_full(1, 4, 2)", full_form=full_form)
    assert answer.rows == [('{"ToolResult":{"content":"1 4 None"}}', '{"ToolResult":{"content":"1 4 2"}}')]


def test_without_a_reader_of_logs_there_is_no_whole_event(told: Store) -> None:
    with pytest.raises(errors.SqlWrong, match="full_form"):
        told.execute_read_only("select event_full(1, 4)")


def test_values_may_be_bound(told: Store) -> None:
    assert rows(told, "select name from sessions where name = ?", "Fix the build") == [("Fix the build",)]


def test_columns_of_one_name_stay_two(told: Store) -> None:
    assert told.execute_read_only("select 1 as a, 2 as a").columns == ["a", "a"]


def test_an_answer_without_rows_has_its_columns(told: Store) -> None:
    answer = told.execute_read_only("select id, name from sessions where false")
    assert (answer.columns, answer.rows, answer.truncated) == (["id", "name"], [], False)


# what is written for other stores


COPILOT = {
    "SELECT id, summary, branch, repository, created_at, updated_at FROM sessions "
    "WHERE updated_at >= datetime('2026-09-21', '-1 day') ORDER BY updated_at DESC": 4,
    "SELECT session_id, ref_type, ref_value FROM session_refs WHERE session_id IN (1, 2)": 1,
    "SELECT content, session_id, source_type, rank FROM search_index WHERE search_index MATCH 'comma' "
    "ORDER BY rank LIMIT 20": 2,
    "SELECT s.id, s.cwd, s.host_type, t.turn_index, t.user_message, t.assistant_response, t.timestamp "
    "FROM sessions s JOIN turns t ON t.session_id = s.id WHERE s.repository = 'octo/app' ORDER BY t.turn_index": 1,
    "SELECT file_path, tool_name, turn_index, first_seen_at FROM session_files WHERE file_path LIKE '%a.py'": 2,
    "SELECT checkpoint_number, title, overview, history, work_done, technical_details, important_files, next_steps, "
    "created_at FROM checkpoints WHERE session_id = 1 ORDER BY checkpoint_number DESC LIMIT 1": 1,
    "SELECT session_id, COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(COALESCE(input_tokens, 0) + "
    "COALESCE(output_tokens, 0)), COUNT(DISTINCT model) FROM assistant_usage_events GROUP BY session_id": 3,
    "SELECT model, SUM(total_nano_aiu) / 1e11 AS usd FROM assistant_usage_events GROUP BY model": 2,
    "SELECT session_id, NTILE(4) OVER (PARTITION BY session_id ORDER BY id) AS quarter, input_tokens "
    "FROM assistant_usage_events": 3,
    "SELECT COUNT(*), MAX(LENGTH(user_message)), AVG(LENGTH(user_message)) FROM turns "
    "WHERE LENGTH(user_message) > 4000": 1,
    "SELECT session_id, COUNT(*), COUNT(DISTINCT file_path), COUNT(DISTINCT tool_name) FROM session_files "
    "GROUP BY session_id": 2,
    "SELECT src, name, description, content FROM dynamic_context_items WHERE repository = 'octo/app' "
    "AND branch = 'main' ORDER BY read_count DESC": 0,
}  # fmt: skip


@pytest.mark.parametrize("sql", COPILOT)
def test_sql_for_copilot_s_store_runs(told: Store, sql: str) -> None:
    assert len(rows(told, sql)) == COPILOT[sql]


def test_tokens_are_counted_as_copilot_counts_them(told: Store) -> None:
    asked = "select input_tokens, cache_read_tokens, total_nano_aiu from assistant_usage_events where session_id = 1"
    assert rows(told, asked) == [(40, 30, 50_000_000_000)]


ANCESTRY = """
with recursive ancestry(id, parent_id, depth) as (
  select id, parent_id, 0 from messages where id = ? union all
  select m.id, m.parent_id, depth + 1 from messages m join ancestry a on m.id = a.parent_id
) select id from ancestry order by depth desc"""


def test_ah_s_ancestry_walks_up_a_branch(told: Store) -> None:
    assert rows(told, ANCESTRY, 204) == [(201,), (202,), (204,)]


def test_ah_s_leaves_are_the_tips_of_the_branches(told: Store) -> None:
    sql = "select id from messages where {} and id not in (select parent_id from messages where parent_id is not null)"
    sql = sql.format("session_id = 5")
    assert rows(told, sql) == [(203,), (204,)]


def test_ah_s_messages_have_roles_and_seconds(told: Store) -> None:
    sql = "select role, seq, created_at, input_tokens, stop_reason from messages where session_id = 1 order by seq"
    assert rows(told, sql) == [
        ("user", 1, BEGUN // 1000, None, None),
        ("assistant", 3, BEGUN // 1000, None, None),
        ("user", 4, BEGUN // 1000, None, None),
        ("assistant", 5, BEGUN // 1000, 40, "end_turn"),
    ]


def test_ah_s_blocks_join_a_result_to_its_call(told: Store) -> None:
    sql = (
        "select u.tool_name, u.tool_input, r.tool_output, r.is_error from content_blocks u "
        "join content_blocks r on r.tool_id = u.tool_id and r.block_type = 'tool_result' "
        "where u.block_type = 'tool_use' and u.session_id = 1"
    )
    assert rows(told, sql) == [("Bash", '{"command":"make | tee log"}', "line 8\nline 9", 1)]


def test_ah_s_orphans_are_none(told: Store) -> None:
    sql = (
        "select m.id from messages m left join content_blocks b on b.message_id = m.id "
        "where not exists (select 1 from messages c where c.parent_id = m.id) group by m.id having count(b.id) = 0"
    )
    assert rows(told, sql) == []


def test_ah_s_context_tells_name_and_tip(told: Store) -> None:
    (tip,) = rows(told, "select id from messages where session_id = 1 and seq = 5")
    assert rows(told, "select key, value from context where session_id = 1") == [
        ("session_name", "Fix the build"),
        ("current_message", *tip),
        ("session_state", "closed"),
    ]


# how it is looked up

PLANS = {
    "select * from sessions where repository = 'octo/app'": "idx_sessions_repo",
    "select * from sessions where cwd = '/w/app'": "idx_sessions_cwd",
    "select s.summary from session_files f join sessions s on s.id = f.session_id where f.file_path = '/x'":
        "idx_session_files_path",
    "select s.* from session_refs r join sessions s on s.id = r.session_id "
    "where r.ref_type = 'pr' and r.ref_value = '12'": "idx_session_refs_type_value",
    "select * from turns where session_id = 1 order by turn_index": "idx_turns_session",
    "select c.title from sessions s join checkpoints c on c.session_id = s.id where s.uid = 'x'":
        "sqlite_autoindex_checkpoints_1",
}  # fmt: skip


@pytest.mark.parametrize("sql", PLANS)
def test_the_natural_question_uses_its_index(told: Store, sql: str) -> None:
    plan = [detail for *_, detail in rows(told, f"explain query plan {sql}")]
    assert any(re.search(rf"\bUSING (COVERING )?INDEX {PLANS[sql]}\b", step) for step in plan), plan
    assert not any(step.startswith(("SCAN s", "SCAN f", "SCAN r", "SCAN t", "SCAN c")) for step in plan[:1]), plan


@pytest.mark.parametrize("view", ["events", "tool_calls", "messages", "content_blocks", "usage", "turns"])
def test_a_session_s_part_of_a_view_is_not_looked_for_in_the_others(told: Store, view: str) -> None:
    plan = [detail for *_, detail in rows(told, f"explain query plan select * from {view} where session_id = 1")]
    assert [step for step in plan if re.match(r"SCAN (e|t|main\.\w+)$", step)] == []


# what is refused

CHANGING = {
    "insert into sessions(uid) values ('x')": "INSERT",
    "insert into main.sessions(uid) values ('x')": "INSERT",
    "update sessions set name = 'x'": "UPDATE",
    "update main.sessions set name = 'x'": "UPDATE",
    "delete from main.sessions": "DELETE",
    "replace into main.meta values ('a', 'b')": "REPLACE",
    "with x as (select 1) insert into main.sessions(uid) select 1 from x": "INSERT",
    "explain insert into main.sessions(uid) values ('x')": "INSERT",
    "insert into search_index(search_index) values ('rebuild')": "INSERT",
    "create table t(a)": "CREATE",
    "create temp table t(a)": "CREATE",
    "create view v as select 1": "CREATE",
    "drop table main.sessions": "DROP",
    "alter table main.sessions add column x": "ALTER",
    "attach 'other.db' as other": "ATTACH",
    "detach temp": "DETACH",
    "pragma user_version": "PRAGMA",
    "pragma query_only = 0": "PRAGMA",
    "select * from pragma_table_info('sessions')": "PRAGMA",
    "begin": "BEGIN",
    "commit": "COMMIT",
    "rollback": "ROLLBACK",
    "savepoint a": "SAVEPOINT",
    "vacuum": "VACUUM",
    "vacuum into 'copy.db'": "VACUUM",
    "analyze": "ANALYZE",
    "reindex": "REINDEX",
    "/* reading? */ -- no\n Delete from main.sessions": "Delete",
    "select load_extension('x')": "load_extension",
    "select fts3_tokenizer('simple')": "fts3_tokenizer",
    "select sqlite_log(1, 'x')": "sqlite_log",
    "select json_patch('{}', '{}')": "json_patch",
}


@pytest.mark.parametrize("sql", CHANGING)
def test_only_reading_is_allowed(told: Store, sql: str) -> None:
    with pytest.raises(errors.OnlyReading, match=rf"(?i)query is read-only.*{CHANGING[sql]}"):
        told.execute_read_only(sql)


def test_a_view_is_not_changed_behind_a_with(told: Store) -> None:
    with pytest.raises(errors.OnlyReading):
        told.execute_read_only("with x as (select 1) update sessions set name = 'x'")


@pytest.mark.parametrize("function", ["readfile('/etc/passwd')", "writefile('x', 'y')", "edit('x')"])
def test_functions_that_reach_files_are_not_there(told: Store, function: str) -> None:
    with pytest.raises(errors.SqlWrong, match="no such function"):
        told.execute_read_only(f"select {function}")


@pytest.mark.parametrize(
    ("sql", "row"),
    [
        ("select 'attach; pragma x; vacuum'", ("attach; pragma x; vacuum",)),
        ("select 'it''s; drop'", ("it's; drop",)),
        ('select 1 as "delete; x"', (1,)),
        ("select 1 as [begin; x]", (1,)),
        ("select 1 as `end; x`", (1,)),
        ("select replace('abc', 'b', 'x')", ("axc",)),
        ("select 1 -- ; select 2", (1,)),
        ("select /* ; */ 5 - 2 / 1", (3,)),
        ("select 1; -- that is all\n /* really; */ ;; \n", (1,)),
        (";; select 1", (1,)),
        ("values (1)", (1,)),
    ],
)
def test_words_are_only_refused_where_they_are_statements(told: Store, sql: str, row: tuple[Any, ...]) -> None:
    assert rows(told, sql) == [row]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("", "no statement"),
        (" \n\t", "no statement"),
        ("-- nothing", "no statement"),
        ("/* nothing", "no statement"),
        (";;", "no statement"),
        ("select 1; select 2", "several statements"),
        ("select 1; delete from main.sessions", "several statements"),
        ("select 'a';'b'", "several statements"),
        ("select 1\0", "NUL"),
        ("select '\udcff'", "UTF-8"),
        ("selct 1", "syntax error"),
        ("select 'open", "unrecognized token"),
        ("select number_of_things from sessions", "no such column"),
        ("select * from nowhere", "no such table"),
        ("select ?", "bindings"),
        ("select rank from search_index where search_index match '\"'", "unterminated string"),
        (f"select 1{' + 1' * 400}", "maximum depth"),
        (f"select {' union select '.join(map(str, range(200)))}", "compound"),
        (f"select 'a' like '{'%a' * 300}'", "pattern too complex"),
        (f"select {'1,' * 600}1", "too many columns"),
    ],
)
def test_sql_that_cannot_be_run_says_why(told: Store, sql: str, why: str) -> None:
    with pytest.raises(errors.SqlWrong, match=why):
        told.execute_read_only(sql)


def test_asking_leaves_the_folder_as_it_was(told: Store) -> None:
    before = listing(told.path.parent)
    for sql in ("select * from turns", "select count(*) from search_index where search_index match 'comma'"):
        told.execute_read_only(sql)
    with pytest.raises(errors.OnlyReading):
        told.execute_read_only("delete from main.sessions")
    assert listing(told.path.parent) == before


def test_a_store_in_a_folder_that_cannot_be_written_is_asked_too(told: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert rows(told, "select count(*) from sessions") == [(4,)]


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(errors.StoreNotFound):
        open_store(tmp_path / "none.bks").execute_read_only("select 1")
    assert list(tmp_path.iterdir()) == []


def test_an_older_store_says_what_brings_it_up_to_date(tmp_path: Path) -> None:
    copy = make_golden.derived_earlier(tmp_path / "copy.bks")
    with pytest.raises(errors.StoreOutdated, match="backstory ingest"):
        open_store(copy).execute_read_only("select * from sessions")
    with open_store(copy) as store:
        store.make_ready()
        assert len(rows(store, "select * from sessions")) > 0


# what ends by itself


def test_endless_rows_end_at_the_limit(told: Store) -> None:
    answer = told.execute_read_only(ENDLESS.format("x"), 5)
    assert (answer.rows, answer.truncated, answer.stopped_by) == ([(1,), (2,), (3,), (4,), (5,)], True, "rows")


def test_an_answer_of_just_so_many_rows_is_whole(told: Store) -> None:
    assert not told.execute_read_only("values (1), (2)", 2).truncated


@pytest.mark.parametrize("what", ["count(*)", "max(x)", "group_concat(distinct x % 7)"])
def test_an_endless_question_ends_at_the_deadline(told: Store, what: str) -> None:
    with pytest.raises(errors.SqlTooSlow, match=r"0\.05 s"):
        told.execute_read_only(ENDLESS.format(what), timeout_s=0.05)


def test_sorting_a_thousand_million_rows_ends_at_the_deadline(told: Store) -> None:
    with pytest.raises(errors.SqlTooSlow):
        told.execute_read_only(f"{ENDLESS.format('x')} order by x desc", timeout_s=0.05)


@pytest.mark.slow
def test_the_deadline_holds_where_one_of_sqlites_steps_takes_long(told: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readonly, "STEPS_BETWEEN_LOOKS", 300_000_000)
    began = time.thread_time()
    with pytest.raises(errors.SqlTooSlow):
        told.execute_read_only(ENDLESS.format("count(*)"), timeout_s=0.5)
    assert time.thread_time() - began < 1.0


@pytest.mark.slow
def test_rows_found_before_the_deadline_are_given(told: Store) -> None:
    sql = "select 1 union all select * from (with recursive n(x) as (select 1 union all select x + 1 from n) "
    answer = told.execute_read_only(f"{sql} select count(*) from n)", timeout_s=1.0)
    assert (answer.rows, answer.stopped_by) == ([(1,)], "time")


@pytest.mark.parametrize(
    "value", ["zeroblob(1e9)", "randomblob(1e9)", "printf('%.*c', 1000000000, 'x')", "hex(zeroblob(1e7))"]
)
def test_a_giant_value_is_refused(told: Store, value: str) -> None:
    with pytest.raises(errors.SqlTooBig, match="16 MB"):
        told.execute_read_only(f"select {value}")


def test_many_large_values_end_at_a_number_of_bytes(told: Store) -> None:
    answer = told.execute_read_only(ENDLESS.format("zeroblob(10000000)"))
    assert (len(answer.rows), answer.stopped_by) == (4, "bytes")


def test_one_row_of_many_large_values_is_refused(told: Store) -> None:
    with pytest.raises(errors.SqlTooBig):
        told.execute_read_only(f"select {', '.join(['hex(randomblob(8000000))'] * 20)}", timeout_s=60)


@pytest.mark.slow
def test_memory_stays_bounded_whatever_is_asked(told: Store) -> None:
    asking = (
        f"{PROGRAM}import sys\nfrom backstory.errors import BackstoryError\nfrom backstory.store import open_store\n"
        "before = peak_kib()\n"
        "for sql in sys.argv[2:]:\n    try: open_store(sys.argv[1]).execute_read_only(sql, 10**9, timeout_s=1)\n"
        "    except BackstoryError: pass\n"
        "print((peak_kib() - before) // 1024)"
    )
    greedy = [
        ENDLESS.format("x"),
        ENDLESS.format("hex(randomblob(1000000))"),
        ENDLESS.format("percentile(x, 50)"),
        f"{ENDLESS.format('x')} order by x desc",
        f"select {', '.join(['hex(randomblob(8000000))'] * 50)}",
    ]
    done = subprocess.run(
        [sys.executable, "-c", asking, told.path, *greedy], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 450


def test_the_limit_on_memory_is_gone_afterwards(told: Store) -> None:
    before = (apsw.hard_heap_limit(-1), apsw.soft_heap_limit(-1))
    told.execute_read_only("select 1")
    assert (apsw.hard_heap_limit(-1), apsw.soft_heap_limit(-1)) == before


@pytest.mark.parametrize(
    "sql", ["instr({0}, {1} || 'b')", "replace({0}, {1} || 'b', 'c')", "trim({0} || 'c', {1} || 'b')"]
)
def test_long_texts_are_searched_in_time_that_grows_with_their_length(told: Store, sql: str) -> None:
    long = "replace(hex(zeroblob({})), '0', 'a')"
    asked = f"select length({sql.format(long.format(1_000_000), long.format(500_000))})"
    began = time.process_time()
    told.execute_read_only(asked, timeout_s=60)
    assert time.process_time() - began < 5


SAME = [
    "instr('abc', 'c')", "instr('abc', 'x')", "instr('abc', '')", "instr(null, 'x')", "instr('x', null)",
    "instr(x'000102', x'02')", "instr(12345, 34)", "instr('héllo', 'llo')", "replace('aaa', 'a', 'bb')",
    "replace('abc', '', 'x')", "replace(null, 'a', 'b')", "replace('a', null, 'b')", "replace('a', 'a', null)",
    "replace(121, 1, 3)", "replace(1.5, '.', ',')", "trim('xxaxx', 'x')", "ltrim('xyaxy', 'yx')",
    "rtrim('xyaxy', 'xy')", "trim('abc', '')", "trim(null, 'a')", "trim('a', null)", "trim('  a ')", "trim(121, 1)",
]  # fmt: skip


@pytest.mark.parametrize("call", SAME)
def test_our_text_functions_do_what_sqlite_s_do(told: Store, call: str) -> None:
    with closing(apsw.Connection(":memory:")) as plain:
        assert rows(told, f"select {call}") == plain.execute(f"select {call}").fetchall()


MANY_LETTERS = (
    "(select group_concat(char(x), '') from "
    "(with recursive n(x) as (select 33 union all select x + 1 from n limit 2000) select x from n))"
)


@pytest.mark.parametrize(
    "call", ["replace(hex(zeroblob(1000)), '0', hex(zeroblob(100000)))", f"trim('a', {MANY_LETTERS})"]
)
def test_our_text_functions_refuse_what_is_too_much(told: Store, call: str) -> None:
    with pytest.raises(errors.SqlWrong, match=r"more than 16 MB|at most 1000"):
        told.execute_read_only(f"select {call}")


ODD = ["null", "'no event'", "x'28b52ffd00'", "x'00ff'", "1.5", "9223372036854775807", "'{}'", "'[]'", "'7'"]
CALLS = [
    "event_text({})", "event_json({})", "event_text({}, 1)", "event_text(1, {})", "event_text(1, 1, {})",
    "event_full({}, 1)", "event_full(1, {})", "event_full(1, 1, {})", "event_field({}, 'input')",
    "full_field({0}, {0}, {0}, {0}, {0})", "instr({0}, {0})", "replace({0}, {0}, {0})", "trim({0}, {0})",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_odd_arguments_are_answered_or_refused(told: Store, call: str) -> None:
    answered = 0
    for odd in ODD:
        with contextlib.suppress(errors.SqlWrong):
            answer = told.execute_read_only(
                f"select {call.format(odd)}", full_form=lambda *_: AssistantText(text="whole")
            )
            answered += len(answer.rows)
    assert answered > 0


def test_a_damaged_event_is_said_to_be_none(told: Store) -> None:
    with pytest.raises(errors.SqlWrong, match="backstory verify"):
        told.execute_read_only("select event_text('no event')")
