"""A selection of sessions, and the same as conditions in SQL. Listing and searching share it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from backstory.bounds import iso
from backstory.derive.naming import folded
from backstory.lazy import lazy_regex
from backstory.model import STOPPED_TO_COMPACT, Outcome, Relation
from backstory.store import schema
from backstory.store.intake import claims
from backstory.store.tables import lineage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backstory.store.moves import Move, Moves

_REF = r"(?i)(?:(pr|issue|commit)[:\s#]?\s*)?(?:([\w.-]+(?:/[\w.-]+)+)[#!@])?[#!]?([0-9a-z]+|[a-z][a-z0-9]+-[0-9]+)"
_HASH = lazy_regex(r"[0-9a-f]{4,64}")
PATTERN_BYTES_MAX = 50_000
"""The longest pattern that SQLite takes."""


class Selection(Struct, frozen=True, kw_only=True):
    """The sessions that are meant. None asks for all; times in ms since 1970; ``folder`` is a path."""

    agent: str | None = None
    project: str | None = None
    folder: str | None = None
    owner: str | None = None
    """Beside those of ``project`` and ``folder`` the sessions that the store with this id owns."""
    moves: Moves | None = None
    """The way the paths of the store that is asked are to be read; None: as they are recorded."""
    repository: str | None = None
    """owner/name, a name, or a project's key; upper and lower case are one."""
    branch: str | None = None
    """A branch's name, or a pattern with ``*``: any git branch that the session was on."""
    path: str | None = None
    """A file or folder that the session read or wrote: absolute, the end of a path, or a pattern with ``*``."""
    ref: str | None = None
    """A pull request, issue or commit that the session names: 12, #12, owner/repo#12, the start of a hash, a URL."""
    since: int | None = None
    until: int | None = None
    """The first moment that is too late."""
    in_project: str | None = None
    """The name of a project as lists show it, the end of that, or its folder; resolved to ``uids`` before SQL."""
    model: str | None = None
    """A model that answered in the session, or a part of its name; upper and lower case are one."""
    status: str | None = None
    """The outcome of the last turn as lists show it; ``running`` is resolved to ``uids`` before SQL."""
    tool: str | None = None
    """The agent's name of a tool, or ours of its kind; upper and lower case are one. Of a list it is resolved to
    ``uids``, the sessions that called it; a search finds only its calls."""
    title: str | None = None
    """Only those with this text in their name, their title or, without both, at the beginning of their first prompt;
    upper and lower case are one."""
    uids: tuple[str, ...] | None = None
    """Only these sessions."""
    but_uids: tuple[str, ...] = ()
    """Not these sessions."""

    @property
    def shared(self) -> Mapping[str, Any]:
        """These fields as keywords, for a filter that asks for more."""
        return {name: getattr(self, name) for name in Selection.__struct_fields__}

    def is_in_time(self, at: int | None) -> bool:
        """Return True if a moment is in the time asked for; an unknown one is only in all time."""
        if at is None:
            return self.since is None and self.until is None
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


class ListFilter(Selection, frozen=True, kw_only=True):
    """The sessions that are listed: those that were active between ``since`` and ``until``, among others."""

    subagents: bool = False
    """Also the sessions of subagents."""
    unread: bool = False
    """Also files that are kept and that no agent's reader understands."""


class Filter(Selection, frozen=True, kw_only=True):
    """The events that are asked for, and of which sessions; ``since`` and ``until`` are about the events."""

    session_id: int | None = None
    without: tuple[int, ...] = ()
    """Sessions that are passed over, with their subagents'."""
    scopes: tuple[str, ...] = ()


def conditions(wanted: Selection, *, of_all: bool = False) -> tuple[list[str], list[object]]:
    """Conditions on a session ``s``, with their values. When it ended is known from the events.

    ``of_all``: every session of the store is looked at, and not only those of a page.
    """
    conditions, values = _of_kind(wanted)
    for value, condition in (
        (wanted.branch, _of_branch), (wanted.repository, _of_repository), (wanted.ref, _of_ref),
        (wanted.model, _of_model),
    ):  # fmt: skip
        if value is not None:
            sentence, bound = condition(value)
            conditions.append(sentence)
            values += bound
    if wanted.status is not None:
        conditions.append(f"{OUTCOME} is ?")
        values.append(wanted.status)
    if wanted.title is not None:
        # What a subagent was asked depends on its parent's turns, so no key is kept of that.
        is_kept = of_all and isinstance(wanted, ListFilter) and not wanted.subagents
        conditions.append(f"s.id in ({TITLED})" if is_kept else _HAS_TITLE)
        values += [title_pattern(wanted.title)] * (2 if is_kept else 1)
    if wanted.uids is not None:
        conditions.append("s.uid in (select value from json_each(?))")
        values.append(schema.json_list(wanted.uids))
    if wanted.but_uids:
        conditions.append("s.uid not in (select value from json_each(?))")
        values.append(schema.json_list(wanted.but_uids))
    if wanted.path is not None:
        sentence, bound = _of_paths([wanted.path, *(wanted.moves.earlier(wanted.path) if wanted.moves else [])])
        conditions.append(sentence)
        values += bound
    if wanted.since is not None:
        # A session without any time is shown rather than lost.
        conditions.append("coalesce(s.last_active, ?) >= ?")
        values += [wanted.since, wanted.since]
    return conditions, values


def listed_conditions(wanted: ListFilter, *, of_all: bool = False) -> tuple[list[str], list[object]]:
    """Conditions on a session ``s`` that is listed, with their values.

    ``of_all``: every session of the store is looked at, and not only those of a page.
    """
    # The same conversation is listed once: where it ran, or in the agent's own log.
    listed = [f"not {claims.HIDDEN_OF_ALL if of_all else claims.HIDDEN}", f"not {lineage.IS_REPEATED}"]
    if not wanted.subagents:
        # A subagent whose parent is not here would otherwise be nowhere.
        listed.append(f"(s.relation is not '{Relation.SUBAGENT}' or s.parent_id is null)")
    if not wanted.unread:
        listed.append(f"s.relation is not '{Relation.UNREAD}'")
    more, values = conditions(wanted, of_all=of_all)
    if wanted.until is not None:
        # Both are in UTC, to the millisecond, so that their order as texts is that of the times.
        more.append("s.created < ?")
        values.append(iso(wanted.until))
    return more + listed, values


def condition_of(wanted: Selection) -> str:
    """Return a filter of a session ``s`` without its time, as one condition with its values in it; '' for nothing.

    >>> condition_of(Selection(branch="it's"))
    "(s.branch = 'it''s' or s.id in (select session_id from session_branches where branch = 'it''s'))"
    """
    sentences, values = conditions(replace(wanted, since=None, until=None))
    pieces = " and ".join(sentences).split("?")
    # A question mark inside a text of SQL would shift all values behind it.
    if len(pieces) != len(values) + 1:
        raise AssertionError(f"{len(values)} values for {pieces}")
    return pieces[0] + "".join(f"{_literal(value)}{piece}" for value, piece in zip(values, pieces[1:], strict=True))


def _literal(value: object) -> str:
    if value is None:
        return "null"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


OUTCOME = (
    # Of all ways not to succeed only the turn says which it was.
    # One that goes on after a summary has none.
    f"case s.completed when 1 then '{Outcome.COMPLETED}' when 0 then nullif(coalesce((select "
    f"iif(stop_reason is '{STOPPED_TO_COMPACT}', '', outcome) from main.turns "
    f"where session_id = s.id order by first_seq desc, id desc limit 1), '{Outcome.FAILED}'), '') end"
)
"""The outcome of a session's last turn; NULL while that is open."""
_PROMPTS = "select substr(prompt, 1, 200) from main.turns t where session_id = s.id and prompt <> '' order by "
FIRST_PROMPT = (
    f"iif(s.relation is 'subagent', ({_PROMPTS}"
    "exists (select 1 from main.turns where uid = t.uid and session_id = s.parent_id), first_seq, id limit 1), "
    f"({_PROMPTS}first_seq, id limit 1))"
)
"""The first prompt of a session. A subagent may have been given its parent's turns: its task is what comes behind."""
_CALLED = "coalesce(nullif(s.name, ''), nullif(trim(s.title), ''))"
HEADING = f"folded(cast(coalesce({_CALLED}, saying(s.id, cast({FIRST_PROMPT} as blob))) as blob))"
"""The title of a session ``s`` as it is compared; as bytes, because a store may hold text that is not UTF-8."""
_HAS_TITLE = (
    f"coalesce(iif(s.relation is '{Relation.SUBAGENT}' and s.parent_id is not null, null, "
    f"(select heading from list_keys where session_id = s.id)), {HEADING}) glob ?"
)
"""A session ``s`` with a text in its title."""
TITLED = (
    "select session_id from list_keys where heading glob ? union all "
    "select s.id from list_keys k cross join sessions s on s.id = k.session_id "
    f"where k.heading is null and {HEADING} glob ?"
)
"""The sessions but subagents' with a text in their title, whose pattern is given twice."""


def title_pattern(title: str) -> str:
    """Return the pattern of titles with a text in them; of any title where that is empty."""
    return _within(f"*{_glob_quoted(folded(title))}*") if title.strip() else "?*"


def _within(pattern: str) -> str:
    """A pattern, or one that nothing fits where SQLite would refuse it: no name or path is as long."""
    return pattern if len(pattern.encode()) <= PATTERN_BYTES_MAX else ""


def _of_kind(wanted: Selection) -> tuple[list[str], list[object]]:
    """Return the conditions for a project (its key, or a folder of it) and for an agent."""
    conditions, values = list[str](), list[object]()
    agent = wanted.agent
    if wanted.project is not None or wanted.folder is not None:
        sentence, bound = _of_project(wanted)
        conditions.append(sentence)
        values += bound
    if agent is not None:
        conditions.append(
            "exists (select 1 from logs where session_id = s.id and agent = ? "
            "union all select 1 from turns where session_id = s.id and agent = ?)"
        )
        values += [agent, agent]
    return conditions, values


def _of_project(wanted: Selection) -> tuple[str, list[object]]:
    """Sessions of a project or a folder, also as it was called before it was moved, and not those moved out of it."""
    project, folder = wanted.project, wanted.folder
    if not wanted.moves or folder is None:
        sentence, values = _in_folder(project, folder)
    else:
        is_path = project is not None and project.startswith("/")
        sentence, values = _in_folder(project if is_path else None, folder)
        for move in wanted.moves:
            # Sessions of a project that lay here once have gone with it, though their rows name this folder.
            if move.owner is None and move.before(folder) is None and _overlap(move.old, folder):
                gone, bound = _moved(move, move.old)
                sentence, values = f"({sentence} and not {gone})", [*values, *bound]
        for move in wanted.moves:
            if move.owner is None and (before := move.before(folder)) is not None and before != folder:
                came, bound = _moved(move, before)
                sentence, values = f"({sentence} or {came})", [*values, *bound]
        if not is_path:
            sentence, values = f"({sentence} or s.project = ?)", [*values, project]
    if wanted.owner is not None:
        sentence, values = f"({sentence} or s.owner = ?)", [*values, wanted.owner]
    return sentence, values


def _in_folder(project: str | None, folder: str | None) -> tuple[str, list[object]]:
    # No path holds a NUL, so nothing is inside of no folder.
    inside = f"{folder}/" if folder else "\0"
    sentence = "(s.project = ? or s.cwd = ? or s.worktree = ? or substr(s.cwd, 1, ?) = ?)"
    return sentence, [project, folder, folder, len(inside), inside]


def _moved(move: Move, folder: str) -> tuple[str, list[object]]:
    """Sessions that were recorded in a folder before it was moved."""
    sentence, values = _in_folder(folder, folder)
    return (sentence, values) if move.at is None else (f"({sentence} and s.created < ?)", [*values, iso(move.at)])


def _overlap(one: str, other: str) -> bool:
    """Return True if one of two folders is, or holds, the other."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _of_repository(typed: str) -> tuple[str, list[object]]:
    name = typed.strip("/").removesuffix(".git").lower()
    # Not ``like``: names of repositories hold underscores.
    ends = " or ".join(f"substr(lower({column}), ?) = ?" for column in ("s.repository", "s.project"))
    ending = f"/{name}"
    sentence = f"(lower(s.repository) = ? or lower(s.project) = ? or {ends})"
    return sentence, [name, typed.rstrip("/").lower(), -len(ending), ending, -len(ending), ending]


def _of_branch(typed: str) -> tuple[str, list[object]]:
    """Sessions that were on a git branch at any time."""
    fits, typed = ("branch glob ?", _within(typed)) if "*" in typed else ("branch = ?", typed)
    return f"(s.{fits} or s.id in (select session_id from session_branches where {fits}))", [typed, typed]


def _of_model(typed: str) -> tuple[str, list[object]]:
    """Sessions in which a model of this name answered."""
    return (
        "exists (select 1 from main.turns where session_id = s.id and model like ? escape '!')",
        [_within("%" + re.sub(r"[!%_]", r"!\g<0>", typed.strip()) + "%")],
    )


def _of_paths(typed: list[str]) -> tuple[str, list[object]]:
    """Files that are one of these, lie in it, or whose path ends with it."""
    patterns = patterns_of(typed)
    file_fits, rename_fits = (" or ".join(f"{column} glob ?" for _ in patterns) for column in ("file_path", "to_path"))
    sentence = (
        f"s.id in (select session_id from session_files where {file_fits} union select f.session_id "
        f"from file_touches t join session_files f on f.id = t.file_id where t.to_path is not null and ({rename_fits}))"
    )
    return sentence, [*patterns, *patterns]


def patterns_of(typed: list[str]) -> list[str]:
    """Patterns for the whole paths of such files."""
    return [_within(pattern) for each in typed for pattern in _patterns(each)]


def _patterns(typed: str) -> list[str]:
    path = typed.removeprefix("./").rstrip("/") or typed
    inside = _glob_quoted(path) if "*" not in path else path
    # A glob that begins with a star matches whole names only behind a slash.
    start = "" if path.startswith("/") else "*/"
    return [f"{start}{inside}", f"{start}{inside}/*"] + ([] if start == "" else [inside, f"{inside}/*"])


def _glob_quoted(text: str) -> str:
    return re.sub(r"[*?\[]", r"[\g<0>]", text)


def _of_ref(typed: str) -> tuple[str, list[object]]:
    """Sessions that name a pull request, issue or commit."""
    condition, values = of_ref(typed)
    return f"s.id in (select session_id from session_refs where {condition})", values


def of_ref(typed: str) -> tuple[str, list[object]]:
    """A condition on ``session_refs``: rows that name a pull request, issue or commit; with its values."""
    kind, repository, value = _named(typed)
    conditions, values = list[str](), list[object]()
    if value.isdecimal() and kind != "commit":
        number = "ref_type <> 'commit' and (ref_value = ? or substr(ref_value, ?) = ?)"
        conditions.append(number)
        values += [value, -len(value) - 1, f"#{value}"]
    if "-" in value:
        conditions.append("ref_type = 'issue' and upper(ref_value) = ?")
        values.append(value.upper())
    if _HASH.fullmatch(value) and kind in ("", "commit"):
        # Either of the two may have fewer digits.
        short = "replace(ref_value, rtrim(ref_value, replace(ref_value, '@', '')), '')"
        alike = f"substr({short}, 1, ?) = ? or substr(?, 1, length({short})) = {short}"
        conditions.append(f"ref_type = 'commit' and ({alike})")
        values += [len(value), value, value]
    sentence = " or ".join(f"({each})" for each in conditions) or "0"
    if kind:
        sentence = f"({sentence}) and ref_type = ?"
        values.append(kind)
    if repository:
        sentence = f"({sentence}) and lower(repository) = ?"
        values.append(repository)
    return f"({sentence})", values


def _named(typed: str) -> tuple[str, str, str]:
    """The kind ('' if it was not typed), repository ('' for any) and number or hash of what was typed."""
    if "://" in typed:
        from backstory.derive.text_refs import refs_in_text

        for ref in refs_in_text(typed):
            return ref.type, (ref.repository or "").lower(), re.split("[#@]", ref.value)[-1].lower()
    found = re.fullmatch(_REF, typed.strip())
    if found is None:
        return "", "", ""
    kind, repository, value = (each.lower() if each else "" for each in found.groups())
    return kind, repository, value
