"""Entries of a table in another program's settings: found, added and removed, and each result read back.

A text may be anything. Nothing is returned of which the settings, parsed again, differ by more than the entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backstory.agents.text_edit import NotEditable, TextEdit, applied, newline_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backstory.agents.contract import ServerFile

REASON_CHARS_MAX = 120


def entry_in(text: str, file: ServerFile, name: str) -> tuple[Any] | None:
    """The entry of a name, which may be anything; None where there is none. Raises NotEditable."""
    entries = _table(_parsed(text, file), file.table)
    return (entries[name],) if name in entries else None


def has_table(text: str, file: ServerFile) -> bool:
    """Return True if settings have the table of entries. Raises NotEditable."""
    return file.table in _parsed(text, file)


def added(text: str, file: ServerFile, name: str, entry: Mapping[str, Any]) -> TextEdit:
    """Return the edit that adds an entry to settings that have none of this name. Raises NotEditable."""
    from backstory.agents import json_text, toml_text

    before = _parsed(text, file)
    wanted = {**before, file.table: {**_table(before, file.table), name: entry}}
    insertion = toml_text.insertion if file.format == "toml" else json_text.insertion
    edit = insertion(text, file.table, name, dict(entry))
    if _parsed_again(applied(text, [edit]), file) != wanted:
        raise NotEditable("could not be changed in this entry alone")
    return edit


def waiting(text: str, file: ServerFile) -> TextEdit | None:
    """Return the edit, a first line, that makes a client wait for its servers; None if none is needed."""
    before = _parsed(text, file)
    if file.wait is None or file.wait[0] in before:
        return None
    edit = TextEdit(0, 0, f"{file.wait[0]} = {file.wait[1]}{newline_of(text)}")
    return edit if _parsed_again(applied(text, [edit]), file) == {**before, file.wait[0]: file.wait[1]} else None


def waiting_no_more(text: str, inserted: str) -> list[TextEdit]:
    """Return the edits that remove the line of ``waiting``, if it is unchanged."""
    at = 0 if text.startswith(inserted) else text.find(f"\n{inserted}") + 1
    return [TextEdit(at, at + len(inserted))] if inserted and (at or text.startswith(inserted)) else []


def removed(text: str, file: ServerFile, name: str, inserted: str = "", *, with_table: bool = False) -> list[TextEdit]:
    """Return the edits that remove an entry. ``inserted``: its first text, which is cut out if it is unchanged.

    ``with_table``: its table goes, too, where nothing else is in it. Raises NotEditable.
    """
    before = _parsed(text, file)
    kept = {key: each for key, each in _table(before, file.table).items() if key != name}
    wanted = [{**before, file.table: kept}]
    if not kept:
        wanted.append({key: each for key, each in before.items() if key != file.table})
    if inserted and text.count(inserted) == 1:
        edits = [TextEdit(at := text.index(inserted), at + len(inserted))]
        if _parsed_again(applied(text, edits), file) in wanted:
            return edits
    edits = _removal(text, file, name, with_table=with_table)
    if _parsed_again(applied(text, edits), file) not in wanted:
        raise NotEditable("could not be changed in this entry alone")
    return edits


def _removal(text: str, file: ServerFile, name: str, *, with_table: bool) -> list[TextEdit]:
    from backstory.agents import json_text, toml_text

    if file.format == "toml":
        return toml_text.removal(text, file.table, name)
    return json_text.removal(text, file.table, name, with_table=with_table)


def _parsed(text: str, file: ServerFile) -> dict[str, Any]:
    from backstory.agents import json_text, toml_text

    if not text.strip():
        return {}
    try:
        value = (toml_text if file.format == "toml" else json_text).parse(text)
    except ValueError as refused:
        raise NotEditable(f"cannot be read as {file.format.upper()} ({refused!s:.{REASON_CHARS_MAX}})") from refused
    except RecursionError as refused:
        raise NotEditable("is nested too deeply") from refused
    if not isinstance(value, dict):
        raise NotEditable("holds no object")
    return value


def _parsed_again(text: str, file: ServerFile) -> dict[str, Any] | None:
    """The settings after an edit; None where that broke them."""
    try:
        return _parsed(text, file)
    except NotEditable:
        return None


def _table(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = settings.get(name, {})
    if not isinstance(found, dict):
        raise NotEditable(f"has a {name} that is not a table of names")
    return found
