"""The conversation tree on the command line: fork, look, go elsewhere, name, compare, remove, bring back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backstory.model import AssistantText, Tool, ToolCall, ToolResult, UserMessage
from backstory.store import Store, open_store
from tests.support.bench import Bench, MadeOnce
from tests.support.running import the_agents_own_log, until

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = pytest.mark.slow

USAGE = 2
GOOD: dict[str, Any] = {"result": True}
LEAVES = 10_000
NARROW = {"COLUMNS": "40"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    bench = Bench(tmp_path_factory.mktemp("forked"))
    store = bench.store
    session = store.create_session(worktree=bench.project)
    say(store, session.id, "first", "one")
    result = ToolResult(tool_use_id="t", tool_name="Bash", tool=Tool.SHELL, content="a.py")
    edit = ToolCall(
        tool_use_id="t", tool_name="Edit", tool=Tool.EDIT, file_path="/p/a.py", input={"file_path": "/p/a.py"}
    )
    store.append_events(session, [UserMessage(content="second"), edit, result, AssistantText(text="two")])
    store.checkout(session, store.place(session, 2).point)
    say(store, session.id, "third", "three")
    store.close()
    return MadeOnce(bench)


@pytest.fixture
def forked(made_once: MadeOnce) -> Bench:
    """S1: @1 first, @2 one; @3 second, @4 ls, @5 its result, @6 two; from @2: @7 third, @8 three, where it goes on."""
    return made_once.anew_and_noted()


def say(store: Store, session: int, prompt: str, answer: str) -> None:
    store.append_events(session, [UserMessage(content=prompt), AssistantText(text=answer)])


def ok(bench: Bench, *words: str, **how: Any) -> subprocess.CompletedProcess[str]:
    done = bench.backstory(*words, **how)
    assert done.returncode == 0, done.stderr
    return done


def rows(bench: Bench, *words: str) -> Any:
    found = json.loads(ok(bench, *words, "--json").stdout)
    return found["branches"] if words[0] == "branches" else found


def go(bench: Bench, *words: str, answer: str = "ok", given: str | None = None) -> subprocess.CompletedProcess[str]:
    return ok(bench, "run", "-a", "claude", *words, script=[{"say": answer}, GOOD], given=given)


def prompts(bench: Bench) -> list[str]:
    return [row["prompt"] for row in rows(bench, "tree")["turns"]]


# run @N -------------------------------------------------------------------------------------------------------


def test_a_run_from_a_record_is_told_up_to_there_and_makes_a_branch(forked: Bench) -> None:
    go(forked, "@2", "fourth")
    sent = forked.sent()
    assert "one" in sent
    assert sent.endswith("\n\nfourth")
    assert not {"second", "third"} & set(sent.split())
    turn = forked.store.turns(1)[-1]
    assert (turn.prompt, turn.parent_uid, turn.parent_seq) == ("fourth", forked.store.turns(1)[0].uid, 2)


def test_a_run_inside_a_call_begins_before_it_and_says_so(forked: Bench) -> None:
    done = go(forked, "@4", "instead")
    assert "@4 lies between a tool's call and its result" in done.stderr
    assert "a.py" not in forked.sent()
    assert forked.store.turns(1)[-1].parent_seq == 3


def test_the_prompt_may_come_on_stdin(forked: Bench) -> None:
    go(forked, "@2", given="from a pipe")
    turn = forked.store.turns(1)[-1]
    assert (turn.prompt, turn.parent_seq) == ("from a pipe", 2)


def test_the_record_may_be_given_as_an_option_with_any_prompt(forked: Bench) -> None:
    go(forked, "--at", "@2", "@3", "is what I mean")
    turn = forked.store.turns(1)[-1]
    assert (turn.prompt, turn.parent_seq) == ("@3 is what I mean", 2)


@pytest.mark.parametrize("words", [["@2"], ["@2 and more"], ["@someone", "look"], ["look", "@2"], ["@2x", "look"]])
def test_anything_else_with_an_at_sign_is_prompt(forked: Bench, words: list[str]) -> None:
    go(forked, *words)
    turn = forked.store.turns(1)[-1]
    assert (turn.prompt, turn.parent_seq) == (" ".join(words), 8)


@pytest.mark.parametrize("prompt", ["list all files", "tree", "branch rm @1", "show me the code"])
def test_a_prompt_that_begins_like_a_command_is_a_prompt(forked: Bench, prompt: str) -> None:
    go(forked, *prompt.split(" "))
    assert forked.store.turns(1)[-1].prompt == prompt


def test_a_record_that_is_not_there_runs_nothing(forked: Bench) -> None:
    done = forked.backstory("run", "-a", "claude", "@99", "go", script=[GOOD])
    assert done.returncode == 66
    assert "@99" in done.stderr
    assert not forked.received.exists()


def test_a_new_session_has_nothing_to_follow(forked: Bench) -> None:
    assert forked.backstory("run", "-a", "claude", "-n", "@2", "go", script=[GOOD]).returncode == 2


# looking ------------------------------------------------------------------------------------------------------


def test_the_tree_shows_every_turn_where_branches_part_and_where_it_goes_on(forked: Bench) -> None:
    assert ok(forked, "tree").stdout.splitlines() == [
        "* @1    first → one",
        "├─   @3    second → two  (1)",
        "└─ > @7    third → three  (2)",
    ]


def test_the_tree_fits_a_narrow_terminal_also_with_wide_letters(forked: Bench) -> None:
    say(forked.store, 1, "漢字" * 40, "🎉" * 40)
    from backstory.cli.output import columns

    for line in ok(forked, "tree", environ=NARROW).stdout.splitlines():
        assert columns(line) <= 40


def test_a_tree_that_forks_again_and_again_stays_narrow(bench: Bench) -> None:
    with bench.store as store:
        session = store.create_session(worktree=bench.project)
        say(store, session.id, "root", "0")
        for n in range(60):
            at = store.turns(session)[-1]
            for _ in range(2):
                store.checkout(session, store.place(session, at.last_seq).point)
                say(store, session.id, f"level {n}", "x")
    lines = ok(bench, "tree", environ=NARROW).stdout.splitlines()
    assert len(lines) == 121
    assert all("level" in line or "root" in line for line in lines)


def test_piped_output_has_no_colour(forked: Bench) -> None:
    for command in (["tree"], ["scan"], ["branches"], ["diff", "@6", "@8"], ["show", "@2"]):
        assert "\x1b" not in ok(forked, *command).stdout


def test_scan_lists_the_current_branch_and_marks_its_end(forked: Bench) -> None:
    assert ok(forked, "scan").stdout.splitlines() == [
        "  @1    U: first",
        "  @2    A: one",
        "  @7    U: third",
        "> @8    A: three",
    ]
    assert [row["seq"] for row in rows(forked, "scan")["records"]] == [1, 2, 7, 8]


def test_scan_shows_calls_of_tools_and_an_end_that_is_none_of_a_turn(forked: Bench) -> None:
    ok(forked, "checkout", "@5")
    lines = ok(forked, "scan").stdout.splitlines()
    assert lines[-2:] == ["  @3    U: second", "> @4       → Edit /p/a.py"]


def test_branches_are_listed_with_their_numbers_the_last_that_grew_first(forked: Bench) -> None:
    ok(forked, "branch", "name", "old", "1")
    listed = rows(forked, "branches")
    assert [(row["leaf"], row["name"], row["seq"], row["depth"], row["current"]) for row in listed] == [
        (2, None, 8, 1, True),
        (1, "old", 6, 1, False),
    ]
    assert {"agent", "last_active"} <= set(listed[0])


def test_a_record_is_shown_with_what_it_is_and_its_neighbours(forked: Bench) -> None:
    lines = ok(forked, "show", "@2").stdout.split("\n")
    assert "S1" in lines[0] or "first" in lines[0]
    assert "@2 · turn 1 · answer" in lines[1]
    assert lines[lines.index("@2") + 1] == "         one"
    assert any(line.startswith("@1 ") for line in lines)
    assert any(line.startswith("@3 ") for line in lines)
    shown = rows(forked, "show", "S1", "@5")
    assert [(event["seq"], event["content"]) for event in shown["events"]] == [(5, "a.py")]
    assert forked.backstory("show", "@77").returncode == 66


def test_a_session_that_is_shown_says_which_turns_are_off_the_branch(forked: Bench) -> None:
    turns = rows(forked, "show", "S1")["turns"]
    assert [(turn["prompt"], turn["rewound"]) for turn in turns] == [
        ("first", False),
        ("second", True),
        ("third", False),
    ]
    shown = [line for line in ok(forked, "show", "S1").stdout.splitlines() if line.startswith("── turn")]
    assert [line.endswith("  rewound") for line in shown] == [False, True, False]


def test_without_any_session_it_is_said(bench: Bench) -> None:
    for command in (["tree"], ["scan"], ["branches"], ["checkout", "@1"], ["diff", "@1", "@2"]):
        done = bench.backstory(*command)
        assert done.returncode == 66
        assert done.stderr.startswith("backstory: There are no sessions yet. ")


def test_a_session_without_turns_has_nothing_to_list_which_is_no_failure(bench: Bench) -> None:
    with bench.store as store:
        store.create_session("empty")
    for command in ("scan", "tree", "show"):
        done = bench.backstory(command, "S1")
        assert done.returncode == 0, done.stderr
        assert bench.backstory(command, "S1", "--json").returncode == 0
    assert bench.backstory("scan", "S1").stderr == "S1 has no turns.\n"
    assert rows(bench, "scan", "S1")["records"] == []


# checkout -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["@6", "1", "old"])
def test_a_branch_is_gone_to_by_record_number_or_name(forked: Bench, where: str) -> None:
    ok(forked, "branch", "name", "old", "@6")
    assert ok(forked, "checkout", where).stdout == "Switched to @6 A: two\n"
    go(forked, "after")
    assert "second" in forked.sent()
    assert "third" not in forked.sent()


def test_a_checkout_is_what_context_tells(forked: Bench) -> None:
    ok(forked, "checkout", "@5")
    told = ok(forked, "context", "S1").stdout
    assert "a.py" in told
    assert "third" not in told
    assert "two" not in told
    assert rows(forked, "context", "S1")["turns_left_out"] == 0


def test_a_checkout_survives_an_ingest_and_reaches_the_machines_store(forked: Bench) -> None:
    go(forked, "known everywhere")
    ok(forked, "checkout", "@6")
    ok(forked, "ingest")
    with open_store(forked.home / "store.db", shared=True) as home:
        assert home.leaf(home.session("S1")) == forked.store.leaf(1)
    ok(forked, "run", "-a", "claude", "on", script=[GOOD])
    assert forked.store.turns(1)[-1].parent_seq == 6


def test_the_last_word_of_a_branch_is_its_tip(forked: Bench) -> None:
    go(forked, "a run")
    turn = forked.store.turns(1)[-1]
    ok(forked, "checkout", f"@{turn.last_seq - 1}")
    (current,) = (row for row in rows(forked, "branches") if row["current"])
    assert (current["prompt"], current["seq"]) == ("a run", turn.last_seq)


def test_a_removed_branch_cannot_be_gone_to_until_it_is_restored(forked: Bench) -> None:
    ok(forked, "branch", "rm", "@3", "--yes")
    refused = forked.backstory("checkout", "@6")
    assert refused.returncode == 66
    assert "backstory tree restore @6" in refused.stderr
    ok(forked, "branch", "restore", "@6")
    ok(forked, "checkout", "@6")


def test_a_session_read_from_a_log_is_carried_on_by_one_of_our_own_with_its_whole_tree(bench: Bench) -> None:
    folder = bench.root / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    lines = []
    for n, (prompt, parent) in enumerate([("root", None), ("left", "a0"), ("right", "a0")]):
        common = {"sessionId": "s", "timestamp": f"2026-11-21T10:00:0{n}.000Z", "cwd": str(bench.project)}
        user = {"type": "user", "uuid": f"u{n}", "parentUuid": parent, "message": {"role": "user", "content": prompt}}
        content = [{"type": "text", "text": f"answer {prompt}"}]
        message = {"id": f"m{n}", "role": "assistant", "content": content}
        answer = {"type": "assistant", "uuid": f"a{n}", "parentUuid": f"u{n}", "message": message}
        lines += [json.dumps(common | user), json.dumps(common | answer)]
    (folder / "s.jsonl").write_text("\n".join(lines) + "\n")
    ok(bench, "ingest")
    before = rows(bench, "tree")
    assert [(row["prompt"], row["depth"]) for row in before["turns"]] == [("root", 0), ("left", 1), ("right", 1)]
    assert "S1 continues " in ok(bench, "checkout", "@4").stderr
    after = rows(bench, "tree")
    assert (after["label"], after["follows"]["seq"]) == ("S1", 4)
    assert [row["turn_uid"] for row in after["turns"]] == [row["turn_uid"] for row in before["turns"]]
    go(bench, "on from the left")
    assert "answer left" in bench.sent()
    assert "answer right" not in bench.sent()


def test_a_name_of_a_session_read_from_a_log_makes_no_session(bench: Bench) -> None:
    folder = bench.root / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    line = {
        "type": "user", "uuid": "u", "sessionId": "s", "timestamp": "2026-11-21T10:00:00.000Z",
        "cwd": str(bench.project), "message": {"role": "user", "content": "only"},
    }  # fmt: skip
    (folder / "s.jsonl").write_text(json.dumps(line) + "\n")
    ok(bench, "ingest")
    ok(bench, "branch", "name", "mine")
    assert not bench.store.exists
    assert [row["name"] for row in rows(bench, "branches")] == ["mine"]


def test_nothing_is_decided_about_a_session_while_it_runs(forked: Bench) -> None:
    started, end = forked.root / "started", forked.root / "end"
    running = forked.start("run", "-a", "claude", "go", script=[{"touch": str(started)}, {"wait_for": str(end)}, GOOD])
    until(started.exists)
    for command in (["checkout", "@2"], ["branch", "rm", "@3", "--yes"]):
        assert forked.backstory(*command).returncode == 75
    end.touch()
    running.communicate(timeout=120)
    assert forked.store.turns(1)[-1].parent_seq == 8


# names, removing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["two words", "🎉 ünï", "me@home", "x" * 10_240], ids=lambda name: name[:9])
def test_a_branch_is_found_by_whatever_it_is_called(forked: Bench, name: str) -> None:
    ok(forked, "branch", "name", name, "@6")
    assert rows(forked, "branches")[1]["name"] == name
    assert max(map(len, ok(forked, "branches").stdout.splitlines())) <= 100
    ok(forked, "checkout", name)
    assert rows(forked, "tree")["follows"]["seq"] == 6


@pytest.mark.parametrize("name", ["", " ", "@3", "12"])
def test_a_name_that_means_something_else_is_refused(forked: Bench, name: str) -> None:
    assert forked.backstory("branch", "name", name).returncode == 64


def test_a_name_is_taken_away(forked: Bench) -> None:
    ok(forked, "branch", "name", "mine")
    ok(forked, "branch", "unname", "mine")
    assert rows(forked, "branches")[0]["name"] is None
    assert forked.backstory("branch", "unname", "mine").returncode == 66


def test_removing_asks_and_without_an_answer_changes_nothing(forked: Bench) -> None:
    done = forked.backstory("branch", "rm", "@3")
    assert done.returncode == 64
    assert "Removing 1 turn from @3 on (second) of S1" in done.stderr
    assert prompts(forked) == ["first", "second", "third"]


def test_a_removed_branch_is_gone_from_the_tree_and_comes_back(forked: Bench) -> None:
    assert ok(forked, "branch", "rm", "@8", "--yes").stdout == "removed 1 turn from @7 on\n"
    assert prompts(forked) == ["first", "second"]
    assert rows(forked, "tree")["follows"]["seq"] == 2
    removed = rows(forked, "tree", "--removed")["turns"]
    assert [(row["prompt"], row["removed"] is not None) for row in removed] == [
        ("first", False), ("second", False), ("third", True),
    ]  # fmt: skip
    ok(forked, "branch", "restore")
    assert prompts(forked) == ["first", "second", "third"]


def test_a_removed_branch_is_not_shared(forked: Bench) -> None:
    ok(forked, "branch", "rm", "@8", "--yes")
    for form in ("--md", "--outline"):
        shared = ok(forked, "show", "S1", form, "--redact").stdout
        assert [prompt for prompt in ("first", "second", "third") if prompt in shared] == ["first", "second"]
    ok(forked, "branch", "restore")
    assert "third" in ok(forked, "show", "S1", "--md").stdout


def test_removing_by_name_leaves_what_other_branches_share(forked: Bench) -> None:
    ok(forked, "branch", "name", "old", "@6")
    ok(forked, "branch", "rm", "old", "--yes")
    assert prompts(forked) == ["first", "third"]
    ok(forked, "branch", "restore", "old")
    assert prompts(forked) == ["first", "second", "third"]


@pytest.mark.parametrize("then", [("branch", "prune", "--yes"), ("branches",)], ids=" ".join)
def test_a_branch_keeps_its_number_when_another_is_removed(forked: Bench, then: tuple[str, ...]) -> None:
    go(forked, "@2", "fourth")
    ok(forked, "branch", "rm", "1", "--yes")
    ok(forked, *then)
    assert [(row["leaf"], row["prompt"]) for row in rows(forked, "branches")] == [(3, "fourth"), (2, "third")]
    assert forked.backstory("branch", "rm", "1", "--yes").returncode == 66
    go(forked, "@2", "fifth")
    assert {row["prompt"]: row["leaf"] for row in rows(forked, "branches")} == {"third": 2, "fourth": 3, "fifth": 4}


def test_a_branch_that_is_cut_short_has_the_number_it_had(forked: Bench) -> None:
    go(forked, "longer")
    ok(forked, "branch", "rm", f"@{forked.store.turns(1)[-1].first_seq}", "--yes")
    assert {row["prompt"]: row["leaf"] for row in rows(forked, "branches")} == {"second": 1, "third": 2}


def test_what_is_restored_is_not_gone_on_with_unless_one_goes_there_and_that_is_said(forked: Bench) -> None:
    ok(forked, "branch", "rm", "2", "--yes")
    told = ok(forked, "branch", "restore").stderr
    assert "S1 continues at @2." in told
    assert "backstory checkout @8 -S S1" in told
    ok(forked, "branch", "rm", "@1", "--yes")
    assert "continues at" not in ok(forked, "branch", "restore").stderr


def test_a_branch_inside_which_another_begins_is_not_removed_by_its_number(forked: Bench) -> None:
    go(forked, "@5", "from inside")
    done = forked.backstory("branch", "rm", "1", "--yes")
    assert done.returncode == 64
    assert "second" in prompts(forked)


def test_pruned_branches_do_not_come_back(forked: Bench) -> None:
    go(forked, "a run")
    run = forked.store.turns(1)[-1]
    ok(forked, "branch", "rm", f"@{run.first_seq}", "--yes")
    ok(forked, "branch", "prune", "--yes")
    assert forked.backstory("branch", "restore").returncode == 66
    ok(forked, "ingest")
    assert prompts(forked) == ["first", "second", "third"]
    ok(forked, "verify")
    go(forked, "the next")
    with open_store(forked.home / "store.db", shared=True) as home:
        assert [turn.prompt for turn in home.tree(home.session("S1"))] == ["first", "second", "third", "the next"]


# diff ---------------------------------------------------------------------------------------------------------


def test_diff_tells_where_branches_part_and_what_each_did(forked: Bench) -> None:
    assert ok(forked, "diff", "@6", "2").stdout.splitlines() == [
        "fork point: @2 first",
        "",
        "--- @6 (1 turn) ---",
        "  @3    U: second",
        "  @4       → Edit /p/a.py",
        "  @6    A: two",
        "  edit /p/a.py",
        "",
        "--- @8 branch 2 (1 turn) ---",
        "  @7    U: third",
        "  @8    A: three",
    ]


def test_diff_sums_up_costs_and_files(forked: Bench) -> None:
    go(forked, "paid")
    told = rows(forked, "diff", "1", "2")
    assert told["fork"]["seq"] == 2
    assert (told["left"]["files"], told["left"]["cost_usd"]) == ([{"path": "/p/a.py", "action": "edit"}], None)
    assert (told["right"]["files"], told["right"]["cost_usd"]) == ([], 0.04)


def test_a_record_and_itself_do_not_differ(forked: Bench) -> None:
    done = ok(forked, "diff", "@6", "@6")
    assert done.stdout == "fork point: @6 second\n"
    assert "no differences" in done.stderr


def test_diff_with_an_earlier_record_of_the_same_branch_has_an_empty_side(forked: Bench) -> None:
    assert "--- @2: (empty) ---" in ok(forked, "diff", "@2", "@6").stdout


def test_sessions_that_share_nothing_have_no_fork_point(forked: Bench) -> None:
    with forked.store as store:
        say(store, store.create_session(worktree=forked.project).id, "unrelated", "yes")
    done = ok(forked, "diff", "S1@2", "S2@2")
    assert done.stdout.startswith("fork point: none")
    assert "U: first" in done.stdout
    assert "U: unrelated" in done.stdout
    assert rows(forked, "diff", "S1@2", "S2@2")["fork"] is None


def test_a_side_in_another_session_is_called_by_that(forked: Bench) -> None:
    assert "--- @8 of S1 (1 turn) ---" in ok(forked, "diff", "@6", "S1@8").stdout


def test_two_roots_in_a_session_share_nothing(forked: Bench) -> None:
    ok(forked, "branch", "rm", "@1", "--yes")
    go(forked, "a second root")
    ok(forked, "branch", "restore", "@1")
    assert rows(forked, "diff", "@2", "@9")["fork"] is None
    assert [line[:3] for line in ok(forked, "tree").stdout.splitlines()] == ["  @", "├─ ", "└─ ", "> @"]


# many ---------------------------------------------------------------------------------------------------------


def test_a_tree_of_10000_leaves_is_listed(forked: Bench) -> None:
    with forked.store as store:
        root = store.turns(1)[0].uid
        with store.writer() as db:
            db.executemany(
                "insert into turns(session_id, uid, parent_uid, parent_seq, first_seq, last_seq, agent, prompt) "
                "values (1, ?, ?, 2, ?, ?, 'x', 'many')",
                [(f"T{n}", root, 100 + n, 100 + n) for n in range(LEAVES)],
            )
    assert len(ok(forked, "tree").stdout.splitlines()) == LEAVES + 3
    assert len(rows(forked, "branches")) == LEAVES + 2
    ok(forked, "checkout", str(LEAVES))


def test_the_agents_own_log_does_not_bring_a_pruned_run_back(forked: Bench) -> None:
    go(forked, "a run")
    the_agents_own_log(forked, [forked.sent()])
    ok(forked, "branch", "rm", f"@{forked.store.turns(1)[-1].first_seq}", "--yes")
    ok(forked, "branch", "prune", "--yes")
    ok(forked, "ingest")
    assert [row["number"] for row in json.loads(ok(forked, "list", "--all", "--json").stdout)["sessions"]] == ["S1"]
    assert prompts(forked) == ["first", "second", "third"]


def test_only_the_first_word_behind_tree_is_a_command(bench: Bench) -> None:
    say(bench.store, bench.store.create_session("branches", worktree=bench.project).id, "mine", "yes")
    say(bench.store, bench.store.create_session("other", worktree=bench.project).id, "theirs", "no")
    bench.note_store()
    assert ok(bench, "tree", "branches").stdout == ok(bench, "branches").stdout
    for words in (["tree", "--", "branches"], ["tree", "--removed", "branches"], ["tree", "-S", "branches"]):
        assert ok(bench, *words).stdout == ok(bench, "tree", "S1").stdout != ok(bench, "tree", "S2").stdout
    assert bench.backstory("tree", "branches", "--removed").returncode == USAGE
    assert bench.backstory("tree", "S1", "branches").returncode == USAGE
    assert "tree rm [OPTIONS] @N" in ok(bench, "tree", "rm", "--help").stdout


@pytest.mark.parametrize(
    "words", [["name", "x", "@2"], ["rm", "@7", "--yes"], ["restore"], ["unname", "x"]], ids=lambda words: words[0]
)
def test_branches_are_named_and_removed_by_tree_as_by_branch(forked: Bench, words: list[str]) -> None:
    first = {"restore": ["rm", "@7", "--yes"], "unname": ["name", "x", "@2"]}.get(words[0])
    said = []
    for command in ("tree", "branch"):
        if first:
            forked.backstory(command, *first)
        said.append(ok(forked, command, *words).stdout)
        forked.backstory("tree", "restore")
    assert said[0] == said[1]
