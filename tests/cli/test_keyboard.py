"""What is typed while a run is shown: never echoed into it, never run by the shell; the terminal is given back."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.bench import Bench
from tests.support.going import until
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

RUN = [sys.executable, "-m", "backstory", "run", "-a", "claude", "go"]
GOOD = {"result": True}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def going(bench: Bench) -> Iterator[Terminal]:
    """A run on a terminal that has said something, and waits for the file ``go``."""
    script: list[dict[str, Any]] = [{"say": "I look."}, {"wait_for": str(bench.root / "go")}, {"say": "Seen."}, GOOD]
    with Terminal(RUN, bench.project, bench.environ(script)) as terminal:
        terminal.until("I look.")
        yield terminal
        (bench.root / "go").touch()


def test_what_is_typed_during_a_run_is_not_shown_and_not_left_for_the_shell(bench: Bench, going: Terminal) -> None:
    assert not going.echoes()
    going.type("rm -rf everything\n")
    until(going.typed_ahead)
    (bench.root / "go").touch()
    shown = going.end()
    assert "everything" not in shown
    assert (going.echoes(), going.typed_ahead()) == (True, 0)


def test_ctrl_c_is_told_in_one_line(going: Terminal) -> None:
    going.type("\x03")
    shown = going.end()
    assert going.process.returncode == 130
    between, stopping, apart, end, rest = shown.partition("I look.")[2].split("\n")
    assert (between, stopping, apart, rest) == ("", "Stopping the agent; another Ctrl-C kills it.", "", "")
    assert end.startswith("■ S1 turn 1 · ")
    assert end.endswith(" · cancelled")
    assert going.echoes()


def test_a_stop_from_elsewhere_names_no_key(bench: Bench, going: Terminal) -> None:
    assert bench.backstory("cancel").returncode == 0
    shown = going.end()
    assert "\nStopping the agent.\n" in shown
    assert "Ctrl-C" not in shown


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_that_ends_us_gives_the_terminal_back(going: Terminal, number: int) -> None:
    going.type("typed\n")
    # A terminal takes what is typed a moment later.
    until(going.typed_ahead)
    going.send(number)
    going.end()
    assert going.process.returncode == -number
    assert (going.echoes(), going.typed_ahead()) == (True, 0)


def test_a_run_that_cannot_begin_gives_the_terminal_back(bench: Bench) -> None:
    (bench.bin / "claude").write_bytes(b"\x7fELF, or not")
    with Terminal(RUN, bench.project, bench.environ([])) as terminal:
        assert "claude" in terminal.end()
        assert terminal.process.returncode not in (0, 1)
        assert terminal.echoes()


def test_in_the_background_the_terminal_is_not_ours_to_change(bench: Bench) -> None:
    script: list[dict[str, Any]] = [{"say": "I look."}, {"wait_for": str(bench.root / "go")}, GOOD]
    with Terminal(["bash", "-c", f"set -m; {' '.join(RUN)} & wait"], bench.project, bench.environ(script)) as terminal:
        terminal.until("I look.")
        assert terminal.echoes()
        (bench.root / "go").touch()
        assert "✓ S1" in terminal.end()


def test_a_shell_whose_job_is_stopped_has_its_echo(bench: Bench) -> None:
    script: list[dict[str, Any]] = [{"say": "I look."}, {"wait_for": str(bench.root / "go")}, GOOD]
    lines = f"set -m; {' '.join(RUN)}; echo stopped; read -r line; fg"
    with Terminal(["bash", "-c", lines], bench.project, bench.environ(script)) as terminal:
        terminal.until("I look.")
        assert not terminal.echoes()
        terminal.type("\x1a")
        terminal.until("stopped")
        assert terminal.echoes()
        terminal.type("on\n")
        until(lambda: not terminal.echoes())
        (bench.root / "go").touch()
        assert "✓ S1" in terminal.end()
        assert terminal.echoes()
