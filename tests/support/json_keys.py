"""The meaning of each key of JSON: one, whatever the command. docs/json.md lists them, from what commands print."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, get_args, get_origin

import msgspec

from backstory.model import KINDS
from tests.support.json_meanings import MEANINGS, OF_NULL, UNSEEN
from tests.support.shown_commands import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

DOCUMENT = ROOT / "docs" / "json.md"
BEFORE = ROOT / "tests" / "support" / "json_keys_before.json"
CHANGES = ROOT / "CHANGELOG.md"
TABLE = r"(?m)^  \| command \| until now \| now \|\n(?:  \|.*\n)+"
MAPS = {
    "changes", "checked", "came", "columns", "counts", "env", "input", "instead", "masked", "not_read", "options",
    "reduced", "row_counts", "rows", "unknown_records", "value",
}  # fmt: skip
"""Keys of objects whose own keys are data, not names."""
TYPES = {bool: "boolean", int: "number", float: "number", str: "string", list: "list", dict: "object"}
Values = dict[str, list[Any]]


def paths(values: Values) -> dict[str, set[str]]:
    """Return where each command has keys, as ``sessions[].uid``."""
    return {
        command: {path for value in found for path, _ in _below(value, "", in_events=True)}
        for command, found in values.items()
    }


def uses(values: Values) -> dict[str, dict[str, set[str]]]:
    """Return the commands that print each key, by its type, without the fields of events; of null ``null``."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for command, printed in values.items():
        for whole in printed:
            for path, value in _below(whole, "", in_events=False):
                key = path.rpartition(".")[2]
                found[key]["null" if value is None else TYPES[type(value)]].add(command)
    return {key: dict(kinds) for key, kinds in found.items()}


def types(key: str, kinds: Iterable[str]) -> set[str]:
    """Return the types of a key; null is of every type, and of a key that is null each time it is written down."""
    return {*kinds} - {"null"} or {OF_NULL[key]}


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a value but those whose keys are data."""
    if isinstance(value, list):
        for each in value:
            yield from objects(each)
    elif isinstance(value, dict):
        yield value
        for key, each in value.items():
            if key not in MAPS:
                yield from objects(each)


def _below(value: Any, path: str, *, in_events: bool) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        for each in value:
            yield from _below(each, f"{path}[]", in_events=in_events)
    elif isinstance(value, dict):
        skipped = set() if in_events else _event_fields(value)
        for key, each in value.items():
            if key not in skipped:
                here = f"{path}.{key}" if path else key
                yield here, each
                if key not in MAPS:
                    yield from _below(each, here, in_events=in_events)


def _event_fields(value: Mapping[str, Any]) -> set[str]:
    """The keys of an object that are an event's own fields."""
    kind = KINDS.get(str(value.get("kind")))
    is_event = kind is not None and "label" not in value and "turn_uid" not in value
    return {each.encode_name for each in msgspec.structs.fields(kind)} if kind and is_event else set()


def reference(values: Values) -> str:
    """Return docs/json.md."""
    lines = [*HEAD, "| key | type | meaning | commands |", "|---|---|---|---|"]
    rows = {key: (types(key, kinds), set().union(*kinds.values())) for key, kinds in uses(values).items()}
    rows |= {key: ({kind}, set(where)) for key, (kind, *where) in UNSEEN.items()}
    for key, (kinds, where) in sorted(rows.items()):
        named = " or ".join(sorted(kinds))
        lines.append(f"| `{key}` | {named} | {MEANINGS.get(key, '')} | {_named(where, len(values))} |")
    lines += [
        "",
        "## Events",
        "",
        "An event has `kind` and, by that, these fields (left out where they are empty):",
        "",
    ]
    for name, kind in KINDS.items():
        fields = (f"`{each.encode_name}` ({_type_of(each.type)})" for each in msgspec.structs.fields(kind))
        lines.append(f"- `{name}`: {', '.join(fields)}")
    lines += ["", *TAIL]
    return "\n".join(lines) + "\n"


def _type_of(annotation: Any) -> str:
    """The type of an event's field; ``any`` of one that holds what an agent wrote."""
    named = (get_args(annotation) or (annotation,))[0] if get_origin(annotation) is not dict else dict
    return TYPES.get(named, "any")


def _named(where: set[str], commands: int) -> str:
    return ", ".join(sorted(where)) if len(where) <= 8 else f"{len(where)} of {commands} commands"


def changed(before: Mapping[str, list[str]], now: Mapping[str, set[str]]) -> dict[str, tuple[list[str], list[str]]]:
    """Return by command the keys that are gone, and those that are new."""
    found = {}
    for command, old in before.items():
        gone, new = sorted({*old} - now[command]), sorted(now[command] - {*old})
        if gone or new:
            found[command] = (gone, new)
    return found


def listed_changes(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """Return the same as the changelog's table lists it."""
    found = {}
    for row in re.findall(r"^  \| `([a-z -]+)` \| (.*) \| (.*) \|$", text, re.MULTILINE):
        command, old, new = row
        found[command] = (re.findall(r"`([^`]+)`", old), re.findall(r"`([^`]+)`", new))
    return found


def table(changes: Mapping[str, tuple[list[str], list[str]]]) -> str:
    """Return the changelog's table."""
    rows = ["  | command | until now | now |", "  |---|---|---|"]
    for command, (gone, new) in sorted(changes.items()):
        old_words, new_words = (" ".join(f"`{each}`" for each in some) for some in (gone, new))
        rows.append(f"  | `{command}` | {old_words} | {new_words} |")
    return "\n".join(rows)


def before() -> dict[str, list[str]]:
    """Return the keys of each command before they had one vocabulary."""
    found: dict[str, list[str]] = json.loads(BEFORE.read_text("utf-8"))
    return found


HEAD = [
    "# JSON", "",
    "Written by `python -m tests.set_json_reference`, from what the commands print.", "",
    "A key has one meaning and one type in every command; it may be null where nothing is known. A session is `uid`",
    "and `label`, which every command takes; where several are only listed, it is their uids. A record is `seq`. A",
    "turn is `turn`, its number in the session, or `turn_uid`, which is the same wherever it is copied.",
    "A list has a name in an object, so that more can be added. `run`, `queue run`, `show -f` and `ingest --watch`",
    "print an object a line. Times are ISO 8601, UTC. Keys are added in any release; the [changelog](../CHANGELOG.md)",
    "lists changes. Of an error: [exit-codes.md](exit-codes.md). Of an export: [json-format.md](json-format.md).", "",
]  # fmt: skip
TAIL = [
    "These fields are the event's own: the `input` of a call is what it was given, and `tokens.input` a count. `show`",
    "puts `seq`, `part`, `turn`, `at` and `char_len` before them. Of a `Complete` it has what the agent reported; the",
    "whole cost is its turn's.", "",
    "`run` and `queue run` print lines of these kinds with the keys of the table: `Queued`, a prompt that waits;",
    "`Compacting` and `Compacted`, a summary that is made, and that was made; `Continued`, a turn that goes on behind",
    "it; `Complete`, the end of a turn with its session, tokens and cost.",
]  # fmt: skip
