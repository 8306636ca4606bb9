"""A run is ``claude -p`` with ``stream-json``, under a session id that we choose."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.agents import jsonl, numbers
from backstory.model import Permissions, RunFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from backstory.agents.claude.stream import StreamReader

PERMISSIONS = {
    Permissions.AGENT: [],
    Permissions.ASK: ["--permission-mode", "default"],
    Permissions.EDIT: ["--permission-mode", "acceptEdits"],
    Permissions.ALL: ["--dangerously-skip-permissions"],
}


class Runs:
    """See ``contract.RunPart``."""

    executable = "claude"
    prompt_chars_max: int | None = None

    def native_id(self, randomness: bytes) -> str | None:
        return str(uuid.UUID(bytes=randomness[:16], version=4))

    def command(
        self, executable: str, *, model: str | None, permissions: Permissions, native_id: str | None
    ) -> list[str]:
        words = [executable, "-p", "--verbose", "--output-format", "stream-json", "--include-partial-messages"]
        words += ["--session-id", native_id] if native_id else []
        words += ["--model", model] if model else []
        return words + PERMISSIONS[permissions]

    def answer_command(self, executable: str, *, model: str | None) -> list[str]:
        words = [executable, "-p", "--verbose", "--output-format", "stream-json", "--no-session-persistence"]
        # No tools, not even those of MCP servers, and no commands that a prompt could name.
        words += ["--tools", "", "--strict-mcp-config", "--disable-slash-commands"]
        return words + (["--model", model] if model else [])

    def answer_folders(self, environ: Mapping[str, str], home: Path, folder: Path) -> list[Path]:
        from backstory.agents.claude import places, resume  # an import of logs needs neither

        made = [root.folder / resume.project_folder(str(folder)) for root in places.log_roots(environ, home)]
        return [path for each in made for path in (each / "memory", each)]

    def stream_reader(self) -> StreamReader:
        from backstory.agents.claude.stream import StreamReader  # costs 2 ms, which reading logs need not pay

        return StreamReader()


# own log --------------------------------------------------------------------------------------------------------------
# Reads the times of records that ``claude -p`` prints from the log of the run. They share their uuids.


class _Stamp(Struct):
    uuid: str | None = None
    timestamp: Any = None


_decoder = msgspec.json.Decoder(_Stamp)


class OwnLogs:
    """See ``contract.OwnLogPart``."""

    def run_facts(self, stream: Iterable[tuple[int, bytes]], log: Iterable[bytes]) -> RunFacts:
        stamps = (stamp for line in log for stamp in _stamps_on(line))
        logged = {stamp.uuid: numbers.time_ms(stamp.timestamp) for stamp in stamps if stamp.uuid}
        times: dict[int, int] = {}
        for offset, line in stream:
            for stamp in _stamps_on(line):
                at = logged.get(stamp.uuid or "")
                if at is not None:
                    times[offset] = at
        return RunFacts(times=times)


def _stamps_on(line: bytes) -> Iterator[_Stamp]:
    try:
        yield from jsonl.decode(line, _decoder)
    except jsonl.NotJson:
        return
