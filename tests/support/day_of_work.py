"""A log of Claude Code that is written turn by turn, and calls such as a day of work has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.shell import Shell

SESSION = "3f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f"
OTHER = "4f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f"
EDIT = ("Edit", {"file_path": "/p/src/a.py", "old_string": "a", "new_string": "b"}, "done", False)
COMMIT = ("Bash", {"command": "git commit -qam 'Fix the parser'"}, "[main 1a2b3c4] Fix the parser", False)
TESTS = ("Bash", {"command": "pytest -q"}, "3 passed", False)
FAILING = ("Bash", {"command": "pytest -q | tail"}, "1 failed, 2 passed", False)
BUILD = ("Bash", {"command": "cargo build"}, "Finished", False)
PULL = ("Bash", {"command": "gh pr create --fill"}, "https://github.com/o/r/pull/12", False)
Step = tuple[str, dict[str, Any], str, bool]


class Log:
    """A log of Claude Code that is written turn by turn."""

    def __init__(self, session: str = SESSION, branch: str = "main", cwd: str = "/p") -> None:
        self.session, self._branch, self._cwd, self._lines = session, branch, cwd, list[str]()
        self._at = 0

    def turn(
        self, prompt: str, *steps: Step, answer: str = "All done.", at: str = "2026-05-04T10", stop: bool = True
    ) -> Log:
        """A prompt with calls, their results, and an answer ('' for none)."""
        self._add("user", prompt, at)
        for name, given, output, is_error in steps:
            call = {"type": "tool_use", "id": f"c{self._at}", "name": name, "input": given}
            self._add("assistant", [call], at)
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": output, "is_error": is_error}
            self._add("user", [result], at)
        if answer:
            self._add("assistant", [{"type": "text", "text": answer}], at, stop_reason="end_turn" if stop else None)
        return self

    def call(self, name: str, given: dict[str, Any], at: str = "2026-05-04T10") -> None:
        """A call whose result never came."""
        self._add("assistant", [{"type": "tool_use", "id": f"c{self._at}", "name": name, "input": given}], at)

    def _add(self, kind: str, content: Any, at: str, **message: Any) -> None:
        self._at += 1
        if kind == "assistant":
            usage = {"input_tokens": 500, "output_tokens": 1000}
            message |= {"id": f"m{self._at}", "model": "claude-opus-4-5-20251101", "usage": usage}
        record = {
            "type": kind, "sessionId": self.session, "uuid": f"{self.session[:2]}{self._at}", "cwd": self._cwd,
            "parentUuid": f"{self.session[:2]}{self._at - 1}" if self._at > 1 else None, "gitBranch": self._branch,
            "version": "2.1.100", "timestamp": f"{at}:{self._at // 60:02}:{self._at % 60:02}.000Z",
            "message": {"role": kind, "content": content, **message},
        }  # fmt: skip
        self._lines.append(json.dumps(record) + "\n")

    def put(self, bare: Shell) -> None:
        path = bare.home / ".claude" / "projects" / "p" / f"{self.session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(self._lines))
