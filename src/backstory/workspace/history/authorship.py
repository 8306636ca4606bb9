"""Answers from the stores of a place: who changed a file, made a commit, or named a pull request.

Every act is told of the session that is listed: of a subagent's, its parent, beside its own record. A call that several
sessions hold, because one was resumed or forked, is of the one with the smallest uid, where it was first.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import agents
from backstory.ask import authorship
from backstory.derive import deeds, shell_parse, written_lines
from backstory.derive.authorship import SECOND_MS
from backstory.derive.check_programs import DeedKind
from backstory.derive.git_values import UNCOMMITTED
from backstory.lazy import lazy_regex
from backstory.model import Tool, ToolCall, ToolResult
from backstory.store.tables import sessions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backstory.ask.authorship import Doing, FileTouch
    from backstory.derive.git_values import Commit
    from backstory.derive.written_lines import WrittenLines
    from backstory.export.full_form import FullForms
    from backstory.store import Store, StoredEvent
    from backstory.workspace.history.listing import Listing

TRAILER = lazy_regex(r"^[ \t]*([A-Za-z][A-Za-z0-9-]{1,40}):[ \t]+(\S.{0,300}?)[ \t]*$")
_EMAIL = lazy_regex(r"<([^<>\s]+@[^<>\s]+)>\s*$")
_MADE = lazy_regex(r"^\[[^\[\]\n]{1,300} ([0-9a-f]{7,64})\] ")
_CREATES = ("create_pull_request", "create_merge_request", "createpullrequest", "createmergerequest")


class Act(Struct, frozen=True, kw_only=True):
    """A record at which somebody did something. Times in ms since 1970; None where nobody knows.

    ``uid``: the session that is listed, ``turn_seq``: the record of its turn's prompt. ``seq`` is the record itself, in
    the session of the subagent ``subagent``, where that is not None.
    """

    uid: str
    agent: str | None
    turn_seq: int | None
    seq: int
    at: int | None
    subagent: str | None = None


class FileEdit(Struct, frozen=True, kw_only=True):
    """A call that changed a file. ``written``: the lines; None where the call does not say them.

    ``script``: of a shell, which may hold lines; '' of any other call.
    """

    act: Act
    at: int
    written: WrittenLines | None
    script: str = ""


class Trailer(Struct, frozen=True, kw_only=True):
    """A line of a commit's message that names an agent or its session. ``act``: its turn then, if that is here."""

    key: str
    value: str
    agent: str
    act: Act | None
    names_session: bool


class Witness(Struct, frozen=True, kw_only=True):
    """A session that names a commit or a pull request. ``is_maker``: its own call made it."""

    act: Act
    is_maker: bool


class Authorship:
    """The acts that the stores of a list hold. ``roots``: where the files of this repository lie, or lay."""

    def __init__(self, listing: Listing, project: str | None, roots: Sequence[str]) -> None:
        self._stores = listing.stores(everywhere=True)
        self._project, self._roots = project, list(dict.fromkeys(roots))
        self._recorded: dict[int, list[str]] = {}
        self._amended: dict[str, list[tuple[int, str]]] = {}

    def edits(self, names: Sequence[str]) -> tuple[FileEdit, ...]:
        """The calls that changed a file, by any of its names below the root, in order of their times."""
        return _edits(self._touches(names))

    def edits_elsewhere(self, name: str) -> dict[str, tuple[FileEdit, ...]]:
        """The calls that changed a file of this name in folders that are gone, by the folder.

        Such a folder may have been another worktree or clone of this repository: nobody can look any more.
        """
        found: dict[str, list[tuple[Store, list[FileTouch]]]] = {}
        for store in self._stores:
            known = {root.rstrip("/") for root in self._roots_in(store)}
            for path in store.ask_or(list[str](), lambda db: authorship.paths_called(db, name)):
                folder = path[: -len(name) - 1]
                if folder.startswith("/") and folder not in known and _is_gone(folder):
                    touches = store.ask_or(list[authorship.FileTouch](), authorship.touches_of, [path])
                    found.setdefault(folder, []).append((store, touches))
        return {folder: _edits(touches) for folder, touches in sorted(found.items())}

    def _touches(self, names: Sequence[str]) -> Iterator[tuple[Store, list[FileTouch]]]:
        better: list[Store] = []
        for store in self._stores:
            touches = store.ask_or([], authorship.touches_below, self._roots_in(store), names)
            taken = _taken({each.doing.session_uid for each in touches}, better)
            yield store, [each for each in touches if each.doing.session_uid not in taken]
            better.append(store)

    def _roots_in(self, store: Store) -> list[str]:
        """The folders of the repository as a store has recorded them."""
        if id(store) not in self._recorded:
            roots = [*self._roots, *(old for root in self._roots for old in store.moves.earlier(root))]
            known = store.ask_or(list[str](), lambda db: authorship.roots_of(db, self._project, roots))
            self._recorded[id(store)] = list(dict.fromkeys([*roots, *known]))
        return self._recorded[id(store)]

    def of_commit(self, commit: str) -> tuple[Witness, ...]:
        """The sessions that made a commit or name it, those that made it first."""
        found = self._named(lambda store: store.ask_or([], lambda db: authorship.naming_commit(db, commit)))
        return _witnesses(
            Witness(act=_act(store, doing), is_maker=_made_commit(store, doing, commit)) for store, doing in found
        )

    def amended(self, uid: str, commit: Commit) -> int | None:
        """Return when a session last amended a commit, in ms since 1970, by its subject; None where it did not."""
        if uid not in self._amended:
            named = self._named(lambda store: store.ask_or([], lambda db: authorship.commits_of(db, uid)))
            self._amended[uid] = [
                (doing.at, subject)
                for store, doing in named
                if doing.at is not None
                for subject in _amended(store, doing)
            ]
        times = (at for at, subject in self._amended[uid] if subject == commit.subject)
        return max((at for at in times if commit.authored < at <= commit.committed + SECOND_MS), default=None)

    def of_pull_request(self, typed: str, repository: str | None) -> tuple[Witness, ...]:
        """The sessions that opened a pull request or name it, those that opened it first."""

        def ask(store: Store) -> list[Doing]:
            # One that is named with its repository is meant wherever that was worked in.
            roots = [] if "/" in typed else self._roots_in(store)
            return store.ask_or(
                list[authorship.Doing](), lambda db: authorship.naming_pull_request(db, typed, repository, roots)
            )

        return _witnesses(
            Witness(act=_act(store, doing), is_maker=_opened(store, doing)) for store, doing in self._named(ask)
        )

    def _named(self, ask: Asking) -> Iterator[tuple[Store, Doing]]:
        better: list[Store] = []
        for store in self._stores:
            found = ask(store)
            taken = _taken({each.session_uid for each in found}, better)
            yield from ((store, each) for each in found if each.session_uid not in taken)
            better.append(store)

    def trailers(self, commit: Commit) -> tuple[Trailer, ...]:
        """Return the agents and sessions that the message of a commit names."""
        if commit.hash == UNCOMMITTED:
            return ()
        lines = (TRAILER.match(line) for line in commit.message.splitlines())
        pairs = dict.fromkeys((found.group(1), found.group(2)) for found in lines if found is not None)
        named = [found for key, value in pairs if (found := self._trailer(key, value, commit.authored)) is not None]
        return tuple(named)

    def _trailer(self, key: str, value: str, at: int) -> Trailer | None:
        for name in agents.names():
            part = agents.load(name).commits
            if part is None:
                continue
            native_id = part.session_id(key, value)
            email = _EMAIL.search(value) if key.lower() == "co-authored-by" else None
            if native_id is not None or part.names_session(key):
                act = None if native_id is None else self._at_work(native_id, at)
                return Trailer(key=key, value=value, agent=name, act=act, names_session=True)
            if email is not None and part.is_author(email.group(1)):
                return Trailer(key=key, value=value, agent=name, act=None, names_session=False)
        return None

    def _at_work(self, native_id: str, at: int) -> Act | None:
        """Return the act, at a time, of the session that an agent calls by this id."""
        for store in self._stores:
            for session_id in store.ask_or(list[int](), lambda db: authorship.sessions_with(db, native_id)):
                if (doing := _at_work(store, session_id, at)) is not None:
                    return _act(store, doing)
        return None


def _is_gone(folder: str) -> bool:
    try:
        return not Path(folder).exists()
    except (OSError, ValueError):
        return False


def _edits(found: Iterable[tuple[Store, Iterable[FileTouch]]]) -> tuple[FileEdit, ...]:
    """Touches of stores as edits, in order of their times; each call once, of the session with the smallest uid."""
    edits: dict[tuple[object, ...], tuple[str, FileEdit]] = {}
    for store, touches in found:
        forms = _forms(store)
        for touch in touches:
            call, doing = touch.call.event, touch.doing
            if not isinstance(call, ToolCall) or doing.at is None:
                continue
            key = (doing.turn_uid or doing.session_uid, call.tool_use_id or (doing.seq, touch.call.part), touch.path)
            known = edits.get(key)
            if known is not None and known[0] <= doing.session_uid:
                continue
            written = _written(forms, touch)
            script = "" if written is not None and written.lines else _script(forms, touch)
            edits[key] = (
                doing.session_uid,
                FileEdit(act=_act(store, doing), at=doing.at, written=written, script=script),
            )
    return tuple(sorted((edit for _, edit in edits.values()), key=lambda each: each.at))


if TYPE_CHECKING:
    from collections.abc import Callable

    Asking = Callable[[Store], list[Doing]]


def _taken(uids: set[str], better: Iterable[Store]) -> set[str]:
    """Those of these sessions that a better store has."""
    return {uid for store in better for uid in store.ask_or(set(), sessions.present, sorted(uids))}


def _forms(store: Store) -> FullForms:
    from backstory.export.full_form import FullForms

    return FullForms(store)


def _act(store: Store, doing: Doing) -> Act:
    """A record as one of the session that is listed."""
    if doing.parent_id is None:
        return Act(
            uid=doing.session_uid, agent=doing.agent, turn_seq=doing.turn_seq, seq=doing.seq, at=doing.at
        )  # fmt: skip
    parent = store.session(doing.parent_id)
    at = doing.at
    asked = None if at is None else _at_work(store, parent.id, at)
    above = _act(store, asked) if asked is not None else None
    return Act(
        uid=above.uid if above else parent.uid, agent=doing.agent, turn_seq=above.turn_seq if above else None,
        seq=doing.seq, at=doing.at, subagent=doing.session_uid,
    )  # fmt: skip


def _at_work(store: Store, session_id: int, at: int) -> Doing | None:
    return store.ask_or(None, lambda db: authorship.at_work(db, session_id, at))


def _written(forms: FullForms, touch: FileTouch) -> WrittenLines | None:
    """The lines that a call put into a file. A call that failed put nothing there."""
    call = touch.call.event
    if touch.is_error or not isinstance(call, ToolCall):
        return None
    if call.tool != Tool.SHELL and not any(each.lines for each in written_lines.written_by(call)):
        # The compact form of a file that was written whole does not have it.
        whole = forms.expand(touch.call)
        call = whole if isinstance(whole, ToolCall) else call
    return written_lines.of_path(written_lines.written_by(call), touch.path)


def _script(forms: FullForms, touch: FileTouch) -> str:
    """All of the script that a call had a shell run; '' of any other call."""
    call = touch.call.event
    if not isinstance(call, ToolCall) or shell_parse.script_in(call) is None:
        return ""
    whole = forms.expand(touch.call)
    return (shell_parse.script_in(whole) or "") if isinstance(whole, ToolCall) else ""


def _witnesses(found: Iterable[Witness]) -> tuple[Witness, ...]:
    """Each session once, the makers first, in order of their times."""
    each_once: dict[str, Witness] = {}
    for each in sorted(found, key=lambda one: (not one.is_maker, one.act.at or 0)):
        each_once.setdefault(each.act.uid, each)
    return tuple(each_once.values())


def _made_commit(store: Store, doing: Doing, commit: str) -> bool:
    """Return True if a call of this record made the commit: git says so in what it printed for it."""
    for call, result in _calls(store, doing):
        if not any(each.kind == DeedKind.COMMIT for each in deeds.commands_of(call)):
            continue
        lines = (_MADE.match(line) for line in result.content.splitlines())
        if any(found is not None and commit.startswith(found.group(1)) for found in lines):
            return True
    return False


def _amended(store: Store, doing: Doing) -> Iterator[str]:
    """Yield the subjects of the commits that a call of this record amended, as git prints them."""
    for call, result in _calls(store, doing):
        commits = [each for each in deeds.commands_of(call) if each.kind == DeedKind.COMMIT]
        if any("--amend" in each.text for each in commits):
            made = ((line, _MADE.match(line)) for line in result.content.splitlines())
            yield from (line[found.end() :] for line, found in made if found is not None)


def _opened(store: Store, doing: Doing) -> bool:
    """Return True if a call of this record opened a pull request."""
    for call, _ in _calls(store, doing):
        name = call.tool_name.lower()
        if name.endswith(_CREATES) or any(each.kind == DeedKind.PULL_REQUEST for each in deeds.commands_of(call)):
            return True
    return False


def _calls(store: Store, doing: Doing) -> Iterator[tuple[ToolCall, ToolResult]]:
    """The calls of a record that returned something, with all of that."""
    forms = _forms(store)
    none: list[tuple[StoredEvent, StoredEvent]] = []
    for call, result in store.ask_or(none, lambda db: authorship.calls_at(db, doing.session_id, doing.seq)):
        whole = forms.expand(result)
        if isinstance(call.event, ToolCall) and isinstance(whole, ToolResult):
            yield call.event, whole
