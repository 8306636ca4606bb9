"""Handing a session over to ``claude --resume``.

The client looks for a session's log only in the folder that is named like the real path of the folder it is started
in. It deletes logs whose mtime is more than 30 days old, a few seconds after its own start.
"""

from __future__ import annotations

from pathlib import Path, PurePath

import msgspec
from msgspec import Struct

from backstory.agents.client_resume import ClientResume
from backstory.agents.contract import InUse
from backstory.lazy import lazy_regex

PROJECTS = "projects"
NAME_UNITS_MAX = 200
"""A longer name of a project's folder is cut off and ends in a hash of the path."""
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_OTHER = lazy_regex("[^A-Za-z0-9]")


class LiveSession(Struct):
    """``sessions/PID.json``: what each running client says about itself."""

    pid: int
    session_id: str = msgspec.field(name="sessionId")
    started: str | None = msgspec.field(name="procStart", default=None)


class Resuming(ClientResume):
    """See ``contract.ResumePart``."""

    executable, _word = "claude", "--resume"

    def log_names(self, relpath: PurePath, folder: str) -> list[PurePath]:
        match relpath.parts:
            case (first, _, *below) if first == PROJECTS and below:
                return [PurePath(PROJECTS, project_folder(folder), *below)]
        return []

    def in_use(self, root: Path, native_id: str) -> list[InUse]:
        found = []
        for path in sorted((root / "sessions").glob("[0-9]*.json")):
            try:
                live = msgspec.json.decode(path.read_bytes(), type=LiveSession)
            except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
                continue
            if live.session_id == native_id:
                found.append(InUse(pid=live.pid, birth=live.started))
        return found


def project_folder(folder: str) -> str:
    """The name of the folder with the logs of what ran in a folder, whose real path is given.

    The client counts and replaces UTF-16 units: an emoji becomes two hyphens.
    """
    units = _utf16_units(folder)
    name = _OTHER.sub("-", "".join(map(chr, units)))
    return name if len(name) <= NAME_UNITS_MAX else f"{name[:NAME_UNITS_MAX]}-{_hash(units)}"


def _utf16_units(text: str) -> list[int]:
    data = text.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(data[at : at + 2], "little") for at in range(0, len(data), 2)]


def _hash(units: list[int]) -> str:
    """The client's hash of a text: 32 bits, signed, of which the absolute value is written in base 36."""
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >= 1 << 31 else value)
    digits = ""
    while value:
        value, digit = divmod(value, len(DIGITS))
        digits = DIGITS[digit] + digits
    return digits or "0"
