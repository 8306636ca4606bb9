"""Which sessions a search is about: a filter as conditions in SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backstory.lazy_regex import lazy_regex
from backstory.store import sessions

if TYPE_CHECKING:
    from backstory.store.search import Filter

_REF = r"(?i)(?:(pr|issue|commit)[:\s#]?\s*)?(?:([\w.-]+(?:/[\w.-]+)+)[#!@])?[#!]?([0-9a-z]+|[a-z][a-z0-9]+-[0-9]+)"
_HASH = lazy_regex(r"[0-9a-f]{4,64}")


def conditions(wanted: Filter) -> tuple[list[str], list[object]]:
    """Conditions on a session ``s``, with their values. When it ended is known from the events."""
    conditions, values = sessions.of_kind(project=wanted.project, folder=wanted.folder, agent=wanted.agent)
    if wanted.branch is not None:
        sentence, bound = _of_branch(wanted.branch)
        conditions.append(sentence)
        values += bound
    for value, condition in (
        (wanted.repository, _of_repository), (wanted.path, _of_path), (wanted.ref, _of_ref)
    ):  # fmt: skip
        if value is not None:
            sentence, bound = condition(value)
            conditions.append(sentence)
            values += bound
    if wanted.since is not None:
        conditions.append("coalesce(s.last_active, ?) >= ?")
        values += [wanted.since, wanted.since]
    if wanted.session_id is not None:
        conditions.append("s.id = ?")
        values.append(wanted.session_id)
    return conditions, values


def _of_repository(typed: str) -> tuple[str, list[object]]:
    name = typed.strip("/").removesuffix(".git").lower()
    ends = " or ".join(f"substr(lower({column}), ?) = ?" for column in ("s.repository", "s.project"))
    ending = f"/{name}"
    sentence = f"(lower(s.repository) = ? or lower(s.project) = ? or {ends})"
    return sentence, [name, typed.rstrip("/").lower(), -len(ending), ending, -len(ending), ending]


def _of_branch(typed: str) -> tuple[str, list[object]]:
    """Sessions that were on a git branch at any time."""
    fits = "branch glob ?" if "*" in typed else "branch = ?"
    return f"(s.{fits} or s.id in (select session_id from session_branches where {fits}))", [typed, typed]


def _of_path(typed: str) -> tuple[str, list[object]]:
    """Files that are ``typed``, lie in it, or whose path ends with it."""
    path = typed.removeprefix("./").rstrip("/") or typed
    inside = _glob_quoted(path) if "*" not in path else path
    start = "" if path.startswith("/") else "*/"
    patterns = [f"{start}{inside}", f"{start}{inside}/*"] + ([] if start == "" else [inside, f"{inside}/*"])
    file_fits, rename_fits = (" or ".join(f"{column} glob ?" for _ in patterns) for column in ("file_path", "to_path"))
    sentence = (
        f"s.id in (select session_id from session_files where {file_fits} union select f.session_id "
        f"from file_touches t join session_files f on f.id = t.file_id where t.to_path is not null and ({rename_fits}))"
    )
    return sentence, [*patterns, *patterns]


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
