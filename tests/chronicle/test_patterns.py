"""Each pattern where it is seen, and beside it what looks like it and is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from backstory.chronicle.patterns import (
    caches,
    contexts,
    failures,
    missing,
    models,
    permissions,
    prompts,
    rereads,
    waits,
)
from backstory.chronicle.patterns.finding import Tip, TipEvidence
from backstory.chronicle.tips import strongest
from tests.support.habits import CHEAP, DAY, DEAR, HOUR, MINUTE, SECOND, T0, call, habits, reads, turn

if TYPE_CHECKING:
    from types import ModuleType

    from backstory.ask.habits import HabitCall, HabitTurn
    from backstory.workspace.history.habits import Habits


def found(pattern: ModuleType, given: Habits) -> list[Tip]:
    return list(pattern.PATTERN.find(given))


def one(pattern: ModuleType, given: Habits) -> Tip:
    (finding,) = found(pattern, given)
    return finding


# contexts -------------------------------------------------------------------------------------------------------


def large(count: int, *, largest: int = 150_000, session: str = "A", read: int = 1_000_000) -> list[HabitTurn]:
    return [
        turn(session, T0 + number * MINUTE * 2, seq=10 * number + 1, largest_input=largest, cache_read=read)
        for number in range(count)
    ]


def test_turns_that_begin_with_a_large_context_are_found_with_what_the_large_part_cost() -> None:
    finding = one(contexts, habits(large(4)))
    assert (finding.count, finding.sessions) == (3, 1)
    # Three turns read a million tokens at $0.50 each, a fifth of which a summary would have read, too.
    assert finding.usd == pytest.approx(3 * 0.5 * (1 - 30_000 / 150_000))
    assert "backstory compact --now SESSION" in finding.action


@pytest.mark.parametrize(
    "turns",
    [
        large(3),
        large(9, largest=99_999),
        [*large(2), *large(2, session="B")],
    ],
    ids=["too few", "not large", "of two contexts"],
)
def test_a_context_that_is_seldom_or_hardly_large_is_none(turns: list[HabitTurn]) -> None:
    assert found(contexts, habits(turns)) == []


def test_a_context_that_was_cut_in_between_is_none() -> None:
    assert found(contexts, habits(large(4), compacted={"A": (5, 15, 25)})) == []


def test_a_turn_that_sent_much_less_than_the_one_before_it_was_cut_by_somebody() -> None:
    sizes = [150_000, 20_000] * 4
    turns = [turn(at=T0 + n * HOUR, seq=n, largest_input=size, cache_read=9) for n, size in enumerate(sizes)]
    assert found(contexts, habits(turns)) == []


# caches ---------------------------------------------------------------------------------------------------------


def pauses(
    *gaps: int, size: int = 100_000, written: int = 100_000, held_1h: int = 0, model: str = DEAR, session: str = "A"
) -> list[HabitTurn]:
    """Turns with these pauses between them."""
    turns = [turn(session, T0, seq=1, largest_input=size, cache_write=written, cache_write_1h=held_1h)]
    for number, gap in enumerate(gaps, 2):
        at = (turns[-1].ended or 0) + gap
        turns.append(
            turn(
                session, at, seq=number * 10, model=model, largest_input=size, cache_write=written,
                cache_write_1h=held_1h,
            )
        )  # fmt: skip
    return turns


def test_contexts_that_are_written_to_the_cache_again_are_found_with_what_that_cost_more_than_reading() -> None:
    finding = one(caches, habits(pauses(6 * MINUTE, HOUR, DAY)))
    assert finding.count == 3
    assert finding.usd == pytest.approx(3 * 0.1 * (6.25 - 0.5))
    assert [each.text for each in finding.evidence] == [
        "about 100,000 tokens written again after 6 min",
        "about 100,000 tokens written again after 60 min",
        "about 100,000 tokens written again after 24.0 h",
    ]


def test_where_a_cache_is_held_for_an_hour_a_pause_of_half_of_one_costs_nothing() -> None:
    assert found(caches, habits(pauses(*[30 * MINUTE] * 5, held_1h=100_000))) == []
    assert one(caches, habits(pauses(*[61 * MINUTE] * 3, held_1h=100_000))).usd == pytest.approx(3 * 0.1 * (10 - 0.5))


@pytest.mark.parametrize(
    "turns",
    [
        pauses(6 * MINUTE, HOUR),
        pauses(*[4 * MINUTE] * 5),
        pauses(*[HOUR] * 5, size=49_000, written=49_000),
        pauses(*[HOUR] * 5, written=20_000),
        [*pauses(HOUR), *pauses(HOUR, session="B"), turn("C", largest_input=100_000, cache_write=100_000)],
    ],
    ids=["too few", "short pauses", "small", "little written", "new sessions"],
)
def test_pauses_that_cost_nothing_or_little_are_none(turns: list[HabitTurn]) -> None:
    assert found(caches, habits(turns)) == []


def test_another_model_has_a_cache_of_its_own() -> None:
    assert found(caches, habits(pauses(*[HOUR] * 1, model=CHEAP) + pauses(HOUR, HOUR, session="B"))) == []


def test_after_a_summary_all_is_new() -> None:
    assert found(caches, habits(pauses(*[HOUR] * 3), compacted={"A": (15, 25, 35)})) == []


# models ---------------------------------------------------------------------------------------------------------


def small(
    session: str, model: str, *, output: int | None = 100, turns: int = 1, read: int = 100_000
) -> list[HabitTurn]:
    return [turn(session, T0 + n, model=model, output=output, cache_read=read) for n in range(turns)]


def small_work(dear: int = 3, cheap: int = 2, **how: int) -> list[HabitTurn]:
    dears = [each for n in range(dear) for each in small(f"D{n}", DEAR, **how)]
    return dears + [each for n in range(cheap) for each in small(f"C{n}", CHEAP)]


def test_short_sessions_with_a_dear_model_are_found_with_what_a_cheaper_one_would_have_saved() -> None:
    finding = one(models, habits(small_work()))
    assert finding.sessions == 3
    assert finding.usd == pytest.approx(3 * (0.1 * (0.5 - 0.1) + 0.0001 * (25 - 5)))
    assert f"use {CHEAP}, as you did before: `backstory run --agent claude --model {CHEAP} " in finding.action


def test_an_agent_that_cannot_be_run_here_has_its_own_switch_of_models() -> None:
    turns = [msgspec.structs.replace(each, agent="stranger") for each in small_work()]
    assert one(models, habits(turns)).action.endswith("as you did before: the agent's own switch of models")


@pytest.mark.parametrize(
    "turns",
    [small_work(dear=2), small_work(cheap=1), small_work(output=2_001), small_work(turns=4)],
    ids=["too few", "no cheaper one at hand", "much written", "many turns"],
)
def test_work_that_is_not_small_or_has_no_cheaper_model_is_none(turns: list[HabitTurn]) -> None:
    assert found(models, habits(turns)) == []


def test_a_session_in_which_a_file_was_changed_is_no_small_work() -> None:
    assert found(models, habits(small_work(), edited={"D1"})) == []


def test_a_turn_whose_output_nobody_counted_may_be_long() -> None:
    unknown = [each for n in range(3) for each in small(f"D{n}", DEAR, output=None)]
    assert found(models, habits([*unknown, *small_work(dear=0)])) == []


# prompts --------------------------------------------------------------------------------------------------------


def typed(*prompts_: str, days: int = 1, output: int | None = 500) -> list[HabitTurn]:
    return [turn(f"S{n}", T0 + n * days * DAY, prompt=prompt, output=output) for n, prompt in enumerate(prompts_)]


def test_a_prompt_that_was_typed_on_several_days_is_found() -> None:
    finding = one(
        prompts,
        habits(typed("Update the changelog, please.", "update the  changelog, please", "Update the changelog, please")),
    )
    assert (finding.count, finding.sessions) == (3, 3)
    assert finding.ms == pytest.approx(3 * 28 * MINUTE // 200, rel=0.05)
    assert "CLAUDE.md" in finding.action


@pytest.mark.parametrize(
    "turns",
    [
        typed(*["Update the changelog, please."] * 2),
        typed(*["Update the changelog, please."] * 3, days=0),
        typed(*["commit this now"] * 3),
        typed(*["yes, go ahead with that"] * 5),
        typed(*["/review the pull request now"] * 3),
        typed(*["Reply with exactly: ok"] * 3, output=5),
        typed("Update the changelog, please.", "Update the readme, please.", "Update the docs, please."),
    ],
    ids=["twice", "on one day", "short", "a go-ahead", "a command", "no work", "different"],
)
def test_prompts_that_are_not_worth_keeping_are_none(turns: list[HabitTurn]) -> None:
    assert found(prompts, habits(turns)) == []


def test_a_polite_prompt_is_no_go_ahead() -> None:
    assert len(found(prompts, habits(typed(*["Please update the changelog now"] * 3)))) == 1


def test_what_a_subagent_was_asked_nobody_typed() -> None:
    asked = [
        turn(f"S{n}", T0 + n * DAY, context=f"sub{n}", prompt="Look at the tests of it", output=900) for n in range(4)
    ]
    assert found(prompts, habits(asked)) == []


# failures -------------------------------------------------------------------------------------------------------


def failing(
    sessions: int, each: int = 2, *, output: str = "* errcheck: 1", words: tuple[str, ...] = ("mise", "run", "lint")
) -> list[HabitCall]:
    return [
        call(f"S{n}", words=words, output=output, error="* errcheck: …") for n in range(sessions) for _ in range(each)
    ]


def test_a_command_that_fails_in_several_sessions_is_found_with_what_it_complains_about() -> None:
    finding = one(failures, habits(calls=failing(3)))
    assert finding.problem == "`mise run lint` failed 6 times in p"
    assert finding.action == "Add to CLAUDE.md what `mise run lint` complains about most: “* errcheck: …”"


def test_each_failure_is_shown_with_the_file_it_is_about_else_with_its_error() -> None:
    shown = [each.text for each in one(failures, habits(calls=failing(3))).evidence]
    assert set(shown) == {"“* errcheck: …”"}


def test_what_a_failed_call_cost_is_its_share_of_its_turn() -> None:
    turns = [turn("S0", cache_read=1_000_000)]
    calls = [call(f"S{n % 3}", words=("lint",), output="no", turn=turns[0].uid) for n in range(5)]
    finding = one(failures, habits(turns, calls, calls_of={turns[0].uid: 9}))
    assert finding.usd == pytest.approx(5 * 0.5 / 10)


@pytest.mark.parametrize(
    "calls",
    [
        failing(2, each=5),
        failing(4, each=1),
        failing(3, words=("go", "test")),
        failing(3, words=("mise", "run", "test:ci")),
        failing(3, words=("git", "merge")),
        failing(3, words=("grep",)),
        failing(3, words=()),
    ],
    ids=["in two sessions", "seldom", "tests", "tests by a runner", "merges", "what looks for something", "any script"],
)
def test_what_fails_seldom_or_is_there_to_fail_is_none(calls: list[HabitCall]) -> None:
    assert found(failures, habits(calls=calls)) == []


def test_different_errors_of_a_tool_are_not_added_up() -> None:
    calls = [call(f"S{n}", name="Edit", tool="EDIT", output=f"error {'abcdef'[n]}") for n in range(6)]
    assert found(failures, habits(calls=calls)) == []


def test_failures_of_two_places_are_not_added_up() -> None:
    given = habits(calls=failing(4, each=1), places={"S0": "p", "S1": "p", "S2": "q", "S3": "q"})
    assert found(failures, given) == []


# missing --------------------------------------------------------------------------------------------------------


def missed(
    *sessions: str, path: str = "/p/.lint.yml", output: str = "File does not exist. Did you mean .lint.yaml?"
) -> list[HabitCall]:
    return [call(each, name="Read", tool="READ", path=path, output=output) for each in sessions]


def test_a_file_that_two_sessions_looked_for_in_vain_is_found_with_the_one_that_was_meant() -> None:
    finding = one(missing, habits(calls=missed("A", "B")))
    assert finding.problem == ".lint.yml was looked for 2 times in p, and is not there"
    assert finding.action == "Add to CLAUDE.md: “.lint.yml is .lint.yaml”"


@pytest.mark.parametrize(
    "output",
    [
        "File does not exist. Note: your current working directory is /p.",
        "ENOENT: no such file or directory, open '/p/.lint.yml'",
        "cat: /p/.lint.yml: No such file or directory",
    ],
)
def test_an_error_that_names_the_path_or_its_folder_is_about_it(output: str) -> None:
    assert one(missing, habits(calls=missed("A", "B", output=output))).evidence


@pytest.mark.parametrize(
    ("calls", "touched"),
    [
        (missed("A", "A", "A"), ()),
        (missed("A", "B"), ("/p/.lint.yml",)),
        (missed("A", "B", output="EISDIR: illegal operation on a directory"), ()),
        (missed("A", "B", output="ENOENT: no such file or directory, posix_spawn '/home/dev/2.1.36/claude'"), ()),
        ([*missed("A"), *missed("B", path="/p/other.yml")], ()),
    ],
    ids=["in one session", "it was there once", "another error", "another path", "other files"],
)
def test_a_file_that_is_there_or_was_missed_once_is_none(calls: list[HabitCall], touched: tuple[str, ...]) -> None:
    assert found(missing, habits(calls=calls, touched=touched)) == []


def test_clones_of_a_repository_that_look_for_the_same_file_are_one_tip() -> None:
    given = habits(calls=missed("A", "B", "C"), places={"A": "w/cli", "B": "dev/cli", "C": "src/cli"})
    finding = one(missing, given)
    assert (finding.count, finding.sessions) == (3, 3)
    assert finding.problem == ".lint.yml was looked for 3 times in w/cli and 2 other places, and is not there"
    assert finding.action == "Add to CLAUDE.md: “.lint.yml is .lint.yaml”"


def test_a_file_that_nobody_knows_is_missing_in_its_own_place() -> None:
    calls = missed("A", "B", output="File does not exist.")
    assert found(missing, habits(calls=calls, places={"A": "w/cli", "B": "dev/cli"})) == []


def test_a_path_is_one_in_whichever_folder_of_the_repository_a_session_was() -> None:
    calls = [*missed("A"), *missed("B", path="/w/p/.lint.yml")]
    assert found(missing, habits(calls=calls)) == []
    assert one(missing, habits(calls=calls, roots={"B": "/w/p/.agent/worktrees/fix"})).count == 2


# rereads --------------------------------------------------------------------------------------------------------


def test_a_file_that_is_read_piece_by_piece_is_found() -> None:
    finding = one(rereads, habits(repeated=reads(3)))
    assert finding.problem == "a.py in p was read again 3 times, piece by piece"
    assert finding.evidence[0].seqs == (12, 14, 16)


def test_reads_that_lie_apart_are_none() -> None:
    assert found(rereads, habits(repeated=reads(2))) == []
    assert found(rereads, habits(repeated=reads(9, gap=3 * MINUTE))) == []


def test_reads_before_and_after_a_change_are_no_run() -> None:
    assert found(rereads, habits(repeated=[*reads(2), *reads(2, start=90)])) == []


def test_after_a_summary_a_file_must_be_read_again() -> None:
    assert found(rereads, habits(repeated=reads(3), compacted={"A": (13,)})) == []


# waits ----------------------------------------------------------------------------------------------------------


def slow(*seconds: int, words: tuple[str, ...] = ("make", "test")) -> list[HabitCall]:
    return [call(words=words, took=each * SECOND) for each in seconds]


def test_a_command_that_is_waited_for_again_and_again_is_found_with_its_time() -> None:
    finding = one(waits, habits(calls=slow(60, 90, 120, 6)))
    assert finding.problem == "`make test` in p was waited for 3 times, 90 s at the median"
    assert finding.ms == 270 * SECOND


@pytest.mark.parametrize(
    "calls",
    [
        slow(60, 90),
        slow(6, 7, 8, 9, 60, 90, 120),
        slow(60, 90, 120, words=("git", "push")),
        slow(60, 90, 3_600),
        slow(60, 90, 120, words=()),
    ],
    ids=["twice", "mostly quick", "a person was asked", "a person was away", "no command"],
)
def test_commands_that_are_mostly_quick_are_none(calls: list[HabitCall]) -> None:
    assert found(waits, habits(calls=calls)) == []


# permissions ----------------------------------------------------------------------------------------------------


def edits(
    count: int, *, took: int = 30, sessions: int = 3, apart: int = HOUR, output: str | None = None
) -> list[HabitCall]:
    return [
        call(f"S{n % sessions}", T0 + n * apart, name="Edit", tool="EDIT", took=took * SECOND, output=output)
        for n in range(count)
    ]


def test_edits_that_wait_for_leave_are_found_with_the_rule_that_allows_them() -> None:
    finding = one(permissions, habits(calls=edits(6)))
    assert (
        finding.problem
        == "Claude Code waited 6 times for leave to edit in p, 30 s at the median; none more were refused"
    )
    assert finding.action == "If you allow them all anyway: Edit in .claude/settings.json, permissions.allow"
    assert finding.ms == 180 * SECOND


def test_commands_that_only_read_are_allowed_by_their_words() -> None:
    calls = [
        call(f"S{n % 3}", T0 + n * HOUR, took=20 * SECOND, words=("git", "diff"), reading=("git", "diff"))
        for n in range(5)
    ]
    assert "Bash(git diff:*)" in one(permissions, habits(calls=calls)).action


@pytest.mark.parametrize(
    "calls",
    [
        edits(4),
        edits(9, took=9),
        edits(9, sessions=2),
        edits(9, sessions=1, apart=0),
        [call(f"S{n}", took=MINUTE, words=("git", "push")) for n in range(9)],
    ],
    ids=["too few", "quick", "in two sessions", "at once", "a command that changes something"],
)
def test_calls_that_do_not_wait_or_are_better_asked_about_are_none(calls: list[HabitCall]) -> None:
    assert found(permissions, habits(calls=calls)) == []


def test_what_a_person_refuses_now_and_then_is_better_asked_about() -> None:
    refused = edits(1, output="The user doesn't want to proceed with this tool use.")
    assert found(permissions, habits(calls=edits(6), refused=refused)) == []
    assert one(permissions, habits(calls=edits(12), refused=refused)).problem.endswith("1 more were refused")


def test_a_call_that_came_while_another_one_waited_may_have_waited_for_that() -> None:
    blocked = [call(f"S{n % 3}", T0 + n * HOUR, took=MINUTE, words=("git", "push")) for n in range(6)]
    behind = [call(f"S{n % 3}", T0 + n * HOUR + SECOND, name="Edit", tool="EDIT", took=50 * SECOND) for n in range(6)]
    assert found(permissions, habits(calls=[*blocked, *behind])) == []


def test_of_a_stop_over_night_ten_minutes_count() -> None:
    assert one(permissions, habits(calls=edits(5, took=40_000, apart=DAY))).ms == 5 * 10 * MINUTE


# the order ------------------------------------------------------------------------------------------------------


def finding(pattern: str, usd: float | None = None, ms: int | None = None) -> Tip:
    evidence = TipEvidence(session="A", context="A", seqs=(1,), text="", usd=usd, ms=ms)
    return Tip(pattern=pattern, problem=pattern, action="", evidence=(evidence,))


def test_the_strongest_of_each_pattern_come_first_by_dollars_and_time() -> None:
    given = [finding("a", usd=2), finding("a", usd=9), finding("b", ms=HOUR), finding("c"), finding("d", usd=1)]
    assert [(each.pattern, each.usd) for each in strongest(given, 3)] == [("b", None), ("a", 9), ("d", 1)]
    assert len(strongest(given, None)) == 5
