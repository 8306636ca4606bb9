"""Settings: ``config.toml`` in the home folder, then in the project's ``.backstory/``; the nearer one wins.

Every setting is here with its type, what it is unless set, and what it means. A key that is not here is an
error that names it, in whichever file it stands.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.errors import CannotWrite, ConfigBroken, UnknownSetting

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FILE_NAME = "config.toml"


class Setting(Struct, frozen=True):
    """One setting: its key as ``table.name``, its value unless set, what it means."""

    key: str
    default: Any
    meaning: str


SETTINGS = (
    Setting("ingest.agents", [], "agents whose logs are read; empty = all that are known"),
    Setting("ingest.exclude", [], "logs that are never read: shell patterns for their whole path"),
    Setting("run.agent", "", "the agent that `run` uses unless told; empty = that of the session's last turn"),
    Setting("run.permissions", "agent", "what a run may do without asking: agent (its own settings), ask, edit, all"),
    Setting("run.context_chars", 400_000, "how much of a session a run is told at most, in characters"),
    Setting("run.silence_s", 3_600, "after so many seconds without a word a run is stopped; 0 = never"),
    Setting("list.limit", 50, "how many sessions `list` shows unless told"),
    Setting("search.limit", 20, "how many sessions `search` shows unless told"),
)
AGENT_PROGRAM = Setting("agents.NAME", "", "the program that runs the agent NAME; empty = the one on PATH")
_BY_KEY = {setting.key: setting for setting in SETTINGS}


class Config:
    """The settings in force, and the files they come from."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = tuple(files)
        self._values: dict[str, tuple[Any, Path]] = {}
        for file in files:
            for key, value in _read(file).items():
                self._values[key] = (value, file)

    def get(self, key: str) -> Any:
        """The value of a setting; raises UnknownSetting."""
        default = _known(key).default
        return self._values.get(key, (default, None))[0]

    def origin(self, key: str) -> Path | None:
        """The file that sets it; None when no file does."""
        return self._values.get(key, (None, None))[1]


def parse(key: str, text: str) -> Any:
    """A value given on the command line, in the setting's type: lists are separated by commas."""
    default = _known(key).default
    if isinstance(default, list):
        return [each.strip() for each in text.split(",") if each.strip()]
    try:
        return type(default)(text)
    except ValueError as refused:
        raise UnknownSetting(f"{key} = {text}", [f"{key} (a {type(default).__name__})"]) from refused


def write(file: Path, key: str, value: Any) -> None:
    """Set one key in a file, whose other lines and comments stay as they are."""
    import tomlkit

    from backstory.store.private import make_folder

    _known(key)
    _read(file)
    document = tomlkit.parse(file.read_text("utf-8")) if file.exists() else tomlkit.document()
    table, _, name = key.partition(".")
    if table not in document:
        document[table] = tomlkit.table()
    document[table][name] = value
    try:
        make_folder(file.parent)
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
        file.write_text(tomlkit.dumps(document), "utf-8")
        file.chmod(0o600)
    except OSError as refused:
        raise CannotWrite(file, refused.strerror or str(refused)) from refused


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as refused:
        raise ConfigBroken(file, str(refused)) from refused
    import tomllib  # only where there is a file

    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as refused:
        raise ConfigBroken(file, str(refused)) from refused
    values = {}
    for table, content in tables.items():
        for name, value in content.items() if isinstance(content, dict) else [("", content)]:
            key = f"{table}.{name}" if name else table
            setting = _setting(key)
            if setting is None:
                raise ConfigBroken(file, f"there is no setting {key!r} (known: {', '.join(_BY_KEY)})")
            if type(value) is not type(setting.default):
                raise ConfigBroken(file, f"{key} must be a {type(setting.default).__name__}")
            if isinstance(value, list) and not all(isinstance(each, str) for each in value):
                raise ConfigBroken(file, f"{key} must be a list of texts")
            values[key] = value
    return values


def _known(key: str) -> Setting:
    found = _setting(key)
    if found is None:
        raise UnknownSetting(key, [*_BY_KEY, AGENT_PROGRAM.key])
    return found


def _setting(key: str) -> Setting | None:
    table, _, name = key.partition(".")
    return AGENT_PROGRAM if table == "agents" and name.isidentifier() else _BY_KEY.get(key)
