"""Agents whose sessions stand in a database that they have open: what is read of it, and that it stays as it was."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.agents import foreign, part_log
from backstory.agents.conformance import check
from backstory.agents.contract import UnreadableDatabase
from backstory.agents.part_tables import PartDatabases
from backstory.ingest import databases, live_databases
from backstory.ingest.ingest import ingest
from backstory.model import AssistantText, Compacted, Hook, Outcome, Relation, ToolCall, ToolResult, UserMessage
from backstory.store import open_store
from tests.support.clock import NOW
from tests.support.promises import keeps, promise
from tests.support.recorded import cases_of, counted, home_of
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.ingest.report import IngestReport
    from backstory.store import Store

PLACE = ".local/share/opencode/opencode.db"
BOTH = [*cases_of("opencode"), *cases_of("kilo")]
FORK = "ses_df8daff30ffej0CB8FyIGAjBhW"
TOOLS = [each for each in BOTH if each[1] == "tools"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "ours" / "store.db", shared=True, now=lambda: NOW) as opened:
        yield opened


def read(store: Store, home: Path, agent: str = "opencode", **environ: str) -> IngestReport:
    return ingest(store, [agents.load(agent)], environ=environ, home=home, now=NOW)


def home(tmp_path: Path, case: str, agent: str = "opencode", *, raw: bool = True) -> Path:
    return home_of(tmp_path, agent, case, raw=raw)


def change(database: Path, sql: str) -> None:
    with closing(sqlite3.connect(database)) as db, db:
        db.execute(sql)


def sessions(store: Store) -> list[Any]:
    return sorted(store.sessions(), key=lambda each: each.created)


def said(store: Store, kind: type[Any]) -> list[Any]:
    return [e.event for each in sessions(store) for e in store.events(each) if isinstance(e.event, kind)]


def outcomes(store: Store) -> list[str | None]:
    return [turn.outcome for each in sessions(store) for turn in store.turns(each)]


def beside(database: Path) -> list[tuple[str, int, int]]:
    found = sorted(database.parent.iterdir())
    return [(each.name, each.stat().st_size, each.stat().st_mtime_ns) for each in found]


# the database -------------------------------------------------------------------------------------------------------


@promise(8, TOOLS)
def test_a_database_is_whole_from_its_wal_and_stays_as_it_was(
    agent: str, case: str, tmp_path: Path, store: Store
) -> None:
    where = home(tmp_path, case, agent)
    database = where / f".local/share/{agent}/{agent}.db"
    before = beside(database)
    assert read(store, where, agent).errors == []
    assert (counted(store)["answers"], beside(database)) == (5, before)
    assert not (tmp_path / "ours" / live_databases.ASIDE).exists()


@keeps(8, "opencode")
def test_a_database_that_a_program_has_open_is_read_in_place(tmp_path: Path, store: Store, monkeypatch: Any) -> None:
    where = home(tmp_path, "tools")
    database = where / PLACE
    monkeypatch.setattr(databases, "copied", lambda *_: pytest.fail("it was copied"))
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.execute("begin immediate")
        writer.execute("update session set title = 'Not yet', time_updated = time_updated + 1")
        before = beside(database)
        assert read(store, where).errors == []
        assert beside(database) == before
        assert sessions(store)[0].title == "Fix the VAT in gross"
        writer.execute("commit")
        assert read(store, where).errors == []
        assert sessions(store)[0].title == "Not yet"


@keeps(8, "opencode")
def test_shared_memory_that_a_dead_program_left_is_not_changed(tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "tools")
    database = where / PLACE
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("select 1 from session").fetchall()
        left = {each.name: each.read_bytes() for each in database.parent.iterdir()}
    for name, content in left.items():
        (database.parent / name).write_bytes(content)
    before = beside(database)
    assert read(store, where).errors == []
    assert (counted(store)["answers"], beside(database)) == (5, before)


@keeps(8, "opencode")
def test_a_main_file_without_its_wal_is_an_error_with_a_reason(tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "tools")
    (where / f"{PLACE}-wal").unlink()
    (problem,) = read(store, where).errors
    assert problem.reason == "it is empty, and opencode.db-wal is not beside it, where its content stood"


@keeps(8, "opencode")
def test_shared_memory_without_a_wal_is_no_reason_to_make_one(tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "tools", raw=False)
    database = where / PLACE
    change(database, "pragma journal_mode = wal")
    database.with_name("opencode.db-shm").write_bytes(bytes(32768))
    before = beside(database)
    assert read(store, where).errors == []
    assert (counted(store)["answers"], beside(database)) == (5, before)


@keeps(8, "opencode")
def test_a_wal_that_cannot_be_read_is_an_error_with_a_reason(tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "tools")
    (where / f"{PLACE}-wal").write_bytes(bytes(90_000))
    (problem,) = read(store, where).errors
    assert problem.reason == "it is empty, and opencode.db-wal beside it, where its content stood, cannot be read"


@keeps(8, "opencode")
def test_a_copy_that_a_killed_process_left_goes_also_where_no_database_changed(tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "hello")
    read(store, where)
    left = tmp_path / "ours" / live_databases.ASIDE / "tmpleft"
    left.mkdir(parents=True)
    (left / "opencode.db").write_bytes(b"x")
    read(store, where)
    assert not left.parent.exists()


@keeps(8, "opencode")
def test_a_copy_is_ours_alone(tmp_path: Path, store: Store, monkeypatch: Any) -> None:
    modes: list[int] = []
    opened = foreign.opened

    def looked(copy: Path, *given: Any, **more: Any) -> Any:
        modes.extend(each.stat().st_mode & 0o777 for each in (copy, copy.with_name(f"{copy.name}-wal"), copy.parent))
        return opened(copy, *given, **more)

    monkeypatch.setattr(foreign, "opened", looked)
    read(store, home(tmp_path, "tools"))
    assert modes == [0o600, 0o600, 0o700]


@keeps(8, "opencode")
def test_of_a_database_only_the_named_tables_can_be_read(tmp_path: Path) -> None:
    database = home(tmp_path, "hello") / PLACE
    only = frozenset({"session"})
    with foreign.opened(database, bytes.decode, only=only) as db:
        assert len(db.select("session", ("id",))) == 1
        with pytest.raises(UnreadableDatabase, match="prohibited"):
            db.select("credential", ("value",))
    tables = agents.load("opencode").live
    assert tables is not None
    assert not [each for each in tables.tables if "account" in each or "credential" in each]


@keeps(8, "opencode")
def test_only_a_session_whose_sequence_changed_is_read_again(tmp_path: Path, store: Store, monkeypatch: Any) -> None:
    where = home(tmp_path, "fork")
    read(store, where)
    asked: list[set[str]] = []
    whole = PartDatabases.sessions

    def noted(self: PartDatabases, db: Any, wanted: set[str]) -> Any:
        asked.append(wanted)
        return whole(self, db, wanted)

    monkeypatch.setattr(PartDatabases, "sessions", noted)
    changed = "ses_df8daff30ffej0CB8FyIGAjBhW"
    change(where / PLACE, f"update event_sequence set seq = seq + 1 where aggregate_id = '{changed}'")
    report = read(store, where)
    assert (asked, report.errors, report.total("bytes_read")) == ([{changed}], [], 0)


@keeps(8, "opencode")
def test_a_changed_row_comes_behind_what_is_kept(tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "cancel-tool", raw=False)
    read(store, where)
    before = [(e.seq, e.event) for e in store.events(sessions(store)[0])]
    done = """json_set(data, '$.state.status', 'completed', '$.state.output', 'finished', '$.state.metadata.exit', 0)"""
    change(where / PLACE, f"update part set data = {done} where json_extract(data, '$.state.status') = 'running'")
    change(where / PLACE, "update event_sequence set seq = seq + 1")
    assert read(store, where).errors == []
    after = [(e.seq, e.event) for e in store.events(sessions(store)[0])]
    result: Any
    (result,) = [event for _, event in after[len(before) :]]
    assert (after[: len(before)], result.content, result.is_error) == (before, "finished", False)
    assert read(store, where).total("bytes_read") == 0


EVENTS = "select type, aggregate_id, seq, data from event order by id"


def replayed(whole: Path, database: Path) -> Iterator[None]:
    """Have a database grow, row by row, as the events of a whole one say that it did."""
    change(database, "update event_sequence set seq = -1")
    for table in ("session", "message", "part"):
        change(database, f"delete from {table}")
    with closing(sqlite3.connect(whole)) as db:
        rows = {
            row[0]: (table, row)
            for table in ("session", "message", "part")
            for row in db.execute(f"select * from {table}")
        }
        events = db.execute(EVENTS).fetchall()
    for kind, session, seq, data in events:
        changed = json.loads(data)
        row = changed.get("info") or changed.get("part") or {}
        native_id = session if kind.startswith("session") else row.pop("id", None)
        if native_id in rows:
            table, values = rows[native_id]
            if table != "session":
                for column in ("sessionID", "messageID"):
                    row.pop(column, None)
                values = (*values[:-1], json.dumps(row))
            with closing(sqlite3.connect(database)) as db, db:
                db.execute(f"insert or replace into {table} values ({', '.join('?' * len(values))})", values)
                db.execute("update event_sequence set seq = ? where aggregate_id = ?", (seq, session))
            yield


def summary(store: Store) -> list[Any]:
    return [
        (each.native_id, each.relation, each.title, [(t.uid, t.outcome, t.tokens, t.ended) for t in store.turns(each)],
         sorted(str(e.event) for e in store.events(each)))
        for each in sessions(store)
    ]  # fmt: skip


@keeps(8, "opencode")
@pytest.mark.parametrize("case", ["cancel-tool", "compact", "fork", "subagent"])
def test_a_database_that_is_read_at_each_change_says_what_it_says_at_the_end(
    case: str, tmp_path: Path, store: Store
) -> None:
    where = home(tmp_path, case, raw=False)
    whole = tmp_path / "whole.db"
    shutil.copy(where / PLACE, whole)
    with open_store(tmp_path / "at-once.db", shared=True, now=lambda: NOW) as at_once:
        read(at_once, where)
        expected = summary(at_once)
    for _ in replayed(whole, where / PLACE):
        assert read(store, where).errors == []
    assert summary(store) == expected


@keeps(8, "opencode")
def test_a_time_that_is_out_of_range_costs_nothing(tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "hello", raw=False)
    change(where / PLACE, f"update session set time_updated = {2**63 - 1}")
    assert read(store, where).errors == []
    assert len(sessions(store)) == 1


# the conversation -----------------------------------------------------------------------------------------------------


@promise(1, TOOLS)
def test_a_command_that_ended_with_127_failed(agent: str, case: str, tmp_path: Path, store: Store) -> None:
    read(store, home(tmp_path, case, agent), agent)
    failed = [each for each in said(store, ToolResult) if each.is_error]
    assert [(each.tool_name, each.content.strip()) for each in failed] == [
        ("bash", "/bin/bash: line 1: false-check: command not found")
    ]
    assert outcomes(store) == [Outcome.COMPLETED]


@keeps(1, "opencode")
def test_an_answer_that_ends_after_the_next_prompt_was_queued_keeps_its_tokens(tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "compact", raw=False)
    database, whole = where / PLACE, tmp_path / "whole.db"
    shutil.copy(database, whole)
    running = "json_remove(json_set(data, '$.tokens.input', 0), '$.time.completed', '$.finish')"
    change(database, f"update message set data = {running} where json_extract(data, '$.role') = 'assistant'")
    read(store, where)
    shutil.copy(whole, database)
    change(database, "update event_sequence set seq = seq + 1")
    assert read(store, where).errors == []
    assert outcomes(store) == [Outcome.COMPLETED] * 2
    assert counted(store)["tokens"]["input"] == 197_800


@keeps(1, "kilo")
def test_a_title_that_only_holds_a_place_is_none(tmp_path: Path, store: Store) -> None:
    read(store, home(tmp_path, "tools", "kilo"), "kilo")
    assert not str(sessions(store)[0].title or "").startswith("New session")


@keeps(2, "opencode")
def test_a_copy_names_its_origin_and_says_that_it_is_inferred(tmp_path: Path, store: Store) -> None:
    read(store, home(tmp_path, "fork"))
    first, second = sessions(store)
    assert (second.native_id, second.relation, second.parent_uid) == (FORK, Relation.FORK, first.uid)
    (note,) = [each for each in said(store, Hook) if each.name == "copy"]
    assert f"Copied from {first.native_id}: inferred" in note.output
    assert store.turns(first)[0].uid == store.turns(second)[0].uid


@keeps(2, "opencode")
def test_a_copy_that_comes_first_gives_its_turns_the_same_uids(tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "fork", raw=False)
    whole = tmp_path / "whole.db"
    shutil.copy(where / PLACE, whole)
    change(where / PLACE, f"delete from session where id <> '{FORK}'")
    read(store, where)
    (alone,) = sessions(store)
    uids = [turn.uid for turn in store.turns(alone)]
    shutil.copy(whole, where / PLACE)
    os.utime(where / PLACE, ns=(NOW, NOW))
    assert read(store, where).errors == []
    assert [turn.uid for turn in store.turns(store.session(alone.uid))] == uids
    assert counted(store)["tokens"] == {"input": 2500, "cached": 1000, "output": 42}


@keeps(2, "opencode")
def test_sessions_that_only_begin_with_the_same_words_are_two(tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "fork", raw=False)
    later = "time_created = time_created + 1, data = json_set(data, '$.time.created', time_created + 1)"
    change(where / PLACE, f"update message set {later} where session_id = '{FORK}'")
    read(store, where)
    first, second = sessions(store)
    assert (second.relation, counted(store)["prompts"]) == (None, 3)
    assert store.turns(first)[0].uid != store.turns(second)[0].uid


@keeps(4, "opencode")
@pytest.mark.parametrize(("case", "ends"), [("cancel", [None]), ("cancel-tool", [None, Outcome.COMPLETED])])
def test_a_turn_that_was_cut_off_is_unfinished(case: str, ends: list[str | None], tmp_path: Path, store: Store) -> None:
    read(store, home(tmp_path, case))
    assert outcomes(store) == ends


@keeps(5, "opencode")
def test_what_the_agent_said_in_the_users_place_is_no_prompt(tmp_path: Path, store: Store) -> None:
    read(store, home(tmp_path, "compact"))
    prompts = ["What does gross() in price.py return today?", "And which test would catch that? One sentence."]
    assert [each.content for each in said(store, UserMessage)] == prompts


@keeps(6, "opencode")
def test_a_compaction_is_one_with_its_summary(tmp_path: Path, store: Store) -> None:
    read(store, home(tmp_path, "compact"))
    summary = "Summary so far: gross() returns net without VAT; the user asks about the test."
    assert [each.summary for each in said(store, Compacted)] == [summary]
    assert summary not in [each.text for each in said(store, AssistantText)]


@keeps(7, "opencode")
def test_a_subagent_is_a_child_of_the_session_that_called_it(tmp_path: Path, store: Store) -> None:
    read(store, home(tmp_path, "subagent"))
    (parent,) = sessions(store)
    with closing(sqlite3.connect(store.path)) as db:
        children = db.execute(
            "select p.uid, s.relation from sessions s join sessions p on p.id = s.parent_id"
        ).fetchall()
    assert children == [(parent.uid, Relation.SUBAGENT)]
    assert [each.tool_name for each in said(store, ToolCall)] == ["task"]


# bad input ------------------------------------------------------------------------------------------------------------


@keeps(9, "opencode")
def test_a_part_that_is_no_json_is_named_and_the_rest_is_whole(tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "tools", raw=False)
    change(where / PLACE, "update part set data = '{\"type\":' where json_extract(data, '$.tool') = 'read'")
    report = read(store, where)
    assert [each.reason for each in report.errors] == ["1 of its rows is no JSON: kept as text"]
    assert (report.unknown_records, counted(store)["tool_calls"]) == ({"part that is no JSON": 1}, 3)
    assert read(store, where).errors == []


@keeps(9, "opencode")
@pytest.mark.parametrize(
    "data", ['{"type":"text",\n"text":"Hi \\u00e9 you"}', '{"type":"text","text":"Hi \\ud800 you"}']
)
def test_json_over_lines_or_with_half_a_letter_is_read(data: str, tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "hello", raw=False)
    with closing(sqlite3.connect(where / PLACE)) as db, db:
        db.execute("update part set data = ? where json_extract(data, '$.type') = 'text'", (data,))
    report = read(store, where)
    assert (report.errors, report.unknown_records) == ([], {})
    assert [each.content[:3] + each.content[-3:] for each in said(store, UserMessage)] == ["Hi you"]


@keeps(9, "opencode")
@pytest.mark.parametrize(("which", "left"), [(f"id = '{FORK}'", 1), ("true", 0)])
def test_messages_whose_session_has_no_row_are_named(which: str, left: int, tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "fork", raw=False)
    change(where / PLACE, f"delete from session where {which}")
    (problem,) = read(store, where).errors
    assert problem.reason.endswith("messages, but no row with such an id in session")
    assert counted(store)["sessions"] == left


@keeps(9, "opencode")
def test_a_folder_whose_name_is_no_text_is_named(tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "hello", raw=False)
    odd = tmp_path / os.fsdecode(b"\xff")
    shutil.move(where / ".local/share", odd)
    (problem,) = read(store, where, XDG_DATA_HOME=str(odd)).errors
    assert problem.reason == "its name is not UTF-8 text"


@keeps(9, "opencode")
def test_a_folder_that_may_not_be_looked_into_is_named(tmp_path: Path, store: Store, monkeypatch: Any) -> None:
    where = home(tmp_path, "hello", raw=False)
    folder = (where / PLACE).parent
    refused(monkeypatch, folder)
    (problem,) = read(store, where).errors
    assert (problem.path, problem.reason) == (str(where / PLACE), "Permission denied")


def refused(monkeypatch: Any, folder: Path) -> None:
    """Have the system refuse what is in a folder, as it does to all but its administrator."""
    listed, status = type(folder).iterdir, type(folder).stat

    def allowed(path: Path, of: Path) -> Path:
        if of == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return path

    monkeypatch.setattr(type(folder), "iterdir", lambda self: listed(allowed(self, self)))
    monkeypatch.setattr(type(folder), "stat", lambda self, **more: status(allowed(self, self.parent), **more))


@keeps(9, "opencode")
def test_a_session_too_large_to_compare_costs_no_other(tmp_path: Path, store: Store, monkeypatch: Any) -> None:
    where = home(tmp_path, "fork", raw=False)
    large = f"json_set(data, '$.text', '{'x' * 200_000}')"
    change(
        where / PLACE,
        f"update part set data = {large} where session_id = '{FORK}' and json_extract(data, '$.type') = 'text'",
    )
    monkeypatch.setattr(foreign, "SESSION_BYTES_MAX", 150_000)
    (problem,) = read(store, where).errors
    assert "larger than" in problem.reason
    assert counted(store)["sessions"] == 1


@keeps(9, "opencode")
def test_a_parent_that_leads_back_is_named_and_the_others_are_read(tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "fork", raw=False)
    change(where / PLACE, f"update session set parent_id = id where id = '{FORK}'")
    assert [each.reason for each in read(store, where).errors] == ["its parent_id leads back to itself"]
    assert len(sessions(store)) == 1


@keeps(9, "opencode")
@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("alter table part rename column data to content", "its table part has no column data"),
        ("drop table message", "its table message has no rows that are known here"),
    ],
)
def test_a_database_of_another_version_is_named(sql: str, reason: str, tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "hello", raw=False)
    change(where / PLACE, sql)
    (problem,) = read(store, where).errors
    assert problem.reason.startswith(reason)


@keeps(9, "opencode")
def test_a_database_that_is_encrypted_is_named(tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, "hello", raw=False)
    (where / PLACE).write_bytes(bytes(range(256)) * 64)
    (problem,) = read(store, where).errors
    assert "not a database" in problem.reason


# bytes and places -----------------------------------------------------------------------------------------------------


@promise(10, TOOLS)
def test_each_row_is_kept_as_a_line(agent: str, case: str, tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, case, agent, raw=False)
    read(store, where, agent)
    with closing(sqlite3.connect(where / f".local/share/{agent}/{agent}.db")) as db:
        rows = [data for (data,) in db.execute("select data from message union all select data from part")]
    (log,) = store.logs(sessions(store)[0])
    kept = b"".join(store.stream_log(log.id))
    assert kept.count(b"\n") == len(rows) + 1
    assert [data for data in rows if data.encode() not in kept] == []


@promise(12, [("opencode", "hello"), ("kilo", "tools")])
def test_the_agents_own_variables_move_its_database(agent: str, case: str, tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, case, agent, raw=False)
    moved = tmp_path / "elsewhere.db"
    shutil.move(where / f".local/share/{agent}/{agent}.db", moved)
    assert read(store, where, agent).total("logs_seen") == 0
    read(store, where, agent, **{f"{agent.upper()}_DB": str(moved)})
    assert len(sessions(store)) == 1


@promise(12, [("opencode", "hello"), ("kilo", "tools")])
def test_the_folder_of_data_may_lie_elsewhere(agent: str, case: str, tmp_path: Path, store: Store) -> None:
    where = home(tmp_path, case, agent)
    shutil.move(where / ".local/share", tmp_path / "data")
    read(store, where, agent, XDG_DATA_HOME=str(tmp_path / "data"))
    assert len(sessions(store)) == 1


# the contract ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("agent", "case"), BOTH)
def test_a_recorded_database_keeps_the_contract(agent: str, case: str, tmp_path: Path) -> None:
    check(agent, databases=[home(tmp_path, case, agent) / f".local/share/{agent}/{agent}.db"])


class EachRowAgain(part_log.PartReader):
    """Takes a row that comes again for another one."""

    def _was_read(self, native_id: str) -> bool:
        return False


def test_a_reader_that_takes_a_row_twice_does_not_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_log, "PartReader", EachRowAgain)
    with pytest.raises(AssertionError, match=r"takes rows of .* that come again for others"):
        check("opencode", databases=[home(tmp_path, "hello") / PLACE])


def test_sessions_that_were_not_wanted_break_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PartDatabases.sessions
    monkeypatch.setattr(PartDatabases, "sessions", lambda self, db, wanted: whole(self, db, self.marks(db)))
    with pytest.raises(AssertionError, match="and it alone"):
        check("opencode", databases=[home(tmp_path, "fork") / PLACE])


# the client -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("agent", "case"), [("opencode", "hello"), ("kilo", "tools")])
def test_a_session_is_resumed_in_its_own_client(agent: str, case: str, tmp_path: Path) -> None:
    shell = Shell(home(tmp_path, case, agent, raw=False))
    database = shell.home / f".local/share/{agent}/{agent}.db"
    change(database, f"update session set directory = '{shell.cwd}'")
    os.utime(database, (0, 0))
    assert shell("ingest").code == 0
    (session,) = shell("list", "--all", "--json").json()["sessions"]
    # Where its output is no terminal, the command is printed.
    done = shell("resume", session["uid"])
    assert (done.code, done.out) == (0, f"cd {shell.cwd} && {agent} -s {session['native_id']}\n")
    database.unlink()
    gone = shell("resume", session["uid"])
    assert (gone.code != 0, "rows are not put back into a database" in gone.err) == (True, True)
