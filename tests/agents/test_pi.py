"""pi: a tree of entries in one file, forks that repeat it, compactions, and what no person typed."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.agents.pi.places import project_folder
from backstory.agents.pi.resume import Resuming
from backstory.ingest.ingest import ingest
from backstory.model import (
    AssistantText,
    Command,
    Compacted,
    Error,
    Hook,
    Init,
    LogIdentity,
    ModelSwitch,
    ToolCall,
    ToolResult,
    UserMessage,
)  # fmt: skip
from tests.support.clock import NOW
from tests.support.machines import Machine, lies, lines, looked_up, restored
from tests.support.promises import keeps, promise
from tests.support.reading import Told, told
from tests.support.recorded import cases_of, count_of, counted, home_of

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "pi"
SESSIONS = Path(".pi/agent/sessions")
FOLDER = SESSIONS / "--home-dev-shop--"
FORKS = [(NAME, "fork"), (NAME, "rpc")]
ASKED = "What does gross() in price.py return today?"
HEADER = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-11-23T06:40:00.000Z", "cwd": "/home/dev/shop"}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


def logs_in(home: Path) -> list[Path]:
    return sorted((home / SESSIONS).rglob("*.jsonl"))


def log_of(case: str, folder: Path) -> Path:
    """The log of a case with a single one."""
    (log,) = logs_in(home_of(folder, NAME, case))
    return log


def entry(key: str, parent: str | None, kind: str = "message", second: int = 0, **more: Any) -> dict[str, Any]:
    time = f"2026-11-23T06:41:{second or int(key[1:]):02}.000Z"
    return {"type": kind, "id": key, "parentId": parent, "timestamp": time, **more}


def typed(key: str, parent: str | None, text: str, **more: Any) -> dict[str, Any]:
    return entry(key, parent, message={"role": "user", "content": [{"type": "text", "text": text}], **more})


def answered(key: str, parent: str | None, text: str, stop: str = "stop", **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}] if text else []
    return entry(key, parent, message={"role": "assistant", "content": content, "stopReason": stop, **more})


def called(key: str, parent: str, name: str = "bash") -> dict[str, Any]:
    content = [{"type": "toolCall", "id": f"call {key}", "name": name, "arguments": {"command": "ls"}}]
    return entry(key, parent, message={"role": "assistant", "content": content, "stopReason": "toolUse"})


def resulted(key: str, parent: str, at: int) -> dict[str, Any]:
    message = {"role": "toolResult", "toolCallId": f"call {parent}", "toolName": "bash", "content": [], "timestamp": at}
    return entry(key, parent, message=message)


def data_of(*records: bytes | dict[str, Any]) -> bytes:
    return lines(*(each if isinstance(each, bytes) else json.dumps(each).encode() for each in (HEADER, *records)))


def read(*records: bytes | dict[str, Any], cuts: tuple[int, ...] = ()) -> Told:
    """What a file with these lines behind a header says."""
    return told(NAME, data_of(*records), FOLDER / "2026_s.jsonl", cuts)


def usage(amount: int, cost: float | None = None) -> dict[str, Any]:
    return {"input": amount, "output": 1, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": cost}}


# copies ---------------------------------------------------------------------------------------------------------------


@promise(2, FORKS)
def test_a_fork_names_its_origin_and_counts_once_in_every_order(agent: str, case: str, tmp_path: Path) -> None:
    files = {path.name: path.read_bytes() for path in logs_in(home_of(tmp_path / "from", agent, case))}
    results = []
    for number, order in enumerate(permutations(files)):
        machine = Machine(tmp_path / f"{number}")
        for name in order:
            machine.write(FOLDER / name, files[name])
            machine.read(NAME)
        origin, fork = sorted(machine.store.sessions(), key=lambda each: each.created)
        assert (fork.parent_uid, fork.relation) == (origin.uid, "fork")
        uids = [[turn.uid for turn in machine.store.turns(each)] for each in (origin, fork)]
        assert uids[1][: len(uids[0])] == uids[0]
        results.append((uids, counted(machine.store)))
        machine.close()
    expected = {key: value for key, value in count_of(agent, case).items() if key not in ("recorded", "said")}
    assert [each[1] for each in results] == [expected, expected]
    assert results[0] == results[1]


@promise(2, FORKS)
def test_a_prompt_that_a_fork_repeats_is_found_once(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, agent, case)
    machine.read(agent)
    found = looked_up(machine.store.path, "select count(distinct uid) from turns where prompt = ?", ASKED)
    assert found == [(1,)]
    assert [each.copied for each in machine.store.search("gross price return").hits] == [False, True]


@keeps(2, NAME)
def test_sessions_that_begin_with_the_same_words_are_two_turns(machine: Machine) -> None:
    for number, second in (("1", 1), ("2", 2)):
        data = data_of(typed(f"a{second}", None, "Look"), answered("a9", f"a{second}", "Done"))
        machine.write(FOLDER / f"x_{number}.jsonl", data.replace(b'"id": "s"', b'"id": "%s"' % number.encode()))
    machine.read(NAME)
    assert looked_up(machine.store.path, "select count(distinct uid) from turns") == [(2,)]


@keeps(2, NAME)
def test_a_session_that_names_itself_as_its_origin_is_no_fork(machine: Machine) -> None:
    own = {**HEADER, "parentSession": f"/home/dev/{FOLDER}/2026_s.jsonl"}
    machine.write(
        FOLDER / "2026_s.jsonl", lines(json.dumps(own).encode(), json.dumps(typed("e1", None, "Go")).encode())
    )
    machine.read(NAME)
    (session,) = machine.store.sessions()
    assert (session.relation, session.parent_uid) == (None, None)


# the tree -------------------------------------------------------------------------------------------------------------

TREE = [
    typed("a1", None, "One"), called("a2", "a1"), resulted("a3", "a2", 5), answered("a4", "a3", "First"),
    typed("a5", "a4", "Two"), answered("a6", "a5", "Second"),
    typed("a7", "a2", "Instead of it"), answered("a8", "a7", "Third"),
]  # fmt: skip


@pytest.mark.parametrize("cuts", [(), tuple(range(1, 9))], ids=["at once", "line by line"])
def test_a_prompt_follows_the_entry_that_it_names(cuts: tuple[int, ...]) -> None:
    first, second, third = read(*TREE, cuts=cuts).in_order()
    assert (second.parent_uid, second.parent_seq) == (first.uid, 5)
    assert (third.parent_uid, third.parent_seq) == (first.uid, 3)


def test_a_prompt_that_begins_anew_follows_nothing() -> None:
    found = read(*TREE, typed("a9", None, "Anew"))
    assert (found.in_order()[-1].parent_uid, found.session.leaf) == (None, None)


@pytest.mark.parametrize("cuts", [(), tuple(range(1, 12))], ids=["at once", "line by line"])
def test_the_last_line_says_where_the_next_prompt_goes(cuts: tuple[int, ...]) -> None:
    back = entry("a9", "a4", "branch_summary", fromId="a8", summary="It was tried.")
    found = read(*TREE, back, cuts=cuts)
    first = found.in_order()[0]
    assert found.session.leaf == (first.uid, 5)
    assert found.all(Hook) == [Hook(name="branch summary", output="It was tried.")]
    gone_on = read(*TREE, back, typed("b10", "a9", "Four"), cuts=cuts)
    assert (gone_on.in_order()[-1].parent_uid, gone_on.session.leaf) == (first.uid, None)


def test_parents_that_lead_around_in_a_circle_end() -> None:
    rounds = [
        typed("a1", "a2", "One"),
        answered("a2", "a1", "Done"),
        typed("a3", "zz", "Two"),
        typed("a4", "a4", "Three"),
    ]
    assert read(*rounds, cuts=(2, 3, 4)).prompts() == ["One", "Two", "Three"]


# how turns end --------------------------------------------------------------------------------------------------------


@promise(4, [(NAME, "cancel-tool")])
def test_a_turn_that_was_cut_off_without_a_mark_is_unfinished(
    agent: str, case: str, machine: Machine, tmp_path: Path
) -> None:
    home_of(tmp_path, agent, case)
    machine.read(agent)
    (session,) = machine.store.sessions()
    assert [turn.outcome for turn in machine.store.turns(session)] == [None, "completed"]


@promise(4, [(NAME, "cancel")])
def test_a_session_without_an_answer_leaves_nothing(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, agent, case)
    assert machine.read(agent).total("logs_seen") == 0


@keeps(4, NAME)
def test_an_answer_that_was_aborted_is_cancelled_and_one_in_error_failed() -> None:
    found = read(
        typed("a1", None, "One"), answered("a2", "a1", "", "aborted", errorMessage="Operation aborted", usage=usage(0)),
        typed("a3", "a2", "Two"), answered("a4", "a3", "", "error", errorMessage="No such model"),
    )  # fmt: skip
    assert [turn.outcome for turn in found.in_order()] == ["cancelled", "failed"]
    assert found.all(Error) == [Error(message="Operation aborted", code="interrupted"), Error(message="No such model")]


# what no person typed -------------------------------------------------------------------------------------------------


@promise(5, [each for each in cases_of(NAME) if each[1] != "cancel"])
def test_every_prompt_is_one_that_a_person_gave(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, agent, case)
    machine.read(agent)
    given = {
        ASKED, "And which test would catch that? One sentence.", "Say only: after.", "Run the slow job.",
        "What happened?", "Fix gross() so that it adds the VAT, run the tests, then run `false-check --strict`.",
    }  # fmt: skip
    sessions = machine.store.sessions()
    assert {turn.prompt for each in sessions for turn in machine.store.turns(each)} <= given
    said = [each.event for session in sessions for each in machine.store.events(session)]
    assert {each.content for each in said if isinstance(each, UserMessage)} <= given


@keeps(5, NAME)
def test_a_command_of_the_person_and_words_of_an_extension_begin_no_turn() -> None:
    shell = {"role": "bashExecution", "command": "ls", "output": "a\n", "exitCode": 0}
    found = read(
        typed("a1", None, "One"), entry("a2", "a1", message=shell),
        entry("a3", "a2", message={**shell, "excludeFromContext": True}),
        entry("a4", "a3", "custom_message", customType="todo", content="Do it."), entry("a5", "a4", "label", label="x"),
    )  # fmt: skip
    assert found.prompts() == ["One"]
    assert found.all(Command) == [Command(name="! ls", output="a\n"), Command(name="!! ls", output="a\n")]
    assert (found.all(Hook), found.unknown) == ([Hook(name="todo", output="Do it.")], {})


@keeps(5, NAME)
def test_words_typed_while_a_tool_ran_belong_to_the_turn() -> None:
    work = [typed("a1", None, "One", timestamp=1), called("a2", "a1"), resulted("a3", "a2", 5)]
    meanwhile, later = (read(*work, typed("a4", "a3", "Faster", timestamp=at)) for at in (4, 6))
    assert [len(found.turns) for found in (meanwhile, later)] == [1, 2]
    assert meanwhile.prompts() == later.prompts() == ["One", "Faster"]


# compaction -----------------------------------------------------------------------------------------------------------


@promise(6, [(NAME, "compact"), (NAME, "rpc")])
def test_a_compaction_has_its_summary_and_earlier_prompts_are_found(
    agent: str, case: str, machine: Machine, tmp_path: Path
) -> None:
    home_of(tmp_path, agent, case)
    machine.read(agent)
    session = min(machine.store.sessions(), key=lambda each: each.created)
    (summary,) = [each.event for each in machine.store.events(session) if isinstance(each.event, Compacted)]
    assert summary.summary.endswith("## Goal\nUnderstand gross().\n## Done\nIt returns net without VAT.")
    assert next(turn.prompt for turn in machine.store.turns(session)) == ASKED
    assert machine.store.search("price.py return today").hits


# bad input ------------------------------------------------------------------------------------------------------------


@promise(9, [(NAME, "tools"), (NAME, "tools-0.87.1")])
def test_lines_that_are_cut_or_no_json_affect_no_other(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    log = log_of(case, tmp_path)
    first, second, *others = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(first + b"not json\n" + second[:40] + b"\n" + second + b"\0\xff\n" + b"".join(others))
    report = machine.read(agent)
    (turn,) = machine.store.turns(machine.store.sessions()[0])
    assert (report.unknown_records, report.errors) == ({"not JSON": 3}, [])
    assert (turn.tokens.input, turn.tokens.cache_read, turn.tokens.output) == (2_900, 8_400, 210)
    (given,) = restored(machine.store, tmp_path / "out")
    assert Path(lies(given)).read_bytes() == log.read_bytes()


@keeps(9, NAME)
def test_a_header_in_mid_file_begins_no_other_session() -> None:
    found = read(typed("a1", None, "One"), {**HEADER, "id": "t"}, typed("a2", None, "Two"))
    assert (found.identity.native_id, found.prompts(), found.in_order()[1].parent_uid) == ("s", ["One", "Two"], None)


@keeps(9, NAME)
def test_a_torn_first_line_leaves_the_session_its_name() -> None:
    data = b'rsion":3,"id":"s"}\n' + data_of(typed("a1", None, "One")).partition(b"\n")[2]
    identity = agents.load(NAME).log.identify(FOLDER / "2026-11-23T06-40-00-000Z_0a.jsonl", data)
    assert identity == LogIdentity(native_id="0a")


# bytes, folders, first ingest -----------------------------------------------------------------------------------------


@promise(10, cases_of(NAME))
def test_every_file_is_given_back_and_none_is_touched(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home = home_of(tmp_path, agent, case)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*")}
    machine.read(agent)
    out = tmp_path / "out"
    given = [Path(lies(each)) for each in (restored(machine.store, out) if machine.store.path.exists() else [])]
    assert {path.relative_to(out / agent): path.read_bytes() for path in given} == {
        log.relative_to(home / ".pi" / "agent"): log.read_bytes() for log in logs_in(home)
    }
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*")} == before


@promise(11, [(NAME, "tools"), (NAME, "fork")])
def test_a_first_ingest_names_the_agent_with_its_bytes(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home = home_of(tmp_path, agent, case)
    found = machine.read(agent).by_agent[agent]
    assert (found.sessions_new, found.bytes_read) == (
        count_of(agent, case)["sessions"], sum(log.stat().st_size for log in logs_in(home)),
    )  # fmt: skip


@promise(12, [(NAME, "hello"), (NAME, "tools-0.87.1")])
def test_a_folder_that_was_moved_is_read_there(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    moved = home_of(tmp_path / "moved", agent, case) / ".pi" / "agent"
    environ = {"PI_CODING_AGENT_DIR": str(moved)}
    ingest(machine.store, [agents.load(agent)], environ=environ, home=machine.home, now=NOW)
    assert len(machine.store.sessions()) == 1


@keeps(12, NAME)
def test_a_file_of_another_program_is_named_and_kept(machine: Machine) -> None:
    path = machine.write(FOLDER / "notes.jsonl", b'{"note":"mine"}\n')
    report = machine.read(NAME)
    assert [each.path for each in report.not_understood] == [str(path)]


# facts ----------------------------------------------------------------------------------------------------------------


def test_the_name_of_a_session_is_its_title(machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, NAME, "rpc")
    machine.read(NAME)
    assert {session.title for session in machine.store.sessions()} == {"VAT of gross"}


@pytest.mark.parametrize(("case", "cost"), [("hello", 0.00132), ("tools", 0.00479)])
def test_a_turn_costs_what_the_agent_says(case: str, cost: float, machine: Machine, tmp_path: Path) -> None:
    log = log_of(case, tmp_path)
    machine.read(NAME)
    (turn,) = machine.store.turns(machine.store.sessions()[0])
    said = [json.loads(line).get("message", {}).get("usage") for line in log.read_text().splitlines()]
    assert turn.cost_usd == pytest.approx(sum(each["cost"]["total"] for each in said if each))
    assert turn.cost_usd == pytest.approx(cost)
    assert turn.cost_source == "reported"


def test_a_turn_whose_model_has_no_price_has_no_cost() -> None:
    (turn,) = read(
        typed("a1", None, "One"), answered("a2", "a1", "A", usage=usage(5, 0.5)),
        answered("a3", "a2", "B", usage=usage(5, 0)), answered("a4", "a3", "C", usage=usage(5, 0.5)),
    ).in_order()  # fmt: skip
    assert (turn.cost_usd, turn.cost_source, turn.tokens.input) == (None, None, 15)


def test_an_edit_has_its_path_and_its_difference(tmp_path: Path) -> None:
    data = log_of("tools", tmp_path).read_bytes()
    found = told(NAME, data, FOLDER / "x_1.jsonl")
    edit = next(each for each in found.all(ToolCall) if each.tool == "EDIT")
    result = next(each for each in found.all(ToolResult) if each.tool_use_id == edit.tool_use_id)
    assert (edit.file_path, result.file_path) == ("price.py", "price.py")
    assert "+8     return round(net * (1 + VAT), 2)" in json.loads(result.details)["diff"]


def test_a_model_that_changes_is_shown_from_the_second_one_on() -> None:
    change = [entry(f"a{n}", f"a{n - 1}" if n > 1 else None, "model_change", modelId=f"m{n}") for n in (1, 2)]
    found = read(*change, typed("a3", "a2", "One"))
    assert (found.all(ModelSwitch), found.all(Init)) == ([ModelSwitch(model="m2")], [Init(cwd="/home/dev/shop")])
    assert found.in_order()[0].model == "m2"


def test_entries_of_the_first_version_follow_each_other() -> None:
    old = [{key: value for key, value in each.items() if key not in ("id", "parentId")} for each in TREE]
    first, second, third = read(*old).in_order()
    assert (second.parent_uid, third.parent_uid) == (first.uid, second.uid)


def test_an_unknown_entry_is_counted() -> None:
    found = read(entry("a1", None, "weather"), entry("a2", "a1", message={"role": "oracle"}))
    assert found.unknown == {"weather": 1, "message/oracle": 1}


def test_text_that_is_no_block_is_read() -> None:
    message = {"role": "assistant", "content": ["plain"], "stopReason": "stop"}
    assert read(typed("a1", None, "One"), entry("a2", "a1", message=message)).all(AssistantText)[0].text == "plain"


# the client -----------------------------------------------------------------------------------------------------------


def test_a_session_is_resumed_by_its_id_in_the_folder_of_its_cwd() -> None:
    assert Resuming().command("pi", "0a1b") == ["pi", "--session", "0a1b"]
    assert Resuming().log_names(PurePath("sessions/--w--/x_1.jsonl"), "/home/dev/.shop") == [
        PurePath("sessions/--home-dev-.shop--/x_1.jsonl")
    ]
    assert Resuming().log_names(PurePath("other/x.jsonl"), "/home") == []
    assert project_folder("C:\\Users\\dev") == "--C--Users-dev--"
