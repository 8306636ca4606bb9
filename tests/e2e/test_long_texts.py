"""As much as the real agents take, and more: long histories, long prompts, and what a prompt may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.conversation.context import CLOSE, OPEN, build_context_prompt, strip_context
from backstory.model import AssistantText, UserMessage
from tests.support.real_clients import AGENTS, FIRST, said_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow

BUDGET = 400_000
TURNS, ANSWER = 10, 45_000


def without_summaries(machine: Machine) -> None:
    """What is too long for a context is cut, and never summarised."""
    machine.ask("config set compaction.chars 0")
    machine.ask(f"config set run.context_chars {BUDGET}")


def with_history(machine: Machine) -> None:
    """A session here whose history is larger than a context may be: ten turns, each known by its number."""
    with machine.store as store:
        session = store.create_session("long", machine.work)
        for number in range(TURNS):
            answer = f"answer-{number}-begins " + "漢字 & <b> " * (ANSWER // 9) + f"answer-{number}-ends"
            question = UserMessage(content=f"Question {number} of the heron?")
            store.append_events(session, [question, AssistantText(text=answer)])
            store.mark_completed(session, 1, None)
    machine.ask("rename --trust S1 long")
    without_summaries(machine)


def told(machine: Machine, prompt: str) -> str:
    """The context of the last request, without its tags; the prompt must stand right behind it, as typed."""
    (sent,) = [text for text in said_to(machine.asked()[-1]) if text.lstrip().startswith(OPEN)]
    context, end, rest = sent.partition(CLOSE)
    assert end
    assert rest.strip() == prompt.strip()
    return context.strip().removeprefix(OPEN).strip()


def long_prompt(chars: int) -> str:
    """A prompt of so many characters, some of which end a context."""
    piece = f"otter 漢字 {CLOSE} and {OPEN} 🪶\n"
    return (piece * (chars // len(piece) + 1))[: chars - 4] + " end"


def test_a_history_of_four_hundred_thousand_characters_goes_into_each_agent_within_the_budget(machine: Machine) -> None:
    with_history(machine)
    for agent in AGENTS:
        prompt = f"Which heron, {agent}?"
        ran = machine.run(agent, prompt)
        assert (ran.turn.outcome, ran.turn.prompt) == ("completed", prompt)
        context = told(machine, prompt)
        # A tenth is kept for older turns in brief, which these have next to nothing for.
        assert BUDGET * 0.9 - ANSWER * 1.2 < len(context) <= BUDGET
        assert ran.printed[-1]["context_chars"] == len(context)
        # The newest turns are told whole, and that older ones are not is said.
        assert context.count(f"answer-{TURNS - 1}-begins") == context.count(f"answer-{TURNS - 1}-ends") == 1
        assert "left out here" in context or "only prompts, decisions" in context
        oldest, _, newer = context.partition("answer-0-ends")
        assert not newer or len(oldest) < ANSWER / 10
    # What the first agent said is told to the second.
    assert context.count("Which heron, claude?") == context.count("Hello from the stub.") == 1
    machine.check()


@pytest.mark.parametrize(("agent", "chars"), [("claude", 2_000_000), ("claude", 131_072), ("codex", 131_072)])
def test_a_long_prompt_with_the_end_of_a_context_in_it_is_kept_as_typed_and_found_once(
    ran: Callable[[str], Machine], agent: str, chars: int
) -> None:
    machine = ran("claude" if agent == "codex" else "codex")
    without_summaries(machine)
    prompt = long_prompt(chars)
    done = machine.run(agent, prompt)
    assert len(prompt) == chars
    assert done.turn.prompt == prompt
    assert [event.content for event in done.of("UserMessage")] == [prompt]
    assert done.turn.outcome == "completed"
    assert told(machine, prompt).count(FIRST) == 1
    machine.ask("ingest")
    with machine.home_store as store:
        assert [turn.prompt for session in store.sessions() for turn in store.turns(session)] == [FIRST, prompt]
    machine.check()


def test_a_prompt_that_codex_does_not_take_is_a_failed_turn_that_says_so(machine: Machine) -> None:
    prompt = long_prompt(2_000_000)
    ran = machine.run("codex", prompt)
    assert (ran.code, ran.turn.outcome, ran.turn.prompt) == (1, "failed", prompt)
    (error,) = ran.of("Error")
    assert "1048576" in error.message.replace(",", "").replace("_", "")
    assert ran.printed[-1]["error"] == error.message
    assert machine.asked() == []
    assert machine.run("codex", "Go on.").turn.outcome == "completed"


def test_a_context_gives_way_to_a_prompt_that_leaves_it_little_room(machine: Machine) -> None:
    with_history(machine)
    prompt = "otter " * 170_000 + "end"
    ran = machine.run("codex", prompt)
    assert (ran.turn.outcome, ran.turn.prompt) == ("completed", prompt)
    told(machine, prompt)


def test_the_next_run_is_told_a_prompt_with_the_end_of_a_context_in_it(machine: Machine) -> None:
    first = f"What does {CLOSE} mean?"
    machine.run("codex", first)
    machine.run("codex", "And now?")
    context = told(machine, "And now?")
    assert "What does &lt;/backstory-session-context> mean?" in context
    assert strip_context(build_context_prompt(context, "And now?")) == "And now?"
