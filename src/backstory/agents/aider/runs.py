"""Aider's chat history as a file: the lines that are its own, its records, and the sessions that it is made of.

Source: recorded histories of 0.86.2. A run of the program begins with ``# aider chat started at`` and its local time.
A prompt stands on lines with ``#### ``, what the program says on a line with ``> ``, and each of these ends in two
spaces; an answer stands between them as the model wrote it. Inside a fence an answer may hold lines of any form.
Words of the program that are several lines have the ``> `` on the first and the two spaces on the last of them.
"""

from __future__ import annotations

import hashlib
import time
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "aider"
FILE = ".aider.chat.history.md"
STARTED = b"# aider chat started at "
PROMPT, OWN = b"#### ", b"> "
_HASH, _QUOTE = b"#>"
_MARKS = b"#>`~ "
HARD_BREAKS = (b"  ", b"  \r")
ASKING = frozenset({"ask", "architect", "chat-mode", "code", "context", "help"})
"""Commands that send the words behind them to the model."""
_RUN = lazy_regex(
    # Words of the program or a prompt follow: an answer that only names such a line begins no run.
    rb"# aider chat started at ([0-9-]{10} [0-9:]{8})[ \t\r]*\n(?=\s*(?:> |#### )[^\n]*  \r?\n)"
)
_UNFINISHED_RUN = lazy_regex(rb"(?:\A|\n)(#(?: (?:a(?:i(?:d(?:e(?:r[^\n]*)?)?)?)?)?)?\s*(?:[>#][^\n]*)?)\Z")
_PROMPT = lazy_regex(rb"\n#### ([^\n]*)  \r?(?=\n)")
_FENCE = lazy_regex(rb" {0,3}(`{3,}|~{3,})(.*)")
_ENDS_ANSWER = lazy_regex(rb"> (?:Tokens: |\^C|Applied edit to |Commit [0-9a-f]{7,40} |litellm\.|Retrying in )")
_COMMIT = lazy_regex(rb"> Commit [0-9a-f]{7,40} ")


class Session(Struct, frozen=True, kw_only=True):
    """A run of Aider in which something was asked, with those before it in which nothing was."""

    native_id: str
    begin: int
    end: int
    started_ms: int
    """0 where nothing says it."""


def sessions_in(data: bytes) -> Iterator[Session]:
    """The sessions of a history, one behind the other from its beginning on; what is left has no prompt yet."""
    begin, met = 0, dict[str, int]()
    for start, local, end in _runs_in(data):
        first = _first_prompt(data, start, end)
        if first is None:
            continue
        named = f"{local} {first}" if local else first
        digest = hashlib.sha256(named.encode()).hexdigest()[:12]
        native_id = f"{local.translate(_PLAIN)}-{digest}" if local else digest
        met[native_id] = met.get(native_id, 0) + 1
        yield Session(
            native_id=native_id if met[native_id] == 1 else f"{native_id}-{met[native_id]}",
            begin=begin, end=end, started_ms=local_ms(local),
        )  # fmt: skip
        begin = end


def _runs_in(data: bytes) -> Iterator[tuple[int, str, int]]:
    """The begin, the local time and the end of each run. What was cut off at its beginning has no time."""
    start, local = 0, ""
    for found in _RUN.finditer(data):
        at = found.start()
        if _begins_line(data, at):
            if at:
                yield start, local, at
            start, local = at, found[1].decode()
    unfinished = _UNFINISHED_RUN.search(data, max(len(data) - 256, 0))
    yield start, local, unfinished.start(1) if unfinished else len(data)


_PLAIN = str.maketrans(" ", "T", "-:")


def _first_prompt(data: bytes, start: int, end: int) -> str | None:
    # A line end before each prompt is part of what is looked for, so that one line is looked at once.
    lines = [] if start or not data.startswith(PROMPT) else [_PROMPT.match(b"\n" + data[: data.find(b"\n") + 1])]
    for found in chain(lines, _PROMPT.finditer(data, max(start - 1, 0), end)):
        if found is not None and is_prompt(text := found[1].decode("utf-8", "replace").strip()):
            return text
    return None


def _begins_line(data: bytes, at: int) -> bool:
    return at == 0 or data[at - 1] == ord("\n")


def is_prompt(text: str) -> bool:
    """Return True if what a person typed goes to the model.

    >>> [is_prompt(text) for text in ("Fix it.", "/ask Why?", "/ask", "/run ls", "!ls", "<blank>", "")]
    [True, True, False, False, False, False, False]
    """
    if not text or text == "<blank>" or text.startswith("!"):
        return False
    if not text.startswith("/"):
        return True
    command, _, words = text[1:].partition(" ")
    return command in ASKING and bool(words.strip())


def local_ms(local: str) -> int:
    """The time of a run, which is that of the machine's own zone, in ms since 1970; 0 if it is none."""
    try:
        return int(time.mktime(time.strptime(local, "%Y-%m-%d %H:%M:%S"))) * 1000
    except (ValueError, OverflowError):
        return 0


# records --------------------------------------------------------------------------------------------------------------


class RecordBegin:
    """See ``contract.RecordBegin``. A record is a prompt, an answer, or words of the program."""

    def __init__(self) -> None:
        self._kind = b""
        """With which the record begins: STARTED, PROMPT, OWN, or nothing for an answer."""
        self._is_open = False
        """True if words of the program go on behind their first line."""
        self._is_answer = False
        self._was_blank = True
        self._fence = b""

    def begins(self, line: bytes) -> bool:
        if not line or line.isspace():
            self._was_blank = True
            return False
        was_blank, self._was_blank = self._was_blank, False
        mark = line[0]
        if mark not in _MARKS and self._is_answer:
            # Nearly every line is one of an answer.
            return False
        if mark == _HASH and not self._fence:
            if line.startswith(PROMPT) and line.endswith(HARD_BREAKS):
                is_same = self._kind == PROMPT and not was_blank
                return not is_same and self._begin(PROMPT)
            if line.startswith(STARTED):
                return self._begin(STARTED)
        elif mark == _QUOTE and self._is_own(line, was_blank):
            # What it says in one go is one record.
            is_same = self._kind == OWN and not was_blank
            return self._begin(OWN, is_open=not is_hard(line)) and not is_same
        if self._is_open:
            self._is_open = not is_hard(line)
            return False
        is_begun = not self._is_answer and self._begin(b"")
        if (b"```" in line or b"~~~" in line) and (fence := _FENCE.match(line)):
            self._take_fence(fence[1], fence[2])
        return is_begun

    def _begin(self, kind: bytes, *, is_open: bool = False) -> bool:
        self._kind, self._is_open, self._fence, self._is_answer = kind, is_open, b"", not kind
        return True

    def _is_own(self, line: bytes, was_blank: bool) -> bool:
        if not line.startswith(OWN):
            return False
        if is_hard(line):
            # In a fence stands what the model wrote, unless the answer was broken off in it.
            return not self._fence or (was_blank and _ENDS_ANSWER.match(line) is not None)
        if self._fence or self._is_open:
            return False
        return (self._kind == OWN and not was_blank) or _COMMIT.match(line) is not None

    def _take_fence(self, marks: bytes, rest: bytes) -> None:
        if not self._fence:
            self._fence = marks
        elif marks.startswith(self._fence) and not rest.strip():
            self._fence = b""


def is_hard(line: bytes) -> bool:
    """Return True if a line ends as those of the program do."""
    return line.endswith(HARD_BREAKS)


def messages_in(record: str) -> Iterator[str]:
    """The words of the program in a record, message by message: each ends with its hard line.

    >>> list(messages_in("> Applied edit to a.py  \n> Commit 22bf711 Add\n\nmore  \n"))
    ['Applied edit to a.py', 'Commit 22bf711 Add\n\nmore']
    """
    held = list[str]()
    for line in record.split("\n"):
        line = line.removesuffix("\r")
        ends = line.endswith("  ")
        if held and ends and line.startswith("> "):
            yield _message(held)
            held.clear()
        if held or line.strip():
            held.append(line)
        if ends:
            yield _message(held)
            held.clear()
    if held:
        yield _message(held)


def _message(lines: list[str]) -> str:
    return "\n".join(lines).removeprefix("> ").strip()
