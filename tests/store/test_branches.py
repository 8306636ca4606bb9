"""Branches in the store: what is told, where the next prompt goes, names, removing; and all of it in copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.agents.contract import Exit
from backstory.conversation.context import build_context
from backstory.conversation.tree import Point, Tree
from backstory.errors import BranchNameTaken, BranchRemoved, RecordNotFound
from backstory.exchange import replication
from backstory.model import AssistantText, Compacted, Complete, Tool, ToolCall, ToolResult, Turn, UserMessage
from backstory.runs.spool import Run, Spool
from backstory.runs.stream import SpooledRun, append_run
from backstory.store import Session, Store, open_store
from backstory.store.file import maintenance
from backstory.store.tables import branches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.model import Event

LEAVES = 10_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "project" / "sessions.bks", now=lambda: 1_790_000_000_000) as opened:
        yield opened


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "home" / "store.db", shared=True) as opened:
        yield opened


@pytest.fixture
def session(store: Store) -> Session:
    """Two turns: @1 first, @2 its answer; @3 second, @4 a call, @5 its result, @6 its answer."""
    session = store.create_session()
    say(store, session, "first", "one")
    store.append_events(session, [UserMessage(content="second"), *call("t1"), AssistantText(text="two")])
    return session


def say(store: Store, session: Session, prompt: str, answer: str) -> None:
    store.append_events(session, [UserMessage(content=prompt), AssistantText(text=answer)])


def call(name: str) -> list[Event]:
    return [
        ToolCall(tool_use_id=name, tool_name="Bash", tool=Tool.SHELL, input={"command": f"run {name}"}),
        ToolResult(tool_use_id=name, tool_name="Bash", tool=Tool.SHELL, content=f"out {name}"),
    ]


def go_to(store: Store, session: Session, seq: int) -> None:
    store.checkout(session, store.place(session, seq).point)


def told(store: Store, session: Session, budget: int = 100_000) -> list[str]:
    return [each.turn.prompt for each in store.context_turns(session, budget)]


def prompts(store: Store, session: Session) -> dict[str, str]:
    """The uids of turns by their prompts."""
    return {turn.prompt: turn.uid for turn in store.turns(session)}


def silent(store: Store, session: Session, prompt: str, after: Point | None = None) -> SpooledRun:
    """A run that said nothing but that it was over."""
    run = Run(
        turn_uid=f"RUN{prompt}", session_uid=session.uid, store="s", agent="claude", prompt=prompt, cwd="/w",
        started=1_790_000_000_000, parent_uid=after.uid if after else None, parent_seq=after.seq if after else None,
    )  # fmt: skip
    spool = Spool.begin(store.path.parent / "spool", run, prompt)
    spool.stdout.write_bytes(b'{"type":"result","subtype":"success","session_id":""}\n')
    return SpooledRun(spool, run, Exit(code=0), 1_790_000_000_001)


def run(store: Store, session: Session, prompt: str, after: Point | None = None) -> Turn:
    """A run that says nothing, stored."""
    done = silent(store, session, prompt, after)
    append_run(done, store)
    return done.turn


# what is told -------------------------------------------------------------------------------------------------


def test_the_branch_that_was_checked_out_is_told_and_no_other(store: Store, session: Session) -> None:
    go_to(store, session, 2)
    say(store, session, "other", "three")
    assert told(store, session) == ["first", "other"]
    go_to(store, session, 6)
    assert told(store, session) == ["first", "second"]


def test_a_fork_of_a_fork_of_a_fork_is_told_its_own_ancestors(store: Store, session: Session) -> None:
    go_to(store, session, 2)
    say(store, session, "a", "@8")
    say(store, session, "a goes on", "@10")
    go_to(store, session, 8)
    say(store, session, "b", "@12")
    say(store, session, "b goes on", "@14")
    go_to(store, session, 12)
    say(store, session, "c", "@16")
    assert told(store, session) == ["first", "a", "b", "c"]
    assert store.branch_length(session) == 4


def test_a_turn_is_told_up_to_the_record_that_was_checked_out(store: Store, session: Session) -> None:
    go_to(store, session, 5)
    (_, second) = store.context_turns(session, 100_000)
    assert [event.kind for event in second.events] == ["ToolCall", "ToolResult"]


def test_a_turn_is_told_up_to_where_the_next_one_follows_it(store: Store, session: Session) -> None:
    go_to(store, session, 5)
    say(store, session, "instead", "three")
    text = build_context(store.context_turns(session, 100_000), budget_chars=100_000).text
    assert "out t1" in text
    assert "two" not in text
    assert text.index("second") < text.index("instead")


def test_only_so_many_turns_are_read_as_fill_the_budget(store: Store, session: Session) -> None:
    go_to(store, session, 2)
    say(store, session, "other", "x" * 500)
    assert told(store, session, 100) == ["other"]


def test_a_parent_that_comes_later_in_the_session_is_told_all_the_same(store: Store, session: Session) -> None:
    with store.writer() as db:
        first, second = store.turns(session)
        db.execute("update turns set parent_uid = ?, parent_seq = 6 where uid = ?", (second.uid, first.uid))
        db.execute("update turns set parent_uid = null, parent_seq = null where uid = ?", (second.uid,))
        db.execute("update sessions set leaf_uid = ?, leaf_seq = 2", (first.uid,))
    assert [len(each.events) for each in store.context_turns(session, 100_000)] == [3, 1]
    assert told(store, session) == ["second", "first"]


def test_a_turn_that_is_its_own_parent_is_told_once(store: Store, session: Session) -> None:
    with store.writer() as db:
        db.execute("update turns set parent_uid = uid, parent_seq = last_seq")
    assert told(store, session) == ["second"]
    assert store.branch_length(session) == 1


# where a record is --------------------------------------------------------------------------------------------


def test_a_record_between_a_call_and_its_result_is_taken_to_before_the_call(store: Store, session: Session) -> None:
    place = store.place(session, 4)
    assert (place.point.seq, place.asked) == (3, 4)
    assert store.place(session, 5).point.seq == 5


def test_of_calls_at_once_a_fork_comes_before_the_first_that_it_would_cut(store: Store) -> None:
    session = store.create_session()
    (one, one_done), (two, two_done) = call("t1"), call("t2")
    store.append_events(session, [UserMessage(content="go"), one, two, one_done, two_done])
    assert [store.place(session, seq).point.seq for seq in (2, 3, 4, 5)] == [1, 1, 1, 5]


def test_a_call_without_any_result_is_open(store: Store) -> None:
    session = store.create_session()
    store.append_events(session, [UserMessage(content="go"), AssistantText(text="I look"), call("t1")[0]])
    assert store.place(session, 3).point.seq == 2


def test_behind_the_end_of_a_turn_no_call_is_open(store: Store) -> None:
    session = store.create_session()
    store.append_events(session, [UserMessage(content="go"), call("t1")[0]])
    store.mark_completed(session, None, None, success=False)
    assert store.place(session, 2).point.seq == 2


def test_a_record_that_is_not_there_is_not_found(store: Store, session: Session) -> None:
    for seq in (0, 7, 1 << 62):
        with pytest.raises(RecordNotFound):
            store.place(session, seq)


def test_a_record_before_the_first_prompt_cannot_be_followed(store: Store) -> None:
    session = store.create_session()
    store.append_events(session, [AssistantText(text="a notice")])
    with pytest.raises(RecordNotFound, match="before the first prompt"):
        store.place(session, 1)


# runs ---------------------------------------------------------------------------------------------------------


def test_a_record_behind_which_nothing_is_said_is_the_end_of_its_turn(store: Store, session: Session) -> None:
    store.append_events(session, [UserMessage(content="third"), AssistantText(text="three"), Complete(success=True)])
    go_to(store, session, 8)
    assert store.leaf(session) == Point(prompts(store, session)["third"], 9)
    assert run(store, session, "fourth").parent_seq == 9


def test_a_run_follows_what_was_checked_out_and_ends_it(store: Store, session: Session) -> None:
    go_to(store, session, 2)
    first = prompts(store, session)["first"]
    turn = run(store, session, "other")
    assert (turn.parent_uid, turn.parent_seq) == (first, 2)
    assert store.leaf(session) == Point(turn.uid, turn.last_seq)
    assert run(store, session, "next").parent_uid == turn.uid


def test_a_run_follows_the_record_it_was_told_from_whatever_was_checked_out_since(
    store: Store, session: Session
) -> None:
    first = prompts(store, session)["first"]
    turn = run(store, session, "other", after=Point(first, 2))
    assert (turn.parent_uid, turn.parent_seq) == (first, 2)


def test_a_prompt_that_is_appended_follows_what_was_checked_out(store: Store, session: Session) -> None:
    go_to(store, session, 2)
    say(store, session, "other", "three")
    assert {turn.prompt: turn.parent_seq for turn in store.turns(session)} == {"first": None, "second": 2, "other": 2}
    say(store, session, "next", "four")
    assert told(store, session) == ["first", "other", "next"]


def test_a_checkout_stays_when_what_is_summed_up_is_summed_up_again(store: Store, session: Session) -> None:
    go_to(store, session, 2)
    store.mark_completed(session, 5, 0.5)
    maintenance.rederive_unlogged(store, session.id)
    leaf = store.leaf(session)
    assert leaf is not None
    assert leaf.seq == 2


def test_a_turn_that_only_its_end_divides_from_the_next_is_no_branch(store: Store) -> None:
    session = store.create_session()
    store.append_events(session, [UserMessage(content="go"), AssistantText(text="done"), Complete(success=True)])
    go_to(store, session, 2)
    say(store, session, "next", "more")
    assert [turn.parent_seq for turn in store.tree(session)] == [None, 3]


# names --------------------------------------------------------------------------------------------------------


def named(store: Store, session: Session) -> dict[str, str]:
    """Prompts of the turns that names are at."""
    of = {turn.uid: turn.prompt for turn in store.turns(session)}
    return {each.name: of[each.uid] for each in store.branch_names(session)}


@pytest.mark.parametrize("name", ["two words", "🎉", "a@b", "x" * 10_240, "-", "é\nf"], ids=lambda name: name[:9])
def test_a_branch_may_be_called_anything(store: Store, session: Session, name: str) -> None:
    store.name_branch(session, name, store.place(session, 6).point)
    assert named(store, session) == {name: "second"}


def test_a_name_goes_on_with_the_branch_as_it_grows(store: Store, session: Session) -> None:
    store.name_branch(session, "main", store.place(session, 6).point)
    say(store, session, "third", "three")
    run(store, session, "fourth")
    assert named(store, session) == {"main": "fourth"}


def test_a_name_stays_when_another_branch_begins_before_its_tip(store: Store, session: Session) -> None:
    store.name_branch(session, "main", store.place(session, 6).point)
    for seq in (2, 5):
        go_to(store, session, seq)
        say(store, session, f"beside {seq}", "no")
    assert named(store, session) == {"main": "second"}


def test_a_name_of_a_record_inside_goes_with_what_follows_that(store: Store, session: Session) -> None:
    store.name_branch(session, "early", store.place(session, 2).point)
    say(store, session, "elsewhere", "three")
    assert named(store, session) == {"early": "first"}
    go_to(store, session, 2)
    say(store, session, "from there", "four")
    assert named(store, session) == {"early": "from there"}


def test_a_name_is_one_branchs(store: Store, session: Session) -> None:
    store.name_branch(session, "main", store.place(session, 6).point)
    store.name_branch(session, "main", store.place(session, 6).point)
    with pytest.raises(BranchNameTaken):
        store.name_branch(session, "main", store.place(session, 2).point)


def test_a_name_can_be_taken_away(store: Store, session: Session) -> None:
    store.name_branch(session, "main", store.place(session, 6).point)
    store.unname_branch(session, "main")
    assert named(store, session) == {}


# removing -----------------------------------------------------------------------------------------------------


@pytest.fixture
def forked(store: Store, session: Session) -> Session:
    """As ``session``, with @7 third @8 behind the first turn, and @9 fourth @10 behind that, where it goes on."""
    go_to(store, session, 2)
    say(store, session, "third", "three")
    say(store, session, "fourth", "four")
    return session


def remove(store: Store, session: Session, *wanted: str) -> int:
    return store.remove_turns(session, [prompts(store, session)[prompt] for prompt in wanted])


def test_a_removed_branch_is_not_told_and_the_session_goes_on_where_it_began(store: Store, forked: Session) -> None:
    assert remove(store, forked, "third", "fourth") == 2
    first = prompts(store, forked)["first"]
    assert store.leaf(forked) == Point(first, 2)
    assert told(store, forked) == ["first"]
    assert [turn.prompt for turn in store.tree(forked)] == ["first", "second"]
    assert len(store.tree(forked, removed=True)) == 4


def test_branches_removed_at_once_are_restored_one_by_one(store: Store, forked: Session) -> None:
    remove(store, forked, "fourth")
    remove(store, forked, "second")
    store.restore_turns(forked, prompts(store, forked)["second"])
    assert [turn.prompt for turn in store.ask(branches.removed, forked.id)] == ["fourth"]


def test_removing_another_branch_leaves_the_session_where_it_is(store: Store, forked: Session) -> None:
    before = store.leaf(forked)
    remove(store, forked, "second")
    assert store.leaf(forked) == before


def test_a_removed_record_cannot_be_checked_out(store: Store, forked: Session) -> None:
    remove(store, forked, "third", "fourth")
    with pytest.raises(BranchRemoved):
        store.place(forked, 8)


def test_a_removed_branch_is_restored_as_it_was_with_its_name(store: Store, forked: Session) -> None:
    store.name_branch(forked, "main", store.place(forked, 10).point)
    remove(store, forked, "third", "fourth")
    assert named(store, forked) == {}
    assert store.restore_turns(forked, prompts(store, forked)["fourth"]) == 2
    assert named(store, forked) == {"main": "fourth"}
    assert store.ask(branches.removed, forked.id) == []


def test_what_was_removed_before_stays_removed_when_what_it_followed_comes_back(store: Store, forked: Session) -> None:
    remove(store, forked, "fourth")
    store.now = lambda: 1_790_000_000_500
    remove(store, forked, "third")
    store.restore_turns(forked, prompts(store, forked)["third"])
    assert [turn.prompt for turn in store.tree(forked)] == ["first", "second", "third"]


def test_what_is_restored_brings_back_what_it_comes_from(store: Store, forked: Session) -> None:
    remove(store, forked, "fourth")
    store.now = lambda: 1_790_000_000_500
    remove(store, forked, "third")
    store.restore_turns(forked, prompts(store, forked)["fourth"])
    assert [turn.prompt for turn in store.tree(forked)] == ["first", "second", "third", "fourth"]


def test_a_session_of_which_all_was_removed_begins_anew(store: Store, forked: Session) -> None:
    remove(store, forked, "first", "second", "third", "fourth")
    assert store.leaf(forked) is None
    assert told(store, forked) == []
    say(store, forked, "again", "five")
    assert [(turn.prompt, turn.parent_uid) for turn in store.tree(forked)] == [("again", None)]


def test_what_is_pruned_is_gone_and_the_store_is_whole(store: Store, session: Session) -> None:
    turn = run(store, session, "a run")
    run(store, session, "after it")
    remove(store, session, "a run", "after it")
    before = len(store.events(session))
    assert store.prune_turns(session) == 2
    assert len(store.events(session)) == before - 4
    assert turn.uid not in {each.uid for each in store.tree(session, removed=True)}
    assert store.ask(branches.removed, session.id) == []
    assert store.verify().problems == []


def test_what_only_a_pruned_turn_named_or_summed_up_is_gone_and_what_another_names_stays(
    store: Store, session: Session
) -> None:
    only, both = "https://github.com/o/only/pull/1", "https://github.com/o/both/pull/2"
    store.append_events(session, [UserMessage(content="doomed"), AssistantText(text=f"{only} {both}")])
    store.append_events(session, [Compacted(summary="a summary")])
    doomed = store.turns(session)[-1]
    go_to(store, session, 2)
    store.append_events(session, [UserMessage(content="kept"), AssistantText(text=f"see {both}")])
    kept = store.turns(session)[-1]
    store.remove_turns(session, [doomed.uid])
    store.prune_turns(session)
    asked = "select ref_value, seq from main.session_refs where repository like 'o/%'"
    assert store.execute_read_only(asked).rows == [("o/both#2", kept.last_seq)]
    assert store.execute_read_only("select count(*) from main.checkpoints").rows == [(0,)]
    assert store.verify().problems == []


def test_turns_keep_the_branch_they_were_on_when_they_are_pruned(store: Store, session: Session) -> None:
    go_to(store, session, 3)
    say(store, session, "from inside the second", "three")
    before = Tree(store.tree(session)).numbers()
    remove(store, session, "second", "from inside the second")
    store.prune_turns(session)
    say(store, session, "later", "four")
    assert len(store.tree(session)) == 2
    now = Tree(store.tree(session, pruned=True)).numbers()
    assert {uid: now[uid] for uid in before} == before
    assert now[prompts(store, session)["later"]] == 3


def test_pruning_all_sessions_prunes_each(store: Store, forked: Session) -> None:
    other = store.create_session()
    say(store, other, "alone", "one")
    remove(store, other, "alone")
    remove(store, forked, "fourth")
    assert store.prune_turns() == 2
    assert store.prune_turns() == 0


def test_a_pruned_turn_of_a_log_with_others_does_not_come_back_when_that_is_told_again(
    store: Store, forked: Session
) -> None:
    from backstory.ingest.reindex import reindex

    remove(store, forked, "third", "fourth")
    store.prune_turns(forked)
    assert reindex(store, now=1, events_too=True).failed == []
    assert [turn.prompt for turn in store.tree(forked)] == ["first", "second"]


# copies -------------------------------------------------------------------------------------------------------


def test_a_checkout_a_name_and_a_removal_go_with_the_session(store: Store, home: Store, forked: Session) -> None:
    store.name_branch(forked, "main", store.place(forked, 6).point)
    remove(store, forked, "fourth")
    go_to(store, forked, 5)
    replication.copy_session(home, store, forked.uid)
    copy = home.session(forked.uid)
    assert home.leaf(copy) == store.leaf(forked)
    assert named(home, copy) == {"main": "second"}
    assert [turn.prompt for turn in home.ask(branches.removed, copy.id)] == ["fourth"]


def test_what_was_decided_later_is_caught_up_with(store: Store, home: Store, forked: Session) -> None:
    replication.copy_session(home, store, forked.uid)
    assert replication.pull_sessions(home, store) == 0
    go_to(store, forked, 2)
    assert replication.pull_sessions(home, store) == 0
    assert home.leaf(home.session(forked.uid)) == store.leaf(forked)


def test_names_are_in_the_same_order_in_a_copy(store: Store, home: Store, session: Session) -> None:
    for name in ("zebra", "ape", "mole"):
        store.name_branch(session, name, store.place(session, 6).point)
    replication.copy_session(home, store, session.uid)
    assert [each.name for each in home.branch_names(home.session(session.uid))] == ["zebra", "ape", "mole"]


def test_branches_are_taken_over_without_the_rest(store: Store, home: Store, forked: Session) -> None:
    replication.copy_session(home, store, forked.uid)
    remove(store, forked, "fourth")
    store.name_branch(forked, "main", store.place(forked, 6).point)
    replication.replicate_session(home, store, forked.uid, has_all=True)
    copy = home.session(forked.uid)
    assert (home.leaf(copy), named(home, copy)) == (store.leaf(forked), {"main": "second"})
    store.restore_turns(forked, prompts(store, forked)["fourth"])
    replication.replicate_session(home, store, forked.uid, has_all=True)
    assert home.ask(branches.removed, copy.id) == []


def test_a_run_that_is_written_beside_has_the_same_parent(store: Store, home: Store, session: Session) -> None:
    replication.copy_session(home, store, session.uid)
    go_to(store, session, 2)
    assert append_run(silent(store, session, "other"), store, home)
    here, there = (each.turns(each.session(session.uid))[-1] for each in (store, home))
    assert (here.parent_uid, here.parent_seq) == (there.parent_uid, there.parent_seq)
    assert there.parent_seq == 2


def test_a_continuation_has_the_whole_tree(store: Store, tmp_path: Path, forked: Session) -> None:
    with open_store(tmp_path / "other" / "sessions.bks") as other:
        copy = replication.continue_session(other, store, forked.uid, store.place(forked, 6).point)
        assert [turn.uid for turn in other.tree(copy)] == [turn.uid for turn in store.tree(forked)]
        assert replication.continue_session(other, store, forked.uid).uid == copy.uid


def test_a_continuation_that_lacks_the_record_is_made_anew(store: Store, tmp_path: Path, session: Session) -> None:
    with open_store(tmp_path / "other" / "sessions.bks") as other:
        old = replication.continue_session(other, store, session.uid)
        say(store, session, "later", "three")
        new = replication.continue_session(other, store, session.uid, store.place(session, 8).point)
        assert new.uid != old.uid
        assert told(other, new) == ["first", "second", "later"]


# many ---------------------------------------------------------------------------------------------------------


def test_a_tree_of_10000_leaves_is_read_and_goes_on(store: Store, session: Session) -> None:
    first = prompts(store, session)["first"]
    with store.writer() as db:
        db.executemany(
            "insert into turns(session_id, uid, parent_uid, parent_seq, first_seq, last_seq, agent, prompt) "
            "values (?, ?, ?, 2, ?, ?, 'x', 'many')",
            [(session.id, f"T{n}", first, 100 + n, 100 + n) for n in range(LEAVES)],
        )
    assert len(store.tree(session)) == LEAVES + 2
    store.checkout(session, Point("T77", 177))
    assert told(store, session) == ["first", "many"]


def test_the_earlier_name_of_context_turns_works_and_warns(store: Store) -> None:
    session = store.create_session()
    store.append_events(session, [UserMessage(content="hello")])
    with pytest.warns(DeprecationWarning, match="context_turns"):
        earlier = store.told_turns(session, 100)
    assert earlier == store.context_turns(session, 100)
