"""The words between two machines: what is hostile is refused, within bounds, and starts nothing."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.errors import FarEndBroken, FarNameUnusable
from backstory.exchange import frames
from backstory.exchange.frames import FramePoint
from backstory.store import open_store
from backstory.sync import wire
from backstory.sync.far_end import far_address, ssh_words
from backstory.sync.pull_plan import SentPoint, SessionOffer, Want
from backstory.sync.serving import serve
from backstory.sync.sources import FarSource
from backstory.sync.spool import FrameSpool
from backstory.sync.wire import (
    Bye,
    FramesBegin,
    FramesEnd,
    FramesFail,
    Hello,
    Offered,
    Ready,
    Wanted,
    WireWords,
    greeting,
    heard,
    say,
)
from tests.support.every import every
from tests.support.pulled import _Streams

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.sync.far_end import FarEnd

UID, OTHER = "01M3250V00CJ5X1JHP0Z69AWSQ", "01M3250V00CJ5X1JHP0Z69AWSR"
POINT = SentPoint(epoch=1, upto=FramePoint(3, 0), chain="0" * 64, mark="m", logs=(1, 2))
WORDS: list[WireWords] = [
    Hello(protocol=1, made_by="backstory", id=UID, name="desk"), Offered(offer=SessionOffer(uid=UID, mark="m")),
    Ready(), Wanted(want=Want(uid=UID, sent=POINT, frames=3, chain="0" * 64)), FramesBegin(uid=UID, kept=2),
    FramesEnd(uid=UID, sent=POINT), FramesFail(uid=UID, reason="no"), Bye(records=3),
]  # fmt: skip


def event(seq: int, session: str = UID) -> bytes:
    line = json.dumps({"type": "event", "seq": seq, "event": {"AssistantText": {"text": "a"}}}).encode() + b"\n"
    return next(frames.frames([line], session=session))


def test_words_and_frames_are_heard_as_they_were_said() -> None:
    stream = io.BytesIO()
    for each in WORDS:
        say(stream, each)
        stream.write(event(3))
    stream.seek(0)
    assert [heard(stream) for _ in range(2 * len(WORDS))] == [each for word in WORDS for each in (word, event(3))]


def said(*words: WireWords | bytes) -> bytes:
    stream = io.BytesIO()
    for each in words:
        stream.write(each) if isinstance(each, bytes) else say(stream, each)
    return stream.getvalue()


@pytest.mark.hypothesis
@given(st.binary(max_size=300) | st.integers(0, 2_000).map(lambda cut: said(*WORDS, event(3))[:cut]))
def test_any_bytes_are_words_or_refused(data: bytes) -> None:
    stream = io.BytesIO(data)
    while True:
        try:
            heard(stream)
        except FarEndBroken:
            return


HOSTILE = {
    "no line's end": b"x" * 5_000_000,
    "a long line": b'{"say":"' + b"x" * 5_000_000 + b'"}\n',
    "deep": b'{"say":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "a frame of many bytes": event(3).replace(b'"size":', b'"size":9999999'),
    "a frame that is cut": event(3)[:-1],
    "words that nobody knows": b'{"say":"run","what":"rm"}\n',
    "no uid": b'{"say":"begin","uid":"../../x"}\n',
}


@every("what", HOSTILE)
def test_hostile_words_are_refused(what: str) -> None:
    with pytest.raises(FarEndBroken):
        heard(io.BytesIO(HOSTILE[what]))


@pytest.mark.parametrize("noise", [b"", b"Welcome!\n\nYou have mail.\n"])
def test_a_greeting_is_found_behind_what_a_profile_prints(noise: bytes) -> None:
    hello = greeting(io.BytesIO(noise + said(WORDS[0])))
    assert hello is not None and hello.name == "desk"
    assert greeting(io.BytesIO(noise)) is None
    for endless in (b"x\n" * 200, b"x" * 70_000):
        with pytest.raises(FarEndBroken):
            greeting(io.BytesIO(endless))


NOT_ASKED = {
    "another session": [FramesBegin(uid=OTHER)],
    "a frame of another session": [FramesBegin(uid=UID), event(3, OTHER)],
    "a frame before its beginning": [event(3)],
    "a damaged frame": [FramesBegin(uid=UID), event(3)[:-1] + b"x"],
    "a frame that follows nothing": [FramesBegin(uid=UID), event(3), event(4)],
    "a second beginning": [FramesBegin(uid=UID), FramesBegin(uid=UID)],
    "an end of another one": [FramesBegin(uid=UID), FramesEnd(uid=OTHER, sent=POINT)],
    "more than was asked for": [FramesFail(uid=UID, reason="no"), FramesFail(uid=UID, reason="no")],
    "an offer": [Offered(offer=SessionOffer(uid=UID, mark="m"))],
    "nothing": [],
}


@pytest.mark.parametrize("what", NOT_ASKED)
def test_a_far_end_that_sends_what_nobody_asked_for_is_refused(what: str, tmp_path: Path) -> None:
    answers = io.BytesIO(said(*cast("list[Any]", NOT_ASKED[what])))
    source = FarSource(cast("FarEnd", _Streams(answers, io.BytesIO())), "ssh://there", UID)
    with pytest.raises(FarEndBroken), FrameSpool(tmp_path / what) as spool:
        list(source.fetch([Want(uid=UID)], lambda _: spool))


def test_too_many_offers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backstory.sync.sources.OFFERS_MAX", 3)
    offers = [Offered(offer=SessionOffer(uid=UID, mark="m"))] * 4
    source = FarSource(cast("FarEnd", _Streams(io.BytesIO(said(*offers, Ready())), io.BytesIO())), "ssh://there", UID)
    with pytest.raises(FarEndBroken):
        source.offers()


def test_a_side_that_asks_for_what_it_may_not_gets_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path / "store.db") as store:
        store.begin()
        for words in ([Bye()], [Offered(offer=SessionOffer(uid=UID, mark="m"))], [Wanted(want=Want(uid=UID))] * 101):
            with pytest.raises(FarEndBroken):
                serve(store, io.BytesIO(said(*words, Ready())), io.BytesIO())
        answers = io.BytesIO()
        serve(store, io.BytesIO(said(Wanted(want=Want(uid=UID)), Ready())), answers)
        answers.seek(0)
        greeting(answers)
        assert isinstance(heard(answers), Ready)
        assert isinstance(heard(answers), FramesFail)


def test_spooled_frames_that_a_kill_cut_are_gone_on_with(tmp_path: Path) -> None:
    made = list(
        frames.frames(
            [
                json.dumps({"type": "event", "seq": n, "event": {"AssistantText": {"text": "a"}}}).encode() + b"\n"
                for n in range(1, 1_200)
            ],
            session=UID,
        )
    )
    whole = b"".join(made)
    assert len(made) == 3
    for cut in range(0, len(whole), 97):
        path = tmp_path / "spool"
        path.write_bytes(whole[:cut])
        with FrameSpool(path) as spool:
            kept = sum(cut >= len(b"".join(made[: n + 1])) for n in range(3))
            assert len(spool) == kept
            for each in made[kept:]:
                spool.add(each)
            assert [each.lines for each in spool] == [frames.read(each).lines for each in made]
        assert path.read_bytes() == whole


# names ---------------------------------------------------------------------------------------------------------------


GOOD = {
    "ssh://desk": ("desk", None), "ssh://me@desk.local:2222": ("me@desk.local", 2222), "ssh://desk/": ("desk", None),
    "ssh://[::1]": ("::1", None), "ssh://[fe80::1]:22": ("fe80::1", 22),
}  # fmt: skip
BAD = [
    "ssh://", "ssh://-oProxyCommand=x", "ssh://desk -x", "ssh://me@-x", "ssh://-me@desk", "ssh://desk;x", "ssh://$(x)",
    "ssh://desk:0", "ssh://desk:99999", "ssh://desk:x", "ssh://desk/x", "ssh://desk?x", "ssh://dé", "ssh://a@b@c",
    "ssh:desk", "ssh://de\nsk", "ssh://desk\0", "ssh://@desk", "ssh://desk.", "ssh://desk:", "ssh://[x]", "ssh://`x`",
    "ssh://me:pw@desk",
]  # fmt: skip


@every("text", GOOD)
def test_a_machine_is_named_as_a_url(text: str) -> None:
    address = far_address(text)
    assert (address.name, address.port) == GOOD[text]
    words = ssh_words(address, "~/.local/bin/backstory", may_ask=False)
    assert words[-5:] == ["--", address.name, "~/.local/bin/backstory", "pull", "--serve"]
    assert "BatchMode=yes" in words


@every("text", BAD)
def test_a_name_that_ssh_or_a_shell_could_take_for_more_is_refused(text: str) -> None:
    with pytest.raises(FarNameUnusable):
        far_address(text)


@every("program", ["a b", "x;y", "$(x)", "-x", "", "x\ny", "~root/x", "a'b", "`x`", "x>y"])
def test_a_program_that_a_shell_could_take_for_more_is_refused(program: str) -> None:
    with pytest.raises(FarNameUnusable):
        ssh_words(far_address("ssh://desk"), program, may_ask=True)


def test_the_longest_words_have_room_for_many_logs() -> None:
    point = SentPoint(epoch=1, upto=FramePoint(3, 0), chain="0" * 64, mark="m", logs=(2**53,) * 100_000)
    assert len(said(Wanted(want=Want(uid=UID, sent=point)))) < wire.WORDS_BYTES_MAX
