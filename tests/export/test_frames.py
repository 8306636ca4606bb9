"""A session in frames: any cut joined is the whole, and what does not belong there is told apart by name."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from backstory.derive.secrets import Redactor
from backstory.exchange import frames
from backstory.exchange.frames import (
    START,
    FrameDamaged,
    FramePoint,
    FrameTooNew,
    FrameVerdict,
    head_of,
    joined,
    read,
    verdict,
)
from backstory.exchange.imported import Staging
from backstory.export.exporting import everything
from backstory.export.portable import ExportedBytes, JsonExport
from backstory.ingest.json_import import JsonImport
from backstory.model import AssistantText, ToolCall, UserMessage
from backstory.store import open_store
from tests import set_frames
from tests.support.clock import NOW
from tests.support.every import every

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from backstory.store import Store

UID = "01M3250V00CJ5X1JHP0Z69AWSQ"
DOCS = Path(__file__).parent.parent.parent / "docs" / "json-format.md"
ROUNDS = st.lists(st.lists(st.integers(0, 400), max_size=7), min_size=1, max_size=5)
"""The sizes of the events that come in each round."""


def line(of: str, **fields: object) -> bytes:
    return json.dumps({"type": of, **fields}).encode() + b"\n"


def session(named: str = "") -> bytes:
    return line("session", uid=UID, created="2026-09-21T14:13:20.123Z", next_seq=9, name=named)


def event(seq: int, size: int = 0, part: int = 0) -> bytes:
    return line("event", seq=seq, part=part, event={"AssistantText": {"text": "a" * size}})


def turn(number: int, last: int) -> bytes:
    uid = f"01M3250V00CJ5X1JHP0Z69AW{number:02}"
    return line("turn", uid=uid, first_seq=number, last_seq=last, agent="claude")


def whole(events: list[bytes], named: str = "") -> list[bytes]:
    end = b'{"type":"session_end","uid":"%s","turns":1%s}\n'
    count = b',"events":%d' % len(events) if events else b""
    return [session(named), turn(1, len(events)), *events, line("branch", name="b", leaf_turn="x", created="2026-09-21T14:13:20Z"), end % (UID.encode(), count)]  # noqa: E501  # fmt: skip


def cut(events: list[bytes], at: list[int]) -> list[bytes]:
    """The frames of a session that was exported each time that it had so many events."""
    made, after, prev, before = list[bytes](), START, "", 0
    for count in at:
        lines = whole(events[:count])
        made += frames.frames([*lines[:2], *lines[2 + before :]], session=UID, after=after, prev=prev)
        head, before = head_of(made[-1]), count
        after, prev = head.upto, head.chain
    return made


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "EVENTS_MAX", 3)
    monkeypatch.setattr(frames, "FRAME_BYTES", 600)


@pytest.mark.hypothesis
@pytest.mark.usefixtures("small")
@given(ROUNDS)
def test_any_cut_joined_is_the_whole(rounds: list[list[int]]) -> None:
    sizes = [size for each in rounds for size in each]
    events = [event(seq, size) for seq, size in enumerate(sizes, 1)]
    at = [sum(map(len, rounds[: n + 1])) for n in range(len(rounds))]
    found = [read(each) for each in cut(events, at)]
    assert list(joined(found)) == whole(events)
    for n, each in enumerate(found):
        heads = [other.head for other in found[:n]]
        assert verdict(each.head, heads) == FrameVerdict.NEXT
        assert all(verdict(head, heads) == FrameVerdict.HAD for head in heads)
        assert each.head.events <= 3
        assert len(b"".join(each.lines)) <= 600 or len(each.lines) == 1


def test_a_frame_holds_500_events_or_a_megabyte_or_one_line() -> None:
    made = list(frames.frames(map(event, range(1, 1_202)), session=UID))
    assert [head_of(each).events for each in made] == [500, 500, 201]
    long = [event(1, 10), event(2, 600_000), event(3, 600_000), event(4, 5_000_000), event(5, 10)]
    made = list(frames.frames(long, session=UID))
    assert [head_of(each).events for each in made] == [2, 1, 1, 1]
    assert [read(each).lines for each in made] == [long[:2], long[2:3], long[3:4], long[4:]]


@pytest.mark.usefixtures("small")
def test_frames_that_do_not_follow_are_told_apart_by_name() -> None:
    events = [event(seq) for seq in range(1, 13)]
    mine, other = cut(events, [6, 12]), cut([*events[:7], event(8, 5), *events[8:]], [7, 12])
    heads = [head_of(each) for each in mine]
    assert verdict(heads[1], heads[:1]) == FrameVerdict.NEXT
    assert verdict(heads[2], heads[:1]) == FrameVerdict.GAP
    contradiction = msgspec.structs.replace(heads[2], prev=heads[0].chain)
    assert verdict(contradiction, heads[:1]) == FrameVerdict.OTHER
    assert verdict(heads[1], []) == FrameVerdict.GAP
    assert verdict(heads[0], heads) == FrameVerdict.HAD
    fork = next(each for each in map(head_of, other) if each.chain not in {mine.chain for mine in heads})
    assert verdict(fork, heads) == FrameVerdict.OTHER
    again = [msgspec.structs.replace(each, epoch=2) for each in heads]
    assert verdict(again[0], heads) == FrameVerdict.NEXT
    assert verdict(again[1], heads) == FrameVerdict.GAP
    assert verdict(heads[1], again[:1]) == FrameVerdict.OLD
    elsewhere = msgspec.structs.replace(again[0], session=f"00{UID[2:]}")
    assert verdict(elsewhere, heads) == FrameVerdict.OTHER


@pytest.mark.usefixtures("small")
def test_a_frame_without_events_that_comes_too_early_is_no_other_history() -> None:
    lines = [session(), *[line("branch", name="b" * 300, leaf_turn="x", created="2026-09-21T14:13:20Z")] * 6]
    heads = [head_of(each) for each in frames.frames(lines, session=UID)]
    assert {each.events for each in heads} == {0}
    assert [verdict(each, heads[:1]) for each in heads[:4]] == ["had", "next", "gap", "gap"]
    (fork,) = map(head_of, frames.frames([session("other")], session=UID, prev=heads[0].chain))
    assert verdict(fork, heads[:1]) == FrameVerdict.NEXT
    assert verdict(fork, heads[:2]) == FrameVerdict.OTHER


def test_a_frame_of_a_later_format_is_not_called_damaged() -> None:
    later = b'{"format":2,"session":{"new":1}}\n'
    with pytest.raises(FrameTooNew, match="format 2"):
        head_of(later)
    for wrong in (b"0", b"1.0", b"true", b'"2"', b"-1", b"[]", b"9" * 30):
        with pytest.raises(FrameDamaged) as raised:
            head_of(later.replace(b"2", wrong))
        assert raised.type is FrameDamaged


def test_a_field_that_a_later_version_adds_is_passed_over_and_kept() -> None:
    added = ONE.replace(b'"type": "event"', b'"type": "event", "later": [1]')
    frame = read(framed(added, later={"a": 1}))
    assert frame.head == read(framed(added)).head
    assert b"".join(frame.lines) == added


NEXT = next(frames.frames([event(3, 50), event(4, 9)], session=UID, after=FramePoint(2, 0), prev="1" * 64))
CHANGED = {
    "format": 2, "session": UID[:-1] + "0", "epoch": 2, "after": [1, 0], "upto": [5, 0], "events": 1, "bytes": True,
    "redacted": True, "prev": "0" * 64, "chain": "0" * 64, "size": 1,
}  # fmt: skip


@every("field", CHANGED)
def test_a_head_that_was_changed_is_noticed(field: str) -> None:
    head, packed = NEXT.split(b"\n", 1)
    said = json.loads(head)
    assert said.keys() == CHANGED.keys()
    assert said[field] != CHANGED[field]
    # Where the lines would fit as well, only the chain tells it.
    only = None if field in ("format", "upto", "events", "size") else "chain"
    assert read(NEXT).head.prev == "1" * 64
    with pytest.raises(FrameDamaged, match=only):
        read(json.dumps(said | {field: CHANGED[field]}).encode() + b"\n" + packed)


def test_a_frame_that_is_cut_anywhere_is_damaged() -> None:
    for at in range(len(FRAME)):
        with pytest.raises(FrameDamaged):
            read(FRAME[:at])


def test_a_session_that_was_removed_is_a_frame_of_its_own() -> None:
    (made,) = frames.frames([REMOVED], session=UID, epoch=4)
    removed = read(made)
    assert list(joined([removed])) == [REMOVED]
    (more,) = frames.frames([session()], session=UID, epoch=4, prev=removed.head.chain)
    with pytest.raises(FrameDamaged, match="removed"):
        list(joined([removed, read(more)]))
    held = [read(FRAME).head]
    assert verdict(removed.head, held) == FrameVerdict.NEXT
    assert verdict(held[0], [removed.head]) == FrameVerdict.OLD


@pytest.mark.usefixtures("small")
def test_what_is_missing_or_doubled_is_not_joined() -> None:
    found = [read(each) for each in cut([event(seq) for seq in range(1, 13)], [6, 12])]
    assert list(joined(found))
    anew = [read(each) for each in frames.frames(whole([event(1)]), session=UID, epoch=2)]
    several = [*found[:2], *found[3:]], [found[0], *found], found[::-1], [*found, *anew]
    for wrong in ([], found[1:], found[:-1], *several):
        with pytest.raises(FrameDamaged):
            list(joined(wrong))


FRAME = next(frames.frames([session(), event(3, 50), event(4, 9)], session=UID))
HEAD, PACKED = FRAME.split(b"\n", 1)


@pytest.mark.hypothesis
@given(st.integers(0, len(PACKED) - 1), st.integers(1, 255))
def test_a_damaged_byte_is_noticed(at: int, change: int) -> None:
    damaged = bytearray(PACKED)
    damaged[at] ^= change
    with pytest.raises(FrameDamaged):
        read(HEAD + b"\n" + bytes(damaged))


@pytest.mark.hypothesis
@given(st.binary(max_size=200) | st.integers(0, len(FRAME) - 1).map(lambda cut: FRAME[:cut]))
def test_bytes_that_are_no_frame_are_refused_and_nothing_else_happens(data: bytes) -> None:
    with pytest.raises(FrameDamaged):
        read(data)


def framed(payload: bytes, packed: bytes | None = None, **other: Any) -> bytes:
    """A frame of hostile content, with a head that fits otherwise; its chain is made as the page says."""
    packed = zstandard.ZstdCompressor(level=3).compress(payload) if packed is None else packed
    said: dict[str, Any] = {
        "format": 1, "session": UID, "epoch": 1, "after": [0, -1], "upto": [3, 0], "events": 1, "bytes": False,
        "redacted": False, "prev": "", "size": len(packed),
    }  # fmt: skip
    said |= other
    text = "{format} {session} {epoch} {after[0]} {after[1]} {upto[0]} {upto[1]} {events} {0} {1} {2}\n"
    flags = int(said["bytes"]), int(said["redacted"])
    chained = text.format(*flags, said["prev"] or "-", **said).encode() + payload
    return json.dumps({"chain": hashlib.sha256(chained).hexdigest()} | said).encode() + b"\n" + packed


def streamed(payload: bytes, **parameters: int) -> bytes:
    """A zstd frame that does not say its length."""
    made = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters.from_level(3, write_content_size=False, **parameters)
    ).compressobj()
    return made.compress(payload) + made.flush()


ONE = session() + event(3)
REMOVED = line("removed", uid=UID, at="2026-09-21T14:13:20Z")
TWICE = zstandard.ZstdCompressor().compress(b"\n" * 10) * 2
HOSTILE = {
    "a bomb": lambda: framed(b"\0" * 40_000_000),
    "no length": lambda: framed(ONE, streamed(ONE)),
    "two zstd frames": lambda: framed(b"\n" * 10, TWICE),
    "bytes behind it": lambda: framed(ONE) + b"x",
    "depth": lambda: framed(line("event", seq=3, event={}).replace(b"{}}", b"[" * 100_000 + b"]" * 100_000 + b"}")),
    "very many lists": lambda: framed(line("event", seq=3, event={}).replace(b"{}}", b"[" + b"[]," * 2_100_000 + b"[]]}")),  # noqa: E501
    "bytes of a log": lambda: framed(line("bytes", log=1, start=0, sha256="0" * 64, data="") + event(3)),
    "numbers of a log": lambda: framed(line("numbers", log=1, ranges=[]) + event(3)),
    "a file beside a log": lambda: framed(
        line("sidecar", log=1, name="x", mtime_ns=1, sha256="0" * 64, data="") + event(3)
    ),
    "an event in a log": lambda: framed(event(3).replace(b'"part": 0', b'"log": 1')),
    "an event with a part below 0": lambda: framed(event(3, part=-2) + event(3), events=2),
    "a blank line": lambda: framed(b"\n" + ONE),
    "lines that end with CR": lambda: framed(ONE.replace(b"}\n", b"}\r", 1)),
    "a removal and more": lambda: framed(line("removed", uid=UID, at="2026-09-21T14:13:20Z") + ONE),
    "another session that was removed": lambda: framed(
        line("removed", uid=UID[:-1] + "0", at="2026-09-21T14:13:20Z"), events=0, upto=[0, -1]
    ),
    "a removal that follows something": lambda: framed(REMOVED, events=0, upto=[0, -1], prev="0" * 64),
    "the head of a file": lambda: framed(
        line("backstory", format=1, made_by="x", exported="2026-09-21T14:13:20Z", bytes=False, redacted=False) + ONE
    ),
    "a first frame in the middle": lambda: framed(ONE, after=[2, 0]),
    "no line's end": lambda: framed(ONE[:-1]),
    "another session": lambda: framed(ONE.replace(UID[:20].encode(), b"01M3250V00CJ5X1JHP0A")),
    "no UTF-8": lambda: framed(event(3, 2).replace(b"aa", b"\xff\xff")),
    "events not in order": lambda: framed(event(3) + event(2), events=2, upto=[2, 0]),
    "fewer events": lambda: framed(ONE, events=2),
    "events elsewhere": lambda: framed(ONE, upto=[4, 0]),
    "backwards": lambda: framed(ONE, after=[5, 0]),
    "no events": lambda: framed(session(), events=0),
    "a session in the middle": lambda: framed(event(3) + session()),
    "an end in the middle": lambda: framed(line("session_end", uid=UID) + event(3)),
    "masked bytes": lambda: framed(ONE, bytes=True, redacted=True),
    "no format": lambda: framed(ONE, format=None),
    "nothing behind the head": lambda: framed(b"", b"", events=0, upto=[0, -1]),
    "more than a line may have, packed": lambda: framed(ONE, b"\x28\xb5\x2f\xfd" + bytes(33_685_501)),
    "a long head": lambda: framed(ONE, more="x" * 5_000),
    "a deep head": lambda: framed(ONE).replace(b'"epoch": 1', b'"epoch": ' + b"[" * 3_000 + b"]" * 900),
    "numbers that are too large": lambda: framed(ONE, upto=[2**60, 0]),
    "no chain": lambda: framed(ONE, prev="zz"),
    "another chain": lambda: framed(ONE, chain="0" * 64),
    "much memory": lambda: framed(ONE, zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters(window_log=27)).compressobj(size=2**25).compress(b"a" * 2**25)),  # noqa: E501
    "many lines": lambda: framed(event(3) * 1 + session() * 12_000),
}  # fmt: skip


@every("what", HOSTILE)
def test_hostile_frames_are_refused(what: str) -> None:
    assert read(framed(ONE)).lines == [session(), event(3)]
    made: Callable[[], bytes] = HOSTILE[what]
    with pytest.raises(FrameDamaged):
        read(made())


def test_the_bytes_of_many_logs_in_one_frame_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    many = range(1, 301)
    logs = [line("log", log=n, agent="a", kind="file", native_id="", length=0) for n in many]
    pieces = [line("bytes", log=n, start=0, sha256="0" * 64, data="") for n in many]
    files = [line("sidecar", log=n, name="x", mtime_ns=1, sha256="0" * 64, data="") for n in many]
    end = line("session_end", uid=UID)
    (made,) = frames.frames([session(), *logs, *pieces, *files, end], session=UID, has_bytes=True)
    found, parsed, real = [read(made)], list[bytes](), frames._Content.take

    def counted(content: Any, text: bytes, *where: Any) -> None:
        parsed.append(text)
        real(content, text, *where)

    monkeypatch.setattr(frames._Content, "take", counted)
    whole = list(joined(found))
    assert [json.loads(each)["type"] for each in whole[1:7]] == ["log", "bytes", "sidecar"] * 2
    assert len(whole) == len(parsed) == 902


def test_files_beside_a_log_are_those_that_came_last_in_their_order() -> None:
    log = line("log", log=1, agent="a", kind="file", native_id="", length=0)
    b, a = (line("sidecar", log=1, name=each, mtime_ns=1, sha256="0" * 64, data="") for each in "ba")
    end = line("session_end", uid=UID)
    made, prev = list[frames.Frame](), ""
    for files, whole in ([b], [b]), ([a, b], [a, b]), ([], [a, b]), ([a], [a]):
        lines = [session(), log, *files, end]
        made += map(read, frames.frames(lines, session=UID, prev=prev, has_bytes=True))
        prev = made[-1].head.chain
        assert list(joined(made))[2:-1] == whole


def test_a_log_that_is_named_twice_does_not_multiply_its_bytes() -> None:
    log = line("log", log=1, agent="a", kind="file", native_id="", length=0)
    piece = line("bytes", log=1, start=0, sha256="0" * 64, data="")
    end = line("session_end", uid=UID)
    (made,) = frames.frames([session(), log, piece, log, end], session=UID, has_bytes=True)
    with pytest.raises(FrameDamaged, match="numbered"):
        list(joined([read(made)]))


def test_frames_that_follow_are_told_so_without_a_look_at_all_before_them() -> None:
    held = [read(FRAME).head] * 3
    (following,) = frames.frames([event(5)], session=UID, after=held[0].upto, prev=held[0].chain)

    class OnlyLast(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            raise AssertionError

    assert verdict(head_of(following), OnlyLast(held)) == FrameVerdict.NEXT


# of a store ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "one.bks", now=lambda: NOW) as store:
        yield store


def lines_of(
    store: Store,
    after: dict[str, tuple[int, int]] | None = None,
    redactor: Redactor | None = None,
    kept: dict[str, ExportedBytes] | None = None,
    *,
    has_bytes: bool = False,
) -> list[bytes]:
    """The lines of the only session of a store."""
    export = JsonExport(has_bytes=has_bytes, now=NOW, redactor=redactor, piece_bytes=40)
    return list(export.lines(everything([store]), removed=False, after=after, kept=kept))[1:-1]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.usefixtures("small")
def test_a_session_that_grows_is_exported_from_where_it_was(store: Store, masked: bool) -> None:
    def redactor() -> Redactor | None:
        return Redactor(key=lambda: b"k" * 32) if masked else None

    running = store.create_session("of a while")
    made, after, prev = list[bytes](), START, ""
    for count in (1, 5, 1, 3):
        before = store.events(running)
        store.append_events(running, [UserMessage(content="go"), *[AssistantText(text=f"{len(before)}")] * count])
        lines = lines_of(store, {running.uid: after}, redactor())
        said = [json.loads(each) for each in lines]
        assert [each["seq"] for each in said if each["type"] == "event"] == [
            each.seq for each in store.events(running)[len(before) :]
        ]
        made += frames.frames(lines, session=running.uid, after=after, prev=prev)
        after, prev = head_of(made[-1]).upto, head_of(made[-1]).chain
    assert list(joined([read(each) for each in made])) == lines_of(store, redactor=redactor())


def without_cuts(lines: Iterable[bytes]) -> tuple[list[bytes], dict[int, bytes]]:
    """Lines, and the bytes of each log, which may be cut anywhere."""
    rest, found = list[bytes](), dict[int, bytes]()
    for each in lines:
        said = json.loads(each)
        if said["type"] == "bytes":
            data = base64.b64decode(said["data"])
            assert said["sha256"] == hashlib.sha256(data).hexdigest()
            assert said["start"] == len(found.get(said["log"], b""))
            found[said["log"]] = found.get(said["log"], b"") + data
        else:
            rest.append(each)
    return rest, found


@pytest.mark.usefixtures("small")
def test_of_a_log_that_grows_only_the_new_bytes_are_exported(store: Store) -> None:
    running = store.create_session("of a while")
    made, after, prev, sent = list[bytes](), START, "", 0
    kept = dict[str, ExportedBytes]()
    for count in (1, 5, 0, 3):
        store.append_events(running, [UserMessage(content="go"), *[AssistantText(text="ä" * 20)] * count])
        lines = lines_of(store, {running.uid: after} if made else None, kept=kept, has_bytes=True)
        kept[running.uid] = ExportedBytes(logs=tuple(each.read_to for each in store.logs(running)), has_sidecars=True)
        starts = [said["start"] for each in lines if (said := json.loads(each))["type"] == "bytes"]
        assert starts[0] == sent
        assert json.loads(lines[-1])["bytes"] == sum(kept[running.uid].logs) - sent
        sent = sum(kept[running.uid].logs)
        made += frames.frames(lines, session=running.uid, after=after, prev=prev, has_bytes=True)
        after, prev = head_of(made[-1]).upto, head_of(made[-1]).chain
    found, whole = joined([read(each) for each in made]), lines_of(store, has_bytes=True)
    assert without_cuts(found) == without_cuts(whole)


def test_a_secret_that_only_an_earlier_part_names_is_masked_in_a_later_one(store: Store) -> None:
    running = store.create_session()
    store.append_events(running, [ToolCall(tool_name="x", tool="SHELL", input={"DB_PASSWORD": "open-sesame-22"})])
    last = store.events(running)[-1]
    store.append_events(running, [AssistantText(text="say open-sesame-22 now")])
    text = b"".join(lines_of(store, {running.uid: (last.seq, last.part)}, Redactor()))
    assert text.count(b'"type":"event"') == 1
    assert b"open-sesame" not in text
    assert b"[password-" in text


def test_an_earlier_event_with_a_secret_that_only_a_later_one_names_is_named(store: Store) -> None:
    running = store.create_session()
    texts = ["say open-sesame-22 now", "DB_PASSWORD=correct-horse-1 and correct-horse-1", "nothing", "open-sesame-22"]
    store.append_events(running, [AssistantText(text=each) for each in texts])
    *_, last = store.events(running)
    store.append_events(running, [ToolCall(tool_name="x", tool="SHELL", input={"DB_PASSWORD": "open-sesame-22"})])
    export = JsonExport(has_bytes=False, now=NOW, redactor=Redactor())
    after = {running.uid: (last.seq, last.part)}
    text = b"".join(export.lines(everything([store]), removed=False, after=after))
    assert b"open-sesame" not in text
    assert export.bare == [(running.uid, each.seq, each.part) for each in store.events(running)[:4:3]]


def test_of_what_bytes_were_exported_is_not_guessed() -> None:
    with pytest.raises(ValueError, match="has to be said"):
        JsonExport(has_bytes=True, now=NOW).lines([], removed=False, after={UID: (1, 0)})


# the page ------------------------------------------------------------------------------------------------------------


FROZEN = {
    "plain": "a751cbe55208a52362ff8bea453c60a67b15b3613c8a3dc6ec8e6346548a5496",
    "bytes": "5d557ebc082e4980c1f3261b821506df20a967278fc6248279f6ca63a5b81f52",
    "removed": "ea74cc166187dd29faee2e51899af514a8b27ed5729183f2bcf5671adb61f7fb",
}
"""The last chains of the page's frames. No change may change one: machines that were not updated read them."""


@every("name", FROZEN)
def test_the_frames_of_the_page_are_as_it_says(name: str) -> None:
    page = DOCS.read_text("utf-8")
    said = re.findall(rf"```frame {name}\n(\{{.*\}})\n([A-Za-z0-9+/=\n]+)\n```", page)
    found = [read(f"{head}\n".encode() + base64.b64decode(packed)) for head, packed in said]
    shown = re.findall(rf"```jsonl joined {name}\n(.*?)```", page, re.DOTALL)
    assert b"".join(joined(found)).decode() == shown[0]
    assert found[-1].head.chain == FROZEN[name]
    # Another zstd may pack them otherwise.
    anew = [read(each) for each in set_frames.frames_of(name)]
    assert [msgspec.structs.replace(each.head, size=0) for each in found] == [
        msgspec.structs.replace(each.head, size=0) for each in anew
    ]


def test_the_frames_of_the_page_are_imported(tmp_path: Path) -> None:
    lines = joined([read(each) for each in set_frames.frames_of("bytes")])
    head = line("backstory", format=1, made_by="a test", exported="2026-09-21T14:13:20Z", bytes=True, redacted=False)
    with Staging(tmp_path / "staged.db") as staged:
        reader = JsonImport(staged, "the page", trusted=True, strict=True)
        reader.read(io.BytesIO(b"".join([head, *lines, line("end", sessions=1)])))
        (log,) = staged.logs()
        assert staged.read_log(log.id, 0, log.read_to).count(b"\n") == 3
