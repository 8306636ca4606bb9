"""Aider: one file with many sessions, whose lines are told from those that an answer quotes."""

from __future__ import annotations

import shutil
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backstory import agents
from backstory.agents.aider import runs
from backstory.ingest.ingest import ingest
from backstory.model import AssistantText, Command, Error, ToolCall, UserMessage
from tests.support.clock import NOW
from tests.support.machines import Machine, claude_line, claude_log, lies, lines, looked_up, restored
from tests.support.promises import keeps, promise
from tests.support.recorded import cases_of, count_of, home_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.ingest.report import IngestReport
    from backstory.model import Event

NAME = "aider"
FILE = ".aider.chat.history.md"
FIRST, SECOND = "2026-11-23 06:43:44", "2026-11-23 07:00:00"
BANNER = "> Aider v0.86.2  \n> Model: openai/stub-model with diff edit format  \n"
TOKENS = "> Tokens: 1.2k sent, 18 received.  \n"
FENCED = f"It looks so:\n\n```\n\n# aider chat started at {FIRST}\n\n#### not a prompt\n> not a tool\n```\n\nSo."


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


def run(at: str, *said: str) -> str:
    """What a run adds to the history."""
    return f"\n# aider chat started at {at}\n\n{BANNER}{''.join(said)}"


def typed(text: str) -> str:
    return "\n#### " + "  \n#### ".join(text.split("\n")) + "  \n"


def answered(text: str) -> str:
    return f"\n{text}\n\n{TOKENS}"


TWO_RUNS = run(FIRST, typed("One"), answered("It is one.")) + run(SECOND, typed("Two\nlines"), answered("Both."))


def history(machine: Machine, text: str, folder: str = "shop") -> Path:
    return machine.write(Path(folder, FILE), text.encode())


def read(machine: Machine, *folders: str) -> IngestReport:
    places = [machine.home / folder for folder in folders or ("shop",)]
    return ingest(machine.store, [agents.load(NAME)], environ={}, home=machine.home, now=NOW, places=places)


def prompts(machine: Machine) -> list[list[str]]:
    """The prompts of each session, in the order of their runs."""
    if not machine.store.path.exists():
        return []
    found = sorted(machine.store.sessions(), key=lambda session: (session.created, session.uid))
    return [[turn.prompt for turn in machine.store.turns(session)] for session in found]


def events(machine: Machine) -> list[Event]:
    (session,) = machine.store.sessions()
    return [each.event for each in machine.store.events(session)]


# many sessions in one file --------------------------------------------------------------------------------------------


@keeps(1, NAME)
def test_each_run_is_a_session_with_its_own_prompts(machine: Machine) -> None:
    history(machine, TWO_RUNS)
    read(machine)
    assert prompts(machine) == [["One"], ["Two\nlines"]]


@keeps(10, NAME)
@pytest.mark.parametrize("step", [1, 7, 40])
def test_a_history_that_grows_gives_the_same_sessions_as_all_at_once(step: int, tmp_path: Path) -> None:
    grown, whole = Machine(tmp_path / "grown"), Machine(tmp_path / "whole")
    data, shop = TWO_RUNS + run("2026-11-24 08:00:00", typed("/run ls")), tmp_path / "shop"
    shop.mkdir()
    said = data.splitlines(keepends=True)
    for count in range(0, len(said) + step, step):
        (shop / FILE).write_text("".join(said[:count]))
        ingest(grown.store, [agents.load(NAME)], environ={}, home=grown.home, now=NOW, places=[shop])
    ingest(whole.store, [agents.load(NAME)], environ={}, home=whole.home, now=NOW, places=[shop])
    assert len(whole.content()) == 2
    assert grown.content() == whole.content()
    grown.close()
    whole.close()


@keeps(10, NAME)
def test_bytes_are_kept_once_and_a_run_without_a_prompt_goes_with_the_next_one(machine: Machine) -> None:
    empty = run("2026-11-23 06:50:00")
    path = history(machine, f"{run(FIRST, typed('One'))}{empty}{run(SECOND, typed('Two'))}{run(SECOND)}")
    read(machine)
    assert [log.read_to for log in machine.store.logs()] == [
        len(run(FIRST, typed("One"))) + 1, len(empty) + len(run(SECOND, typed("Two"))),
    ]  # fmt: skip
    given = sorted(lies(each) for each in restored(machine.store, machine.home / "out"))
    kept = b"".join(each.read_bytes() for each in given)
    assert path.read_bytes() == kept + run(SECOND).encode()[1:]


@promise(10, cases_of(NAME))
def test_the_parts_are_the_file_and_nothing_is_touched(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home = home_of(tmp_path, agent, case)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in home.rglob("*") if path.is_file()}
    read(machine)
    given = sorted(lies(each) for each in restored(machine.store, tmp_path / "out"))
    assert b"".join(each.read_bytes() for each in given) == (home / "shop" / FILE).read_bytes()
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in home.rglob("*") if path.is_file()} == before


@keeps(2, NAME)
def test_a_repository_that_was_copied_brings_no_session_twice(machine: Machine) -> None:
    shutil.copytree(history(machine, TWO_RUNS).parent, machine.home / "copy")
    with (machine.home / "copy" / FILE).open("a") as file:
        file.write(run("2026-11-24 08:00:00", typed("Three")))
    read(machine, "shop", "copy")
    assert prompts(machine) == [["One"], ["Two\nlines"], ["Three"]]


@keeps(2, NAME)
def test_two_runs_that_began_in_the_same_second_are_two_sessions(machine: Machine) -> None:
    history(machine, run(FIRST, typed("One")))
    history(machine, run(FIRST, typed("Two")), "other")
    read(machine, "shop", "other")
    assert sorted(prompts(machine)) == [["One"], ["Two"]]


def test_what_is_left_of_a_history_whose_beginning_was_cut_off_is_a_session(machine: Machine) -> None:
    history(machine, typed("One") + answered("It is.") + run(SECOND, typed("Two")))
    read(machine)
    assert sorted(prompts(machine)) == [["One"], ["Two"]]


# what no person typed -------------------------------------------------------------------------------------------------


@keeps(5, NAME)
def test_marks_inside_a_fence_are_words_of_the_answer(machine: Machine) -> None:
    history(machine, run(FIRST, typed("One"), answered(FENCED), typed("Two")))
    read(machine)
    assert prompts(machine) == [["One", "Two"]]
    assert [each.text for each in events(machine) if isinstance(each, AssistantText)] == [FENCED]


@keeps(5, NAME)
def test_commands_and_an_empty_line_are_no_prompts(machine: Machine) -> None:
    said = [typed(text) for text in ("/run ls", "!ls", "<blank>", "/add price.py", "/ask Why?")]
    history(machine, run(FIRST, *said))
    read(machine)
    assert prompts(machine) == [["/ask Why?"]]
    assert [each.name for each in events(machine) if isinstance(each, Command)] == ["/run ls", "!ls", "/add price.py"]


@keeps(5, NAME)
def test_a_second_answer_without_a_prompt_is_of_the_same_turn(machine: Machine) -> None:
    history(machine, run(FIRST, typed("One"), answered("First."), "> Add file to the chat? y  \n", answered("Second.")))
    read(machine)
    said = [each for each in events(machine) if isinstance(each, UserMessage | AssistantText)]
    assert said == [UserMessage(content="One"), AssistantText(text="First."), AssistantText(text="Second.")]


def test_words_of_the_program_over_several_lines_are_no_answer(machine: Machine) -> None:
    message = "> Commit 22bf711 feat: add\n\n#### why\n\nBecause.  \n"
    history(machine, run(FIRST, typed("One"), answered("Done."), message, typed("Two")))
    read(machine)
    assert prompts(machine) == [["One", "Two"]]
    assert [each.text for each in events(machine) if isinstance(each, AssistantText)] == ["Done."]


def test_a_quotation_in_an_answer_is_part_of_it(machine: Machine) -> None:
    text = "They say:\n\n> Keep it simple.\n\nSo do it."
    history(machine, run(FIRST, typed("One"), answered(text)))
    read(machine)
    assert [each.text for each in events(machine) if isinstance(each, AssistantText)] == [text]


# how it ended, what it did --------------------------------------------------------------------------------------------


@keeps(4, NAME)
def test_a_turn_with_the_mark_of_an_interrupt_is_cancelled_and_a_broken_fence_ends_there(machine: Machine) -> None:
    broken = "\nHalf of it:\n\n```python\nx = \n\n> ^C again to exit  \n"
    history(machine, run(FIRST, typed("One"), broken, typed("Two"), answered("Yes.")))
    read(machine)
    (session,) = machine.store.sessions()
    assert [turn.outcome for turn in machine.store.turns(session)] == ["cancelled", "completed"]
    assert [each.code for each in events(machine) if isinstance(each, Error)] == ["interrupted"]


@keeps(4, NAME)
@pytest.mark.parametrize("said", ["", "\nAn answer whose end nobody saw.\n\n"])
def test_a_turn_without_a_mark_is_unfinished(said: str, machine: Machine) -> None:
    history(machine, run(FIRST, typed("One"), said))
    read(machine)
    (session,) = machine.store.sessions()
    assert [turn.outcome for turn in machine.store.turns(session)] == [None]


@promise(1, [(NAME, "edit")])
def test_an_edit_has_the_lines_that_the_answer_gave_it(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, agent, case)
    read(machine)
    (call,) = [each for each in events(machine) if isinstance(each, ToolCall)]
    change = {"old_string": "    return net\n", "new_string": "    return round(net * (1 + VAT), 2)\n"}
    assert call.input == {"path": "price.py", "edits": [change]}


def test_a_commit_that_it_made_is_a_ref_of_the_session(machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, NAME, "edit")
    read(machine)
    machine.store.close()
    found = looked_up(machine.store_path, "select ref_type, ref_value from session_refs")
    assert found == [("commit", "22bf711")]


@pytest.mark.parametrize("case", ["hello", "edit"])
def test_its_estimates_of_tokens_are_never_counted(case: str, machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, NAME, case)
    read(machine)
    (session,) = machine.store.sessions()
    (turn,) = machine.store.turns(session)
    assert (turn.tokens.input, turn.tokens.output, turn.tokens_source) == (None, None, None)


# places ---------------------------------------------------------------------------------------------------------------


@promise(11, [(NAME, case) for _, case in cases_of(NAME)])
def test_a_first_ingest_names_the_agent_with_its_bytes(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home = home_of(tmp_path, agent, case)
    found = read(machine).by_agent[agent]
    assert (found.sessions_new, found.bytes_read) == (
        count_of(agent, case)["sessions"], (home / "shop" / FILE).stat().st_size,
    )  # fmt: skip


@promise(12, [(NAME, "hello")])
def test_a_history_that_its_variable_names_is_read_there(
    agent: str, case: str, machine: Machine, tmp_path: Path
) -> None:
    moved = home_of(tmp_path / "moved", agent, case) / "shop" / FILE
    environ = {"AIDER_CHAT_HISTORY_FILE": str(moved.rename(moved.with_name("talk.md")))}
    ingest(machine.store, [agents.load(agent)], environ=environ, home=machine.home, now=NOW)
    assert prompts(machine) == [["What does gross() in price.py return today?"]]


@keeps(12, NAME)
def test_a_history_in_a_folder_where_another_agent_worked_is_read(machine: Machine, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / FILE).write_text(TWO_RUNS)
    machine.write(claude_log("s"), lines(claude_line("user", "u1", "Elsewhere", cwd=str(shop))))
    ingest(machine.store, [agents.load(each) for each in ("claude", NAME)], environ={}, home=machine.home, now=NOW)
    assert sorted(prompts(machine)) == [["Elsewhere"], ["One"], ["Two\nlines"]]


# bad input ------------------------------------------------------------------------------------------------------------


@keeps(9, NAME)
def test_a_history_in_which_nothing_was_asked_is_named_with_the_reason(machine: Machine) -> None:
    path = history(machine, run(FIRST))
    other = history(machine, TWO_RUNS, "other")
    report = read(machine, "shop", "other")
    assert [(each.path, each.reason) for each in report.errors] == [(str(path), "nothing was asked in it yet")]
    assert other.exists()
    assert prompts(machine) == [["One"], ["Two\nlines"]]


@keeps(9, NAME)
def test_bytes_that_are_no_text_stay_in_their_session(machine: Machine) -> None:
    data = run(FIRST, typed("One")).encode() + b"\n\xff\xfe\0\n\n" + run(SECOND, typed("Two")).encode()
    machine.write(Path("shop", FILE), data)
    read(machine)
    assert prompts(machine) == [["One"], ["Two"]]
    assert b"".join(b"".join(machine.store.stream_log(log.id)) for log in machine.store.logs()) == data


def test_a_line_that_begins_as_a_prompt_again_and_again_is_looked_at_once() -> None:
    data = run(FIRST, "#### " * 40_000).encode()
    before = time.process_time()
    assert list(runs.sessions_in(data)) == []
    # Once for each of its marks it takes half a minute.
    assert time.process_time() - before < 2


def test_runs_are_found_one_by_one() -> None:
    data = "".join(run(FIRST) for _ in range(20_000)).encode()
    tracemalloc.start()
    try:
        assert list(runs.sessions_in(data)) == []
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_history_that_begins_with_a_prompt_is_a_session() -> None:
    (found,) = runs.sessions_in(b"#### One  \n")
    assert (found.begin, found.end, found.started_ms) == (0, 11, 0)


def test_a_history_written_on_windows_is_read(machine: Machine) -> None:
    history(machine, TWO_RUNS.replace("\n", "\r\n"))
    read(machine)
    assert prompts(machine) == [["One"], ["Two\nlines"]]


@pytest.mark.parametrize("torn", range(1, 27))
def test_a_run_whose_first_line_is_torn_is_not_in_the_session_before(torn: int) -> None:
    before = run(FIRST, typed("One"), answered("It is."))
    (found,) = runs.sessions_in((before + run(SECOND)[: torn + 1]).encode())
    assert found.end == len(before) + 1
