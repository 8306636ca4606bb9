"""A scripted agent: speaks Claude Code's stream as a script says, and behaves as badly as it is told to.

The script is JSON in the environment variable SCRIPT: steps such as {"say": "text"}, {"tool": "ls"},
{"result": true}, {"raw": "..."}, {"stderr": "..."}, {"wait_for": "file"}, {"touch": "file"}, {"exit": 3},
{"long": 300000}, {"signal": 9}, {"ignore_interrupt": true}, {"child": "file"}, {"say": "x", "repeat": 1000}.
What came on stdin is written to the file RECEIVED, the arguments to RECEIVED.argv.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def emit(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def said(block: Mapping[str, object], number: int) -> dict[str, object]:
    usage = {"input_tokens": 10, "output_tokens": 5}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "scripted", "usage": usage}
    return {"type": "assistant", "message": {**message, "content": [block]}, "session_id": session()}


def session() -> str:
    words = sys.argv
    return words[words.index("--session-id") + 1] if "--session-id" in words else "none"


def step(number: int, order: dict[str, object]) -> None:
    match order:
        case {"say": text}:
            for _ in range(int(str(order.get("repeat", 1)))):
                emit(said({"type": "text", "text": text}, number))
        case {"long": characters}:
            emit(said({"type": "text", "text": "y" * int(str(characters))}, number))
        case {"tool": command}:
            block: dict[str, object] = {
                "type": "tool_use",
                "id": f"t{number}",
                "name": "Bash",
                "input": {"command": command},
            }
            emit(said(block, number))
            result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "done", "is_error": False}
            emit({"type": "user", "message": {"role": "user", "content": [result]}, "session_id": session()})
        case {"result": is_good}:
            emit(
                {
                    "type": "result", "subtype": "success", "is_error": not is_good, "duration_ms": 1200,
                    "num_turns": 1, "result": "", "total_cost_usd": 0.04, "session_id": session(),
                    "usage": {"input_tokens": 10, "output_tokens": 5}, "terminal_reason": "completed",
                }
            )  # fmt: skip
        case {"raw": text}:
            sys.stdout.write(str(text))
            sys.stdout.flush()
        case {"stderr": text}:
            sys.stderr.write(f"{text}\n")
        case {"touch": name}:
            Path(str(name)).touch()
        case {"wait_for": name}:
            while not Path(str(name)).exists():
                time.sleep(0.005)
        case {"ignore_interrupt": _}:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case {"child": name}:
            code = f"import os,time,pathlib; pathlib.Path({str(name)!r}).write_text(str(os.getpid())); time.sleep(600)"
            subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.DEVNULL)
            while not Path(str(name)).exists() or not Path(str(name)).read_text():
                time.sleep(0.005)
        case {"spawn": code}:
            subprocess.Popen([sys.executable, "-c", str(code)], start_new_session=True)
        case {"exit": code}:
            sys.stdout.flush()
            os._exit(int(str(code)))
        case {"signal": number_}:
            os.kill(os.getpid(), int(str(number_)))


def main() -> None:
    received = Path(os.environ["RECEIVED"])
    received.write_bytes(sys.stdin.buffer.read())
    received.with_suffix(".argv").write_text(json.dumps(sys.argv[1:]))
    for number, order in enumerate(json.loads(os.environ["SCRIPT"])):
        step(number, order)


if __name__ == "__main__":
    main()
