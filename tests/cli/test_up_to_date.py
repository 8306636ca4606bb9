"""The commands that take in what is new before they read, and those that never do, as processes."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from backstory.store import open_store
from tests.support.machines import CLAUDE_FOLDER, conversation, lines
from tests.support.read_only import read_only, without_power

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell

pytestmark = pytest.mark.slow
FIRST, SECOND = "11111111-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000"
OLD_NS = 1_700_000_000_000_000_000


def write(shell: Shell, name: str, count: int = 2, start: int = 0) -> Path:
    log = shell.home / CLAUDE_FOLDER / f"{name}.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(lines(*conversation(count, start)))
    return log


@pytest.fixture
def shell(bare: Shell) -> Shell:
    """A machine with one log, which was read; it was written long ago."""
    log = write(bare, FIRST)
    for each in (log, *log.relative_to(bare.home).parents):
        os.utime(bare.home / each, ns=(OLD_NS, OLD_NS))
    assert bare("ingest").code == 0
    return bare


def home(shell: Shell) -> dict[str, tuple[str, int]]:
    """Every file of the home folder, the side files of its databases too: its hash and its mtime."""
    files = (each for each in shell.store.parent.rglob("*") if each.is_file())
    return {str(each): (hashlib.sha256(each.read_bytes()).hexdigest(), each.stat().st_mtime_ns) for each in files}


def stored(shell: Shell) -> set[str | None]:
    with open_store(shell.store) as store:
        return {each.native_id for each in store.sessions()}


READING = {"list": ["list", "--all"], "search": ["search", "word10"], "show": ["show", SECOND]}


@pytest.mark.parametrize("words", READING.values(), ids=READING)
def test_a_command_that_reads_knows_what_was_written_a_moment_ago(shell: Shell, words: list[str]) -> None:
    write(shell, SECOND, start=10)
    done = shell(*words)
    assert (done.code, "word10" in done.out) == (0, True)
    assert "newer" not in done.err
    assert stored(shell) == {FIRST, SECOND}


@pytest.mark.parametrize("words", [["list", "--all"], ["search", "word0"], ["show", FIRST]], ids=READING)
def test_where_nothing_is_new_not_a_byte_of_the_home_folder_changes(shell: Shell, words: list[str]) -> None:
    before = home(shell)
    done = shell(*words)
    assert (done.code, home(shell)) == (0, before)


@pytest.mark.parametrize("words", READING.values(), ids=READING)
def test_switched_off_a_command_that_reads_changes_nothing(shell: Shell, words: list[str]) -> None:
    write(shell, SECOND, start=10)
    before = home(shell)
    shell(*words, BACKSTORY_INGEST_AUTO="0")
    assert home(shell) == before


@pytest.mark.parametrize(
    "words", [["sql", "select 1"], ["verify"], ["context", "-S", FIRST], ["tree", FIRST]], ids=lambda words: words[0]
)
def test_other_commands_take_nothing_in(shell: Shell, words: list[str]) -> None:
    write(shell, SECOND, start=10)
    assert shell(*words).code == 0
    assert stored(shell) == {FIRST}


def test_a_mistake_in_a_filter_is_told_before_anything_is_taken_in(shell: Shell) -> None:
    write(shell, SECOND, start=10)
    assert shell("list", "--since", "the day of the owl").code == 64
    assert stored(shell) == {FIRST}


def test_what_is_wrong_with_it_is_a_word_on_stderr_and_the_list_is_printed(shell: Shell) -> None:
    (shell.store.parent / "config.toml").write_text("[ingest]\nauto = 3\n")
    done = shell("list", "--all", "--json")
    assert (done.code, [each["native_id"] for each in done.json()["sessions"]]) == (0, [FIRST])
    assert done.err.startswith("New logs were not read: ")


def started(shell: Shell, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "backstory", *words], cwd=shell.cwd, env=shell.environ, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def test_ten_at_once_beside_a_watch_store_each_record_once(shell: Shell) -> None:
    watch = started(shell, "ingest", "--watch", "--json")
    assert watch.stdout is not None
    watch.stdout.readline()
    log = write(shell, SECOND, 2, start=10)
    for count in (4, 6):
        lists = [started(shell, "list", "--all") for _ in range(5)]
        log.write_bytes(lines(*conversation(count, 10)))
        lists += [started(shell, "list", "--all") for _ in range(5)]
        ends = [each.communicate(timeout=100) for each in lists]
        assert [(each.returncode, err) for each, (_, err) in zip(lists, ends, strict=True)] == [(0, b"")] * 10
    watch.send_signal(signal.SIGINT)
    watch.communicate(timeout=100)
    assert shell("ingest").code == shell("verify").code == 0
    with open_store(shell.store) as store:
        assert [each.prompt for each in store.turns(store.session(SECOND))] == [
            "word10 said", "word12 said", "word14 said"
        ]  # fmt: skip


def test_in_a_home_folder_that_cannot_be_written_the_list_shows_what_is_stored(shell: Shell) -> None:
    write(shell, SECOND, start=10)
    before = home(shell)
    shell.store.chmod(0o444)
    with read_only(shell.store.parent):
        done = subprocess.run(
            [sys.executable, "-m", "backstory", "list", "--all"], cwd=shell.cwd, env=shell.environ,
            capture_output=True, preexec_fn=without_power, check=True,
        )  # fmt: skip
    said = f"There may be newer logs, which cannot be stored: {shell.store} cannot be written.\n"
    assert (done.stderr.decode(), home(shell)) == (said, before)
    assert b"word0 said" in done.stdout


def test_the_first_search_finds_what_was_never_imported_and_says_once_that_it_was_imported(bare: Shell) -> None:
    write(bare, FIRST)
    found, again = bare("search", "word0"), bare("search", "word0")
    assert (found.code, "word0 said" in found.out, again.code, again.err) == (0, True, 0, "")
    assert f"into {bare.store}. Nothing leaves this machine. To import by hand only: backstory config" in found.err


def test_over_logs_that_are_not_imported_a_search_never_says_that_nothing_is_there(shell: Shell) -> None:
    write(shell, SECOND, start=10)
    done = shell("search", "word10", BACKSTORY_INGEST_AUTO="0")
    assert (done.code, "Nothing found" in done.err, "No imported log has 'word10'" in done.err) == (1, False, True)
    for each in shell.store.parent.iterdir():
        each.unlink()
    done = shell("search", "word10", BACKSTORY_INGEST_AUTO="0")
    assert (done.code, "Nothing found" in done.err, [*shell.store.parent.iterdir()]) == (1, False, [])
    assert done.err.startswith("2 logs (1 KB) of claude are not imported yet: backstory ingest\n")


def test_logs_that_a_home_cannot_take_in_are_said(bare: Shell) -> None:
    write(bare, FIRST)
    bare.store.parent.mkdir(parents=True, exist_ok=True)
    with read_only(bare.store.parent):
        done = subprocess.run(
            [sys.executable, "-m", "backstory", "list", "--all"], cwd=bare.cwd, env=bare.environ,
            capture_output=True, preexec_fn=without_power, check=True, timeout=100,
        )  # fmt: skip
    assert done.stderr.startswith(b"1 log (1 KB) of claude is not imported: ")
    assert not bare.store.exists()
