"""The bytes of logs: kept in checked chunks, given back exactly, folded without being rewritten too often."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.errors import StoreDamaged
from backstory.model import AssistantText, LogIdentity, OwnLine, SessionFacts, UserMessage, event_from_json
from backstory.store import RecordBatch, Store, codec, open_store
from backstory.store.file import connection, maintenance
from backstory.store.intake import append
from backstory.store.tables import logs, sessions
from tests.support.counts import examples

if TYPE_CHECKING:
    from tests.support.clock import Clock

AMPLIFICATION_MAX = 8
APPENDS = 1_000


def prompts_in(data: bytes) -> list[str]:
    """What the lines of a session of ours tell."""
    lines = [msgspec.json.decode(line, type=OwnLine) for line in data.splitlines()]
    events = [event_from_json(bytes(line.event)) for line in lines]
    return [event.content for event in events if isinstance(event, UserMessage)]


def kept(store: Store) -> bytes:
    return b"".join(store.stream_log(only_log(store).id))


def only_log(store: Store) -> logs.Log:
    (log,) = store.logs()
    return log


def numbers(store: Store, log_id: int) -> list[int]:
    return [run.first_seq + n for run in store.ask(logs.seq_ranges, log_id) for n in range(run.records)]


def appended(store: Store, count: int) -> bytes:
    session = store.create_session()
    for n in range(count):
        store.append_events(session, [UserMessage(content=f"prompt {n}")])
    whole = kept(store)
    assert prompts_in(whole) == [f"prompt {n}" for n in range(count)]
    return whole


def a_slice(store: Store, native_id: str, data: list[bytes], *, at: int = 0, log_id: int | None = None) -> RecordBatch:
    """A piece of an agent's log: these chunks behind byte ``at``, each one record."""
    chunks, runs, position = [], [], at
    seq = store.ask_or(1, sessions.next_seq, f"{0:010}{native_id:0>16}")
    for n, piece in enumerate(data):
        chunks.append(logs.pack(position, piece))
        runs.append(logs.SeqRange(position, position + len(piece), seq + n, 1))
        position += len(piece)
    return RecordBatch(
        agent="claude", identity=LogIdentity(native_id=native_id), session_uid=f"{0:010}{native_id:0>16}", created=0,
        relpath="a.jsonl", path="/a.jsonl", modified=1, log_id=log_id, expected_read_to=at, expected_next_seq=seq,
        read_to=position, parsed_to=position, tail_seq=None, next_seq=seq + len(data), generation=1, first_hash=b"x",
        tail_hash=b"y", state=b"{}", chunks=chunks, seq_ranges=runs, facts=SessionFacts(),
    )  # fmt: skip


texts = st.text(st.characters(codec="utf-8"), max_size=200)


@settings(max_examples=examples(30), deadline=None)
@given(
    batches=st.lists(st.lists(texts, min_size=1, max_size=4), min_size=1, max_size=80),
    places=st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 20_000)), max_size=10),
)
def test_any_part_of_a_log_is_read_back_exactly(batches: list[list[str]], places: list[tuple[int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "s.bks", now=lambda: 0) as store:
        session = store.create_session()
        for batch in batches:
            store.append_events(session, [UserMessage(content=text) for text in batch])
        whole, log = kept(store), only_log(store)
        assert prompts_in(whole) == [text for batch in batches for text in batch]
        assert log.read_to == len(whole)
        for start, length in [*places, (0, len(whole)), (len(whole), 5), (0, 0)]:
            assert store.read_log(log.id, start, length) == whole[start : start + length]


def test_each_event_points_at_its_own_bytes(store: Store) -> None:
    appended(store, 150)
    log = only_log(store)
    for n, stored in enumerate(store.events(1)):
        assert stored.position is not None
        assert stored.length is not None
        assert prompts_in(store.read_log(log.id, stored.position, stored.length)) == [f"prompt {n}"]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 200])
def test_folding_keeps_bytes_and_numbers(store: Store, count: int) -> None:
    whole = appended(store, count)
    log = only_log(store)
    assert b"".join(store.stream_log(log.id)) == whole
    assert numbers(store, log.id) == list(range(1, count + 1))
    assert store.verify().problems == []


def test_a_log_never_has_many_small_chunks(store: Store) -> None:
    appended(store, 300)
    assert len(store.ask(logs.chunk_marks, only_log(store).id)) < 2 * logs.FRAMES_MAX


def test_an_idle_log_is_folded_into_one_chunk(store: Store, clock: Clock) -> None:
    whole = appended(store, 40)
    log = only_log(store)
    assert len(store.ask(logs.chunk_marks, log.id)) == 40
    assert maintenance.merge_idle_chunks(store, clock.ms) == 1
    assert len(store.ask(logs.chunk_marks, log.id)) == 1
    assert store.read_log(log.id, 0, len(whole)) == whole
    assert numbers(store, log.id) == list(range(1, 41))
    assert store.verify().problems == []


def test_a_log_that_was_folded_is_left_alone(store: Store, clock: Clock) -> None:
    appended(store, 40)
    maintenance.merge_idle_chunks(store, clock.ms)
    assert maintenance.merge_idle_chunks(store, clock.ms) == 0


def test_a_folded_log_goes_on_growing(store: Store, clock: Clock) -> None:
    whole = appended(store, 40)
    maintenance.merge_idle_chunks(store, clock.ms)
    store.append_events(1, [UserMessage(content="late")])
    assert kept(store).startswith(whole)
    assert prompts_in(kept(store)[len(whole) :]) == ["late"]


def test_folding_stops_at_the_size_of_a_chunk(store: Store, clock: Clock) -> None:
    session = store.create_session()
    noise = random.Random(7)
    for _ in range(30):
        store.append_events(session, [AssistantText(text=noise.randbytes(200_000).hex())])
    maintenance.merge_idle_chunks(store, clock.ms)
    lengths = [length for _, length, *_ in store.ask(logs.chunk_marks, only_log(store).id)]
    assert max(lengths) <= codec.CHUNK_BYTES
    assert len(lengths) == 3


def test_numbers_that_do_not_run_on_do_not_keep_chunks_apart(store: Store, clock: Clock) -> None:
    first = store.append([a_slice(store, "A", [b"one\n", b"two\n"])])[0]
    piece = a_slice(store, "A", [b"three\n", b"four\n"], at=8, log_id=first.log_id)
    for run in piece.seq_ranges:
        run.first_seq += 10
    store.append([piece])
    assert first.log_id is not None
    maintenance.merge_idle_chunks(store, clock.ms)
    assert len(store.ask(logs.chunk_marks, first.log_id)) == 1
    assert numbers(store, first.log_id) == [1, 2, 13, 14]
    assert b"".join(store.stream_log(first.log_id)) == b"one\ntwo\nthree\nfour\n"


def test_numbers_that_run_on_are_one_row(store: Store) -> None:
    appended(store, 20)
    assert [(run.first_seq, run.records) for run in store.ask(logs.seq_ranges, only_log(store).id)] == [(1, 20)]


def test_how_a_turn_ended_is_kept_as_a_line_without_a_number(store: Store) -> None:
    appended(store, 2)
    store.mark_completed(1, 1200, 0.5)
    store.append_events(1, [UserMessage(content="late")])
    log = only_log(store)
    assert numbers(store, log.id) == [1, 2, 3]
    assert [(run.first_seq, run.records) for run in store.ask(logs.seq_ranges, log.id)] == [(1, 2), (3, 1)]
    assert b'"complete":{"success":true,"duration_ms":1200,"cost_usd":0.5}' in kept(store)
    assert store.verify().problems == []


@pytest.mark.slow
def test_a_byte_is_rewritten_only_a_few_times(store_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    written = 0
    insert = logs.insert_chunks

    def counting(db: object, log_id: int, chunks: list[logs.Chunk]) -> None:
        nonlocal written
        written += sum(chunk.length for chunk in chunks)
        insert(db, log_id, chunks)  # type: ignore[arg-type]

    monkeypatch.setattr(logs, "insert_chunks", counting)
    # What is written is counted, not how safely: a thousand syncs would only take time.
    monkeypatch.setattr(connection, "be_durable", lambda db, always: db.execute("pragma synchronous = off"))
    with open_store(store_path, now=clock) as store:
        whole = appended(store, APPENDS)
        assert b"".join(store.stream_log(only_log(store).id)) == whole
    assert written <= AMPLIFICATION_MAX * len(whole)


def test_a_slice_is_taken_only_where_the_log_ends(store: Store) -> None:
    (first,) = store.append([a_slice(store, "A", [b"one\n"])])
    behind = a_slice(store, "A", [b"two\n"], at=4, log_id=first.log_id)
    again = a_slice(store, "A", [b"two\n"], at=4, log_id=first.log_id)
    assert store.append([behind])[0].refused is None
    assert store.append([again])[0].refused is not None
    assert first.log_id is not None
    assert b"".join(store.stream_log(first.log_id)) == b"one\ntwo\n"


def test_of_several_slices_each_is_judged_for_itself(store: Store) -> None:
    good, stale = a_slice(store, "A", [b"one\n"]), a_slice(store, "B", [b"one\n"])
    stale.expected_next_seq = 5
    taken, refused = store.append([good, stale])
    assert (taken.refused, taken.session_is_new, refused.log_id) == (None, True, None)
    assert store.ask(sessions.count) == 1


def test_a_removed_sessions_log_is_refused(store: Store) -> None:
    (first,) = store.append([a_slice(store, "A", [b"one\n"])])
    assert first.session_id is not None
    store.remove(first.session_id)
    (again,) = store.append([a_slice(store, "A", [b"one\n"])])
    assert again.refused is not None
    assert again.refused == append.FORGOTTEN
    store.decide(sessions.unforget)
    assert store.append([a_slice(store, "A", [b"one\n"])])[0].refused is None


def test_bytes_that_were_changed_are_never_given_back(store: Store) -> None:
    appended(store, 1)
    log = only_log(store)
    store.close()
    db = apsw.Connection(str(store.path))
    db.execute("update chunks set data = ?", (codec.pack_chunk(b"other"),))
    db.close()
    with pytest.raises(StoreDamaged, match="checksum"):
        store.read_log(log.id, 0, 10)
    with pytest.raises(StoreDamaged, match="checksum"):
        list(store.stream_log(log.id))
