"""Home folders with logs: a corpus of real ones, generated ones, and very many small ones. All deterministic."""

from __future__ import annotations

import json
import math
import random
import shutil
import subprocess
import sys
import tarfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

AGENTS = (".claude", ".codex", ".copilot")
"""The folders of the agents that every indexer reads."""
GENERATED_SESSION_BYTES = 590_000
PLACES = {"claude": ".claude/projects", "codex": ".codex/sessions", "copilot": ".copilot/session-state"}
FOLDERS_OF_SMALL = 50
SMALL_BYTES = 1_400
TURNS_IN_SESSION = 40
OUTPUT_CHARS = 900
ANSWER_CHARS = 500
WORDS = (
    *("the", "gate", "parser", "reads", "every", "token", "and", "returns", "none", "when", "a", "line", "of", "it"),
    *("file", "is", "torn", "before", "its", "end"),
)

WORKED = "PTCRACRACRAPTCRACRAA"
"""The events of twenty: prompts, thinking, calls and results, answers."""
WORKED_WORDS, WORKED_CHARS = 30_000, 120
"""The words of all texts, the nth n times as rare as the first; and the length of what is no answer in Markdown."""
MARKDOWN_CHARS = (300, 10_000)
FIRST_S = 1_767_225_600
LAST_WORDS = "Nothing is left to do."
LAST_HOUR = 6_000
"""Made sessions begin on 1 January 2026, an hour apart; the last one so many hours later."""


def real(logs: Path, home: Path) -> Path:
    """The logs of a home folder, or of an archive of one, in a folder of their own."""
    if logs.is_dir():
        for name in AGENTS:
            if (logs / name).is_dir():
                shutil.copytree(logs / name, home / name)
        return home
    with tarfile.open(logs) as archive:
        for member in archive:
            parts = Path(member.name).parts
            if len(parts) > 1 and parts[1] in AGENTS:
                member.name = str(Path(*parts[1:]))
                archive.extract(member, home, filter="data")
    return home


def generated(home: Path, size: float, agent: str = "claude") -> Path:
    """About so many bytes of made-up logs whose texts are code and prose of this machine."""
    out, program = home / "made", Path(__file__).with_name("make_logs.py")
    sessions = max(1, round(size / GENERATED_SESSION_BYTES))
    words = ["--out", str(out), "--sessions", str(sessions), "--format", agent]
    subprocess.run([sys.executable, str(program), *words], check=True, capture_output=True)
    (home / PLACES[agent]).parent.mkdir(parents=True, exist_ok=True)
    (out / agent).rename(home / PLACES[agent])
    out.rmdir()
    return home


def small(home: Path, sessions: int) -> int:
    """So many sessions of Claude Code, each a prompt and an answer; their bytes."""
    chance, size = random.Random(sessions), 0
    for number in range(sessions):
        session = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        project = f"p{number % FOLDERS_OF_SMALL}"
        folder = home / ".claude" / "projects" / f"-home-dev-{project}"
        folder.mkdir(parents=True, exist_ok=True)
        data = _small_log(session, number, f"/home/dev/{project}", chance)
        (folder / f"{session}.jsonl").write_bytes(data)
        size += len(data)
    return size


def _small_log(session: str, number: int, cwd: str, chance: random.Random) -> bytes:
    asked, answered = (str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(2))
    at = f"2026-{number // 25_000 % 12 + 1:02}-{number // 1000 % 25 + 1:02}T{number // 60 % 24:02}:{number % 60:02}"
    common = {"isSidechain": False, "userType": "external", "cwd": cwd, "sessionId": session, "version": "2.1.330",
              "gitBranch": "main"}  # fmt: skip
    usage = {"input_tokens": 12, "cache_read_input_tokens": 15_000, "output_tokens": 80, "service_tier": "standard"}
    said = {"id": f"msg_{chance.getrandbits(96):024x}", "type": "message", "role": "assistant", "model":
            "claude-sonnet-4-5-20250929", "stop_reason": "end_turn", "usage": usage}  # fmt: skip
    prompt = {"role": "user", "content": _words(chance, 120)}
    first = {"parentUuid": None, **common, "type": "user", "message": prompt, "uuid": asked,
             "timestamp": f"{at}:00.000Z"}  # fmt: skip
    second = {"parentUuid": asked, **common, "type": "assistant", "uuid": answered, "timestamp": f"{at}:09.000Z"}
    begun = len(json.dumps(first)) + len(json.dumps(second)) + len(json.dumps(said)) + 60
    text = _words(chance, max(50, SMALL_BYTES - begun))
    second["message"] = {**said, "content": [{"type": "text", "text": text}]}
    return b"".join(json.dumps(each).encode() + b"\n" for each in (first, second))


class Working:
    """Logs of Claude Code's sessions: of twenty events two prompts, two thoughts, ten of tools and six answers."""

    def __init__(self, home: Path) -> None:
        self._projects = home / ".claude" / "projects"
        self._chance = random.Random(20)
        words = [f"{_syllables(n)}" for n in range(WORKED_WORDS)]
        drawn = self._chance.choices(words, [1 / (n + 1) for n in range(WORKED_WORDS)], k=400_000)
        self._drawn = " ".join(drawn)

    def sessions(self, count: int, events: int) -> None:
        """Write so many sessions with so many events each, whose texts are short."""
        for number in range(count):
            self._write(number, events, 60, self._text)

    def long(self, events: int) -> Path:
        """Write one session whose answers are long but for the last, the newest of all; returns its log."""
        return self._write(LAST_HOUR, events, 1, self._markdown, last=LAST_WORDS)

    def _write(self, number: int, events: int, pace_s: int, answer: Callable[[], str], last: str = "") -> Path:
        session, cwd = self._id(), f"/home/dev/p{number % FOLDERS_OF_SMALL}"
        folder = self._projects / cwd.replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        common = {"isSidechain": False, "userType": "external", "cwd": cwd, "sessionId": session, "version": "2.1.330",
                  "gitBranch": "main"}  # fmt: skip
        parent, call = None, ""
        path = folder / f"{session}.jsonl"
        with path.open("w", encoding="utf-8") as log:
            for n in range(events):
                kind, uid = WORKED[n % len(WORKED)], self._id()
                if last and n == events - 1:
                    kind, answer = "A", lambda: last
                call = uid if kind == "C" else call
                at = FIRST_S + number * 3_600 + n * pace_s
                stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at))
                head = {"parentUuid": parent, **common, "uuid": uid, "timestamp": stamp}
                log.write(json.dumps(head | self._said(kind, uid, call, answer)) + "\n")
                parent = uid
        return path

    def _said(self, kind: str, uid: str, call: str, answer: Callable[[], str]) -> dict[str, object]:
        text = answer() if kind == "A" else self._text()
        if kind in "PR":
            result = {"type": "tool_result", "tool_use_id": f"toolu_{call}", "content": text}
            return {"type": "user", "message": {"role": "user", "content": text if kind == "P" else [result]}}
        part: dict[str, object] = {"type": "text", "text": text}
        if kind == "T":
            part = {"type": "thinking", "thinking": text}
        elif kind == "C":
            path = f"/home/dev/src/{text.split()[0]}.py"
            part = {"type": "tool_use", "id": f"toolu_{uid}", "name": "Bash", "input": {"command": text}}
            if self._chance.random() < 0.3:
                part |= {"name": "Read", "input": {"file_path": path}}
        message: dict[str, object] = {
            "id": f"msg_{uid}",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5-20250929",
            "stop_reason": "end_turn" if kind == "A" else "tool_use",
            "usage": {"input_tokens": 12, "cache_read_input_tokens": 15_000, "output_tokens": 80},
            "content": [part],
        }
        return {"type": "assistant", "message": message}

    def _id(self) -> str:
        return str(uuid.UUID(int=self._chance.getrandbits(128), version=4))

    def _text(self, chars: int = WORKED_CHARS) -> str:
        at = self._chance.randrange(len(self._drawn) - chars)
        return self._drawn[at : at + chars].strip()

    def _markdown(self) -> str:
        """An answer with a heading, a list, and code, most of them short."""
        least, most = MARKDOWN_CHARS
        room = int(least * math.exp(self._chance.random() * math.log(most / least)))
        parts = [f"## {self._text(30)}", f"{self._text(90)} **{self._text(20)}** `{self._text(12)}`."]
        while sum(map(len, parts)) < room:
            parts.append("\n".join(f"- {self._text(70)}" for _ in range(3)))
            parts.append(f"```python\n{self._text(50)}\n{self._text(40)}\n```")
            parts.append(self._text(min(400, room)))
        return "\n\n".join(parts)[:most]


def _syllables(number: int) -> str:
    """A word for a number, which no other number has."""
    word = ""
    number += 100
    while number:
        number, rest = divmod(number, 100)
        word += "bdfghjklmnprstvwyzcx"[rest // 5] + "aeiou"[rest % 5]
    return word


def copilot(home: Path, turns: int, in_session: int = TURNS_IN_SESSION) -> int:
    """Logs of Copilot CLI with so many turns; their bytes."""
    chance, size = random.Random(turns), 0
    for first in range(0, turns, in_session):
        session = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        folder = home / ".copilot" / "session-state" / session
        folder.mkdir(parents=True)
        data = _log(session, range(first, min(first + in_session, turns)), chance)
        (folder / "events.jsonl").write_bytes(data)
        (folder / "workspace.yaml").write_text(f"id: {session}\ncwd: /src\nname: Session {first}\n")
        size += len(data)
    return size


def _log(session: str, turns: range, chance: random.Random) -> bytes:
    context = {"cwd": "/src", "repository": "octo/app", "branch": "main"}
    lines = [_line("session.start", turns[0], chance, sessionId=session, copilotVersion="1.0.102", context=context)]
    for turn in turns:
        lines += _turn(turn, chance)
    return b"".join(lines)


def _turn(turn: int, chance: random.Random) -> list[bytes]:
    call = {"toolCallId": f"call_{turn}"}
    ran = {"command": f"grep -rn token{turn} src/gate_{turn % 97}.py", "description": "Look for it"}
    edit = {"toolCallId": f"edit_{turn}", "name": "edit", "arguments": {"path": f"/src/gate_{turn % 97}.py"}}
    output = {"content": f"{_words(chance, OUTPUT_CHARS)}\n<exited with exit code 0>"}
    told = (
        ("user.message", {"content": _words(chance, 120), "transformedContent": _words(chance, 200)}),
        ("assistant.turn_start", {"turnId": str(turn)}),
        ("assistant.message", {"messageId": f"m{turn}", "content": "", "model": "gpt-5", "outputTokens": 40,
                               "toolRequests": [{**call, "name": "bash", "arguments": ran}, edit]}),
        ("tool.execution_start", {**call, "toolName": "bash", "arguments": ran}),
        ("tool.execution_complete", {**call, "success": True, "result": output}),
        ("tool.execution_complete", {"toolCallId": f"edit_{turn}", "success": True, "result": {"content": "edited"}}),
        ("assistant.message", {"messageId": f"n{turn}", "content": _words(chance, ANSWER_CHARS), "outputTokens": 90}),
        ("assistant.turn_end", {"turnId": str(turn)}),
    )  # fmt: skip
    return [_line(kind, turn, chance, **data) for kind, data in told]


def _line(kind: str, turn: int, chance: random.Random, **data: object) -> bytes:
    at = f"2026-{turn // 25_000 % 12 + 1:02}-{turn // 1000 % 25 + 1:02}T{turn // 60 % 24:02}:{turn % 60:02}:00.000Z"
    id_ = str(uuid.UUID(int=chance.getrandbits(128), version=4))
    return json.dumps({"type": kind, "data": data, "id": id_, "timestamp": at, "parentId": None}).encode() + b"\n"


def _words(chance: random.Random, chars: int) -> str:
    return " ".join(chance.choices(WORDS, k=chars // 5))
