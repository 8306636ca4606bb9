"""Settings: ``config.toml`` in the home folder, and what a project's ``.backstory/`` may set of them.

First every setting with its type, its value unless set, and its meaning; then the files. A project's file comes with a
clone, so it may only choose among the agents that are installed, how long a run may be silent, and a smaller context.
What else it says, and what nobody knows, is named and ignored; only a wrong value in the person's own file is an error,
and only where it is asked for. What is set by command is checked before it is written.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from msgspec import Struct

from backstory.bounds import bytes_of
from backstory.errors import CannotWrite, ConfigBroken, SettingNotHere, SettingRefused, UnknownSetting, nearest
from backstory.lazy import lazy_regex
from backstory.model import Permissions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping


T = TypeVar("T")
S = TypeVar("S", bound="SettingsTable")


class Setting(Struct, Generic[T], frozen=True):
    """One setting: its key as ``table.name``, its value unless set, what it means, what it may be.

    ``least`` is of numbers; ``is_agent``: it names agents; ``form``: age or size. A table's attribute is its value.
    """

    key: str
    default: T
    meaning: str
    choices: tuple[str, ...] = ()
    least: int = 0
    is_agent: bool = False
    form: str = ""
    has_variable: bool = False
    """A variable of the environment stands in for the files: ``variable``."""

    @property
    def variable(self) -> str:
        """The variable's name: of ``store.enabled`` BACKSTORY_STORE_ENABLED."""
        return f"BACKSTORY_{self.key.upper().replace('.', '_')}"

    @overload
    def __get__(self, table: None, owner: type[SettingsTable]) -> Setting[T]: ...
    @overload
    def __get__(self, table: SettingsTable, owner: type[SettingsTable]) -> T: ...
    def __get__(self, table: SettingsTable | None, owner: type[SettingsTable]) -> Setting[T] | T:
        return self if table is None else cast("T", table.value_of(self.key))


class SettingsTable(Struct, frozen=True):
    """The settings of one table. ``value_of`` returns the value of a key, which has the type of its default."""

    value_of: Callable[[str], Any]


class IngestSettings(SettingsTable, frozen=True):
    """Settings of reading logs."""

    agents = Setting("ingest.agents", list[str](), "agents whose logs are read (empty: all)", is_agent=True)
    exclude = Setting("ingest.exclude", list[str](), "logs that are never read: shell patterns for the whole path")
    places = Setting("ingest.places", list[str](), "further places of logs: FOLDER, a home, or AGENT=FOLDER")
    is_automatic = Setting("ingest.auto", True, "whether `list`, `search` and `show` first import logs that are new")
    warns_of_secrets = Setting("secrets.warn", False, "whether `ingest` says when secrets are in what it read")


class RunSettings(SettingsTable, frozen=True):
    """Settings of running agents."""

    agent = Setting("run.agent", "", "default agent of `run` (empty: that of the session's last turn)", is_agent=True)
    permission_name = Setting(
        "run.permissions", "agent", "what a run may do without asking: agent (its own settings), ask, edit, all",
        tuple(each.value for each in Permissions))  # fmt: skip
    context_chars = Setting("run.context_chars", 500_000, "longest context, in characters")
    silence_s = Setting("run.silence_s", 3_600, "stop a run after this many silent seconds (0: never)")

    @property
    def permissions(self) -> Permissions:
        """The actions that a run may take without asking."""
        return Permissions(self.permission_name)


class CompactionSettings(SettingsTable, frozen=True):
    """Settings of compaction: the size from which the beginning of a session is summarised, and its agent."""

    chars = Setting("compaction.chars", 400_000, "summarise a context from this many characters on (0: never)")
    chars_for = Setting(
        "compaction.chars_for", dict[str, int](),
        "the same for an agent, or one of its models: AGENT=300000,AGENT/MODEL=350000")  # fmt: skip
    agent = Setting(
        "compaction.agent", "", "agent that writes summaries (empty: the agent of the session's last turn)",
        is_agent=True)  # fmt: skip
    model = Setting("compaction.model", "", "model that writes summaries (empty: the agent's own choice)")
    timeout_s = Setting("compaction.timeout_s", 600, "give up on a summary after this many seconds", least=1)

    def chars_of(self, agent: str, model: str | None) -> int:
        """From how many characters on the context of this agent and model is summarised; 0: never."""
        return self.chars_for.get(f"{agent}/{model}", self.chars_for.get(agent, self.chars))


class StoreSettings(SettingsTable, frozen=True):
    """True if there is a home store."""

    is_enabled = Setting(
        "store.enabled", True,
        "whether logs and runs are put into the home store (false: runs are kept in their project's store only)",
        has_variable=True,
    )  # fmt: skip


class IndexSettings(SettingsTable, frozen=True):
    """Settings of the search index, and of derived data."""

    is_enabled = Setting(
        "index.enabled", True, "whether there is a search index; after a change: backstory reindex", has_variable=True
    )
    repositories = Setting(
        "index.repositories", list[str](),
        "repositories that are indexed, by names or globs: app, me/*, github.com/me/app (empty: all); "
        "after a change: backstory reindex", has_variable=True,
    )  # fmt: skip


class PruneSettings(SettingsTable, frozen=True):
    """The rule of what each `ingest` prunes."""

    older = Setting(
        "prune.older", "", "`ingest` prunes what was last active longer ago: 90d, 1y (empty: no)", form="age"
    )
    to_size = Setting(
        "prune.to_size", "", "`ingest` prunes the oldest until the home store is no larger: 2GB (empty: no)",
        form="size")  # fmt: skip
    keep = Setting(
        "prune.keep", "", "what that leaves: prompts, summaries (and prompts), or named, the sessions with a name "
        "(empty: nothing)", ("", "prompts", "summaries", "named"))  # fmt: skip


class ListSettings(SettingsTable, frozen=True):
    """Settings of lists of sessions."""

    limit = Setting("list.limit", 50, "number of sessions that `list` shows (0: all)")
    face = Setting(
        "list.face", "picker", "what `backstory` alone opens on a terminal: picker, or tui (the screen)",
        ("picker", "tui"),
    )  # fmt: skip


class ScreenSettings(SettingsTable, frozen=True):
    """Settings of the screen, `backstory tui`."""

    enter = Setting(
        "screen.enter", "stage",
        "what Enter does with a prompt while an agent works: stage (stop it first) or queue (wait for its end)",
        ("stage", "queue"))  # fmt: skip
    notice = Setting(
        "screen.notice", "bell", "how the screen tells that a run has ended: bell, title (of the terminal) or off",
        ("bell", "title", "off"))  # fmt: skip
    theme = Setting(
        "screen.theme", "dark", "colours of the screen: dark, light, or terminal (those of the terminal itself)",
        ("dark", "light", "terminal"))  # fmt: skip


class SearchSettings(SettingsTable, frozen=True):
    """Settings of search."""

    limit = Setting("search.limit", 20, "number of sessions that `search` shows", least=1)


class McpSettings(SettingsTable, frozen=True):
    """Settings of the questions that agents may ask of history."""

    scope = Setting(
        "mcp.scope", "here",
        "sessions that `backstory mcp` answers from: here (the repository it is started in) or all", ("here", "all"),
    )  # fmt: skip


class SyncSettings(SettingsTable, frozen=True):
    """Settings of what may leave the machine."""

    is_enabled = Setting(
        "sync.enabled", False, "whether history may leave this machine at all; see `backstory sync --dry-run`",
        has_variable=True,
    )  # fmt: skip
    repositories = Setting(
        "sync.repositories", list[str](),
        "repositories whose sessions may leave: me/app (at github.com), HOST/OWNER/NAME, HOST/OWNER/*, a folder",
        has_variable=True,
    )  # fmt: skip
    has_board = Setting(
        "sync.board", False, "whether the context boards of these repositories may leave, too", has_variable=True
    )
    takes_steering = Setting(
        "sync.steer", False,
        "whether `sync --watch` hands messages that you send from the team server to your runs here",
        has_variable=True,
    )  # fmt: skip


TABLES = (
    IngestSettings, RunSettings, CompactionSettings, StoreSettings, IndexSettings, PruneSettings, ListSettings,
    ScreenSettings, SearchSettings, McpSettings, SyncSettings,
)  # fmt: skip
SETTINGS = tuple[Setting[Any], ...](each for of in TABLES for each in vars(of).values() if isinstance(each, Setting))
AGENT_PROGRAM = Setting(
    "agents.NAME", "", "program of the agent NAME: its whole path, or a name on PATH (empty: found on PATH)"
)


class TableOf(Generic[S]):
    """An attribute of ``Settings``: the values of a table."""

    def __init__(self, table: type[S]) -> None:
        self._table = table

    def __get__(self, settings: Settings, owner: type[Settings]) -> S:
        return self._table(settings.value_of)


class Settings(SettingsTable, frozen=True):
    """The value of every setting, by table and name: ``settings.run.silence_s``."""

    ingest = TableOf(IngestSettings)
    run = TableOf(RunSettings)
    compaction = TableOf(CompactionSettings)
    store = TableOf(StoreSettings)
    index = TableOf(IndexSettings)
    prune = TableOf(PruneSettings)
    list = TableOf(ListSettings)
    screen = TableOf(ScreenSettings)
    search = TableOf(SearchSettings)
    mcp = TableOf(McpSettings)
    sync = TableOf(SyncSettings)

    def program_of(self, agent: str) -> str:
        """The program that was set for an agent; nothing where it is the one on PATH."""
        return cast("str", self.value_of(f"agents.{agent}"))


# the file -----------------------------------------------------------------------------------------------------------


FILE_NAME = "config.toml"
OWN_BYTES_MAX, PROJECT_BYTES_MAX = 1024 * 1024, 16 * 1024
"""The size of a clone's file that is parsed in half a second, whatever it contains."""
NUMBER_MAX = 2**31 - 1
REMARKS_MAX = 5
"""The most ignored settings that are named one by one."""
KEY_SHOWN, WHY_SHOWN = 60, 200
ONLY_OWN, UNKNOWN = "only your own config may set it", "there is no such setting"
AGENT, CONTEXT_CHARS, SILENCE_S = RunSettings.agent.key, RunSettings.context_chars.key, RunSettings.silence_s.key
OF_PROJECTS = frozenset({AGENT, CONTEXT_CHARS, SILENCE_S})
"""Settings that a project's file may contain, within bounds."""
NO_PROGRAM = "a program is its whole path, or a name on PATH; from the current folder a clone could bring its own"
_AGE = lazy_regex(r"[1-9]\d* ?(?:d|days?|w|weeks?|mo|months?|y|years?)")
_BY_KEY = {setting.key: setting for setting in SETTINGS}
_BOOLS = {
    "true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip
_TYPES = {
    bool: "true or false", int: "a whole number", str: "a text", list: "a list of texts",
    dict: "names with whole numbers: NAME=NUMBER, …",
}  # fmt: skip


class _Unusable(Exception):
    """A file that gives no settings, and why."""


def _make_private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)


class Config:
    """The settings in force, and the files they come from. ``own``: the person's file, ``project``: the project's.

    ``is_installed`` is asked of an agent that the project chooses, with the program that the person set for it.
    ``agents`` gives the agents there are; it is called only where a setting names one.
    ``environ``: its variables stand in for what the files say of some settings (``Setting.has_variable``).
    ``make_folder`` makes the folder of a file that is not there yet; it raises OSError.
    """

    def __init__(
        self, own: Path, project: Path | None = None, *,
        is_installed: Callable[[str, str], bool] = lambda name, program: True,
        agents: Callable[[], Collection[str]] | None = None,
        environ: Mapping[str, str] | None = None,
        make_folder: Callable[[Path], None] = _make_private_folder,
    ) -> None:  # fmt: skip
        # In the home folder's own project both may be one file.
        is_own = project is not None and os.path.realpath(project) == os.path.realpath(own)
        self.own, self.project = own, None if is_own else project
        self._is_installed, self._agents, self._make_folder = is_installed, agents, make_folder
        self._wrong: dict[str, str] = {}
        self._own: dict[str, Any] = {}
        self._projects: dict[str, Any] = {}
        self._environ = environ or {}
        self._ignored: list[str] = []
        self._take_own()
        if self.project is not None:
            self._take_projects(self.project)

    def _take_own(self) -> None:
        for key, value in _read_own(self.own).items():
            if (setting := _setting(key)) is None:
                near = nearest(key, _BY_KEY)
                self._ignore(self.own, key, f"{UNKNOWN}; {near} is one" if near else UNKNOWN)
            elif wrong := _wrong(setting, value) or self._wrong_agent(setting, value):
                self._wrong[key] = wrong
            else:
                self._own[key] = value

    def _take_projects(self, file: Path) -> None:
        try:
            values = _read_projects(file)
        except _Unusable as refused:
            self._ignored.append(f"{file} is ignored: {refused}.")
            return
        for key, value in values.items():
            if why := self._refused(key, value):
                self._ignore(file, key, why)
            else:
                self._projects[key] = value

    def _refused(self, key: str, value: Any) -> str | None:
        """Return the reason that a project may not set this; None if it may."""
        setting = _setting(key)
        if setting is None:
            return UNKNOWN
        if key not in OF_PROJECTS:
            return ONLY_OWN
        if wrong := _wrong(setting, value):
            return wrong
        if key == AGENT and value and not self._has_agent(value):
            return "no agent of this name is installed"
        if key == CONTEXT_CHARS and value > (most := self._own_value(key)):
            return f"a project may only lower it, and it is {most}"
        return None

    def _wrong_agent(self, setting: Setting[Any], value: Any) -> str | None:
        """Return the error in the agents that a setting names; None if there is none."""
        if not setting.is_agent or self._agents is None:
            return None
        named = [name for name in ([value] if isinstance(value, str) else value) if name]
        known = self._agents() if named else ()
        return next((f"no agent is called {name!r:.{KEY_SHOWN}}" for name in named if name not in known), None)

    def _has_agent(self, name: str) -> bool:
        return self._is_installed(name, self._own_value(f"agents.{name}") if name.isidentifier() else "")

    def _own_value(self, key: str) -> Any:
        return self._own.get(key, _known(key).default)

    def _ignore(self, file: Path, key: str, why: str) -> None:
        named = key if _setting(key) is not None else repr(key)
        self._ignored.append(f"{named:.{KEY_SHOWN}} in {file} is ignored: {why}.")

    @property
    def remarks(self) -> list[str]:
        """Remarks on settings that are ignored."""
        more = len(self._ignored) - REMARKS_MAX
        return self._ignored[:REMARKS_MAX] + ([f"… and {more} more settings are ignored."] if more > 0 else [])

    def get(self, key: str) -> Any:
        """The value of a setting.

        Raises UnknownSetting, ConfigBroken where the person's own file is wrong, SettingRefused where a variable is.
        """
        if (said := self._variable(key)) is not None:
            try:
                return parse(key, said)
            except SettingRefused:
                raise SettingRefused(_known(key).variable, said, self.wrong(key) or "") from None
        own = self._own_value(key)
        if key in self._wrong:
            raise ConfigBroken(self.own, f"{key}: {self._wrong[key]}")
        return self._projects.get(key, own)

    @property
    def settings(self) -> Settings:
        """The same as typed values, each read when it is asked for: ``settings.run.silence_s``."""
        return Settings(self.get)

    def wrong(self, key: str) -> str | None:
        """Return the error in the value of the person's own file, or of a variable; None if there is none."""
        if (said := self._variable(key)) is not None:
            return _wrong(_known(key), parse_as(_known(key).default, said))
        return self._wrong.get(key)

    def _variable(self, key: str) -> str | None:
        """Return the value of a setting in the environment; None if there is none."""
        setting = _setting(key)
        return self._environ.get(setting.variable) or None if setting is not None and setting.has_variable else None

    def origin(self, key: str) -> Path | str | None:
        """The file, or the variable, that sets it; None when neither does."""
        if self._variable(key) is not None:
            return _known(key).variable
        return self.project if key in self._projects else self.own if key in self._own else None

    def every_setting(self, agents: Iterable[str] = ()) -> Iterator[Setting[Any]]:
        """Every setting, and the programs of these agents and of those for which one is set."""
        yield from SETTINGS
        programs = [f"agents.{name}" for name in agents]
        for key in dict.fromkeys([*programs, *self._own, *self._wrong]):
            if key not in _BY_KEY:
                yield Setting(key, AGENT_PROGRAM.default, AGENT_PROGRAM.meaning.replace("NAME", key.partition(".")[2]))

    def set(self, key: str, text: str, *, here: bool = False) -> Path:
        """Set a value as it is typed, for the person or only ``here``; gives the file. Raises as ``write`` does.

        Raises UnknownSetting, SettingRefused for a value that it cannot have, SettingNotHere for what would be ignored.
        """
        value = parse(key, text)
        known = [*_BY_KEY, *(f"agents.{name}" for name in self._agents())] if self._agents else [key]
        if key not in known:
            raise UnknownSetting(key, known)
        if wrong := self._wrong_agent(_known(key), value):
            raise SettingRefused(key, text, wrong)
        if not here or self.project is None:
            write(self.own, key, value, make_folder=self._make_folder)
            return self.own
        if why := self._refused(key, value):
            raise SettingNotHere(key, why)
        write(self.project, key, value, make_folder=self._make_folder, is_projects=True)
        return self.project


def parse(key: str, text: str) -> Any:
    """A value given on the command line, in the setting's type: lists are separated by commas.

    Raises UnknownSetting, SettingRefused.
    """
    setting = _known(key)
    value = parse_as(setting.default, text)
    if wrong := _wrong(setting, value):
        raise SettingRefused(key, text, wrong)
    return value


def parse_as(default: Any, text: str) -> Any:
    """A text as a value of the same type as another; as it is where it is none of that type."""
    if isinstance(default, dict):
        return _pairs(text)
    if isinstance(default, list):
        return [each.strip() for each in text.split(",") if each.strip()]
    if isinstance(default, bool):
        return _BOOLS.get(text.lower(), text)
    try:
        return type(default)(text)
    except ValueError:
        return text


def _pairs(text: str) -> Any:
    """``NAME=300000,OTHER=350000`` as a dict of numbers; the text itself where it is none."""
    pairs = [each.partition("=") for each in text.split(",") if each.strip()]
    numbers = {name.strip(): number.strip() for name, _, number in pairs}
    return {name: int(each) for name, each in numbers.items()} if all(map(str.isdecimal, numbers.values())) else text


def write(
    file: Path, key: str, value: Any, *, make_folder: Callable[[Path], None] = _make_private_folder,
    is_projects: bool = False,
) -> None:  # fmt: skip
    """Set one key in a file, whose other lines and comments stay as they are."""
    import tomlkit

    _known(key)
    try:
        text = _text(file, PROJECT_BYTES_MAX) if is_projects and _is_inside(file) else _text(file, OWN_BYTES_MAX)
        _values_in(text)
    except _Unusable as refused:
        raise ConfigBroken(file, str(refused)) from refused
    document = tomlkit.parse(text)
    table, _, name = key.partition(".")
    if not isinstance(document.setdefault(table, tomlkit.table()), dict):
        raise ConfigBroken(file, f"{table} is no table")
    document[table][name] = value
    try:
        make_folder(file.parent)
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
        file.write_text(tomlkit.dumps(document), "utf-8")
        file.chmod(0o600)
    except OSError as refused:
        raise CannotWrite(file, refused.strerror or str(refused)) from refused


# files --------------------------------------------------------------------------------------------------------


def _read_own(file: Path) -> Mapping[str, Any]:
    try:
        return _values_in(_text(file, OWN_BYTES_MAX))
    except _Unusable as refused:
        raise ConfigBroken(file, str(refused)) from refused


def _read_projects(file: Path) -> Mapping[str, Any]:
    _is_inside(file)
    return _values_in(_text(file, PROJECT_BYTES_MAX))


def _is_inside(file: Path) -> bool:
    """Return True if a project's file lies in the project; raises _Unusable where links lead out of it."""
    # A clone may bring a link to any file of the user's.
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(file.parent.parent)):
        raise _Unusable("it is a link that leads out of the project")
    return True


def _text(file: Path, bytes_max: int) -> str:
    """Return the text of a file, '' if there is none; never waits for a pipe."""
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise _Unusable("it is no regular file")
            data = opened.read(bytes_max + 1)
        if len(data) > bytes_max:
            raise _Unusable(f"it is larger than {bytes_max >> 10} KB")
        return data.decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as refused:
        raise _Unusable(getattr(refused, "strerror", None) or "it is not UTF-8 text") from refused


def _values_in(text: str) -> dict[str, Any]:
    """The values of a file's tables by ``table.name``."""
    if not text:
        return {}
    import tomllib  # only where there is a file

    try:
        tables = tomllib.loads(text)
    except RecursionError as refused:
        raise _Unusable("it is nested too deeply") from refused
    except ValueError as refused:
        # Also of a number with thousands of digits.
        raise _Unusable(f"{refused!s:.{WHY_SHOWN}}") from refused
    values: dict[str, Any] = {}
    for table, content in tables.items():
        for name, value in content.items() if isinstance(content, dict) else [("", content)]:
            values[f"{table}.{name}" if name else table] = value
    return values


def _wrong(setting: Setting[Any], value: Any) -> str | None:
    """Return the error in a value; None if there is none."""
    if type(value) is not type(setting.default) or (
        isinstance(value, list) and not all(isinstance(each, str) for each in value)
    ):
        return f"it must be {_TYPES[type(setting.default)]}"
    if isinstance(value, dict) and (wrong := _wrong_numbers(value)):
        return wrong
    if type(value) is int and not setting.least <= value <= NUMBER_MAX:
        return f"it must be from {setting.least} to {NUMBER_MAX}"
    if setting.choices and value not in setting.choices:
        choices = ", ".join(each or "''" for each in setting.choices)
        return f"it must be one of {choices}"
    if value and (wrong := _wrong_form(setting.form, value)):
        return wrong
    return NO_PROGRAM if setting is AGENT_PROGRAM and _is_relative(value) else None


def _wrong_form(form: str, value: str) -> str | None:
    if form == "age" and not _AGE.fullmatch(value):
        return "it must be an age of at least a day: 90d, 6mo, 1y"
    is_small = form == "size" and (bytes_of(value) or 0) < 1_000_000
    return "it must be a size of at least 1MB: 500MB, 2GB" if is_small else None


def _wrong_numbers(values: dict[Any, Any]) -> str | None:
    wrong = (name for name, value in values.items() if type(value) is not int or not 0 <= value <= NUMBER_MAX)
    return next((f"{name!s:.{KEY_SHOWN}} must be a whole number from 0 to {NUMBER_MAX}" for name in wrong), None)


def _is_relative(program: str) -> bool:
    """Return True if a program would be looked for from the current folder on."""
    return program != Path(program).name and not Path(program).is_absolute()


def _known(key: str) -> Setting[Any]:
    if (found := _setting(key)) is None:
        raise UnknownSetting(key, [*_BY_KEY, AGENT_PROGRAM.key])
    return found


def _setting(key: str) -> Setting[Any] | None:
    table, _, name = key.partition(".")
    return AGENT_PROGRAM if table == "agents" and name.isidentifier() else _BY_KEY.get(key)
