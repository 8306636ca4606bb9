"""The far end of a pull: it offers what this machine has, and sends what is asked for, over its standard streams."""

from __future__ import annotations

import socket
from typing import IO, TYPE_CHECKING

from backstory import __version__
from backstory.errors import BackstoryError, FarEndBroken, StoreDamaged, in_words, is_for_one_only
from backstory.sync.frame_sending import FrameSender, SentFrame
from backstory.sync.wire import (
    PROTOCOL,
    WANTS_AT_ONCE,
    FramesBegin,
    FramesEnd,
    FramesFail,
    Hello,
    Ready,
    Wanted,
    heard_or_end,
    say,
    say_offers,
)

if TYPE_CHECKING:
    from backstory.store import Store
    from backstory.sync.pull_plan import Want

REASON_CHARS_MAX = 500


def serve(store: Store, asked: IO[bytes], answers: IO[bytes]) -> None:
    """Answer until the other side asks no more. Raises FarEndBroken for what nobody may ask."""
    sender = FrameSender(store)
    say(answers, Hello(protocol=PROTOCOL, made_by=f"backstory {__version__}", id=store.id, name=socket.gethostname()))
    say_offers(answers, sender.offers())
    answers.flush()
    while True:
        wants = list["Want"]()
        while not isinstance(words := heard_or_end(asked), Ready):
            if words is None:
                return
            if not isinstance(words, Wanted) or len(wants) >= WANTS_AT_ONCE:
                raise FarEndBroken("it asks for what cannot be asked for")
            wants.append(words.want)
        for want in wants:
            _answer(sender, want, answers)
        say(answers, Ready())
        answers.flush()


def _answer(sender: FrameSender, want: Want, answers: IO[bytes]) -> None:
    is_begun = False
    try:
        for each in sender.send(want):
            if isinstance(each, SentFrame):
                if not is_begun:
                    say(answers, FramesBegin(uid=want.uid, kept=each.number))
                is_begun = True
                answers.write(each.data)
            else:
                if not is_begun:
                    say(answers, FramesBegin(uid=want.uid, kept=want.frames))
                say(answers, FramesEnd(uid=want.uid, sent=each))
    except BackstoryError as refused:
        # Damage of one session is not that of the others.
        if not (isinstance(refused, StoreDamaged) or is_for_one_only(refused)):
            raise
        say(answers, FramesFail(uid=want.uid, reason=in_words(refused)[:REASON_CHARS_MAX]))
