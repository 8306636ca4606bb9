"""Runs Codex: ``codex exec --json``, its prompt on stdin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.model import Permissions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from backstory.agents.codex.stream import StreamReader

PERMISSIONS = {
    Permissions.AGENT: [],
    Permissions.ASK: ["--sandbox", "read-only"],
    Permissions.EDIT: ["--sandbox", "workspace-write"],
    Permissions.ALL: ["--dangerously-bypass-approvals-and-sandbox"],
}


class Runs:
    """See ``contract.RunPart``."""

    executable = "codex"
    prompt_chars_max: int | None = 1_048_576

    def native_id(self, randomness: bytes) -> str | None:
        return None

    def command(
        self, executable: str, *, model: str | None, permissions: Permissions, native_id: str | None
    ) -> list[str]:
        words = [executable, "exec", "--json", "--skip-git-repo-check"]
        words += ["-m", model] if model else []
        return [*words, *PERMISSIONS[permissions], "-"]

    def answer_command(self, executable: str, *, model: str | None) -> list[str]:
        words = [executable, "exec", "--json", "--skip-git-repo-check", "--ephemeral", "--sandbox", "read-only"]
        return [*words, *(["-m", model] if model else []), "-"]

    def answer_folders(self, environ: Mapping[str, str], home: Path, folder: Path) -> list[Path]:
        return []

    def stream_reader(self) -> StreamReader:
        from backstory.agents.codex.stream import StreamReader  # costs 0.6 ms, which ingest need not pay

        return StreamReader()
