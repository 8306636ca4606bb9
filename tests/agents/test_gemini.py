"""Gemini CLI: a session in several files, records that come again, and what no person typed."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.agents.conformance import log_faults, session_faults
from backstory.ask import costs, stats
from backstory.ask.stats import StatsQuestion
from backstory.derive.tally import Tally
from backstory.export.full_form import FullForms
from backstory.ingest.ingest import ingest
from backstory.ingest.watch import Spot, changed
from backstory.model import Error, Hook, LogIdentity, Outcome, ToolCall, ToolResult, UserMessage
from backstory.store.tables.session_filter import ListFilter
from backstory.workspace.clients.resuming import own_logs
from backstory.workspace.located import LocatedSession
from tests.support.clock import NOW
from tests.support.machines import Machine, lies, lines, restored
from tests.support.promises import keeps, promise
from tests.support.reading import Told, told
from tests.support.recorded import cases_of, home_of

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "gemini"
CHATS = Path(".gemini/tmp/shop/chats")
OF_RESUME = [CHATS / f"session-2026-11-23T06-{minute}-1995ba2c.jsonl" for minute in (40, 41)]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


def logs_in(home: Path) -> list[Path]:
    return sorted((home / CHATS).rglob("*.jsonl"))


def log_of(case: str, folder: Path) -> bytes:
    """The log of a case with a single one."""
    (log,) = logs_in(home_of(folder, NAME, case))
    return log.read_bytes()


def read(*records: bytes | dict[str, Any], cuts: tuple[int, ...] = ()) -> Told:
    """What a file with these lines behind a header says."""
    found = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in (HEADER, *records)]
    return told(NAME, lines(*found), CHATS / "session-1.jsonl", cuts)


HEADER: dict[str, Any] = {"sessionId": "s", "projectHash": "0", "startTime": "2026-11-23T06:40:00.000Z", "kind": "main"}


def record(key: str, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": key, "timestamp": f"2026-11-23T06:41:{len(key):02}.000Z", "type": kind, "content": content, **more}


def typed(key: str, text: str) -> dict[str, Any]:
    return record(key, "user", [{"text": text}])


# several files of one session -----------------------------------------------------------------------------------------


def said(machine: Machine) -> list[Any]:
    """All that a store says of its sessions, without the numbers of their records."""
    store = machine.store
    return [
        (
            session.uid, session.created, session.cwd, session.title,
            [(each.uid, each.prompt, each.started, each.ended, each.outcome, each.tokens, each.parent_uid)
             for each in store.turns(session)],
            [(each.part, each.at, each.event) for each in store.events(session)],
            sorted((log.relpath, log.read_to) for log in store.logs(session)),
        )
        for session in store.sessions()
    ]  # fmt: skip


@promise(3, [(NAME, "resume")])
def test_files_of_a_session_are_one_in_every_order(agent: str, case: str, tmp_path: Path) -> None:
    first, second = ((home_of(tmp_path / "from", agent, case) / path).read_bytes() for path in OF_RESUME)
    begun = b"".join(first.splitlines(keepends=True)[:6])
    arrivals = [(OF_RESUME[0], begun), (OF_RESUME[0], first), (OF_RESUME[1], second)]
    results = []
    for number, order in enumerate([*permutations(arrivals), arrivals[1:]]):
        if order.index(arrivals[1]) < (order.index(arrivals[0]) if arrivals[0] in order else 9):
            # A file does not lose its end.
            order = [each for each in order if each != arrivals[0]]
        machine = Machine(tmp_path / f"{number}")
        for path, data in order:
            machine.write(path, data)
            machine.read(NAME)
        results.append(said(machine))
        machine.close()
    assert [len(turns) for *_, turns, _, _ in results[0]] == [2]
    assert all(each == results[0] for each in results)


@promise(3, [(NAME, case) for case in ("resume", "cancel", "acp", "cancel-tool")])
def test_a_file_without_a_prompt_is_no_session(agent: str, case: str, tmp_path: Path) -> None:
    home_of(tmp_path, agent, case)
    machine = Machine(tmp_path / "store")
    machine.home = tmp_path / "home"
    machine.read(agent)
    (session,) = machine.store.sessions()
    assert (session.relation, all(turn.prompt for turn in machine.store.turns(session))) == (None, True)
    machine.close()


@promise(3, [(NAME, "resume")])
def test_files_of_a_session_keep_the_contract(agent: str, case: str, tmp_path: Path) -> None:
    files = logs_in(home_of(tmp_path, agent, case))
    assert session_faults(agents.load(agent), files) == []


@keeps(3, NAME)
def test_a_file_that_is_no_session_becomes_one_with_its_first_prompt(machine: Machine) -> None:
    context = {"$set": {"messages": [typed("c", "<session_context>\n")]}}
    begun = lines(json.dumps(HEADER).encode(), json.dumps(context).encode())
    machine.write(CHATS / "session-1.jsonl", begun)
    machine.read(NAME)
    before = machine.store.sessions()
    machine.write(CHATS / "session-1.jsonl", begun + lines(json.dumps(typed("p", "Look")).encode()))
    machine.read(NAME)
    (session,) = machine.store.sessions()
    assert (before, session.relation, session.created) == ([], None, "2026-11-23T06:41:01.000Z")


@promise(10, cases_of(NAME))
def test_every_file_is_given_back_and_none_is_touched(agent: str, case: str, tmp_path: Path) -> None:
    home = home_of(tmp_path, agent, case)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*")}
    machine = Machine(tmp_path / "store")
    machine.home = home
    machine.read(agent)
    given = {Path(lies(each)).relative_to(tmp_path / "out" / agent): Path(lies(each)).read_bytes()
             for each in restored(machine.store, tmp_path / "out")}  # fmt: skip
    assert given == {log.relative_to(home / ".gemini"): log.read_bytes() for log in logs_in(home)}
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*")} == before
    machine.close()


@pytest.mark.parametrize("order", [OF_RESUME, OF_RESUME[::-1]], ids=["in order", "the other first"])
def test_the_file_to_resume_is_that_of_the_conversation(order: list[Path], tmp_path: Path) -> None:
    home = home_of(tmp_path / "from", NAME, "resume")
    machine = Machine(tmp_path)
    for path in order:
        machine.write(path, (home / path).read_bytes())
        machine.read(NAME)
    (session,) = machine.store.sessions()
    *_, last = own_logs(LocatedSession(machine.store, session))[2]
    assert last.relpath == OF_RESUME[0].relative_to(".gemini").as_posix()
    machine.close()


@keeps(3, NAME)
def test_two_files_with_conversations_hold_the_same_turns_in_either_order(tmp_path: Path) -> None:
    first = (home_of(tmp_path / "from", NAME, "resume") / OF_RESUME[0]).read_bytes().splitlines(keepends=True)
    halves = [b"".join(first[:6]), first[0].replace(b"06:40:57", b"06:41:04") + b"".join(first[8:])]
    found = []
    for number, order in enumerate(([0, 1], [1, 0])):
        machine = Machine(tmp_path / f"{number}")
        for half in order:
            machine.write(OF_RESUME[half], halves[half])
            machine.read(NAME)
        (session,) = machine.store.sessions()
        turns = machine.store.turns(session)
        found.append(sorted((each.uid, each.prompt, str(each.tokens), each.outcome) for each in turns))
        machine.close()
    assert len(found[0]) == 2
    assert found[0] == found[1]


# records that come again ----------------------------------------------------------------------------------------------


def in_another_dress(data: bytes) -> bytes:
    """A log with what a client writes that goes on with it: all of the conversation, poorer, and results twice."""
    listed: list[dict[str, Any]] = []
    records = {each["id"]: each for each in map(json.loads, data.splitlines()) if "id" in each}
    for number, each in enumerate(records.values()):
        answers = isinstance(each["content"], list) and "functionResponse" in each["content"][0]
        if each["type"] == "gemini":
            parts = [
                {"text": each["content"]},
                *({"functionCall": {"name": call["name"]}} for call in each.get("toolCalls", [])),
            ]
            kept = each if number % 4 else {name: each[name] for name in ("id", "timestamp", "type")}
            listed.append({**kept, "content": [{"text": "a thought", "thought": True}, *parts]})
        else:
            listed.append(each)
        if answers:
            listed.append({**each, "id": f"{listed[-2]['id']}_response"})
    header = json.loads(data.splitlines()[0])
    more = [header, {"$set": {"sessionId": header["sessionId"]}}, {"$set": {"messages": listed}}]
    more += [
        {**typed("next", "And now?"), "timestamp": "2026-11-23T07:00:00.000Z"},
        {
            **record("done", "gemini", "All is well.", tokens={"input": 9, "output": 3, "cached": 0}),
            "timestamp": "2026-11-23T07:00:01.000Z",
        },
    ]
    return data + lines(*(json.dumps(each).encode() for each in more))


@promise(3, [(NAME, "tools"), (NAME, "acp")])
def test_a_conversation_that_is_listed_again_is_told_once(agent: str, case: str, tmp_path: Path) -> None:
    log = logs_in(home_of(tmp_path, agent, case))[-1]
    before = told(agent, log.read_bytes(), log)
    log.write_bytes(in_another_dress(log.read_bytes()))
    after = told(agent, log.read_bytes(), log)
    first, second = after.in_order()
    assert after.events[: len(before.events)] == before.events
    assert (first, len(after.events)) == (before.in_order()[0], len(before.events) + 2)
    assert (second.prompt, second.parent_uid, second.outcome) == ("And now?", first.uid, Outcome.COMPLETED)
    assert log_faults(agents.load(agent), log) == []


@keeps(3, NAME)
def test_a_call_that_comes_with_a_later_dress_is_told_then() -> None:
    call = {"id": "c", "name": "glob", "args": {}, "status": "success", "result": []}
    found = read(
        typed("p", "Look"),
        record("a", "gemini", "I look."),
        record("a", "gemini", "I look.", toolCalls=[call]),
        record("a", "gemini", "I look.", toolCalls=[call, {**call, "id": "d"}]),
    )
    assert [each.tool_use_id for each in found.all(ToolCall)] == ["c", "d"]


@keeps(3, NAME)
def test_tokens_of_a_record_that_comes_again_count_once() -> None:
    usage = {"input": 100, "output": 10, "cached": 60, "thoughts": 5}
    answer = record("a", "gemini", "Yes.", tokens=usage)
    found = read(typed("p", "Look"), answer, {**answer, "tokens": {**usage, "output": 12}}, answer)
    (turn,) = found.in_order()
    assert (turn.tokens.input, turn.tokens.cache_read, turn.tokens.output, turn.tokens.reasoning) == (40, 60, 17, 5)


@keeps(1, NAME)
@pytest.mark.parametrize("cut", range(1, 4))
def test_tokens_of_a_record_without_words_are_counted_wherever_a_reading_ends(cut: int) -> None:
    # Its only call was interrupted, and stands nowhere.
    silent = record("aa", "gemini", "", tokens={"input": 100, "output": 24, "cached": 60})
    records = (typed("p", "Look"), record("a", "gemini", "I look.", tokens={"input": 50, "output": 5}), silent)
    (turn,) = read(*records, cuts=(cut,)).in_order()
    assert (turn.tokens.input, turn.tokens.cache_read, turn.tokens.output) == (90, 60, 29)


def test_a_prompt_after_a_rewind_follows_what_was_left() -> None:
    found = read(
        typed("p", "One"), record("a", "gemini", "1"), typed("pp", "Two"), record("aa", "gemini", "2"),
        {"$rewindTo": "pp"}, typed("ppp", "Three"),
    )  # fmt: skip
    one, two, three = found.in_order()
    assert (two.parent_uid, three.parent_uid, three.parent_seq) == (one.uid, one.uid, 3)


# the end of a turn ----------------------------------------------------------------------------------------------------


@promise(4, [(NAME, "cancel"), (NAME, "cancel-tool")])
def test_a_turn_that_was_cancelled_without_a_mark_is_unfinished(agent: str, case: str, tmp_path: Path) -> None:
    found = told(agent, log_of(case, tmp_path), CHATS / "session-1.jsonl")
    assert [turn.outcome for turn in found.in_order()] == [None, Outcome.COMPLETED]


@keeps(4, NAME)
def test_a_turn_that_was_cancelled_with_a_mark_is_cancelled() -> None:
    found = read(typed("p", "Count"), record("i", "info", "Request cancelled."))
    assert [turn.outcome for turn in found.in_order()] == [Outcome.CANCELLED]
    assert [each.code for each in found.all(Error)] == ["interrupted"]


def test_a_turn_that_ends_with_an_error_failed() -> None:
    found = read(typed("p", "Count"), record("e", "error", "[API Error: quota]"))
    assert [turn.outcome for turn in found.in_order()] == [Outcome.FAILED]


# what no person typed -------------------------------------------------------------------------------------------------


@keeps(5, NAME)
def test_what_the_client_says_in_the_users_place_is_no_prompt() -> None:
    response = {"functionResponse": {"id": "c", "name": "glob", "response": {"output": "x"}}}
    found = read(
        {"$set": {"messages": [typed("c", "<session_context>\n- **Workspace Directories:**\n  - /w\n")]}},
        typed("p", "Look"),
        record("r", "user", [response]),
        typed("l", "System: Potential loop detected. Stop."),
    )
    assert [each.content for each in found.all(UserMessage)] == ["Look"]
    assert [each.output for each in found.all(Hook)] == ["System: Potential loop detected. Stop."]


@promise(5, cases_of(NAME))
def test_a_case_has_the_prompts_that_were_typed(agent: str, case: str, tmp_path: Path) -> None:
    prompts = [
        prompt
        for log in logs_in(home_of(tmp_path, agent, case))
        for prompt in told(agent, log.read_bytes(), log).prompts()
    ]
    assert prompts and not any(each.startswith(("<", "System:")) for each in prompts)


def test_files_behind_a_prompt_are_not_part_of_it() -> None:
    parts = [
        {"text": "Read @a.md"},
        {"text": "\n--- Content from referenced files ---"},
        {"text": "\nContent from @a.md:\n"},
    ]
    assert [turn.prompt for turn in read(record("p", "user", parts)).in_order()] == ["Read @a.md"]


# subagents ------------------------------------------------------------------------------------------------------------


@promise(7, [(NAME, "subagent")])
def test_a_subagent_is_a_child_of_the_session_that_called_it(agent: str, case: str, tmp_path: Path) -> None:
    home_of(tmp_path, agent, case)
    machine = Machine(tmp_path / "store")
    machine.home = tmp_path / "home"
    machine.read(agent)
    (parent,) = machine.store.sessions()
    (child,) = machine.store.children(parent)
    assert (child.relation, child.parent_uid) == ("subagent", parent.uid)
    assert [turn.outcome for turn in machine.store.turns(child)] == [Outcome.COMPLETED]
    assert sum(turn.tokens.input or 0 for turn in machine.store.turns(parent)) == 3_200
    assert sum(turn.tokens.input or 0 for turn in machine.store.turns(child)) == 1_500
    machine.close()


@promise(7, [(NAME, "subagent")])
def test_tokens_of_a_subagent_count_once_with_the_session_that_called_it(agent: str, case: str, tmp_path: Path) -> None:
    home_of(tmp_path, agent, case)
    machine = Machine(tmp_path / "store")
    machine.home = tmp_path / "home"
    machine.read(agent)
    tally = Tally()
    asked = StatsQuestion(wanted=ListFilter())
    machine.store.ask(stats.add_turns, costs.price_table(machine.store.prices_file), asked, [tally], 0)
    figures = tally.whole.figures
    assert (figures.sessions, figures.input, figures.output) == (1, 3_200 + 1_500, 52 + 29)
    machine.close()


# bad input ------------------------------------------------------------------------------------------------------------


@promise(9, [(NAME, "tools")])
def test_lines_that_are_cut_or_no_json_affect_no_other(agent: str, case: str, tmp_path: Path) -> None:
    home = home_of(tmp_path, agent, case)
    (log,) = logs_in(home)
    first, *others = log.read_bytes().splitlines(keepends=True)
    data = (
        first
        + b"not json\n"
        + b'{"id":"x","type":"gem\n'
        + first
        + b'{"id":"y","content":[{"text"'
        + b"\n"
        + b"".join(others)
    )
    log.write_bytes(data)
    machine = Machine(tmp_path / "store")
    machine.home = home
    report = machine.read(agent)
    (session,) = machine.store.sessions()
    (turn,) = machine.store.turns(session)
    assert (report.unknown_records, report.errors) == ({"not JSON": 3}, [])
    assert (turn.tokens.input, turn.tokens.cache_read, turn.tokens.output) == (2_900, 8_400, 210)
    (given,) = restored(machine.store, tmp_path / "out")
    assert Path(lies(given)).read_bytes() == data
    machine.close()


@keeps(9, NAME)
def test_a_header_of_another_session_in_mid_file_begins_none() -> None:
    found = read(typed("p", "One"), {**HEADER, "sessionId": "t"}, typed("pp", "Two"))
    assert (found.identity.native_id, found.prompts()) == ("s", ["One", "Two"])


@keeps(9, NAME)
def test_a_torn_first_line_is_made_good_by_a_later_header() -> None:
    data = b'essionId":"s","kind":"main"}\n' + json.dumps(HEADER).encode() + b"\n"
    identity = agents.load(NAME).log.identify(CHATS / "session-1.jsonl", data)
    assert identity is not None
    assert identity.native_id == "s"


# what failed, and where it lay ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "has_failed"),
    [
        ("<untrusted_context>\nOutput: no\nExit Code: 127\nProcess Group PGID: 42\n</untrusted_context>", True),
        ("Output: (empty)\nExit Code: 1\nProcess Group PGID: 7", True),
        ("Output: ok\nExit Code: 0\nSignal: (none)", False),
        ("Output: the log says\nExit Code: 3\nand goes on\nProcess Group PGID: 7", False),
    ],
)
def test_a_command_failed_when_its_text_says_so(output: str, has_failed: bool) -> None:
    result = [{"functionResponse": {"id": "c", "name": "run_shell_command", "response": {"output": output}}}]
    call = {"id": "c", "name": "run_shell_command", "args": {"command": "x"}, "status": "success", "result": result}
    found = read(typed("p", "Go"), record("a", "gemini", "", toolCalls=[call]))
    assert [each.is_error for each in found.all(ToolResult)] == [has_failed]


@pytest.mark.parametrize(
    ("output", "told_as"),
    [
        (
            "<untrusted_context>\nOutput: x: no file\nExit Code: 127\nProcess Group PGID: 42\n</untrusted_context>",
            "Output: x: no file\nExit Code: 127",
        ),
        (
            "Output too large. \n<untrusted_context>\nOutput: a\nb\nProcess Group PGID: 7\n</untrusted_context>",
            "Output too large. \nOutput: a\nb",
        ),
        ("Output: (empty)\nProcess Group PGID: 7", "Output: (empty)"),
        ("Process Group PGID: 7\nis what it prints", "Process Group PGID: 7\nis what it prints"),
        ("<untrusted_context>\nis what it prints", "<untrusted_context>\nis what it prints"),
    ],
)
def test_a_commands_result_ends_with_its_own_words(output: str, told_as: str) -> None:
    result = [{"functionResponse": {"id": "c", "name": "run_shell_command", "response": {"output": output}}}]
    call = {"id": "c", "name": "run_shell_command", "args": {"command": "x"}, "status": "success", "result": result}
    found = read(typed("p", "Go"), record("a", "gemini", "", toolCalls=[call]))
    assert [each.content for each in found.all(ToolResult)] == [told_as]


@keeps(7, NAME)
def test_a_file_beside_those_of_subagents_does_not_hide_the_session_whose_id_it_has(machine: Machine) -> None:
    for path, prompt in ((OF_RESUME[0], "One"), (CHATS / "s" / "helper.jsonl", "Two")):
        records = (HEADER, typed(prompt, prompt), record(f"{prompt} a", "gemini", "Yes."))
        machine.write(path, lines(*(json.dumps(each).encode() for each in records)))
    machine.read(NAME)
    (session,) = machine.store.sessions()
    assert (session.relation, session.parent_uid) == (None, None)
    assert {turn.prompt for turn in machine.store.turns(session)} == {"One", "Two"}


@keeps(11, NAME)
def test_a_first_ingest_names_the_agent_with_its_bytes(machine: Machine, tmp_path: Path) -> None:
    home = home_of(tmp_path, NAME, "tools")
    (agent,) = machine.read(NAME).by_agent.values()
    assert home == machine.home
    assert (agent.sessions_new, agent.bytes_read) == (1, sum(log.stat().st_size for log in logs_in(home)))


@keeps(12, NAME)
def test_a_folder_that_was_moved_is_read_there(machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path / "moved", NAME, "hello")
    environ = {"GEMINI_CLI_HOME": str(tmp_path / "moved" / "home")}
    ingest(machine.store, [agents.load(NAME)], environ=environ, home=machine.home, now=NOW)
    assert len(machine.store.sessions()) == 1


@keeps(12, NAME)
def test_an_old_log_that_is_one_document_is_named_and_kept(machine: Machine) -> None:
    path = machine.write(
        CHATS / "session-2025-10-01T10-00-0ddba11a.json", b'{\n  "sessionId": "x",\n  "messages": []\n}'
    )
    report = machine.read(NAME)
    assert [each.path for each in report.not_understood] == [str(path)]
    assert [log.read_to for log in machine.store.logs()] == [path.stat().st_size]


@promise(10, cases_of(NAME))
def test_a_record_alone_has_each_of_its_events_at_its_place(agent: str, case: str, tmp_path: Path) -> None:
    for log in logs_in(home_of(tmp_path, agent, case)):
        log.write_bytes(in_another_dress(log.read_bytes()))
        records = log.read_bytes().splitlines()
        for seq, part, _, _, event in told(agent, log.read_bytes(), log).events:
            reader = agents.load(agent).log.reader(LogIdentity(native_id="s"), None, tuple)
            assert dict(reader.read(records[seq - 1], seq).events)[part] == event


# outputs that are too long for the log --------------------------------------------------------------------------------

SPILLED = Path(
    ".gemini/tmp/shop/tool-outputs/session-08fe0421-1176-4a59-af9d-ea0cb67b9347/"
    "run_shell_command__run_shell_command_1795416089458_0.txt"
)


@promise(10, [(NAME, "long")])
def test_an_output_too_long_for_the_log_is_kept_shown_and_given_back(agent: str, case: str, tmp_path: Path) -> None:
    whole = (home_of(tmp_path, agent, case) / SPILLED).read_bytes()
    machine = Machine(tmp_path / "store")
    machine.home = tmp_path / "home"
    machine.read(agent)
    (session,) = machine.store.sessions()
    expand = FullForms(machine.store).expand
    results = [each for each in map(expand, machine.store.events(session)) if isinstance(each, ToolResult)]
    (log,) = restored(machine.store, tmp_path / "out")
    assert [each.content for each in results] == [whole.decode()]
    assert [Path(lies(each)).relative_to(tmp_path / "out" / agent) for each in log.companions] == [
        SPILLED.relative_to(".gemini")
    ]
    assert Path(lies(log.companions[0])).read_bytes() == whole
    machine.close()


@keeps(10, NAME)
def test_an_output_that_comes_while_a_session_grows_is_found(machine: Machine, tmp_path: Path) -> None:
    home = home_of(tmp_path, NAME, "long")
    (root,) = agents.load(NAME).log.roots({}, home)
    found = changed([str(home / SPILLED)], [Spot(agents.load(NAME), root)])
    (log,) = found.logs
    assert (log.path, [each.name for each in log.sidecars]) == (
        str(*logs_in(home)),
        [f"../{SPILLED.relative_to('.gemini/tmp/shop').as_posix()}"],
    )


# going on in the client -----------------------------------------------------------------------------------------------


def test_a_session_is_resumed_by_its_id_and_its_log_stays_where_it_lay() -> None:
    resume = agents.load(NAME).resume
    assert resume is not None
    place = OF_RESUME[0].relative_to(".gemini")
    assert resume.command("/bin/gemini", "1995ba2c") == ["/bin/gemini", "--resume", "1995ba2c"]
    assert resume.log_names(place, "/home/dev/shop") == [place]
    assert resume.log_names(place.with_suffix(".json"), "/home/dev/shop") == []
