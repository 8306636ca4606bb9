"""``prune``: what it chooses, that nothing goes unasked, and that its room is free afterwards."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory.cli import output
from backstory.derive.pruning import Pruning
from backstory.errors import BackstoryError, DiskFull, NotErased
from backstory.store import Store, open_store
from backstory.store.file import erasing, maintenance
from backstory.store.intake import overwriting
from backstory.workspace.opening import open_workspace
from backstory.workspace.stores import pruning
from backstory.workspace.stores.importing import no_progress
from backstory.workspace.stores.pruning import Pruner, PruneWish
from tests.support.bench import Bench
from tests.support.clock import NOW
from tests.support.counts import steps
from tests.support.faults import Disk, failing_disk
from tests.support.forked import COMMAND
from tests.support.going import GOOD, Going, until
from tests.support.leftovers import leftovers
from tests.support.machines import claude_line, claude_log, lines
from tests.support.pruned import LATER, NEW, OLD, ids, prose, put, put_subagent, settled
from tests.support.shell import Shell
from tests.support.small_disk import small_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

EVERYTHING = {"old", "later", "new", "away", "large"}
USAGE, TRY_AGAIN, INVALID = 2, 75, 64
MB = 1_000_000
command = importlib.import_module("backstory.cli.commands.prune_command")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    home = tmp_path_factory.mktemp("pruned") / "home"
    home.mkdir()
    return settled(Shell(home))


@pytest.fixture
def desk(made: Shell, tmp_path: Path) -> Shell:
    """Five sessions of three ages in two projects. The folders that they name are those of ``made``."""
    shutil.copytree(made.home, tmp_path / "home")
    return Shell(tmp_path / "home")


def told(shell: Shell, *words: str) -> dict[str, Any]:
    done = shell("prune", *words, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def goes(shell: Shell, *words: str) -> set[str]:
    """The agents' ids of the listed sessions that would go."""
    uids = set(told(shell, *words)["uids"])
    listed = json.loads(shell("list", "--all", "--json", "--helpers").out)["sessions"]
    return {each["native_id"] for each in listed if each["uid"] in uids and each["relation"] is None}


# what is chosen -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--older", "2026-03-01"], {"old"}),
        (["--older", "2026-06-01"], {"old", "later", "away"}),
        (["--larger", "100KB"], {"large"}),
        (["--agent", "claude"], EVERYTHING),
        (["--agent", "codex"], set()),
        (["--gone"], {"away", "large"}),
        (["--gone", "--older", "2026-06-01"], {"away"}),
        (["--gone", "--older", "2026-06-01", "--larger", "1MB"], set()),
        (["--project", "here"], {"old", "later", "new"}),
        (["--to-size", "1GB"], set()),
        (["--to-size", "1"], EVERYTHING),
    ],
    ids=lambda each: " ".join(sorted(each) if isinstance(each, set) else each) or "none",
)
def test_what_goes_is_all_that_was_said(desk: Shell, words: list[str], wanted: set[str]) -> None:
    assert goes(desk, *words) == wanted


def test_a_repository_is_named_as_in_a_list(desk: Shell) -> None:
    with open_store(desk.store, shared=True) as store:
        store.write(lambda db: db.execute("update sessions set repository = 'me/app' where native_id = 'old'"))
    assert goes(desk, "--repo", "app") == {"old"}
    assert goes(desk, "--repo", "me/other") == set()


def test_the_oldest_go_until_the_store_is_as_small(desk: Shell) -> None:
    for n in range(8):
        put(desk, f"n{n}", "/w", f"2026-0{n + 1}-02T10:00:00.000Z", chars=200_000, seed=20 + n)
    desk("ingest")
    size = desk.store.stat().st_size
    wanted = size * 7 // 10
    plan = told(desk, "--to-size", str(wanted), "--project", "w")
    assert 3 <= len(plan["uids"]) <= 7 and plan["is_enough"]
    assert told(desk, "--to-size", str(wanted), "--project", "w", "--yes")["uids"] == plan["uids"]
    assert desk.store.stat().st_size <= wanted * 1.02
    left = ids(desk)
    assert {f"n{n}" for n in range(8)} & left == {f"n{n}" for n in range(len(plan["uids"]), 8)}
    assert left >= EVERYTHING


def test_it_says_where_the_store_stays_larger(desk: Shell) -> None:
    done = desk("prune", "--to-size", "1KB", "--older", "2026-03-01")
    assert "The store is still larger than 1.0 KB then: the rest may not go." in done.err
    assert not told(desk, "--to-size", "1KB", "--older", "2026-03-01")["is_enough"]
    assert "is no larger than that" in desk("prune", "--to-size", "1GB").err


def test_a_subagent_keeps_its_session(desk: Shell) -> None:
    for words in (["--older", "2026-03-01"], ["--agent", "claude"]):
        assert len(told(desk, *words)["uids"]) == len(goes(desk, *words)) + 1
    put_subagent(desk, "old", desk.home / "here", NEW)
    desk("ingest")
    # Its session was at work while it was.
    assert goes(desk, "--older", "2026-03-01") == set()


def test_subagents_go_alone(desk: Shell) -> None:
    assert len(told(desk, "--kind", "subagents", "--older", "2026-03-01", "--yes")["uids"]) == 1
    assert ids(desk) == EVERYTHING
    assert len(ids(desk, "--helpers")) == len(EVERYTHING)
    desk("ingest")
    assert len(ids(desk, "--helpers")) == len(EVERYTHING)
    assert desk("verify").code == 0


def test_a_name_keeps_a_session_whole_if_that_is_said(desk: Shell) -> None:
    desk("rename", "old", "mine")
    kept = told(desk, "--older", "2026-06-01", "--keep", "named")
    assert [(each["label"], each["reason"]) for each in kept["spared"]] == [("mine", "it has a name")]
    assert goes(desk, "--older", "2026-06-01", "--keep", "named") == {"later", "away"}
    assert goes(desk, "--older", "2026-06-01") == {"old", "later", "away"}


def test_folders_of_another_machine_are_not_gone(desk: Shell) -> None:
    with open_store(desk.store, shared=True) as store:
        store.write(lambda db: db.execute("update sessions set imported = 1 where native_id = 'away'"))
    assert goes(desk, "--gone") == {"large"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], USAGE, "Say what is to go: --older"),
        (["--keep", "named", "--yes"], USAGE, "Say what is to go: --older"),
        (["--older", "some day"], INVALID, "some day"),
        (["--larger", "much"], USAGE, "'much' is no size. Write 500MB"),
        (["--agent", "nobody"], INVALID, "No agent is called 'nobody'"),
    ],
    ids=str,
)
def test_what_is_not_understood_removes_nothing(desk: Shell, words: list[str], code: int, said: str) -> None:
    done = desk("prune", *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert ids(desk) == EVERYTHING


# nothing unasked ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [[], ["--dry-run"], ["--dry-run", "--yes"], ["--json"]], ids=" ".join)
def test_nobody_was_asked_so_nothing_changes(desk: Shell, more: list[str]) -> None:
    before = desk.store.read_bytes()
    done = desk("prune", "--gone", *more, typed="y\n")
    assert done.code == 0
    assert desk.store.read_bytes() == before
    if "--json" in more:
        assert json.loads(done.out)["is_dry_run"]
    else:
        assert [line.split() for line in done.out.splitlines()[:1]] == [list(command.HEADS)]
        assert "2 sessions\n" in done.out and "Frees about " in done.out
        assert ("the same with --yes" in done.err) == (not more or more == ["--dry-run"] or "--yes" in more)


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool, int], list[str]]:
    """A person who answers after some time; returns the questions."""

    def answering(answer: bool, after_ms: int) -> list[str]:
        times, asked = iter([NOW, NOW + after_ms]), list[str]()
        monkeypatch.setattr(output, "can_ask", lambda: True)
        monkeypatch.setattr(output, "confirm", lambda question: bool(asked.append(question)) or answer)  # type: ignore[func-returns-value]
        monkeypatch.setattr(command, "now_ms", lambda: next(times))
        return asked

    return answering


@pytest.mark.parametrize(
    ("answer", "after_ms", "code", "left"),
    [
        (True, 59_000, 0, {"old", "later", "new"}),
        (False, 1_000, 0, EVERYTHING),
        (True, 61_000, TRY_AGAIN, EVERYTHING),
    ],
)
def test_a_person_is_asked_and_an_answer_of_later_is_refused(
    desk: Shell, at_a_terminal: Callable[[bool, int], list[str]], answer: bool, after_ms: int, code: int, left: set[str]
) -> None:
    asked = at_a_terminal(answer, after_ms)
    done = desk("prune", "--gone")
    assert done.code == code
    assert ("More than a minute went by" in done.err) == (code == TRY_AGAIN)
    assert [each.partition(", and")[0] for each in asked] == ["Remove 2 sessions for good"]
    assert ids(desk) == left


# what runs, what waits, and what is not ours to write -----------------------------------------------------------------


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def of(bench: Bench, *words: str) -> dict[str, Any]:
    done = bench.backstory("prune", *words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_what_runs_stays_and_is_named(bench: Bench) -> None:
    bench.run("Where?", {"say": "here"}, GOOD)
    bench.backstory("ingest")
    with Going(bench, {"say": "well"}):
        found = of(bench, "--agent", "claude", "--yes")
        assert (found["uids"], [each["reason"] for each in found["spared"]]) == ([], [pruning.RUNS])
    assert len(of(bench, "--agent", "claude", "--yes")["uids"]) >= 1
    with bench.store as store:
        assert store.uids() == []
    assert json.loads(bench.backstory("list", "--all", "--json").stdout)["sessions"] == []


def test_what_waits_in_a_queue_stays_and_is_named(bench: Bench) -> None:
    bench.run("Where?", {"say": "here"}, GOOD)
    bench.backstory("ingest")
    bench.backstory("queue", "add", "--no-run", "-S", "S1", "and then?")
    done = bench.backstory("prune", "--agent", "claude", "--yes")
    assert "Stays: " in done.stderr and f": {pruning.WAITS}." in done.stderr
    bench.backstory("queue", "clear", "-S", "S1")
    assert len(of(bench, "--agent", "claude")["uids"]) == 1


def test_both_stores_of_a_project_are_smaller(bench: Bench) -> None:
    bench.run("Where?", *({"say": prose(n, 15_000)} for n in range(6)), GOOD)
    bench.run("And?", {"say": "there"}, GOOD, options=("--new",))
    bench.backstory("ingest")
    paths = [bench.home / "store.db", bench.store.path]
    before = [each.stat().st_size for each in paths]
    found = of(bench, "--larger", "100KB", "--yes")
    assert {each["path"] for each in found["stores"]} == {str(each) for each in paths}
    assert all(each.stat().st_size < size - 16_000 for each, size in zip(paths, before, strict=True))
    assert len(json.loads(bench.backstory("list", "--all", "--json").stdout)["sessions"]) == 1


def test_a_store_that_may_not_be_written_keeps_its_session(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.run("Where?", {"say": "here"}, GOOD)
    bench.backstory("ingest")
    path = bench.store.path
    monkeypatch.setattr(Store, "is_writable", property(lambda store: store.path != path))
    with open_workspace(bench.project, bench.environ([]), now=lambda: NOW) as workspace:
        plan = Pruner(workspace).plan(PruneWish(before=NOW * 2))
    assert plan.going == []
    assert [each.reason for each in plan.spared] == [f"its store is not to be written: {path}"]


def test_a_project_that_is_gone_keeps_nothing(bench: Bench) -> None:
    bench.run("Where?", {"say": "here"}, GOOD)
    bench.backstory("ingest")
    shutil.rmtree(bench.project)
    other = bench.root / "other"
    other.mkdir()
    done = bench.backstory("prune", "--gone", "--yes", "--json", cwd=other)
    assert len(json.loads(done.stdout)["uids"]) == 1, done.stderr
    assert json.loads(bench.backstory("list", "--all", "--json", cwd=other).stdout)["sessions"] == []


def test_a_store_that_is_named_is_the_only_one_that_changes(desk: Shell, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    desk("backup", copy)
    before = desk.store.read_bytes()
    assert len(told(desk, "--gone", "--yes", "--trust", "--store", str(copy))["uids"]) == 2
    assert desk.store.read_bytes() == before
    assert ids(desk, "--store", str(copy)) == {"old", "later", "new"}


def test_it_says_beforehand_that_the_team_s_server_loses_it_too(desk: Shell) -> None:
    said_so = "What `sync` sent of them goes from the team's server, too"
    assert said_so not in desk("prune", "--gone").err
    (desk.store.parent / "config.toml").write_text("[sync]\nenabled = true\n")
    assert said_so in desk("prune", "--gone").err
    assert said_so not in desk("prune", "--gone", "--keep", "prompts").err


# the room -------------------------------------------------------------------------------------------------------------


def size_on_disk(shell: Shell) -> int:
    return sum(each.stat().st_size for each in shell.store.parent.glob("store.db*"))


def test_what_it_says_it_frees_is_near_what_it_frees(desk: Shell) -> None:
    for n in range(6):
        put(desk, f"n{n}", "/w", LATER, chars=150_000 + 30_000 * n, seed=50 + n)
    desk("ingest")
    before = size_on_disk(desk)
    plan = told(desk, "--older", "2026-06-01")
    done = told(desk, "--older", "2026-06-01", "--yes")
    freed = before - size_on_disk(desk)
    assert freed > MB // 2
    assert done["freed_bytes"] == freed
    assert abs(plan["freed_bytes"] - freed) < freed // 10
    # Nothing waits beside the file.
    wal = desk.store.with_name("store.db-wal")
    assert not wal.exists() or not wal.stat().st_size


def test_nothing_is_left_of_it_and_the_rest_is_whole(desk: Shell) -> None:
    assert leftovers(desk.store.parent, "the prompt of large")
    done = desk("prune", "--gone", "--yes")
    assert "Removed 2 sessions. Freed " in done.out
    assert leftovers(desk.store.parent, "the prompt of large") == set()
    assert json.loads(desk("verify", "--json").out)["ok"]
    assert desk("search", "--all", "the prompt of old", "--json").json()["hits"]
    assert desk("stats", "--all", "--json").json()["sums"]["session_count"] == 3
    again = desk("prune", "--gone", "--yes")
    assert (again.code, again.out) == (0, "")
    assert "No session goes" in again.err


def test_it_stays_away_until_it_is_asked_for(desk: Shell) -> None:
    told(desk, "--older", "2026-03-01", "--yes")
    desk("ingest")
    assert ids(desk) == EVERYTHING - {"old"}
    desk("ingest", "--forgotten")
    assert ids(desk, "--helpers") >= EVERYTHING and len(ids(desk, "--helpers")) == len(EVERYTHING) + 1
    assert desk("verify").code == 0


def test_beside_who_reads_and_who_watches_it_goes_and_stays_away(desk: Shell) -> None:
    watch = subprocess.Popen(
        [*COMMAND, "ingest", "--watch"], cwd=desk.cwd, env=desk.environ, text=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert watch.stderr is not None
        while "Following" not in watch.stderr.readline():
            assert watch.poll() is None
        with open_store(desk.store, shared=True) as reading:
            before = len(reading.uids())
            assert desk("prune", "--gone", "--yes").code == 0
            assert len(reading.uids()) == before - 2
            for name in ("large", "new"):
                told_now = {"sessionId": name, "timestamp": NEW, "cwd": "/no/such/place"}
                with (desk.home / claude_log(name)).open("ab") as log:
                    log.write(lines(claude_line("user", f"{name}-5", f"more of {name}", **told_now)))
            until(lambda: reading.search("more").hits)
            assert {each.native_id for each in reading.sessions()} == {"old", "later", "new"}
    finally:
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=60)
    assert json.loads(desk("verify", "--json").out)["ok"]


# in part --------------------------------------------------------------------------------------------------------------


def said(shell: Shell, session: str) -> str:
    return shell("show", session, "--full").out


def test_prompts_stay_where_the_rest_goes(desk: Shell) -> None:
    stats = desk("stats", "--all", "--json").json()["sums"]
    kept = told(desk, "--gone", "--keep", "prompts", "--yes")
    assert (kept["pruned"], len(kept["uids"])) == (["prompts"], 2)
    assert leftovers(desk.store.parent, "the answer of large") == set()
    assert "the prompt of large" in said(desk, "large") and "[pruned]" in said(desk, "large")
    assert "the answer of old" in said(desk, "old")
    assert ids(desk) == EVERYTHING
    now = desk("stats", "--all", "--json").json()["sums"]
    assert {key: now[key] for key in ("session_count", "turn_count")} == {
        key: stats[key] for key in ("session_count", "turn_count")
    }
    assert desk("search", "--all", "the prompt of large", "--json").json()["hits"]
    assert json.loads(desk("verify", "--json").out)["ok"]
    again = desk("prune", "--gone", "--keep", "prompts", "--yes")
    assert "No session goes" in again.err
    desk("ingest")
    assert leftovers(desk.store.parent, "the answer of large") == set()


@pytest.mark.parametrize(
    "words", [["--keep", "prompts"], ["--keep", "summaries"], ["--kind", "tool-outputs"]], ids=" ".join
)
def test_what_it_says_of_parts_is_near_what_is_freed(desk: Shell, words: list[str]) -> None:
    for n in range(6):
        put(desk, f"n{n}", "/w", LATER, chars=150_000 + 30_000 * n, seed=50 + n)
    desk("ingest")
    before = size_on_disk(desk)
    plan = told(desk, "--older", "2026-06-01", *words)
    assert size_on_disk(desk) == before
    done = told(desk, "--older", "2026-06-01", *words, "--yes")
    freed = before - size_on_disk(desk)
    assert freed > MB // 2
    assert (plan["uids"], done["freed_bytes"]) == (done["uids"], freed)
    assert abs(plan["freed_bytes"] - freed) < freed // 5


def test_outputs_of_tools_go_alone(desk: Shell) -> None:
    assert told(desk, "--kind", "tool-outputs", "--gone", "--yes")["pruned"] == ["tool-outputs"]
    assert "the answer of large" in said(desk, "large")
    assert prose(5, 900_000)[:60] not in said(desk, "large")
    assert prose(4, 2_000)[:60] not in said(desk, "away") and prose(1, 2_000)[:60] in said(desk, "old")


def test_no_image_is_there_so_nothing_goes(desk: Shell) -> None:
    assert told(desk, "--kind", "images")["uids"] == []


def test_parts_go_of_the_oldest_until_the_store_is_as_small(desk: Shell) -> None:
    for n in range(4):
        put(desk, f"n{n}", "/w", f"2026-0{n + 1}-02T10:00:00.000Z", chars=200_000, seed=20 + n)
    desk("ingest")
    wanted = desk.store.stat().st_size - 300_000
    done = told(desk, "--project", "w", "--to-size", str(wanted), "--keep", "prompts", "--yes")
    assert 1 <= len(done["uids"]) <= 3 and done["is_enough"]
    assert desk.store.stat().st_size <= wanted * 1.03
    assert "[pruned]" in said(desk, "n0") and "[pruned]" not in said(desk, "n3")


def test_both_stores_of_a_project_lose_the_same_parts(bench: Bench) -> None:
    bench.run("Where?", {"say": "a heron by the water"}, GOOD)
    bench.backstory("ingest")
    assert len(of(bench, "--agent", "claude", "--keep", "prompts", "--yes")["uids"]) == 1
    for folder in (bench.home, bench.project / ".backstory"):
        assert leftovers(folder, "heron by the water") == set()
    assert "Where?" in bench.backstory("show", "S1").stdout


# the rule -------------------------------------------------------------------------------------------------------------


def by_rule(shell: Shell, text: str, *words: str) -> tuple[Any, str]:
    (shell.store.parent / "config.toml").write_text(text)
    done = shell("ingest", "--json", *words)
    assert done.code == 0, done.err
    return json.loads(done.out)["rule_pruned"], done.err


def test_without_a_rule_nothing_goes(desk: Shell) -> None:
    assert by_rule(desk, "") == (None, "")
    assert by_rule(desk, "[prune]\nkeep = 'prompts'\n") == (None, "")
    assert ids(desk) == EVERYTHING


def test_a_rule_prunes_what_is_old_and_says_so(desk: Shell) -> None:
    rule = "[prune]\nolder = '1d'\n"
    done, err = by_rule(desk, rule)
    assert len(done["uids"]) == len(EVERYTHING) + 1 and done["freed_bytes"] > 0
    config = desk.store.parent / "config.toml"
    assert f"By the rule of {config} (prune: older 1d): 6 sessions pruned, " in err
    assert ids(desk) == set()
    assert by_rule(desk, rule) == ({"pruned": [], "uids": [], "freed_bytes": 0}, "")


def test_a_rule_may_keep_prompts_and_then_does_nothing_twice(desk: Shell) -> None:
    rule = "[prune]\nolder = '1d'\nkeep = 'prompts'\n"
    done, _ = by_rule(desk, rule)
    assert (done["pruned"], len(done["uids"])) == (["prompts"], len(EVERYTHING) + 1)
    assert ids(desk) == EVERYTHING and "the prompt of old" in said(desk, "old")
    assert by_rule(desk, rule) == ({"pruned": ["prompts"], "uids": [], "freed_bytes": 0}, "")


def test_a_rule_may_keep_what_has_a_name(desk: Shell) -> None:
    desk("rename", "old", "mine")
    by_rule(desk, "[prune]\nolder = '1d'\nkeep = 'named'\n")
    assert ids(desk) == {"old"}


def test_a_rule_of_a_size_takes_the_oldest(desk: Shell) -> None:
    put(desk, "huge", "/w", OLD.replace("2026", "2025"), chars=1_500_000, seed=9)
    done, _ = by_rule(desk, "[prune]\nto_size = '2MB'\n")
    assert ids(desk) == EVERYTHING and len(done["uids"]) == 1


def test_what_is_brought_back_is_not_pruned_in_the_same_breath(desk: Shell) -> None:
    rule = "[prune]\nolder = '1d'\n"
    by_rule(desk, rule)
    assert by_rule(desk, rule, "--forgotten")[0] is None
    assert ids(desk) == EVERYTHING


def test_a_rule_in_a_clone_is_ignored_and_named(desk: Shell) -> None:
    near = desk.cwd / ".backstory" / "config.toml"
    near.parent.mkdir()
    near.write_text("[prune]\nolder = '1d'\nkeep = 'prompts'\n")
    done, err = by_rule(desk, "")
    assert done is None
    assert f"prune.older in {near} is ignored: only your own config may set it." in err
    assert ids(desk) == EVERYTHING


@pytest.mark.parametrize(
    "text", ["older = '0d'", "older = 'yesterday'", "older = '2h'", "to_size = '1'", "to_size = 'x'"]
)
def test_a_rule_that_is_not_understood_prunes_nothing(desk: Shell, text: str) -> None:
    done, err = by_rule(desk, f"[prune]\n{text}\n")
    assert done is None
    assert "Not pruned by the rule: " in err and "it must be a" in err
    assert ids(desk) == EVERYTHING


# kills and full disks -------------------------------------------------------------------------------------------------


WHOLE, PARTS = PruneWish(gone=True), PruneWish(gone=True, partly=Pruning(keep="prompts"))


def pruned(shell: Shell, wish: PruneWish = WHOLE) -> pruning.Pruned:
    """Prune in this process, a session at a time."""
    with open_workspace(shell.cwd, shell.environ, now=lambda: NOW) as workspace:
        pruner = Pruner(workspace)
        return pruner.perform(pruner.plan(wish), no_progress)


def is_done(shell: Shell) -> None:
    """Nothing is half gone: the next call does the rest, and the file is as small as if nothing had happened."""
    half = ids(shell)
    assert half >= {"old", "later", "new"}
    assert json.loads(shell("verify", "--json").out)["ok"]
    assert shell("prune", "--gone", "--yes").code == 0
    assert ids(shell) == {"old", "later", "new"}
    assert leftovers(shell.store.parent, "the prompt of large") == set()
    with open_store(shell.store, shared=True) as store:
        assert not store.ask(erasing.is_due)


@pytest.mark.parametrize("at", steps(1_000, every=120, first=7))
def test_a_kill_at_any_step_is_made_up_for_by_the_next_call(
    desk: Shell, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    monkeypatch.setattr(pruning, "AT_ONCE", 1)
    kill(desk, at, WHOLE)
    is_done(desk)


@pytest.mark.parametrize("at", steps(830, every=120, first=11))
def test_a_kill_leaves_no_session_between_whole_and_pruned(desk: Shell, at: int) -> None:
    kill(desk, at, PARTS)
    assert json.loads(desk("verify", "--json").out)["ok"]
    for name in ("away", "large"):
        assert ("[pruned]" in said(desk, name)) != (f"the answer of {name}" in said(desk, name))
    assert desk("prune", "--gone", "--keep", "prompts", "--yes").code == 0
    assert leftovers(desk.store.parent, "the answer of large") == set()
    assert ids(desk) == EVERYTHING
    with open_store(desk.store, shared=True) as store:
        assert not store.ask(erasing.is_due)


def kill(shell: Shell, at: int, wish: PruneWish) -> None:
    """Prune in a process that is killed at a step on the disk."""
    if (child := os.fork()) == 0:
        with failing_disk() as disk:
            disk.step = lambda what: _killed(disk, at)  # type: ignore[method-assign]
            pruned(shell, wish)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)


def _killed(disk: Disk, at: int) -> None:
    disk.steps += 1
    if disk.steps == at:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("at", steps(1_000, every=170, first=3))
def test_a_disk_that_is_full_at_any_step_is_made_up_for_by_the_next_call(
    desk: Shell, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    monkeypatch.setattr(pruning, "AT_ONCE", 1)
    with failing_disk() as disk:
        disk.fail(at, apsw.FullError, for_good=True)
        problems: list[BackstoryError]
        try:
            problems = pruned(desk).problems
        except DiskFull as refused:
            problems = [refused]
        except apsw.FullError:
            # It was full still when the file was closed.
            problems = []
        assert all(isinstance(each, NotErased | DiskFull) for each in problems), problems
        disk.heal()
    is_done(desk)


def test_a_disk_with_less_room_than_the_file_is_freed_all_the_same(desk: Shell, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    with small_disk(small, 4):
        shutil.move(desk.store.parent, small / "backstory")
        desk.environ["BACKSTORY_HOME"] = str(small / "backstory")
        store = small / "backstory" / "store.db"
        before = store.stat().st_size
        free = shutil.disk_usage(small).free
        (small / "filled").write_bytes(b"x" * (free - before * 2 // 3))
        done = desk("prune", "--gone", "--yes")
        assert done.code == 0, done.err
        assert store.stat().st_size < before * 6 // 10


def test_parts_go_only_where_the_disk_takes_what_is_written_meanwhile(desk: Shell, tmp_path: Path) -> None:
    with filled(desk, tmp_path, megabytes=8, left=600_000) as filler:
        short = desk("prune", "--gone", "--keep", "prompts", "--yes")
        assert (short.code, "The next session may take" in short.err) == (74, True)
        assert "Pruned 0 sessions." in short.out
        assert "[pruned]" not in said(desk, "large")
        filler.unlink()
        assert desk("prune", "--gone", "--keep", "prompts", "--yes").code == 0
        assert "[pruned]" in said(desk, "large")


def test_a_store_that_cannot_take_its_wal_says_what_to_free_and_goes_on_then(desk: Shell, tmp_path: Path) -> None:
    with filled(desk, tmp_path, megabytes=8, left=800_000) as filler:
        with open_store(filler.parent / "backstory" / "store.db", shared=True) as store:
            db = store.writer()
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            store.write(lambda db: db.execute("insert into meta(key, value) values ('long', zeroblob(500000))"))
        with (filler.parent / "rest").open("wb") as rest:
            rest.write(b"x" * (shutil.disk_usage(filler.parent).free - 100_000))
        stuck = desk("prune", "--gone", "--keep", "prompts", "--yes")
        assert (stuck.code, "Free 0.4 MB there" in stuck.err) == (74, True), stuck.err
        filler.unlink()
        assert desk("prune", "--gone", "--keep", "prompts", "--yes").code == 0
        assert "[pruned]" in said(desk, "large")


@contextmanager
def filled(desk: Shell, folder: Path, *, megabytes: int, left: int) -> Iterator[Path]:
    """The machine's home on a disk of its own with so many bytes left; gives the file that fills it."""
    small = folder / "small"
    small.mkdir()
    with small_disk(small, megabytes):
        shutil.move(desk.store.parent, small / "backstory")
        desk.environ["BACKSTORY_HOME"] = str(small / "backstory")
        filler = small / "filled"
        filler.write_bytes(b"x" * (shutil.disk_usage(small).free - left))
        yield filler


def test_what_waits_beside_the_store_is_moved_into_it_between_two_sessions(
    desk: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "WAL_BYTES", 1)
    lengths, write = list[int](), overwriting.write

    def watched(db: apsw.Connection, plan: overwriting.Overwriting, now: int) -> bool:
        lengths.append(desk.store.with_name("store.db-wal").stat().st_size)
        return write(db, plan, now)

    monkeypatch.setattr(overwriting, "write", watched)
    pruned(desk, PARTS)
    assert lengths == [0, 0]


def test_an_erasing_for_which_the_disk_is_too_small_names_the_room(desk: Shell, tmp_path: Path) -> None:
    with filled(desk, tmp_path, megabytes=8, left=300_000) as filler:
        path = filler.parent / "backstory" / "store.db"
        with open_store(path, shared=True) as store:
            store.change(erasing.note_removal)
        refused = desk("prune", "--gone", "--kind", "images", "--yes")
        assert refused.code == 75
        assert "to write it anew may take" in refused.err
        assert not path.with_name("store.db-wal").exists()


def test_an_erasing_that_was_cut_off_is_said_and_done_by_the_next_call(
    desk: Shell, monkeypatch: pytest.MonkeyPatch, at_a_terminal: Callable[[bool, int], list[str]]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(maintenance, "merge_index", _struck)
        with pytest.raises(KeyboardInterrupt):
            pruned(desk)
    before = desk.store.stat().st_size
    told_so = desk("prune", "--gone")
    assert "What was removed earlier may still be in the file." in told_so.err
    assert desk.store.stat().st_size == before
    asked = at_a_terminal(True, 1_000)
    assert desk("prune", "--gone").code == 0
    assert [each.partition(" for good")[0] for each in asked] == ["Erase what was removed earlier"]
    assert desk.store.stat().st_size < before


def _struck(_: object) -> None:
    raise KeyboardInterrupt
