"""A repository whose files agents and people change: their logs, edits and commits, at times of a fixed clock."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell

SESSION = "3f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f"
OTHER = "4f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f"
BEGIN = int(datetime(2026, 5, 4, 10, tzinfo=UTC).timestamp())
HOUR = 3600


class Place:
    """A repository in the working folder of a shell, and its clock in seconds."""

    def __init__(self, shell: Shell, name: str = "work") -> None:
        self.shell, self.root, self.now = shell, shell.home / name, BEGIN
        self.root.mkdir(exist_ok=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        when = f"{self.now} +0000"
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(self.shell.home), "GIT_AUTHOR_DATE": when,
            "GIT_COMMITTER_DATE": when, "GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.org",
            "GIT_COMMITTER_NAME": "Ann", "GIT_COMMITTER_EMAIL": "ann@example.org", "GIT_EDITOR": "true",
        }  # fmt: skip
        done = subprocess.run(["git", *words], cwd=self.root, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def wait(self, seconds: int = 60) -> None:
        self.now += seconds

    def put(self, path: str, content: str | bytes) -> None:
        """A person writes a file."""
        self.wait()
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)

    def replace(self, path: str, old: str, new: str) -> None:
        """A person edits a file."""
        text = (self.root / path).read_text()
        assert old in text
        self.put(path, text.replace(old, new, 1))

    def commit(self, message: str = "Change it", *paths: str) -> str:
        self.wait()
        self.git("add", *(paths or ("-A",)))
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def agent(self, session: str = SESSION, **how: Any) -> Agent:
        return Agent(self, session, **how)

    def blame(self, *words: str) -> Any:
        """The report as JSON."""
        assert self.shell("ingest").code == 0
        done = self.shell("chronicle", "blame", "--json", *words, TZ="UTC")
        assert done.code == 0, done.err
        return done.json()

    def lines(self, path: str, *words: str) -> list[str]:
        """Of each line how it is known who wrote it: its evidence, and the beginning of the session's id."""
        return of_lines(self.blame(path, *words))


def of_lines(report: Any) -> list[str]:
    (file,) = report["files"]
    found: list[str] = []
    for run in file["runs"]:
        # A short prompt is listed with the first file of its session.
        title = f" {run['title'].partition(' · ')[0]}" if run["title"] else ""
        found += [f"{run['strength']}{title}"] * (run["last"] - run["first"] + 1)
    return found


class Agent:
    """A session of Claude Code in a folder; its edits change the files, too."""

    def __init__(
        self, place: Place, session: str = SESSION, *, folder: Path | None = None, below: str | None = None
    ) -> None:
        self.place, self.session, self._number, self._below = place, session, 0, below
        self._folder = folder or place.root
        home = place.shell.home / ".claude" / "projects" / "p"
        self._path = home / below / "subagents" / f"agent-{session}.jsonl" if below else home / f"{session}.jsonl"
        self._path.parent.mkdir(parents=True, exist_ok=True)

    def ask(self, prompt: str) -> Agent:
        self._add("user", prompt)
        return self

    def edit(self, path: str, old: str, new: str, *, is_error: bool = False) -> Agent:
        place = self._folder / path
        if not is_error:
            text = place.read_text()
            assert old in text
            place.write_text(text.replace(old, new, 1))
        return self.call(
            "Edit", {"file_path": str(place), "old_string": old, "new_string": new}, "done", is_error=is_error
        )

    def write(self, path: str, content: str) -> Agent:
        place = self._folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
        return self.call(
            "Write", {"file_path": str(place), "content": content}, f"File created successfully at: {path}"
        )

    def say(self, text: str) -> Agent:
        self._add("assistant", [{"type": "text", "text": text}])
        return self

    def run(self, command: str, output: str = "", *, is_error: bool = False) -> Agent:
        return self.call("Bash", {"command": command}, output, is_error=is_error)

    def call(self, name: str, given: dict[str, Any], output: str, *, is_error: bool = False) -> Agent:
        self.place.wait(10)
        call_id = f"c{self.session[:2]}{self._number}"
        self._add("assistant", [{"type": "tool_use", "id": call_id, "name": name, "input": given}])
        result = {"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": is_error}
        self._add("user", [result])
        return self

    def _add(self, kind: str, content: Any) -> None:
        self._number += 1
        at = datetime.fromtimestamp(self.place.now, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        record: dict[str, Any] = {
            "type": kind, "sessionId": self._below or self.session, "uuid": f"{self.session}-{self._number}",
            "cwd": str(self._folder), "gitBranch": "main", "version": "2.1.100",
            "parentUuid": f"{self.session}-{self._number - 1}" if self._number > 1 else None,
            "timestamp": f"{at}.{self._number % 1000:03}Z", "message": {"role": kind, "content": content},
        }  # fmt: skip
        if self._below:
            record |= {"agentId": self.session, "isSidechain": True}
        if kind == "assistant":
            record["message"] |= {"id": f"m{self._number}", "model": "claude-opus-4-5-20251101"}
        with self._path.open("a") as log:
            log.write(json.dumps(record) + "\n")
