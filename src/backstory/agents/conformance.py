"""One test for every agent, ours and other packages': does it keep the contract?

    from backstory.agents.conformance import check

    def test_my_agent_keeps_the_contract():
        check("myagent", logs=[Path("tests/logs/one.jsonl")])

``check`` raises AssertionError with one line for each fault. It tests the agent's parts against ``contract``, member by
member; with recorded logs and outputs of runs also what its readers return, whole and from random cuts on.
"""

from __future__ import annotations

import inspect
import json
import sqlite3
import tempfile
import uuid
from collections import Counter
from contextlib import closing, suppress
from difflib import get_close_matches
from itertools import pairwise, zip_longest
from pathlib import Path, PurePath, PurePosixPath
from random import Random
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import msgspec
from msgspec import Struct

from backstory import agents, ids
from backstory.agents import contract, documents, entries, foreign
from backstory.agents.contract import (
    Agent,
    Asker,
    Ending,
    Exit,
    LogRoot,
    SidecarContent,
    Streamed,
    UnreadableDatabase,
)
from backstory.agents.jsonl import LineReader
from backstory.conversation.carried import Call, CarriedAnswer, CarriedSession, CarriedTurn, Message, RunCommand
from backstory.model import (
    KINDS,
    OWN_PARTS_FROM,
    AssistantText,
    Event,
    LogIdentity,
    Outcome,
    Parsed,
    Permissions,
    Relation,
    RunFacts,
    SessionFacts,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
    Unknown,
    UserMessage,
    event_from_json,
    event_to_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backstory.agents.contract import (
        AskingPart,
        CommitPart,
        GuidePart,
        LogReader,
        OwnLogPart,
        ResumePart,
        RetentionPart,
        RunPart,
        ServerPart,
        SkillPart,
        SteerPart,
        WritePart,
    )

HOME, PROJECT = Path("/nonexistent/home"), Path("/nonexistent/project")
ODD_LINES = (
    b"", b" ", b"\0\0", b"\xff\xfe{", b"{", b"{}", b"[]", b"null", b'{"type":3}', b'{"type":{"type":[]}}',
    b'"\\ud800"', b"[" * 50_000,
)  # fmt: skip
"""Lines that no agent writes, and every reader may meet."""
RANDOM_CUTS = 20
"""The number of times that a log is read with new readers from random places on."""
FOLDERS_DEEP_MAX = 4
"""The most folders from one of a root to a session's, itself included."""
PLACES = ("first_seq", "last_seq", "parent_seq")
"""The values of a turn that say where in its log it stands."""
VERSION_BYTES_MAX = 100
"""The most bytes that a version costs beside its new elements, if nothing else changed."""
HISTORY_CUTS = 60
"""The number of lengths that a file of many sessions is read at."""
EXITS = (
    Exit(code=0), Exit(code=1), Exit(signal=9), Exit(signal=2, was_cancelled=True), Exit(code=1, was_cancelled=True),
    Exit(code=0, was_seen=False),
)  # fmt: skip


def check(
    name: str,
    logs: Iterable[Path] = (),
    outputs: Iterable[Path] = (),
    sessions: Iterable[Sequence[Path]] = (),
    databases: Iterable[Path] = (),
    folders: Iterable[Path] = (),
    histories: Iterable[Path] = (),
) -> None:
    """Load the agent called ``name`` and test it; raises AssertionError, one fault a line.

    ``logs``: recorded logs of it, under names that it knows. ``outputs``: the stdout of runs of it, a file each.
    ``sessions``: the files of each session that lies in several. ``databases``: those that it had open.
    ``folders``: those of its sessions that each read as one log, whole.
    ``histories``: files to which one session after the other was appended.
    """
    agent = agents.load(name)
    faults = [] if agent.name == name else [f"it is registered as {name!r} and calls itself {agent.name!r}"]
    faults += part_faults(agent)
    # What a part lacks would be found again by each that asks for it.
    if not faults:
        faults += behaviour_faults(agent)
        faults += [f"{path}: {fault}" for path in logs for fault in log_faults(agent, path)]
        faults += [f"{path}: {fault}" for path in outputs for fault in output_faults(agent, path)]
        faults += [f"{files[0]}: {fault}" for files in sessions for fault in session_faults(agent, files)]
        faults += [f"{path}: {fault}" for path in databases for fault in live_faults(agent, path)]
        faults += [f"{path}: {fault}" for path in folders for fault in folder_faults(agent, path)]
        faults += [f"{path}: {fault}" for path in histories for fault in history_faults(agent, path)]
    if faults:
        raise AssertionError(f"{name} does not keep the contract:\n" + "\n".join(faults))


# members --------------------------------------------------------------------------------------------------------


def part_faults(agent: Agent) -> list[str]:
    """Return the faults of an agent's names, and of the members of its parts and readers."""
    faults = list(_name_faults(agent))
    for field, kind in _parts().items():
        part: Any = getattr(agent, field)
        if part is not None or field == "log":
            faults += member_faults(part, kind, field)
    if agent.steer is not None and agent.run is None:
        faults.append("steer: an agent that cannot be run takes no messages")
    if not faults:
        reader = agent.log.reader(LogIdentity(native_id="x"), None, tuple)
        faults += member_faults(reader, contract.LogReader, "log.reader()")
    if not faults and agent.run is not None:
        faults += member_faults(agent.run.stream_reader(), contract.StreamReader, "run.stream_reader()")
    return faults


def _parts() -> dict[str, type]:
    """The parts of an agent, each with the class that says what members it has."""
    hints = get_type_hints(Agent)
    kinds = {
        field: next((each for each in get_args(hint) if each is not type(None)), hint) for field, hint in hints.items()
    }
    return {field: kind for field, kind in kinds.items() if kind not in (str, bool)}


def _name_faults(agent: Agent) -> Iterator[str]:
    if not (agent.name.isidentifier() and agent.name.isascii() and agent.name == agent.name.lower()):
        yield f"name: {agent.name!r} is no identifier of small letters"
    if not agent.title.strip() or not agent.title.isprintable():
        yield f"title: {agent.title!r} is no line of text"
    for each in agent.instruction_files:
        if PurePosixPath(each).is_absolute() or ".." in PurePosixPath(each).parts or not each.isprintable():
            yield f"instruction_files: {each!r} is no path below a repository"


def member_faults(given: object, kind: type, where: str) -> list[str]:
    """Return how the public members of an object differ from those of a class of the contract."""
    wanted = {name: member for name, member in vars(kind).items() if not name.startswith("_")}
    present = {name for name in dir(given) if not name.startswith("_")}
    missing, unknown = sorted(wanted.keys() - present), sorted(present - wanted.keys())
    faults = [f"{where}: {name} is missing" for name in missing]
    for name in unknown:
        near = get_close_matches(name, wanted, 1)
        faults.append(f"{where}: {name} is no member of {kind.__name__}" + (f"; {near[0]}?" if near else ""))
    for name in sorted(wanted.keys() & present):
        expected, member = wanted[name], getattr(given, name)
        if isinstance(expected, property):
            faults += [f"{where}: {name} is a value, not a method"] if callable(member) else []
        elif not callable(member):
            faults.append(f"{where}: {name} is a method, not a value")
        elif _shape(member) != _shape(expected)[1:]:
            faults.append(
                f"{where}: {name}{inspect.signature(member)} must be called like {inspect.signature(expected)}"
            )
    return faults


def _shape(function: Any) -> list[tuple[str, Any, Any]]:
    """Return the parameters of a function, without their types, which mypy compares."""
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


# what parts return ----------------------------------------------------------------------------------------------


def behaviour_faults(agent: Agent) -> list[str]:
    """Return the faults of the values that an agent's parts return, as far as no recording is needed."""
    faults = [*_root_faults(agent), *_stranger_faults(agent), *_odd_line_faults(agent)]
    if agent.sidecars is not None:
        faults += _sidecar_faults(agent.sidecars)
    if agent.database is not None:
        faults += _database_faults(agent.database)
    if agent.live is not None:
        faults += _live_faults(agent.live)
    if agent.run is not None:
        faults += [*_command_faults(agent.run), *_stream_faults(agent, ODD_LINES)]
        if agent.steer is not None:
            faults += _steer_faults(agent.steer)
    if agent.own_log is not None:
        faults += _own_log_faults(agent.own_log)
    if agent.resume is not None:
        faults += _resume_faults(agent.resume)
    if agent.asking is not None:
        faults += _asking_faults(agent.asking)
    if agent.write is not None:
        faults += _write_faults(agent, agent.write)
    if agent.commits is not None:
        faults += _commit_faults(agent.commits)
    if agent.guide is not None:
        faults += _guide_faults(agent.guide)
    if agent.retention is not None:
        faults += _retention_faults(agent.retention)
    if agent.servers is not None:
        faults += _server_faults(agent.servers)
    if agent.skills is not None:
        faults += _skill_faults(agent.skills)
    return faults


def _root_faults(agent: Agent) -> Iterator[str]:
    for root in agent.log.roots({}, HOME):
        if not isinstance(root, LogRoot) or not root.root.is_absolute() or not root.folder.is_relative_to(root.root):
            yield f"log.roots: {root!r} is no LogRoot with a folder in its root"


def _stranger_faults(agent: Agent) -> Iterator[str]:
    """A log of nobody must not be taken for one of this agent."""
    for head in (*ODD_LINES, b"\x89PNG\r\n\x1a\n", b"SQLite format 3\0", b'{"kind":"of another agent"}\n'):
        if (found := agent.log.identify(Path("stranger.jsonl"), head)) is not None:
            yield f"log.identify: takes {head[:40]!r} for a log of its own: {found}"


def _odd_line_faults(agent: Agent) -> Iterator[str]:
    for line in ODD_LINES:
        answer: Any = agent.log.is_whole(line)
        if not isinstance(answer, bool):
            yield f"log.is_whole: returns {answer!r} for {line[:40]!r}"
        given: Any = agent.log.native_id_of(line)
        if not isinstance(given, str | None):
            yield f"log.native_id_of: returns {given!r} for {line[:40]!r}"
    yield from _read(agent, LogIdentity(native_id="x"), ODD_LINES).faults


def _sidecar_faults(sidecars: contract.SidecarPart) -> Iterator[str]:
    for name in ("stranger.bin", "a/b/c/d/e", ".hidden", "x.json"):
        found: Any = sidecars.log_of(PurePath("s", name))
        if not isinstance(found, PurePath | None):
            yield f"sidecars.log_of: returns {found!r} for {name!r}"
        called: Any = sidecars.name_of(PurePath("s", name))
        if not isinstance(called, PurePath) or called.parent != PurePath("s", name).parent:
            yield f"sidecars.name_of: returns {called!r}, which is not in the folder of {name!r}"
        is_read: Any = sidecars.is_read(name)
        if not isinstance(is_read, bool):
            yield f"sidecars.is_read: returns {is_read!r} for {name!r}"
        is_searched: Any = sidecars.is_searched(name)
        if not isinstance(is_searched, bool):
            yield f"sidecars.is_searched: returns {is_searched!r} for {name!r}"
        for content in ODD_LINES:
            if (said := sidecars.read(name, content)) != SidecarContent():
                yield f"sidecars.read: {name!r} with {content[:40]!r} says {said}"
    if (ending := sidecars.spilled_to(ToolResult(content="short"))) is not None:
        yield f"sidecars.spilled_to: a short result stands in {ending!r}"


def _database_faults(database: contract.DatabasePart) -> Iterator[str]:
    if not all(isinstance(path, Path) for path in database.databases({}, HOME)):
        yield "database.databases: returns what is no path"
    if found := database.databases_in(HOME):
        yield f"database.databases_in: a folder that is not there has {found}"
    with tempfile.TemporaryDirectory() as folder:
        for content in (b"", b"no database", b"SQLite format 3\0" + b"\xff" * 4096):
            copy = Path(folder, "copy.db")
            copy.write_bytes(content)
            try:
                found_rows = list(database.sessions_without_logs(HOME / "x.db", copy))
            except UnreadableDatabase:
                continue
            if any(isinstance(each, contract.SessionRows) for each in found_rows):
                yield f"database.sessions_without_logs: finds sessions in {content[:20]!r}"


def _live_faults(live: contract.LiveDatabasePart) -> Iterator[str]:
    if not all(isinstance(path, Path) for path in live.databases({}, HOME)):
        yield "live.databases: returns what is no path"
    secret = [each for each in live.tables if any(word in each.lower() for word in ("account", "credential", "token"))]
    if not live.tables or secret:
        yield f"live.tables: {secret or 'none'} may be read"
    with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(Path(folder, "empty.db"))) as made:
        made.execute("create table stranger(id)")
        with foreign.opened(Path(folder, "empty.db"), bytes.decode, only=live.tables) as db:
            for name, ask in (("marks", lambda: live.marks(db)), ("sessions", lambda: list(live.sessions(db, {"x"})))):
                try:
                    found: Any = ask()
                except UnreadableDatabase:
                    continue
                yield f"live.{name}: finds {found!r} in a database of something else"


def live_faults(agent: Agent, database: Path) -> list[str]:
    """The faults in what an agent's part makes of a database that nobody has open: each session twice the same lines.

    A line names its row, and no two lines of a session name the same; a session that is not wanted is not read.
    """
    live = agent.live
    assert live is not None
    faults = []
    with foreign.opened(database, bytes.decode, only=live.tables) as db:
        marks = live.marks(db)
        for native_id in marks:
            first, again = (list(live.sessions(db, {native_id})) for _ in range(2))
            found = [each for each in first if isinstance(each, contract.SessionRows)]
            if first != again or [each.native_id for each in found] != [native_id]:
                faults.append(f"live.sessions: does not return {native_id}, and it alone, always with the same lines")
            for lines in (each.content.splitlines() for each in found):
                names = [agent.log.native_id_of(line) for line in lines]
                if None in names or len(set(names)) < len(names):
                    faults.append(f"log.native_id_of: does not tell the rows of {native_id} apart")
                identity = agent.log.identify(Path(f"x.db#{native_id}"), b"\n".join(lines)[: ids.HEAD_BYTES])
                if identity is None or identity.native_id != native_id:
                    faults.append(f"log.identify: takes the rows of {native_id} for {identity}")
                    continue
                once, twice = _read(agent, identity, lines), _read(agent, identity, [*lines, *lines[1:]])
                if once.rows != twice.rows:
                    faults.append(f"log.reader: takes rows of {native_id} that come again for others")
                if once.rows != _read(agent, identity, lines, range(len(lines))).rows:
                    faults.append(f"log.reader: says something else of {native_id} when it goes on from its state")
    if not marks:
        faults.append("live.marks: finds no session")
    return faults


def _command_faults(run: RunPart) -> Iterator[str]:
    given, again, other = run.native_id(b"\1" * 16), run.native_id(b"\1" * 16), run.native_id(b"\2" * 16)
    if given != again or (given is not None and given == other):
        yield f"run.native_id: must come from the 16 bytes alone, not {given!r}, {again!r}, {other!r}"
    for permissions in Permissions:
        for model in (None, "some-model"):
            words = run.command("/bin/it", model=model, permissions=permissions, native_id=given)
            if (
                not isinstance(words, list)
                or words[:1] != ["/bin/it"]
                or not all(isinstance(each, str) for each in words)
            ):
                yield f"run.command: {words!r} does not run /bin/it"
            if missing := [
                each for each in (model, given) if each is not None and not any(each in word for word in words)
            ]:
                yield f"run.command: {words!r} lacks {missing}"
            if words is run.command("/bin/it", model=model, permissions=permissions, native_id=given):
                yield "run.command: returns one list to all its callers"


def _own_log_faults(own_log: OwnLogPart) -> Iterator[str]:
    """Lines that say nothing say nothing of each other."""
    found = own_log.run_facts(enumerate(ODD_LINES), ODD_LINES)
    if found != RunFacts():
        yield f"own_log.run_facts: returns {found} for odd lines"


def _resume_faults(resume: ResumePart) -> Iterator[str]:
    given = "0ddba11a-0000-4000-8000-000000000000"
    words = resume.command("/the/client", given)
    if not words or words[0] != "/the/client" or given not in words:
        yield f"resume.command: must begin with the given program and have the id as a word: {words!r}"
    for relpath in (PurePath("x"), PurePath("x", "y", "z.jsonl"), PurePath("x", "y.json")):
        for name in resume.log_names(relpath, "/nonexistent/folder"):
            if name.is_absolute() or ".." in name.parts:
                yield f"resume.log_names: {name} is not a path below the agent's own folder"
    if used := resume.in_use(HOME, given):
        yield f"resume.in_use: {used!r} use a session in a folder that does not exist"
    with tempfile.TemporaryDirectory() as folder:
        root, touched = Path(folder), list[Path]()
        if resume.enter({}, root / "log.jsonl", root, given, touched.append) is not None or touched:
            yield "resume.enter: changes a database that does not exist"
        if left := list(root.iterdir()):
            yield f"resume.enter: leaves {left[0].name} in a folder without a database"


def _write_faults(agent: Agent, write: WritePart) -> Iterator[str]:
    """A log that is written is the same each time, and its reader finds in it what was said and done."""
    head = CarriedSession(native_id=str(uuid.UUID(int=5)), folder="/w", branch=None, started=1_700_000_000_000)
    called = write.call_for(RunCommand(command="ls"), "/w")
    call = () if called is None else (Call(id="c1", name=called[0], input=called[1], result="reeds"),)
    said = Message(parts=(CarriedAnswer("I look."), *call), at=None)
    turn = CarriedTurn(
        uid="0" * 26, prompt="Look", agent="x", model=None, started=None, ended=None, outcome=None, steps=(said,)
    )
    lines, again = (list(write.lines(head, [turn], None)) for _ in range(2))
    if lines != again:
        yield "write.lines: another log each time"
    if not lines or any(not line.endswith(b"\n") or line.count(b"\n") != 1 for line in lines):
        yield "write.lines: must return lines with their ends"
    name = write.log_name(head)
    if name.is_absolute() or ".." in name.parts:
        yield f"write.log_name: {name} is not a path below the agent's own folder"
    reading = _read(agent, LogIdentity(native_id=head.native_id), [line.rstrip(b"\n") for line in lines], ())
    found = [text for *_, event in reading.rows for text in (*_said(event), *_returned(event))]
    if missing := {"Look", "I look.", *(each.result for each in call)} - set(found):
        yield f"write.lines: the agent's own reader does not find {sorted(missing)}"


def _commit_faults(commits: CommitPart) -> Iterator[str]:
    for key, value in (("Signed-off-by", "Ann <ann@example.org>"), ("", ""), ("Reviewed-by", ODD_LINES[-1].decode())):
        if commits.names_session(key) or commits.session_id(key, value) is not None:
            yield f"commits: takes {key[:40]!r} for a line that names a session of its own"
    if commits.is_author("ann@example.org") or commits.is_author(""):
        yield "commits.is_author: takes anybody for the agent"


def _asking_faults(asking: AskingPart) -> Iterator[str]:
    for said in ({}, {"session_id": None}, {"thread": [1]}, {"metadata": {"id": "a"}}):
        asker = Asker(environ={}, processes=[(1, "0")], said=said, home=HOME)
        if (found := asking.native_id(asker)) is not None:
            yield f"asking.native_id: {found!r} where nothing says that this agent asks"


def _server_faults(servers: ServerPart) -> Iterator[str]:
    """An entry is found again in the agent's file, and starts what it was made for."""
    for below in (HOME, PROJECT):
        file = servers.file({}, HOME, None if below == HOME else below)
        if not file.path.is_relative_to(below) or file.format not in ("json", "toml") or not file.table:
            yield f"servers.file: {file!r} is no file of settings below {below}"
            return
    command, environ = ["/the/program", "a b"], {"NAME": "value"}
    entry = servers.entry(command, environ)
    if (entry.get("command"), entry.get("args")) != (command[0], command[1:]) or "value" not in str(entry):
        yield f"servers.entry: {entry!r} does not start {command} with {environ}"
    elif entries.entry_in(entries.added("", file, "x", entry).text, file, "x") != (entry,):
        yield f"servers.entry: {entry!r} cannot be written as {file.format}"


def _skill_faults(skills: SkillPart) -> Iterator[str]:
    for below in (HOME, PROJECT):
        folder = skills.folder({}, HOME, None if below == HOME else below)
        if not folder.is_relative_to(below):
            yield f"skills.folder: {folder} is no folder below {below}"


def _retention_faults(retention: RetentionPart) -> Iterator[str]:
    days = retention.days({}, HOME)
    if days is not None and days <= 0:
        yield f"retention.days: {days} days"
    if not retention.setting.strip():
        yield "retention.setting: it is not said where the time is set"


def _guide_faults(guide: GuidePart) -> Iterator[str]:
    rule = guide.allow_rule("a tool of nobody", ["some", "words"])
    if rule is not None and not rule.strip():
        yield "guide.allow_rule: an empty rule"
    if not guide.settings.strip():
        yield "guide.settings: it is not said where rules stand"
    if guide.why_not_run("") is not None:
        yield "guide.why_not_run: an empty output says nothing"


def _steer_faults(steer: SteerPart) -> Iterator[str]:
    command = ["/bin/it", "-p"]
    words = steer.streaming_command(command)
    if command != ["/bin/it", "-p"] or words[:1] != ["/bin/it"]:
        yield f"steer.streaming_command: changes the given list, or returns another program: {words!r}"
    given = steer.message_id("A")
    if given != steer.message_id("A") or given == steer.message_id("B"):
        yield "steer.message_id: must be one id for each uid, always the same"
    for text in ("plain", "two\nlines", 'a "quote" \\ and \ud800'):
        for line in (steer.encode_message(text), steer.encode_message(text, given)):
            if not line.endswith(b"\n") or line.count(b"\n") != 1:
                yield f"steer.encode_message: {line!r} is not one line"
        if given.encode() not in line or given.encode() in steer.encode_message(text):
            yield f"steer.encode_message: {line!r} must hold the id {given!r}, and a prompt none"


# logs -----------------------------------------------------------------------------------------------------------


class _Reading(Struct):
    """All that a log said, and what is wrong with it."""

    rows: list[tuple[int, int, int | None, str | None, Event]]
    turns: dict[str, Turn]
    session: dict[str, Any]
    unknown: dict[str, int]
    beside: list[tuple[int, Any, Any, Any, bool]]
    """Values of records besides their events: refs, summaries, record ids, and whether they hold reports."""
    faults: list[str]

    def words(self) -> list[Any]:
        """Return all that it said, wherever its records stood."""
        turns = [
            {name: value for name, value in msgspec.to_builtins(turn).items() if name not in PLACES}
            for turn in self.turns.values()
        ]
        return [
            self.session.get("title"),
            self.unknown,
            *turns,
            *((at, uid, event) for *_, at, uid, event in self.rows),
        ]

    def difference(self, other: _Reading) -> str:
        """Return the first difference of two readings of a log; empty if there is none."""
        for mine, others in zip(self.rows, other.rows, strict=False):
            if mine != others:
                return f"record {mine[0]} says {mine!r}, not {others!r}"
        for name in ("rows", "turns", "session", "unknown", "beside"):
            if getattr(self, name) != getattr(other, name):
                return f"{name} is another"
        return ""


def log_faults(agent: Agent, path: Path) -> list[str]:
    """Return the faults of an agent's reading of a recorded log."""
    if agent.log.roots({}, HOME) and not agent.log.is_log(path):
        return ["log.is_log: is not taken for a log by its name"]
    return _log_faults(agent, path, path.read_bytes())


def history_faults(agent: Agent, path: Path) -> list[str]:
    """The faults in what an agent's part makes of a file to which one session after the other was appended.

    Each session is bytes of the file, behind those of the one before, and stays the same one, with the same beginning,
    when more is appended; something is asked in it, and in no other one.
    """
    keeper, data, faults = agent.database, path.read_bytes(), list[str]()
    assert keeper is not None

    def sessions(until: int) -> list[contract.SessionRows]:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, path.name)
            copy.write_bytes(data[:until])
            found = keeper.sessions_without_logs(path, copy)
            return [each for each in found if isinstance(each, contract.SessionRows)]

    whole = sessions(len(data))
    if not whole or not data.startswith(b"".join(each.content for each in whole)):
        faults.append("database.sessions_without_logs: its sessions are not the file's bytes, one behind the other")
    ends = [number for number, byte in enumerate(data) if byte == ord("\n")]
    for until in sorted(Random(path.name).sample(ends, min(len(ends), HISTORY_CUTS))):
        for before, after in zip_longest(sessions(until), whole):
            if before is None:
                break
            if after is None or before.native_id != after.native_id or not after.content.startswith(before.content):
                faults.append(f"database.sessions_without_logs: {before.native_id} is another one when the file grows")
                return faults
    uids = Counter[str]()
    for each in whole:
        named = path.with_name(f"{path.name}#{each.native_id}")
        faults += [f"{each.native_id}: {fault}" for fault in _log_faults(agent, named, each.content)]
        identity = agent.log.identify(named, each.content[: ids.HEAD_BYTES])
        if identity is None or identity.native_id != each.native_id:
            faults.append(f"log.identify: takes the bytes of {each.native_id} for {identity}")
            continue
        turns = _read(agent, identity, _records(agent, named, each.content)).turns
        uids.update(list(turns))
        if not turns:
            faults.append(f"database.sessions_without_logs: nothing is asked in {each.native_id}")
    faults += [f"log.reader: {uid} is a turn of several sessions" for uid, count in uids.items() if count > 1]
    return faults


def _log_faults(agent: Agent, path: Path, data: bytes) -> list[str]:
    identity = agent.log.identify(path, data[: ids.HEAD_BYTES])
    if not isinstance(identity, LogIdentity) or not identity.native_id:
        return [f"log.identify: returns {identity!r} for its own log"]
    faults = rewritten_faults(agent, path) if _is_rewritten(agent, path) else []
    return [*_reading_faults(agent, path, identity, _records(agent, path, data)), *faults]


def _reading_faults(agent: Agent, path: Path, identity: LogIdentity, lines: Sequence[bytes]) -> list[str]:
    """The faults in what a reader makes of a log's records, read at once and from any place on."""
    whole = _read(agent, identity, lines)
    faults = [*whole.faults, *_line_faults(agent, path, lines), *_storable_faults(agent, identity, lines)]
    if not whole.rows and identity.relation != Relation.ASIDE:
        faults.append("log.reader: nothing comes of it")
    random = Random(path.name)
    every = range(1, len(lines))
    for cuts in (every, *(random.sample(every, min(len(every), random.randint(1, 12))) for _ in range(RANDOM_CUTS))):
        if difference := _read(agent, identity, lines, cuts).difference(whole):
            where = "each record" if cuts is every else f"records {sorted(cuts)}"
            return [*faults, f"log.reader: read by a new reader after {where}, {difference}"]
    return faults


def _is_rewritten(agent: Agent, path: Path) -> bool:
    keeper = agent.documents
    return keeper is not None and keeper.is_document(path) and keeper.pieces(b"") is not None


def session_faults(agent: Agent, files: Sequence[Path]) -> list[str]:
    """Return the faults of an agent's reading of a session that lies in several files."""
    faults, owners, prompts = list[str](), set[str](), dict[str, str]()
    for path in files:
        data = path.read_bytes()
        identity = agent.log.identify(path, data[: ids.HEAD_BYTES])
        if identity is None:
            return [f"log.identify: takes {path.name} for no log of its own"]
        owners.add(identity.native_id)
        turns = _read(agent, identity, _records(agent, path, data)).turns
        if (identity.relation == Relation.ASIDE) == bool(turns):
            called = "an aside" if turns else "no aside"
            faults.append(f"log.identify: calls {path.name} {called}, in which {len(turns)} turns begin")
        for uid, turn in turns.items():
            if prompts.setdefault(uid, turn.prompt) != turn.prompt:
                faults.append(f"log.reader: two prompts of its files are the turn {uid}")
    if len(owners) > 1:
        faults.append(f"log.identify: calls the session of its files {sorted(owners)}")
    return faults


def rewritten_faults(agent: Agent, path: Path) -> list[str]:
    """Return the faults of an agent's reading of a document that it writes anew at each change.

    It is taken for the newest of its versions: those before lack the elements at its end, or for a while had fewer.
    """
    assert agent.documents is not None
    cut, data = agent.documents.pieces, path.read_bytes()
    damaged = [data[: len(data) * share // 7] for share in range(7)]
    for each in (data, *damaged, b"[]", data.replace(b",", b"", 1)):
        if b"".join(cut(each) or ()) != each:
            return [f"documents.pieces: the pieces of {each[-40:]!r} are not it"]
    parts = cut(data) or []
    elements = [at for at, part in enumerate(parts) if documents.record(_line_in(part)).is_element]
    if not elements or len(elements) == len(parts):
        return [f"documents.pieces: cuts no element out of {path.name}"]
    first, last = elements[0], elements[-1] + 1
    grown, faults = b"", list[str]()
    for stop in range(first, last + 1):
        version = b"".join([b"".join(parts[:stop]).rstrip(b", \r\n\t"), *parts[last:]])
        before, grown = grown, documents.grown(grown, cut(version) or ())
        most = len(parts[stop - 1]) + VERSION_BYTES_MAX
        if before and len(grown) - len(before) > most:
            faults.append(f"documents.pieces: one more element costs {len(grown) - len(before)} bytes, not {most}")
            break
    fewer = [*parts[:first], parts[elements[len(elements) // 2]].lstrip(b", \r\n\t"), *parts[last:]]
    dropped = documents.grown(grown, cut(b"".join(fewer)) or ())
    again = documents.grown(dropped, parts)
    return [*faults, *_retold_faults(agent, path, [documents.grown(b"", parts), grown, dropped, again])]


def _retold_faults(agent: Agent, path: Path, forms: Sequence[bytes]) -> Iterator[str]:
    """A document says the same whatever versions of it were seen. ``forms``: one, as it grew, with fewer, with all."""
    data = path.read_bytes()
    if {documents.newest(forms[at]) for at in (0, 1, 3)} != {data}:
        yield "documents.pieces: the newest version is not what comes back"
    identity = agent.log.identify(path, data[: ids.HEAD_BYTES])
    found = agent.log.identify(path, forms[0][: ids.HEAD_BYTES])
    if identity is None or found != identity:
        yield f"log.identify: takes what is kept of it for {found}, and its file for {identity}"
        return
    at_once, *others = (_read(agent, identity, _lines_of(form)) for form in forms)
    for reading, how in zip(others, ("as it grew", "when it lost elements", "when they came back"), strict=True):
        if (words := reading.words()) != at_once.words():
            differ = (mine for mine, first in zip(words, at_once.words(), strict=False) if mine != first)
            yield f"log.reader: read {how}, it says {next(differ, words[-1])!r}, which it does not say at once"
            break
    every = _lines_of(forms[-1])
    if difference := _read(agent, identity, every, range(1, len(every))).difference(others[-1]):
        yield f"log.reader: read by a new reader after each line of what is kept, {difference}"


def _lines_of(form: bytes) -> list[bytes]:
    return form.removesuffix(b"\n").split(b"\n")


def _line_in(part: bytes) -> bytes:
    return _lines_of(documents.grown(b"", [part]))[-1]


def folder_faults(agent: Agent, folder: Path) -> list[str]:
    """The faults in what an agent's part makes of a session's folder, in which nothing is missing or cut short."""
    part = agent.folders
    assert part is not None
    files = {each.relative_to(folder).as_posix(): each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    faults = [*_place_faults(agent, folder), *_order_faults(part, files)]
    if faults:
        return faults
    lines = list[bytes]()
    for name in part.order(sorted(files), files.__getitem__).names:
        content, at = files[name], 0
        for start, stop in part.records(name, content) or ():
            if not at <= start < stop <= len(content) or not _is_json(content[start:stop]):
                return [f"folders.records: {(start, stop)} is no record of {name} behind the one before"]
            lines.append(content[start:stop].replace(b"\n", b"\r"))
            at = stop
    path = folder / part.head
    identity = agent.log.identify(path, b"\n".join(lines)[: ids.HEAD_BYTES])
    if not isinstance(identity, LogIdentity) or not identity.native_id:
        return [f"log.identify: returns {identity!r} for the records of its own folder"]
    faults = _reading_faults(agent, path, identity, lines)
    once, twice = _read(agent, identity, lines), _read(agent, identity, [*lines, *lines[1:]])
    if once.rows != twice.rows:
        faults.append("log.reader: takes records that come again for others")
    if {uid: turn.tokens for uid, turn in once.turns.items()} != {
        uid: turn.tokens for uid, turn in twice.turns.items()
    }:
        faults.append("log.reader: counts tokens of records again that come again")
    return faults


def _place_faults(agent: Agent, folder: Path) -> Iterator[str]:
    """A session's folder is known by its name, as is what lies in it, and it has its head."""
    assert agent.folders is not None
    tails = [PurePath(*folder.parts[-n:]) for n in range(1, min(len(folder.parts), FOLDERS_DEEP_MAX) + 1)]
    known = [each for each in tails if agent.folders.folder_of(each) == each]
    if not known or any(agent.folders.folder_of(known[0] / name) != known[0] for name in ("x", "x/y.json")):
        yield "folders.folder_of: does not know the folder by its name, or not what lies in it"
    if agent.folders.folder_of(PurePath("stranger")) is not None:
        yield "folders.folder_of: takes any folder for a session's"
    if not (folder / agent.folders.head).exists():
        yield f"folders.head: {agent.folders.head!r} is not in it"
    elif not agent.log.is_log(folder / agent.folders.head):
        yield "log.is_log: does not take the folder's head for a log by its name"


def _order_faults(part: contract.FolderPart, files: dict[str, bytes]) -> Iterator[str]:
    """The order has files of the folder, each once, and is one also where files are gone or hold nothing of sense."""
    order: Any = part.order(sorted(files), files.__getitem__)
    if not isinstance(order, contract.FolderOrder) or order.missing is not None:
        yield f"folders.order: returns {order!r} for a whole folder"
        return
    if not order.names or len(set(order.names)) < len(order.names) or not files.keys() >= {*order.names}:
        yield f"folders.order: {list(order.names)!r} are not files of the folder, each once"
        return

    def gone(name: str) -> bytes:
        raise FileNotFoundError(name)

    readers = [gone, *(dict.fromkeys(files, odd).__getitem__ for odd in ODD_LINES)]
    for given, read in (([], gone), *((sorted(files), each) for each in readers)):
        try:
            part.order(given, read)
        except Exception as refused:
            yield f"folders.order: raises {refused!r} where files are gone or broken"
            return
    for name in order.names:
        whole, half = (part.records(name, files[name][:stop]) for stop in (None, len(files[name]) // 2))
        if whole is None:
            yield f"folders.records: takes {name} for one that is cut short"
        elif half is not None and ([*half] != [*whole[: len(half)]] or 0 < len(whole) == len(half)):
            # One of lines has fewer of them.
            yield f"folders.records: takes half of {name} for whole"


def _records(agent: Agent, path: Path, data: bytes) -> list[bytes]:
    lines = data.removesuffix(b"\n").split(b"\n")
    if agent.documents is None or not agent.documents.is_document(path):
        return lines
    if (parts := agent.documents.pieces(data)) is not None:
        return _lines_of(documents.grown(b"", parts))
    reader = LineReader(record_end=agent.documents.record_end(data))
    records = [line for _, _, line in reader.lines(data) if line is not None]
    return [*records, *filter(None, [reader.unfinished])]


def _read(agent: Agent, identity: LogIdentity, lines: Sequence[bytes], cuts: Iterable[int] = ()) -> _Reading:
    """Read a log whole, or with a new reader after each of the records in ``cuts``."""
    reading = _Reading(rows=[], turns={}, session={}, unknown={}, beside=[], faults=[])
    reader, cut_after = agent.log.reader(identity, None, tuple), set(cuts)
    for seq, line in enumerate(lines, start=1):
        if seq - 1 in cut_after:
            _collect(reading, reader)
            reader = agent.log.reader(identity, reader.state(), lambda done=seq - 1: lines[:done])  # type: ignore[misc]
        if line.strip():
            parsed = reader.read(line, seq)
            _take(reading, seq, parsed)
            reading.faults += [
                f"log.reader: record {seq} {fault}" for fault in _source_faults(lines[:seq], parsed.events)
            ]
    _collect(reading, reader)
    session: Any = reader.session
    reading.session = msgspec.to_builtins(session)
    if not isinstance(session, SessionFacts):
        reading.faults.append(f"log.reader: its session is {session!r}")
    reading.faults += _turn_faults(agent, reading)
    return reading


def _take(reading: _Reading, seq: int, parsed: Parsed) -> None:
    reading.faults += [f"log.reader: record {seq} {fault}" for fault in _event_faults(parsed.events)]
    turn: Any = parsed.turn
    if not isinstance(turn, Turn | None):
        reading.faults.append(f"log.reader: record {seq} is of the turn {turn!r}")
        return
    uid = turn.uid if turn is not None else None
    reading.rows += [(seq, part, parsed.at, uid, event) for part, event in parsed.events if isinstance(event, Event)]
    if parsed.refs or parsed.summaries or parsed.record_ids or parsed.has_reports:
        facts = (list(parsed.refs), list(parsed.summaries), list(parsed.record_ids), parsed.has_reports)
        reading.beside.append((seq, *facts))


def _event_faults(events: Sequence[tuple[int, Event]]) -> Iterator[str]:
    """Every event stands at a part of its record, each at another one, is of a known kind, and can be stored."""
    if any(here >= then for (here, _), (then, _) in pairwise(events)) or any(part < 0 for part, _ in events):
        yield f"has events at the parts {[part for part, _ in events]}, which must rise"
    for _, event in events:
        if KINDS.get(getattr(event, "kind", "")) is not type(event):
            yield f"says {event!r}, which is no event"
            continue
        stored = event_to_json(event)
        if event_to_json(event_from_json(stored)) != stored:
            yield f"says {event!r}, which cannot be stored"


def _source_faults(lines: Sequence[bytes], events: Sequence[tuple[int, Event]]) -> Iterator[str]:
    """Yield the words of a person or the model that the last record does not hold word by word.

    A prompt before the record's own events, whose parts count from ``OWN_PARTS_FROM`` then, is in an earlier one.
    """
    said = [(part, event, text) for part, event in events for text in _said(event)]
    source = _text_in(lines[-1]) if said else ""
    for part, event, text in said:
        if missing := [word for word in text.split() if word not in source]:
            is_before = events[0][0] > 0 and part < OWN_PARTS_FROM and isinstance(event, UserMessage)
            if is_before and any(all(word in earlier for word in text.split()) for earlier in map(_text_in, lines)):
                continue
            yield f"says {event.kind} with {missing[0][:80]!r}, which does not stand in it"


def _said(event: Event) -> Iterator[str]:
    match event:
        case UserMessage(content=text) | AssistantText(text=text) | Thinking(text=text):
            yield text


def _returned(event: Event) -> Iterator[str]:
    if isinstance(event, ToolResult):
        yield event.content


def _text_in(line: bytes) -> str:
    """All text of a record: of JSON its strings, also those of JSON inside a string; else its bytes."""
    try:
        return "\n".join(_strings(json.loads(documents.record(line).content or line)))
    except (ValueError, RecursionError):
        return line.decode("utf-8", "replace")


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
            if value[:1] in ("[", "{"):
                with suppress(ValueError):
                    yield from _strings(json.loads(value))
        case dict():
            for key, each in value.items():
                yield from (key, *_strings(each))
        case list():
            for each in value:
                yield from _strings(each)


def _collect(reading: _Reading, reader: LogReader) -> None:
    for turn in reader.touched():
        copied = msgspec.convert(msgspec.to_builtins(turn), Turn)
        if turn.uid in reading.turns:
            # As in the store, where a turn keeps the prompt it began with.
            copied.prompt = reading.turns[turn.uid].prompt
        reading.turns[turn.uid] = copied
    for kind, count in reader.unknown.items():
        reading.unknown[kind] = reading.unknown.get(kind, 0) + count


def _turn_faults(agent: Agent, reading: _Reading) -> Iterator[str]:
    """Every event has its source: a record within its turn, which ``touched`` returned, of this agent."""
    for turn in reading.turns.values():
        if not turn.uid or turn.agent != agent.name or not 0 < turn.first_seq <= turn.last_seq:
            yield f"log.reader: the turn {turn!r} is of another agent, or of no records"
    for seq, _, _, uid, event in reading.rows:
        within = reading.turns.get(uid) if uid is not None else None
        if uid is not None and (within is None or not within.first_seq <= seq <= within.last_seq):
            yield f"log.reader: record {seq} says {event.kind} in the turn {uid}, whose records it is not among"
    not_known = sum(isinstance(event, Unknown) for *_, event in reading.rows)
    if not_known > sum(reading.unknown.values()):
        yield f"log.reader: {not_known} events are Unknown, and unknown counts {reading.unknown}"


def _line_faults(agent: Agent, path: Path, lines: Sequence[bytes]) -> Iterator[str]:
    given = Counter(agent.log.native_id_of(line) for line in lines)
    if repeated := [native_id for native_id, count in given.items() if native_id is not None and count > 1]:
        yield f"log.native_id_of: two records are called {repeated[0]!r}"
    if agent.documents is not None and agent.documents.is_document(path):
        return
    for number, line in enumerate(lines, start=1):
        if _is_json(line) and not agent.log.is_whole(line):
            yield f"log.is_whole: record {number} is not taken for a whole one"
        if _is_json(line) and agent.log.is_whole(line[: len(line) // 2]):
            yield f"log.is_whole: half of record {number} is taken for a whole one"


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _storable_faults(agent: Agent, identity: LogIdentity, lines: Sequence[bytes]) -> Iterator[str]:
    """A state is bytes; a reader that is made from it has the same one."""
    reader = agent.log.reader(identity, None, tuple)
    for seq, line in enumerate(lines, start=1):
        if line.strip():
            reader.read(line, seq)
        state: Any = reader.state()
        if not isinstance(state, bytes):
            yield f"log.reader: its state is {type(state).__name__}, not bytes, which can be stored"
            return
        if agent.log.reader(identity, state, lambda done=seq: lines[:done]).state() != state:  # type: ignore[misc]
            yield f"log.reader: a reader made from its state after record {seq} has another one"
            return


# outputs --------------------------------------------------------------------------------------------------------


def output_faults(agent: Agent, path: Path) -> list[str]:
    """Return the faults of an agent's reading of the recorded stdout of a run."""
    lines = path.read_bytes().splitlines()
    return list(_stream_faults(agent, lines))


def _stream_faults(agent: Agent, lines: Sequence[bytes]) -> Iterator[str]:
    assert agent.run is not None
    for exit in EXITS:
        reader = agent.run.stream_reader()
        if (reader.steering is not None) != (agent.steer is not None):
            yield "run.stream_reader: has a steering state exactly where the agent has the part steer"
        for number, line in enumerate(lines, start=1):
            said: Any = reader.read(line)
            if not isinstance(said, Streamed):
                yield f"run.stream_reader: line {number} says {said!r}"
                return
            yield from (f"run.stream_reader: line {number} {fault}" for fault in _event_faults(said.events))
            yield from (
                f"run.stream_reader: stderr {fault}" for fault in _event_faults(list(enumerate(reader.stderr(line))))
            )
        ending: Any = reader.ended(exit)
        if not isinstance(ending, Ending) or ending.outcome not in {*Outcome}:
            yield f"run.stream_reader: after {exit} it came to {ending!r}"
        elif not all(isinstance(each, ToolCall) for each in ending.refused):
            yield f"run.stream_reader: after {exit} it refused {ending.refused!r}, which are not all calls"
