"""Sessions as every face lists them: values, which of them are asked for, and what they are as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args

import msgspec
from msgspec import Meta, Struct

from backstory.bounds import INTEGER_MAX, iso
from backstory.derive.naming import PRUNED, main_folder, pruned_words
from backstory.errors import BackstoryError, CursorUnknown, UnknownValue
from backstory.ids import session_keys
from backstory.lazy import lazy_module, lazy_regex
from backstory.store.tables.session_filter import ListFilter
from backstory.store.tables.sessions import Position, Sort

if TYPE_CHECKING:
    import base64
    from collections.abc import Sequence

    from backstory.derive import pricing
    from backstory.derive.pricing import Cost
    from backstory.store import Session
    from backstory.workspace.runs import running
    from backstory.workspace.runs.running import Meter
else:
    pricing = lazy_module("backstory.derive.pricing")
    base64, running = lazy_module("base64"), lazy_module("backstory.workspace.runs.running")

UID_SHOWN = 12
"""The most letters of a uid that are shown where no other session's begins with them."""


class SessionFilter(ListFilter, frozen=True, kw_only=True):
    """The sessions to list. Their project is that of the folder of the question."""

    everywhere: bool = False
    """Every project's, not only those of the folder that is asked from."""
    about: str | None = None
    """The words by which ``uids`` were chosen."""

    @property
    def is_narrow(self) -> bool:
        """True if sessions of the place are left out that a list shows unasked."""
        return any((*self.shared.values(), self.title, self.about))

    @property
    def is_chosen(self) -> bool:
        """True if only some sessions of the machine are asked for, whenever they were."""
        asked = (value for name, value in self.shared.items() if name not in ("since", "until"))
        return not self.everywhere or any((*asked, self.title, self.about))


END = "end"
"""The cursor behind the last session of every list: what is before it is the last page."""


class Page(Struct, frozen=True, kw_only=True):
    """The part of a list: a number of sessions (0 or less: all), from the top, behind a cursor or before one.

    A cursor is the ``start`` or ``end`` of a page: a place in the order, also when its session was removed since.
    ``sort``: the greatest come first; None: the last active do. ``counts``: False leaves out to count the whole list,
    which with a new filter takes longer than a page; ``total`` is then what the part has.
    """

    limit: int = 50
    after: str | None = None
    before: str | None = None
    sort: Sort | None = None
    counts: bool = True

    @property
    def most(self) -> int | None:
        """The most sessions that are to be read: one more than shown tells if others follow. None: all.

        Raises UnknownValue for a sort that there is not.
        """
        if self.sort is not None and self.sort not in (known := get_args(Sort)):
            raise UnknownValue("sort", str(self.sort), known)
        # More than SQLite counts are all.
        return self.limit + 1 if 0 < self.limit < INTEGER_MAX else None

    @property
    def cursor(self) -> PageCursor | None:
        """The place from which the part goes on; None: the beginning, or the end. Raises CursorUnknown."""
        if self.after is not None and self.before is not None:
            raise CursorUnknown(f"{self.after} {self.before}")
        text = self.after if self.before is None else self.before
        return None if text is None or text == self.before == END else PageCursor.read(text, self.sort)


class PageCursor(NamedTuple):
    """A place in a list that is sorted somehow: a position in one of its stores, of which only a hash is said."""

    sort: str | None
    store: int
    value: float | None
    last_active: Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | None
    uid: str

    @property
    def at(self) -> Position:
        """The position in its store."""
        return Position(self.value, self.last_active, self.uid)

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @classmethod
    def read(cls, text: str, sort: Sort | None) -> PageCursor:
        """Return the place that a text is of. Raises CursorUnknown, also for one of another order."""
        try:
            plain = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
            found = msgspec.json.decode(plain, type=cls)
        except (ValueError, msgspec.MsgspecError) as refused:
            raise CursorUnknown(text) from refused
        if found.sort != sort:
            raise CursorUnknown(text)
        return found


class ListedSession(Struct, frozen=True, kw_only=True):
    """One session of a list. ``label`` names it; times are in ms since 1970 except ``created`` (ISO 8601)."""

    label: str
    """Its number where commands here take that for this session, else so much of its uid as is its own."""
    heading: str
    """The subject in a line; '' for a session without a prompt."""
    project_name: str
    """No other project has this name."""
    repository_key: str
    """One for all sessions of its repository, else of its folder; for showing only, never for a scope."""
    uid: str
    number: str | None
    name: str
    title: str | None
    first_prompt: str | None
    agents: tuple[str, ...]
    project: str | None
    repository: str | None
    branch: str | None
    cwd: str | None
    said_folder: str
    """``cwd`` as its texts name it, also when that was moved since; '' if it is not known."""
    created: str
    last_active: int | None
    turns: int
    events: int
    completed: bool | None
    outcome: str | None
    """The end of its last turn; None while that is open, or the session runs."""
    duration_ms: int | None
    tokens: int | None
    """Tokens that its turns read and wrote, caches included, without subagents; None if nothing is known."""
    partial_tokens: int
    """The number of these turns of which a count is missing or was lost: ``tokens`` is at least the value given."""
    cost: Cost
    last_duration_ms: int | None
    last_cost: Cost
    """The cost of its last turn alone; the others are of all its turns."""
    meter: Meter | None
    """The fill of its context; None if that was not counted."""
    native_id: str | None
    parent_uid: str | None
    relation: str | None
    elsewhere: str | None
    """The store from elsewhere that it was taken from, or is in."""
    is_conflict: bool
    """True if it claims to be a session that the home store knows from another place."""
    is_running: bool
    pruned: tuple[str, ...] = ()
    """The words for what was pruned of it in part; empty: it is whole."""

    @property
    def pruned_words(self) -> str:
        """The same as a remark; '' for a session that is whole."""
        return pruned_words(self.pruned)

    @property
    def main_project(self) -> str | None:
        """Its project; of a worktree that an agent made, the project that this lies in."""
        return self.project and main_folder(self.project)

    @property
    def origin(self) -> str:
        """The words for a session that people elsewhere made, or that claims to be one of ours; '' for any other."""
        return "conflict" if self.is_conflict else "from elsewhere" if self.elsewhere is not None else ""

    @property
    def origin_mark(self) -> str:
        """The same as a mark before its heading."""
        return f"[{self.origin}] " if self.origin else ""

    @property
    def pruned_mark(self) -> str:
        """The same of one that was pruned in part."""
        return f"[{PRUNED}] " if self.pruned else ""


class LastTurn(Struct, frozen=True):
    """The cost and tokens of a session's last turn."""

    duration_ms: int | None
    cost: Cost


class SessionPage(Struct, frozen=True, kw_only=True):
    """A part of a list of sessions, in the order that was asked for."""

    sessions: tuple[ListedSession, ...]
    total: int
    """The number of sessions in the whole list; of the part if it was not to be counted."""
    has_more: bool
    """True if sessions follow."""
    has_earlier: bool = False
    """True if sessions come before; of a page behind a cursor this is taken for granted."""
    start: str | None = None
    """The cursor of its first session: ``Page(before=start)`` is the page before this one; None: it is empty."""
    end: str | None = None
    """The cursor of its last session, for ``Page(after=end)``."""


def listed(
    session: Session, cost: Cost, last: LastTurn | None, *, label: str, is_conflict: bool, is_running: bool
) -> ListedSession:
    """A session of a store as it is listed."""
    return ListedSession(
        label=label,
        heading=session.shown_title,
        project_name=session.shown_project,
        repository_key=session.repository_key,
        uid=session.uid,
        number=session.shown_number,
        name=session.name,
        title=session.title,
        first_prompt=session.first_prompt,
        agents=session.agents,
        project=session.project,
        repository=session.repository,
        branch=session.branch,
        cwd=session.cwd,
        said_folder=session.said_folder,
        created=session.created,
        last_active=session.last_active,
        turns=session.turns,
        events=session.events,
        completed=None if session.completed is None else bool(session.completed),
        outcome=None if is_running else session.outcome,
        duration_ms=session.duration_ms,
        tokens=session.tokens,
        partial_tokens=session.partial_tokens,
        cost=cost,
        last_duration_ms=None if last is None else last.duration_ms,
        last_cost=pricing.UNKNOWN if last is None else last.cost,
        meter=running.meter_of(session),
        native_id=session.native_id,
        parent_uid=session.parent_uid,
        relation=session.relation,
        elsewhere=session.elsewhere,
        is_conflict=is_conflict,
        is_running=is_running,
        pruned=tuple((session.pruned or "").split()),
    )


def page_as_json(page: SessionPage) -> dict[str, Any]:
    """A list of sessions as ``list --json`` prints it."""
    return {"sessions": [as_json(each) for each in page.sessions], "total": page.total, "has_more": page.has_more}


def as_json(session: ListedSession) -> dict[str, Any]:
    """A session as ``list --json`` and ``show --json`` print it."""
    return {
        **session_keys(session.uid, session.label),
        "number": session.number,
        "name": session.name or None,
        "title": session.heading or None,
        "first_prompt": session.first_prompt,
        "agents": session.agents,
        "project": session.project,
        "repository": session.repository,
        "branch": session.branch,
        "cwd": session.cwd,
        "created": session.created,
        "last_active": iso(session.last_active),
        "turn_count": session.turns,
        "event_count": session.events,
        "completed": session.completed,
        "outcome": session.outcome,
        "duration_ms": session.duration_ms,
        "total_tokens": session.tokens,
        "turns_with_partial_tokens": session.partial_tokens,
        **pricing.cost_as_json(session.cost),
        "last_duration_ms": session.last_duration_ms,
        "last_cost_usd": session.last_cost.usd,
        "context_used": None if session.meter is None else session.meter.used,
        "context_limit": None if session.meter is None else session.meter.limit,
        "context_percent": None if session.meter is None else session.meter.percent,
        "native_id": session.native_id,
        # One from elsewhere is not resumed before a person trusts it.
        "resume_command": None
        if session.elsewhere
        else resume_command(session.agents, session.native_id, session.number),
        "parent_uid": session.parent_uid,
        "relation": session.relation,
        "from_elsewhere": session.elsewhere is not None,
        "conflict": session.is_conflict,
        "pruned": session.pruned or None,
    }


# resume command -------------------------------------------------------------------------------------------------------
# The command that continues a session in its agent's own client, as lists and searches give it.


_ID = lazy_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def is_safe_id(native_id: str) -> bool:
    """Return True if an agent's own id is safe in a command and in a path: a log may hold anything."""
    return _ID.fullmatch(native_id) is not None


def is_resumable(agents_of: Sequence[str], native_id: str | None, number: str | None) -> bool:
    """Return True if a session is one that an agent's own client continues; no agent is imported to know it.

    False for sessions of our own runs, for subagents', and where the agent has no such client.
    """
    if number is not None or native_id is None or len(agents_of) != 1 or not is_safe_id(native_id):
        return False
    from backstory import agents  # lists that nobody reads as JSON look for no agent

    return agents.is_resumable(agents_of[0])


def resume_command(agents_of: Sequence[str], native_id: str | None, number: str | None) -> list[str] | None:
    """The agent's own command for a session that one agent's log holds, with its program by name.

    None where ``is_resumable`` says no.
    """
    if native_id is None or not is_resumable(agents_of, native_id, number):
        return None
    from backstory import agents

    try:
        part = agents.load(agents_of[0]).resume
    except BackstoryError:
        return None
    return None if part is None else part.command(part.executable, native_id)
