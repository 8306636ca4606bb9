"""Every setting: its type, what it is unless set, what it means; and their values, typed, a class for each table.

A value is asked for only when its attribute is read: what is wrong with one setting concerns nobody who needs others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from msgspec import Struct

from backstory.model import Permissions

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Setting(Struct, Generic[T], frozen=True):
    """One setting: its key as ``table.name``, its value unless set, what it means, what it may be.

    ``least`` is of numbers; ``is_agent``: it names agents. As an attribute of a table it is its value there.
    """

    key: str
    default: T
    meaning: str
    choices: tuple[str, ...] = ()
    least: int = 0
    is_agent: bool = False
    has_variable: bool = False
    """A variable of the environment stands in for the files: ``variable``."""

    @property
    def variable(self) -> str:
        """The variable's name: of ``store.enabled`` BACKSTORY_STORE_ENABLED."""
        return f"BACKSTORY_{self.key.upper().replace('.', '_')}"

    @overload
    def __get__(self, table: None, owner: type[Table]) -> Setting[T]: ...
    @overload
    def __get__(self, table: Table, owner: type[Table]) -> T: ...
    def __get__(self, table: Table | None, owner: type[Table]) -> Setting[T] | T:
        return self if table is None else cast("T", table.value_of(self.key))


class Table(Struct, frozen=True):
    """The settings of one table. ``value_of`` returns the value of a key, which has the type of its default."""

    value_of: Callable[[str], Any]


class IngestSettings(Table, frozen=True):
    """Settings of reading logs."""

    agents = Setting("ingest.agents", list[str](), "agents whose logs are read (empty: all)", is_agent=True)
    exclude = Setting("ingest.exclude", list[str](), "logs that are never read: shell patterns for the whole path")
    is_automatic = Setting("ingest.auto", True, "whether `list`, `search` and `show` first import logs that are new")


class RunSettings(Table, frozen=True):
    """Settings of running agents."""

    agent = Setting(
        "run.agent", "", "default agent of `run` (empty: the agent of the session's last turn)", is_agent=True
    )
    permission_name = Setting(
        "run.permissions",
        "agent",
        "what a run may do without asking: agent (its own settings), ask, edit, all",
        tuple(each.value for each in Permissions),
    )
    context_chars = Setting("run.context_chars", 500_000, "longest context, in characters")
    silence_s = Setting("run.silence_s", 3_600, "stop a run after this many silent seconds (0: never)")

    @property
    def permissions(self) -> Permissions:
        """The actions that a run may take without asking."""
        return Permissions(self.permission_name)


class CompactionSettings(Table, frozen=True):
    """Settings of compaction: the size from which the beginning of a session is summarised, and its agent."""

    chars = Setting("compaction.chars", 400_000, "summarise a context from this many characters on (0: never)")
    chars_for = Setting(
        "compaction.chars_for",
        dict[str, int](),
        "the same for an agent, or one of its models: AGENT=300000,AGENT/MODEL=350000",
    )
    agent = Setting(
        "compaction.agent",
        "",
        "agent that writes summaries (empty: the agent of the session's last turn)",
        is_agent=True,
    )
    model = Setting("compaction.model", "", "model that writes summaries (empty: the agent's own choice)")
    timeout_s = Setting("compaction.timeout_s", 600, "give up on a summary after this many seconds", least=1)

    def chars_of(self, agent: str, model: str | None) -> int:
        """From how many characters on the context of this agent and model is summarised; 0: never."""
        return self.chars_for.get(f"{agent}/{model}", self.chars_for.get(agent, self.chars))


class StoreSettings(Table, frozen=True):
    """True if there is a home store."""

    is_enabled = Setting(
        "store.enabled",
        True,
        "whether logs and runs are put into the home store (false: runs are kept in their project's store only)",
        has_variable=True,
    )


class IndexSettings(Table, frozen=True):
    """Settings of the search index, and of derived data."""

    is_enabled = Setting(
        "index.enabled", True, "whether there is a search index; after a change: backstory reindex", has_variable=True
    )
    repositories = Setting(
        "index.repositories",
        list[str](),
        "repositories that are indexed, by names or globs: app, me/*, github.com/me/app (empty: all); "
        "after a change: backstory reindex",
        has_variable=True,
    )


class ListSettings(Table, frozen=True):
    """Settings of lists of sessions."""

    limit = Setting("list.limit", 50, "number of sessions that `list` shows (0: all)")


class SearchSettings(Table, frozen=True):
    """Settings of search."""

    limit = Setting("search.limit", 20, "number of sessions that `search` shows", least=1)


class McpSettings(Table, frozen=True):
    """Settings of the questions that agents may ask of history."""

    scope = Setting(
        "mcp.scope",
        "here",
        "sessions that `backstory mcp` answers from: here (the repository it is started in) or all",
        ("here", "all"),
    )


SETTINGS: tuple[Setting[Any], ...] = (
    IngestSettings.agents, IngestSettings.exclude, IngestSettings.is_automatic, RunSettings.agent,
    RunSettings.permission_name, RunSettings.context_chars, RunSettings.silence_s, CompactionSettings.chars,
    CompactionSettings.chars_for, CompactionSettings.agent, CompactionSettings.model, CompactionSettings.timeout_s,
    StoreSettings.is_enabled, IndexSettings.is_enabled, IndexSettings.repositories,
    ListSettings.limit,
    SearchSettings.limit, McpSettings.scope,
)  # fmt: skip
AGENT_PROGRAM = Setting(
    "agents.NAME",
    "",
    "program of the agent NAME: its whole path, or a name on PATH (empty: found on PATH)",
)


class Settings(Table, frozen=True):
    """The value of every setting, by table and name: ``settings.run.silence_s``."""

    @property
    def ingest(self) -> IngestSettings:
        """Settings of reading logs."""
        return IngestSettings(self.value_of)

    @property
    def run(self) -> RunSettings:
        """Settings of running agents."""
        return RunSettings(self.value_of)

    @property
    def compaction(self) -> CompactionSettings:
        """Settings of compaction: the size from which the beginning of a session is summarised, and its agent."""
        return CompactionSettings(self.value_of)

    @property
    def store(self) -> StoreSettings:
        """True if there is a home store."""
        return StoreSettings(self.value_of)

    @property
    def index(self) -> IndexSettings:
        """Settings of the search index, and of derived data."""
        return IndexSettings(self.value_of)

    @property
    def list(self) -> ListSettings:
        """Settings of lists of sessions."""
        return ListSettings(self.value_of)

    @property
    def search(self) -> SearchSettings:
        """Settings of search."""
        return SearchSettings(self.value_of)

    @property
    def mcp(self) -> McpSettings:
        """Settings of the questions that agents may ask of history."""
        return McpSettings(self.value_of)

    def program_of(self, agent: str) -> str:
        """The program that was set for an agent; nothing where it is the one on PATH."""
        return cast("str", self.value_of(f"agents.{agent}"))
