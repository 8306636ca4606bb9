"""What a frame says of itself is not believed: no store makes us unpack more than a bound."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import zstandard

from backstory import errors
from backstory.store import codec, open_store
from tests.support.clock import NOW
from tests.support.every import every
from tests.support.machines import Machine, claude_log, conversation, lines, looked_up
from tests.support.memory import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BOMB_BYTES = 3 * 1024 * 1024 * 1024
PEAK_KIB_MAX = 300 * 1024


def bomb(length: int) -> bytes:
    """A small frame that says, truly, that it holds so much."""
    packing = zstandard.ZstdCompressor().compressobj(size=length)
    piece = bytes(1 << 24)
    return b"".join([packing.compress(piece) for _ in range(length >> 24)]) + packing.flush()


def unpacked(data: bytes) -> tuple[bytes, str | None]:
    """What can be read of compressed content, and why that is not all."""
    found = list[bytes]()
    try:
        found += codec.decompressed(io.BytesIO(data))
    except codec.ZstdError as refused:
        return b"".join(found), str(refused)
    return b"".join(found), None


@pytest.mark.slow
@pytest.mark.parametrize("column", ["data", "length"])
def test_a_chunk_that_says_it_is_huge_is_damage(tmp_path: Path, column: str) -> None:
    machine = Machine(tmp_path)
    machine.write(claude_log("log"), lines(*conversation(2)))
    machine.read()
    (log,) = machine.store.logs()
    values = {"data": bomb(BOMB_BYTES), "length": BOMB_BYTES}
    looked_up(machine.store_path, f"update chunks set {column} = ?", values[column])
    with pytest.raises(errors.StoreDamaged):
        machine.store.read_log(log.id, 0, 100)
    with pytest.raises(errors.StoreDamaged):
        list(machine.store.stream_log(log.id))
    machine.close()


@pytest.mark.slow
def test_an_event_that_says_it_is_huge_is_damage(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write(claude_log("log"), lines(*conversation(2)))
    machine.read()
    looked_up(machine.store_path, "update events set data = ?", bomb(BOMB_BYTES))
    with open_store(machine.store_path, now=lambda: NOW) as store, pytest.raises(errors.StoreDamaged):
        store.events(store.session("log"))
    machine.close()


@pytest.mark.slow
def test_foreign_content_beyond_the_bound_is_refused() -> None:
    with pytest.raises(codec.CodecError):
        codec.unpack_foreign(bomb(BOMB_BYTES))


@every("seed", range(40))
def test_compressed_content_is_read_to_where_it_is_damaged(seed: int) -> None:
    dice = random.Random(seed)
    said = (dice.randbytes(dice.randint(0, 200_000)), b"over and over " * dice.randint(0, 50_000))[seed % 2]
    packing = zstandard.ZstdCompressor(
        level=dice.choice((1, 3, 19)), write_checksum=bool(seed & 2), write_content_size=bool(seed & 4)
    )
    frame = packing.compress(said)
    skippable = b"\x50\x2a\x4d\x18\x05\x00\x00\x00hello"
    assert unpacked(frame + skippable + frame) == (said + said, None)
    assert unpacked(frame + b"more") == (said, codec.NO_FRAME)
    begun, why = unpacked(frame[: dice.randrange(1, len(frame))])
    assert said.startswith(begun)
    assert why in (codec.CUT_SHORT, codec.NO_FRAME)


@pytest.mark.slow
def test_a_compressed_log_that_is_huge_is_read_in_little_memory(tmp_path: Path) -> None:
    """It goes to the disk when it is more than a few megabytes."""
    path = tmp_path / "log.jsonl.zst"
    path.write_bytes(bomb(1 << 30))
    reading = (
        f"{PROGRAM}import pathlib, sys\nfrom backstory.ingest.log_reader import opened\n"
        "print(sum(len(block) for block in iter(lambda f=opened(pathlib.Path(sys.argv[1])): f.read(1 << 20), b'')))\n"
        "print(peak_kib())"
    )
    done = subprocess.run([sys.executable, "-c", reading, str(path)], capture_output=True, check=True, text=True)
    length, peak = map(int, done.stdout.split())
    assert length == 1 << 30
    assert peak < PEAK_KIB_MAX


def test_the_smallest_chunks_are_packed_harder_than_others() -> None:
    log = lines(*conversation(2))
    level_3 = codec._small_compressor(codec.CHUNK_LEVEL).compress(log)
    assert len(log) <= codec.LEAST_BYTES
    assert len(codec.pack_chunk(log)) < len(level_3)


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "events": lambda data: codec.shipped_codec().unpack(codec.shipped_codec().pack(data)),
    "small chunks": lambda data: packed_and_back(data[:5_000]) + data[5_000:],
    "chunks": lambda data: packed_and_back(data * 4)[: len(data)],
}


def packed_and_back(data: bytes) -> bytes:
    def find(dictionary_id: int) -> bytes:
        return codec.shipped()[dictionary_id].dictionary

    return codec.unpack_chunk(codec.pack_chunk(data), len(data), codec.chunk_digest(data), find)


@every("packing", PACKINGS)
def test_threads_that_pack_at_once_pack_what_they_were_given(packing: str) -> None:
    def pack(seed: int) -> list[bytes]:
        data = random.Random(seed).randbytes(10_000) + bytes(10_000)
        return [each for each in (PACKINGS[packing](data) for _ in range(200)) if each != data]

    with ThreadPoolExecutor(4) as threads:
        assert [wrong for found in threads.map(pack, range(4)) for wrong in found] == []
