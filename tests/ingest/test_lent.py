"""Bytes of subagents' logs that are their parent's: read out of that, kept when it goes, and never another's."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import apsw
import pytest
import zstandard

from backstory import agents, errors
from backstory.exchange import replicate, replication
from backstory.ingest.discover import discover
from backstory.ingest.ingest import ingest_these
from backstory.ingest.log_reader import kept_lines
from backstory.ingest.reindex import reindex
from backstory.ingest.reported import is_reported
from backstory.store import codec, open_store
from backstory.store.file import maintenance
from backstory.store.intake import append
from backstory.store.moves import Moves
from backstory.store.tables import lent, logs
from tests.support import copies
from tests.support.clock import NOW, Clock
from tests.support.faults import failing_disk, kinds_of_steps
from tests.support.machines import Machine, conversation, differences, lines, looked_up, problems
from tests.support.make_golden import GOLDEN
from tests.support.portable import Importer, came, exported
from tests.support.subagents import (
    BYTES,
    CONTENT,
    LENT,
    LOG,
    PARENT,
    bytes_in,
    is_settled,
    lenders,
    log_of,
    parent_of,
    report,
    said,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from backstory.store import RecordBatch, Session, Store, Written

STEPS_MAX = 3_000


@pytest.fixture
def family(machine: Machine) -> Machine:
    """A machine that has read a log which reports of two subagents."""
    machine.write(LOG, CONTENT)
    assert machine.read("claude").errors == []
    return machine


def changed(path: Path, sql: str, *values: Any, foreign_keys: bool = True) -> None:
    """A change that another program makes."""
    db = apsw.Connection(str(path))
    db.execute(f"pragma foreign_keys = {foreign_keys}")
    db.execute(sql, values)
    db.close()


# what is kept, and how it is read -----------------------------------------------------------------------------------


def test_what_a_log_repeats_of_a_subagent_is_kept_once(family: Machine) -> None:
    assert lenders(family.store) == [log_of(family.store, LOG.name).id]
    packed = looked_up(family.store_path, "select sum(length(data)) from chunks where lender is not null")
    assert packed[0][0] < len(BYTES) / 4
    assert family.store.verify().problems == []


def test_its_bytes_can_be_read_in_every_way(family: Machine) -> None:
    store, log = family.store, log_of(family.store)
    assert b"".join(store.stream_log(log.id)) == BYTES
    assert store.read_log(log.id, 5, 700) == BYTES[5:705]
    assert store.read_log(log.id, 5, 700, checked=False) == BYTES[5:705]
    assert [line.content for line in kept_lines(store, log)] == BYTES.splitlines()
    assert store.search("pelican").total > 0


def test_a_part_that_is_not_as_in_the_line_is_kept_as_it_is(machine: Machine) -> None:
    content = lines(*conversation(2), b"\xef\xbb\xbf" + report(0), report(1))
    machine.write(LOG, content)
    machine.read("claude")
    assert bytes_in(machine.store) == said(content)


def test_reindex_reads_it_and_changes_nothing(family: Machine) -> None:
    before = family.content()
    assert reindex(family.store, now=NOW, events_too=True).failed == []
    assert differences(family.content(), before) == []
    assert None not in lenders(family.store)


def test_it_goes_on_with_its_parents_log(family: Machine, another: Callable[[], Machine]) -> None:
    longer = CONTENT + lines(*(report(n) for n in range(10, 14)))
    family.write(LOG, longer)
    assert family.read("claude").errors == []
    assert bytes_in(family.store) == said(longer)
    at_once = another()
    at_once.write(LOG, longer)
    at_once.read("claude")
    assert differences(family.content(), at_once.content()) == []


def test_a_log_longer_than_a_slice_lends_from_each(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backstory.ingest.log_reader.BLOCK_BYTES", 900)
    monkeypatch.setattr("backstory.ingest.log_reader.SLICE_BYTES", 900)
    machine.write(LOG, CONTENT)
    assert machine.read("claude").errors == []
    assert bytes_in(machine.store) == BYTES
    assert looked_up(machine.store_path, "select count(*) > 2 from chunks where lender is not null") == [(1,)]
    assert machine.store.verify().problems == []


def test_a_chunk_spans_no_more_of_its_parents_log_than_a_chunk_holds(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backstory.ingest.reported.CHUNK_BYTES", 1_000)
    machine.write(LOG, CONTENT)
    machine.read("claude")
    assert bytes_in(machine.store) == BYTES
    assert looked_up(machine.store_path, "select count(*) > 2 from chunks where lender is not null") == [(1,)]


def test_a_store_of_the_first_schema_with_lenders_is_read(tmp_path: Path) -> None:
    packed = (GOLDEN / "lent-v5.db.zst").read_bytes()
    (tmp_path / "old.db").write_bytes(zstandard.ZstdDecompressor().decompress(packed))
    with open_store(tmp_path / "old.db", shared=True) as store:
        assert None not in lenders(store)
        assert bytes_in(store) == BYTES
        assert store.verify().problems == []


# a parent that is folded, rewritten, removed ------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["removed", "verified"])
def test_a_parents_chunk_is_unpacked_once_for_all_that_are_made_of_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    machine.write(LOG, lines(*conversation(2), *(report(n, f"a{n % 20}") for n in range(120))))
    machine.read("claude")
    changed(machine.store_path, "update sessions set relation = null where native_id like '%/a%'")
    unpacked: list[int] = []
    unpack = codec.unpack_beginning

    def counted(frame: bytes, length: int, find: codec.FindsDictionaries) -> bytes:
        if length > codec.FIRST_COPY_BYTES_MAX:
            unpacked.append(length)
        return unpack(frame, length, find)

    monkeypatch.setattr(codec, "unpack_beginning", counted)
    if what == "removed":
        machine.store.remove(parent_of(machine.store))
        assert is_settled(machine.store)
    else:
        assert machine.store.verify().problems == []
    assert len(unpacked) == 1


def test_a_parent_that_is_folded_and_packed_anew_still_lends(family: Machine) -> None:
    content = CONTENT
    for n in range(20, 24):
        content += lines(report(n), *conversation(1, n))
        family.write(LOG, content)
        family.read("claude")
    maintenance.merge_idle_chunks(family.store, NOW * 10)
    family.store.optimize(NOW * 10)
    assert looked_up(family.store_path, "select count(*) from chunks c join logs l on l.id = log_id where l.path = ?",
                     str(family.home / LOG)) == [(1,)]  # fmt: skip
    assert bytes_in(family.store) == said(content)
    # What was read along is still the parent's; what came later is folded into one.
    chunks = "select start, lender from chunks where log_id = ? order by start"
    assert looked_up(family.store_path, chunks, log_of(family.store).id) == [
        (0, log_of(family.store, LOG.name).id), (len(BYTES), None),
    ]  # fmt: skip
    assert family.store.verify().problems == []


def test_a_log_that_was_rewritten_leaves_its_subagents_their_bytes(family: Machine) -> None:
    # Every record is there again, so that what was before goes.
    family.write(LOG, lines(*conversation(1, 90)) + CONTENT)
    # Without the rest of an ingest: in the transaction in which what was before goes.
    ingest_these(family.store, discover([agents.load("claude")], {}, family.home)[0])
    assert [log.generation for log in family.store.logs() if log.path.endswith(LOG.name)] == [2]
    assert bytes_in(family.store) == BYTES
    assert is_settled(family.store)
    assert family.store.verify().problems == []


def test_who_removes_a_session_removes_its_subagents_with_it(family: Machine) -> None:
    family.store.remove(parent_of(family.store).id)
    assert family.store.sessions(subagents=True) == []
    assert looked_up(family.store_path, "select (select count(*) from chunks), (select count(*) from lent)") == [(0, 0)]


def test_a_session_that_stays_keeps_its_bytes_and_nothing_else_of_one_that_is_removed(family: Machine) -> None:
    changed(family.store_path, "update sessions set relation = null where native_id like '%a58'")
    family.store.remove(parent_of(family.store).id)
    assert bytes_in(family.store) == BYTES
    assert is_settled(family.store)
    family.close()
    assert b"word3 said" not in family.store_path.read_bytes()
    family.store = open_store(family.store_path, shared=True, now=lambda: NOW)
    assert family.store.verify().problems == []


@pytest.mark.parametrize("foreign_keys", [True, False])
@pytest.mark.parametrize("table", ["sessions", "logs"])
def test_what_another_program_removes_leaves_subagents_their_bytes(
    family: Machine, table: str, foreign_keys: bool
) -> None:
    session = parent_of(family.store).id
    family.store.close()
    column = "id" if table == "sessions" else "session_id"
    changed(family.store_path, f"delete from {table} where {column} = ?", session, foreign_keys=foreign_keys)
    assert bytes_in(family.store) == BYTES
    # The next ingest keeps of the parent no more than that.
    (family.home / LOG).unlink()
    family.read("claude")
    assert bytes_in(family.store) == BYTES
    assert is_settled(family.store)


def test_a_lender_that_is_gone_is_forgotten_after_its_last_subagent(family: Machine) -> None:
    family.store.close()
    for one in ("= 'a1b2c3'", "like '%/%'"):
        changed(family.store_path, f"delete from sessions where native_id {one}")
        assert looked_up(family.store_path, "select count(*) > 0 from lent") == [(1,)]
    (family.home / LOG).unlink()
    family.read("claude")
    assert looked_up(family.store_path, LENT) == [(0,)]


def test_they_are_read_while_another_process_removes_the_parent(
    family: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(family.store_path, "update sessions set relation = null where native_id like '%a58'")
    find = lent.LenderChunks.bytes_of

    def removed_meanwhile(*asked: Any) -> bytes:
        monkeypatch.undo()
        with open_store(family.store_path) as other:
            other.remove(parent_of(other).id)
        return find(*asked)

    monkeypatch.setattr(lent.LenderChunks, "bytes_of", removed_meanwhile)
    assert bytes_in(family.store) == BYTES


def test_who_removes_a_session_with_its_subagents_writes_none_of_its_bytes_again(family: Machine) -> None:
    noted = "create temp trigger noted after insert on lent begin select raise(abort, 'its bytes are written'); end"
    family.store.writer().execute(noted)
    family.store.remove(parent_of(family.store).id)
    assert family.store.sessions(subagents=True) == []


def test_a_removed_session_whose_log_goes_on_brings_no_subagent_back(family: Machine) -> None:
    family.store.remove(parent_of(family.store).id)
    family.write(LOG, CONTENT + lines(report(10)))
    assert family.read("claude").errors == []
    assert family.store.sessions(subagents=True) == []


def test_a_run_that_is_dropped_for_good_leaves_subagents_their_bytes(family: Machine) -> None:
    parent = parent_of(family.store)
    turn, log = family.store.turns(parent)[0].uid, log_of(family.store, LOG.name).id
    family.store.close()
    changed(family.store_path, "update logs set turn_uid = ? where id = ?", turn, log)
    changed(family.store_path, "update turns set removed = 1 where uid = ?", turn)
    assert maintenance.prune_turns(family.store, parent.id) == 1
    assert [each.path for each in family.store.logs() if each.id == log] == []
    assert bytes_in(family.store) == BYTES
    assert is_settled(family.store)


def test_a_parent_that_another_stores_copy_replaces_leaves_subagents_their_bytes(
    family: Machine, tmp_path: Path
) -> None:
    with copies.opened(tmp_path / "other", Clock()) as other:
        other.begin()
        copies.merge(other, family.store)
        replication.copy_session(family.store, other, parent_of(family.store).uid)
    assert bytes_in(family.store) == BYTES
    assert is_settled(family.store)
    assert family.store.verify().problems == []


def test_a_log_of_its_own_takes_the_place_of_what_was_lent(family: Machine) -> None:
    family.write(LOG.with_suffix("") / "subagents" / "agent-a58.jsonl", BYTES)
    assert family.read("claude").errors == []
    assert looked_up(family.store_path, "select count(*) from chunks where lender is not null") == [(1,)]
    assert not any(is_reported(log.relpath) for log in family.store.logs() if log.native_id.endswith("a58"))


# copies ---------------------------------------------------------------------------------------------------------------


def child(store: Store) -> Session:
    (found,) = (each for each in store.sessions(subagents=True) if (each.native_id or "").endswith("a58"))
    return found


def test_a_merged_copy_has_bytes_of_its_own(family: Machine, tmp_path: Path) -> None:
    with copies.opened(tmp_path / "other", Clock()) as other:
        other.make_ready() if other.exists else other.begin()
        copies.merge(other, family.store)
        assert bytes_in(other) == BYTES
        assert is_settled(other)
        assert other.verify().problems == []


def test_a_merge_goes_on_with_what_is_made_of_a_parents_log(family: Machine, tmp_path: Path) -> None:
    with copies.opened(tmp_path / "other", Clock()) as other:
        other.begin()
        copies.merge(other, family.store)
        longer = CONTENT + lines(*(report(n) for n in range(10, 14)))
        family.write(LOG, longer)
        family.read("claude")
        copies.merge(other, family.store)
        assert bytes_in(other) == said(longer)
        # And back: the store that lends has all of it.
        assert not copies.merge(family.store, other)
        assert other.verify().problems == []


@pytest.mark.parametrize("way", ["copied", "continued", "continued here", "from elsewhere"])
def test_a_session_that_is_copied_alone_takes_its_bytes_along(family: Machine, tmp_path: Path, way: str) -> None:
    uid = child(family.store).uid
    new = replicate.Continuation(uid="01J9ZZZZZZZZZZZZZZZZZZZZZZ", owner="someone", number=1)
    with copies.opened(tmp_path / "other", Clock()) as other:
        other.begin()
        target = family.store if way == "continued here" else other
        if way == "copied":
            replication.copy_session(target, family.store, uid)
        elif way == "from elsewhere":
            origin = replicate.Taken(elsewhere="/a", project=None, folder="/a")
            assert replication.take_elsewhere(target, family.store, uid, origin)
        else:
            target.change_from(family.store, lambda db, name: replicate.continue_from(db, name, uid, new, Moves()))
        copied = looked_up(target.path, "select max(id) from logs")[0][0]
        assert b"".join(target.stream_log(copied)) == BYTES
        assert looked_up(target.path, "select count(*) from chunks where log_id = ? and lender is null", copied) == [
            (1,)
        ]
        assert target.verify().problems == []


def test_it_goes_out_as_json_and_comes_back(family: Machine, tmp_path: Path) -> None:
    importer = Importer(tmp_path / "other")
    assert came(importer(exported(family.store, only=[child(family.store).id]))) == {"new": 1}
    assert bytes_in(importer.store) == BYTES


def test_a_backup_lends_as_the_store_does(family: Machine, tmp_path: Path) -> None:
    family.store.backup(tmp_path / "copy.db")
    with open_store(tmp_path / "copy.db") as copy:
        assert bytes_in(copy) == BYTES


# what is damaged, or comes between ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("update chunks set lender = 999 where lender is not null", "they are made of log 999, which lacks them"),
        ("update chunks set lender = log_id where lender is not null", "which lacks them"),
        ("update chunks set data = (select data from chunks where lender is null) where lender is not null", ""),
        ("delete from chunks where lender is null", "which lacks them"),
    ],
)
def test_verify_names_a_chunk_whose_lender_lacks_its_bytes(family: Machine, damage: str, words: str) -> None:
    log = log_of(family.store)
    family.store.close()
    changed(family.store_path, damage)
    problems = family.store.verify().problems
    assert any(line.startswith(f"log {log.id} ({log.path}): bytes 0 to ") and words in line for line in problems)
    with pytest.raises(errors.StoreDamaged):
        bytes_in(family.store)


def test_what_is_damaged_stays_as_it_is_when_its_lender_goes(family: Machine) -> None:
    session = parent_of(family.store).id
    family.store.close()
    changed(family.store_path, "update chunks set sha256 = x'00' where lender is not null")
    changed(family.store_path, "delete from sessions where id = ?", session)
    family.store.change(lent.settle)
    assert looked_up(family.store_path, LENT) != [(0,)]


def test_a_parent_that_another_process_stored_meanwhile_lends_nothing(
    machine: Machine, another: Callable[[], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.write(LOG, CONTENT)
    append = machine.store.append

    def after_another(batches: Sequence[RecordBatch], **more: Any) -> list[Written]:
        monkeypatch.undo()
        # It sees an earlier file at the same place.
        machine.write(LOG, lines(*conversation(1, 50)) + CONTENT)
        faster = Machine.__new__(Machine)
        faster.home, faster.store_path = machine.home, machine.store_path
        with open_store(machine.store_path, shared=True, now=lambda: NOW) as faster.store:
            faster.read("claude")
        return append(batches, **more)

    monkeypatch.setattr(machine.store, "append", after_another)
    machine.read("claude")
    assert bytes_in(machine.store) == BYTES
    assert machine.store.verify().problems == []
    at_once = another()
    at_once.write(LOG, lines(*conversation(1, 50)) + CONTENT)
    at_once.read("claude")
    assert differences(machine.content(), at_once.content()) == []


@pytest.mark.parametrize("way", ["streamed", "read", "looked at"])
def test_a_lender_that_goes_while_its_bytes_are_read_is_no_damage(
    family: Machine, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    changed(family.store_path, "update sessions set relation = null where native_id like '%a58'")
    log, parent, unpacked = log_of(family.store), parent_of(family.store).id, lent.unpacked

    def too_late(*given: Any) -> bytes:
        monkeypatch.undo()
        with open_store(family.store_path, shared=True, now=lambda: NOW) as other:
            other.remove(parent)
        return unpacked(*given)

    monkeypatch.setattr("backstory.store.tables.lent.unpacked", too_late)
    if way == "streamed":
        assert b"".join(family.store.stream_log(log.id)) == BYTES
    else:
        assert family.store.read_log(log.id, 0, len(BYTES), checked=way == "read") == BYTES
    assert is_settled(family.store)


def test_subagents_that_cannot_be_stored_with_their_parent_are_stored_by_themselves(
    machine: Machine, another: Callable[[], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (machine, other := another()):
        each.write(LOG, CONTENT)
    other.read("claude")
    append = machine.store.append

    def refusing(batches: Sequence[RecordBatch], **more: Any) -> list[Written]:
        if any(each.lender is not None for each in batches):
            raise ValueError("not these together")
        return append(batches, **more)

    monkeypatch.setattr(machine.store, "append", refusing)
    assert machine.read("claude").errors == []
    assert lenders(machine.store) == [None]
    assert differences(machine.content(), other.content()) == []


def test_subagents_are_refused_where_their_parent_is(machine: Machine) -> None:
    batches: list[RecordBatch] = []
    machine.write(LOG, CONTENT)

    def noting(given: Sequence[RecordBatch], **_: Any) -> list[Written]:
        batches.extend(given)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(machine.store, "append", noting)
        with pytest.raises(KeyboardInterrupt):
            machine.read("claude")
    assert [each.lender is not None for each in batches] == [False, True, True]
    assert [each.refused for each in machine.store.append(batches[1:])] == [append.STALE] * 2
    assert machine.store.sessions(subagents=True) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("what", ["read", "removed", "rewritten"])
def test_a_disk_that_fails_at_any_step_leaves_either_form_whole(tmp_path: Path, what: str) -> None:
    kept = Machine(tmp_path / "kept")
    kept.write(LOG, CONTENT)
    if what != "read":
        kept.read("claude")
        changed(kept.store_path, "update sessions set relation = null where native_id like '%a58'")
    before = kept.stored()
    session = (
        0 if what == "read" else looked_up(kept.store_path, "select id from sessions where native_id = ?", PARENT)[0][0]
    )
    if what == "rewritten":
        kept.write(LOG, lines(*conversation(1, 90)) + CONTENT)

    def happens() -> None:
        kept.store.remove(session) if what == "removed" else kept.read("claude")

    kept.put_back(before)
    with failing_disk() as disk:
        happens()
        passed = [*disk.passed]
        kept.store.close()
    for step in kinds_of_steps(passed):
        kept.put_back(before)
        with failing_disk() as disk:
            disk.fail(step, apsw.IOError, for_good=True)
            with suppress(errors.BackstoryError, apsw.Error):
                happens()
            has_failed = bool(disk.failed)
            disk.heal()
            kept.store.close()
        if kept.store.exists:
            assert problems(kept.store) == []
        if what != "removed":
            kept.read("claude")
        assert bytes_in(kept.store) == BYTES
        kept.store.close()
        if not has_failed:
            assert step > len(passed)
            return
        assert step < STEPS_MAX, "it never ended"
    pytest.fail("it never ended")


# the form -------------------------------------------------------------------------------------------------------------


def unpacked(pieces: list[bytes | tuple[int, int]], lender: bytes, data: bytes) -> bytes:
    asked: list[tuple[int, int]] = []

    def ask(start: int, stop: int) -> bytes:
        asked.append((start, stop))
        return lender[start:stop]

    found = codec.unpack_copies(
        codec.pack_copies(pieces), len(data), codec.chunk_digest(data), lambda _: codec.logs_codec().dictionary, ask
    )
    assert len(asked) <= 1
    return found


def test_any_pieces_come_back() -> None:
    chance = random.Random(7)
    lender = chance.randbytes(300_000)
    for count in [0, 1, 2, 3, 5, 8, 13]:
        pieces: list[bytes | tuple[int, int]] = []
        data = b""
        for _ in range(count):
            at, size = chance.randrange(200_000), chance.randrange(90_000)
            literal = chance.randbytes(chance.randrange(300))
            pieces += literal, (at, size), b"x"
            data += literal + lender[at : at + size] + b"x"
        assert unpacked(pieces, lender, data) == data
        assert unpacked([data], lender, data) == data


@pytest.mark.parametrize(
    "packed",
    [b"", b"\x05", b"\xff" * 20, b"\x01\x00\x01\x05", b"\x01\x00\x00\xff\xff\xff\xff\xff\x7f", b"\x01\x7f\x00\x05"],
    ids=["nothing", "no copies", "no number", "before the log", "too long", "bytes that are not there"],
)
def test_a_frame_that_no_program_of_ours_made_is_refused(packed: bytes) -> None:
    with pytest.raises(codec.CodecError):
        codec.unpack_copies(
            codec.pack_chunk(packed), 5, codec.chunk_digest(b"12345"), lambda _: codec.logs_codec().dictionary,
            lambda start, stop: b"x" * (stop - start),
        )  # fmt: skip


@pytest.mark.parametrize(
    "packed",
    [b"\x02" + b"\0" * 6, b"\x01\x00" + b"\xff" * 9 + b"\x7f\x20", b"\x01\x00\x00" + b"\xff" * 8 + b"\x7f"],
    ids=["none of its bytes", "behind every file", "more than it has"],
)
def test_copies_that_would_take_for_ever_are_not_asked_for(packed: bytes) -> None:
    def ask(start: int, stop: int) -> bytes:
        raise AssertionError(start, stop)

    with pytest.raises(codec.CodecError, match=codec.NO_COPIES):
        codec.unpack_copies(
            codec.pack_chunk(packed), 64, codec.chunk_digest(b""), lambda _: codec.logs_codec().dictionary, ask
        )


def test_a_chunk_without_a_lender_is_bytes_as_before(family: Machine) -> None:
    log = log_of(family.store, LOG.name)
    ((frame,),) = looked_up(family.store_path, "select data from chunks where log_id = ?", log.id)
    assert (
        codec.unpack_chunk(frame, len(CONTENT), codec.chunk_digest(CONTENT), lambda _: codec.logs_codec().dictionary)
        == CONTENT
    )
    assert family.store.ask(logs.read, log.id, 0, 10) == CONTENT[:10]
