"""Text from stdin: as the prompt, or in addition to one.

In addition to a prompt only a pipe is read, or a file at its beginning. A file that is open at a later position
belongs to a loop of the shell, which reads its next line from there.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import sys

from backstory.cli import output
from backstory.errors import PromptNotText, StdinTooLong, StdinUnreadable

BYTES_MAX = 10_000_000
WAIT_S = 3.0
"""How long a pipe beside a prompt may be silent."""
READ_BYTES = 1024 * 1024


def is_terminal() -> bool:
    """Whether stdin is a terminal."""
    return sys.stdin.isatty()


def read_all() -> str:
    """Read stdin to its end, however long that takes. Raises StdinTooLong, StdinUnreadable, PromptNotText."""
    return _text(_read(sys.stdin.fileno()))


def read_beside(wait_s: float = WAIT_S) -> str:
    """Read stdin as an addition to a prompt; empty if it was not meant for it. Raises as ``read_all`` does."""
    file = sys.stdin.fileno()
    if not _is_meant(file):
        return ""
    if not select.select([file], [], [], wait_s)[0]:
        output.talk(f"stdin was silent for {wait_s:g} s, so it is not read. --stdin waits for it.")
        return ""
    return _text(_read(file))


def _is_meant(file: int) -> bool:
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode):
        return os.lseek(file, 0, os.SEEK_CUR) == 0
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _read(file: int) -> bytes:
    """Read the bytes up to the end; prints one message while it waits."""
    data, patience_s = bytearray(), WAIT_S if not os.isatty(file) else None
    while len(data) <= BYTES_MAX:
        if not select.select([file], [], [], patience_s)[0]:
            output.talk("Reading stdin until its end. Ctrl-C stops; --no-stdin does not read it.")
            patience_s = None
            continue
        try:
            block = os.read(file, READ_BYTES)
        except BlockingIOError:
            continue
        except OSError as refused:
            if refused.errno == errno.EBADF:
                # stdin is open for writing only, as with nohup.
                return b""
            raise StdinUnreadable(refused.strerror or str(refused)) from refused
        if not block:
            return bytes(data)
        data += block
    raise StdinTooLong(BYTES_MAX)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as refused:
        raise PromptNotText(refused.start + 1) from refused
