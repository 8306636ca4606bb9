"""A scripted agent: speaks Claude Code's stream as a script says, and behaves as badly as it is told to.

The script is JSON in the environment variable SCRIPT, or scripts by words that the prompt contains. Its steps are such
as {"say": "text"}, {"tool": "ls"}, {"tool": "", "named": "TodoWrite", "input": {}},
{"result": true, "window": 200000}, {"raw": "..."},
{"stderr": "..."}, {"wait_for": "file"}, {"touch": "file"}, {"exit": 3},
{"long": 300000}, {"signal": 9}, {"ignore_interrupt": true}, {"child": "file"}, {"say": "x", "repeat": 1000},
{"many": 300000} (as many short answers), {"noise": 1000000, "to": "stdout"} (as many bytes of lines),
{"endless": true}, {"replay": "file"} (its bytes), {"close": 1}, {"spawn": "code", "environ": {}} (a daemon, also one
without our mark), {"listens": true} (it says that it tells which words it takes up), {"hear": 1} (takes up so many
words from stdin), {"until_end": true} (takes up all that comes until stdin ends), {"takes": 1200}
(moves the clock in the file CLOCK on by so many ms).
The prompt that came on stdin is written to the file RECEIVED, the arguments to RECEIVED.argv, the words to
RECEIVED.heard as lines of JSON, and each prompt of all runs to RECEIVED.told.

Tests start it by the hundred: it imports at its start what every script needs, without pathlib and json, which
imports regular expressions, and a step the rest.
"""

from __future__ import annotations

import _json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any, TextIO

START = f"import sys; sys.path.append({os.path.dirname(__file__)!r}); import agent; agent.main()"
OPTIONS = ("-I", "-S", "-c", START)
"""How Python starts it: imported it is compiled once, and modules of the project it works in are none of its own."""


class _Values:
    """How the values of JSON are read."""

    strict, object_hook, object_pairs_hook, memo = True, None, None, {}  # type: ignore[var-annotated]
    parse_float, parse_int, parse_constant = float, int, float


_read = _json.make_scanner(_Values)  # type: ignore[arg-type]
_written = _json.make_encoder(None, repr, _json.encode_basestring_ascii, None, ": ", ", ", False, False, True)


def loads(text: str) -> Any:
    """The value of one line of JSON."""
    return _read(text, 0)[0]


def dumps(value: object) -> str:
    return "".join(_written(value, 0))


def install(folder: Path) -> None:
    """Put the scripted agent into a folder as the program ``claude``."""
    import shlex

    program = folder / "claude"
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *OPTIONS])} "$@"\n')
    program.chmod(0o755)


def emit(value: object) -> None:
    sys.stdout.write(dumps(value) + "\n")
    sys.stdout.flush()


def said(block: Mapping[str, object], number: int) -> dict[str, object]:
    usage = {"input_tokens": 10, "output_tokens": 5}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "scripted", "usage": usage}
    return {"type": "assistant", "message": {**message, "content": [block]}, "session_id": session()}


def session() -> str:
    words = sys.argv
    return words[words.index("--session-id") + 1] if "--session-id" in words else "none"


def many(count: int) -> None:
    """Answers of about 100 bytes a line."""
    block = '{{"type":"text","text":"line {}"}}'
    for n in range(count):
        sys.stdout.write(f'{{"type":"assistant","message":{{"id":"m{n}","content":[{block.format(n)}]}}}}\n')
    sys.stdout.flush()


def noise(size: int, to: TextIO) -> None:
    """Lines that mean nothing, ``size`` bytes of them."""
    line = "n" * 99 + "\n"
    for _ in range(size // len(line)):
        to.write(line)
    to.flush()


def hear(line: bytes) -> None:
    """Take up words that came while we worked; nothing at the end of stdin."""
    if not line:
        return
    words = loads(line.decode())
    with open(received(".heard"), "a") as heard:
        heard.write(dumps(words["message"]["content"][0]["text"]) + "\n")
    for state in ("queued", "started", "completed"):
        emit({"type": "command_lifecycle", "command_uuid": words["uuid"], "state": state, "session_id": session()})


def received(suffix: str = "") -> str:
    """The file that what we received is written to, or one of the same name with a suffix."""
    return os.environ["RECEIVED"] + suffix


def prompt() -> bytes:
    """What came on stdin: all of it, or the text of its first line."""
    if "--input-format" not in sys.argv:
        return sys.stdin.buffer.read()
    line = sys.stdin.buffer.readline().decode("utf-8", "surrogatepass")
    return str(loads(line)["message"]["content"][0]["text"]).encode("utf-8", "surrogatepass")


def step(number: int, order: dict[str, object]) -> None:
    match order:
        case {"say": text}:
            for _ in range(int(str(order.get("repeat", 1)))):
                emit(said({"type": "text", "text": text}, number))
        case {"long": characters}:
            emit(said({"type": "text", "text": "y" * int(str(characters))}, number))
        case {"tool": command}:
            name, given = order.get("named", "Bash"), order.get("input", {"command": command})
            block: dict[str, object] = {"type": "tool_use", "id": f"t{number}", "name": name, "input": given}
            emit(said(block, number))
            result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "done", "is_error": False}
            emit({"type": "user", "message": {"role": "user", "content": [result]}, "session_id": session()})
        case {"result": is_good}:
            window = order.get("window")
            emit(
                {
                    "type": "result", "subtype": "success", "is_error": not is_good, "duration_ms": 1200,
                    "num_turns": 1, "result": "", "total_cost_usd": 0.04, "session_id": session(),
                    "usage": {"input_tokens": 10, "output_tokens": 5}, "terminal_reason": "completed",
                }
                | ({"modelUsage": {"scripted": {"contextWindow": window}}} if window else {})
            )  # fmt: skip
        case {"raw": text}:
            sys.stdout.write(str(text))
            sys.stdout.flush()
        case {"stderr": text}:
            sys.stderr.write(f"{text}\n")
        case {"touch": name}:
            open(str(name), "ab").close()
            os.utime(str(name))
        case {"wait_for": name}:
            while not os.path.exists(str(name)):
                time.sleep(0.005)
        case {"ignore_interrupt": _}:
            import signal

            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case {"child": name}:
            import subprocess

            code = f"import os,time,pathlib; pathlib.Path({str(name)!r}).write_text(str(os.getpid())); time.sleep(600)"
            subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.DEVNULL)
            while not os.path.exists(str(name)) or not os.path.getsize(str(name)):
                time.sleep(0.005)
        case {"spawn": code}:
            import subprocess

            environ = order.get("environ", dict(os.environ))
            assert isinstance(environ, dict)
            subprocess.Popen([sys.executable, "-c", str(code)], start_new_session=True, env=environ)
        case {"many": count}:
            many(int(str(count)))
        case {"noise": size}:
            noise(int(str(size)), sys.stderr if order.get("to") == "stderr" else sys.stdout)
        case {"endless": _}:
            while True:
                emit(said({"type": "text", "text": "and on"}, number))
        case {"replay": name}:
            sys.stdout.flush()
            with open(str(name), "rb") as file:
                sys.stdout.buffer.write(file.read())
            sys.stdout.buffer.flush()
        case {"close": descriptor}:
            sys.stdout.flush()
            os.close(int(str(descriptor)))
        case {"listens": _}:
            known = {"type": "system", "subtype": "init", "capabilities": ["msg_lifecycle_v1"]}
            emit({**known, "session_id": session()})
        case {"hear": count}:
            for _ in range(int(str(count))):
                hear(sys.stdin.buffer.readline())
        case {"until_end": _}:
            for line in iter(sys.stdin.buffer.readline, b""):
                hear(line)
        case {"takes": ms}:
            clock = os.environ["CLOCK"]
            with open(clock) as file:
                moved = int(file.read()) + int(str(ms))
            with open(f"{clock}.moved", "w") as file:
                file.write(str(moved))
            os.replace(f"{clock}.moved", clock)  # whoever reads it meanwhile finds a whole number
        case {"exit": code}:
            sys.stdout.flush()
            os._exit(int(str(code)))
        case {"signal": number_}:
            os.kill(os.getpid(), int(str(number_)))


def main() -> None:
    given = prompt()
    with open(received(), "wb") as whole:
        whole.write(given)
    with open(received(".told"), "a") as told:
        told.write(dumps(given.decode("utf-8", "replace")) + "\n")
    with open(received(".argv"), "w") as words:
        words.write(dumps(sys.argv[1:]))
    script = loads(os.environ["SCRIPT"])
    if isinstance(script, dict):
        script = next(steps for words, steps in script.items() if words.encode() in given)
    for number, order in enumerate(script):
        step(number, order)
