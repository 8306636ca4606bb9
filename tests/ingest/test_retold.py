"""Turns that AZUREAL ran and that the agent's own log has, too: they count once, and the log has them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.ingest.ingest import ingest
from backstory.ingest.reindex import reindex
from backstory.store import Filter
from backstory.store.intake import ingesting
from backstory.store.intake.coverage import IndexRule
from backstory.store.tables.session_filter import ListFilter
from tests.support import azs_files
from tests.support.azs_files import AzsFile, answer, call, complete, prompt
from tests.support.clock import NOW
from tests.support.machines import claude_log, lines

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.ingest.report import IngestReport
    from tests.support.machines import Machine

LONG = "Please mend the parser so that it reads files with more than one document in them"
SAID = "The parser reads every document of a file now, and a test holds that."
BEGAN = "2026-03-15 12:00:00"
CODEX_CALL = "call_21909_1_0"
"""A call in the recorded log."""
CONTEXT = "<azureal-session-context>\n## User\nfirst\n</azureal-session-context>\n\n"
Row = dict[str, Any]


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    folder = tmp_path / "worktree"
    folder.mkdir()
    return folder


def retold(worktree: Path, *events: Row, created: str = BEGAN) -> AzsFile:
    file = AzsFile(worktree / ".azureal" / "sessions.azs")
    file.events(file.session(created=created), *events)
    return file


def logged(machine: Machine, worktree: Path, *said: str | Row, at: str = "12:00:05", name: str = "log") -> None:
    """A log of Claude's: prompts and answers in turn; a row is a call."""
    records = []
    for n, each in enumerate(said):
        when = datetime.fromisoformat(f"2026-03-15T{at}Z").astimezone(UTC).timestamp() + n
        before = f"{name}-{n - 1}" if n else None
        head: Row = {
            "sessionId": name, "cwd": str(worktree), "uuid": f"{name}-{n}", "parentUuid": before,
            "timestamp": datetime.fromtimestamp(when, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }  # fmt: skip
        if n % 2 == 0:
            records.append(head | {"type": "user", "message": {"role": "user", "content": each}})
            continue
        block = {"type": "text", "text": each} if isinstance(each, str) else {"type": "tool_use", **each}
        usage = {"input_tokens": 10, "output_tokens": 5}
        message = {
            "id": f"m{name}{n}",
            "role": "assistant",
            "model": "claude-opus-4",
            "content": [block],
            "usage": usage,
        }
        records.append(head | {"type": "assistant", "message": message})
    machine.write(claude_log(name), lines(*(json.dumps(each).encode() for each in records)))


def read(machine: Machine, worktree: Path, *names: str) -> IngestReport:
    chosen = [agents.load(name) for name in names or ("azureal", "claude")]
    report = ingest(machine.store, chosen, environ={"PWD": str(worktree)}, home=machine.home, now=NOW)
    assert report.errors == []
    return report


def listed(machine: Machine) -> list[tuple[str, int]]:
    """The sessions that a list has, with whose they are and how many turns they hold."""
    return sorted((" ".join(each.agents), each.turns) for each in machine.store.list_sessions(ListFilter(), limit=100))


def counted(machine: Machine) -> list[str]:
    """The agents of all turns that count."""
    rows = machine.store.execute_read_only("select agent from turns where not is_copy order by 1", 100).rows
    return [str(row[0]) for row in rows]


def orders() -> list[Any]:
    return [pytest.param(("azureal", "claude"), id="retold first"), pytest.param(("claude", "azureal"), id="log first")]


@pytest.mark.parametrize("order", orders())
def test_a_turn_that_both_have_counts_once_and_the_log_has_it(
    machine: Machine, worktree: Path, order: tuple[str, str]
) -> None:
    retold(worktree, prompt("Mend it"), answer("Yes."), complete(), prompt("Paint it"), answer("Done."), complete())
    logged(machine, worktree, "Mend it", "Yes.", "Paint it", "Done.")
    for name in order:
        read(machine, worktree, name)
    assert counted(machine) == ["claude", "claude"]
    assert listed(machine) == [("claude", 2)]


@pytest.mark.parametrize("order", orders())
def test_sums_have_the_tokens_of_the_log_and_not_the_cost_that_was_retold(
    machine: Machine, worktree: Path, order: tuple[str, str]
) -> None:
    retold(worktree, azs_files.init(), prompt(LONG), answer(SAID), complete(cost_usd=5.0))
    logged(machine, worktree, LONG, SAID)
    for name in order:
        read(machine, worktree, name)
    rows = machine.store.execute_read_only("select agent, input_tokens, cost_kind from usage", 9).rows
    assert [tuple(row) for row in rows] == [("claude", 10, "lower bound")]


def test_prompts_are_compared_without_the_context_before_them(machine: Machine, worktree: Path) -> None:
    retold(worktree, prompt("Mend it"), answer("Yes."), complete(), prompt("Paint it"), answer(SAID), complete())
    logged(machine, worktree, f"{CONTEXT}Paint it", SAID, at="13:00:00")
    read(machine, worktree)
    assert counted(machine) == ["azureal", "claude"]


@pytest.mark.parametrize("repositories", [(), ("somewhere/else",)], ids=["covered", "not covered"])
def test_an_answer_is_proof_also_where_the_index_does_not_cover_it(
    machine: Machine, worktree: Path, repositories: tuple[str, ...]
) -> None:
    machine.store.index_rule = lambda: IndexRule(repositories=repositories)
    retold(worktree, prompt("Mend it"), answer(SAID), complete(), created="2026-03-15 09:00:00")
    logged(machine, worktree, "Mend it", SAID)
    read(machine, worktree)
    assert counted(machine) == ["claude"]


def test_each_prompt_may_have_a_log_of_its_own(machine: Machine, worktree: Path) -> None:
    other = f"{SAID} So does the writer."
    retold(worktree, prompt(LONG), answer(SAID), complete(), prompt("And the writer?"), answer(other), complete())
    logged(machine, worktree, LONG, SAID, name="one")
    logged(machine, worktree, f"{CONTEXT}And the writer?", other, at="15:30:00", name="two")
    read(machine, worktree)
    assert counted(machine) == ["claude", "claude"]
    assert listed(machine) == [("azureal", 2), ("claude", 1), ("claude", 1)], "its thread is in no log as a whole"


def test_a_call_of_the_same_id_is_proof(machine: Machine, worktree: Path) -> None:
    retold(worktree, prompt("go on"), call("Bash", "toolu_77", command="make"), complete())
    logged(machine, worktree, "go on", {"id": "toolu_77", "name": "Bash", "input": {"command": "make"}}, at="17:00:00")
    read(machine, worktree)
    assert counted(machine) == ["claude"]


def test_a_log_of_codex_is_known_by_a_call_too(machine: Machine, worktree: Path, tmp_path: Path) -> None:
    machine.put("codex/tools")
    read(machine, worktree, "codex")
    folder = "/home/dev/runs/codex-tools/work"
    file = AzsFile(tmp_path / "copy.azs")
    file.events(
        file.session(created="2026-11-21 21:15:44"), azs_files.init("gpt-5.5", folder), prompt("Do the work."),
        call("Bash", CODEX_CALL, command="ls"), complete(0, 0.0),
    )  # fmt: skip
    chosen = [agents.load("azureal")]
    ingest(machine.store, chosen, environ={}, home=machine.home, now=NOW, places=[file.path])
    assert counted(machine) == ["codex"]


@pytest.mark.parametrize(
    ("said", "retells"),
    [
        pytest.param(["go on", "Yes."], [prompt("go on"), answer("Yes.")], id="one short prompt"),
        pytest.param(["go on", "Yes."], [prompt("go on"), call("Bash", "t1", command="make")], id="other calls"),
        pytest.param(["b", "Yes.", "a", "No."], [prompt("a"), answer("Yes."), prompt("b"), answer("No.")], id="order"),
        pytest.param([LONG + "!", SAID], [prompt(LONG), answer(SAID)], id="another prompt"),
    ],
)
def test_what_proves_nothing_counts_twice(
    machine: Machine, worktree: Path, said: list[str], retells: list[Row]
) -> None:
    retold(worktree, *retells)
    logged(machine, worktree, *said)
    read(machine, worktree)
    assert {"azureal", "claude"} <= set(counted(machine))


def test_the_same_prompts_in_another_folder_are_others(machine: Machine, worktree: Path, tmp_path: Path) -> None:
    retold(worktree, prompt(LONG), answer(SAID))
    logged(machine, tmp_path / "elsewhere", LONG, SAID)
    read(machine, worktree)
    assert counted(machine) == ["azureal", "claude"]


@pytest.mark.parametrize("created", ["2026-03-15 12:30:00", "2026-03-15 09:00:00"], ids=["after it", "long before it"])
def test_the_same_prompts_at_another_time_are_others(machine: Machine, worktree: Path, created: str) -> None:
    retold(worktree, prompt(LONG), answer("Yes."), prompt("Paint it"), answer("Done."), created=created)
    logged(machine, worktree, LONG, "Yes.", "Paint it", "Done.")
    read(machine, worktree)
    assert counted(machine) == ["azureal", "azureal", "claude", "claude"]


def test_one_log_is_one_turn_s_only(machine: Machine, worktree: Path) -> None:
    retold(worktree, prompt(LONG), answer("Yes."), prompt(LONG), answer("Again."))
    logged(machine, worktree, LONG, "Yes.")
    read(machine, worktree)
    assert counted(machine) == ["azureal", "claude"]


def test_a_session_that_goes_on_keeps_what_was_found_and_is_listed_again(machine: Machine, worktree: Path) -> None:
    file = retold(worktree, prompt(LONG), answer(SAID), complete())
    logged(machine, worktree, LONG, SAID)
    read(machine, worktree)
    file.events(1, prompt("And now?"), answer("All is well."), complete())
    read(machine, worktree)
    assert counted(machine) == ["azureal", "claude"]
    assert listed(machine) == [("azureal", 2), ("claude", 1)]
    (session,) = [each for each in machine.store.sessions() if each.relation == "retold"]
    assert [turn.prompt for turn in machine.store.turns(session)] == [LONG, "And now?"]


@pytest.mark.parametrize("order", orders())
def test_what_goes_on_in_both_counts_once(machine: Machine, worktree: Path, order: tuple[str, str]) -> None:
    file = retold(worktree, prompt(LONG), answer(SAID), complete())
    logged(machine, worktree, LONG, SAID)
    read(machine, worktree)
    grow = {
        "azureal": lambda: file.events(1, prompt("Go on"), answer("Yes.")),
        "claude": lambda: logged(machine, worktree, LONG, SAID, "Go on", "Yes."),
    }
    for name in order:
        grow[name]()
        read(machine, worktree)
    assert counted(machine) == ["claude", "claude"]
    assert listed(machine) == [("claude", 2)]


def test_where_nothing_came_nothing_is_looked_for_or_written(machine: Machine, worktree: Path) -> None:
    retold(worktree, prompt(LONG), answer(SAID), complete())
    read(machine, worktree)
    before = machine.store_path.read_bytes()
    assert ingesting.link_retold(machine.store) == 0
    assert read(machine, worktree).total("logs_read") == 0
    assert machine.store_path.read_bytes() == before


def test_a_turn_that_has_its_log_is_given_no_other(machine: Machine, worktree: Path) -> None:
    other = f"{SAID} So does the writer."
    retold(worktree, prompt(LONG), answer("Yes."), complete(), prompt("And the writer?"), answer(other), complete())
    logged(machine, worktree, "And the writer?", other, name="second")
    read(machine, worktree)
    logged(machine, worktree, LONG, "Yes.", "And the writer?", "No.", name="first")
    read(machine, worktree)
    rows = machine.store.execute_read_only("select count(distinct uid), count(*) from turns", 9).rows
    assert [tuple(row) for row in rows] == [(3, 5)]


def test_reindexing_changes_nothing_of_it(machine: Machine, worktree: Path) -> None:
    retold(worktree, prompt(LONG), answer(SAID), complete())
    logged(machine, worktree, LONG, SAID)
    read(machine, worktree)
    before = machine.content()
    reindex(machine.store, now=NOW, events_too=True)
    assert (machine.content(), counted(machine)) == (before, ["claude"])


def test_neither_is_called_a_fork_of_the_other(machine: Machine, worktree: Path) -> None:
    retold(worktree, prompt(LONG), answer(SAID), complete())
    logged(machine, worktree, LONG, SAID)
    read(machine, worktree)
    logged(machine, worktree, LONG, SAID, "And now?", "Yes.")
    read(machine, worktree)
    rows = machine.store.execute_read_only("select relation, parent from sessions order by 1", 9).rows
    assert [tuple(row) for row in rows] == [(None, None), ("retold", None)]


def test_a_search_finds_it_in_the_log(machine: Machine, worktree: Path) -> None:
    retold(worktree, prompt(LONG), answer(SAID), complete())
    logged(machine, worktree, LONG, SAID)
    read(machine, worktree)
    hits = machine.store.search("document", Filter(scopes=("prompt", "answer")), hits_per_session=None).hits
    (log,) = machine.store.sessions()
    assert {hit.session_id for hit in hits if not hit.copied} == {log.id}
    assert len(hits) == 2
