"""``ingest --schedule`` as a person types it: shown, written, and taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.cron import put_crontab

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell

OTHERS = "0 5 * * 1 true\n"
NOT_THERE = 66


@pytest.fixture
def table(bare: Shell) -> Path:
    """The crontab of a machine without systemd, where another program has a line."""
    folder = bare.home / "bin"
    table = put_crontab(folder)
    table.write_text(OTHERS)
    bare.environ["PATH"] = f"{folder}:{bare.environ['PATH']}"
    bare.environ["XDG_RUNTIME_DIR"] = str(bare.home / "none")
    return table


def test_the_line_is_shown_and_then_written(bare: Shell, table: Path) -> None:
    done = bare("ingest", "--schedule")
    added = done.out.splitlines()[1].removeprefix("+ ")
    assert (done.code, done.out.splitlines()[0]) == (0, "crontab, line 2:")
    assert table.read_text() == f"{OTHERS}{added}\n"
    assert done.err == "Scheduled: a timer of crontab that starts an import every hour.\n"


def test_a_dry_run_shows_and_writes_nothing(bare: Shell, table: Path) -> None:
    done = bare("ingest", "--schedule", "--dry-run")
    assert (done.code, done.err) == (0, "Nothing was written.\n")
    assert table.read_text() == OTHERS


def test_nothing_of_it_is_left_once_it_is_taken_out(bare: Shell, table: Path) -> None:
    bare("ingest", "--schedule")
    found = bare("ingest", "--unschedule", "--json").json()
    assert (found["timer"], found["action"], found["written"]) == ("crontab", "remove", True)
    assert table.read_text() == OTHERS
    assert bare("ingest", "--unschedule").code == NOT_THERE


def test_uninstall_lists_it_and_takes_it_out(bare: Shell, table: Path) -> None:
    bare("ingest", "--schedule")
    (thing,) = [each for each in bare("uninstall", "--json").json()["things"] if each["kind"] == "timer"]
    assert (thing["agent"], thing["bytes"]) == ("crontab", len(table.read_text()) - len(OTHERS))
    assert bare("uninstall", "timer").code == 0
    assert table.read_text() == OTHERS


@pytest.mark.parametrize("words", [("--schedule", "--unschedule"), ("--schedule", "--watch"), ("--dry-run",)])
def test_what_does_not_go_together_is_refused(bare: Shell, table: Path, words: tuple[str, ...]) -> None:
    assert bare("ingest", *words).code == 2
    assert table.read_text() == OTHERS
