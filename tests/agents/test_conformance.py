"""Every agent keeps the contract; an agent that does not is told what is wrong with it."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from backstory import agents
from backstory.agents.conformance import (
    behaviour_faults,
    check,
    history_faults,
    log_faults,
    output_faults,
    part_faults,
    session_faults,
)
from backstory.agents.contract import (
    Exit,
    InUse,
    NotRun,
    ServerFile,
    SessionRows,
    SidecarContent,
    SteerState,
    Streamed,
    UnreadRows,
)
from backstory.agents.turn_fold import TurnState
from backstory.model import AssistantText, LogIdentity, Parsed, Relation, Unknown, UserMessage
from tests.agents import example
from tests.agents.example import AGENT, Logs, Reader
from tests.support.every import every
from tests.support.reading import cases, log_of
from tests.support.recorded import cases_of, home_of
from tests.support.streaming import STREAMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from backstory.agents.contract import Agent, LogReader

CLAUDE = agents.load("claude")
HISTORY = ".aider.chat.history.md"
RECORDED = Path(example.__file__).with_name("recorded.jsonl")


def named_as_recorded(log: Path, folder: Path) -> Path:
    """A log of a case under a name that its agent gives to logs, where the case has another one."""
    if log.name != "log.jsonl" or log.parent.parent.name != "codex":
        return log
    copy = folder / log.parent.name / "rollout-2026-01-01T00-00-00-log.jsonl"
    copy.parent.mkdir()
    copy.write_bytes(log.read_bytes())
    return copy


def logs_in(home: Path, name: str) -> list[Path]:
    """The logs of an agent below a home."""
    log = agents.load(name).log
    return sorted(path for root in log.roots({}, home) for path in root.folder.rglob("*") if log.is_log(path))


@pytest.mark.parametrize("name", agents.names())
def test_an_agent_of_ours_keeps_the_contract(name: str, tmp_path: Path) -> None:
    logs = [named_as_recorded(log_of(folder), tmp_path) for folder in cases() if folder.parent.name == name]
    logs += [log for case in cases_of(name) for log in logs_in(home_of(tmp_path / case[1], *case), name)]
    agent = agents.load(name)
    assert logs or agent.database is not None or agent.live is not None
    # Of a folder that reads as one log it is the head that was found.
    folders = [each.parent for each in logs] if agent.folders is not None else []
    outputs = sorted((STREAMS / name).glob("*.jsonl"))
    histories = [path for case in cases_of(name) for path in (tmp_path / case[1]).rglob(HISTORY)]
    check(name, logs=[] if folders else logs, outputs=outputs, folders=folders, histories=histories)


def test_the_smallest_agent_keeps_the_contract() -> None:
    assert [*part_faults(AGENT), *behaviour_faults(AGENT), *log_faults(AGENT, RECORDED)] == []


def test_what_is_wrong_is_raised_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = msgspec.structs.replace(CLAUDE, name="my agent", title="")
    monkeypatch.setattr(agents, "load", lambda name: broken)
    with pytest.raises(AssertionError, match=r"(?s)calls itself 'my agent'.*name: .*title: "):
        check("claude")


# parts ----------------------------------------------------------------------------------------------------------


def without(part: object, name: str) -> Any:
    """A part that lacks a member."""
    kept = {each: getattr(part, each) for each in dir(part) if not each.startswith("_") and each != name}
    return type(
        "Part", (), {each: staticmethod(member) if callable(member) else member for each, member in kept.items()}
    )()


def with_member(part: object, name: str, member: Any) -> Any:
    """A part that has one more member, or another one of this name."""
    changed = without(part, name)
    setattr(changed, name, member)
    return changed


def test_a_member_that_is_missing_is_named() -> None:
    agent = msgspec.structs.replace(CLAUDE, steer=without(CLAUDE.steer, "message_id"))
    assert part_faults(agent) == ["steer: message_id is missing"]


def test_a_misspelt_member_is_named_with_the_one_that_was_meant() -> None:
    misspelt = with_member(without(CLAUDE.steer, "message_id"), "mesage_id", lambda uid: uid)
    assert part_faults(msgspec.structs.replace(CLAUDE, steer=misspelt)) == [
        "steer: message_id is missing",
        "steer: mesage_id is no member of SteerPart; message_id?",
    ]


def test_a_public_member_that_the_contract_does_not_know_is_named() -> None:
    agent = msgspec.structs.replace(AGENT, log=with_member(Logs(), "is_lgo", lambda path: True))
    assert part_faults(agent) == ["log: is_lgo is no member of LogPart; is_log?"]


@pytest.mark.parametrize("name", ["../AGENTS.md", "/etc/AGENTS.md", "a/../../b.md", "a\n.md"])
def test_instructions_lie_below_a_repository(name: str) -> None:
    agent = msgspec.structs.replace(CLAUDE, instruction_files=(name,))
    assert part_faults(agent) == [f"instruction_files: {name!r} is no path below a repository"]


VALUES = ("name", "title", "instruction_files", "keeps_trees")
"""What an agent says of itself; the rest are its parts."""


@every("part", [each for each in AGENT.__struct_fields__ if each not in VALUES])
def test_a_part_of_another_kind_is_refused_in_every_place(part: str) -> None:
    faults = part_faults(msgspec.structs.replace(CLAUDE, **{part: object()}))
    assert faults and all(fault.startswith(f"{part}: ") and fault.endswith("is missing") for fault in faults)


def test_a_member_that_is_called_otherwise_is_named() -> None:
    other = with_member(Logs(), "identify", lambda path: None)
    assert part_faults(msgspec.structs.replace(AGENT, log=other)) == [
        "log: identify(path) must be called like (self, path: 'Path', head: 'bytes') -> 'LogIdentity | None'"
    ]


def test_a_method_in_the_place_of_a_value_is_named() -> None:
    run = with_member(CLAUDE.run, "executable", lambda: "claude")
    assert part_faults(msgspec.structs.replace(CLAUDE, run=run)) == ["run: executable is a value, not a method"]
    run = with_member(CLAUDE.run, "command", ["claude"])
    assert part_faults(msgspec.structs.replace(CLAUDE, run=run)) == ["run: command is a method, not a value"]


@pytest.mark.parametrize("name", ["my agent", "my-agent", "Agent", "2nd", "", "agént"])
def test_a_name_that_is_no_identifier_is_refused(name: str) -> None:
    assert part_faults(msgspec.structs.replace(AGENT, name=name)) == [
        f"name: {name!r} is no identifier of small letters"
    ]


def test_messages_are_for_agents_that_can_be_run() -> None:
    agent = msgspec.structs.replace(CLAUDE, run=None)
    assert part_faults(agent) == ["steer: an agent that cannot be run takes no messages"]


# readers of logs ------------------------------------------------------------------------------------------------


class Otherwise(Logs):
    """The logs of the smallest agent, read by another reader."""

    def __init__(self, make: type[Reader]) -> None:
        self._make = make

    def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> LogReader:  # type: ignore[override]
        return self._make("example", identity, state, TurnState)


def faults_of(make: type[Reader]) -> list[str]:
    agent = msgspec.structs.replace(AGENT, log=Otherwise(make))
    return [*part_faults(agent), *log_faults(agent, RECORDED)]


def test_a_reader_with_another_member_is_named() -> None:
    class Named(Reader):
        def touchd(self) -> None:
            """Misspelt."""

    assert faults_of(Named) == ["log.reader(): touchd is no member of LogReader; touched?"]


def test_a_state_that_cannot_be_stored_is_named() -> None:
    class Text(Reader):
        def state(self) -> Any:
            return super().state().decode()

    assert "log.reader: its state is str, not bytes, which can be stored" in faults_of(Text)


def test_a_reader_that_forgets_between_two_readings_is_named() -> None:
    class Forgetful(Reader):
        def state(self) -> bytes:
            return b"{}"

    (fault,) = faults_of(Forgetful)
    assert fault.startswith("log.reader: read by a new reader after each record, record 2 says")


def test_a_state_that_changes_by_being_stored_is_named() -> None:
    class Growing(Reader):
        def state(self) -> bytes:
            self._state.session.title = f"{self._state.session.title}+"
            return super().state()

    assert "log.reader: a reader made from its state after record 1 has another one" in faults_of(Growing)


def changed(change: Callable[[Parsed], Parsed]) -> type[Reader]:
    class Changed(Reader):
        def read(self, line: bytes, seq: int) -> Parsed:
            parsed = super().read(line, seq)
            return change(parsed) if seq == 2 else parsed

    return Changed


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        ([(0, AssistantText(text="In the trees."))], "says AssistantText with 'trees.', which does not stand in it"),
        ([(0, UserMessage(content="Invented"))], "says UserMessage with 'Invented', which does not stand in it"),
        (
            [(1, AssistantText(text="In")), (1, AssistantText(text="the"))],
            "has events at the parts [1, 1], which must rise",
        ),
        ([(-1, AssistantText(text="In"))], "has events at the parts [-1], which must rise"),
        ([(0, "In the reeds.")], "says 'In the reeds.', which is no event"),
    ],
)
def test_an_event_without_its_source_is_named(events: Any, fault: str) -> None:
    found = faults_of(changed(lambda parsed: Parsed(parsed.at, events, parsed.turn)))
    assert f"log.reader: record 2 {fault}" in found


def test_an_event_in_a_turn_that_was_not_touched_is_named() -> None:
    class Silent(Reader):
        def touched(self) -> Any:
            return iter(())

    assert any("whose records it is not among" in fault for fault in faults_of(Silent))


def test_what_stands_beside_events_must_not_depend_on_cuts_either() -> None:
    class Counting(Reader):
        _seen = 0

        def read(self, line: bytes, seq: int) -> Parsed:
            self._seen += 1
            return msgspec.structs.replace(super().read(line, seq), record_ids=[f"{self._seen}"])

    assert faults_of(Counting) == ["log.reader: read by a new reader after each record, beside is another"]


def test_a_turn_of_another_agent_is_named() -> None:
    class Stolen(Reader):
        def read(self, line: bytes, seq: int) -> Parsed:
            parsed = super().read(line, seq)
            if parsed.turn is not None:
                parsed.turn.agent = "another"
            return parsed

    assert any("is of another agent" in fault for fault in faults_of(Stolen))


def test_an_unknown_record_that_is_not_counted_is_named() -> None:
    found = faults_of(changed(lambda parsed: Parsed(parsed.at, [(0, Unknown(type="x"))], parsed.turn)))
    assert "log.reader: 2 events are Unknown, and unknown counts {'record': 1}" in found


def test_a_log_is_called_by_a_name_in_its_own_folder() -> None:
    sidecars = with_member(CLAUDE.sidecars, "name_of", lambda log: log.parent)
    faults = behaviour_faults(msgspec.structs.replace(CLAUDE, sidecars=sidecars))
    assert faults and all(fault.startswith("sidecars.name_of: returns ") for fault in faults)


# sessions in several files --------------------------------------------------------------------------------------


class InParts(Logs):
    """The smallest agent with sessions in several files, ``SESSION-PART.jsonl``; a system's record says nothing."""

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        relation = None if b'"user"' in head else Relation.ASIDE
        return LogIdentity(native_id=path.stem.partition("-")[0], relation=relation)


@pytest.fixture
def in_parts(tmp_path: Path) -> list[Path]:
    line = '{"id":"%s","role":"%s","text":"%s","at":"2026-11-21T21:00:00.000Z"}\n'
    said = [("a", "user", "One"), ("b", "user", "Two"), ("c", "system", "Linux")]
    for number, words in enumerate(said):
        (tmp_path / f"s-{number}.jsonl").write_text(line % words)
    return sorted(tmp_path.glob("*.jsonl"))


def test_a_session_in_several_files_keeps_the_contract(in_parts: list[Path]) -> None:
    assert session_faults(msgspec.structs.replace(AGENT, log=InParts()), in_parts) == []


def test_files_of_a_session_with_names_of_their_own_are_named(in_parts: list[Path]) -> None:
    class ByName(InParts):
        def identify(self, path: Path, head: bytes) -> LogIdentity | None:
            found = super().identify(path, head)
            return msgspec.structs.replace(found, native_id=path.stem) if found else None

    faults = session_faults(msgspec.structs.replace(AGENT, log=ByName()), in_parts)
    assert faults == ["log.identify: calls the session of its files ['s-0', 's-1', 's-2']"]


def test_turns_that_are_numbered_in_each_file_are_named(in_parts: list[Path]) -> None:
    class Numbered(Reader):
        def _begin_turn(self, native_id: str, *more: Any) -> Any:
            return super()._begin_turn("", *more)

    class Counted(InParts):
        def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> Reader:
            return Numbered("example", identity, state, TurnState)

    (fault,) = session_faults(msgspec.structs.replace(AGENT, log=Counted()), in_parts)
    assert fault.startswith("log.reader: two prompts of its files are the turn ")


def test_a_file_without_a_conversation_must_be_called_so(in_parts: list[Path]) -> None:
    class Always(InParts):
        def __init__(self, relation: Relation | None) -> None:
            self._relation = relation

        def identify(self, path: Path, head: bytes) -> LogIdentity | None:
            return LogIdentity(native_id="s", relation=self._relation)

    never, always = (
        session_faults(msgspec.structs.replace(AGENT, log=Always(relation)), in_parts)
        for relation in (None, Relation.ASIDE)
    )
    assert never == ["log.identify: calls s-2.jsonl no aside, in which 0 turns begin"]
    assert always == [f"log.identify: calls s-{n}.jsonl an aside, in which 1 turns begin" for n in (0, 1)]


# several sessions in a file -------------------------------------------------------------------------------------------


class Appended:
    """Files of the smallest agent's lines, in which a session begins with each prompt of a new id."""

    def databases(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        return []

    def databases_in(self, place: Path) -> list[Path]:
        return []

    def beside(self, database: Path) -> list[Path]:
        return []

    def sessions_without_logs(self, database: Path, copy: Path) -> Iterator[SessionRows | UnreadRows]:
        return (SessionRows(native_id=self._name_of(each), content=each) for each in self._pieces(copy.read_bytes()))

    def _pieces(self, data: bytes) -> list[bytes]:
        begins = [found.start() for found in re.finditer(rb'\{"id":"\w+","role":"user"', data)]
        return [data[begin:end] for begin, end in zip(begins, [*begins[1:], len(data)], strict=True)]

    def _name_of(self, content: bytes) -> str:
        return content[7:8].decode()


class OfMany(Logs):
    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        return LogIdentity(native_id=path.name.partition("#")[2])


@pytest.fixture
def appended(tmp_path: Path) -> Path:
    line = '{"id":"%s","role":"%s","text":"%s","at":"2026-11-21T21:00:00.000Z"}\n'
    said = [("a", "user", "One"), ("b", "assistant", "Yes"), ("c", "user", "Two"), ("d", "assistant", "No")]
    path = tmp_path / "all.jsonl"
    path.write_text("".join(line % words for words in said))
    return path


def of_many(database: Appended) -> Agent:
    return msgspec.structs.replace(AGENT, log=OfMany(), database=database)


def test_a_file_of_many_sessions_keeps_the_contract(appended: Path) -> None:
    assert [*part_faults(of_many(Appended())), *history_faults(of_many(Appended()), appended)] == []


def test_a_session_that_is_another_one_when_the_file_grows_is_named(appended: Path) -> None:
    class ByContent(Appended):
        def _name_of(self, content: bytes) -> str:
            return hashlib.sha256(content).hexdigest()

    (fault,) = history_faults(of_many(ByContent()), appended)
    assert fault.endswith(" is another one when the file grows")


def test_bytes_that_are_in_two_sessions_of_a_file_are_named(appended: Path) -> None:
    class Whole(Appended):
        def _pieces(self, data: bytes) -> list[bytes]:
            return [data, *super()._pieces(data)[1:]]

    faults = history_faults(of_many(Whole()), appended)
    assert "database.sessions_without_logs: its sessions are not the file's bytes, one behind the other" in faults
    assert any(fault.endswith("is a turn of several sessions") for fault in faults)


def test_a_session_of_a_file_in_which_nothing_is_asked_is_named(appended: Path) -> None:
    class EachLine(Appended):
        def _pieces(self, data: bytes) -> list[bytes]:
            return data.splitlines(keepends=True)

    faults = history_faults(of_many(EachLine()), appended)
    assert faults == [f"database.sessions_without_logs: nothing is asked in {each}" for each in ("b", "d")]


# other parts ----------------------------------------------------------------------------------------------------


def with_log(**members: Any) -> Agent:
    log: Any = Logs()
    for name, member in members.items():
        log = with_member(log, name, member)
    return msgspec.structs.replace(AGENT, log=log)


def test_records_of_one_id_are_named() -> None:
    agent = with_log(native_id_of=lambda line: "same")
    assert log_faults(agent, RECORDED) == ["log.native_id_of: two records are called 'same'"]


def test_half_a_record_that_is_taken_for_a_whole_one_is_named() -> None:
    agent = with_log(is_whole=lambda line: True)
    assert "log.is_whole: half of record 1 is taken for a whole one" in log_faults(agent, RECORDED)


def test_an_agent_that_takes_a_strangers_log_is_named() -> None:
    agent = with_log(identify=lambda path, head: LogIdentity(native_id="x"))
    assert any(fault.startswith("log.identify: takes b'{}' for a log of its own") for fault in behaviour_faults(agent))


def test_an_agent_that_does_not_know_its_own_log_is_named() -> None:
    assert log_faults(with_log(is_log=lambda path: False), RECORDED) == [
        "log.is_log: is not taken for a log by its name"
    ]
    assert log_faults(with_log(identify=lambda path, head: None), RECORDED) == [
        "log.identify: returns None for its own log"
    ]


@pytest.mark.parametrize(
    ("member", "wrong", "words"),
    [
        ("command", lambda executable, native_id: ["client"], "resume.command: "),
        ("log_names", lambda relpath, folder: [PurePath("/etc") / relpath], "resume.log_names: /etc/x"),
        ("log_names", lambda relpath, folder: [PurePath("..", "x")], "resume.log_names: ../x"),
        ("in_use", lambda root, native_id: [InUse(pid=1)], "resume.in_use: "),
        ("enter", lambda environ, log, root, native_id, aside: aside(root), "resume.enter: changes"),
        ("enter", lambda environ, log, root, native_id, aside: (root / "x").touch(), "resume.enter: leaves x"),
    ],
)
def test_a_client_that_would_be_resumed_wrongly_is_named(member: str, wrong: Any, words: str) -> None:
    agent = msgspec.structs.replace(CLAUDE, resume=with_member(CLAUDE.resume, member, wrong))
    assert any(fault.startswith(words) for fault in behaviour_faults(agent))


def written(*changes: tuple[bytes, bytes]) -> Callable[..., Any]:
    """What writes Claude Code's logs, with other words."""

    def lines(session: Any, turns: Any, summary: Any) -> Any:
        for line in CLAUDE.write.lines(session, turns, summary):  # type: ignore[union-attr]
            for before, after in changes:
                line = line.replace(before, after)
            yield line

    return lines


@pytest.mark.parametrize(
    ("member", "wrong", "words"),
    [
        ("log_name", lambda session: PurePath("/etc/log"), "write.log_name: /etc/log"),
        ("lines", written((b"\n", b"")), "write.lines: must return lines"),
        ("lines", written((b"I look.", b"I see.")), "write.lines: the agent's own reader does not find ['I look.']"),
        (
            "lines",
            written((b"tool_result", b"tool_use")),
            "write.lines: the agent's own reader does not find ['reeds']",
        ),
        ("lines", lambda session, turns, summary: [b'{"at":"%f"}\n' % time.perf_counter()], "write.lines: another log"),
    ],
)
def test_a_log_that_would_be_written_wrongly_is_named(member: str, wrong: Any, words: str) -> None:
    agent = msgspec.structs.replace(CLAUDE, write=with_member(CLAUDE.write, member, wrong))
    assert any(each.startswith(words) for each in behaviour_faults(agent))


@pytest.mark.parametrize(
    ("part", "member", "wrong", "words"),
    [
        ("servers", "file", lambda environ, home, project: ServerFile(path=home, format="yaml", table="x"), "yaml"),
        ("servers", "file", lambda environ, home, project: ServerFile(path=home, format="json", table="x"), "project"),
        ("servers", "entry", lambda command, environ: {"command": command}, "does not start"),
        ("servers", "entry", lambda command, environ: {"command": command[0], "args": command[1:]}, "does not start"),
        ("skills", "folder", lambda environ, home, project: home, "skills.folder: /nonexistent/home is no folder"),
    ],
)
def test_settings_that_would_be_looked_for_or_written_wrongly_are_named(
    part: str, member: str, wrong: Any, words: str
) -> None:
    (fault,) = claude_with(part, member, wrong)
    assert words in fault


def test_a_root_that_is_not_in_its_agents_folder_is_named() -> None:
    agent = with_log(roots=lambda environ, home: [home / ".example"])
    assert any("is no LogRoot" in fault for fault in behaviour_faults(agent))


def claude_with(part: str, name: str, member: Any) -> list[str]:
    changed = with_member(getattr(CLAUDE, part), name, member)
    return behaviour_faults(msgspec.structs.replace(CLAUDE, **{part: changed}))


def test_a_sidecar_that_says_what_it_does_not_hold_is_named() -> None:
    faults = claude_with("sidecars", "read", lambda name, content: SidecarContent(title=name))
    assert any(fault.startswith("sidecars.read: 'stranger.bin'") for fault in faults)
    # Of a long content its beginning is named.
    assert any(fault.startswith(f"sidecars.read: 'x.json' with {b'[' * 40!r} says ") for fault in faults)


def test_a_command_that_lacks_the_session_or_the_model_is_named() -> None:
    faults = claude_with("run", "command", lambda executable, *, model, permissions, native_id: [executable])
    assert any("lacks ['some-model'" in fault for fault in faults)


def test_an_id_that_does_not_come_from_the_given_bytes_is_named() -> None:
    faults = claude_with("run", "native_id", lambda randomness: "always")
    assert "run.native_id: must come from the 16 bytes alone, not 'always', 'always', 'always'" in faults


def test_a_message_of_two_lines_is_named() -> None:
    faults = claude_with(
        "steer", "encode_message", lambda text, message_id="": f"{text}{message_id}\n".encode("utf-8", "replace")
    )
    assert any("is not one line" in fault for fault in faults)


def test_a_message_id_that_two_messages_share_is_named() -> None:
    faults = claude_with("steer", "message_id", lambda uid: "same")
    assert "steer.message_id: must be one id for each uid, always the same" in faults


def test_a_reader_of_an_agent_without_messages_has_no_state_of_them() -> None:
    faults = behaviour_faults(msgspec.structs.replace(CLAUDE, steer=None))
    assert "run.stream_reader: has a steering state exactly where the agent has the part steer" in faults


class Output:
    """A reader of a run's output that says what it is given."""

    native_id: str | None = None
    steering: SteerState | None = SteerState()

    def __init__(self, said: Any, ending: Any) -> None:
        self._said, self._ending = said, ending
        self.unknown: dict[str, int] = {}

    def read(self, line: bytes) -> Any:
        return self._said

    def stderr(self, line: bytes) -> Any:
        return []

    def ended(self, exit: Exit) -> Any:
        return self._ending


@pytest.mark.parametrize(
    ("said", "ending", "fault"),
    [
        ("text", None, "run.stream_reader: line 1 says 'text'"),
        (Streamed([(0, "text")]), None, "run.stream_reader: line 1 says 'text', which is no event"),  # type: ignore[list-item]
        (Streamed([]), "done", "it came to 'done'"),
    ],
)
def test_an_output_that_is_read_wrongly_is_named(said: Any, ending: Any, fault: str) -> None:
    run = with_member(CLAUDE.run, "stream_reader", lambda: Output(said, ending))
    agent = msgspec.structs.replace(CLAUDE, run=run)
    assert part_faults(agent) == []
    assert any(fault in each for each in output_faults(agent, STREAMS / "claude" / "hello.jsonl"))


def test_an_agent_whose_advice_is_empty_is_told() -> None:
    class Silent:
        settings = " "

        def allow_rule(self, tool_name: str, words: Sequence[str]) -> str | None:
            return ""

        def why_not_run(self, output: str) -> NotRun | None:
            return NotRun.REFUSED

    faults = behaviour_faults(msgspec.structs.replace(CLAUDE, guide=Silent()))
    assert [each.partition(":")[0] for each in faults] == ["guide.allow_rule", "guide.settings", "guide.why_not_run"]
