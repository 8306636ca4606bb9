"""A home into which an earlier version let a text that is not UTF-8: every reading command shows what is there."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest
from click.testing import CliRunner

from backstory.bounds import LINE_BYTES_MAX
from backstory.cli import cli
from backstory.errors import BackstoryError, StoreDamaged
from backstory.store import open_store, schema
from tests.support.one_of_each import fill

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

NO_TEXT = "cast(x'61ff80c062' as text)"
SHOWN = "a\ufffd\ufffd\ufffdb"
UNTOUCHED = {("sessions", "uid"), ("sessions", "owner"), ("turns", "uid"), ("meta", "key"), ("meta", "value"),
             ("events", "data"), ("events", "kind")}  # fmt: skip
"""What a store of any version checked, or reads as JSON."""
READING = [
    ["list", "--all"], ["list", "--all", "--json"], ["stats", "--all"], ["stats", "--all", "--json"],
    ["search", "red"], ["search", "red", "--json"], ["show", "UID"], ["show", "UID", "--json"], ["show", "UID", "--md"],
    ["show", "UID", "--full"], ["show", "UID", "--outline"], ["tree", "UID"], ["branches", "UID"], ["scan", "UID"],
    ["context", "UID"], ["chronicle", "standup", "--since", "2020"], ["chronicle", "recap", "UID"],
    ["chronicle", "cost", "--since", "2020"], ["chronicle", "tips", "--since", "2020"], ["chronicle", "search", "red"],
    ["board", "list", "--all"], ["export", "--all", "--format", "json", "-o", "-"],
    ["export", "--all", "--format", "md", "-o", "-"], ["resume", "UID", "--print"], ["ps"], ["verify"], ["optimize"],
    ["reindex"],
]  # fmt: skip


READING_ONE = [
    ["list"], ["list", "--json"], ["show", "S1"], ["show", "S1", "--json"], ["show", "S1", "--full"], ["stats"],
    ["search", "red"], ["tree", "S1"], ["branches", "S1"], ["context", "S1"],
    ["export", "--all", "--format", "json", "-o", "-"],
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BACKSTORY_HOME", str(tmp_path / "bh"))
    (tmp_path / "bh").mkdir(mode=0o700)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    path = tmp_path / "bh/store.db"
    fill(path)
    return path


def damage(path: Path, *statements: str) -> None:
    with closing(apsw.Connection(str(path))) as db:
        for statement in ("pragma foreign_keys = off", *statements):
            db.execute(statement)


def told(*words: str) -> Result:
    done = CliRunner().invoke(cli, words)
    assert not isinstance(done.exception, (UnicodeDecodeError, TypeError, OverflowError)), words
    return done


def uid(path: Path) -> str:
    with open_store(path) as store:
        return store.session(1).uid


def test_a_model_that_is_no_text_is_shown_with_replacement_characters(home: Path) -> None:
    damage(home, f"update turns set model = {NO_TEXT}", f"update sessions set title = {NO_TEXT}")
    assert told("list", "--all").exit_code == told("stats", "--all").exit_code == 0
    assert SHOWN in told("show", uid(home), "--json").stdout
    lines = told("export", "--all", "--format", "json", "-o", "-").stdout.splitlines()
    assert SHOWN in {json.loads(each).get("title") for each in lines}


@pytest.mark.slow
def test_no_reading_command_ends_in_a_traceback_where_no_text_is_text(home: Path) -> None:
    first = uid(home)
    texts = [
        f"update or ignore {table} set {each.name} = {NO_TEXT} where {each.name} is not null"
        for table, columns in schema.columns().items()
        for each in columns
        if each.kind == "text" and (table, each.name) not in UNTOUCHED
    ]
    damage(home, *texts)
    for words in READING:
        told(*(first if each == "UID" else each for each in words))


@pytest.fixture
def other(home: Path, tmp_path: Path) -> Path:
    """A store of another machine, which merge would take: without it the home here has none."""
    path = tmp_path / "other.bks"
    home.rename(path)
    ours = "update turns set uid = format('%026d', id); update sessions set uid = format('%026d', id)"
    # A row of a log that lies nowhere is no damage to look for here.
    damage(path, ours, "update events set log_id = null, position = null, length = null", "delete from logs")
    return path


def test_a_store_of_another_machine_is_merged(other: Path) -> None:
    assert told("merge", "--trust", "--foreign", str(other)).exit_code == 0


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("turns.prompt", "cast(x'ff' as text)"), ("turns.prompt", "x'ff00'"), ("sessions.uid", "x'ff00'"),
        ("turns.started", "'seven'"), ("turns.started", "9223372036854775807"), ("events.seq", "'seven'"),
        ("turns.cost_usd", "'seven'"),
        pytest.param("sessions.title", f"hex(zeroblob({LINE_BYTES_MAX // 2 + 1}))", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_store_with_a_value_that_no_column_holds_is_refused_and_left_as_it_is(
    other: Path, column: str, value: str
) -> None:
    table, _, name = column.partition(".")
    damage(other, f"update {table} set {name} = {value} where rowid = (select min(rowid) from {table})")
    before = other.read_bytes()
    for trust in ([], ["--trust"]):
        refused = told("merge", *trust, "--foreign", str(other)).exception
        assert isinstance(refused, BackstoryError)
        assert refused.exit_code == 65
    for words in READING_ONE:
        failed = told("--store", str(other), *words).exception
        assert failed is None or getattr(failed, "exit_code", getattr(failed, "code", 1)) in (0, 1, 65), words
        assert failed is None or isinstance(failed, BackstoryError | SystemExit), words
    assert other.read_bytes() == before


def test_the_row_is_named_over_which_a_command_stopped(other: Path) -> None:
    damage(other, "update turns set started = 'seven' where id = 1")
    refused = told("--store", str(other), "list").exception
    assert isinstance(refused, StoreDamaged)
    assert "turns row 1: started is not an integer in range" in str(refused)


def test_verify_names_such_a_row_and_rm_takes_it_out(home: Path) -> None:
    damage(
        home, f"update turns set prompt = {NO_TEXT} where session_id = 1", "update turns set started = 'x' where id = 2"
    )
    done = told("verify")
    assert done.exit_code == 1
    assert "turns row 1: prompt is not UTF-8 text" in done.stdout
    assert "turns row 2: started is not an integer in range" in done.stdout
    for n in (1, 2):
        with open_store(home) as store:
            each = store.session(n).uid
        assert told("rm", "-y", each).exit_code == 0
    assert "is not" not in told("verify").stdout


def test_an_export_of_all_takes_the_others_and_names_the_session_that_it_cannot(home: Path, tmp_path: Path) -> None:
    whole, rest = tmp_path / "whole", tmp_path / "rest"
    told("export", "--all", "--format", "json", "-o", str(whole))
    damage(
        home,
        "insert into logs(session_id, kind, agent, native_id, path, read_to) values (1, 'log', 'one', 'n', '/gone', 7)",
    )
    first = uid(home)
    done = told("export", "--all", "--format", "json", "-o", str(rest))
    assert isinstance(done.exception, StoreDamaged)
    assert "1 session could not be written; the others were." in done.stderr
    of = [{json.loads(line).get("uid") for line in each.read_bytes().splitlines() if b'"session"' in line}
          for each in (whole, rest)]  # fmt: skip
    assert first in of[0] and first not in of[1] and len(of[1]) > 1


def test_a_uid_of_any_length_is_named_by_its_beginning(home: Path, tmp_path: Path) -> None:
    clone = tmp_path / "work" / ".backstory" / "sessions.bks"
    clone.parent.mkdir()
    home.rename(clone)
    damage(clone, "update sessions set uid = hex(zeroblob(50000)) where id = 1")
    done = told("ingest")
    assert (done.exit_code, "a session has no uid" in done.stderr, len(done.stderr) < 5_000) == (0, True, True)
