"""The screen as a real process when something goes wrong beside it: what it says, and what is stored and given back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import AbstractContextManager, closing, contextmanager
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory.cli.tui.sent import TypedText
from backstory.store.file.migrate import SCHEMA_VERSION
from tests.support.forked import COMMAND, COPIED
from tests.support.going import state
from tests.support.running import GOOD, is_alive, until, until_stored
from tests.support.watched import Watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.support.bench import Bench

pytestmark = pytest.mark.slow

TUI = (*COMMAND, "tui")
FAULTY = f"""{COPIED}
import sys
from backstory.cli import main
from backstory.cli.tui.sessions_screen import SessionsScreen
SessionsScreen.action_begin = lambda screen: [][0]
sys.argv = ["backstory", "tui"]
main()
"""
"""The screen, in which a key leads to a fault of ours."""
SET_AND_RESET = (("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?1000h", "\x1b[?1000l"), ("\x1b[?1003h", "\x1b[?1003l"),
                 ("\x1b[?1006h", "\x1b[?1006l"), ("\x1b[?1004h", "\x1b[?1004l"), ("\x1b[?2004h", "\x1b[?2004l"),
                 ("\x1b[?25l", "\x1b[?25h"), ("\x1b[?7l", "\x1b[?7h"), ("\x1b[>", "\x1b[<u"))  # fmt: skip
"""What the screen tells a terminal to be, and what takes it back: its other page, mouse, focus, pastes, cursor."""


def opened(
    bench: Bench, *script: dict[str, Any], words: Sequence[str] = TUI, width: int = 100, is_copied: bool = True
) -> Watched:
    environ = bench.environ([*script, GOOD])
    return Watched(words, bench.project, environ, width=width, rows=24, is_copied=is_copied)


@pytest.fixture
def asked(bench: Bench) -> Bench:
    """A project with a session that was run once."""
    assert bench.run("the first prompt", {"say": "the first answer"}, GOOD).returncode == 0
    return bench


def send(seen: Watched, prompt: str, *then: str) -> None:
    """Open the session, and send it a prompt."""
    seen.wait("the first prompt")
    seen.press("\r", "the first answer", "s sessions")
    seen.press("p", "Ctrl+T queue")
    seen.press(prompt, prompt)
    seen.press("\r", *then)


def turns(bench: Bench) -> list[tuple[str, str | None]]:
    with bench.store as store:
        return [(each.prompt, each.outcome) for session in store.sessions() for each in store.turns(session)]


def _only_uid(bench: Bench) -> str:
    with bench.store as store:
        (session,) = store.sessions()
    return session.uid


def agents_pid(bench: Bench) -> int:
    (run,) = bench.spools()
    return int((run / "process.json").read_text().strip("[]").split(",")[0])


def is_given_back(shown: str) -> bool:
    """True if all that the terminal was told to be was taken back."""
    return all(shown.rfind(told) < shown.rfind(back) for told, back in SET_AND_RESET)


# ends -----------------------------------------------------------------------------------------------------------------


def press_q(seen: Watched) -> None:
    seen.type("q")


def press_n(seen: Watched) -> None:
    seen.type("n")


def by(name: str) -> Callable[[Watched], None]:
    return lambda seen: seen.send(signal.Signals[name])


@pytest.mark.parametrize(
    ("words", "end", "code"),
    [
        (TUI, press_q, 0),
        *((TUI, by(name), 0) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")),
        ((sys.executable, "-c", FAULTY), press_n, 1),
    ],
    ids=["q", "INT", "TERM", "HUP", "QUIT", "fault"],
)
def test_every_end_gives_the_terminal_back_as_it_was(
    asked: Bench, words: Sequence[str], end: Callable[[Watched], None], code: int
) -> None:
    with opened(asked, words=words) as seen:
        before = seen.modes()
        seen.wait("the first prompt")
        assert seen.modes() != before
        end(seen)
        shown = seen.end()
        assert (seen.process.returncode, seen.modes() == before, is_given_back(shown)) == (code, True, True)


def test_a_fault_of_ours_is_told_below_the_prompt_without_what_was_in_variables(asked: Bench) -> None:
    with opened(asked, words=(sys.executable, "-c", FAULTY)) as seen:
        seen.wait("the first prompt")
        seen.press("n")
        told = seen.end().rpartition("\x1b[?1004l")[2]
    assert told.splitlines()[-1] == "IndexError: list index out of range"
    assert "locals" not in told


def test_a_screen_that_is_stopped_gives_the_terminal_back_until_it_goes_on(asked: Bench) -> None:
    with opened(asked) as seen:
        before = seen.modes()
        seen.wait("the first prompt")
        seen.send(signal.SIGTSTP)
        until(lambda: state(seen.process.pid) == "T")
        assert seen.modes() == before
        seen.screen.touched.clear()
        seen.send(signal.SIGCONT)
        until(lambda: seen.modes() != before)
        seen.wait("the first prompt")
        seen.press("?", "Next session")
        seen.press("\x1b", "!Next session")
        press_q(seen)
        seen.end()
        assert seen.modes() == before


# killed ---------------------------------------------------------------------------------------------------------------


def test_a_run_is_recorded_once_when_its_screen_is_killed_and_the_next_screen_shows_it(asked: Bench) -> None:
    gate = asked.root / "gate"
    with opened(asked, {"say": "at work"}, {"wait_for": str(gate)}, {"say": "after the kill"}) as seen:
        send(seen, "go on", "at work")
        seen.send(signal.SIGKILL)
        seen.end()
        # Nobody is left to give it back: a person types `reset`.
        assert not seen.echoes()
        subprocess.run(["stty", "sane"], stdin=seen._theirs, check=True)
        assert seen.echoes()
    with opened(asked) as seen:
        seen.wait("the first prompt", "1 ● S1")
        seen.press("\r", "at work")
        gate.touch()
        seen.wait("after the kill", "── turn 2", "2 turns")
    until_stored(asked)
    assert turns(asked) == [("the first prompt", "completed"), ("go on", "completed")]


def test_a_killed_agent_is_told_on_the_screen_and_recorded_once(asked: Bench) -> None:
    with opened(asked, {"say": "at work"}, {"wait_for": str(asked.root / "never")}) as seen:
        before = seen.modes()
        send(seen, "go on", "at work", "s sessions")
        os.kill(agents_pid(asked), signal.SIGKILL)
        seen.wait("crashed", "2 turns")
        seen.press("?", "Search in this session")
        seen.press("\x1b", "!Search in this session")
        press_q(seen)
        assert is_given_back(seen.end())
        assert seen.modes() == before
    until_stored(asked)
    assert turns(asked) == [("the first prompt", "completed"), ("go on", "crashed")]


# the terminal ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_copied", [False, True], ids=["signal", "silent"])
def test_a_screen_ends_with_its_terminal_and_the_run_goes_on_and_the_typed_text_is_kept(
    asked: Bench, is_copied: bool
) -> None:
    gate = asked.root / "gate"
    script = ({"say": "at work"}, {"wait_for": str(gate)}, {"say": "after it"})
    with opened(asked, *script, is_copied=is_copied) as seen:
        send(seen, "go on", "at work", "s sessions")
        # The field of before may not be taken away yet, so nothing of it is painted anew.
        seen.press("p", "Ctrl+T queue")
        seen.press("half a prompt", "half a prompt")
        seen.hang_up()
        until(lambda: seen.process.poll() is not None)
    assert TypedText(asked.home, _only_uid(asked)).read() == "half a prompt"
    assert is_alive(agents_pid(asked))
    gate.touch()
    until_stored(asked)
    assert turns(asked) == [("the first prompt", "completed"), ("go on", "completed")]


# the store ------------------------------------------------------------------------------------------------------------


@contextmanager
def moved(store: Path) -> Iterator[None]:
    away = store.with_name("away")
    store.rename(away)
    yield
    away.rename(store)


@contextmanager
def removed(store: Path) -> Iterator[None]:
    kept = store.read_bytes()
    store.unlink()
    yield
    store.write_bytes(kept)


@contextmanager
def locked(store: Path) -> Iterator[None]:
    with closing(apsw.Connection(str(store))) as db:
        db.set_busy_timeout(60_000)
        db.execute("begin exclusive")
        yield


@contextmanager
def newer(store: Path) -> Iterator[None]:
    set_to = "update meta set value = value {} where key = 'schema_version'"
    with closing(apsw.Connection(str(store))) as db:
        db.set_busy_timeout(60_000)
        db.execute(set_to.format("+ 90"))
        yield
        db.execute(set_to.format("- 90"))


@contextmanager
def no_store(store: Path) -> Iterator[None]:
    with moved(store):
        store.write_bytes(b"no store" * 4096)
        yield


FAULTS = [
    (moved, "There is no store at"), (removed, "There is no store at"),
    (newer, f"has schema {SCHEMA_VERSION + 90}; this version"),
    (no_store, "is not a backstory store"),
]  # fmt: skip


def goes_through(seen: Watched, fault: AbstractContextManager[None], sentence: str) -> None:
    """Have something happen to the store below the screen: it says so, its keys work, and it comes back."""
    seen.wait("the first prompt", "@2 the first answer")
    with fault:
        seen.press("\r", "!@2 the first answer")
        seen.press("s", "first prompt", sentence)
        seen.press("?", "Next session")
        seen.press("\x1b", "!Next session")
    seen.until_shown("1 session", f"!{sentence}")
    seen.press("\r", "❯ the first prompt", "✓ 1.2 s")
    press_q(seen)
    seen.end()
    assert "Traceback" not in seen.shown
    assert seen.process.returncode == 0


@pytest.mark.parametrize(("fault", "sentence"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
def test_a_store_that_something_happens_to_is_a_sentence_and_keys_work_and_it_comes_back(
    asked: Bench, fault: Callable[[Path], AbstractContextManager[None]], sentence: str
) -> None:
    shutil.rmtree(asked.project / ".backstory")
    with opened(asked, words=[*TUI, "--all"], width=200) as seen:
        goes_through(seen, fault(asked.home / "store.db"), sentence)


def test_a_store_that_another_process_has_locked_is_a_sentence_until_it_is_free(asked: Bench) -> None:
    store = asked.root / "copy.bks"
    shutil.copy(asked.project / ".backstory" / "sessions.bks", store)
    with opened(asked, words=[*TUI, "--store", str(store)], width=200) as seen:
        goes_through(seen, locked(store), "is locked by another process.")


def test_a_home_store_that_another_one_replaces_is_shown_and_what_a_run_adds_to_it_too(asked: Bench) -> None:
    other = type(asked)(_folder(asked.root / "other"))
    assert other.run("another prompt", {"say": "another answer"}, GOOD).returncode == 0
    with opened(asked, words=[*TUI, "--all"]) as seen:
        seen.wait("the first prompt")
        seen.screen.touched.clear()
        shutil.rmtree(asked.project / ".backstory")
        (other.home / "store.db").replace(asked.home / "store.db")
        seen.wait("> ✓ another prompt", "@2 another answer")
        seen.press("\r", "❯ another prompt", "✓ 1.2 s")
        seen.press("s", "> ✓ another prompt")
        seen.screen.touched.clear()
        assert asked.run("the last prompt", {"say": "the last answer"}, GOOD).returncode == 0
        seen.wait("the last prompt")


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_home_is_not_moved_below_an_open_screen_which_goes_on(asked: Bench) -> None:
    with opened(asked, words=[*TUI, "--all"]) as seen:
        seen.wait("the first prompt", "@2 the first answer")
        moving = asked.backstory("migrate-home", str(asked.home), str(asked.root / "new"))
        assert (moving.returncode, "open" in moving.stderr) == (75, True)
        seen.press("\r", "❯ the first prompt", "✓ 1.2 s")
        press_q(seen)
        seen.end()
    assert asked.backstory("migrate-home", str(asked.home), str(asked.root / "new")).returncode == 0


# two screens ----------------------------------------------------------------------------------------------------------


def test_two_screens_on_one_session_show_the_same_end_and_send_each_prompt_once(asked: Bench) -> None:
    gate = asked.root / "gate"
    one_says = [{"say": "one is at work"}, {"wait_for": str(gate)}, {"say": "one is over"}, GOOD]
    environ = asked.environ({"from the other": [{"say": "the other is over"}, GOOD], "from one": one_says})

    def beside() -> Watched:
        return Watched(TUI, asked.project, environ, width=100, rows=24, is_copied=True)

    with beside() as one, beside() as other:
        send(one, "from one", "one is at work")
        # A prompt is kept as unsent until its run is seen, and another screen would offer it, too.
        until(lambda: TypedText(asked.home, _only_uid(asked)).read() == "")
        other.wait("the first prompt")
        other.press("\r", "one is at work")
        other.press("p", "to the agent of the last turn")
        other.press("from the other", "from the other")
        other.press("\x14", "+1]", "s sessions")
        gate.touch()
        for seen in (one, other):
            seen.wait("one is over", "the other is over", "3 turns")
    until_stored(asked)
    assert turns(asked) == [
        ("the first prompt", "completed"), ("from one", "completed"), ("from the other", "completed"),
    ]  # fmt: skip
