"""A client's first questions, answered before anything is imported: who the server is, and which tools it has.

A client waits for these answers, some for a second only, and asks its model without the tools then. They are constants,
kept in ``greeting.json``. Whatever else a client says first is left to the server, which is told of the handshake.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

GREETING = Path(__file__).with_name("greeting.json")
"""``initialize`` and ``tools/list``: the results; ``versions``: of the protocol, the newest last."""
READ_BYTES = 64 * 1024
INITIALIZE, INITIALIZED, LIST = "initialize", "notifications/initialized", "tools/list"


class Lobby:
    """Reads what a client sends until the server is needed.

    ``rest`` is what the server is to read before stdin; ``answered``: the ids in it of requests that have their answer.
    """

    def __init__(self, version: str) -> None:
        self._version = version
        self.rest = b""
        self.answered: tuple[int | str, ...] = ()

    def receive(self) -> bool:
        """Answer the handshake and the question for tools; whether the client is still there, and wants more.

        A signal ends the process in peace, also while the server is imported, which sets handlers of its own.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _leave)
        greeting: dict[str, Any] = {}
        while line := self._line():
            message = _message(line)
            if message is None:
                return True
            method = message.get("method")
            if method == INITIALIZE and not greeting and _is_plain(message):
                greeting = json.loads(GREETING.read_bytes())
                _put(message, _welcome(greeting, message, self._version))
                self.answered = (message["id"],)
            elif method == LIST and greeting and _has_id(message) and message.get("params", {}) == {}:
                _put(message, greeting[LIST])
                self.rest = self.rest.removesuffix(line)
                return True
            elif method != INITIALIZED or not greeting:
                return True
        # Where all has its answer the server need not begin.
        return bool(self.rest) and not (greeting and self.rest.endswith(b"\n"))

    def _line(self) -> bytes:
        """The next line, which ``rest`` ends with then; b'' at the end of stdin, or for a line that is no short one."""
        line = b""
        while not line.endswith(b"\n") and len(line) < READ_BYTES:
            try:
                # No more than the line: what is behind it is the server's.
                piece = os.read(0, 1)
            except BlockingIOError:
                select.select([0], [], [])
                continue
            except OSError:
                piece = b""
            if not piece:
                self.rest += line
                return b""
            line += piece
        self.rest += line
        return line


def _leave(_number: int, _frame: FrameType | None) -> None:
    # Nothing was opened or written.
    os._exit(0)


def _message(line: bytes) -> dict[str, Any] | None:
    """A request or notification with parameters; None for anything else."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_one = isinstance(found, dict) and found.get("jsonrpc") == "2.0" and isinstance(found.get("params", {}), dict)
    return found if is_one else None


def _has_id(message: dict[str, Any]) -> bool:
    key = message.get("id")
    return isinstance(key, str | int) and not isinstance(key, bool)


def _is_plain(message: dict[str, Any]) -> bool:
    """Return True if a handshake has what the protocol asks for, so that the server would greet, too."""
    given = message.get("params", {})
    info = given.get("clientInfo")
    return (
        _has_id(message)
        and isinstance(given.get("protocolVersion"), str)
        and isinstance(given.get("capabilities"), dict)
        and isinstance(info, dict)
        and all(isinstance(info.get(each), str) for each in ("name", "version"))
    )


def _welcome(greeting: dict[str, Any], message: dict[str, Any], version: str) -> dict[str, Any]:
    asked, known = message["params"]["protocolVersion"], greeting["versions"]
    said: dict[str, Any] = greeting[INITIALIZE]
    spoken = asked if asked in known else known[-1]
    return {**said, "protocolVersion": spoken, "serverInfo": {**said["serverInfo"], "version": version}}


def _put(message: dict[str, Any], result: dict[str, Any]) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}, separators=(",", ":")).encode() + b"\n"
    while line:
        try:
            line = line[os.write(1, line) :]
        except BlockingIOError:
            select.select([], [1], [])
        except OSError:
            # The client has gone.
            sys.exit()
