"""Bytes on their way to disk and back: the only module that knows zstandard.

A log's bytes lie in chunks, each one zstd frame with its SHA-256 beside it. An event's compact form is one small frame
made with a dictionary, and so is a small chunk, with another one; a dictionary's bytes lie in the file that uses it.
"""

from __future__ import annotations

import threading
from functools import cache, lru_cache, partial
from io import BytesIO
from operator import add
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import apsw

from backstory.bounds import INTEGER_MAX
from backstory.lazy import lazy_module, lean_module

if TYPE_CHECKING:
    import array
    import hashlib
    from collections.abc import Callable, Iterable, Iterator

    import zstandard
    from zstandard import ZstdError as ZstdError
else:
    # Lists show nothing that is packed, and hash nothing.
    hashlib, zstandard, array = lazy_module("hashlib"), lean_module("zstandard"), lazy_module("array")
    from collections.abc import Iterator


CHUNK_BYTES = 4 * 1024 * 1024
"""The most of a log that is packed into one frame: a record that recurs is then mostly found in it."""
PIECE_BYTES = 1024 * 1024
"""A larger event is packed in pieces of this size."""
FRAME_LEVEL = 3
WINDOW_BYTES_MAX = 8 * 1024 * 1024
"""The most memory that a foreign frame may ask for beyond its bytes."""
UNPACKED_BYTES_MAX = 256 * 1024 * 1024
"""No frame of ours holds more; one that says so is not unpacked. What a run or the API keeps at once is one frame."""
CHUNK_LEVEL = 3
CHUNK_WINDOW_LOG = CHUNK_BYTES.bit_length() - 1
LEVEL_WINDOW_BYTES = 2 * 1024 * 1024
"""The distance that the level looks back by itself; in a larger chunk the window spans all of it."""
SMALL_BYTES = 64 * 1024
"""A chunk of at most so many bytes is packed with a dictionary; in a larger one that would save nothing."""
LEAST_BYTES, LEAST_LEVEL = 4 * 1024, 6
"""A chunk of at most so many bytes is packed harder at once: it is 8 % smaller for a fiftieth of what its log costs."""
PACKED_BYTES = CHUNK_BYTES
"""The size of chunks of logs that have not changed for long, which are packed harder."""
PACKED_LEVEL = 12
EVENT_LEVEL = 3
DICTIONARY_FILE = Path(__file__).with_name("events.zdict")
LOGS_DICTIONARY_FILE = Path(__file__).with_name("logs.zdict")
# Ids from 32768 on are left to private dictionaries by zstd, so ours meet no registered one.
SHIPPED_SHA256 = {
    32769: "69d0ad1e21d9ff5dec2f3ebf08ff99d69a7fa9b933e1cf5b3ff0b9212e4cb696",
    32770: "a073790d886217a2798cab7ca145468467417dd1e4411f1b0c61ec434a4a8880",
}
"""The hashes of the two by their ids: one with an id is never changed, and who reads need not hash it."""
DICTIONARY_BYTES_MAX = 16 * 1024 * 1024
"""No dictionary of ours is larger; one that is stands for damage."""
COPIED_BYTES_LEAST = 32
"""The bytes of the shortest copy: to say where a shorter one is takes as many, and a store might say it for ever."""
NO_COPIES = "its copies are of no log of ours"
LEB128_BITS_MAX = 63
FIRST_COPY_BYTES_MAX = 3 * 10
FRAME_MAGIC = b"\x28\xb5\x2f\xfd"
BLOCK_HEAD_BYTES, CHECKSUM_BYTES, REPEATED = 3, 4, 1
"""Numbers of a zstd frame: the bytes of a block's header, of its checksum, and the kind of a repeated byte."""
CUT_SHORT = "its compressed content ends too early"
DAMAGED = "its compressed content is damaged"
NO_FRAME = "its compressed content goes on with something else"


def __getattr__(name: str) -> Any:
    if name == "ZstdError":
        return zstandard.ZstdError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class CodecError(ValueError):
    """Bytes that do not decompress, or do not match their checksum."""


class FindsDictionaries(Protocol):
    """Finds the dictionaries of a file."""

    def __call__(self, dictionary_id: int) -> bytes:
        """The dictionary with this id; raises CodecError where there is none."""


def chunk_digest(data: bytes) -> bytes:
    """The checksum kept beside a chunk: SHA-256 of the bytes it holds."""
    return hashlib.sha256(data).digest()


def text_digest(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def pack_chunk(data: bytes) -> bytes:
    """A chunk's bytes as one zstd frame; that of a small one needs the dictionary of logs."""
    if len(data) <= SMALL_BYTES:
        return _of_thread.small_compressor(LEAST_LEVEL if len(data) <= LEAST_BYTES else CHUNK_LEVEL).compress(data)
    return _of_thread.chunk_compressor(is_large=len(data) > LEVEL_WINDOW_BYTES).compress(data)


def pack_hard(data: bytes) -> bytes:
    """The same, smaller and slower."""
    if len(data) <= SMALL_BYTES:
        return _of_thread.small_compressor(PACKED_LEVEL).compress(data)
    return zstandard.ZstdCompressor(level=PACKED_LEVEL).compress(data)


def pack_text(data: bytes) -> bytes:
    """Bytes that no checksum is kept of, as one zstd frame that needs no dictionary."""
    return _of_thread.chunk_compressor(is_large=False).compress(data)


def unpack_chunk(frame: bytes, length: int, digest: bytes, find: FindsDictionaries) -> bytes:
    """The bytes of a chunk; raises CodecError when they are not what was stored."""
    data = _unpacked(_decompressor_for(frame, find), frame)
    # The digest is of the bytes and not of the frame, so a log may be packed anew without losing its proof.
    if len(data) != length or chunk_digest(data) != digest:
        raise CodecError("the bytes do not match their checksum")
    return data


def unpack_beginning(frame: bytes, length: int, find: FindsDictionaries) -> bytes:
    """The first ``length`` bytes of a chunk, for looking at: no checksum says that they are what was stored.

    Raises CodecError.
    """
    try:
        with _decompressor_for(frame, find).stream_reader(frame) as reader:
            # What the store says of a length is not believed: so much memory would be asked for at once.
            return reader.read(min(length, UNPACKED_BYTES_MAX))
    except zstandard.ZstdError as refused:
        raise CodecError(str(refused)) from refused


def pack_frame(data: bytes) -> bytes:
    """Bytes that leave the machine, as one zstd frame with its length and a checksum."""
    return zstandard.ZstdCompressor(level=FRAME_LEVEL, write_checksum=True).compress(data)


def unpack_frame(frame: bytes, most: int) -> bytes:
    """The bytes of a foreign frame, at most so many; raises CodecError for more, and for anything else behind it."""
    try:
        length = zstandard.frame_content_size(frame)
        if not 0 <= length <= most:
            raise CodecError(f"it says that it unpacks to {length:,} bytes" if length >= 0 else "it says no length")
        unpacker = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)
        return unpacker.decompress(frame, max_output_size=most, allow_extra_data=False)
    except zstandard.ZstdError as refused:
        raise CodecError(str(refused)) from refused


def pack_against(data: bytes, base: bytes) -> bytes:
    """Bytes as one zstd frame that can be unpacked with ``base`` alone: about what it lacks."""
    return zstandard.ZstdCompressor(level=CHUNK_LEVEL, dict_data=_as_it_is(base)).compress(data)


def unpack_against(frame: bytes, base: bytes) -> bytes:
    """The bytes that ``pack_against`` was given; raises CodecError."""
    try:
        return zstandard.ZstdDecompressor(dict_data=_as_it_is(base)).decompress(frame, UNPACKED_BYTES_MAX)
    except zstandard.ZstdError as refused:
        raise CodecError(str(refused)) from refused


def _as_it_is(base: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def pack_copies(pieces: Iterable[bytes | tuple[int, int]]) -> bytes:
    """Bytes as one zstd frame: those of the pieces that are bytes, and (place, length) of those in another log.

    The frame holds the number of copies, then for each the bytes before it, its place behind the end of the last one
    (zigzag) and its length, all as LEB128, then all bytes.
    """
    numbers, literals, waiting, end = list[int](), list[bytes](), 0, 0
    for piece in pieces:
        if isinstance(piece, bytes):
            literals.append(piece)
            waiting += len(piece)
        else:
            place, length = piece
            numbers += waiting, (place - end) << 1 if place >= end else ((end - place) << 1) - 1, length
            waiting, end = 0, place + length
    return pack_chunk(b"".join((_leb128([len(numbers) // 3, *numbers]), *literals)))


def unpack_copies(
    frame: bytes, length: int, digest: bytes, find: FindsDictionaries, lender: Callable[[int, int], bytes | memoryview]
) -> bytes:
    """The bytes of a chunk of ``pack_copies``; ``lender`` gives the bytes of the other log between two places.

    Raises CodecError when they are not what was stored.
    """
    packed = _unpacked(_decompressor_for(frame, find), frame)
    copies, at = _copies(packed, length)
    low = min(copies[1::3], default=0)
    high = max(map(add, copies[1::3], copies[2::3]), default=0)
    if high - low > UNPACKED_BYTES_MAX:
        raise CodecError(NO_COPIES)
    lent, made = memoryview(lender(low, high) if copies else b""), bytearray()
    for literal, place, size in zip(copies[::3], copies[1::3], copies[2::3], strict=True):
        made += packed[at : at + literal]
        made += lent[place - low : place - low + size]
        at += literal
    made += packed[at:]
    data = bytes(made)
    if len(data) != length or chunk_digest(data) != digest:
        raise CodecError("the bytes do not match their checksum")
    return data


def first_copy(frame: bytes, find: FindsDictionaries) -> int:
    """The place of the first copy of a chunk of ``pack_copies`` in the other log; 0 where it has none."""
    try:
        numbers, _ = _from_leb128(unpack_beginning(frame, FIRST_COPY_BYTES_MAX, find), 0, 3)
    except CodecError:
        # Who unpacks all of it finds out what is wrong.
        return 0
    return numbers[2] >> 1


def _copies(packed: bytes, length: int) -> tuple[array.array[int], int]:
    """The copies of a chunk of this length, three numbers each: the bytes before it, its place, its length.

    And where they end. What a store says is not believed: it might ask for any amount of time and memory.
    """
    (count,), at = _from_leb128(packed, 0, 1)
    copies, end, left = array.array("q"), 0, min(length, UNPACKED_BYTES_MAX)
    for _ in range(count):
        (literal, moved, size), at = _from_leb128(packed, at, 3)
        place = end + (-(moved + 1 >> 1) if moved & 1 else moved >> 1)
        end, left = place + size, left - literal - size
        if size < COPIED_BYTES_LEAST or left < 0 or place < 0 or end > INTEGER_MAX:
            raise CodecError(NO_COPIES)
        copies.extend((literal, place, size))
    return copies, at


def _leb128(numbers: Iterable[int]) -> bytes:
    packed = bytearray()
    for number in numbers:
        while number > 0x7F:
            packed.append(number & 0x7F | 0x80)
            number >>= 7
        packed.append(number)
    return bytes(packed)


def _from_leb128(packed: bytes, at: int, count: int) -> tuple[list[int], int]:
    """Numbers from a place on, as many as are wanted, and where they end; raises CodecError."""
    numbers = list[int]()
    while len(numbers) < count:
        number = shift = 0
        while True:
            if at >= len(packed) or shift > LEB128_BITS_MAX:
                raise CodecError("its copies are cut short")
            byte = packed[at]
            number |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                break
        numbers.append(number)
    return numbers, at


def unpack_text(frame: bytes) -> bytes:
    """Unpack a text of ``pack_text``; raises CodecError."""
    return _unpacked(_of_thread.decompressor(b""), frame)


def _unpacked(decompressor: zstandard.ZstdDecompressor, frame: bytes) -> bytes:
    """The content of a frame of ours: it says how long that is, which no store is believed beyond a bound."""
    try:
        if zstandard.frame_content_size(frame) > UNPACKED_BYTES_MAX:
            raise CodecError(f"it says that it unpacks to more than {UNPACKED_BYTES_MAX} bytes")
        return decompressor.decompress(frame)
    except zstandard.ZstdError as refused:
        raise CodecError(str(refused)) from refused


def decompressed(file: IO[bytes]) -> Iterator[bytes]:
    """The content of a ``.zst`` file, in pieces; frames that follow one another are one content.

    A block at a time, so that a piece is small whatever it was packed into. Raises ZstdError where the content ends
    too early or something else follows; what came before has been given.
    """
    # Compressors that append to a file write a frame each time.
    while magic := file.read(len(FRAME_MAGIC)):
        if magic == FRAME_MAGIC:
            try:
                yield from _frame(file)
            except zstandard.ZstdError as refused:
                raise zstandard.ZstdError(CUT_SHORT if CUT_SHORT in str(refused) else DAMAGED) from refused
        elif _is_skippable(magic):
            _exactly(file, int.from_bytes(_exactly(file, 4), "little"))
        else:
            raise zstandard.ZstdError(NO_FRAME)


def _frame(file: IO[bytes]) -> Iterator[bytes]:
    """The content of the frame whose first bytes have been read."""
    frame = zstandard.ZstdDecompressor().decompressobj()
    # The byte behind the magic says how long the rest of the header is.
    begun = FRAME_MAGIC + _exactly(file, 1)
    yield frame.decompress(begun + _exactly(file, zstandard.frame_header_size(begun) - len(begun)))
    is_last = False
    while not is_last:
        head = _exactly(file, BLOCK_HEAD_BYTES)
        number = int.from_bytes(head, "little")
        is_last, kind, length = bool(number & 1), number >> 1 & 3, number >> 3
        # A block of one byte over and over says how often; what is kept of it is that byte.
        yield frame.decompress(head + _exactly(file, 1 if kind == REPEATED else length))
    # A checksum is optional, and only the frame's own header says whether four bytes more belong to it.
    if not frame.eof:
        yield frame.decompress(_exactly(file, CHECKSUM_BYTES))


def _is_skippable(magic: bytes) -> bool:
    return magic[0] >> 4 == 5 and magic[1:] == b"\x2a\x4d\x18"


def _exactly(file: IO[bytes], length: int) -> bytes:
    data = file.read(length)
    if len(data) < length:
        raise zstandard.ZstdError(CUT_SHORT)
    return data


class EventCodec:
    """Packs and unpacks compact events with one dictionary."""

    def __init__(self, dictionary: bytes) -> None:
        self.dictionary = dictionary
        self.id = zstandard.ZstdCompressionDict(dictionary).dict_id()

    def pack(self, data: bytes) -> bytes:
        """One event as a small zstd frame."""
        if len(data) > PIECE_BYTES:
            return self._packed_by_pieces(data)
        return _of_thread.event_compressor(self.dictionary).compress(data)

    def _packed_by_pieces(self, data: bytes) -> bytes:
        """The same of a large one: at once it would take as much memory again as it has bytes."""
        packing = _of_thread.event_compressor(self.dictionary).compressobj(size=len(data))
        pieces = (data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES))
        packed = [packing.compress(piece) for piece in pieces]
        return b"".join((*packed, packing.flush()))

    def unpack(self, frame: bytes | str) -> bytes:
        """The JSON of one event; also of a row written by hand as plain JSON."""
        # Events may be inserted with any SQLite client, as text.
        if isinstance(frame, str):
            return frame.encode()
        # JSON begins with a brace, so the first bytes tell the two apart.
        if not frame.startswith(FRAME_MAGIC):
            return frame
        return _unpacked(self._decompressor, frame)

    @property
    def _decompressor(self) -> zstandard.ZstdDecompressor:
        return _of_thread.decompressor(self.dictionary)


@cache
def shipped_codec() -> EventCodec:
    """The codec with the dictionary for events that comes with the package; new stores get a copy of it."""
    return EventCodec(DICTIONARY_FILE.read_bytes())


@cache
def logs_codec() -> EventCodec:
    """The one with the dictionary for small chunks."""
    return EventCodec(LOGS_DICTIONARY_FILE.read_bytes())


def shipped() -> dict[int, EventCodec]:
    """Return the codecs that come with the package, by the ids of their dictionaries."""
    return {each.id: each for each in (shipped_codec(), logs_codec())}


def dictionary_id(data: bytes) -> int:
    """The id that a dictionary gives itself; 0 where it is none."""
    try:
        return zstandard.ZstdCompressionDict(data).dict_id()
    except zstandard.ZstdError:
        return 0


def frame_dictionary(frame: bytes) -> int:
    """The id of the dictionary a frame was made with; 0 when it needs none. Raises CodecError."""
    try:
        return zstandard.get_frame_parameters(frame).dict_id
    except zstandard.ZstdError as refused:
        raise CodecError(str(refused)) from refused


def unpack_foreign(frame: bytes) -> bytes:
    """The content of a frame that another program made: without a dictionary, perhaps without its length."""
    unpacked, length = list[bytes](), 0
    try:
        for piece in decompressed(BytesIO(frame)):
            unpacked.append(piece)
            length += len(piece)
            if length > UNPACKED_BYTES_MAX:
                raise CodecError(f"it unpacks to more than {UNPACKED_BYTES_MAX} bytes")
    except zstandard.ZstdError as refused:
        raise CodecError(str(refused)) from refused
    return b"".join(unpacked)


def _chunk_compressor(*, is_large: bool) -> zstandard.ZstdCompressor:
    if not is_large:
        # It fits its tables to what it is given; with parameters of ours it does not, and a small chunk costs more.
        return zstandard.ZstdCompressor(level=CHUNK_LEVEL)
    parameters = zstandard.ZstdCompressionParameters.from_level(CHUNK_LEVEL, window_log=CHUNK_WINDOW_LOG)
    return zstandard.ZstdCompressor(compression_params=parameters)


def _small_compressor(level: int) -> zstandard.ZstdCompressor:
    dictionary = zstandard.ZstdCompressionDict(logs_codec().dictionary)
    dictionary.precompute_compress(level=level)
    return zstandard.ZstdCompressor(level=level, dict_data=dictionary)


def _event_compressor(dictionary: bytes) -> zstandard.ZstdCompressor:
    known = zstandard.ZstdCompressionDict(dictionary)
    # Without precomputing, a dictionary halves the speed.
    known.precompute_compress(level=EVENT_LEVEL)
    return zstandard.ZstdCompressor(level=EVENT_LEVEL, dict_data=known, write_checksum=False)


def _decompressor_for(frame: bytes, find: FindsDictionaries) -> zstandard.ZstdDecompressor:
    """Return the decompressor of a frame: with the dictionary that it names, if it names one."""
    wanted = frame_dictionary(frame)
    return _of_thread.decompressor(find(wanted) if wanted else b"")


class _OfThread(threading.local):
    """Compressors and decompressors of a thread: each works on one frame at a time, and lets others run meanwhile."""

    def __init__(self) -> None:
        self.decompressor = lru_cache(maxsize=4)(_decompressor)
        self.event_compressor = lru_cache(maxsize=4)(_event_compressor)
        self.small_compressor, self.chunk_compressor = cache(_small_compressor), cache(_chunk_compressor)


def _decompressor(dictionary: bytes) -> zstandard.ZstdDecompressor:
    try:
        return zstandard.ZstdDecompressor(dict_data=zstandard.ZstdCompressionDict(dictionary) if dictionary else None)
    except zstandard.ZstdError as refused:
        raise CodecError(f"a dictionary of this file is damaged: {refused}") from refused


_of_thread = _OfThread()


# dictionaries that lie in a store -------------------------------------------------------------------------------------


def keep_shipped(db: apsw.Connection) -> None:
    """Put those dictionaries that come with the package into a file, as far as they are not in it."""
    db.executemany(
        "insert or ignore into dictionaries(id, sha256, data) values (?, ?, ?)",
        [(each.id, SHIPPED_SHA256[each.id], each.dictionary) for each in shipped().values()],
    )


def dictionaries_of(db: apsw.Connection) -> FindsDictionaries:
    """Return the finder of this file's dictionaries."""
    return partial(_find, db)


def _find(db: apsw.Connection, dictionary_id: int) -> bytes:
    ours = shipped().get(dictionary_id)
    try:
        kept = db.execute("select sha256 from dictionaries where id = ?", (dictionary_id,)).get
        # The store's own 64 KB are not even read: the package has the same bytes.
        if ours is not None and (kept is None or kept == SHIPPED_SHA256[dictionary_id]):
            return ours.dictionary
        data = db.execute(
            "select data from dictionaries where id = ? and length(data) <= ?",
            (dictionary_id, DICTIONARY_BYTES_MAX),
        ).get
    except apsw.CorruptError:
        # The damage is elsewhere than in what is to be unpacked: what is in no other place need not be lost for it.
        if ours is None:
            raise
        return ours.dictionary
    if not isinstance(data, bytes):
        raise CodecError(f"dictionary {dictionary_id} is not in this file")
    return data


def unpack_event(db: apsw.Connection, codecs: dict[int, EventCodec], data: bytes | str) -> bytes:
    """An event's JSON, with the dictionary that this file keeps for it; ``codecs`` remembers those met."""
    if isinstance(data, str) or not data.startswith(FRAME_MAGIC):
        return data.encode() if isinstance(data, str) else data
    wanted = frame_dictionary(data)
    # Another program may have packed an event, with any parameters.
    if not wanted:
        return unpack_foreign(data)
    if wanted not in codecs:
        codecs[wanted] = EventCodec(dictionaries_of(db)(wanted))
    return codecs[wanted].unpack(data)


def dictionary_problems(db: apsw.Connection) -> Iterator[str]:
    """Yield problems of a file's dictionaries."""
    rows = db.execute(
        "select id, sha256, iif(length(data) <= ?, data, null) from dictionaries", (DICTIONARY_BYTES_MAX,)
    ).fetchall()
    for number, sha256, data in rows:
        if not isinstance(data, bytes):
            yield f"dictionary {number} is none"
        elif text_digest(data) != sha256 or dictionary_id(data) != number:
            yield f"dictionary {number}: its bytes are not what was stored"
    for missing in shipped().keys() - {row[0] for row in rows}:
        yield f"dictionary {missing} is not in this file"
