"""Files that an event touched, as its record says: tools' inputs, patches, and the certain acts of shell commands.

Nothing here looks at a disk, so a write to a file that was not there is an edit unless the record says "created".
"""

from __future__ import annotations

import ntpath
import posixpath
import re
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from backstory.derive import shell_parse
from backstory.lazy import lazy_regex
from backstory.model import Event, Tool, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Action(StrEnum):
    """The kinds of acts on a file."""

    READ = "read"
    EDIT = "edit"
    CREATE = "create"
    DELETE = "delete"
    RENAME = "rename"


class Touch(Struct, frozen=True):
    """A file was touched. ``path`` is as given (after a ``cd``, as seen from where the command began); ``tool`` is
    the log's own name of the tool; ``to`` is a rename's new path, where it is known."""

    path: str
    action: str
    tool: str
    to: str | None = None


def touches(event: Event, cwd: str | None = None) -> list[Touch]:
    """Return the files that a tool call was to touch, each file and action once, in order; none for other events.

    ``cwd`` is the session's folder: relative paths of a call that ran elsewhere are joined to where it ran.

    >>> call = ToolCall(tool_name="Bash", tool="SHELL", input={"command": "mv a.py b.py && rm c.py"})
    >>> [(each.action, each.path, each.to) for each in touches(call)]
    [('rename', 'a.py', 'b.py'), ('delete', 'c.py', None)]
    """
    if not isinstance(event, ToolCall):
        return []
    return list(dict.fromkeys(each.touch for each in _claimed(event, cwd)))


def resolve_touches(call: ToolCall, result: ToolResult, cwd: str | None = None) -> list[Touch]:
    """Return the files that a call touched, given its result: none if it failed, "create" if the result says so.

    A shell command that failed may have done its part before, so only files that its output complains about are
    left out; one that was refused, and so never ran, touched nothing.
    """
    claimed = _claimed(call, cwd)
    if result.changes:
        return _as_agent_saw(call, claimed, result.changes, cwd)
    if claimed and shell_parse.is_shell(call.tool_name, call.tool):
        claimed = _survivors(call, claimed, result)
    elif result.is_error:
        return []
    if not claimed:
        return []
    action = _said_action(result.content)
    found = (_as_said(each.touch, action) for each in claimed)
    return list(dict.fromkeys(found))


def _as_agent_saw(call: ToolCall, claimed: list[_Claim], changes: dict[str, str], cwd: str | None) -> list[Touch]:
    """Join the files that the watching agent saw change with those that the command itself read or renamed."""
    said = [each.touch for each in claimed if each.touch.action in (Action.READ, Action.RENAME)]
    renamed = {place(path, cwd, None)[0] for each in said if each.to for path in (each.path, each.to)}
    seen = [Touch(path, action, call.tool_name) for path, action in changes.items()]
    return list(dict.fromkeys([*said, *(each for each in seen if place(each.path, cwd, None)[0] not in renamed)]))


def place(path: str, cwd: str | None, root: str | None) -> tuple[str, str | None]:
    """A path's absolute form, and its form below ``root``: None outside of it. Both with ``/``, without ``..``.

    Links are not followed. ``~`` is the home that ``cwd`` lies in; without one it stays. A relative path without a
    ``cwd`` stays relative, and lies below nothing.

    >>> place("../lib/a.py", "/home/me/tool/src", "/home/me/tool")
    ('/home/me/tool/lib/a.py', 'lib/a.py')
    """
    windows = _is_windows(path) or bool(cwd and _is_windows(cwd) and not path.startswith(("file:", "~")))
    absolute = _absolute(path, cwd, windows)
    if root is None or not _is_absolute(absolute):
        return absolute, None
    return absolute, _below(absolute, _absolute(root, None, _is_windows(root)))


_PATH_KEYS = (
    "file_path", "filePath", "path", "notebook_path", "absolute_path", "target_file", "filename", "file",
    "AbsolutePath", "TargetFile", "uri",
)  # fmt: skip
_SOURCE_KEYS = ("source", "old_path", "oldPath", "from", "src", "source_path", *_PATH_KEYS)
_TARGET_KEYS = ("destination", "new_path", "newPath", "to", "dest", "destination_path", "target_path", "move_path")
_LIST_KEYS = ("paths", "files", "edits", "changes", "fileEdits", "file_edits", "operations", "replacements")
_KIND_KEYS = ("kind", "type", "operation", "action")
_FOLDER_KEYS = ("workdir", "cwd", "working_directory")
_PATCH_KEYS = ("patch", "input", "patchText", "patch_text", "arguments", "changes")

_NAMES = {
    Action.READ: (
        "read", "readfile", "readtextfile", "readmediafile", "readmultiplefiles", "readmanyfiles", "view", "viewfile",
        "viewimage", "openfile", "notebookread", "readnotebook",
    ),
    Action.EDIT: (
        "edit", "editfile", "multiedit", "strreplace", "searchreplace", "replace", "replaceinfile", "applydiff",
        "insert", "insertcontent", "inserteditintofile", "replacestringinfile", "multireplacestringinfile", "write",
        "writefile", "writetofile", "savefile", "notebookedit", "editnotebook", "editnotebookfile", "append",
        "appendfile", "applypatch",
    ),
    Action.CREATE: ("create", "createfile", "createnewfile", "newfile", "addfile"),
    Action.DELETE: ("delete", "deletefile", "removefile"),
    Action.RENAME: ("movefile", "renamefile"),
}  # fmt: skip
_ACTION_OF_NAME = {name: action for action, names in _NAMES.items() for name in names}
_ACTION_OF_TOOL: dict[str, Action] = {Tool.READ: Action.READ, Tool.EDIT: Action.EDIT, Tool.WRITE: Action.EDIT}
_ACTION_OF_KIND = {
    "add": Action.CREATE, "create": Action.CREATE, "created": Action.CREATE, "delete": Action.DELETE,
    "deleted": Action.DELETE, "remove": Action.DELETE, "edit": Action.EDIT, "modify": Action.EDIT,
    "update": Action.EDIT, "insert": Action.EDIT, "append": Action.EDIT, "strreplace": Action.EDIT,
    "undoedit": Action.EDIT, "rename": Action.RENAME, "move": Action.RENAME, "view": Action.READ, "read": Action.READ,
}  # fmt: skip
_SHELL, _EDITOR = "shell", "editor"
_EDITORS = frozenset({"strreplaceeditor", "strreplacebasededittool", "fswrite"})
"""Tools whose input's ``command`` says what they do."""
_NOT_SQUASHED = lazy_regex(r"[^a-z0-9]+")
_PATCH_LINE = lazy_regex(r"^\*\*\* (?:(Add|Update|Delete) File|Move to): (.+?)[ \t\r]*$", re.MULTILINE)
_CREATED = lazy_regex(
    r"\s*(?:(?:new )?file created\b|(?:successfully )?created (?:a )?(?:new )?file\b|successfully created\b"
    r"|(?:the )?file \S+ (?:has been|was) (?:successfully )?created\b)",
    re.IGNORECASE,
)
_UPDATED = lazy_regex(
    r"\s*(?:(?:successfully )?(?:overwrote|updated) (?:existing )?file\b"
    r"|(?:the )?file \S+ (?:has been|was) (?:successfully )?(?:updated|overwritten)\b)",
    re.IGNORECASE,
)
_RAN = lazy_regex(r"\bexit(?:ed with)?(?: code| status)?:? -?\d", re.IGNORECASE)
_VERDICT_CHARS = 400
"""An exit is named within this many characters of a result's beginning or end."""
_COMPLAINT = lazy_regex(r"No such file|not permitted|ermission denied|s a directory|cannot |can't |did not match")
# A filter at a pipe's end and a commit message's here-document are common, and touch nothing.
_PROGRAM_MET = lazy_regex(
    r"[\s;&|('\"/](?:(?<!\| )(?:head|tail|sed)|(?<!\$\()cat|rm|mv|cp|tee|touch|nl|less|more|unlink|apply_?patch"
    r"|sed[ ]-[nErsuz]*i)\s"
)
_OUTPUT_MET = lazy_regex(r">>?[ \t]*(?!/dev/null)[^\s&>|(]")
_INPUT_MET = lazy_regex(r"<(?<!<<)[ \t]*[\w./~'\"-]+(?=[\s;|&)]|\Z)")
_SHELL_SAYS = lazy_regex(r"(?:/\S*/)?(?:ba|z|da|k)?sh: |\(eval\):|-(?:ba|z)sh: ")
_SED_IN_PLACE = lazy_regex(r"-[nErsuz]*i|--in-place")
_SED_SUFFIX = lazy_regex(r"(?:\.\w+)?\Z")


class _Claim(Struct, frozen=True):
    """A touch, the program that was to do it ("" for a tool or a redirection), and the path as the program had it."""

    touch: Touch
    program: str = ""
    said: str = ""


class _Row(Struct, frozen=True):
    path: str
    action: Action
    to: str | None = None
    program: str = ""
    folder: str = ""


def _claimed(call: ToolCall, cwd: str | None) -> list[_Claim]:
    handling = _handling(call.tool_name, call.tool)
    if handling is None:
        return []
    given: dict[str, Any] = call.input if isinstance(call.input, dict) else {}
    folder = next((given[key] for key in _FOLDER_KEYS if isinstance(given.get(key), str)), "")
    folder = "" if folder == cwd else folder
    claimed = []
    for row in _by_shell(given) if handling == _SHELL else _by_tool(call, given, handling):
        if _is_a_file(row.path):
            path, to = row.path, row.to
            if folder or row.folder:
                path = shell_parse.join(folder, shell_parse.join(row.folder, path))
                to = to and shell_parse.join(folder, shell_parse.join(row.folder, to))
            claimed.append(_Claim(Touch(path, row.action.value, call.tool_name, to), row.program, row.path))
    return claimed


def _is_a_file(path: str) -> bool:
    if not path or path in ("-", ".", "..") or path.startswith("/dev/") or "\0" in path or "\n" in path:
        return False
    return "://" not in path or path.startswith("file:")


# tools ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _handling(tool_name: str, tool: str) -> str | None:
    """Return how to read a tool's calls: as a shell's, as an editor's of several commands, as one action; None: not."""
    name = _squashed(tool_name)
    if shell_parse.is_shell(tool_name, tool):
        return _SHELL
    if tool == Tool.SHELL:
        return None
    if name in _EDITORS:
        return _EDITOR
    if tool_name.startswith("mcp__") and "file" not in name:
        # Not every server's "create" is about files.
        return None
    named = _ACTION_OF_NAME.get(name)
    return named if named not in (None, Action.READ) else _ACTION_OF_TOOL.get(tool, named)


def _squashed(name: str) -> str:
    """A tool's name without its server's, its case and its punctuation."""
    return _NOT_SQUASHED.sub("", name.rpartition("__")[2].lower())


def _by_tool(call: ToolCall, given: dict[str, Any], handling: str) -> Iterator[_Row]:
    if handling == _EDITOR:
        handling = _ACTION_OF_KIND.get(_squashed(str(given.get("command", ""))), "")
    if not handling or ("owner" in given and "repo" in given):
        # A file of a repository far away is none of this machine.
        return
    patch = _patch(call.input, given) if handling == Action.EDIT else None
    if patch is not None:
        yield from _by_patch(patch)
        return
    action = Action(handling)
    several = next((given[key] for key in _LIST_KEYS if key in given), None)
    if isinstance(several, dict):
        several = [{"path": path, **(each if isinstance(each, dict) else {})} for path, each in several.items()]
    if isinstance(several, list):
        yield from (row for each in several if (row := _row(each, action)) is not None)
    whole = _row(given, action, by_kind=False)
    if whole is not None:
        yield whole
    elif call.file_path and several is None:
        yield _Row(call.file_path, action)


def _row(given: Any, action: Action, *, by_kind: bool = True) -> _Row | None:
    """The touch that one entry of a tool's input names."""
    if isinstance(given, str):
        return None if "*" in given else _Row(given, action)
    if not isinstance(given, dict):
        return None
    action = _kind(given, action) if by_kind else action
    to = _first_text(given, _TARGET_KEYS) if by_kind or action is Action.RENAME else None
    path = _first_text(given, _PATH_KEYS if to is None else _SOURCE_KEYS)
    if path is None:
        return None
    return _Row(path, action) if to is None else _Row(path, Action.RENAME, to)


def _kind(given: dict[str, Any], action: Action) -> Action:
    for key in _KIND_KEYS:
        kind = given.get(key)
        kind = kind.get("type") if isinstance(kind, dict) else kind
        if isinstance(kind, str) and kind.lower() in _ACTION_OF_KIND:
            return _ACTION_OF_KIND[kind.lower()]
    return action


def _first_text(given: dict[str, Any], keys: Iterable[str]) -> str | None:
    for key in keys:
        value = given.get(key)
        if isinstance(value, str) and value:
            return value
    return None


# patches --------------------------------------------------------------------------------------------------


def _patch(whole: Any, given: dict[str, Any]) -> str | None:
    texts = [whole] if isinstance(whole, str) else [given[key] for key in _PATCH_KEYS if key in given]
    return next((text for text in texts if isinstance(text, str) and "*** Begin Patch" in text), None)


def _by_patch(patch: str, program: str = "", folder: str = "") -> Iterator[_Row]:
    held: str | None = None
    start = patch.find("*** Begin Patch")
    for verb, path in _PATCH_LINE.findall(patch, start, _patch_end(patch, start)):
        if held is not None:
            renamed = verb == ""
            yield _Row(held, Action.RENAME if renamed else Action.EDIT, path if renamed else None, program, folder)
        held = path if verb == "Update" else None
        if verb in ("Add", "Delete"):
            yield _Row(path, Action.CREATE if verb == "Add" else Action.DELETE, None, program, folder)
    if held is not None:
        yield _Row(held, Action.EDIT, None, program, folder)


def _patch_end(patch: str, start: int) -> int:
    end = patch.find("\n*** End Patch", start)
    return end if end >= 0 else len(patch)


# shell commands -------------------------------------------------------------------------------------------


def _by_shell(given: dict[str, Any]) -> Iterator[_Row]:
    script = shell_parse.script_of(given)
    if script is None or not _may_touch(script):
        return
    for command in shell_parse.simple_commands(script):
        if not command.conditional:
            yield from (_where_it_ran(row, command.folder) for row in _by_command(command, script))


def _where_it_ran(row: _Row, folder: str | None) -> _Row:
    """The row as seen from where the script began; without a path where only a shell would know that."""
    if folder is None:
        return row if shell_parse.is_rooted(row.path) else msgspec.structs.replace(row, path="")
    return msgspec.structs.replace(row, folder=shell_parse.join(folder, row.folder)) if folder else row


def _may_touch(script: str) -> bool:
    """Return True if a script is worth taking apart: most touch no file, and this is asked of every one."""
    found = _PROGRAM_MET.search(f"\n{script}") or (">" in script and _OUTPUT_MET.search(script))
    return bool(found or ("<" in script and _INPUT_MET.search(script)))


def _by_command(command: shell_parse.Simple, script: str) -> Iterator[_Row]:
    program = (command.words[0] or "").rpartition("/")[2] if command.words else ""
    if program in ("apply_patch", "applypatch"):
        yield from _by_patch(script, program)
    elif (rows_of := _PROGRAMS.get(program)) is not None:
        yield from (msgspec.structs.replace(row, program=program) for row in rows_of(command.words[1:]))
    yield from (_Row(path, Action.READ) for path in command.reads if path)
    yield from (_Row(path, Action.EDIT) for path in command.writes if path)


_Words = list[str | None]


def _each(action: Action, *valued: str) -> Callable[[_Words], Iterator[_Row]]:
    taking = frozenset(valued)

    def rows(words: _Words) -> Iterator[_Row]:
        return (_Row(path, action) for path in shell_parse.operands(words, taking)[0] if path and path[0] != "+")

    return rows


def _sed(words: _Words) -> Iterator[_Row]:
    in_place = any(word is not None and _SED_IN_PLACE.match(word) for word in words)
    operands, options = shell_parse.operands(words, frozenset({"-e", "-f", "--expression", "--file", "-ne"}))
    has_script = any(each in ("-e", "-f", "--expression", "--file", "-ne") for each in options)
    if in_place and len(operands) > 1 and operands[0] is not None and _SED_SUFFIX.match(operands[0]):
        # BSD's -i takes the suffix of the backup as a word of its own.
        operands = operands[1:]
    files = operands if has_script else operands[1:]
    return (_Row(path, Action.EDIT if in_place else Action.READ) for path in files if path)


def _mv(words: _Words) -> Iterator[_Row]:
    for source, target in _moves(words):
        yield _Row(source, Action.RENAME, target)


def _cp(words: _Words) -> Iterator[_Row]:
    if any(word is None or re.match(r"-\w*[rRa]|--(?:recursive|archive)", word) for word in words):
        return
    for source, target in _moves(words):
        yield _Row(source, Action.READ)
        if target is not None:
            yield _Row(target, Action.EDIT)


def _moves(words: _Words) -> Iterator[tuple[str, str | None]]:
    """Each source with its target, None where it is not sure whether that is a folder."""
    operands, options = shell_parse.operands(words, frozenset({"-t", "--target-directory", "-S", "--suffix"}))
    folder = options.get("-t") or options.get("--target-directory")
    if folder is None and len(operands) < 2:
        return
    target, sources = (folder, operands) if folder is not None else (operands[-1], operands[:-1])
    is_folder = folder is not None or len(sources) > 1
    for source in sources:
        if source:
            yield source, _landing(source, target, is_folder)


def _landing(source: str, target: str | None, is_folder: bool) -> str | None:
    if not target:
        return None
    name, last = posixpath.basename(source.rstrip("/")), posixpath.basename(target)
    if is_folder or last in ("", ".", ".."):
        return posixpath.join(target, name) if name not in ("", ".", "..") else None
    return target if "." in last[1:] or last == name else None


def _git(words: _Words) -> Iterator[_Row]:
    folder, verb, rest = shell_parse.git_words(words)
    rows: Iterable[_Row] = ()
    if verb == "mv":
        rows = _mv(rest)
    elif verb == "rm" and "--cached" not in rest:
        rows = _each(Action.DELETE)(rest)
    return (msgspec.structs.replace(row, folder=folder) for row in rows) if folder is not None else iter(())


_PROGRAMS: dict[str, Callable[[_Words], Iterator[_Row]]] = {
    "cat": _each(Action.READ),
    "head": _each(Action.READ, "-n", "-c", "--lines", "--bytes"),
    "tail": _each(Action.READ, "-n", "-c", "--lines", "--bytes", "-s", "--pid"),
    "nl": _each(Action.READ, "-b", "-d", "-f", "-h", "-i", "-l", "-n", "-s", "-v", "-w"),
    "less": _each(Action.READ),
    "more": _each(Action.READ),
    "sed": _sed,
    "rm": _each(Action.DELETE),
    "unlink": _each(Action.DELETE),
    "mv": _mv,
    "cp": _cp,
    "touch": _each(Action.EDIT, "-d", "-t", "-r", "--date", "--reference"),
    "tee": _each(Action.EDIT),
    "git": _git,
}


# what came of it ------------------------------------------------------------------------------------------


def _survivors(call: ToolCall, claimed: list[_Claim], result: ToolResult) -> list[_Claim]:
    """The touches of a shell command that its result does not deny."""
    if result.is_error:
        if not (_RAN.search(result.content[:_VERDICT_CHARS]) or _RAN.search(result.content[-_VERDICT_CHARS:])):
            return []
        script = shell_parse.script_of(call.input) or ""
        if len(shell_parse.simple_commands(script)) == 1:
            # The only program is the one that failed; what its output went to was there before it began.
            claimed = [each for each in claimed if not each.program]
    complaints = [line for line in _lines_with(_COMPLAINT, result.content) if ":" in line]
    return [each for each in claimed if not any(_is_about(line, each) for line in complaints)]


def _lines_with(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    at = 0
    while (found := pattern.search(text, at)) is not None:
        start = text.rfind("\n", 0, found.start()) + 1
        at = text.find("\n", found.end())
        at = at if at >= 0 else len(text)
        yield text[start:at]


def _is_about(complaint: str, claim: _Claim) -> bool:
    """Return True if a line of output is what the program, or the shell itself, says of a path it could not use."""
    if not (f"{claim.program}: " in complaint if claim.program else _SHELL_SAYS.match(complaint)):
        return False
    said = claim.said
    return complaint.endswith(f" {said}") or any(each in complaint for each in (f" {said}:", f"'{said}'", f"‘{said}’"))


def _said_action(content: str) -> Action | None:
    if _CREATED.match(content):
        return Action.CREATE
    return Action.EDIT if _UPDATED.match(content) else None


def _as_said(touch: Touch, action: Action | None) -> Touch:
    is_write = touch.action in (Action.EDIT, Action.CREATE)
    return msgspec.structs.replace(touch, action=action.value) if is_write and action is not None else touch


# paths ----------------------------------------------------------------------------------------------------

_DRIVE = lazy_regex(r"[A-Za-z]:(?:[\\/]|\Z)")
_GIT_BASH = lazy_regex(r"/([A-Za-z])(?=/|\Z)")
_HOME = lazy_regex(r"(?:/home/[^/]+|/Users/[^/]+|/root|[A-Za-z]:[\\/]Users[\\/][^\\/]+)(?=[\\/]|\Z)")


def _is_windows(path: str) -> bool:
    return bool(_DRIVE.match(path)) or path.startswith("\\\\")


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or bool(_DRIVE.match(path))


def _absolute(path: str, cwd: str | None, windows: bool) -> str:
    if path[:5].lower() == "file:":
        path = _of_uri(path)
        windows = _is_windows(path)
    if path == "~" or path.startswith(("~/", "~\\")):
        home = _HOME.match(cwd or "")
        if home is None:
            return _normal(path)
        path, windows = home.group() + path[1:], _is_windows(home.group())
    if windows:
        return _absolute_on_windows(path, cwd)
    return _normal(posixpath.join(cwd or "", path))


def _absolute_on_windows(path: str, cwd: str | None) -> str:
    path = path.removeprefix("\\\\?\\")
    if not _is_windows(path):
        path = _GIT_BASH.sub(r"\1:", path, count=1) if _GIT_BASH.match(path) else path
        path = ntpath.join(cwd or "", path)
    normal = ntpath.normpath(path).replace("\\", "/")
    return normal[0].upper() + normal[1:] if _DRIVE.match(normal) else normal


def _normal(path: str) -> str:
    normal = posixpath.normpath(path)
    return "/" + normal.lstrip("/") if normal.startswith("//") else normal


def _of_uri(uri: str) -> str:
    """The path of a ``file:`` URI; one of another host is a Windows share."""
    rest = unquote(uri[5:])
    if not rest.startswith("//"):
        return rest
    host, slash, path = rest[2:].partition("/")
    if host not in ("", "localhost"):
        return f"{host}/{path}" if host.endswith(":") else f"\\\\{host}\\{path}"
    return path if _DRIVE.match(path) else slash + path


def _below(absolute: str, root: str) -> str | None:
    ours, above = (absolute.lower(), root.lower()) if not root.startswith("/") else (absolute, root)
    if ours == above:
        return "."
    above = above.rstrip("/") + "/"
    return absolute[len(above) :] if ours.startswith(above) else None
