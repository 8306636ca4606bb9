"""A run and the agent's own log of it are one conversation, whichever was read first."""

from __future__ import annotations

import json
import os
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from backstory.agents.contract import Exit
from backstory.exchange import replication
from backstory.export.full_form import FullForms
from backstory.ingest.reindex import reindex
from backstory.model import ToolCall
from backstory.runs.spool import Run, Spool
from backstory.runs.stream import SpooledRun, append_run
from backstory.store import Session, Store, open_store
from backstory.store.intake import run_facts
from tests.support.bench import Bench, MadeOnce
from tests.support.clock import NOW
from tests.support.machines import Machine
from tests.support.own_log import give_facts, native_id, own_log
from tests.support.streaming import STREAMS

pytestmark = pytest.mark.slow

TURN = "01JXYZ00000000000000000001"

GOOD: dict[str, Any] = {"result": {"is_error": False}}


def helper_log(bench: Bench, native_id: str) -> None:
    folder = bench.root / ".claude" / "projects" / "p" / native_id / "subagents"
    folder.mkdir(parents=True, exist_ok=True)
    common = {"sessionId": native_id, "timestamp": "2030-11-21T10:00:01.000Z", "isSidechain": True}
    user = {"type": "user", "uuid": "h-u", "message": {"role": "user", "content": "Count the nests."}, **common}
    (folder / "agent-h1.jsonl").write_text(json.dumps(user) + "\n")


def machine_store(bench: Bench) -> Store:
    return open_store(bench.home / "store.db", shared=True)


def shown(store: Store) -> list[Session]:
    return store.sessions()


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    bench = Bench(tmp_path_factory.mktemp("ran"))
    bench.run("first", {"say": "the heron answer 0"}, GOOD)
    return MadeOnce(bench)


@pytest.fixture
def ran(made_once: MadeOnce) -> Bench:
    return made_once.anew_and_noted()


def test_a_log_gone_on_with_by_hand_begins_with_a_copy_of_the_run(ran: Bench) -> None:
    own_log(ran, "first", "by hand")
    ran.backstory("ingest")
    with machine_store(ran) as store:
        run = store.session("S1")
        (other,) = [each for each in shown(store) if each.uid != run.uid]
        assert other.parent_uid == run.uid
        ours, theirs = store.turns(run), store.turns(other)
        assert [turn.prompt for turn in theirs] == ["first", "by hand"]
        assert theirs[0].uid == ours[0].uid
        assert theirs[1].parent_uid == ours[0].uid


def test_it_does_not_matter_whether_the_log_was_read_before_the_run_was_stored(bench: Bench) -> None:
    """The machine's store is told of the run only after it has read the log."""
    bench.run("first", {"say": "the heron answer 0"}, GOOD)
    native_id = own_log(bench, "first", "by hand")
    elsewhere = bench.root / "elsewhere.db"
    with open_store(elsewhere, shared=True) as store:
        bench.backstory("--store", str(elsewhere), "ingest")
        before = store.session(native_id)
        assert len(store.turns(before)) == 2
        replication.copy_session(store, bench.store, bench.store.session("S1").uid)
        run, other = store.session("S1"), store.session(native_id)
        assert store.turns(other)[0].uid == store.turns(run)[0].uid
        assert store.turns(other)[1].parent_uid == store.turns(run)[0].uid
        assert other.parent_uid == run.uid
        assert store.verify().problems == []


def test_a_log_that_goes_on_later_keeps_the_copy(ran: Bench) -> None:
    own_log(ran, "first")
    ran.backstory("ingest")
    own_log(ran, "first", "by hand")
    ran.backstory("ingest")
    own_log(ran, "first", "by hand", "and again")
    ran.backstory("ingest")
    with machine_store(ran) as store:
        run = store.session("S1")
        (other,) = [each for each in shown(store) if each.uid != run.uid]
        turns = store.turns(other)
        assert [turn.prompt for turn in turns] == ["first", "by hand", "and again"]
        assert [turn.parent_uid for turn in turns] == [None, turns[0].uid, turns[1].uid]
        assert turns[0].uid == store.turns(run)[0].uid


def test_the_agents_id_and_the_uid_of_the_log_lead_to_the_run(ran: Bench) -> None:
    elsewhere = ran.root / "elsewhere.db"
    native_id = own_log(ran, "first")
    ran.backstory("--store", str(elsewhere), "ingest")
    with open_store(elsewhere, shared=True) as store:
        uid = store.session(native_id).uid
        replication.copy_session(store, ran.store, ran.store.session("S1").uid)
        run = store.session("S1")
        assert run.uid != uid
        assert store.session(native_id).uid == store.session(uid).uid == run.uid
        assert [each.uid for each in shown(store)] == [run.uid]


def test_tokens_of_a_run_that_was_cut_off_come_from_its_log(bench: Bench) -> None:
    bench.run("first", {"say": "the heron answer 0"}, {"exit": 1})
    assert bench.store.turns(1)[0].tokens.output is None
    own_log(bench, "first")
    bench.backstory("ingest")
    with machine_store(bench) as store:
        turn = store.turns(store.session("S1"))[0]
        assert (turn.tokens.input, turn.tokens.output, turn.tokens_source) == (10, 7, "log")


def test_tokens_that_the_stream_told_stay(ran: Bench) -> None:
    with machine_store(ran) as store:
        before = store.turns(store.session("S1"))[0].tokens
    own_log(ran, "first", usage={"input_tokens": 999, "output_tokens": 999})
    ran.backstory("ingest")
    with machine_store(ran) as store:
        assert store.turns(store.session("S1"))[0].tokens == before


def test_a_runs_helpers_are_its_children(ran: Bench) -> None:
    native_id = own_log(ran, "first")
    helper_log(ran, native_id)
    ran.backstory("ingest")
    with machine_store(ran) as store:
        (child,) = store.children(store.session("S1"))
        assert child.first_prompt == "Count the nests."
        assert [each.number for each in shown(store)] == [1]


def test_a_removed_run_does_not_come_back_with_its_log(ran: Bench) -> None:
    own_log(ran, "first")
    ran.backstory("ingest")
    assert ran.backstory("rm", "S1", "--yes").returncode == 0
    ran.backstory("ingest")
    with machine_store(ran) as store:
        assert shown(store) == []


def test_the_log_of_a_removed_run_is_not_read_afterwards(ran: Bench) -> None:
    assert ran.backstory("rm", "S1", "--yes").returncode == 0
    own_log(ran, "first")
    ran.backstory("ingest")
    with machine_store(ran) as store:
        assert shown(store) == []


def test_a_second_run_of_the_session_leaves_the_log_of_the_first_with_it(ran: Bench) -> None:
    own_log(ran, "first", "by hand")
    ran.backstory("ingest")
    ran.run("second", {"say": "more"}, GOOD)
    ran.backstory("ingest")
    with machine_store(ran) as store:
        run = store.session("S1")
        (other,) = [each for each in shown(store) if each.uid != run.uid]
        assert other.parent_uid == run.uid
        assert [turn.prompt for turn in store.turns(run)] == ["first", "second"]
        assert Path(store.logs(other)[0].path).exists()


def test_tokens_from_the_log_reach_the_projects_store(bench: Bench) -> None:
    bench.run("first", {"say": "the heron answer 0"}, {"exit": 1})
    own_log(bench, "first")
    bench.backstory("ingest")
    turn = bench.store.turns(1)[0]
    assert (turn.tokens.input, turn.tokens.output, turn.tokens_source) == (10, 7, "log")


def test_the_log_of_a_run_that_goes_on_is_read_when_the_run_is_stored(bench: Bench) -> None:
    gate = bench.root / "gate"
    process = bench.start("run", "-a", "claude", "first", script=[{"say": "a"}, {"wait_for": str(gate)}, GOOD])
    assert process.stdout is not None
    process.stdout.readline()
    own_log(bench, "first")
    during = bench.backstory("ingest")
    assert during.stdout.startswith("Up to date: ")
    assert [each["number"] for each in json.loads(bench.backstory("list", "--all", "--json").stdout)["sessions"]] == [
        "S1"
    ]
    gate.touch()
    process.communicate()
    after = bench.backstory("ingest")
    assert after.stdout.startswith("Read 1 log (")
    with machine_store(bench) as store:
        assert [each.number for each in shown(store)] == [1]


def test_what_changed_in_a_projects_store_alone_reaches_the_machines(ran: Bench) -> None:
    with ran.store as store:
        store.rename(1, "herons")
    ran.backstory("ingest")
    with machine_store(ran) as store:
        assert store.session("herons").number == 1


def test_a_projects_store_that_is_as_it_was_is_not_opened(ran: Bench) -> None:
    ran.backstory("ingest")
    path = ran.project / ".backstory" / "sessions.bks"
    before = path.stat()
    path.write_bytes(b"no store at all")
    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))
    assert "A project's store was not read" not in ran.backstory("ingest").stderr
    path.touch()
    assert "A project's store was not read" in ran.backstory("ingest").stderr


def recorded(tmp_path: Path, home: Machine, project: Store, *, log_first: bool = False) -> Session:
    """A recorded run of Codex with its log, both known to the machine's store, in either order."""
    stream = (STREAMS / "codex" / "tools.jsonl").read_bytes()
    session = project.create_session()
    run = Run(turn_uid=TURN, session_uid=session.uid, store="p", agent="codex", prompt="Go", cwd="/w", started=NOW)
    spool = Spool.begin(tmp_path / "spool", run, "Go")
    spool.stdout.write_bytes(stream)
    append_run(SpooledRun(spool, run, Exit(code=0), NOW), project)
    path = home.put("codex/tools")
    path.write_bytes(path.read_bytes().replace(claimed_id(path).encode(), native_id(stream).encode()))
    if log_first:
        home.read()
    replication.copy_session(home.store, project, session.uid)
    home.read()
    return session


def changes(store: Store, session: Session | str) -> list[Any]:
    """What the edits of a session were given."""
    session = store.session(session) if isinstance(session, str) else session
    events = [each.event for each in store.events(session)]
    return [each.input for each in events if isinstance(each, ToolCall) and each.tool == "EDIT"]


@pytest.mark.parametrize("log_first", [False, True])
def test_what_the_log_of_a_run_tells_is_told_by_the_run(tmp_path: Path, log_first: bool) -> None:
    with closing(Machine(tmp_path)) as home, open_store(tmp_path / "p.bks", now=lambda: NOW) as project:
        session = recorded(tmp_path, home, project, log_first=log_first)
        (turn,) = home.store.turns(home.store.session(session.uid))
        assert (turn.model, turn.tokens_source) == ("gpt-5.5", "reported")
        assert turn.tokens.largest_input is not None
        added, deleted = changes(home.store, session.uid)
        assert [change.get("type") for given in (added, deleted) for change in given["changes"].values()] == [
            "add", "update", "delete",
        ]  # fmt: skip
        assert "+beta" in str(added)
        events = [each for each in home.store.events(home.store.session(session.uid)) if each.log_id is not None]
        known = [each.at for each in events if each.at is not None]
        assert known == sorted(known)
        assert {each.kind for each in events if each.at is None} <= {"Hook"}


def test_the_projects_store_is_given_what_the_log_tells(tmp_path: Path) -> None:
    with closing(Machine(tmp_path)) as home, open_store(tmp_path / "p.bks", now=lambda: NOW) as project:
        session = recorded(tmp_path, home, project)
        assert project.turns(session)[0].model is None
        runs = home.store.ask_or([], run_facts.of_owner, project.id)
        assert not replication.was_given(home.store, project.id, runs)
        replication.take_logged(project, home.store, runs)
        replication.note_given(home.store, project.id, runs)
        assert replication.was_given(home.store, project.id, runs)
        ours, theirs = project.events(session), home.store.events(home.store.session(session.uid))
        assert [(each.seq, each.part, each.at, each.event) for each in ours] == [
            (each.seq, each.part, each.at, each.event) for each in theirs
        ]
        assert project.turns(session) == home.store.turns(home.store.session(session.uid))
        edit = next(each for each in ours if isinstance(each.event, ToolCall) and each.event.tool == "EDIT")
        assert FullForms(project).expand(edit) == edit.event
        before = project.path.stat().st_mtime_ns
        replication.take_logged(project, home.store, runs)
        assert project.path.stat().st_mtime_ns == before


@pytest.mark.parametrize("events_too", [False, True])
def test_what_the_log_tells_is_there_again_after_reindex(tmp_path: Path, events_too: bool) -> None:
    with closing(Machine(tmp_path)) as home, open_store(tmp_path / "p.bks", now=lambda: NOW) as project:
        session = recorded(tmp_path, home, project)
        replication.take_logged(project, home.store, home.store.ask_or([], run_facts.of_owner, project.id))
        for store in (project, home.store):
            before = whole(store, session.uid)
            assert reindex(store, now=NOW, events_too=events_too).failed == []
            assert whole(store, session.uid) == before
            assert store.verify().problems == []


def whole(store: Store, uid: str) -> list[Any]:
    """All that a store says of a session."""
    session = store.session(uid)
    events = [(each.seq, each.part, each.at, each.char_len, each.event) for each in store.events(session)]
    files = store.execute_read_only("select file_path, first_seq, first_seen_at from session_files order by 1").rows
    found = [event for hit in store.search("beta", ranked=False).hits if (event := store.event(hit.event_id))]
    return [events, store.turns(session), files, [(each.seq, each.part) for each in found]]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"{", b'{"times":{"0":"now"}}', b'{"times":{"0":-5,"7":%d}}' % 2**80,
        b'{"inputs":{"0":{"a":"\xff"}}}',
        b'{"inputs":{"0":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}}", b'{"inputs":{"0":[]},"times":{}}',
    ],
    ids=["nothing", "a list", "torn", "no time", "numbers", "no text", "deep", "no input"],
)  # fmt: skip
def test_facts_that_nobody_of_us_wrote_say_nothing_and_keep_no_run_from_being_derived(
    tmp_path: Path, content: bytes
) -> None:
    with closing(Machine(tmp_path)) as home, open_store(tmp_path / "p.bks", now=lambda: NOW) as project:
        session = recorded(tmp_path, home, project)
        before = project.events(session)
        give_facts(project, session, content)
        assert reindex(project, now=NOW, events_too=True).failed == []
        assert [(each.at, each.event) for each in project.events(session)] == [(each.at, each.event) for each in before]


def test_facts_of_an_impossible_size_are_not_taken_apart(tmp_path: Path) -> None:
    with closing(Machine(tmp_path)) as home, open_store(tmp_path / "p.bks", now=lambda: NOW) as project:
        session = recorded(tmp_path, home, project)
        give_facts(project, session, b'{"inputs":{"0":{"a":[' + b"[]," * (run_facts.BYTES_MAX // 3) + b"[]]}}}")
        tracemalloc.start()
        assert reindex(project, now=NOW, events_too=True).failed == []
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert used < 5 * run_facts.BYTES_MAX


def test_an_input_that_no_event_can_hold_is_passed_over_and_the_others_are_taken(tmp_path: Path) -> None:
    with closing(Machine(tmp_path)) as home, open_store(tmp_path / "p.bks", now=lambda: NOW) as project:
        session = recorded(tmp_path, home, project)
        calls = [each for each in project.events(session) if isinstance(each.event, ToolCall)]
        places = [
            place for (place,) in project_rows(project, "select position from main.events where kind = 'ToolCall'")
        ]
        content = b'{"inputs":{"%d":[1],"%d":{"command":"heron"}}}' % (places[0], places[1])
        give_facts(project, session, content)
        assert reindex(project, now=NOW, events_too=True).failed == []
        now = [each.event for each in project.events(session) if isinstance(each.event, ToolCall)]
        assert now[0] == calls[0].event
        assert now[1].input == {"command": "heron"}


def project_rows(store: Store, question: str) -> list[Any]:
    with closing(sqlite3.connect(store.path)) as db:
        return db.execute(question).fetchall()


def test_an_edit_is_found_by_the_lines_that_only_the_log_tells(tmp_path: Path) -> None:
    with closing(Machine(tmp_path)) as home, open_store(tmp_path / "p.bks", now=lambda: NOW) as project:
        session = recorded(tmp_path, home, project)
        assert found_in_calls(project) == []
        replication.take_logged(project, home.store, home.store.ask_or([], run_facts.of_owner, project.id))
        assert found_in_calls(project) == [session.id]


def found_in_calls(store: Store) -> list[int]:
    return [hit.session_id for hit in store.search("alpha beta", ranked=False).hits if hit.scope == "tool_input"]


def test_an_older_copy_of_a_projects_store_takes_nothing_from_the_machines(ran: Bench) -> None:
    store = ran.project / ".backstory" / "sessions.bks"
    older = store.read_bytes()
    ran.run("second", {"say": "more"}, GOOD)
    store.write_bytes(older)
    told = ran.backstory("ingest").stderr
    assert "Neither was replaced" in told
    with machine_store(ran) as home:
        assert [turn.prompt for turn in home.turns(home.session("S1"))] == ["first", "second"]


def test_a_machines_store_that_was_lost_has_the_projects_again(ran: Bench) -> None:
    ran.backstory("ingest")
    for each in ran.home.glob("store.db*"):
        each.unlink()
    ran.backstory("ingest")
    with machine_store(ran) as home:
        assert [turn.prompt for turn in home.turns(home.session("S1"))] == ["first"]


def test_a_fork_that_was_read_before_the_log_shares_the_runs_turn(ran: Bench) -> None:
    original = own_log(ran, "first", "by hand")
    folder = ran.root / ".claude" / "projects" / "p"
    log = folder / f"{original}.jsonl"
    data = log.read_text("utf-8")
    fork = "00000000-0000-4000-8000-000000000001"
    (folder / f"{fork}.jsonl").write_text(data.replace(f'"sessionId": "{original}"', f'"sessionId": "{fork}"'))
    log.unlink()
    ran.backstory("ingest")
    log.write_text(data)
    ran.backstory("ingest")
    with machine_store(ran) as home:
        run = home.turns(home.session("S1"))[0].uid
        assert [home.turns(home.session(each))[0].uid for each in (original, fork)] == [run, run]


def test_the_agents_id_of_a_run_goes_on_with_the_run(ran: Bench) -> None:
    native_id = own_log(ran, "first")
    ran.backstory("ingest")
    ran.run("second", {"say": "more"}, GOOD, options=("-S", native_id))
    assert [each.number for each in ran.store.sessions()] == [1]
    assert [turn.prompt for turn in ran.store.turns(1)] == ["first", "second"]


def test_what_silence_ended_says_so(bench: Bench) -> None:
    (bench.home / "config.toml").write_text("[run]\nsilence_s = 1\n")
    bench.run("first", {"say": "well"}, {"wait_for": str(bench.root / "never")})
    assert bench.store.turns(1)[0].outcome == "cancelled"
    assert "no output for" in bench.backstory("show", "S1").stdout


def test_a_session_is_removed_and_renamed_from_any_folder(ran: Bench) -> None:
    elsewhere = ran.root / "elsewhere"
    elsewhere.mkdir()
    _, err = ran.start("rename", "S1", "herons", cwd=elsewhere).communicate()
    assert "is now called" in err, err
    assert ran.store.session("herons").number == 1
    _, err = ran.start("rm", "herons", "--yes", cwd=elsewhere).communicate()
    assert "Removed" in err, err
    assert ran.store.sessions() == []


def claimed_id(path: Path) -> str:
    return str(json.loads(path.read_bytes().split(b"\n", 1)[0])["payload"]["id"])
