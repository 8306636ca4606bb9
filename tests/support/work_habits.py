"""Logs of Claude Code with habits in them: one for each pattern that tips are about.

``python -m tests.support.work_habits`` writes the reports that tests compare with (``tests/cli/golden_reports``).
"""

from __future__ import annotations

import json
import tempfile
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.shell import Shell

GOLDEN = Path(__file__).parents[1] / "cli" / "golden_reports"
MAY = ("--since", "2026-05-01", "--until", "2026-05-31")
REPORTS = {
    "tips.txt": ("tips",),
    "tips.md": ("tips", "--md"),
    "cost-tips.txt": ("cost-tips",),
    "cost-tips.md": ("cost-tips", "--md"),
}
"""The words behind ``chronicle`` for each golden report."""
OPUS, SONNET = "claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929"
BEGIN = datetime(2026, 5, 4, 9, tzinfo=UTC)
LINT, CI = "mise run fmt && mise run lint", "mise run test:ci 2>&1 | tail -5"


class TimedLog:
    """A log of Claude Code in which time passes as it is told to."""

    def __init__(self, number: int, *, day: int = 0, cwd: str = "/w/tool", model: str = OPUS) -> None:
        self.session = str(uuid.UUID(int=number, version=4))
        self.at = BEGIN + timedelta(days=day)
        self._cwd, self._model = cwd, model
        self._lines: list[dict[str, Any]] = []

    def prompt(self, text: str, after_s: float = 60) -> TimedLog:
        """A prompt, so long after what came before."""
        self._add("user", text, after_s)
        return self

    def call(
        self, name: str, given: dict[str, Any], output: str, took_s: float = 1, *, is_error: bool = False
    ) -> TimedLog:
        """A call and its result."""
        call = {"type": "tool_use", "id": f"toolu_{self.session[:8]}{len(self._lines)}", "name": name, "input": given}
        self._add("assistant", [call], 3, {"input_tokens": 4, "output_tokens": 100, "cache_read_input_tokens": 20_000})
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": output, "is_error": is_error}
        self._add("user", [result], took_s)
        return self

    def answer(self, text: str = "Done.", *, read: int = 20_000, written: int = 0, output: int = 60) -> TimedLog:
        """An answer, with the tokens of its request that a cache gave and took."""
        usage = {
            "input_tokens": 4, "output_tokens": output, "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        }  # fmt: skip
        self._add("assistant", [{"type": "text", "text": text}], 5, usage, "end_turn")
        return self

    def _add(self, kind: str, content: Any, after_s: float, usage: Any = None, stop: str | None = None) -> None:
        self.at += timedelta(seconds=after_s)
        number, short = len(self._lines), self.session[-6:]
        more = (
            {"id": f"msg_{short}{number}", "model": self._model, "usage": usage, "stop_reason": stop} if usage else {}
        )
        self._lines.append(
            {
                "type": kind, "sessionId": self.session, "uuid": f"{short}{number}", "cwd": self._cwd,
                "parentUuid": f"{short}{number - 1}" if number else None, "gitBranch": "main", "version": "2.1.100",
                "timestamp": self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "message": {"role": kind, "content": content, **more},
            }
        )  # fmt: skip

    def put(self, home: Path) -> None:
        """Write it where Claude Code would."""
        path = home / ".claude" / "projects" / "-w-tool" / f"{self.session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(each) + "\n" for each in self._lines))


def put_habits(home: Path) -> None:
    """Write logs in which each pattern is once."""
    for log in (*_long_sessions(), *_working(), *_small()):
        log.put(home)


def habitual(folder: Path) -> Shell:
    """A machine in a folder, with logs of one month in which each pattern is once."""
    home = folder / "home"
    home.mkdir()
    put_habits(home)
    shell = Shell(home)
    assert shell("ingest").code == 0
    return shell


def _long_sessions() -> list[TimedLog]:
    """Two sessions that grow large and are continued after pauses, long enough for the cache to run out."""
    logs = [TimedLog(10, day=1), TimedLog(11, day=2)]
    for log in logs:
        log.prompt("Rewrite the importer").answer(written=130_000, read=0)
        for pause_s in (400, 3_000, 30):
            log.prompt(f"and the next part of it, {pause_s}", pause_s).answer(
                read=500 if pause_s > 300 else 130_000, written=131_000 if pause_s > 300 else 900
            )
        log.prompt("thanks for that").answer(read=132_000)
    return logs


def _working() -> list[TimedLog]:
    """Three days of edits that wait for leave, a linter that complains, long tests, and a file that is not there."""
    logs = [TimedLog(20 + day, day=day + 3) for day in range(3)]
    for number, log in enumerate(logs):
        log.prompt("Update the changelog and the version, please.")
        log.call(
            "Read", {"file_path": "/w/tool/.lint.yml"}, "File does not exist. Did you mean .lint.yaml?", is_error=True
        )
        for part in range(4 if number == 0 else 0):
            log.call(
                "Read",
                {"file_path": "/w/tool/src/big.py", "offset": 100 * part, "limit": 50},
                f"{part}→x\n" * (90 + part),
            )
        for edit in range(2):
            given = {"file_path": f"/w/tool/src/a{edit}.py", "old_string": "a", "new_string": "b"}
            log.call("Edit", given, "The file has been updated.", took_s=40 + 10 * number)
        for _ in range(2):
            log.call("Bash", {"command": LINT}, "Exit code 1\n2 issues:\n* errcheck: 2", is_error=True)
        log.call("Bash", {"command": CI}, "ok  all", took_s=75).answer(output=300)
    return logs


def _small() -> list[TimedLog]:
    """Questions that a dear model answered, and some that a cheaper one did."""
    logs = [TimedLog(30 + number, day=7, model=OPUS if number < 3 else SONNET) for number in range(5)]
    for number, log in enumerate(logs):
        log.prompt(f"What does function number {number} return?").answer("A list.", read=15_000, written=9_000)
    return logs


def printed(shell: Shell, name: str) -> str:
    """A report as it is compared."""
    return shell("chronicle", *REPORTS[name], *MAY, TZ="UTC", COLUMNS="100").out


def write_golden() -> None:
    """Write the reports of these logs."""
    with tempfile.TemporaryDirectory() as folder:
        shell = habitual(Path(folder))
        for name in REPORTS:
            (GOLDEN / name).write_text(printed(shell, name), "utf-8")


if __name__ == "__main__":
    write_golden()
