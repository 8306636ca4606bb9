"""``show --follow``: what an agent writes is shown as it is written, by a real process beside it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from backstory.store import open_store
from tests.support.bench import Bench
from tests.support.going import DEADLINE_S, GOOD, Going, delta, until
from tests.support.machines import claude_line, claude_log, conversation, lines
from tests.support.read_only import read_only, without_power

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.shell import Shell

pytestmark = pytest.mark.slow
CONFLICTING = [("--turn", "1"), ("@1",)]
SLEEP = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "sleep 300"}}
DECLINED = {
    "type": "tool_result", "tool_use_id": "t1", "is_error": True,
    "content": "The user doesn't want to proceed with this tool use. The tool use was rejected",
}  # fmt: skip


class Shown:
    """``show --follow`` in a process of its own."""

    def __init__(
        self, shell: Shell, words: tuple[str, ...], environ: dict[str, str], limit: Callable[[], None] | None = None
    ) -> None:
        self.out: list[str] = []
        self.err: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "backstory", "show", "--follow", *words], cwd=shell.cwd,
            env=shell.environ | environ, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, preexec_fn=limit,
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        pipes = ((self.process.stdout, self.out), (self.process.stderr, self.err))
        self._listening = [threading.Thread(target=kept.extend, args=(pipe,)) for pipe, kept in pipes]
        for each in self._listening:
            each.start()
        until(lambda: self.has_said("Following") or self.process.poll() is not None)
        assert self.process.poll() is None, self.err

    def has(self, words: str) -> bool:
        return any(words in line for line in list(self.out))

    def has_said(self, words: str) -> bool:
        return any(words in line for line in list(self.err))

    def until(self, words: str) -> None:
        until(lambda: self.has(words) or self.has_said(words) or self.process.poll() is not None)
        assert self.process.poll() is None, (self.out, self.err)

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        code = self.process.wait(DEADLINE_S)
        for each in self._listening:
            each.join(DEADLINE_S)
        return code

    def json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out]


@pytest.fixture
def log(bare: Shell) -> Path:
    """A log of Claude's that was read; its agent goes on writing."""
    path = bare.home / claude_log("one")
    path.parent.mkdir(parents=True)
    path.write_bytes(lines(*conversation(2)))
    assert bare("ingest").code == 0
    return path


@pytest.fixture
def follow(bare: Shell, log: Path) -> Iterator[Callable[..., Shown]]:
    begun: list[Shown] = []

    def begin(*words: str, **environ: str) -> Shown:
        begun.append(Shown(bare, (*words, uid(bare)), environ))
        return begun[-1]

    yield begin
    for each in begun:
        if each.process.returncode is None:
            assert each.end() == 0, each.err


def uid(shell: Shell) -> str:
    found: str = shell("list", "--all", "--json").json()["sessions"][0]["uid"]
    return found


def append(path: Path, *records: bytes) -> None:
    with path.open("ab") as file:
        file.write(lines(*records))


def files(root: Path) -> dict[str, tuple[int, int]]:
    found = {str(path): path.stat() for path in root.rglob("*")}
    return {name: (each.st_mtime_ns, each.st_size) for name, each in found.items()}


def test_what_comes_is_shown_below_what_was_stored_and_is_stored(
    bare: Shell, log: Path, follow: Callable[..., Shown]
) -> None:
    shown = follow()
    append(log, claude_line("user", "u8", "And here?"), claude_line("assistant", "a8", "In the reeds."))
    shown.until("In the reeds.")
    until(lambda: "In the reeds." in bare("show", uid(bare)).out)
    assert shown.end() == 0
    *told, end = shown.out
    whole = bare("show", uid(bare)).out.replace(" · 2 turns", " · 1 turn")
    # Of a turn that is over the end needs no name.
    assert "".join(told) == whole.removesuffix("       ✓\n")
    assert end.strip() == "✓ turn 2 completed"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_well_and_without_a_word(follow: Callable[..., Shown], number: signal.Signals) -> None:
    shown = follow()
    assert shown.end(number) == 0
    assert len(shown.err) == 1, shown.err


def test_nothing_is_stored_where_reading_may_add_nothing(bare: Shell, log: Path, follow: Callable[..., Shown]) -> None:
    before = files(bare.store.parent)
    shown = follow(BACKSTORY_INGEST_AUTO="0")
    append(log, claude_line("user", "u8", "Where does the heron nest?"))
    shown.until("❯ Where does the heron nest?")
    append(log, claude_line("assistant", "a8", "In the reeds."))
    shown.until("In the reeds.")
    assert shown.end() == 0
    assert shown.has_said("Nothing is stored.")
    assert files(bare.store.parent) == before


def test_a_store_that_cannot_be_written_is_left_as_it_is(bare: Shell, log: Path) -> None:
    bare.store.chmod(0o444)
    with read_only(bare.store.parent):
        before = files(bare.store.parent)
        shown = Shown(bare, (uid(bare),), {}, limit=without_power)
        append(log, claude_line("user", "u8", "Where does the heron nest?"))
        shown.until("❯ Where does the heron nest?")
        append(log, claude_line("assistant", "a8", "In the reeds."))
        shown.until("In the reeds.")
        assert shown.end() == 0
        assert files(bare.store.parent) == before
    assert len(shown.err) == 1, shown.err


def test_a_store_that_was_named_is_followed_and_left_as_it_is(bare: Shell, log: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.bks"
    assert bare("backup", str(copy)).code == 0
    shown = Shown(bare, ("--store", str(copy), uid(bare)), {})
    append(log, claude_line("user", "u8", "Where does the heron nest?"))
    shown.until("Where does the heron nest?")
    assert shown.end() == 0
    for path in (copy, bare.store):
        with open_store(path, shared=True) as store:
            assert store.search("heron").hits == []


def test_a_call_is_shown_before_its_result_comes(log: Path, follow: Callable[..., Shown]) -> None:
    shown = follow()
    calls = [{"type": "tool_use", "id": each, "name": "Bash", "input": {"command": f"ls {each}"}} for each in "ab"]
    append(log, claude_line("user", "u8", "go"), *(record("assistant", each) for each in calls))
    shown.until("● Bash ls b")
    results = [{"type": "tool_result", "tool_use_id": each, "content": f"out {each}"} for each in "ab"]
    append(log, *(record("user", each) for each in results), claude_line("assistant", "a9", "done"))
    shown.until("done")
    told = [re.sub(r"^@\d+", "", line).strip() for line in shown.out]
    assert told[told.index("● Bash ls a") :][:6] == [
        "● Bash ls a", "● Bash ls b", "↳ Bash ls a  ok", "out a", "↳ Bash ls b  ok", "out b",
    ]  # fmt: skip


def test_a_call_that_a_stop_cut_off_is_interrupted(log: Path, follow: Callable[..., Shown]) -> None:
    shown = follow()
    append(log, claude_line("user", "u8", "go"), record("assistant", SLEEP), record("user", DECLINED))
    shown.until("● Bash sleep 300")
    append(log, record("user", {"type": "text", "text": "[Request interrupted by user for tool use]"}))
    shown.until("interrupted")
    assert not shown.has("refused")


def test_a_call_that_a_person_declined_is_refused(log: Path, follow: Callable[..., Shown]) -> None:
    shown = follow()
    append(log, claude_line("user", "u8", "go"), record("assistant", SLEEP), record("user", DECLINED))
    append(log, claude_line("user", "u9", "use a shorter time"))
    shown.until("refused")


def record(kind: str, part: dict[str, Any]) -> bytes:
    said = json.loads(claude_line(kind, f"x{part.get('id', part.get('tool_use_id'))}{kind}"))
    said["message"] = {"role": kind, "content": [part]}
    return json.dumps(said).encode()


def test_a_log_that_is_replaced_or_deleted_is_a_line_and_the_rest_stays(
    log: Path, follow: Callable[..., Shown]
) -> None:
    shown = follow()
    log.write_bytes(lines(conversation(1)[0], claude_line("user", "u8", "another one")))
    shown.until("was replaced")
    shown.until("another one")
    log.unlink()
    shown.until("was deleted")
    log.write_bytes(lines(conversation(1)[0], *(claude_line("user", f"u{n}", f"number {n}") for n in (8, 9))))
    shown.until("number 9")
    assert shown.end() == 0
    told = "".join(shown.out)
    assert [told.count(word) for word in ("❯ word0 said", "word1 said", "another one")] == [1, 1, 1]


def test_in_json_each_line_is_one_thing_that_came(log: Path, follow: Callable[..., Shown]) -> None:
    shown = follow("--json")
    append(log, claude_line("user", "u8", "Where?"), claude_line("assistant", "a8", "There."))
    until(lambda: len(shown.out) == 7)
    assert shown.end() == 0
    head, *rest = shown.json()
    assert (list(head), len(head["turns"])) == (["session", "turns", "compactions"], 1)
    assert [next(iter(each)) for each in rest] == ["events", "events", "turns", "events", "events", "turns"]
    assert [each["events"][0]["seq"] for each in rest if "events" in each] == [1, 2, 3, 4]
    assert (rest[2]["turns"][0]["prompt"], rest[5]["turns"][0]["outcome"]) == ("Where?", "completed")


def test_nothing_that_a_log_says_acts_on_the_terminal(log: Path, follow: Callable[..., Shown]) -> None:
    shown = follow()
    append(log, claude_line("user", "u8", "a\x1b]0;title\x07b"))
    shown.until("a\\x1b]0;title\\x07b")
    assert not any("\x1b" in line for line in shown.out)


@pytest.mark.parametrize("words", CONFLICTING)
def test_what_comes_has_no_number_to_be_asked_for(bare: Shell, log: Path, words: tuple[str, ...]) -> None:
    done = bare("show", "-f", uid(bare), *words)
    assert (done.code, done.out) == (2, "")
    assert "--follow" in done.err


# runs of our own ---------------------------------------------------------------------------------------------------


class Beside:
    """``show --follow`` beside the runs of a bench."""

    def __init__(self, bench: Bench) -> None:
        self.home, self.cwd, self.environ = bench.root, bench.project, bench.environ([])


def beside(bench: Bench, *words: str) -> Shown:
    return Shown(Beside(bench), words, {})  # type: ignore[arg-type]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_run_is_followed_to_its_end_and_so_is_the_next(bench: Bench) -> None:
    bench.run("first", {"say": "one"}, GOOD)
    with Going(bench, {"say": "Looking."}, {"tool": "ls"}, then=({"say": "Found."}, GOOD)) as going:
        shown = beside(bench, "S1")
        shown.until("● Bash ls")
        assert not shown.has("Found.")
        going.end_agent()
        shown.until("✓ turn 2 completed")
    bench.run("third", {"say": "three"}, GOOD)
    shown.until("✓ turn 3 completed")
    assert shown.end() == 0
    told = "".join(shown.out)
    assert [told.count(word) for word in ("❯ first", "Where now?", "Looking.", "Found.", "third", "three")] == [1] * 6
    assert told.index("── turn 2") < told.index("Where now?") < told.index("Found.") < told.index("── turn 3")


def test_the_lines_of_an_answer_are_shown_while_it_is_written(bench: Bench) -> None:
    bench.run("first", {"say": "one"}, GOOD)
    answer = "The heron nests in reeds.\n\nIt feeds on fish."
    with Going(bench, delta(answer[:20]), delta(answer[20:35]), then=({"say": answer}, GOOD)) as going:
        shown = beside(bench, "S1")
        shown.until("The heron nests in reeds.")
        assert not shown.has("It feeds")
        going.end_agent()
        shown.until("✓ turn 2 completed")
    assert shown.end() == 0
    told = "".join(shown.out)
    assert [told.count(line) for line in ("The heron nests in reeds.", "It feeds on fish.")] == [1, 1]


def test_a_path_in_the_project_is_shown_from_there_on(bench: Bench) -> None:
    bench.run("first", {"say": "one"}, GOOD)
    read = {"file_path": str(bench.project / "calc.py")}
    part = {"type": "tool_use", "id": "t1", "name": "Read", "input": read}
    call = {"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [part]}}
    with Going(bench, {"raw": json.dumps(call) + "\n"}):
        shown = beside(bench, "S1")
        shown.until("● Read")
        assert shown.end() == 0
        assert shown.has("● Read calc.py\n")
        assert "● Read calc.py\n" in bench.backstory("show", "S1").stdout


def test_a_run_that_fails_says_why_once(bench: Bench) -> None:
    bench.run("first", {"say": "one"}, GOOD)
    shown = beside(bench, "S1")
    bench.run("second", {"stderr": "no network"}, {"exit": 3})
    shown.until("turn 2 failed")
    assert shown.end() == 0
    assert sum("no network" in line for line in shown.out) == 1


def test_following_a_run_writes_nothing(bench: Bench) -> None:
    bench.run("first", {"say": "one"}, GOOD)
    # The first reading command notes which folders it looked through.
    bench.backstory("list")
    with Going(bench, {"say": "two"}) as going:
        going.stop_backstory()
        before = files(bench.root)
        shown = beside(bench, "S1")
        shown.until("two")
        assert shown.end() == 0
        assert files(bench.root) == before
