"""Texts of events in few words: a call, its result, a notice, the lines that an edit changed, a session's name. Pure.

Agents put what matters under many names. What a person would read first comes first: the command, the path, the
question, the title. Only where a call has none of these is it what else stands in its input.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from backstory import model
from backstory.bounds import INTEGER_MAX
from backstory.lazy import lazy_regex
from backstory.model import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import Event, ToolCall, ToolResult


SCANNED_CHARS_MAX = 200_000
"""The most characters of a script or a patch that are searched for commands and files."""
WORDS_CHARS_MAX = 2_000
"""A longer text is no line that a person would read; its first line may be."""
COMPARED_MAX = 4_000
"""The most pairs of lines that are compared to find those that an edit keeps."""
NUMBERS_SHOWN_MAX = 6
"""The most numbers that are shown of an input without words."""
TASK_LISTS = ("todos", "plan")
TASK_KEYS = ("content", "step", "subject", "title", "text")
DONE, AT_HAND = ("completed", "done"), ("in_progress", "in-progress")
"""Words of agents for the states of a task."""
CODE_KEYS = ("input", "script", "code")

_COMMANDS = ("command", "cmd")
_NAMED = (
    "file_path", "path", "filePath", "notebook_path", "pattern", "url", "query", "subject", "question", "title",
    "description", "prompt", "task", "message", "text", "name", "summary", "reason",
)  # fmt: skip
_STRING = r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)"""
_COMMAND_IN_CODE = lazy_regex(rf"""\b(?:cmd|command)["']?\s*:\s*{_STRING}""", re.DOTALL)
_META_IN_CODE = lazy_regex(rf"""\b(?:description|name)["']?\s*:\s*{_STRING}""", re.DOTALL)
PATCH = "*** Begin Patch"
_PATCHES = lazy_regex(r"(\bapply_?patch)\s+(?:<<-?\s*['\"]?\w+['\"]?\s+|['\"])?(?=\*\*\* Begin Patch)")
"""A command that applies a patch, up to it."""
_PIECE = lazy_regex(r"^@@", re.MULTILINE)
_SIGNS = ("+", "-")
_PATCHED = lazy_regex(r"\*\*\* (?:Update|Add|Delete) File: ((?:(?!\\n)[^\r\n\"'`])+)")
_ESCAPE = lazy_regex(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_HEADING = lazy_regex(r"^ {0,3}#{1,6}[ \t]+(\S.*?)[ \t#]*$", re.MULTILINE)
_TERMINAL_CODE = lazy_regex(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[()*+][0-9A-Za-z]|[=>78@-Z\\^_])"
)


Tone = Literal[
    "prompt", "answer", "thought", "call", "result", "error", "retry", "plan", "summary", "command", "hook", "other", ""
]
_WORDS: dict[type[model.Event], tuple[Tone, str, str]] = {
    model.UserMessage: ("prompt", "", "content"),
    model.AssistantText: ("answer", "", "text"),
    model.Thinking: ("thought", "", "text"),
    model.ToolCall: ("call", "tool_name", ""),
    model.ToolResult: ("result", "tool_name", "content"),
    model.Error: ("error", "", "message"),
    model.Retry: ("retry", "", "message"),
    model.Plan: ("plan", "name", "content"),
    model.Compacted: ("summary", "", "summary"),
    model.Command: ("command", "name", "output"),
    model.Hook: ("hook", "name", "output"),
    model.Init: ("", "", ""),
    model.Complete: ("", "", ""),
}
"""The fields of each kind that hold its name and its text; every value is the text of another kind."""


class EventWords(Struct, frozen=True):
    """An event in words, which each face draws with its own marks. ``tone``: '' where a person reads nothing."""

    tone: Tone
    head: str
    body: str


def words_of(event: Event) -> EventWords:
    """Return an event in words. Of a call it is the tool's name; ``essence`` says what it is about."""
    tone, head, body = _WORDS.get(type(event), ("other", "kind", ""))
    if isinstance(event, model.Hook) and event.is_state:
        tone = ""
    text = every_value(event) if tone == "other" else getattr(event, body, "")
    return EventWords(tone, getattr(event, head, "") or "", text)


def every_value(event: Event) -> str:
    """Return the values of an event, whatever they are."""
    return " ".join(str(value) for value in msgspec.to_builtins(event).values())


def essence(call: ToolCall) -> str:
    """Return the subject of a call: its command, its path, the words it looks for or asks; '' without an input.

    >>> from backstory.model import ToolCall
    >>> essence(ToolCall(tool_name="TaskUpdate", input={"taskId": "2", "status": "completed"}))
    '#2 completed'
    """
    given = call.input if isinstance(call.input, dict) else {"input": call.input}
    if command := next((text for key in (*_COMMANDS, "commands") if (text := text_of(given.get(key)))), ""):
        return _without_patch(command)
    for special in (_of_code, _of_patch, _of_lists, _of_task, _of_plan):
        if found := special(given):
            return found
    if (skill := given.get("skill")) and isinstance(skill, str):
        return f"{skill} {text_of(given.get('args'))}".strip()
    for key in _NAMED:
        if text := text_of(given.get(key)):
            return text + _lines_written(call, given)
    return call.file_path or _first_words(given) or _numbers(given)


def subject(call: bytes) -> str:
    """Return the file or the command of a call, given as the JSON of its event; '' for any other call."""
    try:
        found = msgspec.json.decode(call, type=dict[str, model.ToolCall]).get(model.ToolCall.kind)
    except msgspec.DecodeError:
        return ""
    if found is None or (not found.file_path and found.tool != Tool.SHELL):
        return ""
    return found.file_path or essence(found)


def is_path(call: ToolCall) -> bool:
    """Return True if the essence of a call is the path of one file."""
    return bool(call.file_path) and essence(call).startswith(call.file_path or "")


def call_words_in(call: ToolCall, folder: str) -> str:
    """Return the subject of a call; for a path in this folder the part below it."""
    words = without_terminal_codes(essence(call))
    return path_in(words, folder) if is_path(call) else words


def path_in(path: str, folder: str) -> str:
    """Return a path, or of one in this folder the part below it."""
    return path.removeprefix(f"{folder.rstrip('/')}/") if folder.strip("/") else path


def changed_lines(call: ToolCall) -> Iterator[tuple[str, str]]:
    """The lines that an edit takes away (``-``) and puts there (``+``), in order, without those that stay.

    Of an edit of several files the path of each comes before its lines, without a sign.
    """
    given = call.input if isinstance(call.input, dict) else {}
    edits = given.get("edits")
    for each in [given, *(edits if isinstance(edits, list) else [])]:
        if isinstance(each, dict):
            old, new = (first_text(each, keys) for keys in (OLD_KEYS, NEW_KEYS))
            if old or new:
                yield from _difference(old.split("\n") if old else [], new.split("\n") if new else [])
    files = [*(found for patch in patches_in(given) for found in _files_of(patch)), *files_changed(given)]
    are_several = len({path for path, _ in files}) > 1
    for path, lines in files:
        if are_several:
            yield "", path
        yield from lines


def without_terminal_codes(text: str) -> str:
    """A text as its writer meant it to be read: without the codes that colour it or move a cursor.

    >>> without_terminal_codes("\\x1b[2mdim\\x1b[22m")
    'dim'
    """
    return _TERMINAL_CODE.sub("", text) if "\x1b" in text else text


OLD_KEYS = ("old_string", "old_str", "oldText", "old_text")
NEW_KEYS = ("new_string", "new_str", "newText", "new_text", "insert_text")


def text_of(value: Any) -> str:
    """A value as words: a text, or a list of them as a command has it."""
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        return " ".join(value)
    return value.strip() if isinstance(value, str) else ""


def first_text(given: dict[str, Any], keys: tuple[str, ...]) -> str:
    return next((given[key] for key in keys if isinstance(given.get(key), str)), "")


def _of_code(given: dict[str, Any]) -> str:
    """A script that calls other tools: the commands in it, and the files that it patches."""
    code = first_text(given, CODE_KEYS)[:SCANNED_CHARS_MAX]
    if not code or code.lstrip().startswith(PATCH):
        return ""
    commands = [_unquoted(found) for found in _COMMAND_IN_CODE.findall(code)]
    patched = _patched_in(code)
    if patched:
        commands.append(f"patch {patched}")
    if not commands and (meta := _META_IN_CODE.findall(code)):
        commands = [": ".join(_unquoted(each) for each in meta[:2])]
    return "; ".join(commands) or _first_line(code)


def _of_patch(given: dict[str, Any]) -> str:
    patched = next((found for patch in patches_in(given) if (found := _patched_in(patch))), "")
    paths = [path for path, _ in files_changed(given)]
    return patched or (_listed(paths) if len(paths) > 1 else "")


def patches_in(given: dict[str, Any]) -> Iterator[str]:
    """The patches in an input, as text with line ends of its own."""
    for key in (*_COMMANDS, "patch", "patchText", "patch_text", *CODE_KEYS):
        text = text_of(given.get(key))
        if PATCH in text and (key not in _COMMANDS or _PATCHES.search(text)):
            is_script = key in CODE_KEYS and not text.lstrip().startswith(PATCH)
            literals = re.findall(_STRING, text[:SCANNED_CHARS_MAX]) if is_script else []
            yield from [_unquoted(each) for each in literals if PATCH in each] or [text]


def _without_patch(command: str) -> str:
    """A command that applies a patch by the names of the files in place of the patch.

    >>> _without_patch("cd w && apply_patch <<'EOF'\\n*** Begin Patch\\n*** Add File: a.md\\n+A\\n*** End Patch\\nEOF")
    'cd w && apply_patch a.md'
    """
    found = _PATCHES.search(command)
    patched = _patched_in(command[found.end() :]) if found else ""
    return f"{command[: found.end(1)]} {patched}" if found and patched else command


def _files_of(patch: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The files of a patch, each with its changed lines."""
    path, lines = "", list[tuple[str, str]]()
    for line in patch[patch.find(PATCH) :].split("\n"):
        if header := _PATCHED.match(line):
            if path:
                yield path, lines
            path, lines = header.group(1).strip(), []
        elif line[:1] in _SIGNS:
            lines.append((line[0], line[1:]))
    if path or lines:
        yield path, lines


def files_changed(given: dict[str, Any]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The files that an agent says it changed, each with its changed lines: of a new one all that is in it."""
    changes = given.get("changes")
    named = changes.items() if isinstance(changes, dict) else []
    listed = [("", each) for each in changes] if isinstance(changes, list) else []
    for path, each in [*named, *listed]:
        if isinstance(each, dict):
            yield path or text_of(each.get("path")), list(_lines_changed(each))


def _lines_changed(change: dict[str, Any]) -> Iterator[tuple[str, str]]:
    diff, content = change.get("unified_diff") or change.get("diff"), change.get("content")
    if isinstance(diff, str):
        # What stands above the first piece names the files.
        pieces = _PIECE.search(diff)
        lines = diff[pieces.start() if pieces else 0 :].split("\n")
        yield from ((line[0], line[1:]) for line in lines if line[:1] in _SIGNS)
    elif isinstance(content, str):
        sign = "-" if change.get("type") == "delete" else "+"
        yield from ((sign, line) for line in content.removesuffix("\n").split("\n"))


def _listed(paths: list[str]) -> str:
    """Paths, with the folders that they share written once.

    >>> _listed(["/w/new.md", "/w/a/notes.txt", "/x/b"])
    '/w/new.md, a/notes.txt, /x/b'
    """
    folder = paths[0].rpartition("/")[0] + "/"
    return ", ".join([paths[0], *(path.removeprefix(folder) for path in paths[1:])])


def _patched_in(text: str) -> str:
    return ", ".join(dict.fromkeys(path.strip() for path in _PATCHED.findall(text[:SCANNED_CHARS_MAX])))


def _unquoted(literal: str) -> str:
    """The text that a literal of a script stands for."""
    if literal.startswith('"'):
        try:
            return str(msgspec.json.decode(literal))
        except (msgspec.MsgspecError, ValueError):
            pass
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found.group(1), found.group(1)), literal[1:-1])


def _of_lists(given: dict[str, Any]) -> str:
    """Questions, or what there is to do: the question, or the task at hand and how many are done."""
    questions = given.get("questions")
    if isinstance(questions, list):
        asked = [text_of(each.get("question")) for each in questions if isinstance(each, dict)]
        return " / ".join(filter(None, asked))
    for key in TASK_LISTS:
        tasks = given.get(key)
        if isinstance(tasks, list) and (found := _of_tasks([each for each in tasks if isinstance(each, dict)])):
            return found
    return ""


def _of_tasks(tasks: list[dict[str, Any]]) -> str:
    done = sum(each.get("status") in DONE for each in tasks)
    at_hand = next((each for each in tasks if each.get("status") in AT_HAND), None)
    at_hand = at_hand or next((each for each in tasks if each.get("status") == "pending"), None)
    words = first_text(at_hand, TASK_KEYS) if at_hand else "all done"
    return f"{done}/{len(tasks)} {words}" if tasks else ""


def _of_task(given: dict[str, Any]) -> str:
    """A change to one of the tasks: its number and what changes."""
    number = given.get("taskId") or given.get("task_id")
    if not isinstance(number, str | int):
        return ""
    changes = [
        text if key in ("status", "subject") else f"{key} {text}"
        for key, value in given.items()
        if key not in ("taskId", "task_id", "activeForm", "description") and (text := text_of(value))
    ]
    return " ".join([f"#{number}", *changes])


def _of_plan(given: dict[str, Any]) -> str:
    plan = given.get("plan")
    if not isinstance(plan, str):
        return ""
    heading = _HEADING.search(plan[:SCANNED_CHARS_MAX])
    return heading.group(1) if heading else _first_line(plan)


def _lines_written(call: ToolCall, given: dict[str, Any]) -> str:
    """Return the number of lines that a file is given, if the compact form gives it."""
    count = given.get("_lines")
    if call.tool != Tool.WRITE or not isinstance(count, int):
        return ""
    return f" ({count} line{'s' * (count != 1)})"


def _first_words(value: Any) -> str:
    """The first text in an input that a person would read: words before what may be an id."""
    texts = list(_short_texts(value))
    return next((text for text in texts if " " in text), texts[0] if texts else "")


def _numbers(given: dict[str, Any]) -> str:
    """An input without words, by its names: what is left to distinguish two calls."""
    numbers = [(key, value) for key, value in given.items() if isinstance(value, int | float)]
    return " ".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in numbers[:NUMBERS_SHOWN_MAX])


def _short_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value.strip():
        yield value.strip() if len(value) <= WORDS_CHARS_MAX else _first_line(value)
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _short_texts(each)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text[:SCANNED_CHARS_MAX].split("\n") if line.strip()), "")


def _difference(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    """Two texts, line by line, without the lines that they share."""
    most = min(len(old), len(new))
    head = next((n for n in range(most) if old[n] != new[n]), most)
    tail = next((n for n in range(most - head) if old[-1 - n] != new[-1 - n]), most - head)
    for sign, line in _changes(old[head : len(old) - tail], new[head : len(new) - tail]):
        yield sign, line.removesuffix("\r")


def _changes(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    """The least lines to take away and to add; of long texts, whose comparison takes long, all of both."""
    if len(old) * len(new) > COMPARED_MAX:
        yield from (("-", line) for line in old)
        yield from (("+", line) for line in new)
        return
    shared = _shared_behind(old, new)
    m = n = 0
    while m < len(old) or n < len(new):
        if m < len(old) and n < len(new) and old[m] == new[n]:
            m, n = m + 1, n + 1
        elif n == len(new) or (m < len(old) and shared[m + 1][n] >= shared[m][n + 1]):
            yield "-", old[m]
            m += 1
        else:
            yield "+", new[n]
            n += 1


def _shared_behind(old: list[str], new: list[str]) -> list[list[int]]:
    """Return the numbers of lines that two texts share, in order, from each line of one and each of the other on."""
    shared = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for m in range(len(old) - 1, -1, -1):
        for n in range(len(new) - 1, -1, -1):
            shared[m][n] = shared[m + 1][n + 1] + 1 if old[m] == new[n] else max(shared[m + 1][n], shared[m][n + 1])
    return shared


# what a tool's result comes to ----------------------------------------------------------------------------------------


_EXIT_HEAD = lazy_regex(
    r"\AExit code: (-?\d{1,19})\nWall time: |"
    r"\A(?:Chunk ID: .*\n)?(?:Wall time: .*\n)?Process exited with code (-?\d{1,19})(?:\n|\Z)"
)
"""The head that a client writes before every output of a command."""
_EXIT_FAILED = lazy_regex(r"\A(?:Exit code:? |\[?Command exited with code )(-?\d{1,19})\]?(?:\n|\Z)")
"""The first line of a failed command, as other clients write it: a command that prints such a line has not failed."""
_EXIT_LAST = lazy_regex(r"<(?:shellId: \S+ completed|exited) with exit code (-?\d{1,19})>\s*\Z")
"""The last line, as one client writes it."""
_EXIT_BEHIND = lazy_regex(r"\n(?:Command exited with code|Exit Code:) (-?\d{1,19})\s*\Z")
"""The last line of a failed command, as others write it."""
_EXIT_LINE = lazy_regex(
    r"^(?:(?:Exit code:?|Process exited with code) -?\d{1,10}|\[Command exited with code -?\d{1,10}\])$", re.MULTILINE
)
HEAD_CHARS = 400
"""The first and the last characters of a result that are searched for its exit code."""
_COUNTED = lazy_regex(r"\n {2}\((\d+) lines\)\n")
"""The number of lines that the compact form left out of a read file."""
_NUMBERED = lazy_regex(r" *(\d+)(?:→|\t|\. )")
"""The ways in which agents number the lines of a file."""
_FILES = lazy_regex(r"\d+ files")


def call_facts(call: ToolCall) -> str:
    """Return the facts of a call itself: the lines that an edit adds and removes, or that a written file has.

    >>> from backstory.model import ToolCall
    >>> call_facts(ToolCall(tool_name="Edit", tool="EDIT", input={"old_string": "a", "new_string": "b\\nc"}))
    '+2 −1'
    """
    if call.tool == Tool.WRITE and (count := _written(call.input)) is not None:
        return _counted(count)
    if call.tool not in (Tool.EDIT, Tool.WRITE, Tool.OTHER, Tool.SHELL, ""):
        return ""
    signs = [sign for sign, _ in changed_lines(call)]
    added, removed = signs.count("+"), signs.count("-")
    return " ".join(f"{sign}{count}" for sign, count in (("+", added), ("−", removed)) if count)


def result_facts(result: ToolResult) -> str:
    """Return a result in short: ``ok``, ``exit 1``, ``984 lines``, ``refused``; '' if its own lines say more."""
    if result.is_error:
        if result.content == INTERRUPTED:
            return INTERRUPTED
        if is_refusal(result.content):
            return "refused"
        code = exit_code(result.content, is_error=True)
        return "failed" if code is None else f"exit {code}"
    if result.tool == Tool.SHELL:
        code = exit_code(result.content, is_error=False)
        return f"exit {code}" if code else "ok"
    if result.tool == Tool.READ:
        return _lines_read(result.content)
    return result.content if result.tool == Tool.GLOB and _FILES.fullmatch(result.content) else ""


def is_said_by_facts(result: ToolResult) -> bool:
    """Return True if a result's own lines say nothing that its call and its facts do not say."""
    if result.is_error or result.changes:
        return result.is_error and (result.content == INTERRUPTED or is_refusal(result.content))
    if result.tool in (Tool.EDIT, Tool.WRITE):
        return True
    if result.tool == Tool.SHELL:
        return not result.content.strip()
    return result.tool in (Tool.READ, Tool.GLOB) and bool(result_facts(result))


def exit_code(output: str, *, is_error: bool) -> int | None:
    """The exit code that the client put before or after a command's output. ``is_error``: it says that it failed.

    >>> exit_code("Exit code 2\\nno such file", is_error=True), exit_code("Exit code 2", is_error=False)
    (2, None)
    """
    head, end = output[:HEAD_CHARS], output[-HEAD_CHARS:]
    if "xit" not in head and "xit" not in end:
        return None
    found = _EXIT_HEAD.match(head) or _EXIT_LAST.search(end)
    if found is None and is_error:
        found = _EXIT_FAILED.match(head) or _EXIT_BEHIND.search(end)
    code = int(next(filter(None, found.groups()))) if found else None
    return code if code is not None and -INTEGER_MAX - 1 <= code <= INTEGER_MAX else None


def exit_line(content: str) -> str:
    """The line near the beginning of a result that says a command's exit code; '' where none does."""
    found = _EXIT_LINE.search(content, 0, HEAD_CHARS)
    return found.group() if found else ""


def result_body(result: ToolResult) -> str:
    """A result without the line that only says its exit code, which ``result_facts`` says."""
    first, newline, rest = result.content.partition("\n")
    is_said = newline and _EXIT_LINE.fullmatch(first.strip())
    return rest if is_said and exit_code(result.content, is_error=result.is_error) is not None else result.content


def _written(given: Any) -> int | None:
    if not isinstance(given, dict):
        return None
    count, content = given.get("_lines"), given.get("content")
    if isinstance(count, int):
        return count
    return len(_lines_of(content)) if isinstance(content, str) else None


def _lines_read(content: str) -> str:
    """Return the number of lines of a file that were read; also which, if not from its beginning."""
    lines = _lines_of(content)
    first = _NUMBERED.match(lines[0]) if lines else None
    last = _NUMBERED.match(lines[-1]) if lines else None
    if first and last and 1 < int(first.group(1)) <= int(last.group(1)):
        return f"lines {first.group(1)}–{last.group(1)}"
    if counted := _COUNTED.search(content):
        return _counted(int(counted.group(1)))
    return _counted(len(lines)) if first else ""


def _lines_of(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _counted(count: int) -> str:
    return f"{count:,} line{'s' * (count != 1)}"


# notices that agents write for programs -------------------------------------------------------------------------------


READ_CHARS_MAX = 20_000
"""A longer notice is left as it is."""
DEPTH_MAX = 8
_MARKED = lazy_regex(r"<([a-z][a-z_-]*)>(.*)</\1>", re.DOTALL)
_SUMMARY = lazy_regex(r"<summary>(.*?)</summary>", re.DOTALL)
INTERRUPTED = "interrupted"
"""The code of an error that says that the agent was stopped, and the content of the call that it was at."""
_REFUSED = "The user doesn't want to proceed with this tool use."
_QUESTIONS = "The user wants to clarify these questions"
_MARK = lazy_regex(r"</?[a-z][a-z_-]*>")


def why(message: str) -> str:
    """Return the reason why a request failed: of an answer in JSON its status and its innermost message.

    >>> why('429 {"error": {"message": "Too many."}}')
    '429 Too many.'
    """
    at = message.find("{")
    if at < 0 or len(message) > READ_CHARS_MAX:
        return message
    try:
        answer = msgspec.json.decode(message[at:])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return message
    words = _message(answer)
    status = answer.get("status") if isinstance(answer, dict) else None
    head = message[:at].strip() or (str(status) if isinstance(status, int) else "")
    return f"{head} {words}".strip() if words else message


def noted(text: str) -> str:
    """Return the message of a notification: its summary, else its words without the marks around them."""
    if len(text) > READ_CHARS_MAX or not (marked := _MARKED.fullmatch(text.strip())):
        return text
    summary = _SUMMARY.search(marked.group(2))
    return (summary.group(1) if summary else _MARK.sub(" ", marked.group(2))).strip()


def is_refusal(text: str) -> bool:
    """Return True if a result tells a model only that a person did not let a call happen.

    What the person said besides is a prompt of its own. Where they have questions it stands in the result.
    """
    return text.startswith(_REFUSED) and _QUESTIONS not in text[:READ_CHARS_MAX]


def _message(value: Any) -> str:
    """The innermost message of an error that holds another."""
    found = ""
    for _ in range(DEPTH_MAX):
        if isinstance(value, str):
            return value
        if not isinstance(value, dict):
            break
        own = value.get("message")
        found = own if isinstance(own, str) and own else found
        value = value.get("error")
    return found
