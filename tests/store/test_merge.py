"""Copies of a store that went on separately become one: a test for each rule of the table in docs/file-format.md."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from backstory.conversation.tree import Point
from backstory.exchange import merging, replication
from backstory.model import AssistantText, UserMessage
from backstory.store.tables import compactions, decisions, sessions
from backstory.store.tables.compactions import NewCompaction
from tests.support.copies import merge, opened, said, say
from tests.support.machines import bytes_of, kept, looked_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backstory.store import Store
    from tests.support.clock import Clock


class Copies:
    """Two copies of a store with one session of two turns, which can be merged either way round."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        with opened(folder / "one", clock) as store:
            session = store.create_session("herons")
            say(store, session, "first")
            clock.ms += 1
            say(store, session, "second")
        self.begin()

    def begin(self) -> None:
        """Have two copies of what the first holds."""
        if "one" in self.__dict__:
            self.close()
        shutil.copy(self._folder / "one", self._folder / "two")
        self.one, self.two = (opened(self._folder / name, self._clock) for name in ("one", "two"))

    def close(self) -> None:
        self.one.close()
        self.two.close()

    def at(self, ms: int, store: Store, change: Callable[[Store], object]) -> None:
        """Change one of them so many ms later."""
        self._clock.ms += ms
        change(store)

    def merged(self) -> tuple[Store, Store]:
        """Each with the other merged into it; what both say is the same."""
        self._clock.ms += 1_000
        self.close()
        for name in ("one", "two"):
            shutil.copy(self._folder / name, self._folder / f"{name}-before")
        self.one, self.two = (opened(self._folder / name, self._clock) for name in ("one", "two"))
        for store, other in ((self.one, "two-before"), (self.two, "one-before")):
            with opened(self._folder / other, self._clock) as theirs:
                merge(store, theirs)
            assert store.verify().problems == []
        assert said(self.one) == said(self.two)
        return self.one, self.two


@pytest.fixture
def copies(tmp_path: Path, clock: Clock) -> Iterator[Copies]:
    made = Copies(tmp_path, clock)
    yield made
    made.close()


def prompts(store: Store) -> set[str]:
    return {turn.prompt for turn in store.turns(1)}


def tips(store: Store) -> dict[str, str]:
    """The prompt at the tip of each named branch."""
    by_uid = {turn.uid: turn.prompt for turn in store.tree(1)}
    return {each.name: by_uid[each.uid] for each in store.branch_names(1)}


def point(store: Store, prompt: str) -> Point:
    turn = next(turn for turn in store.tree(1) if turn.prompt == prompt)
    return Point(turn.uid, turn.last_seq)


def test_a_turn_that_one_lacks_comes_as_a_branch(copies: Copies) -> None:
    copies.at(1, copies.one, lambda store: say(store, 1, "here"))
    copies.at(1, copies.two, lambda store: say(store, 1, "there"))
    for store in copies.merged():
        tree = {turn.prompt: turn for turn in store.tree(1)}
        assert tree.keys() == {"first", "second", "here", "there"}
        assert tree["here"].parent_uid == tree["there"].parent_uid == tree["second"].uid
        assert [hit.scope for hit in store.search("there").hits] == ["prompt"]


def test_of_one_turn_the_copy_with_more_events_stays(copies: Copies) -> None:
    copies.at(1, copies.one, lambda store: store.append_events(1, [AssistantText(text="more")]))
    copies.at(
        1, copies.two, lambda store: store.append_events(1, [AssistantText(text="yet"), AssistantText(text="more")])
    )
    for store in copies.merged():
        texts = [each.event.text for each in store.events(1) if isinstance(each.event, AssistantText)]
        assert texts == ["to first", "to second", "yet", "more"]
        assert store.search("yet").hits != []


def test_of_one_turn_with_as_many_events_both_keep_the_same_copy(copies: Copies) -> None:
    copies.at(0, copies.one, lambda store: store.append_events(1, [AssistantText(text="a heron")]))
    copies.at(0, copies.two, lambda store: store.append_events(1, [AssistantText(text="a stork")]))
    last = [[each.event for each in store.events(1)][-1] for store in copies.merged()]
    assert last[0] == last[1]


def test_bytes_of_both_are_kept_unless_one_is_the_beginning_of_the_other(copies: Copies) -> None:
    before = kept(copies.one)
    copies.at(1, copies.two, lambda store: say(store, 1, "there"))
    (longer,) = kept(copies.two)
    assert [kept(store) for store in copies.merged()] == [[longer], [longer]]
    assert [longer] != before
    copies.begin()
    copies.at(1, copies.one, lambda store: say(store, 1, "here"))
    copies.at(1, copies.two, lambda store: say(store, 1, "elsewhere"))
    both = sorted([*kept(copies.one), *kept(copies.two)])
    assert [kept(store) for store in copies.merged()] == [both, both]
    assert sorted(log.kind for log in copies.one.logs(1)) == ["api", "copy api"]


def test_the_name_given_last_counts(copies: Copies) -> None:
    copies.at(1, copies.two, lambda store: store.rename(1, "cranes"))
    copies.at(1, copies.one, lambda store: store.rename(1, "storks"))
    assert [store.session("S1").name for store in copies.merged()] == ["storks", "storks"]
    copies.begin()
    copies.at(1, copies.two, lambda store: store.rename(1, ""))
    assert [store.session("S1").name for store in copies.merged()] == ["", ""]


def test_of_a_key_of_the_context_what_was_set_or_unset_last_counts(copies: Copies) -> None:
    copies.at(1, copies.two, lambda store: said_of(store, "ticket", "A-2"))
    copies.at(1, copies.one, lambda store: said_of(store, "ticket", "A-1"))
    copies.at(1, copies.two, lambda store: said_of(store, "place", "there"))
    both = {"place": "there", "ticket": "A-1"}
    assert [context(store) for store in copies.merged()] == [both] * 2
    copies.begin()
    copies.at(1, copies.two, lambda store: said_of(store, "ticket", None))
    assert [context(store) for store in copies.merged()] == [{"place": "there"}] * 2


def said_of(store: Store, key: str, value: str | None) -> None:
    store.decide(decisions.set_context, store.session(1).uid, key, value, store.now())


def context(store: Store) -> dict[str, str]:
    return store.ask(decisions.context_of, store.session(1).uid)


def test_a_session_that_is_new_comes_with_what_was_set_in_its_context(copies: Copies) -> None:
    new = copies.two.create_session("new")
    say(copies.two, new, "there")
    copies.at(1, copies.two, lambda store: store.decide(decisions.set_context, new.uid, "ticket", "A-1", store.now()))
    one, _ = copies.merged()
    assert one.ask(decisions.context_of, new.uid) == {"ticket": "A-1"}


def test_the_branch_name_given_or_moved_last_counts(copies: Copies) -> None:
    copies.at(1, copies.one, lambda store: store.name_branch(1, "main", point(store, "second")))
    copies.begin()
    copies.at(1, copies.one, lambda store: say(store, 1, "here"))
    copies.at(1, copies.two, lambda store: say(store, 1, "there"))
    assert [tips(store) for store in copies.merged()] == [{"main": "there"}] * 2
    copies.begin()
    copies.at(1, copies.one, lambda store: store.unname_branch(1, "main"))
    copies.at(1, copies.two, lambda store: store.name_branch(1, "side", point(store, "here")))
    assert [tips(store) for store in copies.merged()] == [{"side": "here"}] * 2


def test_the_later_checkout_or_run_says_where_a_session_goes_on(copies: Copies) -> None:
    copies.at(1, copies.one, lambda store: say(store, 1, "here"))
    copies.at(1, copies.two, lambda store: store.checkout(1, point(store, "first")))
    assert [store.leaf(1) for store in copies.merged()] == [point(copies.one, "first"), point(copies.two, "first")]
    copies.begin()
    copies.at(1, copies.two, lambda store: store.checkout(1, point(store, "second")))
    copies.at(1, copies.one, lambda store: say(store, 1, "later"))
    assert [store.leaf(1) for store in copies.merged()] == [point(copies.one, "later"), point(copies.two, "later")]


def test_of_a_removed_branch_the_later_decision_counts(copies: Copies) -> None:
    (second,) = [turn.uid for turn in copies.one.tree(1) if turn.prompt == "second"]
    copies.at(1, copies.one, lambda store: store.remove_turns(1, [second]))
    copies.begin()
    copies.at(1, copies.one, lambda store: store.restore_turns(1, second))
    assert [prompts(store) for store in copies.merged()] == [{"first", "second"}] * 2
    assert [len(store.tree(1)) for store in (copies.one, copies.two)] == [2, 2]
    copies.at(1, copies.one, lambda store: store.remove_turns(1, [second]))
    copies.at(1, copies.one, lambda store: store.prune_turns(1))
    for store in copies.merged():
        assert [turn.prompt for turn in store.tree(1)] == ["first"]
        assert prompts(store) == {"first", ""}
        assert not any("to second" in str(each.event) for each in store.events(1))


def test_of_a_pruned_turn_nothing_that_was_derived_comes_back(copies: Copies) -> None:
    (second,) = [turn.uid for turn in copies.one.tree(1) if turn.prompt == "second"]
    copies.at(1, copies.two, lambda store: say(store, 1, "there"))
    named = (
        "insert into session_refs(session_id, ref_type, ref_value, turn_id, seq) select 1, 'pr', '12', id, first_seq"
    )
    looked_up(copies.two.path, f"{named} from turns where prompt = 'second'")
    copies.at(1, copies.one, lambda store: store.remove_turns(1, [second]))
    copies.at(1, copies.one, lambda store: store.prune_turns(1))
    for store in copies.merged():
        assert looked_up(store.path, "select ref_value from session_refs") == []


def test_what_a_turn_says_of_its_models_window_comes_with_it(copies: Copies) -> None:
    copies.at(1, copies.two, lambda store: say(store, 1, "there"))
    looked_up(copies.two.path, "update turns set context_window = 200000 where prompt = 'there'")
    for store in copies.merged():
        assert looked_up(store.path, "select prompt from turns where context_window = 200000") == [("there",)]


def test_a_file_beside_a_log_comes_though_the_log_is_the_same(copies: Copies) -> None:
    looked_up(
        copies.two.path,
        "insert into sidecars(log_id, name, size, mtime_ns, sha256, data) "
        "select min(id), 'plan.md', 0, 7, x'00', x'00' from logs",
    )
    assert merge(copies.one, copies.two)
    assert looked_up(copies.one.path, "select name, mtime_ns from sidecars") == [("plan.md", 7)]
    assert not merge(copies.one, copies.two)


def test_a_session_that_went_on_after_it_was_removed_stays(copies: Copies) -> None:
    uid = copies.one.uids()[0]
    copies.at(1, copies.one, lambda store: store.remove(1))
    copies.at(1, copies.two, lambda store: say(store, 1, "and yet"))
    assert merging.plan_merge(copies.one, copies.two, is_trusted=True).went_on == [uid]
    assert merging.plan_merge(copies.two, copies.one, is_trusted=True).stay == [uid]
    for store in copies.merged():
        assert {turn.prompt for turn in store.turns(store.session(uid))} == {"first", "second", "and yet"}
        assert not store.ask_or(False, sessions.is_forgotten, uid)


def test_a_session_that_was_not_touched_since_it_was_removed_is_removed(copies: Copies) -> None:
    uid = copies.one.uids()[0]
    copies.at(1, copies.two, lambda store: say(store, 1, "before"))
    copies.at(1, copies.one, lambda store: store.remove(1))
    assert merging.plan_merge(copies.one, copies.two, is_trusted=True).left_out == [uid]
    for store in copies.merged():
        assert not store.has(uid)
        assert store.ask_or(False, sessions.is_forgotten, uid)


def test_a_session_removed_in_both_stays_removed(copies: Copies) -> None:
    uid = copies.one.uids()[0]
    copies.at(1, copies.one, lambda store: store.remove(1))
    copies.at(1, copies.two, lambda store: store.remove(1))
    for store in copies.merged():
        assert store.ask(sessions.count) == 0
        assert store.ask_or(False, sessions.is_forgotten, uid)


def test_summaries_of_both_are_kept_and_the_last_made_is_in_force(copies: Copies) -> None:
    for store, words in ((copies.two, "of two"), (copies.one, "of one")):
        last = point(store, "first").seq
        copies.at(1, store, lambda store, words=words, last=last: store.decide(  # type: ignore[misc]
            compactions.add, 1, NewCompaction(after_seq=last, summary=f"a summary {words}")))  # fmt: skip
        looked_up(store.path, f"update compactions set created = '2026-09-21T00:00:0{len(words) % 3}.{words[3:]}'")
    merged = copies.merged()
    for store in merged:
        rows = looked_up(store.path, "select summary from compactions order by created")
        assert [row for (row,) in rows] == ["a summary of one", "a summary of two"]
        context = store.ask(compactions.history, 1, 1_000)
        assert context.summary == "a summary of two"
    copies.begin()
    copies.at(1, copies.two, lambda store: store.decide(compactions.undo, 1))
    for store in copies.merged():
        assert store.ask(compactions.history, 1, 1_000).summary == "a summary of one"


def test_our_s_numbers_stay_and_new_sessions_get_the_next_ones(copies: Copies) -> None:
    for store, words in ((copies.one, ["mine"]), (copies.two, ["theirs", "and theirs"])):
        for each in words:
            copies.at(1, store, lambda store, each=each: say(store, store.create_session(each), each))  # type: ignore[misc]
    copies.merged()
    numbered = [{each.shown_number: each.name for each in store.sessions()} for store in (copies.one, copies.two)]
    assert numbered == [
        {"S1": "herons", "S2": "mine", "S3": "theirs", "S4": "and theirs"},
        {"S1": "herons", "S2": "theirs", "S3": "and theirs", "S4": "mine"},
    ]
    assert copies.one.create_session().shown_number == "S5"


def test_our_record_numbers_stay_and_those_that_come_are_said(copies: Copies) -> None:
    copies.at(1, copies.one, lambda store: say(store, 1, "here"))
    copies.at(1, copies.two, lambda store: say(store, 1, "there"))
    before = {turn.prompt: turn.first_seq for turn in copies.one.tree(1)}
    done = replication.merge(copies.one, copies.two, copies.one.uids()[0])
    now = {turn.prompt: turn.first_seq for turn in copies.one.tree(1)}
    assert {prompt: now[prompt] for prompt in before} == before
    (moved,) = done.moved
    assert (moved.first, moved.here) == (before["here"], now["there"])
    assert moved.last - moved.first == 3


def test_of_a_store_that_nobody_trusts_only_turns_and_bytes_come(copies: Copies) -> None:
    mine, two = copies.one.create_session("mine"), copies.two
    say(copies.one, mine, "of mine")
    copies.at(1, two, lambda store: store.append_events(1, [AssistantText(text="a lie about the second")]))
    copies.at(1, two, lambda store: say(store, 1, "there"))
    copies.at(1, two, lambda store: store.rename(1, "a name of theirs"))
    copies.at(1, two, lambda store: said_of(store, "ticket", "a value of theirs"))
    copies.at(1, two, lambda store: store.name_branch(1, "theirs", point(store, "there")))
    copies.at(1, two, lambda store: store.remove_turns(1, [point(store, "first").uid]))
    say(two, two.create_session("new of theirs"), "new")
    looked_up(two.path, "insert into forgotten(uid, at) values (?, ?)", mine.uid, 1 << 50)
    removed = copies.one.create_session("removed here")
    leaf = copies.one.leaf(1)
    merge(copies.one, two, is_trusted=False)
    store = copies.one
    assert (store.session(1).name, context(store), tips(store), store.leaf(1)) == ("herons", {}, {}, leaf)
    assert [turn.prompt for turn in store.tree(1)] == ["first", "second", "there"]
    assert not any("a lie" in str(each.event) for each in store.events(1))
    assert (store.has(mine.uid), store.ask_or(False, sessions.is_forgotten, mine.uid)) == (True, False)
    copies.at(1, store, lambda store: store.remove(removed))
    copies.at(1, two, lambda store: say(store, 1, "later"))
    looked_up(two.path, "update sessions set uid = ? where id = 1", removed.uid)
    merge(store, two, is_trusted=False)
    assert not store.has(removed.uid)
    (new,) = [each for each in store.sessions() if each.name not in ("herons", "mine")]
    assert (new.name, new.turns, store.verify().problems) == ("", 1, [])


def test_merging_again_changes_nothing(copies: Copies) -> None:
    copies.at(1, copies.one, lambda store: say(store, 1, "here"))
    copies.at(1, copies.two, lambda store: say(store, store.create_session("new"), "there"))
    one, two = copies.merged()
    before = one.path.read_bytes()
    assert not merge(one, two)
    with opened(two.path.with_name("two-before"), copies._clock) as other:
        assert not merge(one, other)
    assert one.path.read_bytes()[100:] == before[100:]


def test_a_turn_that_begins_a_session_in_both_makes_two_roots(copies: Copies) -> None:
    empty = copies.one.create_session("empty")
    copies.begin()
    copies.at(1, copies.one, lambda store: store.append_events(empty, [AssistantText(text="before any prompt here")]))
    copies.at(1, copies.one, lambda store: say(store, empty, "here"))
    copies.at(1, copies.two, lambda store: store.append_events(empty, [AssistantText(text="before any prompt there")]))
    copies.at(1, copies.two, lambda store: store.append_events(empty, [UserMessage(content="there")]))
    for store in copies.merged():
        tree = {turn.prompt: turn.parent_uid for turn in store.tree(store.session(empty.uid))}
        assert tree == {"here": None, "there": None}
        events = [str(each.event) for each in store.events(store.session(empty.uid))]
        assert sum("before any prompt" in each for each in events) == 2


def test_a_log_larger_than_a_slice_is_copied_in_several_and_is_whole(
    copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    from backstory.exchange import merge_logs

    for n in range(30):
        copies.at(1, copies.two, lambda store, n=n: say(store, 1, f"{n} {'x' * 2_000}"))  # type: ignore[misc]
    monkeypatch.setattr(merge_logs, "SLICE_BYTES", 1_000)
    one, two = copies.merged()
    assert [bytes_of(one, log.id) for log in one.logs(1)] == [bytes_of(two, log.id) for log in two.logs(1)]
