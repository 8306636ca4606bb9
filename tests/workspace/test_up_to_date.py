"""Commands that read take in what is new first: in a moment, waiting for nobody, and changing nothing else."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory import agents
from backstory.config import Config
from backstory.ingest import auto, discover, news
from backstory.ingest.ingest import ingest_briefly
from backstory.ingest.lock import ingest_lock
from backstory.ingest.news import TimeBudget
from backstory.store import Store
from backstory.store.file import migrate
from backstory.store.intake import rederiving
from backstory.workspace.stores import up_to_date
from backstory.workspace.stores.importing import Machine
from backstory.workspace.stores.up_to_date import OUTDATED, UNDER_WAY, UNKNOWN, conversion
from backstory.workspace.workspace import Workspace
from tests.support.clock import NOW
from tests.support.machines import claude_log, content, conversation, lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backstory.ingest.discover import Candidate
    from backstory.ingest.log_reader import Pace
    from backstory.ingest.report import IngestReport

OLD_NS = 1_700_000_000_000_000_000
CODEX = Path(".codex/sessions/2026/11/21/rollout-2026-11-21T21-00-00-0199a213-81c0-7800-8aa1-bbab2a035a53.jsonl")
CODEX_LOG = (
    b'{"timestamp":"2026-11-21T21:00:00.000Z","type":"session_meta","payload":'
    b'{"id":"0199a213-81c0-7800-8aa1-bbab2a035a53","timestamp":"2026-11-21T21:00:00.000Z","cwd":"/w"}}\n'
)


class Place:
    """A user's home folder with logs, and the home store that reads them."""

    def __init__(self, root: Path) -> None:
        self.user_home, self.home, self.work = root / "user", root / "backstory", root / "work"
        self.work.mkdir()
        (self.user_home / ".claude" / "projects").mkdir(parents=True)

    def workspace(self, environ: Mapping[str, str] | None = None, named: str | None = None) -> Workspace:
        own = self.home / "config.toml"
        return Workspace(lambda: Config(own), self.home, self.work, store=named, now=lambda: NOW, environ=environ or {})

    def write(self, path: Path, data: bytes) -> Path:
        log = self.user_home / path
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(data)
        return log

    def ingest(self) -> None:
        """An ingest of what was written long ago."""
        for path in sorted(self.user_home.rglob("*"), reverse=True):
            os.utime(path, ns=(OLD_NS, OLD_NS))
        with closing(self.workspace()) as workspace:
            workspace.ingest(Machine(user_home=self.user_home), lambda _: None)

    def update(self, named: str | None = None, **environ: str) -> str | None:
        with closing(self.workspace(environ, named)) as workspace:
            return " ".join(workspace.bring_up_to_date(self.user_home).remarks) or None

    def known(self) -> set[str | None]:
        """The agents' own ids of the sessions that are stored."""
        with closing(self.workspace()) as workspace:
            return {each.native_id for each in workspace.machine_store.sessions(subagents=True)}

    def content(self) -> dict[str, Any]:
        with closing(self.workspace()) as workspace:
            return content(workspace.machine_store)

    def files(self) -> dict[str, tuple[bytes, int]]:
        return {str(each): (each.read_bytes(), each.stat().st_mtime_ns) for each in self.home.rglob("*")}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A home folder with one log, which is stored."""
    made = Place(tmp_path)
    made.write(claude_log("first"), lines(*conversation(2)))
    made.ingest()
    return made


def test_a_new_log_is_taken_in(place: Place) -> None:
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    assert (place.update(), place.known()) == (None, {"first", "second"})


def test_a_log_that_grew_is_read_on(place: Place) -> None:
    log = place.write(claude_log("first"), lines(*conversation(4)))
    os.utime(log.parent, ns=(OLD_NS, OLD_NS))
    assert place.update() is None
    (session,) = place.content().values()
    assert session["facts"]["turns"] == 2


def test_a_folder_that_is_new_is_looked_through_with_those_in_it(place: Place) -> None:
    deep = Path(".claude/projects/-another/lead/subagents/agent-1.jsonl")
    place.write(Path(".claude/projects/-another/lead.jsonl"), lines(*conversation(2)))
    place.write(deep, lines(*conversation(2, 10)))
    place.update()
    assert place.known() == {"first", "lead", "lead/1"}


def test_an_agent_that_is_used_for_the_first_time_is_found(place: Place) -> None:
    place.write(CODEX, CODEX_LOG)
    place.update()
    assert "0199a213-81c0-7800-8aa1-bbab2a035a53" in place.known()


def test_where_nothing_is_new_nothing_of_the_home_folder_changes(place: Place) -> None:
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    place.update()
    before = place.files()
    assert (place.update(), place.update()) == (None, None)
    assert place.files() == before


def test_a_file_that_is_no_log_is_nothing_new(place: Place) -> None:
    place.write(Path(".claude/projects/-home-dev-work/notes.txt"), b"mine")
    before = place.files()
    assert (place.update(), place.files()) == (None, before)


# nothing was ever imported ----------------------------------------------------------------------------------------


@pytest.fixture
def new(tmp_path: Path) -> Place:
    """A home folder with two logs, of which nothing was ever imported."""
    made = Place(tmp_path)
    made.write(claude_log("first"), lines(*conversation(2)))
    made.write(CODEX, CODEX_LOG)
    return made


NOT_YET = "2 logs (1 KB) of claude, codex are not imported yet: backstory ingest"


def test_the_first_reading_imports_few_logs_and_says_once_what_where_and_how_to_prevent_it(new: Place) -> None:
    assert new.update() == (
        f"Imported 2 logs (1 KB) of claude, codex into {new.home / 'store.db'}. Nothing leaves this machine. To import "
        "by hand only: backstory config set ingest.auto false"
    )
    assert len(new.known()) == 2
    before = new.files()
    assert (new.update(), new.files()) == (None, before)


def test_a_store_that_runs_have_made_gets_the_logs_too(new: Place) -> None:
    with closing(new.workspace()) as workspace:
        workspace.machine_store.create_session("mine")
    assert str(new.update()).startswith("Imported 2 logs")
    assert len(new.known()) == 3


def test_many_logs_are_counted_and_not_read(new: Place) -> None:
    new.write(claude_log("big"), b"x" * auto.NEW_BYTES_MAX)
    said = "3 logs (4 MB) of claude, codex are not imported yet: backstory ingest"
    assert (new.update(), new.update(), new.home.exists()) == (said, said, False)


@pytest.mark.parametrize("is_there", [True, False])
def test_switched_off_the_logs_are_counted_and_nothing_is_made(new: Place, is_there: bool) -> None:
    if is_there:
        with closing(new.workspace()) as workspace:
            workspace.machine_store.create_session("mine")
    before = new.files()
    assert (new.update(BACKSTORY_INGEST_AUTO="0"), new.files()) == (NOT_YET, before)
    assert new.home.exists() == is_there


def test_what_is_never_read_is_not_counted(new: Place) -> None:
    new.home.mkdir()
    (new.home / "config.toml").write_text("[ingest]\nauto = false\nagents = ['codex']\n")
    assert new.update() == "1 log (1 KB) of codex is not imported yet: backstory ingest"


def test_without_a_log_nothing_is_made_and_nothing_said(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert (place.update(), place.home.exists()) == (None, False)


def test_where_only_runs_are_the_folders_are_looked_through_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    with closing(place.workspace()) as workspace:
        workspace.machine_store.create_session("mine")
    assert place.update() is None
    monkeypatch.setattr(up_to_date._Updating, "_first", lambda *_: pytest.fail("everything was looked through again"))
    place.write(claude_log("first"), lines(*conversation(2)))
    place.update()
    assert "first" in place.known()


@pytest.mark.parametrize("entries", [1, 3])
def test_a_count_that_was_cut_short_says_at_least(new: Place, monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    for n in range(5):
        new.write(claude_log(f"n{n}"), lines(*conversation(2, 10 * n + 10)))
    monkeypatch.setattr(discover, "ENTRIES_BETWEEN_LOOKS", entries)
    looks = iter(range(1_000_000))
    monkeypatch.setattr(TimeBudget, "is_over", lambda _: next(looks) > 8)
    said = str(new.update())
    assert (said.startswith("At least "), new.home.exists()) == (True, False)
    assert 1 <= int(said.split()[2]) < 7


def test_a_count_for_which_there_is_no_time_says_that_there_may_be_logs(
    new: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up_to_date, "CPU_S", 0.0)
    assert new.update() == "There may be logs that are not imported yet: backstory ingest"


def test_a_first_import_that_was_interrupted_keeps_what_it_stored(new: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(store: Store, logs: list[Candidate], pace: Pace, **more: Any) -> IngestReport:
        if logs[0].path.endswith("first.jsonl"):
            raise KeyboardInterrupt
        return ingest_briefly(store, logs, pace, **more)

    monkeypatch.setattr(auto, "LOGS_AT_ONCE", 1)
    monkeypatch.setattr(auto, "ingest_briefly", interrupted)
    os.utime(new.user_home / claude_log("first"), ns=(OLD_NS, OLD_NS))
    with pytest.raises(KeyboardInterrupt):
        new.update()
    assert len(new.known()) == 1
    monkeypatch.undo()
    assert str(new.update()).startswith("Imported 1 log (1 KB) of claude into ")
    assert len(new.known()) == 2


def test_a_home_that_cannot_be_made_is_said(new: Place) -> None:
    new.home.symlink_to("a folder that is not there")
    said = str(new.update())
    assert said.startswith("2 logs (1 KB) of claude, codex are not imported: ")
    assert str(new.home) in said


def test_logs_that_another_process_imports_are_said(new: Place) -> None:
    new.home.mkdir()
    with ingest_lock(new.home):
        assert new.update() == "2 logs (1 KB) of claude, codex are not imported yet: another process ingests."


def test_what_was_left_of_a_first_import_is_taken_in_later(new: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "LOGS_AT_ONCE", 1)
    left = iter([10.0, 4.0])
    monkeypatch.setattr(TimeBudget, "is_over", lambda _: False)
    monkeypatch.setattr(TimeBudget, "remaining_s", lambda _: next(left))
    assert "store.db; 1 of 2 are left: backstory ingest. Nothing leaves" in str(new.update())
    monkeypatch.undo()
    assert (new.update(), len(new.known())) == (None, 2)


# an agent deletes its logs ----------------------------------------------------------------------------------------

DELETED = (
    "Claude Code deletes its logs after {} days (cleanupPeriodDays in its settings.json), and the last import was "
)


def imported_days_ago(place: Place, days: float) -> None:
    at = time.time() - days * 86_400
    os.utime(place.home / news.FILE_NAME, (at, at))


def test_an_agent_that_deletes_its_logs_is_named_once_after_half_of_that_time(place: Place) -> None:
    imported_days_ago(place, 14.9)
    assert place.update() is None
    imported_days_ago(place, 15.1)
    assert place.update() == DELETED.format(30) + "15 days ago: import more often."
    assert place.update() is None


@pytest.mark.parametrize(
    ("settings", "days"), [('{"cleanupPeriodDays": 4}', 4), ('{"cleanupPeriodDays": "x"}', 30), ("{", 30), ("[]", 30)]
)
def test_how_long_logs_are_kept_is_the_agents_setting(place: Place, settings: str, days: int) -> None:
    place.write(Path(".claude/settings.json"), settings.encode())
    imported_days_ago(place, 20)
    assert place.update() == DELETED.format(days) + "20 days ago: import more often."


@pytest.mark.parametrize("days", [0, 99999])
def test_logs_that_are_kept_for_good_are_no_news(place: Place, days: int) -> None:
    place.write(Path(".claude/settings.json"), f'{{"cleanupPeriodDays": {days}}}'.encode())
    imported_days_ago(place, 400)
    assert place.update() is None


def test_an_agent_that_is_not_here_deletes_nothing(place: Place) -> None:
    shutil.rmtree(place.user_home / ".claude")
    imported_days_ago(place, 400)
    assert place.update() is None


def test_an_ingest_says_it_and_then_the_list_does_not(place: Place) -> None:
    imported_days_ago(place, 16)
    said = list[str]()
    with closing(place.workspace()) as workspace:
        workspace.ingest(Machine(user_home=place.user_home), said.append)
    assert said == [DELETED.format(30) + "16 days ago: import more often."]
    assert place.update() is None


def test_switched_off_it_is_said_and_nothing_changes(place: Place) -> None:
    imported_days_ago(place, 16)
    before = place.files()
    assert str(place.update(BACKSTORY_INGEST_AUTO="0")).startswith("Claude Code deletes")
    assert place.files() == before


# switched off, another store, another process ---------------------------------------------------------------------


@pytest.mark.parametrize("said", ["0", "false", "OFF", "no"])
def test_the_variable_switches_it_off(place: Place, said: str) -> None:
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    before = place.files()
    assert (place.update(BACKSTORY_INGEST_AUTO=said), place.files()) == (None, before)


def test_the_setting_switches_it_off_and_the_variable_on_again(place: Place) -> None:
    (place.home / "config.toml").write_text("[ingest]\nauto = false\n")
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    place.update()
    assert place.known() == {"first"}
    place.update(BACKSTORY_INGEST_AUTO="1")
    assert place.known() == {"first", "second"}


def test_another_store_that_was_named_is_left_as_it_is(place: Place, tmp_path: Path) -> None:
    shutil.copy(place.home / "store.db", tmp_path / "copy.db")
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    before = place.files(), (tmp_path / "copy.db").read_bytes()
    assert place.update(named=str(tmp_path / "copy.db")) is None
    assert (place.files(), (tmp_path / "copy.db").read_bytes()) == before


def test_where_another_process_ingests_nothing_is_done(place: Place) -> None:
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    with ingest_lock(place.home) as is_free:
        assert is_free
        assert (place.update(), place.known()) == (None, {"first"})
    place.update()
    assert place.known() == {"first", "second"}


def test_a_writer_is_not_waited_for(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    with closing(apsw.Connection(str(place.home / "store.db"))) as writer:
        writer.execute("begin immediate")
        monkeypatch.setattr("backstory.store.file.connection.BUSY_TIMEOUT_MS", 600_000)
        assert place.update() is None
        writer.execute("rollback")
    assert place.known() == {"first"}


def test_a_store_that_cannot_be_written_is_only_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    monkeypatch.setattr(Store, "is_writable", False)
    said = f"There may be newer logs, which cannot be stored: {place.home / 'store.db'} cannot be written."
    assert (place.update(), place.known()) == (said, {"first"})


def test_what_would_be_too_much_is_left_and_said(place: Place) -> None:
    big = b"x" * (auto.NEW_BYTES_MAX // 4)
    place.write(claude_log("big"), lines(*conversation(2, 10)) + big * 5)
    place.write(claude_log("small"), lines(*conversation(2, 20)))
    assert place.update() == "At least 1 log is newer: backstory ingest"
    assert place.known() == {"first", "small"}
    # What is left is found again.
    assert place.update() == "At least 1 log is newer: backstory ingest"


def test_without_time_nothing_is_done_and_that_is_said(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    monkeypatch.setattr(up_to_date, "CPU_S", 0.0)
    before = place.files()
    assert (place.update(), place.files()) == ("There may be newer logs: backstory ingest", before)


class Steps(TimeBudget):
    """Time for so many questions whether it is over."""

    def __init__(self, count: int) -> None:
        super().__init__(0.0)
        self._count = count

    def is_over(self) -> bool:
        self._count -= 1
        return self._count < 0


def test_many_small_logs_are_stored_in_portions_so_that_the_time_holds(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(8):
        place.write(claude_log(f"log{n}"), lines(*conversation(2, 10 * n + 10)))
    monkeypatch.setattr(auto, "LOGS_AT_ONCE", 2)
    left = iter([10.0, 7.0, 4.0, 1.0])
    monkeypatch.setattr(TimeBudget, "is_over", lambda _: False)
    monkeypatch.setattr(TimeBudget, "remaining_s", lambda _: next(left))
    # Each portion takes 3: after the third there is time for 1.
    assert place.update() == "At least 2 logs are newer: backstory ingest"
    assert len(place.known() - {"first"}) == 6
    monkeypatch.undo()
    assert (place.update(), len(place.known())) == (None, 9)


@pytest.mark.parametrize("steps", range(1, 9))
def test_wherever_the_time_ends_what_is_stored_is_whole_and_an_ingest_makes_it_all(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    long = lines(*conversation(400, 10))
    place.write(claude_log("long"), long)
    monkeypatch.setattr(auto, "SLICE_BYTES", len(long) // 6)
    with closing(place.workspace()) as workspace:
        store = workspace.machine_store
        folders = news.read(place.home, store)
        assert folders is not None
        found = news.look(store, folders, lambda _agent, _path: True, TimeBudget(60))
        logs = auto.new_logs(store, [agents.load("claude")], found, {}, place.user_home)
        taken = auto.take_in(store, logs, Steps(steps))
        assert (taken.left, bool(taken.unread)) in ((1, True), (0, False))
        assert store.verify().problems == []
    place.ingest()
    (tmp_path / "other").mkdir()
    other = Place(tmp_path / "other")
    shutil.copytree(place.user_home, other.user_home, dirs_exist_ok=True)
    other.ingest()
    assert place.content() == other.content()


def test_an_older_log_that_grows_is_found_when_its_folder_changes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news, "RECENT_LOGS", 0)
    log = place.write(claude_log("first"), lines(*conversation(4)))
    os.utime(log.parent, ns=(OLD_NS, OLD_NS))
    before = place.files()
    assert (place.update(), place.files()) == (None, before)
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    place.update()
    assert sorted(each["facts"]["turns"] for each in place.content().values()) == [1, 2]


def test_of_a_folder_with_very_many_logs_the_new_ones_are_found(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "STATTED_MAX", 0)
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    place.update()
    assert place.known() == {"first", "second"}


def test_with_more_new_files_than_are_looked_at_the_rest_is_said(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "FILES_MAX", 2)
    for number in range(5):
        log = place.write(claude_log(f"n{number}"), lines(*conversation(2, 10 * number + 10)))
    # Long ago, so that nothing but what was left has the folder looked through again.
    os.utime(log.parent, ns=(OLD_NS + 1, OLD_NS + 1))
    assert place.update() == "There may be newer logs: backstory ingest"
    assert len(place.known()) == 3
    while place.update() is not None:
        pass
    assert len(place.known()) == 6


def test_new_folders_for_which_there_was_no_room_are_found_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "FILES_MAX", 2)
    for number in range(5):
        log = place.write(
            Path(f".claude/projects/-p{number}/n{number}.jsonl"), lines(*conversation(2, 10 * number + 10))
        )
        os.utime(log.parent, ns=(OLD_NS, OLD_NS))
    os.utime(log.parent.parent, ns=(OLD_NS + 1, OLD_NS + 1))
    for _ in range(9):
        place.update()
    assert place.known() == {"first", *(f"n{number}" for number in range(5))}


def test_an_error_is_a_remark(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(news, "look", fail)
    assert place.update() == "New logs were not read: Input/output error"


def test_a_store_of_a_later_version_is_left_to_the_command(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    monkeypatch.setattr(migrate, "SCHEMA_VERSION", migrate.SCHEMA_VERSION - 1)
    before = place.files()
    assert (place.update(), place.files()) == (None, before)


def test_a_store_that_must_be_derived_anew_waits_for_an_ingest(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    before = place.files()
    monkeypatch.setattr(migrate, "DERIVED_VERSION", migrate.DERIVED_VERSION + 1)
    assert (place.update(), place.files()) == (OUTDATED, before)


def test_an_index_that_must_be_merged_waits_for_an_ingest(place: Place) -> None:
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    with closing(apsw.Connection(str(place.home / "store.db"))) as killed:
        killed.execute("insert into search_index(search_index, rank) values ('automerge', 0)")
    assert (place.update(), place.known()) == (UNDER_WAY, {"first"})


def test_a_store_that_was_put_back_does_not_miss_what_came_between(place: Place, tmp_path: Path) -> None:
    shutil.copy(place.home / "store.db", tmp_path / "kept.db")
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    place.ingest()
    shutil.copy(tmp_path / "kept.db", place.home / "store.db")
    assert place.update() == UNKNOWN
    place.ingest()
    assert (place.update(), place.known()) == (None, {"first", "second"})


@pytest.mark.parametrize("content", [b"", b"\x00", b"\xff" * 99])
def test_a_damaged_note_of_the_folders_is_said_and_made_again(place: Place, content: bytes) -> None:
    (place.home / news.FILE_NAME).write_bytes(content)
    assert place.update() == UNKNOWN
    place.ingest()
    assert place.update() is None


def test_the_log_of_a_run_that_goes_on_is_left_alone_and_read_afterwards(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up_to_date._Updating, "_running", lambda _: {("claude", "second")})
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    before = place.home.joinpath(news.FILE_NAME).read_bytes()
    assert (place.update(), place.known()) == (None, {"first"})
    assert place.home.joinpath(news.FILE_NAME).read_bytes() == before
    monkeypatch.undo()
    place.update()
    assert place.known() == {"first", "second"}


@pytest.mark.parametrize("setting", ["exclude = ['*/second.jsonl']", "agents = ['codex']"])
def test_what_is_never_read_is_not_read(place: Place, setting: str) -> None:
    (place.home / "config.toml").write_text(f"[ingest]\n{setting}\n")
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    before = place.files()
    assert (place.update(), place.files()) == (None, before)


def test_a_setting_that_is_wrong_is_a_remark(place: Place) -> None:
    (place.home / "config.toml").write_text("[ingest]\nauto = 3\n")
    assert "ingest.auto: it must be true or false" in str(place.update())


def test_a_removed_session_stays_removed(place: Place) -> None:
    with closing(place.workspace()) as workspace:
        (session,) = workspace.machine_store.sessions()
        workspace.machine_store.remove(session)
    place.write(claude_log("first"), lines(*conversation(4)))
    place.update()
    assert place.known() == set()


def test_no_agent_is_needed_to_see_that_nothing_is_new(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise AssertionError(f"{name} was imported")

    monkeypatch.setattr(agents, "load", fail)
    assert place.update() is None
    place.write(claude_log("second"), lines(*conversation(2, 10)))
    assert place.update() == "New logs were not read: AssertionError: claude was imported"


def test_the_five_thousand_folders_that_changed_last_are_looked_at(store: Store, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").touch()
    for newer, found in ((4_999, {str(tmp_path / "log.jsonl"): "claude"}), (5_000, {})):
        folders = {"claude": {**{f"/nowhere/{n}": 2 for n in range(newer)}, str(tmp_path): 1}}
        assert news.look(store, folders, lambda *_: True, TimeBudget(60)).files == found


@pytest.mark.parametrize(("logs", "time_"), [(1, "1 s"), (50 << 20, "4 s"), (3_600 << 20, "5 min")])
def test_what_a_conversion_takes_follows_from_the_bytes_that_are_derived_again(
    place: Place, monkeypatch: pytest.MonkeyPatch, logs: int, time_: str
) -> None:
    with closing(place.workspace()) as workspace:
        assert conversion(workspace.home_store) == ""
        monkeypatch.setattr(rederiving, "left", lambda _: (1234, logs))
        said = conversion(workspace.home_store)
    assert said.startswith(f"1,234 sessions to convert: about {time_}, and up to ")
