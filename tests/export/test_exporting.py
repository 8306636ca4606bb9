"""Sessions in the form of another tool's store: read back by a SQLite that knows nothing of us."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from click.testing import CliRunner

from backstory.cli import cli
from backstory.conversation.board import BoardKey
from backstory.errors import CannotWrite, FileInTheWay
from backstory.exchange import replication
from backstory.export.exporting import Chosen, WrittenFile, everything, export, formats, these, with_notes
from backstory.model import UserMessage
from backstory.store import open_store
from backstory.store.tables import boarding
from backstory.store.tables.board_items import NewItem
from tests.support.clock import NOW
from tests.support.machines import SMALL, Machine, lines
from tests.support.masks import NumberedRedactor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.conversation.board import Src

CASES = Path(__file__).parent.parent / "agents" / "cases" / "copilot"
SESSIONS = Path(".copilot/session-state")
SESSION = "514f3844-2975-44e4-a4d0-211fd59e36e9"
NOW_TEXT = "2026-09-21T14:13:20.000Z"
"""The tests' present, as rows tell it."""

REINDEXED = json.loads(Path(__file__).with_name("reindexed.json").read_text("utf-8"))
"""What the reindex of client 1.0.102 itself made of the recorded logs at that time, by table, in order."""

COLUMNS = {
    "schema_version": "version:INTEGER!",
    "sessions": "id:TEXT cwd:TEXT repository:TEXT host_type:TEXT branch:TEXT summary:TEXT created_at:TEXT=now "
    "updated_at:TEXT=now",
    "turns": "id:INTEGER session_id:TEXT! turn_index:INTEGER! user_message:TEXT assistant_response:TEXT "
    "timestamp:TEXT=now",
    "checkpoints": "id:INTEGER session_id:TEXT! checkpoint_number:INTEGER! title:TEXT overview:TEXT history:TEXT "
    "work_done:TEXT technical_details:TEXT important_files:TEXT next_steps:TEXT created_at:TEXT=now",
    "session_files": "id:INTEGER session_id:TEXT! file_path:TEXT! tool_name:TEXT turn_index:INTEGER "
    "first_seen_at:TEXT=now",
    "session_refs": "id:INTEGER session_id:TEXT! ref_type:TEXT! ref_value:TEXT! turn_index:INTEGER created_at:TEXT=now",
    "dynamic_context_items": "repository:TEXT! branch:TEXT! src:TEXT! name:TEXT! description:TEXT!='' "
    "content:TEXT!='' read_count:INTEGER!=0 count:INTEGER!=0",
}
"""Of each table its columns with their types; ``!``: never NULL, ``=``: what they are if nothing is said."""
UNIQUE = {
    "turns": ["session_id", "turn_index"],
    "checkpoints": ["session_id", "checkpoint_number"],
    "session_files": ["session_id", "file_path"],
    "session_refs": ["session_id", "ref_type", "ref_value"],
    "dynamic_context_items": ["repository", "branch", "src", "name"],
}
INDEXES = {
    "idx_sessions_repo": ["repository"],
    "idx_sessions_cwd": ["cwd"],
    "idx_session_files_path": ["file_path"],
    "idx_session_refs_type_value": ["ref_type", "ref_value"],
    "idx_turns_session": ["session_id"],
    "idx_checkpoints_session": ["session_id"],
    "idx_dynamic_context_repo_branch": ["repository", "branch"],
}
QUESTIONS = (
    "select summary, branch, repository, created_at, updated_at from sessions "
    "where updated_at >= datetime('2026-11-22', '-1 day') order by updated_at desc, summary",
    "select s.branch, r.ref_type, r.ref_value, r.turn_index, r.created_at from session_refs r "
    "join sessions s on s.id = r.session_id order by r.ref_type, r.ref_value",
    "select s.cwd, count(*), max(t.turn_index), min(t.timestamp) from turns t join sessions s on s.id = t.session_id "
    "group by t.session_id order by 1, 2, 3, 4",
    "select count(*), max(length(user_message)), avg(length(user_message)) from turns where length(user_message) > 20",
    "select count(*), count(distinct file_path), count(distinct tool_name) from session_files",
    "select f.file_path, f.tool_name, f.turn_index, f.first_seen_at from session_files f order by 1, 4, 2",
    "select distinct s.summary from sessions s join turns t on t.session_id = s.id "
    "where t.user_message like '%notes%' or t.assistant_response like '%notes%' order by 1",
    "select c.checkpoint_number, c.title, c.overview, c.history, c.work_done, c.technical_details, c.important_files, "
    "c.next_steps, c.created_at from checkpoints c order by c.created_at, 1",
    "with busy as (select session_id, count(*) as n from turns group by session_id having count(*) > 1) "
    "select s.summary, b.n from busy b join sessions s on s.id = b.session_id order by 1, 2",
    "select user_message, assistant_response from turns order by timestamp, user_message",
    "select count(*) from dynamic_context_items",
)
"""What was asked of such a store before."""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "out" / "session-store.db"


def put_recorded(machine: Machine) -> None:
    """Every recorded log, where its client would have put it."""
    for log in CASES.rglob("*.jsonl"):
        below = log.relative_to(CASES)
        machine.write(Path(".copilot", *below.parts[1:]), log.read_bytes())


def record(kind: str, at: int = 0, *, agent_id: str | None = None, timed: bool = True, **data: Any) -> bytes:
    said: dict[str, Any] = {"type": kind, "data": data, "id": f"{at:08}-{kind}"}
    if timed:
        said["timestamp"] = f"2026-05-01T10:00:{at:02}.000Z"
    return json.dumps(said | ({"agentId": agent_id} if agent_id else {})).encode()


def start(**context: Any) -> bytes:
    return record("session.start", sessionId=SESSION, version=1, producer="copilot-agent", context=context)


def prompt(text: str, at: int = 1, **more: Any) -> bytes:
    return record("user.message", at, content=text, transformedContent=f"<sent>{text}", **more)


def answer(text: str, at: int = 2, requests: list[str] | None = None, **more: Any) -> bytes:
    asked = [{"toolCallId": name, "name": name, "arguments": {}} for name in requests or []]
    return record("assistant.message", at, messageId=f"m{at}", content=text, toolRequests=asked, **more)


def call(name: str, arguments: Any, output: str = "", at: int = 3, **more: Any) -> list[bytes]:
    call_id = f"call-{name}-{at}-{len(str(arguments))}"
    result: dict[str, Any] = {"success": True, "result": {"content": output}, **more}
    return [
        record("tool.execution_start", at, toolCallId=call_id, toolName=name, arguments=arguments, **more),
        record("tool.execution_complete", at, toolCallId=call_id, **result),
    ]


def put(machine: Machine, *records: bytes, **beside: str | bytes) -> None:
    """A session's log, and files beside it: ``workspace`` is workspace.yaml, others are named by ``__`` for a slash."""
    machine.write(SESSIONS / SESSION / "events.jsonl", lines(*records))
    for name, content in beside.items():
        data = content.encode() if isinstance(content, str) else content
        path = "workspace.yaml" if name == "workspace" else name.replace("__", "/") + ".md"
        machine.write(SESSIONS / SESSION / path, data)


def exported(
    machine: Machine, target: Path, *, exact: bool = False, agents: tuple[str, ...] = ("copilot",)
) -> WrittenFile:
    report = machine.read(*agents)
    assert report.errors == []
    return export("copilot", everything([machine.store]), target, exact=exact, force=True, now=NOW)


def asked(target: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(target)) as db:
        return db.execute(sql).fetchall()


def exact(machine: Machine, target: Path, sql: str) -> list[Any]:
    """What a question gives in an exact export of a machine."""
    exported(machine, target, exact=True)
    return asked(target, sql)


# the file -----------------------------------------------------------------------------------------------------


def described(db: sqlite3.Connection, table: str) -> str:
    told = []
    for _, name, kind, is_set, default, _ in db.execute(f"pragma table_info({table})"):
        said = "" if default is None else "=" + default.replace("datetime('now')", "now")
        told.append(f"{name}:{kind}{'!' if is_set else ''}{said}")
    return " ".join(told)


def test_the_tables_are_those_of_version_3(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("q"))
    exported(machine, target)
    with closing(sqlite3.connect(target)) as db:
        assert {table: described(db, table) for table in COLUMNS} == COLUMNS
        assert db.execute("select version from schema_version").fetchall() == [(3,)]
        found = {name for (name,) in db.execute("select name from sqlite_schema where type in ('trigger', 'view')")}
        assert found == set()


@pytest.mark.parametrize("table", UNIQUE)
def test_what_is_unique_there_is_unique_here(machine: Machine, target: Path, table: str) -> None:
    put(machine, start(), prompt("q"))
    exported(machine, target)
    with closing(sqlite3.connect(target)) as db:
        unique = [row[1] for row in db.execute(f"pragma index_list({table})") if row[2]]
        columns = [[row[2] for row in db.execute(f"pragma index_info({name})")] for name in unique]
    assert UNIQUE[table] in columns


def test_the_indexes_have_the_names_and_columns_that_migrations_look_for(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("q"))
    exported(machine, target)
    with closing(sqlite3.connect(target)) as db:
        found = {name: [row[2] for row in db.execute(f"pragma index_info({name})")] for name in INDEXES}
    assert found == INDEXES


NOTES = (
    "select repository, branch, src, name, description, content, read_count, count from dynamic_context_items "
    "order by repository, src, name"
)


def put_notes(machine: Machine) -> None:
    """Notes about two repositories, of an agent and of a person; one was read, one removed."""
    put(machine, start(repository="octo/app", branch="main", cwd="/w"), prompt("hi"))
    machine.read("copilot")
    for repository, src, name in [
        ("octo/app", "agent", "build"), ("octo/app", "user", "build"), ("octo/app", "agent", "gone"),
        ("octo/other", "agent", "x"),
    ]:  # fmt: skip
        note = NewItem(cast("Src", src), name, "in a line", f"of {repository} hunter22", None)
        boarding.put(machine.store, BoardKey(repository, "main"), note)
    build, gone, _ = boarding.items(machine.store, BoardKey("octo/app", "main"))
    boarding.count_read(machine.store, build)
    boarding.remove(machine.store, [gone])


def test_boards_are_written_as_its_client_keeps_them(machine: Machine, target: Path) -> None:
    put_notes(machine)
    chosen = with_notes(everything([machine.store]), machine.store, everything=True)
    written = export("copilot", chosen, target, exact=False, now=NOW, force=False)
    assert asked(target, NOTES) == [
        ("octo/app", "main", "agent", "build", "in a line", "of octo/app hunter22", 1, 0),
        ("octo/app", "main", "user", "build", "in a line", "of octo/app hunter22", 0, 0),
        ("octo/other", "main", "agent", "x", "in a line", "of octo/other hunter22", 0, 0),
    ]
    assert asked(target, NOTES) == machine.store.execute_read_only(NOTES).rows
    assert written.rows["dynamic_context_items"] == 3
    # As its client does when an agent reads a note, writes it anew, and when a session begins.
    with closing(sqlite3.connect(target)) as db, db:
        db.execute(
            "update dynamic_context_items set read_count = read_count + 1 where name = 'build' and src = 'agent'"
        )
        db.execute(
            "insert into dynamic_context_items(repository, branch, src, name, description, content) "
            "values ('octo/app', 'main', 'agent', 'build', 'd', 'new') on conflict(repository, branch, src, name) "
            "do update set content = excluded.content"
        )
        db.execute("update dynamic_context_items set count = count + 1 where repository = 'octo/app'")
    assert asked(target, NOTES)[0] == ("octo/app", "main", "agent", "build", "in a line", "new", 2, 1)


def test_sessions_that_were_chosen_go_with_the_boards_of_their_repositories_alone(
    machine: Machine, target: Path
) -> None:
    put_notes(machine)
    (session,) = machine.store.sessions()
    chosen = with_notes(these([(machine.store, session)]), machine.store, everything=False)
    export("copilot", chosen, target, exact=False, now=NOW, force=False)
    assert {row[0] for row in asked(target, NOTES)} == {"octo/app"}


def test_what_an_untrusted_store_says_is_given_to_no_other_client(machine: Machine, target: Path) -> None:
    put_notes(machine)
    machine.store.is_elsewhere = True
    chosen = with_notes(everything([machine.store]), machine.store, everything=True)
    export("copilot", chosen, target, exact=False, now=NOW, force=False)
    assert asked(target, NOTES) == []


def test_the_secrets_of_notes_are_masked(machine: Machine, target: Path) -> None:
    put_notes(machine)
    redactor = NumberedRedactor()
    redactor.learn("DB_PASSWORD=hunter22")
    chosen = with_notes(everything([machine.store]), machine.store, everything=True)
    export("copilot", chosen, target, exact=False, now=NOW, force=False, redactor=redactor)
    assert {row[5] for row in asked(target, NOTES)} == {"of octo/app [password-1]", "of octo/other [password-1]"}


def test_the_file_is_whole_private_and_opens_anywhere(machine: Machine, target: Path) -> None:
    put_recorded(machine)
    exported(machine, target)
    assert target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    assert asked(target, "pragma integrity_check") == [("ok",)]
    assert asked(target, "pragma foreign_key_check") == []
    assert asked(target, "pragma journal_mode") == [("delete",)]
    assert asked(target, "pragma user_version") == [(0,)]


def test_the_upserts_of_its_own_client_work_on_it(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("Mend it"), answer("Mended"))
    exported(machine, target)
    with closing(sqlite3.connect(target)) as db:
        db.execute(
            "insert into turns(session_id, turn_index, user_message) values (?, 0, 'Anew') on conflict(session_id, "
            "turn_index) do update set user_message = coalesce(excluded.user_message, user_message)",
            (SESSION,),
        )
        db.execute("delete from search_index where source_id = ?", (f"{SESSION}:turn:0",))
        assert db.execute("select user_message, assistant_response from turns").fetchall() == [("Anew", "Mended")]
        assert db.execute("select count(*) from search_index where search_index match 'mended'").fetchone() == (0,)


# what is known ------------------------------------------------------------------------------------------------


def test_a_question_has_the_same_answer_there_and_in_our_views(machine: Machine, target: Path) -> None:
    put_recorded(machine)
    for name in SMALL:
        machine.put(name)
    refs = call("bash", {"command": "gh pr create"}, "https://github.com/o/r/pull/12")
    place = {"cwd": "/w", "repository": "o/r", "branch": "main"}
    machine.write(
        SESSIONS / "00000000-0000-4000-8000-000000000001" / "events.jsonl", lines(start(**place), prompt("PR"), *refs)
    )
    exported(machine, target, agents=("claude", "codex", "copilot"))
    theirs = {question: asked(target, question) for question in QUESTIONS}
    assert theirs == {question: machine.store.execute_read_only(question).rows for question in QUESTIONS}


def test_the_questions_are_about_something(machine: Machine, target: Path) -> None:
    put_recorded(machine)
    told = exported(machine, target)
    assert told.rows["sessions"] == len(list(CASES.rglob("*.jsonl")))
    assert all(told.rows[table] > 0 for table in ("turns", "checkpoints", "session_files", "search_index"))


def test_a_session_has_the_times_the_title_and_the_place_that_are_known(machine: Machine, target: Path) -> None:
    context = {"cwd": "/home/dev/work", "repository": "o/r", "hostType": "github", "branch": "main"}
    put(machine, start(**context), prompt("Go"), answer("Gone", 9), workspace=f"id: {SESSION}\nname: The gate\n")
    exported(machine, target)
    sql = "select id, cwd, repository, branch, summary, created_at, updated_at from sessions"
    when = ("2026-05-01T10:00:00.000Z", "2026-05-01T10:00:09.000Z")
    assert asked(target, sql) == [(SESSION, "/home/dev/work", "o/r", "main", "The gate", *when)]


def test_an_answer_that_came_with_a_call_is_kept(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("Go"), answer("All done.", requests=["task_complete"]))
    exported(machine, target)
    assert asked(target, "select assistant_response from turns") == [("All done.",)]


def test_files_refs_and_checkpoints_have_the_time_of_what_happened(machine: Machine, target: Path) -> None:
    written = call("edit", {"path": "/w/a.py"}, at=5)
    named = call("bash", {"command": "gh pr view"}, "https://github.com/o/r/pull/12", at=6)
    named = [*named, *call("bash", {"command": "git commit -m x"}, "[main 1a2b3c4] x", at=7)]
    summary = "<overview>Was</overview>\n<checkpoint_title>The way here</checkpoint_title>"
    compacted = record("session.compaction_complete", 8, success=True, summaryContent=summary)
    put(machine, start(cwd="/w", repository="o/r"), prompt("Go"), *written, *named, compacted)
    exported(machine, target)
    at = "2026-05-01T10:00:{:02}.000Z".format
    assert asked(target, "select file_path, tool_name, turn_index, first_seen_at from session_files") == [
        ("/w/a.py", "edit", 0, at(5))
    ]
    assert ("commit", "1a2b3c4", 0, at(7)) in asked(
        target, "select ref_type, ref_value, turn_index, created_at from session_refs"
    )
    assert asked(target, "select title, overview, created_at from checkpoints") == [("The way here", "Was", at(8))]


def test_its_own_search_finds_turns_checkpoints_and_what_the_session_made(machine: Machine, target: Path) -> None:
    summary = "<overview>walrus</overview><technical_details>walrus</technical_details>"
    compacted = record("session.compaction_complete", 8, success=True, summaryContent=summary)
    made = {"plan": "walrus first", "files__deep__er": "a walrus", "files__blank": "  \n"}
    put(machine, start(), prompt("Find the walrus"), answer("Found"), compacted, **made)
    exported(machine, target)
    folder = machine.home / SESSIONS / SESSION
    found = asked(
        target,
        "select source_type, source_id, content from search_index where search_index match 'walrus' "
        "and session_id is not null order by source_type, source_id",
    )
    assert found == [
        ("checkpoint_overview", f"{SESSION}:ckpt:1:checkpoint_overview", "walrus"),
        ("checkpoint_technical", f"{SESSION}:ckpt:1:checkpoint_technical", "walrus"),
        ("turn", f"{SESSION}:turn:0", "Find the walrus\nFound"),
        ("workspace_artifact", f"{SESSION}:workspace:{folder / 'files/deep/er.md'}", "a walrus"),
        ("workspace_artifact", f"{SESSION}:workspace:{folder / 'plan.md'}", "walrus first"),
    ]
    ranked = "select content, session_id, source_type, rank from search_index where search_index match 'walrus' order by rank limit 20"  # noqa: E501 - as it is asked
    assert len(asked(target, ranked)) == len(found)


def test_sessions_of_every_agent_and_our_own_are_there(machine: Machine, target: Path) -> None:
    for name in SMALL:
        machine.put(name)
    own = machine.store.create_session("Ours")
    machine.store.append_events(own, [UserMessage(content="hello")])
    told = exported(machine, target, agents=("claude", "codex"))
    assert told.rows["sessions"] == len(machine.store.sessions(subagents=True))
    assert asked(target, "select summary from sessions where id = '" + own.uid + "'") == [("Ours",)]


def test_only_the_sessions_that_were_chosen_are_there(machine: Machine, target: Path) -> None:
    put_recorded(machine)
    machine.read("copilot")
    one = machine.store.session(SESSION)
    told = export("copilot", these([(machine.store, one)] * 2), target, exact=False, force=False, now=NOW)
    assert asked(target, "select id from sessions") == [(SESSION,)]
    assert asked(target, "select distinct session_id from turns") == [(SESSION,)]
    assert told.rows["turns"] == one.turns


def test_a_session_that_two_stores_have_is_there_once(machine: Machine, target: Path, tmp_path: Path) -> None:
    put(machine, start(), prompt("Go"))
    machine.read("copilot")
    with open_store(tmp_path / "other.db", now=lambda: NOW) as other:
        replication.copy_session(other, machine.store, machine.store.session(SESSION).uid)
        other.create_session("Another")
        both = everything([machine.store, other])
        export("copilot", both, target, exact=False, force=False, now=NOW)
    assert asked(target, "select summary from sessions order by 1") == [("Another",), ("Go",)]


def test_a_store_of_many_pages_is_whole(machine: Machine, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_recorded(machine)
    exported(machine, target)
    at_once = [asked(target, f"select * from {table} order by 1") for table in (*COLUMNS, "search_index")]
    monkeypatch.setattr("backstory.export.exporting.ROWS_AT_ONCE", 3)
    exported(machine, target)
    assert [asked(target, f"select * from {table} order by 1") for table in (*COLUMNS, "search_index")] == at_once


def test_what_was_exported_can_be_read_back(machine: Machine, target: Path, tmp_path: Path) -> None:
    put_recorded(machine)
    exported(machine, target)
    (tmp_path / "second").mkdir()
    second = Machine(tmp_path / "second")
    second.write(".copilot/session-store.db", target.read_bytes())
    second.read("copilot")
    sql = "select user_message, assistant_response, timestamp from turns where user_message <> '' order by 3, 1"
    answers = [each.store.execute_read_only(sql).rows for each in (machine, second)]
    second.close()
    assert answers[0] == answers[1] != []


# as its own reindex would write it ----------------------------------------------------------------------------


@pytest.mark.parametrize("table", REINDEXED)
def test_of_recorded_logs_there_are_the_rows_that_its_client_wrote(machine: Machine, target: Path, table: str) -> None:
    put_recorded(machine)
    told = REINDEXED[table]
    found = exact(machine, target, f"select {told['columns']} from {table}")
    assert sorted(map(list, found), key=json.dumps) == told["rows"]


def test_of_several_plain_answers_the_last_stands(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("q"), answer("calling", 2, ["view"]), answer("first", 3), answer(" second ", 4))
    assert exact(machine, target, "select turn_index, assistant_response from turns") == [(0, "second")]


def test_an_answer_that_came_with_a_call_is_no_answer(machine: Machine, target: Path) -> None:
    done = record("session.task_complete", 3, summary="All done.", success=True)
    put(machine, start(), prompt("q"), answer("All done.", 2, ["task_complete"]), done)
    assert exact(machine, target, "select user_message, assistant_response from turns") == [("q", None)]


def test_a_prompt_without_a_time_is_of_now(machine: Machine, target: Path) -> None:
    put(machine, start(), record("user.message", 1, timed=False, content="q"), prompt("next", 5))
    when = exact(machine, target, "select timestamp from turns order by turn_index")
    assert when == [(NOW_TEXT,), ("2026-05-01T10:00:05.000Z",)]


def test_without_a_workspace_file_nothing_is_known_of_a_session(machine: Machine, target: Path) -> None:
    put(machine, start(cwd="/w", repository="o/r", branch="main"), prompt("q"))
    assert exact(machine, target, "select * from sessions") == [
        (SESSION, None, None, None, None, None, NOW_TEXT, NOW_TEXT)
    ]


def test_a_workspace_file_without_times_makes_a_session_of_now(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("q"), workspace=f"id: {SESSION}\ncwd: /w\nsummary: Old title\n")
    sql = "select cwd, summary, created_at, updated_at from sessions"
    assert exact(machine, target, sql) == [("/w", "Old title", NOW_TEXT, NOW_TEXT)]


def test_a_workspace_file_tells_times_and_title_but_no_host(machine: Machine, target: Path) -> None:
    told = (
        f"id: {SESSION}\ncwd: /w\nrepository: o/r\nhost_type: github\nbranch: main\nname: ' Title '\n"
        "created_at: 2026-05-01T09:00:00.000Z\nupdated_at: 2026-05-01T11:00:00.000Z\n"
    )
    put(machine, start(), prompt("q"), workspace=told)
    assert exact(machine, target, "select * from sessions") == [
        (SESSION, "/w", "o/r", None, "main", "Title", "2026-05-01T09:00:00.000Z", "2026-05-01T11:00:00.000Z")
    ]


def test_the_last_repository_that_a_call_was_about_becomes_the_sessions(machine: Machine, target: Path) -> None:
    told = f"id: {SESSION}\nrepository: o/r\ncreated_at: 2026-05-01T09:00:00.000Z\nupdated_at: 2026-05-01T11:00:00.000Z"
    first = call("github-mcp-server-list_issues", {"owner": "else", "repo": "where"}, at=2)
    last = call("github-mcp-server-get_commit", {"owner": "at", "repo": "last", "sha": "main"}, at=3)
    put(machine, start(), prompt("q"), *first, *last, workspace=told)
    sql = "select repository, created_at, updated_at from sessions"
    assert exact(machine, target, sql) == [("at/last", "2026-05-01T09:00:00.000Z", NOW_TEXT)]
    assert asked(target, "select ref_type, ref_value from session_refs") == [("commit", "main")]


CHECKPOINT = {
    "workspace": f"id: {SESSION}\n",
    "checkpoints__index": "| # | Title | File |\n|---|---|---|\n| 7 | Counting | 007-counting.md |\n",
    "checkpoints__007-counting": "<overview> We counted. </overview>\n<history></history>\n<next_steps>Go</next_steps>",
}


def test_a_checkpoint_loses_its_title_and_its_time(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("q"), **CHECKPOINT)
    sql = "select checkpoint_number, title, overview, history, next_steps, created_at from checkpoints"
    assert exact(machine, target, sql) == [(7, "", "We counted.", None, "Go", NOW_TEXT)]
    assert asked(target, "select source_id, content from search_index where source_type like 'checkpoint%'") == [
        (f"{SESSION}:ckpt:7:checkpoint_overview", "We counted."),
        (f"{SESSION}:ckpt:7:checkpoint_next_steps", "Go"),
    ]


def test_a_checkpoint_without_a_workspace_file_or_sections_is_none(machine: Machine, target: Path) -> None:
    files = {name: text for name, text in CHECKPOINT.items() if name != "workspace"}
    put(machine, start(), prompt("q"), **files)
    assert exact(machine, target, "select * from checkpoints") == []
    put(machine, start(), prompt("q"), **CHECKPOINT | {"checkpoints__007-counting": "no sections <overview> here"})
    assert exact(machine, target, "select * from checkpoints") == []


def test_files_and_refs_are_of_now(machine: Machine, target: Path) -> None:
    made = call("bash", {"command": "gh  pr create -f"}, "see https://github.com/o/r/pull/12 and /pull/13")
    put(machine, start(), prompt("q"), *call("edit", {"path": "a.py"}), *made)
    assert exact(machine, target, "select file_path, tool_name, turn_index, first_seen_at from session_files") == [
        ("a.py", "edit", 0, NOW_TEXT)
    ]
    assert asked(target, "select ref_type, ref_value, turn_index, created_at from session_refs") == [
        ("pr", "12", 0, NOW_TEXT)
    ]


def test_of_what_a_session_made_only_files_themselves_are_found(machine: Machine, target: Path) -> None:
    made: dict[str, str | bytes] = {"plan": "a", "research__r": "b", "files__sub__x": "c", "files__x": "d"}
    made |= {"files__blank": " ", "files__binary": b"caf\xe9"}
    put(machine, start(), prompt("q"), **made)
    sql = "select source_id, content from search_index where source_type = 'workspace_artifact'"
    path = machine.home / SESSIONS / SESSION / "files/x.md"
    assert exact(machine, target, sql) == [(f"{SESSION}:workspace:{path}", "d")]


def test_a_session_whose_folder_is_gone_stays(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("q"), answer("a"))
    before = exact(machine, target, "select * from turns")
    (machine.home / SESSIONS / SESSION / "events.jsonl").unlink()
    assert exact(machine, target, "select * from turns") == before != []


def test_turns_that_were_rewound_stay(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("one", 1), answer("1", 2), prompt("two", 3), answer("2", 4), prompt("three", 5))
    machine.read("copilot")
    put(machine, start(), prompt("one", 1), answer("1", 2), prompt("other", 6), answer("o", 7))
    sql = "select turn_index, user_message, assistant_response, timestamp from turns order by turn_index"
    at = "2026-05-01T10:00:{:02}.000Z".format
    assert exact(machine, target, sql) == [
        (0, "one", "1", at(1)), (1, "other", "o", at(3)), (2, "three", None, at(5))
    ]  # fmt: skip


@pytest.mark.parametrize("mark", [{"agent_id": "helper-1"}, {"parentToolCallId": "call-task"}], ids=["agent", "parent"])
def test_what_a_helper_did_is_not_there(machine: Machine, target: Path, mark: dict[str, str]) -> None:
    def its(kind: str, **data: Any) -> bytes:
        return record(kind, 3, **data, **mark)  # type: ignore[arg-type]

    def calls(name: str, arguments: dict[str, str], output: str) -> list[bytes]:
        result = {"content": output}
        return [
            its("tool.execution_start", toolCallId=name, toolName=name, arguments=arguments),
            its("tool.execution_complete", toolCallId=name, success=True, result=result),
        ]

    helper = [
        its("user.message", content="Its prompt"),
        *calls("edit", {"path": "/w/a.py"}, "done"),
        *calls("bash", {"command": "git commit -m x"}, "[main 1a2b3c4] x"),
        its("assistant.message", content="Its answer"),
    ]
    put(machine, start(), prompt("q"), answer("mine"), *helper)
    assert exact(machine, target, "select user_message, assistant_response from turns") == [("q", "mine")]
    assert asked(target, "select * from session_files") == asked(target, "select * from session_refs") == []


def test_a_file_that_was_edited_and_then_created_was_edited(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("q"), *call("edit", {"path": "a"}, at=3), *call("create", {"path": "a"}, at=4))
    assert exact(machine, target, "select file_path, tool_name from session_files") == [("a", "edit")]


def test_usage_makes_no_rows(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("q"), record("session.usage_record", 3, usage={"model": "m", "inputTokens": 5}))
    tables = exact(machine, target, "select name from sqlite_schema where type = 'table'")
    assert "assistant_usage_events" not in {name for (name,) in tables}


@pytest.mark.parametrize(
    ("name", "arguments", "more"),
    [
        ("view", {"path": "a"}, {}),
        ("multi_edit", {"path": "a"}, {}),
        ("edit", {"file_path": "a"}, {}),
        ("edit", {"path": ""}, {}),
        ("edit", '{"path": "a"}', {}),
        ("edit", {"path": "a"}, {"success": False}),
        ("apply_patch", "*** Update File: a", {"fileEdits": [{"path": "/w/a", "kind": "edit"}]}),
    ],
)
def test_other_ways_to_touch_a_file_are_not_seen(
    machine: Machine, target: Path, name: str, arguments: Any, more: dict[str, Any]
) -> None:
    put(machine, start(), prompt("q"), *call(name, arguments, **more))
    assert exact(machine, target, "select * from session_files") == []


def test_a_patch_touches_what_its_telemetry_names(machine: Machine, target: Path) -> None:
    telemetry = {"restrictedProperties": {"filePaths": '["/w/a", "/w/b"]'}}
    put(machine, start(), prompt("q"), *call("apply_patch", "*** Update File: c", toolTelemetry=telemetry))
    sql = "select file_path, tool_name from session_files"
    assert exact(machine, target, sql) == [("/w/a", "apply_patch"), ("/w/b", "apply_patch")]


@pytest.mark.parametrize(
    ("name", "arguments", "output", "refs"),
    [
        ("bash", {"command": "gh issue create"}, "https://github.com/o/r/issues/3", [("issue", "3")]),
        ("bash", {"command": "git commit -m x; gh pr view"}, "[a/b 1a2b3c4] https://github.com/o/r/pull/2",
         [("pr", "2"), ("commit", "1a2b3c4")]),
        ("bash", {"command": "gh pr list"}, "https://github.com/o/r/pull/2", []),
        ("bash", {"command": "gh pr view"}, "https://ghe.example/o/r/pull/2", []),
        ("bash", {"command": "git commit"}, "[main (root-commit) 1a2b3c4] x", []),
        ("bash", {"command": "git commit"}, "[fix#1 1a2b3c4] x", []),
        ("bash", {"command": "git -C x commit"}, "[main 1a2b3c4] x", []),
        ("bash", '{"command": "gh pr view"}', "https://github.com/o/r/pull/2", []),
        ("powershell", {"command": "gh pr view"}, "https://github.com/o/r/pull/2", []),
        ("github-mcp-server-pull_request_read", {"pullNumber": 4}, "", [("pr", "4")]),
        ("github-mcp-server-pull_request_read", {"pullNumber": 4.0}, "", [("pr", "4")]),
        ("bash", {"command": "git  commit"}, "[main 1a2b3c4] x", [("commit", "1a2b3c4")]),
        ("bash", {"command": "gh  issue create"}, "https://github.com/o/r/issues/3", []),
        ("github-mcp-server-add_issue_comment", {"issue_number": 5}, "", [("issue", "5")]),
        ("github-mcp-server-add_issue_comment", {"issue_number": 0}, "", []),
        ("github-mcp-server-list_commits", {"sha": "main"}, "", [("commit", "main")]),
    ],
)  # fmt: skip
def test_what_a_call_names(
    machine: Machine, target: Path, name: str, arguments: Any, output: str, refs: list[tuple[str, str]]
) -> None:
    put(machine, start(), prompt("q #12"), *call(name, arguments, output))
    assert exact(machine, target, "select ref_type, ref_value from session_refs order by id") == refs


def test_a_call_counts_prompts_that_are_no_turns(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("q", 1), prompt(" ", 2), prompt("r", 3), *call("edit", {"path": "a"}, at=4))
    assert exact(machine, target, "select turn_index from turns order by 1") == [(0,), (1,)]
    assert asked(target, "select turn_index from session_files") == [(2,)]


def test_a_prompt_and_an_answer_are_trimmed(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt(" q\n"), answer("\ufeffa\xa0"))
    assert exact(machine, target, "select user_message, assistant_response from turns") == [("q", "a")]


def test_what_is_said_after_an_empty_prompt_is_lost(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("q"), answer("a", 2), prompt("", 3), answer("lost", 4))
    assert exact(machine, target, "select user_message, assistant_response from turns") == [("q", "a")]


def test_a_log_that_is_no_text_has_no_turns(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("q"), b"\xff", *call("edit", {"path": "a"}))
    assert exact(machine, target, "select id from sessions") == [(SESSION,)]
    assert asked(target, "select * from turns") == asked(target, "select * from session_files") == []


def test_what_a_rewound_call_said_of_the_repository_is_taken_back(machine: Machine, target: Path) -> None:
    said = call("github-mcp-server-get_file", {"owner": "else", "repo": "where"})
    put(machine, start(), prompt("one"), answer("1"), prompt("two", 3), *said, workspace="repository: o/r\n")
    machine.read("copilot")
    put(machine, start(), prompt("one"), answer("1"), prompt("other", 5))
    assert exact(machine, target, "select repository, updated_at from sessions") == [("o/r", NOW_TEXT)]


def test_lines_that_are_no_records_are_skipped(machine: Machine, target: Path) -> None:
    put(machine, b"\xef\xbb\xbf" + start(), b"", b"{torn", prompt("q"), b"\0\0\0", answer("a"))
    assert exact(machine, target, "select user_message, assistant_response from turns") == [("q", "a")]


def test_the_recorded_log_of_a_session_with_tools(machine: Machine, target: Path) -> None:
    put_recorded(machine)
    sql = f"select turn_index, user_message, assistant_response, timestamp from turns where session_id = '{SESSION}'"
    said = "Done: notes.txt now says beta and new.md exists."
    assert exact(machine, target, sql) == [(0, "Do the work.", said, "2026-11-21T21:08:49.328Z")]
    files = asked(
        target, f"select file_path, tool_name, turn_index from session_files where session_id = '{SESSION}' order by id"
    )
    below = "/home/dev/runs/copilot-tools/work"
    assert files == [(f"{below}/notes.txt", "edit", 0), (f"{below}/new.md", "create", 0)]


def test_rows_whose_logs_are_gone_are_as_they_were(machine: Machine, target: Path, tmp_path: Path) -> None:
    put(machine, start(), prompt("q"), answer("a"), *call("edit", {"path": "a"}), **CHECKPOINT)
    exported(machine, target, exact=True)
    (tmp_path / "second").mkdir()
    second = Machine(tmp_path / "second")
    second.write(".copilot/session-store.db", target.read_bytes())
    again = tmp_path / "again.db"
    exported(second, again, exact=True)
    second.close()
    tables = ("turns", "session_files", "checkpoints", "search_index")
    for table in tables:
        in_order = f"select * from {table} order by session_id, {'source_id' if table == 'search_index' else 'id'}"
        assert asked(again, in_order) == asked(target, in_order) != []


def test_what_others_did_is_left_out_and_counted(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("q"))
    machine.put("claude/tools")
    told = exported(machine, target, exact=True, agents=("claude", "copilot"))
    assert (told.rows["sessions"], told.left_out) == (1, 1)


# its place, and the command -----------------------------------------------------------------------------------


def write(machine: Machine, target: Path, *, force: bool = False) -> WrittenFile:
    chosen = [Chosen(store=machine.store, is_all_but=True)]
    return export("copilot", chosen, target, exact=False, force=force, now=NOW)


def test_a_file_that_is_there_is_left_unless_forced(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("q"))
    machine.read("copilot")
    target.parent.mkdir()
    target.write_bytes(b"mine")
    with pytest.raises(FileInTheWay):
        write(machine, target)
    assert target.read_bytes() == b"mine"
    write(machine, target, force=True)
    assert asked(target, "select version from schema_version") == [(3,)]


@pytest.mark.parametrize("journal", ["-wal", "-journal"])
def test_a_journal_beside_the_place_is_in_the_way_even_if_forced(machine: Machine, target: Path, journal: str) -> None:
    target.parent.mkdir()
    target.with_name(target.name + journal).write_bytes(b"")
    with pytest.raises(CannotWrite, match=journal):
        write(machine, target, force=True)
    assert not target.exists()


def test_the_store_itself_is_never_overwritten(machine: Machine) -> None:
    machine.read("copilot")
    machine.store.close()
    with pytest.raises(CannotWrite, match="the store itself"):
        write(machine, machine.store_path, force=True)


def test_an_export_that_fails_leaves_nothing(machine: Machine, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(machine, start(), prompt("q"))
    machine.read("copilot")

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("backstory.agents.copilot.store.SessionStore.turn", full)
    with pytest.raises(CannotWrite, match="disk is full"):
        write(machine, target)
    assert list(target.parent.iterdir()) == []


def test_the_command_says_what_it_wrote(machine: Machine, target: Path) -> None:
    put(machine, start(), prompt("q"), answer("a"))
    machine.read("copilot")
    machine.store.close()
    args = ["--store", str(machine.store_path), "export", "--format", "copilot", "--to", str(target)]
    done = CliRunner().invoke(cli, [*args, "--json", SESSION])
    told = json.loads(done.stdout)
    assert (told["format"], told["file"], told["exact"], told["left_out"]) == ("copilot", str(target), False, 0)
    assert (told["row_counts"]["sessions"], told["row_counts"]["turns"], told["bytes"]) == (1, 1, target.stat().st_size)
    assert isinstance(CliRunner().invoke(cli, [*args, "--all"]).exception, FileInTheWay)
    assert CliRunner().invoke(cli, args).exit_code == 2


def test_only_agents_that_can_be_written_are_formats() -> None:
    assert "copilot" in formats()
    assert "claude" not in formats()
