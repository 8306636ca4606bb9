"""``stats --room``: it adds up to the file, and each row's command runs and frees what the row says."""

from __future__ import annotations

import json
import shlex
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from backstory.ask import room
from backstory.bounds import size
from backstory.store import open_store
from tests.support.claude_records import user
from tests.support.machines import claude_line, claude_log, lines
from tests.support.pruned import prose, put, settled
from tests.support.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

USAGE, NO_INPUT = 2, 66


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    home = tmp_path_factory.mktemp("room") / "home"
    home.mkdir()
    shell = settled(Shell(home))
    for n in range(4):
        put(shell, f"n{n}", f"/p{n % 2}/it's", f"202{n + 3}-08-02T10:00:00.000Z", chars=150_000, seed=70 + n)
    assert shell("ingest").code == 0
    return shell


@pytest.fixture
def desk(made: Shell, tmp_path: Path) -> Shell:
    shutil.copytree(made.home, tmp_path / "home")
    return Shell(tmp_path / "home")


def told(shell: Shell) -> dict[str, Any]:
    done = shell("stats", "--room", "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_each_table_adds_up_to_the_file(desk: Shell) -> None:
    found = told(desk)
    length = desk.store.stat().st_size
    assert [each["bytes"] for each in found["stores"]] == [length] and found["room_bytes"] == length
    sums = {key: sum(row["room_bytes"] for row in found[key]) for key in found if key.startswith("by_")}
    # Each row is rounded by itself.
    assert abs(sums["by_kind"] - length) <= len(found["by_kind"])
    own = sum(row["room_bytes"] for row in found["by_kind"] if row["kind"] in ("the store itself", "free pages"))
    for key in ("by_project", "by_agent", "by_age"):
        assert abs(sums[key] + own - length) < length // 100, key


def test_kinds_are_told_apart(desk: Shell) -> None:
    rows = {each["kind"]: each for each in told(desk)["by_kind"]}
    assert rows["tool outputs"]["room_bytes"] > 10 * rows["prompts"]["room_bytes"] > 0
    assert rows["subagents"]["session_count"] == 1
    assert rows["the store itself"]["command"] is None
    assert "images" not in rows


def test_images_are_a_kind_of_their_own(desk: Shell) -> None:
    picture = "iVBORw0KGgo" + "".join(f"{n:x}" for n in range(30_000))
    source = {"type": "base64", "media_type": "image/png", "data": picture}
    record = json.loads(user([{"type": "text", "text": "look"}, {"type": "image", "source": source}], "i1"))
    record |= {"sessionId": "seen", "cwd": "/w", "timestamp": "2026-05-02T10:00:00.000Z"}
    path = desk.home / claude_log("seen")
    path.write_bytes(lines(json.dumps(record).encode(), claude_line("assistant", "i2", "a stork", sessionId="seen")))
    desk("ingest")
    (row,) = (each for each in told(desk)["by_kind"] if each["kind"] == "images")
    before = desk.store.stat().st_size
    assert desk("prune", "--kind", "images", "--yes").code == 0
    freed = before - desk.store.stat().st_size
    assert row["session_count"] == 1 and abs(row["room_bytes"] - freed) < freed // 2


def rows_with_commands(shell: Shell) -> list[tuple[str, dict[str, Any]]]:
    found = told(shell)
    return [(key, row) for key in found if key.startswith("by_") for row in found[key] if row["command"]]


def test_every_command_runs_as_it_is_printed(desk: Shell) -> None:
    printed = desk("stats", "--room").out
    before = desk.store.read_bytes()
    rows = rows_with_commands(desk)
    assert len(rows) >= 12
    for key, row in rows:
        line = shlex.join(row["command"])
        assert line in printed
        done = desk(*shlex.split(line)[1:], "--json")
        assert done.code == 0, (line, done.err)
        if key != "by_kind":
            plan = json.loads(done.out)
            assert row["room_bytes"] == 0 or plan["freed_bytes"] >= row["room_bytes"] * 0.95, line
    assert desk.store.read_bytes() == before


@pytest.mark.parametrize("key", ["by_project", "by_agent", "by_age"])
def test_the_largest_row_is_gone_after_its_command(desk: Shell, key: str) -> None:
    row = max((each for each in told(desk)[key] if each["command"]), key=lambda each: each["room_bytes"])
    before = desk.store.stat().st_size
    assert desk(*row["command"][1:], "--yes").code == 0
    assert before - desk.store.stat().st_size > row["room_bytes"] * 0.9
    names = [each["command"] for each in told(desk)[key] if each["room_bytes"]]
    assert row["command"] not in names


def test_a_row_without_room_has_no_command(desk: Shell) -> None:
    rows = [row for row in told(desk)["by_age"] if not row["session_count"]]
    assert rows and [row["command"] for row in rows] == [None] * len(rows)


def test_a_command_that_frees_more_than_its_row_says_so(desk: Shell) -> None:
    rows = [row for row in told(desk)["by_age"] if row["command"]]
    printed = desk("stats", "--room").out.partition("LAST ACTIVE")[2].splitlines()
    lines = [line for line in printed if "prune --older" in line]
    assert len(rows) == len(lines) > 1
    assert [" in all" in line for line in lines] == [False] + [True] * (len(rows) - 1)
    whole = sum(row["room_bytes"] for row in rows)
    assert lines[-1].endswith(f" # frees {size(whole)} in all")


def test_room_of_pages_that_hold_nothing_is_named(desk: Shell) -> None:
    with open_store(desk.store, shared=True) as store:
        store.write(lambda db: db.execute("create table filled(x)"))
        store.write(lambda db: db.execute("insert into filled values (?)", (prose(1, 400_000),)))
        store.write(lambda db: db.execute("drop table filled"))
    (row,) = (each for each in told(desk)["by_kind"] if each["kind"] == "free pages")
    assert row["room_bytes"] > 300_000
    assert row["command"] == ["backstory", "optimize"]
    assert desk("optimize").code == 0
    assert "free pages" not in {each["kind"] for each in told(desk)["by_kind"]}


def test_without_the_statistics_of_sqlite_it_is_about_the_same(desk: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {each["agent"]: each["room_bytes"] for each in told(desk)["by_agent"]}
    monkeypatch.setattr(room, "_STATISTICS", "select name, pgsize from no_such_table")
    about = {each["agent"]: each["room_bytes"] for each in told(desk)["by_agent"]}
    assert whole.keys() == about.keys()
    assert all(whole[name] * 0.6 < about[name] < whole[name] * 1.2 for name in whole)


@pytest.mark.parametrize(
    "more", [["--by", "day"], ["--line"], ["--agent", "claude"], ["--all"], ["--since", "2d"]], ids=str
)
def test_it_is_about_everything(desk: Shell, more: list[str]) -> None:
    done = desk("stats", "--room", *more)
    assert (done.code, done.out) == (USAGE, "")
    assert "--room is about every session" in done.err


def test_where_no_store_is_there_is_no_room(bare: Shell) -> None:
    done = bare("stats", "--room", BACKSTORY_HOME=str(bare.home / "none"))
    assert (done.code, done.out) == (NO_INPUT, "")
