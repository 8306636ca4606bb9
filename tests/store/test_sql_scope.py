"""SQL of some sessions alone: whatever is asked, no word of another session is returned, nor its uid or name."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from backstory import errors
from backstory.ask import readonly
from backstory.ask.sql_scope import OF_SESSIONS, SqlScope, may_be_text, names_main
from backstory.model import AssistantText, ToolCall, ToolResult, UserMessage
from backstory.store import Store, open_store, schema
from backstory.store.tables import decisions
from tests.support.every import every

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "sk-ant-chinchilla"
HIDDEN = "chinchilla"
"""Is in every text of the sessions that may not be seen."""
VIEWS = [each.name for each in readonly.views()]


def without_hints(text: str) -> str:
    return text


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(tmp_path_factory.mktemp("scoped") / "store.bks") as store:
        for word in ("capybara", HIDDEN, "wombat", HIDDEN):
            session = store.create_session(f"{word} plan", worktree=f"/w/{word}")
            call = ToolCall(tool_use_id="c", tool_name="Bash", tool="SHELL", input={"command": f"run {word}"})
            result = ToolResult(tool_use_id="c", tool_name="Bash", tool="SHELL", content=f"{word} ran", is_error=True)
            read = ToolCall(tool_use_id="d", tool_name="Read", tool="READ", file_path=f"/w/{word}.py")
            store.append_events(
                session,
                [
                    UserMessage(content=f"Find the {word}"),
                    call,
                    result,
                    read,
                    AssistantText(text=f"Here is the {word}"),
                ],
            )
            store.mark_completed(session, 10, 0.5)
            store.decide(decisions.set_context, session.uid, f"key of {word}", f"{word} value", store.now())
        yield store


@pytest.fixture(scope="module")
def scope(store: Store) -> SqlScope:
    rows = store.execute_read_only(f"select id from sessions where name not like '%{HIDDEN}%'").rows
    assert len(rows) == 2
    return SqlScope(session_ids=frozenset(each for (each,) in rows), mask=without_hints)


@pytest.fixture(scope="module")
def secrets(store: Store) -> list[str]:
    """What no answer may hold."""
    hidden = store.execute_read_only(f"select uid from sessions where name like '%{HIDDEN}%'").rows
    turns = store.execute_read_only(f"select uid from turns where user_message like '%{HIDDEN}%'").rows
    assert len(hidden) == len(turns) == 2
    return [HIDDEN, HIDDEN.encode().hex(), *(uid for (uid,) in [*hidden, *turns])]


def answer(store: Store, scope: SqlScope, sql: str, **how: Any) -> list[tuple[Any, ...]]:
    return store.execute_read_only(sql, scope=scope, timeout_s=20, **how).rows


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_has_the_rows_of_the_scope(store: Store, scope: SqlScope, secrets: list[str], view: str) -> None:
    found = answer(store, scope, f"select * from {view}")
    everything = store.execute_read_only(f"select * from {view}")
    assert not any(word in str(found).lower() for word in (each.lower() for each in secrets))
    assert len(found) * 2 == len(everything.rows)
    assert answer(store, scope, f"select count(*) from {view}") == [(len(found),)]
    columns = store.execute_read_only(f"select * from {view}", scope=scope).columns
    assert columns == everything.columns


def test_views_of_the_scope_answer_joins_groups_and_subqueries(store: Store, scope: SqlScope) -> None:
    assert answer(store, scope, "select tool_name, count(*), sum(is_error) from tool_calls group by 1 order by 1") == [
        ("Bash", 2, 2), ("Read", 2, None),
    ]  # fmt: skip
    sql = "select s.name, t.user_message from sessions s join turns t on t.session_id = s.id order by 1 limit 1"
    assert answer(store, scope, sql) == [("capybara plan", "Find the capybara")]
    assert answer(store, scope, "with w as (select * from turns) select count(*) from w") == [(2,)]
    assert answer(store, scope, "select value from json_each('[7]')") == [(7,)]
    assert answer(store, scope, "select name from sessions where branch is not 'main' and 'main' = 'main' limit 1")


REFUSED = [
    "select * from main.sessions",
    "select count(*) from main.sessions",
    'select * from "main".turns',
    "select * from [main] . turns",
    "select * from `MAIN`.turns",
    "select * from 'main'.turns",
    "select count(*) from main \ufeff.sessions",
    'select count(*) from "main"\ufeff.sessions',
    "select count(*) from main\ufeff .sessions",
    "select * from main/* x */./* y */turns",
    "select * from main -- x\n .turns",
    "select main.sessions.uid from sessions",
    "select (select prompt from main.turns limit 1)",
    "select 1 where exists (select 1 from main.turns)",
    "with sessions as (select * from main.sessions) select * from sessions",
    "with turns_of as (select prompt from main.turns) select * from turns_of",
    "select * from (select * from main.sessions) sessions",
    "with recursive n(x) as (select min(id) from main.sessions union all select x + 1 from n) select * from n limit 3",
    "values ((select uid from main.sessions limit 1))",
    "select * from logs",
    "select count(*) from logs",
    "select count(*) from chunks",
    "select count(*) from lent",
    "select data from chunks",
    "select count(*) from call_results",
    "select * from turn_texts",
    "select * from file_touches",
    "select * from context_items",
    "select count(*) from context_items",
    "select * from meta",
    "select * from forgotten",
    "select * from dictionaries",
    "select * from sqlite_schema",
    "select * from sqlite_master",
    "select sql from temp.sqlite_schema",
    "select * from sqlite_temp_master",
    "select * from temp.sqlite_temp_schema",
    "select * from sqlite_sequence",
    "select * from main.search_index where search_index match 'plan'",
    "select * from search_index_data",
    "select * from search_index_content",
    "select count(*) from search_index_docsize",
    "select * from search_index_config",
    "select * from search_index_idx",
    "select (select count(*) from search_index_content) from search_index where search_index match 'plan'",
    "select x.* from search_index f join search_index_content x on x.id = f.rowid where search_index match 'find'",
    "select * from side_texts",
    "select * from sidecars",
    "select * from claimed",
    "select * from answers",
    "select * from scope",
    "select * from temp.scope",
    "select * from pragma_table_info('sessions')",
    "select * from pragma_database_list",
    "pragma table_list",
    "pragma database_list",
    "attach ':memory:' as x",
    "attach 'store.bks' as x",
    "explain select * from main.sessions",
    "select * from dbstat",
    "select * from sqlite_stmt",
    "select masked('x')",
    "create temp view sessions as select * from main.sessions",
    "insert into sessions(uid) values ('x')",
    "with x as (select 1) delete from turns",
    "select load_extension('x')",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_what_lies_below_the_views_is_refused(store: Store, scope: SqlScope, secrets: list[str], sql: str) -> None:
    with pytest.raises((errors.OnlyReading, errors.SqlWrong)) as refused:
        answer(store, scope, sql)
    assert not any(word in str(refused.value) for word in secrets)


FUNCTIONS = [
    "event_text({0}, 1)", "event_text({0}, 1, 0)", "event_json({0}, 1)", "event_full({0}, 1)", "event_full({0}, 1, 0)",
    "full_field({0}, 1, 0, null, 'content')", "full_field({0}, 1, 0, '{{\"A\":{{}}}}', 'content')",
    "branch_number({0}, (select uid from turns limit 1))", "turn_depth({0}, 'x')", "is_current({0}, 'x', 1)",
    "is_rewound({0}, 'x')", "current_message({0})", "message_above({0}, 'x')", "turn_cost({0}, 2, 'usd')",
    "row_text({0}, (select min(rowid) from search_index))", "row_text({0}, 1)",
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_function_answers_about_another_session(store: Store, scope: SqlScope, function: str) -> None:
    def full_form(session_id: int, seq: int, part: int | None) -> UserMessage:
        assert session_id in scope.session_ids
        return UserMessage(content="Find the capybara")

    hidden = store.execute_read_only(f"select id, uid from sessions where name like '%{HIDDEN}%'").rows
    for session in (each for row in hidden for each in (str(row[0]), f"'{row[1]}'", f"{row[0]}.0", f"'{row[0]}'")):
        assert answer(store, scope, f"select {function.format(session)}", full_form=full_form) == [(None,)]
    seen = min(scope.session_ids)
    if function.startswith(("event_text", "event_json")):
        assert "capybara" in str(answer(store, scope, f"select {function.format(seen)}"))


def test_the_index_has_the_rows_of_the_scope(store: Store, scope: SqlScope) -> None:
    found = "from search_index where search_index match '{}'"
    assert answer(store, scope, f"select session_id, text, source_id {found.format('find')} order by 1") == [
        (1, "Find the capybara", "1:turn:0"), (3, "Find the wombat", "3:turn:0"),
    ]  # fmt: skip
    for words in (HIDDEN, f"find AND {HIDDEN}", "chin*", f"find NOT {HIDDEN}"):
        rows = answer(store, scope, f"select session_id, rank, text {found.format(words)}")
        assert not any(HIDDEN in str(row) for row in rows)
        assert {row[0] for row in rows} <= scope.session_ids
    assert answer(store, scope, f"select count(*) {found.format(HIDDEN)}") == [(0,)]
    assert answer(store, scope, f"select highlight(search_index, 0, '[', ']') {found.format('find')}") == [(None,)] * 2


def test_words_of_the_index_are_masked(store: Store, scope: SqlScope) -> None:
    masked = structs.replace(scope, mask=lambda text: text.replace("capybara", "***"))
    sql = "select text from search_index where search_index match 'capybara' order by rowid"
    assert answer(store, masked, sql)[0] == ("Find the ***",)


def test_the_function_of_titles_tells_no_prompt_in_a_scope(store: Store, scope: SqlScope) -> None:
    ((hidden,), *_) = store.execute_read_only(f"select id from sessions where name like '%{HIDDEN}%'").rows
    for session in (hidden, min(scope.session_ids)):
        with pytest.raises((errors.OnlyReading, errors.SqlWrong)):
            answer(store, scope, f"select saying({session}, '1')")


def test_texts_are_masked_before_anything_can_be_made_of_them(store: Store, scope: SqlScope) -> None:
    masked = SqlScope(session_ids=scope.session_ids, mask=lambda text: re.sub("(?i)capybara", "[x]", text))
    for view in VIEWS:
        assert "capybara" not in str(answer(store, masked, f"select * from {view}")).replace("/w/capybara", "").lower()
    for made in ("hex(user_message)", "substr(user_message, 10)", "upper(user_message)", "group_concat(user_message)"):
        found = str(answer(store, masked, f"select {made} from turns"))
        assert "CAPYBARA" not in found.upper() and "pybara" not in found and b"capybara".hex().upper() not in found
    for function in ("event_text", "event_json"):
        assert "[x]" in str(answer(store, masked, f"select {function}(id, 1) from sessions order by id limit 1"))


PIECES = st.sampled_from([
    "select", "*", "uid", "from", "main", ".", "sessions", "turns", "temp", '"main"', "[main]", "'main'", "`main`", "(",
    ")", ",", "as", "with", "union all", "join", "logs", "sqlite_schema", "search_index", "where", "1", "exists", "x",
    "limit 5", "/**/", "--\n", "prompt", "event_text", "id", "claimed", "natural", "left join", "user_message",
    "count(*)",
    "MAIN", "\n", "event_json(2,1)", "group by", "order by", "recursive", "on 1", "name", "main.sessions", "s",
])  # fmt: skip


@given(st.lists(PIECES, min_size=3, max_size=14))
def test_no_statement_returns_a_word_of_another_session(
    store: Store, scope: SqlScope, secrets: list[str], pieces: list[str]
) -> None:
    for sql in (
        f"select {' '.join(pieces)}",
        f"select * from ({' '.join(pieces)})",
        f"with x as ({' '.join(pieces)}) select * from x",
    ):
        try:
            found = answer(store, scope, sql, limit=200)
        except errors.BackstoryError as refused:
            assert not any(word in str(refused) for word in secrets)
            continue
        assert not any(word.lower() in str(found).lower() for word in secrets), sql


@every(
    ("sql", "names"),
    [
        ("select * from main.turns", True), ("select * from MAIN . turns", True), ("select 'main.turns'", False),
        ("select * from turns where branch = 'main'", False), ("select domain.x from domain", False),
        ("select x from y where b='main' .5", True), ('select "main" /* . */ from t', False),
        ("select * from turns -- main.turns", False), ("select a.main from a", False),
        ("select * from ma/**/in.turns", False),
    ],
)  # fmt: skip
def test_a_table_below_is_known_by_main_before_it(sql: str, names: bool) -> None:
    tokens = [each for each in readonly._TOKEN.findall(sql) if not each.startswith(("--", "/*"))]
    assert names_main(tokens) == names


def test_without_a_scope_everything_is_as_before(store: Store) -> None:
    assert store.execute_read_only("select count(*) from main.sessions").rows == [(4,)]
    assert store.execute_read_only("select count(*) from search_index where search_index match 'plan OR find'").rows


def test_an_empty_scope_sees_nothing(store: Store) -> None:
    nothing = SqlScope(session_ids=frozenset(), mask=without_hints)
    assert [answer(store, nothing, f"select * from {view}") for view in VIEWS] == [[]] * len(VIEWS)


def test_the_store_is_not_changed(store: Store, scope: SqlScope, tmp_path: Path) -> None:
    before = store.path.read_bytes()
    answer(store, scope, "select * from sessions")
    assert store.path.read_bytes() == before


@pytest.fixture(scope="module")
def columns(store: Store) -> dict[str, dict[str, str]]:
    """The columns, with their types, of the tables that views read."""
    sql = readonly._views_sql()
    tables = set(re.findall(r"\bmain\.(\w+)", re.sub(r"--[^\n]*", "", sql)))
    db = apsw.Connection(str(store.path), flags=apsw.SQLITE_OPEN_READONLY)
    return {
        table: {str(row[1]): str(row[2]).lower() for row in db.execute(f"pragma table_xinfo({table})")}
        for table in sorted(tables)
    }


def test_a_table_that_views_read_is_limited_to_the_sessions_of_the_scope(columns: dict[str, dict[str, str]]) -> None:
    assert {table for table, names in columns.items() if "session_id" in names} - OF_SESSIONS == set()
    assert {"sessions", "turns", "events", "session_files"} <= set(columns)


@pytest.fixture(scope="module")
def full_of_secrets(
    store: Store, columns: dict[str, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Store:
    """A store with a row in each table, and a secret in each text that is not named as plain."""
    path = tmp_path_factory.mktemp("secrets") / "store.bks"
    store.backup(path)
    with closing(apsw.Connection(str(path))) as db:
        db.execute("pragma foreign_keys = off; drop trigger if exists path_changed")
        for table, kinds in columns.items():
            if table in ("events", "call_results"):
                continue
            if table == "meta":
                # Views read those of its rows that a person gave a context; without others it is no store.
                db.execute(
                    f"update meta set key = substr(key, 1, 35) || '{SECRET}', value = '{SECRET}' "
                    "where key like 'context %'"
                )
                assert db.changes()
                continue
            texts = [
                name for name, kind in kinds.items() if may_be_text(kind) and name not in schema.plain_texts(table)
            ]
            if not db.execute(f"select exists (select 1 from {table})").get:
                needed = [row[1] for row in db.execute(f"pragma table_info({table})") if row[3] or row[5]]
                values = ", ".join("1" if not may_be_text(kinds[name]) else f"'{name}'" for name in needed)
                db.execute(f"insert into {table}({', '.join(needed)}) values ({values})")
            for name in texts:
                db.execute(f"update {table} set {name} = '{SECRET}' || abs(random())")
    return open_store(path)


@pytest.mark.parametrize("view", VIEWS)
def test_no_text_of_a_view_is_given_as_it_is_unless_it_is_named_as_plain(full_of_secrets: Store, view: str) -> None:
    everything = frozenset(range(100))
    scope = SqlScope(session_ids=everything, mask=lambda text: text.replace(SECRET, "[masked]"))
    names = full_of_secrets.execute_read_only(f"select * from {view} limit 0", scope=scope).columns
    for name in names:
        asked = f"select hex({name}), {name} || '' from {view}"
        shown = str(full_of_secrets.execute_read_only(asked, scope=scope).rows)
        assert SECRET not in shown and SECRET.encode().hex().upper() not in shown, name
