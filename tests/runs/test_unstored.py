"""A run that cannot be stored waits, is named, and holds up nothing but its own session."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory.agents.claude.stream import StreamReader
from backstory.errors import SessionDiverged
from backstory.exchange import replication
from backstory.ids import turn_uid
from backstory.model import UserMessage
from backstory.runs.runner import Runner
from backstory.runs.spool import SPOOLS, Run, Spool
from backstory.store import RecordBatch, open_store
from backstory.store.intake import append, claims, derived_tables
from backstory.store.tables import event_rows, logs, runs, turns
from tests.support.bench import Bench, MadeOnce
from tests.support.clock import NOW

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from backstory.store import Session, Store

WRITING: list[tuple[ModuleType, str]] = [
    (append, "write"),
    (append, "_ours_as_expected"),
    (append, "_drop_unfinished"),
    (append, "_insert_log"),
    (append, "_write_parsed"),
    (append, "_write_turns"),
    (append, "_note_parsed"),
    (append, "_keep_bytes"),
    (append, "_update_ours"),
    (turns, "upsert"),
    (turns, "sum_up"),
    (turns, "note_answers"),
    (append, "insert_events"),
    (event_rows, "index_texts"),
    (logs, "insert_chunks"),
    (logs, "insert_seq_ranges"),
    (derived_tables, "write"),
    (claims, "link_run_to_log"),
]


def refuse(bench: Bench, prompt: str, path: Path | None = None) -> None:
    """Have the project's store, or the one at ``path``, take no turn with this prompt."""
    with closing(apsw.Connection(str(path or bench.store.path))) as db:
        db.execute(
            f"create trigger refused before insert on turns when new.prompt = '{prompt}' "
            "begin select raise(abort, 'not this one'); end"
        )


def refuse_no_more(bench: Bench, path: Path | None = None) -> None:
    with closing(apsw.Connection(str(path or bench.store.path))) as db:
        db.execute("drop trigger refused")


def prompts(bench: Bench, name: str) -> list[str]:
    with bench.store as store:
        return [turn.prompt for turn in store.turns(store.session(name))]


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    bench = Bench(tmp_path_factory.mktemp("begun"))
    assert bench.run("first", {"say": "one"}, {"result": True}).returncode == 0
    return MadeOnce(bench)


@pytest.fixture
def bench(made_once: MadeOnce) -> Bench:
    """A session with one run, which is over."""
    return made_once.anew_and_noted()


def test_a_run_that_cannot_be_stored_waits_and_is_named_and_stops_no_other(bench: Bench) -> None:
    refuse(bench, "guilty")
    ended = bench.run("guilty", {"say": "precious"}, {"result": True}, options=("-S", "S1"))
    assert ended.returncode == 0
    assert "The run is kept, but not stored yet" in ended.stderr
    assert "not this one" in ended.stderr
    other = bench.run("another", {"say": "two"}, {"result": True}, options=("--new",))
    assert other.returncode == 0
    assert "not this one" in other.stderr
    assert prompts(bench, "S2") == ["another"]
    (spool,) = bench.spools()
    read = bench.backstory("ingest", "--json")
    assert read.returncode == 0
    (error,) = json.loads(read.stdout)["errors"]
    assert error["path"] == str(spool)
    assert "not this one" in error["reason"]
    (waiting,) = json.loads(bench.backstory("ps", "--json").stdout)["runs"]
    assert (waiting["state"], waiting["prompt"], waiting["folder"]) == ("waiting", "guilty", str(spool))
    assert "not this one" in waiting["problem"]
    assert "not this one" in bench.backstory("ps").stderr
    assert str(spool) in bench.backstory("list").stderr


def test_a_session_is_not_run_on_behind_a_run_that_it_lacks(bench: Bench) -> None:
    refuse(bench, "guilty")
    bench.run("guilty", {"say": "precious"}, {"result": True}, options=("-S", "S1"))
    behind = bench.run("behind", {"say": "never"}, {"result": True}, options=("-S", "S1"))
    assert behind.returncode == 75
    assert "An earlier run of S1 could not be stored" in behind.stderr
    assert "Traceback" not in behind.stderr
    assert prompts(bench, "S1") == ["first"]
    refuse_no_more(bench)
    assert bench.run("behind", {"say": "three"}, {"result": True}, options=("-S", "S1")).returncode == 0
    assert prompts(bench, "S1") == ["first", "guilty", "behind"]
    assert bench.spools() == []


def machines(bench: Bench) -> Path:
    """Where the machine's store lies."""
    return bench.home / "store.db"


def test_a_session_goes_on_behind_a_run_that_only_the_machines_store_lacks(bench: Bench) -> None:
    refuse(bench, "guilty", machines(bench))
    bench.run("guilty", {"say": "precious"}, {"result": True}, options=("-S", "S1"))
    assert prompts(bench, "S1") == ["first", "guilty"]
    behind = bench.run("behind", {"say": "three"}, {"result": True}, options=("-S", "S1"))
    assert behind.returncode == 0, behind.stderr
    assert "Traceback" not in behind.stderr
    assert prompts(bench, "S1") == ["first", "guilty", "behind"]
    refuse_no_more(bench, machines(bench))
    assert bench.backstory("ingest").returncode == 0
    with open_store(machines(bench)) as machine:
        (session,) = machine.sessions()
        assert [turn.prompt for turn in machine.turns(session)] == ["first", "guilty", "behind"]
    assert bench.spools() == []


def test_a_session_goes_on_where_the_machines_store_has_other_turns_and_refuses_this_one(bench: Bench) -> None:
    with open_store(machines(bench)) as machine, closing(apsw.Connection(str(machine.path))) as db:
        (session,) = machine.sessions()
        db.execute("update turns set uid = ? where session_id = ?", ("7" * 26, session.id))
    refuse(bench, "guilty", machines(bench))
    bench.run("guilty", {"say": "precious"}, {"result": True}, options=("-S", "S1"))
    behind = bench.run("behind", {"say": "three"}, {"result": True}, options=("-S", "S1"))
    assert behind.returncode == 0, behind.stderr
    assert prompts(bench, "S1") == ["first", "guilty", "behind"]
    assert len(bench.spools()) == 1
    refuse_no_more(bench, machines(bench))
    bench.backstory("ingest")
    assert bench.spools() == []
    with open_store(machines(bench)) as machine:
        (session,) = machine.sessions()
        assert {"guilty", "behind"} <= {turn.prompt for turn in machine.turns(session)}


def test_a_session_that_the_machines_store_refuses_keeps_no_other_of_its_project_out(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with bench.store as store:
        for name in ("first", "guilty", "third"):
            session = store.create_session(name)
            store.append_events(session, [UserMessage(content=f"asked {name}")])
    bench.note_store()
    with open_store(machines(bench), shared=True) as machine:
        machine.create_session("made ready")
    with closing(apsw.Connection(str(machines(bench)))) as db:
        db.execute(
            "create trigger refused before insert on sessions when new.name = 'guilty' "
            "begin select raise(abort, 'not this one'); end"
        )
    told = bench.backstory("ingest").stderr
    with open_store(machines(bench)) as machine:
        assert {"first", "third"} <= {session.name for session in machine.sessions()}
    assert told.count("not this one") == 1
    assert "1 session of" in told
    refuse_no_more(bench, machines(bench))
    assert "not this one" not in bench.backstory("ingest").stderr
    with open_store(machines(bench)) as machine:
        assert {"first", "guilty", "third"} <= {session.name for session in machine.sessions()}


@pytest.mark.parametrize("damage", [b"", b"{", b"{}", b"\xff"], ids=["empty", "torn", "nothing", "no text"])
def test_a_spool_that_does_not_say_whose_it_is_is_named_and_stops_nothing(bench: Bench, damage: bytes) -> None:
    folder = bench.home / SPOOLS / ("0" * 26)
    folder.mkdir(mode=0o700, parents=True)
    (folder / "run.json").write_bytes(damage)
    (folder / "stdout").write_bytes(b"precious")
    assert bench.run("second", {"say": "two"}, {"result": True}, options=("-S", "S1")).returncode == 0
    listed, shown = bench.backstory("list"), bench.backstory("ps")
    assert (listed.returncode, shown.returncode) == (0, 0)
    for told in (listed, shown):
        assert f"{folder} holds a run whose run.json cannot be read" in told.stderr
    assert "Nothing is running" not in shown.stderr
    (row,) = json.loads(bench.backstory("ps", "--json").stdout)["runs"]
    assert (row["state"], row["uid"], row["turn_uid"], row["folder"]) == ("unreadable", None, "0" * 26, str(folder))
    assert (folder / "stdout").read_bytes() == b"precious"


def test_a_spool_that_was_never_finished_is_not_named(bench: Bench) -> None:
    (bench.home / SPOOLS / ("0" * 26)).mkdir(mode=0o700, parents=True)
    assert "cannot be read" not in bench.backstory("list").stderr
    assert json.loads(bench.backstory("ps", "--json").stdout)["runs"] == []


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def left(home: Path, store: Store, session: Session, name: str, path: Path | None = None) -> None:
    """What a runner that died left of a run, in the store that lies at ``path`` in the end."""
    run = Run(
        turn_uid=turn_uid("claude", name), session_uid=session.uid, store=str(path or store.path), agent="claude",
        prompt=f"asked {name}", cwd="/w", started=NOW,
    )  # fmt: skip
    spool = Spool.begin(home / SPOOLS, run, run.prompt)
    said = {"id": "m", "content": [{"type": "text", "text": f"answered {name}"}], "usage": {"input_tokens": 1}}
    records = [{"type": "assistant", "message": said}, {"type": "result", "subtype": "success", "duration_ms": 5}]
    spool.stdout.write_text("".join(json.dumps(each) + "\n" for each in records))
    spool.stderr.touch()


NAMES = ("first", "guilty", "third")


@pytest.fixture(scope="module")
def three_left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home and a project's store with three runs whose runners died, which is not to be changed."""
    folder = tmp_path_factory.mktemp("left") / "as-made"
    folder.mkdir()
    with open_store(folder / "project.bks", now=lambda: NOW) as store:
        for each in NAMES:
            left(folder / "home", store, store.create_session(each), each, folder.parent / "used" / "project.bks")
    open_store(folder / "home.db", shared=True, now=lambda: NOW).close()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "error",
    [OverflowError("too large"), apsw.ConstraintError("NOT NULL constraint failed")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize(("module", "name"), WRITING, ids=[name for _, name in WRITING])
def test_whatever_storing_one_run_raises_the_others_are_stored_and_it_is_when_it_can_be(
    three_left: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, error: Exception
) -> None:
    home = three_left.with_name("used") / "home"
    shutil.rmtree(home.parent, ignore_errors=True)
    shutil.copytree(three_left, home.parent)
    store = open_store(home.parent / "project.bks", now=lambda: NOW)
    machine_store = open_store(home.parent / "home.db", shared=True, now=lambda: NOW)
    sessions = {each: store.session(each) for each in NAMES}
    runner = Runner(home, machine_store, {}, lambda: NOW)
    write, whole, guilty = append.write, getattr(module, name), [False]

    def watched(db: apsw.Connection, batch: RecordBatch, *more: Any) -> append.Written:
        guilty[0] = "guilty" in batch.turns[0].prompt
        written: append.Written = (faulty if module is append and name == "write" else write)(db, batch, *more)
        return written

    def faulty(*values: Any, **more: Any) -> Any:
        if guilty[0]:
            raise error
        return whole(*values, **more)

    monkeypatch.setattr(append, "write", watched)
    if (module, name) != (append, "write"):
        monkeypatch.setattr(module, name, faulty)
    told: list[str] = []
    assert runner.recover_finished_runs(told.append) == 2
    (problem,) = told
    assert str(error) in problem
    answered = {each: [turn.outcome for turn in store.turns(session)] for each, session in sessions.items()}
    assert answered == {"first": ["completed"], "guilty": [], "third": ["completed"]}
    monkeypatch.undo()
    assert runner.recover_finished_runs(told.append) == 1
    assert [turn.prompt for turn in store.turns(sessions["guilty"])] == ["asked guilty"]
    assert [turn.prompt for turn in machine_store.turns(machine_store.session(sessions["guilty"].uid))] == [
        "asked guilty"
    ]
    assert list((home / SPOOLS).iterdir()) == []
    assert store.verify().problems == []
    store.close()
    machine_store.close()


def test_whatever_the_machines_store_raises_the_run_counts_as_stored_and_comes_later(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        open_store(home.parent / "project.bks", now=lambda: NOW) as store,
        open_store(home / "store.db", shared=True, now=lambda: NOW) as machine,
    ):
        machine.begin()
        session = store.create_session()
        left(home, store, session, "guilty")
        runner, told = Runner(home, machine, {}, lambda: NOW), list[str]()

        def diverged(*_: Any, **__: Any) -> None:
            raise SessionDiverged(session.uid)

        start_in = runs.start_in

        def refused(db: apsw.Connection, *given: str) -> runs.RunStart:
            if db.filename == str(machine.path):
                raise OverflowError("too large")
            return start_in(db, *given)

        with monkeypatch.context() as patch:
            patch.setattr(replication, "replicate_session", diverged)
            patch.setattr(runs, "start_in", refused)
            assert runner.recover_finished_runs(told.append) == 1
        assert "cannot take it: OverflowError: too large" in told[0]
        assert len(list((home / SPOOLS).iterdir())) == 1
        assert runner.recover_finished_runs() == 1
        assert list((home / SPOOLS).iterdir()) == []
        assert [turn.prompt for turn in machine.turns(machine.session(session.uid))] == ["asked guilty"]


def test_a_run_whose_output_its_adapter_fails_at_is_stored_with_what_it_said(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(home.parent / "project.bks", now=lambda: NOW) as store, open_store(home / "store.db") as machine:
        session = store.create_session()
        left(home, store, session, "guilty")
        monkeypatch.setattr(StreamReader, "_assistant", lambda *_: 1 / 0)
        monkeypatch.setattr(StreamReader, "ended", lambda *_: 1 / 0)
        assert Runner(home, machine, {}, lambda: NOW).recover_finished_runs() == 1
        assert [each.kind for each in store.events(session)] == ["UserMessage", "Unknown", "Complete", "Error"]
        (turn,) = store.turns(session)
        assert turn.outcome == "crashed"
        assert any(b"answered guilty" in data for log in store.logs(session) for data in store.stream_log(log.id))
