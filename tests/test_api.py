"""The Python API: what is imported from ``backstory`` is there, is documented with an example, and costs nothing."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import backstory
from backstory.model import Complete, Event
from tests.support.every import every

API = Path(__file__).parent.parent / "docs" / "api.md"
HEAVY = {
    "apsw",
    "msgspec",
    "zstandard",
    "click",
    "rich",
    "backstory.store",
    "backstory.model",
    "backstory.conversation.context",
}
OPTIONS = doctest.REPORT_NDIFF


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("empty")
def test_the_examples_of_the_documentation_are_true() -> None:
    ran = doctest.testfile(str(API), module_relative=False, optionflags=OPTIONS, encoding="utf-8")
    assert ran.attempted > 0
    assert ran.failed == 0


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(
    "module", ["backstory", *sorted({home for home in backstory._HOMES if home != "backstory.store"})]
)
def test_the_examples_in_docstrings_are_true(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module), optionflags=OPTIONS).failed == 0


@every("name", [each for each in backstory.__all__ if each != "__version__"])
def test_every_name_is_there_and_says_what_it_is(name: str) -> None:
    assert (getattr(backstory, name).__doc__ or "").strip()


@every("name", [each for each in backstory.__all__ if each != "__version__"])
def test_every_name_is_in_the_documentation(name: str) -> None:
    assert re.search(rf"`{name}\b", API.read_text("utf-8"))


def test_what_type_checkers_see_is_what_is_there() -> None:
    lazy = {name for names in backstory._HOMES.values() for name in names}
    assert sorted(lazy | {"__version__"}) == sorted(backstory.__all__)
    assert sorted(dir(backstory)) == sorted(backstory.__all__)


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = backstory.nothing


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, backstory; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()


def test_the_version_is_told_without_a_database() -> None:
    code = "import sys; sys.argv = ['backstory', '--version']; from backstory.cli import main\n"
    code += "try: main()\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"backstory {backstory.__version__}\n")
    assert {"apsw", "zstandard", "rich"} & set(done.stdout.split()) == set()


@pytest.mark.usefixtures("empty")
def test_what_is_no_session_is_refused_in_a_sentence() -> None:
    with backstory.open_store("sessions.bks") as store:
        store.create_session()
        with pytest.raises(backstory.BackstoryError, match=r"'S1' is not a session\. Look it up first"):
            store.append_events("S1", [backstory.UserMessage(content="hi")])  # type: ignore[arg-type]
        assert store.append_events(store.session("S1"), [backstory.UserMessage(content="hi")]) == 1


@pytest.mark.usefixtures("empty")
def test_an_event_that_says_a_turn_is_over_ends_it() -> None:
    def ended(success: bool, duration_ms: int) -> Event:
        return Complete(success=success, duration_ms=duration_ms, cost_usd=0.25)

    with backstory.open_store("sessions.bks") as store:
        session = store.create_session()
        asked, again = backstory.UserMessage(content="hi"), backstory.UserMessage(content="and?")
        assert store.append_events(session, [asked, ended(True, 40), again, ended(False, 2)]) == 4
        told = store.session(session.id)
        assert [turn.outcome for turn in store.turns(session)] == ["completed", "failed"]
        assert (told.completed, told.duration_ms, told.cost_usd) == (0, 42, 0.5)


@pytest.mark.usefixtures("empty")
def test_a_session_keeps_the_whole_path_of_its_worktree() -> None:
    with backstory.open_store("sessions.bks") as store:
        session = store.create_session(worktree=".")
        assert session.worktree == str(Path.cwd())
        last = store.last_session(".")
        assert last is not None
        assert last.uid == session.uid


def test_an_earlier_name_works_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match="TurnWithEvents"):
        earlier = backstory.ToldTurn
    assert earlier is backstory.TurnWithEvents
