"""The compact form: what is kept of an event beside its bytes, by rules per tool.

It is what a terminal shows of an event: a line or a few of a tool's output, the one field that matters of
its input. Nothing is lost by it, because the bytes of the record are kept too. Apply it once: the markers
it leaves would be counted as content by a second pass.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from backstory.derive.index_text import char_len
from backstory.lazy import lazy_regex
from backstory.model import Event, Thinking, Tool, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

THOUGHT_CHARS = 240
"""The first characters of a thought that the compact form keeps; the documented rules know no thoughts."""
REMINDER = "<system-reminder>"
_HEADER_STARTS = ("Chunk ID: ", "Exit code: ", "Script ", "Wall time")
_HEADER = lazy_regex(
    r"(?:(?:Chunk ID: [^\n]*|Script (?:completed|failed|running)[^\n]*"
    r"|(?:Wall time:?|Duration:) [\d.]+ seconds|Exit code: -?\d+"
    r"|Process (?:exited with code|running with session ID) -?\d+"
    r"|(?:Original token count|Total output lines): \d+)\n){1,8}Output:(?:\n+|\Z)"
)
"""Lines that some agents put before the output of a command, a patch, a script, or another's tool."""
_LASTED = lazy_regex(r"^(?:Wall time|Duration)", re.MULTILINE)
_PLAIN_HEADER = lazy_regex(
    r"(?:Chunk|Wall|Duration|Original|Total|Output)|Script completed|(?:Exit|Process exited with) code:? 0$"
)
"""Its lines that say nothing to a person: the command went well."""
_TRAILER = lazy_regex(r"\s*<shellId: \S+ completed with exit code 0>\s*\Z")
"""Lines that some agents put behind the output of a command that went well."""
_TRAILER_SIGN = "<shellId: "
_TRAILER_CHARS_MAX = 200
_SPILLED = lazy_regex(r"<persisted-output>\n(Output too large[^\n]*)\n+(?:Preview[^\n]*\n)?([^\n]*)")
"""The text for an output that was put into a file of its own: its path, and its beginning."""
_ERROR_MARKS = "<tool_use_error>", "</tool_use_error>"
_COMMENT_STARTS = ("//", "#", "/*", '"""')
# Rust's White_Space, which is what the rules were written against; str.strip() would also take \x1c-\x1f.
_BLANKS = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


def compact_event(event: Event) -> Event:
    """The compact form of ``event``. Kinds other than tool calls, results and thoughts are kept whole.

    >>> compact_event(ToolResult(tool_name="Glob", content="a.py\\nb.py")).content
    '2 files'
    """
    if isinstance(event, (ToolResult, ToolCall)) and event.is_compact:
        return event
    if isinstance(event, ToolResult):
        content = compact_result(event.tool_name, event.tool, event.content)
        if content is event.content and not event.changes and not event.details:
            return event
        return msgspec.structs.replace(event, content=content, changes={}, details="")
    if isinstance(event, ToolCall):
        return msgspec.structs.replace(event, input=compact_input(event.tool_name, event.tool, event.input))
    if isinstance(event, Thinking) and len(event.text) > THOUGHT_CHARS:
        return Thinking(text=event.text[:THOUGHT_CHARS] + "…")
    return event


_CUT: dict[type[Event], tuple[str, type[Any]]] = {
    ToolResult: ("content", str), Thinking: ("text", str), ToolCall: ("input", dict),
}  # fmt: skip
"""The field of each kind that the compact form cuts, and its type."""


def uncut_event(compact: Event, chars: int, record: bytes) -> Event | None:
    """Return the event of ``chars`` characters with this compact form, found among the JSON of its record.

    No agent's reader is needed for it. None where the record has it in no one piece, or names a file that has it.
    """
    field, kind = _CUT.get(type(compact), ("", str))
    try:
        values: Iterable[Any] = _values(msgspec.json.decode(record)) if field else ()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    for value in values:
        if not isinstance(value, kind) or (kind is str and (len(value) != chars or _SPILLED.match(value))):
            continue
        event: Event = msgspec.structs.replace(compact, **{field: value})
        if char_len(event) == chars and compact_event(event) == compact:
            return event
    return None


def _values(value: Any) -> Iterator[Any]:
    """Every value inside a JSON value, and itself."""
    yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _values(each)


def compact_result(tool_name: str, tool: str, content: str) -> str:
    """A tool result cut by the rule of its tool, without a trailing reminder to the model."""
    at = content.find(REMINDER)
    if at >= 0:
        content = content[:at]
    content = without_wrapping(content).rstrip(_BLANKS)
    return _RESULT_RULES.get(_rule(tool_name, tool), _first_three)(content)


def without_wrapping(content: str) -> str:
    """Return the output of a tool without the lines that an agent puts around it for the model; a failure stays.

    >>> without_wrapping("Exit code: 1\\nWall time: 0.1 seconds\\nOutput:\\nno such file")
    'Exit code: 1\\nno such file'
    """
    head = _HEADER.match(content) if content.startswith(_HEADER_STARTS) else None
    if head and _LASTED.search(head.group()):
        kept = [line for line in head.group().splitlines() if line and not _PLAIN_HEADER.match(line)]
        content = "\n".join([*kept, content[head.end() :]])
    if content.startswith(_ERROR_MARKS[0]):
        content = content.removeprefix(_ERROR_MARKS[0]).rstrip().removesuffix(_ERROR_MARKS[1])
    if spilled := _SPILLED.match(content):
        return "\n".join(spilled.groups())
    end = max(len(content) - _TRAILER_CHARS_MAX, 0)
    found = _TRAILER.search(content, end) if content.find(_TRAILER_SIGN, end) >= 0 else None
    return content[: found.start()] if found else content


def compact_input(tool_name: str, tool: str, given: Any) -> Any:
    """A tool call's input reduced to its key fields; edits are kept in full, written text is summarised."""
    if not isinstance(given, dict):
        return {}
    rule = _rule(tool_name, tool)
    if rule == "Edit":
        return given
    if rule == "Write":
        return _written(given)
    return {key: given[key] for key in _KEY_FIELDS.get(rule, _DEFAULT_FIELDS) if key in given}


def lines_of(text: str) -> list[str]:
    """Lines as the rules count them: split at ``\\n``, one trailing ``\\r`` dropped, no empty line at the end."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def _rule(tool_name: str, tool: str) -> str:
    # The seeds' own spellings come first, so that what they promise for a name holds whatever agent uses it.
    return _RULE_OF_NAME.get(tool_name) or _RULE_OF_TOOL.get(tool, "")


def _first_and_last(content: str) -> str:
    newlines = content.count("\n")
    if newlines < 2:
        return content
    first, last = content[: content.index("\n")], content[content.rindex("\n") + 1 :]
    return "\n".join((first.removesuffix("\r"), f"  ({newlines + 1} lines)", last))


def _last_two(content: str) -> str:
    # From the end, so that an output of many lines is not taken apart for two.
    kept, end = list[str](), len(content)
    while end >= 0 and len(kept) < 2:
        start = content.rfind("\n", 0, end) + 1
        line = content[start:end]
        if line.strip(_BLANKS):
            kept.append(line.removesuffix("\r"))
        end = start - 1
    return "\n".join(reversed(kept))


def _first_three(content: str) -> str:
    # Most results are short, and most long ones hold many lines: count before splitting.
    if content.count("\n") < 3:
        return content
    lines = lines_of(content)
    return content if len(lines) <= 3 else "\n".join(lines[:3]) + f"\n  (+{len(lines) - 3} more)"


def _first_five(content: str) -> str:
    lines = lines_of(content)
    return content if len(lines) <= 5 else "\n".join(lines[:5]) + f"\n  (+{len(lines) - 5} more lines)"


def _file_count(content: str) -> str:
    return f"{len(lines_of(content))} files"


def _written(given: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    path = given.get("file_path", given.get("path"))
    if path is not None:
        kept["file_path"] = path
    content = given.get("content")
    if isinstance(content, str):
        lines = lines_of(content)
        kept["_lines"] = len(lines)
        trimmed = (line.strip(_BLANKS) for line in lines)
        first = lines[0].strip(_BLANKS) if lines else ""
        purpose = next((line for line in trimmed if line.startswith(_COMMENT_STARTS)), first)
        if purpose:
            kept["_purpose"] = purpose
    return kept


_SEED_NAMES = ("Read", "Bash", "Grep", "Glob", "Task", "Edit", "Write", "WebFetch", "WebSearch", "Agent", "LSP")
_RULE_OF_NAME = {spelling: name for name in _SEED_NAMES for spelling in (name, name.lower())}
_RULE_OF_TOOL: dict[str, str] = {
    Tool.READ: "Read",
    Tool.SHELL: "Bash",
    Tool.GREP: "Grep",
    Tool.GLOB: "Glob",
    Tool.TASK: "Task",
    Tool.EDIT: "Edit",
    Tool.WRITE: "Write",
    Tool.FETCH: "WebFetch",
    Tool.SEARCH: "WebSearch",
}
_RESULT_RULES: dict[str, Callable[[str], str]] = {
    "Read": _first_and_last,
    "Bash": _last_two,
    "Glob": _file_count,
    "Task": _first_five,
}
_DEFAULT_FIELDS = ("file_path", "path", "command", "query", "pattern")
_KEY_FIELDS: dict[str, tuple[str, ...]] = {
    "Read": ("file_path", "path"),
    "Bash": ("command", "cmd"),
    "Grep": ("pattern",),
    "Glob": ("pattern",),
    "Task": ("subagent_type", "description"),
    "Agent": ("subagent_type", "description"),
    "WebFetch": ("url",),
    "WebSearch": ("query",),
    "LSP": ("operation", "filePath"),
}
