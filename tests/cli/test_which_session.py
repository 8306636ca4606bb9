"""Which session a command means, where several stores are in reach; and whose it is when a command acts on it."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from backstory.model import AssistantText, UserMessage
from backstory.store import Store, open_store
from backstory.store.tables import branches, sessions
from tests.support.bench import Bench

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

GOOD: dict[str, Any] = {"result": True}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def home(bench: Bench) -> Iterator[Store]:
    with open_store(bench.home / "store.db", shared=True) as opened:
        yield opened


def ok(bench: Bench, *words: str, **how: Any) -> subprocess.CompletedProcess[str]:
    done = bench.backstory(*words, **how)
    assert done.returncode == 0, done.stderr
    return done


def a_log(bench: Bench, *prompts: str) -> None:
    """A log of an agent's in which so many were answered, read; more prompts are a log that grew."""
    folder = bench.root / ".claude" / "projects" / "p"
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for n, prompt in enumerate(prompts):
        common = {"sessionId": "s", "timestamp": f"2026-11-21T10:00:0{n}.000Z", "cwd": str(bench.project)}
        parent = f"a{n - 1}" if n else None
        user = {"type": "user", "uuid": f"u{n}", "parentUuid": parent, "message": {"role": "user", "content": prompt}}
        message = {"id": f"m{n}", "role": "assistant", "content": [{"type": "text", "text": f"answer {prompt}"}]}
        answer = {"type": "assistant", "uuid": f"a{n}", "parentUuid": f"u{n}", "message": message}
        lines += [json.dumps(common | user), json.dumps(common | answer)]
    (folder / "s.jsonl").write_text("\n".join(lines) + "\n")
    ok(bench, "ingest")


def test_a_start_of_two_uids_in_two_stores_is_ambiguous_and_both_are_listed(bench: Bench, home: Store) -> None:
    # Sessions that begin in the same moment share the first ten characters.
    ours = open_store(bench.store.path, now=lambda: 1_790_000_000_000).create_session("ours")
    theirs = open_store(home.path, now=lambda: 1_790_000_000_000, shared=True).create_session("theirs")
    refused = bench.backstory("tree", ours.uid[:8])
    assert refused.returncode == 64
    assert ours.uid[:12] in refused.stderr
    assert theirs.uid[:12] in refused.stderr
    assert "(theirs)" in refused.stderr
    assert ok(bench, "tree", ours.uid).returncode == 0


def test_candidates_are_shown_by_what_was_said_in_them(bench: Bench) -> None:
    for prompt in ("fix the login", "fix the logout"):
        bench.store.append_events(bench.store.create_session(), [UserMessage(content=prompt)])
    refused = bench.backstory("tree", bench.store.sessions()[0].uid[:4])
    assert refused.returncode == 64
    assert "(fix the login)" in refused.stderr
    assert "(fix the logout)" in refused.stderr


@pytest.mark.parametrize(
    "words",
    [("checkout", "@1", "-S", "S1"), ("branch", "rm", "@1", "--yes", "-S", "S1")],
    ids=("checkout", "rm"),
)
def test_what_another_store_owns_is_not_decided_about_through_a_copy(
    bench: Bench, home: Store, words: tuple[str, ...]
) -> None:
    bench.run("one", GOOD)
    done = ok(bench, *words, "--store", str(home.path))
    assert "continues " in done.stderr
    (session,) = bench.store.sessions()
    assert bench.store.ask(branches.removed, session.id) == []
    leaf = bench.store.leaf(session)
    assert leaf is not None
    assert leaf.seq == bench.store.turns(session)[-1].last_seq


def test_no_session_of_another_store_is_the_one_last_active(bench: Bench, home: Store) -> None:
    bench.run("one", GOOD)
    assert home.ask(sessions.count) == 1
    assert home.last_session(bench.project) is None


def test_a_continuation_begins_in_the_worktree_it_is_made_in(bench: Bench) -> None:
    ours = bench.store.create_session(worktree=bench.project)
    bench.store.append_events(ours, [UserMessage(content="ours"), AssistantText(text="one")])
    bench.note_store()
    a_log(bench, "theirs")
    ok(bench, "checkout", "@1", "-S", "s")
    session = bench.store.session("S2")
    assert session.worktree == str(bench.project)


def test_what_came_to_a_log_since_it_was_continued_is_told_as_lacking(bench: Bench) -> None:
    a_log(bench, "first")
    assert "lacks" not in bench.run("mine", GOOD, options=("-S", "s")).stderr
    a_log(bench, "first", "second", "third")
    done = bench.run("mine again", GOOD, options=("-S", "s"))
    assert "S1 lacks 2 turns" in done.stderr
    (hint,) = (line for line in done.stderr.splitlines() if "lacks" in line)
    words = hint.rpartition("backstory run ")[2].split()
    ok(bench, "run", "-a", "claude", *words[:-1], "from there", script=[GOOD])
    assert [turn.prompt for turn in bench.store.turns(bench.store.session("S2"))] == [
        "first", "second", "third", "from there",
    ]  # fmt: skip


def test_acting_brings_a_store_back_that_is_gone(bench: Bench) -> None:
    bench.run("one", GOOD)
    uid = bench.store.sessions()[0].uid
    shutil.rmtree(bench.store.path.parent)
    assert "brought back" in ok(bench, "checkout", "@1", "-S", "S1").stderr
    assert [(each.uid, each.number) for each in bench.store.sessions()] == [(uid, 1)]


def test_the_context_is_that_of_the_session_last_active_here(bench: Bench) -> None:
    bench.run("one", {"say": "the answer"}, GOOD)
    done = ok(bench, "context")
    assert "the answer" in done.stdout
    assert "S1" in done.stderr


def test_a_session_begun_in_a_linked_worktree_is_listed_in_the_main_one(bench: Bench) -> None:
    git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(bench.project)]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    linked = bench.root / "linked"
    subprocess.run([*git, "worktree", "add", "-q", str(linked)], check=True)
    bench.run("over there", GOOD, cwd=linked)
    assert [each["first_prompt"] for each in json.loads(ok(bench, "list", "--json").stdout)["sessions"]] == [
        "over there"
    ]


def prompts_of(bench: Bench) -> dict[str, list[str]]:
    """What was asked in each session of the project."""
    return {
        session.shown_number or "": [turn.prompt for turn in bench.store.turns(session)]
        for session in bench.store.sessions()
    }


def test_a_checkout_of_a_session_has_the_next_prompt_go_there(bench: Bench) -> None:
    bench.run("one", GOOD)
    bench.run("two", GOOD, options=("-n",))
    assert ok(bench, "checkout", "S1").stdout == "Switched to S1 one\n"
    bench.run("three", GOOD)
    assert prompts_of(bench) == {"S1": ["one", "three"], "S2": ["two"]}


def test_the_session_that_was_named_last_is_the_one_gone_on_with(bench: Bench) -> None:
    bench.run("one", GOOD)
    bench.run("two", GOOD, options=("-n",))
    bench.run("three", GOOD, options=("-S", "S1"))
    bench.run("four", GOOD)
    bench.run("five", GOOD, options=("-n",))
    bench.run("six", GOOD)
    assert prompts_of(bench) == {"S1": ["one", "three", "four"], "S2": ["two"], "S3": ["five", "six"]}


def test_a_session_begun_after_a_checkout_is_the_one_gone_on_with(bench: Bench) -> None:
    bench.run("one", GOOD)
    bench.run("two", GOOD, options=("-n",))
    ok(bench, "checkout", "S1")
    bench.run("three", GOOD, options=("-n",))
    bench.run("four", GOOD)
    assert prompts_of(bench) == {"S1": ["one"], "S2": ["two"], "S3": ["three", "four"]}


def test_a_session_that_is_gone_is_not_the_one_gone_on_with(bench: Bench) -> None:
    bench.run("one", GOOD)
    bench.run("two", GOOD, options=("-n",))
    ok(bench, "checkout", "S1")
    ok(bench, "rm", "S1", "--yes")
    bench.run("three", GOOD)
    assert prompts_of(bench) == {"S2": ["two", "three"]}


def test_a_checkout_of_a_session_that_is_not_there_says_so(bench: Bench) -> None:
    bench.run("one", GOOD)
    refused = bench.backstory("checkout", "S9")
    assert refused.returncode == 66
    assert "S9" in refused.stderr
