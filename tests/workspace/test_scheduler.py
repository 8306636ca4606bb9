"""Runs, messages and queued prompts through a ``Workspace``, without a terminal."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from backstory.ask.costs import of_turn
from backstory.config import Config
from backstory.derive.pricing import Prices, PriceTable
from backstory.errors import EmptyPrompt, NotQueued, NotRunning, StoreBusy
from backstory.model import AssistantText, Permissions, ToolCall, Turn, UserMessage
from backstory.store.tables import turns
from backstory.store.tables.queue import QueuedKind, QueuedPrompt
from backstory.workspace.runs.run_events import Ended, Notice, Queued, SessionAwaited, Shown, Started, Steered, as_json
from backstory.workspace.runs.scheduler import Destination, IfIdle, Options
from backstory.workspace.workspace import Workspace
from tests.support.bench import Bench
from tests.support.running import GOOD, is_alive, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from backstory.workspace.runs.run_events import RunEvent
    from backstory.workspace.runs.scheduler import ScheduledTurn

pytestmark = pytest.mark.slow

CLAUDE = Options(agent="claude")


class Here:
    """Workspaces of one project on one machine: each is another person at work, with a scripted agent."""

    def __init__(self, root: Path) -> None:
        self.bench = Bench(root)
        self._open: list[Workspace] = []
        self.gate, self.begun = root / "gate", root / "begun"

    def workspace(self, *script: dict[str, Any]) -> Workspace:
        home, environ = self.bench.home, self.bench.environ(list(script))
        found = Workspace(lambda: Config(home / "config.toml"), home, self.bench.project, environ=environ)
        self._open.append(found)
        return found

    def held(self, *then: dict[str, Any]) -> Workspace:
        """One whose agent waits, once it has begun, until the gate is opened."""
        return self.workspace({"say": "one"}, {"touch": str(self.begun)}, {"wait_for": str(self.gate)}, *then, GOOD)

    def close(self) -> None:
        self.gate.touch()
        for each in self._open:
            each.close()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    found = Here(tmp_path)
    yield found
    found.close()


def kinds(events: Iterable[RunEvent]) -> list[str]:
    """What happened, without the idle moments of a run."""
    return [type(each).__name__ for each in events if not isinstance(each, Shown) or each.events]


def answers(events: Iterable[RunEvent]) -> list[str]:
    shown = [event for each in events if isinstance(each, Shown) for event in each.events]
    return [event.text for event in shown if isinstance(event, AssistantText)]


def outcomes(workspace: Workspace) -> list[tuple[str, str | None]]:
    return [(turn.prompt, turn.outcome) for turn in workspace.project_store.turns(workspace.default().session)]


def prompts(workspace: Workspace) -> list[str]:
    return [each.prompt.content for each in workspace.scheduler.queue.listed()]


class InThread:
    """What is done in a thread that is not the main one, and what it raised."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self.raised: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as raised:
            self.raised = raised

    def join(self) -> None:
        self._thread.join(120)
        assert not self._thread.is_alive()
        if self.raised is not None:
            raise self.raised


def test_a_prompt_starts_shows_and_ends(here: Here) -> None:
    events = list(here.workspace({"say": "hello"}, GOOD).scheduler.submit(Destination(), "go", CLAUDE))
    assert [each for each in kinds(events) if each != "Shown"] == ["Started", "Ended"]
    assert answers(events) == ["hello"]
    ended = events[-1]
    assert isinstance(ended, Ended)
    assert (ended.outcome, ended.number, ended.is_asked) == ("completed", 1, True)


def test_nothing_happens_before_the_first_event_is_asked_for(here: Here) -> None:
    workspace = here.workspace(GOOD)
    workspace.scheduler.submit(Destination(), "go", CLAUDE).close()
    assert not workspace.project_store.exists


def test_a_prompt_that_cannot_be_run_makes_no_session(here: Here) -> None:
    workspace = here.workspace(GOOD)
    with pytest.raises(EmptyPrompt):
        list(workspace.scheduler.submit(Destination(), " ", CLAUDE))
    assert not workspace.project_store.exists


def test_leaving_stops_nothing_and_the_next_command_stores_the_run(here: Here) -> None:
    workspace = here.held({"say": "two"})
    with closing(workspace.scheduler.submit(Destination(), "go", CLAUDE)) as events:
        next(each for each in events if isinstance(each, Shown) and answers([each]) == ["one"])
    (run,) = workspace.scheduler.runs()
    assert run.state == "running"
    assert run.pid is not None
    assert outcomes(workspace) == []
    here.gate.touch()
    until(lambda: [each.state for each in workspace.scheduler.runs()] == ["waiting"])
    assert not is_alive(run.pid)
    assert workspace.scheduler.recover() == []
    assert outcomes(workspace) == [("go", "completed")]
    said = [each.event for each in workspace.project_store.events(workspace.default().session)]
    assert [each.text for each in said if isinstance(each, AssistantText)] == ["one", "two"]


def test_an_agent_that_was_left_does_not_stay_behind_as_a_process(here: Here) -> None:
    workspace = here.held()
    with closing(workspace.scheduler.submit(Destination(), "go", CLAUDE)) as events:
        next(each for each in events if isinstance(each, Shown) and each.events)
        (run,) = workspace.scheduler.runs()
    here.gate.touch()
    (reaper,) = (each for each in threading.enumerate() if each.name == "reaper")
    reaper.join(120)
    assert run.pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(run.pid, 0)


def test_a_thread_that_is_not_the_main_one_runs_and_another_cancels(here: Here) -> None:
    seen: list[RunEvent] = []

    def run() -> None:
        workspace = here.held()
        seen.extend(workspace.scheduler.submit(Destination(), "go", CLAUDE))
        workspace.close()

    thread = InThread(run)
    until(here.begun.exists)
    workspace = here.workspace()
    cancelled = workspace.scheduler.cancel(workspace.default(running_first=True))
    thread.join()
    assert (cancelled.was_running, cancelled.left) == (True, 0)
    assert isinstance(seen[-1], Ended)
    assert seen[-1].outcome == "cancelled"
    assert outcomes(workspace) == [("go", "cancelled")]


def test_cancel_drops_queued_prompts_only_if_asked(here: Here) -> None:
    workspace = here.workspace(GOOD)
    list(workspace.scheduler.submit(Destination(), "go", CLAUDE))
    list(workspace.scheduler.followup(workspace.default(), "later"))
    assert prompts(workspace) == ["later"]
    assert workspace.scheduler.cancel(workspace.default(), clear=True).dropped == 1
    assert prompts(workspace) == []


def running(here: Here, *then: dict[str, Any]) -> InThread:
    """A run in a thread, whose agent waits at the gate."""

    def run() -> None:
        workspace = here.held(*then)
        list(workspace.scheduler.submit(Destination(), "first", CLAUDE))
        workspace.close()

    thread = InThread(run)
    until(here.begun.exists)
    return thread


def test_a_prompt_for_a_session_that_runs_is_queued_and_run_behind_it(here: Here) -> None:
    thread = running(here)
    workspace = here.workspace(GOOD)
    (queued,) = workspace.scheduler.submit(Destination(), "second", CLAUDE)
    assert isinstance(queued, Queued)
    assert (queued.position, queued.is_running, queued.holder, queued.is_message) == (1, True, "", False)
    here.gate.touch()
    thread.join()
    assert outcomes(workspace) == [("first", "completed"), ("second", "completed")]


def test_an_interrupt_takes_back_a_prompt_that_waits_and_leaving_does_not(here: Here) -> None:
    thread = running(here)
    workspace = here.workspace(GOOD)
    events = workspace.scheduler.submit(Destination(), "second", CLAUDE, "wait")
    assert isinstance(next(events), SessionAwaited)
    assert prompts(workspace) == ["second"]
    with pytest.raises(KeyboardInterrupt):
        events.throw(KeyboardInterrupt())
    assert prompts(workspace) == []
    with closing(workspace.scheduler.submit(Destination(), "third", CLAUDE, "wait")) as events:
        next(events)
    assert prompts(workspace) == ["third"]
    here.gate.touch()
    thread.join()


def test_waiting_ends_when_the_session_is_free(here: Here) -> None:
    thread = running(here)
    workspace = here.workspace()
    waiting = workspace.scheduler.wait(workspace.default())
    assert isinstance(next(waiting), SessionAwaited)
    here.gate.touch()
    assert all(isinstance(each, SessionAwaited) for each in waiting)
    thread.join()
    assert list(workspace.scheduler.wait(workspace.default())) == []


def test_hooks_are_called_around_each_turn_with_what_came_of_it(here: Here) -> None:
    workspace = here.workspace({"say": "x"}, GOOD)
    list(workspace.scheduler.submit(Destination(), "go", CLAUDE))
    list(workspace.scheduler.followup(workspace.default(), "queued"))
    called: list[tuple[str, str, int, str | None]] = []

    def note(when: str) -> Callable[[ScheduledTurn], None]:
        def hook(turn: ScheduledTurn) -> None:
            outcome = None if turn.finished is None else turn.finished.turn.outcome
            called.append((when, turn.request.prompt, turn.store.ask(turns.count, turn.session.id), outcome))

        return hook

    workspace.scheduler.before_turn.append(note("before"))
    workspace.scheduler.after_turn.append(note("after"))
    list(workspace.scheduler.queue.run(workspace.default()))
    list(workspace.scheduler.submit(Destination(is_new=True), "new", CLAUDE))
    assert called == [
        ("before", "queued", 1, None), ("after", "queued", 2, "completed"),
        ("before", "new", 0, None), ("after", "new", 1, "completed"),
    ]  # fmt: skip


def test_what_a_hook_before_a_turn_raises_keeps_its_agent_from_being_run(here: Here) -> None:
    workspace = here.workspace({"say": "x"}, GOOD)

    def refuse(turn: ScheduledTurn) -> None:
        raise StoreBusy(turn.store.path)

    workspace.scheduler.before_turn.append(refuse)
    with pytest.raises(StoreBusy):
        list(workspace.scheduler.submit(Destination(), "go", CLAUDE))
    assert not here.bench.received.exists()
    workspace.scheduler.before_turn.clear()
    list(workspace.scheduler.submit(Destination(), "go", CLAUDE))
    assert outcomes(workspace) == [("go", "completed")]


def test_a_message_for_a_session_that_is_not_running_starts_only_what_was_agreed_to(here: Here) -> None:
    workspace = here.workspace({"say": "x"}, GOOD)
    list(workspace.scheduler.submit(Destination(), "go", CLAUDE))
    with pytest.raises(NotRunning):
        list(workspace.scheduler.steer(workspace.default(), "hi", IfIdle.ASK))
    assert prompts(workspace) == []
    asked: list[str] = []

    def agrees(label: str) -> bool:
        asked.append(label)
        return True

    events = list(workspace.scheduler.steer(workspace.default(), "hi", IfIdle.ASK, agrees))
    assert asked == ["S1"]
    assert isinstance(events[0], Notice)
    assert outcomes(workspace)[-1] == ("hi", "completed")


def test_a_queued_prompt_is_edited_until_it_is_gone(here: Here) -> None:
    workspace = here.workspace(GOOD)
    list(workspace.scheduler.submit(Destination(), "go", CLAUDE))
    (queued,) = workspace.scheduler.followup(workspace.default(), "latr")
    assert isinstance(queued, Queued)
    queue = workspace.scheduler.queue
    assert queue.edit(queued.prompt.short_id, "later").prompt.content == "later"
    with pytest.raises(EmptyPrompt):
        queue.edit(queued.prompt.short_id, "")
    assert prompts(workspace) == ["later"]
    assert [each.prompt.content for each in queue.drop([queued.prompt.short_id])] == ["later"]
    with pytest.raises(NotQueued):
        queue.edit(queued.prompt.short_id, "too late")


def test_events_are_the_documented_lines_of_json(here: Here) -> None:
    workspace = here.workspace(GOOD)
    session = workspace.project_store.create_session()
    prompt = QueuedPrompt(uid="T", session_uid="S", kind=QueuedKind.STEER, content="hi")
    turn = Turn(uid="T", agent="claude", first_seq=1, last_seq=2, prompt="hi", outcome="completed")
    call = ToolCall(tool_name="Edit", input={"a": 1})
    ended = Ended(
        session=session, turn=turn, number=1, tools=2, error=None, cost=of_turn(turn, PriceTable(Prices())),
        is_asked=True, refused=(call,), permissions=Permissions.ASK, context_chars=3, context_max=4,
    )  # fmt: skip
    assert as_json(Queued(session="S1", prompt=prompt, position=2, is_running=True)) == [
        {"kind": "Queued", "uid": "S", "label": "S1", "turn_uid": "T", "what": "steer", "position": 2}
    ]
    assert as_json(Started(session=session, number=1, agent="claude")) == []
    assert as_json(Started(session=session, number=1, agent="claude", prompt=prompt)) == [
        {"kind": "UserMessage", "content": "hi", "turn_uid": "T"}
    ]
    assert as_json(Steered(message=UserMessage(content="hi")))[0]["content"] == "hi"
    assert [as_json(each) for each in (SessionAwaited(session="S1"), Notice("x"), Shown([], "a part"))] == [[], [], []]
    (line,) = as_json(ended)
    assert {"kind": "Complete", "label": "S1", "turn_uid": "T", "success": True, "tools": 2}.items() <= line.items()
    assert line["refused"] == [{"tool_name": "Edit", "input": {"a": 1}}]
    assert (line["context_chars"], line["context_max"]) == (3, 4)
