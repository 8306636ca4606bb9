"""Each kind of damage is found and named; a whole store has none."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest
import zstandard

from backstory import errors
from backstory.model import AssistantText, ToolCall, ToolResult, UserMessage
from backstory.store import Store, codec, open_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clock import Clock

SESSIONS = 3


@pytest.fixture
def whole(store: Store) -> Store:
    """A store with a few sessions, closed."""
    for n in range(SESSIONS):
        session = store.create_session(f"session {n}")
        for word in ("red", "green", "blue"):
            store.append_events(
                session,
                [
                    UserMessage(content=f"paint it {word}"),
                    ToolCall(tool_name="Bash", input={"command": f"paint {word}"}),
                    ToolResult(tool_name="Bash", content=f"{word}\n" * 20),
                    AssistantText(text=f"painted {word}"),
                ],
            )
    store.close()
    return store


def hurt(store: Store, *statements: str, values: tuple[object, ...] = ()) -> list[str]:
    """What verify says after this was done to the file."""
    with closing(apsw.Connection(str(store.path))) as db:
        for statement in statements:
            db.execute(statement, values)
    return store.verify().problems


def test_a_whole_store_has_no_problems_and_says_what_was_checked(whole: Store) -> None:
    verified = whole.verify()
    assert verified.ok
    assert verified.problems == []
    assert (verified.checked["sessions"], verified.checked["logs"], verified.checked["events"]) == (3, 3, 36)
    assert verified.checked["bytes"] == sum(log.read_to for log in whole.logs())


def test_a_store_without_sessions_is_whole(store: Store) -> None:
    store.remove(store.create_session())
    assert store.verify().problems == []


def test_a_home_store_is_whole(store_path: Path, clock: Clock) -> None:
    with open_store(store_path, shared=True, now=clock) as store:
        store.append_events(store.create_session(), [UserMessage(content="hello")])
        assert store.verify().problems == []


def test_progress_is_told_by_logs(whole: Store) -> None:
    told: list[tuple[int, int]] = []
    whole.verify(lambda done, total: told.append((done, total)))
    assert told == [(0, 3), (1, 3), (2, 3)]


def test_verifying_changes_nothing(whole: Store) -> None:
    content = whole.path.read_bytes()
    whole.verify()
    whole.close()
    assert whole.path.read_bytes() == content


@pytest.mark.parametrize("at", [0, 5, 20, -1])
def test_a_flipped_byte_in_a_chunk_is_found(whole: Store, at: int) -> None:
    with closing(apsw.Connection(str(whole.path))) as db:
        data = bytearray(db.execute("select data from chunks where log_id = 2 order by id limit 1").get)
    data[at] ^= 0x40
    problems = hurt(
        whole,
        "update chunks set data = ? where id = (select min(id) from chunks where log_id = 2)",
        values=(bytes(data),),
    )
    assert len(problems) == 1
    assert problems[0].startswith("log 2 ")


def test_other_bytes_of_the_same_length_are_found(whole: Store) -> None:
    with closing(apsw.Connection(str(whole.path))) as db:
        length = db.execute("select length from chunks limit 1").get
    (problem,) = hurt(
        whole,
        "update chunks set data = ? where id = (select min(id) from chunks)",
        values=(codec.pack_chunk(b"x" * length),),
    )
    assert "checksum" in problem


def test_a_missing_chunk_is_found(whole: Store) -> None:
    problems = hurt(whole, "delete from chunks where id = (select min(id) + 1 from chunks)")
    assert any("log 1 " in problem and "missing" in problem for problem in problems)


def test_a_missing_last_chunk_is_found(whole: Store) -> None:
    problems = hurt(whole, "delete from chunks where id = (select max(id) from chunks)")
    assert any("log 3 " in problem and "were read" in problem for problem in problems)


def test_a_chunk_that_is_kept_twice_is_found(whole: Store) -> None:
    problems = hurt(
        whole,
        "insert into chunks(log_id, start, length, sha256, data) "
        "select log_id, start + 1, length, sha256, data from chunks limit 1",
    )
    assert any("kept twice" in problem for problem in problems)


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_wrong_end_of_a_log_is_found(whole: Store, shift: int) -> None:
    problems = hurt(whole, f"update logs set read_to = read_to + {shift} where id = 1")
    assert any("log 1 " in problem and "were read" in problem for problem in problems)


@pytest.mark.parametrize(
    "data",
    [b"", b"garbage", codec.FRAME_MAGIC, codec.FRAME_MAGIC + b"\0" * 20, b'{"UserMessage":{}}', "{", b"\xff", b"{}"],
    ids=repr,
)
def test_garbage_instead_of_an_event_is_found(whole: Store, data: bytes | str) -> None:
    (problem,) = hurt(whole, "update events set data = ? where id = 1", values=(data,))
    assert problem.startswith("event 1 (session 1 @1)")


def test_an_event_cut_short_is_found(whole: Store) -> None:
    problems = hurt(whole, "update events set data = substr(data, 1, length(data) - 3) where id = 1")
    assert [problem.startswith("event 1 ") for problem in problems] == [True]


def test_a_lost_dictionary_is_found_and_ours_stands_in_for_it(whole: Store) -> None:
    problems = hurt(whole, "delete from dictionaries")
    assert sorted(problems) == ["dictionary 32769 is not in this file", "dictionary 32770 is not in this file"]


def test_an_event_of_a_dictionary_that_nobody_has_is_found(whole: Store) -> None:
    samples: list[bytes | bytearray | memoryview] = [b"%d says hello to %d" % (n, n * 7) * 3 for n in range(500)]
    strange = zstandard.train_dictionary(2_000, samples, dict_id=40_000)
    frame = zstandard.ZstdCompressor(dict_data=strange).compress(b"hello")
    (problem,) = hurt(whole, f"update events set data = x'{frame.hex()}' where id = 2")
    assert "dictionary 40000 is not in this file" in problem


def test_an_event_filed_under_another_kind_is_found(whole: Store) -> None:
    (problem,) = hurt(whole, "update events set kind = 'ToolResult' where id = 2")
    assert "filed as ToolResult, says ToolCall" in problem


def test_an_event_behind_the_end_of_its_log_is_found(whole: Store) -> None:
    problems = hurt(whole, "update events set position = 1000000 where id = 2")
    assert any("its record is not in log 1" in problem for problem in problems)


def test_an_event_at_a_place_that_has_another_number_is_found(whole: Store) -> None:
    problems = hurt(whole, "update numbers set first_seq = first_seq + 1000 where log_id = 1")
    assert any("has no such number at its place" in problem for problem in problems)


def test_an_event_of_another_sessions_log_is_found(whole: Store) -> None:
    problems = hurt(whole, "update events set log_id = 3 where id = 2")
    assert any("which is not its own" in problem for problem in problems)


def test_an_event_of_a_log_that_is_gone_is_found(whole: Store) -> None:
    problems = hurt(whole, "update events set log_id = 99 where id = 2")
    assert any("log 99" in problem for problem in problems)


def test_an_event_that_names_no_turn_of_its_session_is_found(whole: Store) -> None:
    (problem,) = hurt(whole, "update events set turn_id = 99 where id = 2")
    assert "turn 99" in problem


def test_an_event_that_names_another_sessions_turn_is_found(whole: Store) -> None:
    (problem,) = hurt(whole, "update events set turn_id = (select max(id) from turns) where id = 2")
    assert "which is not in it" in problem


def test_a_row_without_its_session_is_found(whole: Store) -> None:
    problems = hurt(whole, "pragma foreign_keys = 0", "update events set session_id = 99 where id = 1")
    assert any("events row" in problem for problem in problems)


def test_a_session_deleted_without_foreign_keys_goes_whole(whole: Store) -> None:
    with closing(sqlite3.connect(whole.path)) as db, db:
        db.execute("delete from sessions where id = 1")
    assert [log.session_id for log in whole.logs() if log.session_id == 1] == []
    assert whole.verify().problems == []


def test_a_number_that_would_be_given_twice_is_found(whole: Store) -> None:
    (problem,) = hurt(whole, "update sessions set next_seq = 5 where id = 1")
    assert "has record 12 but would number the next one 5" in problem


def test_prompts_missing_from_the_index_are_found(whole: Store) -> None:
    (problem,) = hurt(whole, "delete from search_index where rowid in (1, 4)")
    assert problem == "search index: 2 prompts and answers are not in it"


def test_a_damaged_index_is_found(whole: Store) -> None:
    problems = hurt(whole, "update search_index_data set block = zeroblob(20) where id > 10")
    assert any("search index" in problem or "malformed" in problem for problem in problems)


def test_a_hit_under_a_damaged_scope_is_still_found(whole: Store) -> None:
    with closing(apsw.Connection(str(whole.path))) as db:
        db.execute("update search_index_content set c4 = 'pr0mpt'")
    assert len(whole.search("red").hits) == SESSIONS


def test_many_problems_are_told_up_to_a_limit(store: Store) -> None:
    session = store.create_session()
    store.append_events(session, [AssistantText(text=str(n)) for n in range(500)])
    store.close()
    assert len(hurt(store, "update events set data = x'00'")) == 200


def pages_of(store: Store, table: str) -> list[int]:
    with closing(apsw.Connection(str(store.path))) as db:
        return [page for (page,) in db.execute("select pageno from dbstat where name = ?", (table,))]


@pytest.mark.parametrize("table", ["chunks", "events", "sessions", "logs", "turns", "idx_turns_uid"])
def test_a_page_that_was_overwritten_is_found(whole: Store, table: str) -> None:
    with closing(apsw.Connection(str(whole.path))) as db:
        root, size = db.execute("select rootpage from sqlite_schema where name = ?", (table,)).get, 8192
    content = bytearray(whole.path.read_bytes())
    content[(root - 1) * size : (root - 1) * size + size // 2] = b"\x5a" * (size // 2)
    whole.path.write_bytes(content)
    try:
        problems = whole.verify().problems
    except errors.StoreDamaged as damaged:
        problems = [str(damaged)]
    assert problems


@pytest.mark.parametrize("seed", range(40))
def test_a_flipped_bit_anywhere_is_never_worse_than_a_named_error(whole: Store, seed: int) -> None:
    import random

    chance = random.Random(seed)
    content = bytearray(whole.path.read_bytes())
    content[chance.randrange(100, len(content))] ^= 1 << chance.randrange(8)
    whole.path.write_bytes(content)
    try:
        whole.verify()
        whole.sessions()
        whole.events(1)
        whole.search("red")
    except errors.BackstoryError:
        pass


def test_a_file_cut_in_half_is_found(whole: Store) -> None:
    content = whole.path.read_bytes()
    whole.path.write_bytes(content[: len(content) // 2 // 8192 * 8192])
    try:
        problems = whole.verify().problems
    except errors.StoreDamaged as damaged:
        problems = [str(damaged)]
    assert problems


def test_a_store_without_logs_is_whole(store: Store) -> None:
    store.remove(store.create_session())
    assert store.verify().problems == []
    assert store.verify().checked["bytes"] == 0
