"""What tests share: a clock that stands still, a store in a folder of its own, logs to read."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from backstory.store import Store, open_store
from tests import set_slow
from tests.support import forked, in_memory
from tests.support.clock import Clock
from tests.support.counts import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

# How fast examples are made says how busy the machine is, not whether the code is right.
settings.register_profile(
    "any-machine", max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any-machine")


ENDS_S = 120
"""So long a process that is killed may take to be gone."""


# Compiling every test anew takes each worker longer than to run a tenth of them: what is compiled is kept, also by
# what tests start, and also where the environment would have Python keep nothing.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell has what it runs in the background ignore the keys that end it, and so would all that tests start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) == signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    # So has ``nohup`` with the end of a terminal.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


SLOW_FIXTURES = {"bench", "browser", "made_once"}
"""Of tests that run ``backstory`` and an agent, or a browser, each a process of its own."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two workers more than there are processors: many tests wait for a process or a lock. Few of the quick ones do."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return processors if config.option.markexpr == "not slow" else processors + 2


def pytest_configure(config: pytest.Config) -> None:
    """Have the folders of tests in memory, where several processes run them: alone one looks into them afterwards."""
    if config.option.dist != "no" and config.option.basetemp is None and not hasattr(config, "workerinput"):
        folder = in_memory.mounted()
        if folder is not None:
            os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)


def pytest_collection(session: pytest.Session) -> None:
    """Import the modules first from another one on in each worker, so that each worker compiles others.

    Where nothing is compiled yet, all of them would else compile each module at the same time.
    """
    # Whatever is made now is kept.
    gc.disable()
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args_source != pytest.Config.ArgsSource.TESTPATHS:
        return
    modules = sorted(Path(__file__).parent.rglob("test_*.py"))
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    first = len(modules) * number // count
    for path in (*modules[first:], *modules[:first]):
        # What is wrong with one is said when it is collected.
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(session.config.rootpath).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow by its fixtures or by its time, which ``make quick`` leaves out; put the long ones first."""
    measured = set_slow.slow()
    for item in items:
        file, name = item.nodeid.split("::")[0], getattr(item, "originalname", item.name)
        if SLOW_FIXTURES & set(getattr(item, "fixturenames", ())) or name in measured.get(file, ()):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Have no garbage looked for in the tests themselves: they are most of what there is."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    return tmp_path / "project" / ".backstory" / "sessions.bks"


@pytest.fixture
def store(store_path: Path, clock: Clock) -> Iterator[Store]:
    with open_store(store_path, now=clock) as opened:
        yield opened


@pytest.fixture(autouse=True)
def no_process_outlives_its_test(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """What a test started is ended with it, also when it fails: a pipe that is open would fail a test that follows.

    Commands of ours that it starts, by whatever way, are copies of a process where that is the same.
    """
    monkeypatch.setattr(subprocess, "Popen", forked.Process)
    yield
    started = [*forked.STARTED]
    homes = {process.home for process in started}
    forked.STARTED.clear()
    for process in started:
        process.kill()
    for pid in family({home for home in homes if home.startswith(str(tmp_path_factory.getbasetemp()))}):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for process in started:
        process.wait(ENDS_S)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def family(homes: set[str]) -> list[int]:
    """The processes that have one of these folders as their BACKSTORY_HOME: agents outlive who started them."""
    wanted, found = {f"BACKSTORY_HOME={home}".encode() for home in homes}, []
    for entry in Path("/proc").glob("[0-9]*") if wanted else []:
        with suppress(OSError):
            if wanted & set((entry / "environ").read_bytes().split(b"\0")):
                found.append(int(entry.name))
    return found
