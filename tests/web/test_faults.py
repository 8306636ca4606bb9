"""Pages answer whatever happens to the store: many read it, others write it, lock it, or put another there."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest

from backstory import UserMessage, open_store
from tests.support.bench import Bench
from tests.support.counts import IS_LONG
from tests.support.forked import COMMAND
from tests.support.going import Going, delta, until
from tests.support.pages import Visitor, served
from tests.support.streamed import Streamed
from tests.support.work_habits import put_habits

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell

READERS, ROUNDS, WATCHERS = (200, 5, 50) if IS_LONG else (20, 1, 5)
PATHS = (
    "/sessions",
    "/search?q=test",
    "/reports/costs?period=3",
    "/search?q=lint&part=1",
    "/reports/activity?period=3",
)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def sessions_in(visitor: Visitor) -> list[str]:
    """The paths of the sessions in the first part of the list."""
    return [*dict.fromkeys(re.findall(r'href="(/s/\w+)"', visitor.get("/sessions").text))]


@pytest.mark.slow
def test_many_read_while_a_first_import_writes_and_an_agent_runs(bench: Bench) -> None:
    put_habits(bench.root)
    environ = bench.environ([])
    with served(environ, bench.project) as first, Going(bench, delta("It is at work")):
        first.enter()
        (running,) = sessions_in(first)
        watching = [Streamed(first, running.removeprefix("/s/")) for _ in range(WATCHERS)]

        def read(n: int) -> list[int]:
            visitor = Visitor(first.address)
            visitor.enter()
            found = [visitor.get(PATHS[(n + each) % len(PATHS)]).status for each in range(ROUNDS)]
            return [*found, *(visitor.get(path).status for path in sessions_in(visitor)[:1])]

        writing = subprocess.Popen([*COMMAND, "ingest"], cwd=bench.project, env=environ, stdout=subprocess.DEVNULL)
        with ThreadPoolExecutor(READERS) as readers:
            statuses = [each for found in readers.map(read, range(READERS)) for each in found]
        assert writing.wait(120) == 0
        assert len(statuses) >= READERS * ROUNDS
        assert set(statuses) == {200}
        # What was looked up before the import is used for some seconds more.
        until(lambda: len(sessions_in(first)) > 10)
        until(lambda: all(each.of("writing") for each in watching))
        for each in watching:
            assert "It is at work" in each.of("writing")[-1].value["text"]
            each.close()


def test_a_store_that_somebody_writes_is_read_as_it_was(empty: Shell) -> None:
    empty.put("claude/tools")
    assert empty("ingest").code == 0
    with served(empty.environ, empty.cwd) as visitor, closing(apsw.Connection(str(empty.store))) as other:
        visitor.enter()
        other.execute("begin immediate")
        other.execute("delete from sessions")
        (path,) = sessions_in(visitor)
        assert visitor.get(path).status == 200
        other.execute("rollback")


def test_another_store_in_its_place_is_shown_by_the_next_page(empty: Shell) -> None:
    empty.put("claude/tools")
    assert empty("ingest").code == 0
    with served(empty.environ, empty.cwd) as visitor:
        visitor.enter()
        (old,) = sessions_in(visitor)
        with open_store(empty.home / "other.db") as store:
            store.append_events(store.create_session("another"), [UserMessage(content="another")])
        (empty.home / "other.db").replace(empty.store)
        (new,) = sessions_in(visitor)
        assert new != old
        assert (visitor.get(old).status, visitor.get(new).status) == (404, 200)


@pytest.mark.parametrize("data", [b"", b"no store at all" * 1_000])
def test_a_store_that_is_damaged_meanwhile_is_said_and_read_again_once_it_is_whole(empty: Shell, data: bytes) -> None:
    empty.put("claude/tools")
    assert empty("ingest").code == 0
    with served(empty.environ, empty.cwd) as visitor:
        visitor.enter()
        found = sessions_in(visitor)
        whole = empty.store.rename(empty.home / "whole.db")
        empty.store.write_bytes(data)
        answer = visitor.get("/sessions")
        assert (answer.status in (200, 400), "Traceback" in answer.text, sessions_in(visitor)) == (True, False, [])
        whole.replace(empty.store)
        assert sessions_in(visitor) == found
