"""Homes of agents as their own programs left them, packed in ``tests/agents/cases/AGENT/CASE``.

A case holds ``home.tar.xz`` (files below a home folder), its databases and ``count.json``: what was served and asked,
counted by the program that recorded it and not from the agent's files. A database is a SQL dump of main file and WAL
(``NAME.sql.xz``), or both files as they lay there (``NAME.tar.xz``); ``NAME`` is its path with ``__`` for each slash.

``PYTHONPATH=src python -m tests.support.recorded PACK RECORDINGS`` packs them. What the agents' makers wrote, system
prompts and descriptions of tools, becomes filler of the same length.
"""

from __future__ import annotations

import io
import json
import lzma
import re
import shutil
import sqlite3
import sys
import tarfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.store import Store

CASES = Path(__file__).parent.parent / "agents" / "cases"
HOME, COUNT = "home.tar.xz", "count.json"
PROJECT = "/home/dev/shop"
"""Where all recorded agents worked; there is no such folder in a home."""

# reading --------------------------------------------------------------------------------------------------------------


def cases_of(agent: str | None = None) -> list[tuple[str, str]]:
    """The recorded homes, of one agent or of all, each as its agent and the name of its case."""
    return [(path.parts[-3], path.parts[-2]) for path in sorted(CASES.glob(f"{agent or '*'}/*/{COUNT}"))]


def count_of(agent: str, case: str) -> dict[str, Any]:
    """What was counted apart from the agent's files."""
    found: dict[str, Any] = json.loads((CASES / agent / case / COUNT).read_text("utf-8"))
    return found


def home_of(folder: Path, agent: str, case: str, *, raw: bool = True) -> Path:
    """Make the home of a case in ``folder``; with ``raw``, databases as they lay there where that is kept."""
    home, packed = folder / "home", CASES / agent / case
    home.mkdir(parents=True, exist_ok=True)
    _unpack(packed / HOME, home)
    dumps = {path.name.removesuffix(".sql.xz"): path for path in packed.glob("*.sql.xz")}
    for path in packed.glob("*.tar.xz") if raw else ():
        if path.name != HOME:
            _unpack(path, home)
            dumps.pop(path.name.removesuffix(".tar.xz"), None)
    for name, path in dumps.items():
        database = home / database_place(name)
        database.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(database)) as db:
            db.executescript(lzma.decompress(path.read_bytes()).decode())
    return home


def database_place(name: str) -> Path:
    """Where a database lies below a home.

    >>> database_place("local__share__opencode__opencode.db").as_posix()
    '.local/share/opencode/opencode.db'
    """
    return Path("." + name.replace("__", "/"))


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")


NOTHING: dict[str, Any] = {
    "sessions": 0, "prompts": 0, "answers": 0, "tool_calls": 0, "failed": 0, "files_edited": [],
    "tokens": {"input": 0, "cached": 0, "output": 0},
}  # fmt: skip


def counted(store: Store, project: Path | str = PROJECT) -> dict[str, Any]:
    """What a store holds, as ``count.json`` says it: a turn that is in several sessions counts once.

    ``project``: where the project lies now, for an agent that names files from there on.
    """
    if not store.path.exists():
        # The file appears with the first session.
        return NOTHING
    with closing(sqlite3.connect(store.path)) as db:
        said = _sums(db, "coalesce(s.relation, '') not in ('subagent', 'unread')", project)
        helpers = _sums(db, "s.relation = 'subagent'", project)
    if helpers.pop("sessions"):
        said["helper"] = {key: value for key, value in helpers.items() if key not in ("prompts", "files_edited")}
    return said


def _sums(db: sqlite3.Connection, which: str, project: Path | str) -> dict[str, Any]:
    once = f"""select min(t.id) from turns t join sessions s on s.id = t.session_id where {which} group by t.uid"""
    turns = db.execute(
        f"""select coalesce(sum(prompt <> ''), 0), coalesce(sum(coalesce(input_tokens, 0) +
            coalesce(cache_read_tokens, 0) + coalesce(cache_write_tokens, 0)), 0),
            coalesce(sum(cache_read_tokens), 0), coalesce(sum(output_tokens), 0) from turns where id in ({once})"""
    ).fetchone()
    kinds = dict(db.execute(f"select kind, count(*) from events where turn_id in ({once}) group by kind"))
    failed = db.execute(
        f"""select count(*) from call_results c join events e on e.id = c.call_id
            where c.is_error and e.turn_id in ({once})"""
    ).fetchone()[0]
    files = db.execute(
        f"""select distinct file_path from session_files f join sessions s on s.id = f.session_id
            where f.action <> 'read' and {which} order by 1"""
    )
    return {
        "sessions": db.execute(f"select count(*) from sessions s where {which}").fetchone()[0],
        "prompts": turns[0],
        "answers": kinds.get("AssistantText", 0),
        "tool_calls": kinds.get("ToolCall", 0),
        "failed": failed,
        "files_edited": [path.removeprefix(f"{project}/").removeprefix(f"{PROJECT}/") for (path,) in files],
        "tokens": {"input": turns[1], "cached": turns[2], "output": turns[3]},
    }


# packing --------------------------------------------------------------------------------------------------------------

PACKED = {
    "pi-0.73.1": ("pi", ""), "pi2-0.87.1": ("pi", "-0.87.1"), "gemini-0.61.0": ("gemini", ""),
    "opencode-1.18.33": ("opencode", ""), "kilo-7.7.9": ("kilo", ""), "qwen-0.24.4": ("qwen", ""),
    "droid-0.215.0": ("droid", ""), "cline-3.0.65": ("cline", ""), "cn-1.5.47": ("continue", ""),
    "kimi-2.1.0": ("kimi", ""), "vibe-3.0.3": ("vibe", ""), "openhands-1.16.0": ("openhands", ""),
    "aider-0.86.2": ("aider", ""),
}  # fmt: skip
"""Recordings by their folder: the agent, and what the names of its cases end with."""
WHOLE = ("pi", "gemini", "opencode", "kilo", "aider", "openhands", "vibe", "cline")
"""Agents of which each case is packed; of the others, ``hello``."""
FILLED = re.compile(
    r"message\.(sections|toolsAdded)\.|(.*\.)?(system_?[pP]rompt|core_system_instructions|checkpoint_system_instructions)"
    r"(\.text)?$|(.*\.)?(tools|skills|toolsAdded|llm_tools)\.(.*\.)?description$|.*model_input\.messages\..*\.text$"
)
"""The values that an agent's maker wrote, by their keys from the outermost one on."""
REMINDER = re.compile(rb"<system-reminder>")
"""Words of its maker that an agent puts into the user's place; the mark stays."""
SHORT = 40
WORDS = b"These words stand in the place of others. "
KNOWN: dict[str, dict[str, Any]] = {
    # The file is written with the first answer, which never came.
    "pi/cancel": {"sessions": 0, "prompts": 0},
    "pi/fork": {"sessions": 2},
    # Three prompts were sent, the second of which was refused; the session was cloned at the end.
    "pi/rpc": {"sessions": 2, "prompts": 2},
    # The call was interrupted: it is written when it has ended.
    "gemini/cancel-tool": {"tool_calls": 0},
    "opencode/fork": {"sessions": 2},
    # What the interrupted answer used stands nowhere in its database.
    "opencode/cancel-tool": {"tokens": {"input": 1700, "cached": 0, "output": 9}},
    # What was said of an answer that was broken off is kept, too.
    "vibe/cancel": {"answers": 2},
    # The summary is no answer.
    "vibe/compact": {"answers": 2},
    # The client says of a command that was interrupted that it failed.
    "cline/cancel-tool": {"failed": 1},
    # The helper looked for a program that was not installed.
    "opencode/subagent": {"helper": {"failed": 1}},
    # Its requests have no tools, and the tokens that were served stand nowhere: it writes estimates of its own. The
    # second request of "edit" asked for the message of the commit.
    "aider/hello": {"answers": 1},
    "aider/edit": {"answers": 1, "tool_calls": 1, "files_edited": ["price.py"]},
}
"""What the table of a case does not say, from its own words."""


def main(recordings: Path) -> None:
    for name, (agent, ending) in PACKED.items():
        for case in sorted((recordings / name).iterdir()):
            # One that was refused a session left no home.
            if (case / "home").is_dir() and (agent in WHOLE or case.name == "hello"):
                _pack(case, agent, case.name + ending)


def _pack(recorded: Path, agent: str, name: str) -> None:
    folder = CASES / agent / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in recorded.glob("*.xz"):
        # An index of words, which its dump does not make again: agents have none of their own words in one alone.
        if b"VIRTUAL TABLE" not in lzma.decompress(path.read_bytes()):
            shutil.copy(path, folder / path.name)
    with lzma.open(folder / HOME, "wb", preset=9) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted((recorded / "home").rglob("*")):
            if path.is_file():
                data = filled(path.read_bytes())
                member = tarfile.TarInfo(path.relative_to(recorded / "home").as_posix())
                member.size, member.mtime = len(data), 1_795_417_200
                tar.addfile(member, io.BytesIO(data))
    count = _count((recorded / "case.md").read_text("utf-8"), f"{agent}/{name}")
    (folder / COUNT).write_text(json.dumps(count, indent=1, ensure_ascii=False) + "\n", "utf-8")


def filled(data: bytes) -> bytes:
    """A file of JSON, or of a line each, with filler in the place of its maker's words; all else is as it was."""
    changes = [
        (start, end)
        for start, end, keys in _strings(data)
        if end - start > SHORT and (FILLED.match(keys) or REMINDER.match(data, start))
    ]
    for start, end in reversed(changes):
        begin = start + (len(REMINDER.pattern) if REMINDER.match(data, start) else 0)
        filler = (WORDS * ((end - begin) // len(WORDS) + 1))[: end - begin]
        data = data[:begin] + filler + data[end:]
    return data


_TOKEN = re.compile(rb'"((?:[^"\\]|\\.)*)"(\s*:)?|[{}\[\]]')


def _strings(data: bytes) -> Iterator[tuple[int, int, str]]:
    """The values of strings in JSON: where each begins and ends, and the keys that lead to it."""
    keys, key = list[str](), ""
    for token in _TOKEN.finditer(data):
        if token[0] in (b"{", b"["):
            keys.append(key)
            key = ""
        elif token[0] in (b"}", b"]"):
            if keys:
                keys.pop()
            key = ""
        elif token[2] is not None:
            key = token[1].decode()
        else:
            yield token.start(1), token.end(1), ".".join(filter(None, [*keys, key]))


_ROW = re.compile(r"^\| (\w+\[\d+\]) \| [^|]* \|(.*)\| (\d+) / (\d+) / (\d+) \|$", re.M)
_SUM = re.compile(r"- (main conversation|helper).*: (\d+) answers, input (\d+), output (\d+), .*from cache (\d+) ")


def _count(said: str, case: str) -> dict[str, Any]:
    """``case.md`` as data."""
    title, steps = re.findall(r"^# (\S+) (\S+)", said)[0], said.split("\n## Step ")[1:]
    rows = _ROW.findall(said)
    sums = {which: list(map(int, numbers)) for which, *numbers in _SUM.findall(said)}
    count = {
        "recorded": f"{title[0]} {title[1]}",
        "sessions": 1,
        # A client that did not find its session ended with 1.
        "prompts": sum(not re.match(r"\d+: exit 1\n", step) for step in steps),
        **_answers(sums.get("main conversation"), [cells for which, cells, *_ in rows if which.startswith("turns")]),
    }
    if helper := [cells for which, cells, *_ in rows if not which.startswith("turns")]:
        count["helper"] = _answers(sums.get("helper"), helper)
        del count["helper"]["files_edited"]
    for key, value in KNOWN.get(case, {}).items():
        count[key] = count[key] | value if isinstance(value, dict) else value
    if words := re.search(r"\*\*What really happened\.\*\* (.*)", said):
        count["said"] = words[1]
    return count


def _answers(sums: list[int] | None, rows: list[str]) -> dict[str, Any]:
    calls = [call for row in rows for call in re.findall(r"\| (\w+) \{(.*)", row)]
    answers, tokens, output, cached = sums or [0, 0, 0, 0]
    return {
        "answers": answers,
        "tool_calls": len(calls),
        "failed": sum("false-check" in given for _, given in calls),
        "files_edited": sorted(
            {Path(path).name for name, given in calls
             if name in ("edit", "editor", "replace", "write", "write_file")
             or (name == "file_editor" and '"command": "view"' not in given)
             for path in re.findall(r'"(?:path|filePath|file_path)": "([^"]+)"', given)}
        ),
        "tokens": {"input": tokens, "cached": cached, "output": output},
    }  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "PACK":
        sys.exit(f"usage: python -m {__spec__.name} PACK RECORDINGS" if __spec__ else __doc__)
    main(Path(sys.argv[2]))
