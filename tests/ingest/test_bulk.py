"""A lot at once: however many logs there are, they go in, and what a load left behind is put right by the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory.errors import DiskFull
from backstory.ingest import ingest as ingest_module
from backstory.store.database import SEARCHED_SEGMENTS
from backstory.store.intake import ingesting
from tests.support.machines import Machine, claude_line, claude_log, conversation, lines, looked_up

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

SEGMENTS = "select count(distinct segid) from search_index_idx"
SETTINGS = "select k, v from search_index_config where k <> 'version'"
USUAL = {"automerge": 4, "crisismerge": 16, "hashsize": 1024 * 1024}
SMALL_LOGS = 2_500
SMALL_LOG_BYTES = 5_000
FTS5_SEGMENTS_MAX = 2_000


def indexed_without_event(machine: Machine) -> int:
    rows = looked_up(machine.store_path, "select count(*) from search_index where rowid not in (select id from events)")
    return int(rows[0][0])


def fill_index_with_segments(machine: Machine, count: int) -> None:
    """Leave the index as a load leaves it that puts in one text at a time, and gets no further."""
    db = apsw.Connection(str(machine.store_path))
    for setting, value in (("automerge", 0), ("crisismerge", FTS5_SEGMENTS_MAX), ("hashsize", 32 * 1024 * 1024)):
        db.execute("insert into search_index(search_index, rank) values (?, ?)", (setting, value))
    with db:
        for event_id in range(1_000_000, 1_000_000 + count):
            # FTS5 writes a segment at each savepoint.
            with db:
                db.execute("insert into search_index(rowid, content) values (?, ?)", (event_id, f"left{event_id}"))
    db.close()


def test_logs_that_are_stored_together_become_one_segment_of_the_index(machine: Machine) -> None:
    for n in range(40):
        machine.write(claude_log(f"log-{n}"), lines(*conversation(4)))
    machine.write(claude_log("first"), lines(*conversation(2)))
    ingesting.begin_bulk(machine.store)
    machine.read()
    assert looked_up(machine.store_path, SEGMENTS) == [(1,)]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_thousands_of_small_logs_go_in_at_once_and_are_not_read_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_module, "BULK_BYTES", SMALL_LOGS * SMALL_LOG_BYTES)
    for n in range(SMALL_LOGS):
        prompt = claude_line("user", f"u{n}", f"task{n} " + "x" * SMALL_LOG_BYTES)
        machine.write(f".claude/projects/-p{n % 50}/log-{n}.jsonl", lines(prompt))
    report = machine.read("claude")
    assert (report.errors, report.total("logs_read")) == ([], SMALL_LOGS)
    assert report.total("bytes_read") > ingest_module.BULK_BYTES
    assert machine.store.search("task2345").total == 1
    assert machine.read("claude").total("logs_read") == 0
    assert dict(looked_up(machine.store_path, SETTINGS)) == USUAL


def test_a_store_whose_index_has_no_room_left_takes_the_next_logs(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_module, "BULK_BYTES", 0)
    machine.write(claude_log("before"), lines(*conversation(2)))
    machine.read()
    machine.store.close()
    # The first of them are merged when there is no room left; for that of the others there is none.
    fill_index_with_segments(machine, 2 * FTS5_SEGMENTS_MAX - 5)
    assert looked_up(machine.store_path, SEGMENTS)[0][0] > FTS5_SEGMENTS_MAX - 10
    for n in range(5):
        machine.write(claude_log(f"after-{n}"), lines(*conversation(2)))
    assert machine.read().total("logs_read") == 5
    assert looked_up(machine.store_path, SEGMENTS)[0][0] <= SEARCHED_SEGMENTS
    assert dict(looked_up(machine.store_path, SETTINGS)) == USUAL
    assert machine.store.verify().problems == []


@pytest.mark.parametrize(("before", "is_merged"), [(SEARCHED_SEGMENTS - 5, False), (SEARCHED_SEGMENTS + 5, True)])
def test_a_load_merges_an_index_in_many_segments_and_no_other(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, before: int, is_merged: bool
) -> None:
    monkeypatch.setattr(ingest_module, "BULK_BYTES", 0)
    machine.write(claude_log("before"), lines(*conversation(2)))
    machine.read()
    machine.store.close()
    fill_index_with_segments(machine, before)
    machine.write(claude_log("after"), lines(*conversation(2)))
    machine.read()
    assert (looked_up(machine.store_path, SEGMENTS) == [(1,)]) == is_merged


def test_a_load_that_fails_gives_the_index_its_settings_back(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_module, "BULK_BYTES", 0)
    machine.put("claude/tools")

    def full(pieces: Any) -> Any:
        raise DiskFull(machine.store_path)

    monkeypatch.setattr(machine.store, "append", full)
    with pytest.raises(DiskFull):
        machine.read()
    assert dict(looked_up(machine.store_path, SETTINGS)) == USUAL


def test_what_a_batch_takes_back_of_itself_is_not_indexed(
    another: Callable[[], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one, together = another(), another()
    pieces: list[Any] = []
    write = one_by_one.store.append

    def noted(given: Any) -> Any:
        pieces.extend(given)
        return write(given)

    monkeypatch.setattr(one_by_one.store, "append", noted)
    begun, rest = lines(*conversation(3)).rstrip(b"\n"), b"\n" + lines(*conversation(2, start=3))
    one_by_one.write(claude_log("log"), begun)
    one_by_one.read()
    one_by_one.write(claude_log("log"), begun + rest)
    one_by_one.read()
    assert [piece.undo_from is not None for piece in pieces] == [False, True]
    assert [each.refused for each in together.store.append(pieces)] == [None, None]
    assert together.content() == one_by_one.content()
    assert indexed_without_event(together) == 0
    assert [together.store.search(f"word{n}").total for n in range(5)] == [1] * 5
