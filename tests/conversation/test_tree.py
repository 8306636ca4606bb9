"""The conversation tree: ancestry, leaves, paths and differences, whatever foreign logs say about parents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.conversation.tree import Point, Span, Tree, diff, get_ancestry, get_leaf_messages, get_leaves
from backstory.model import Turn

if TYPE_CHECKING:
    from collections.abc import Mapping

DEEP = 100_000
RECORDS = 10
"""So many records each turn of these tests has."""


def turn(uid: str, parent: str | None = None, *, at: int = 1, parent_seq: int | None = None) -> Turn:
    first = at * RECORDS
    return Turn(
        uid=uid, agent="x", parent_uid=parent, parent_seq=parent_seq, first_seq=first, last_seq=first + RECORDS - 1
    )


def turns(parents: Mapping[str, str | None]) -> list[Turn]:
    """Turns in the order of the mapping, each behind the whole of its parent."""
    return [turn(uid, parent, at=at) for at, (uid, parent) in enumerate(parents.items())]


def uids(found: list[Turn]) -> list[str]:
    return [each.uid for each in found]


FORKED = {"u0": None, "a": "u0", "b": "a", "c": "a", "d": "c", "e": "c"}
sound = st.lists(st.integers(0, 30), min_size=1, max_size=40).map(
    lambda picks: {f"t{n}": (f"t{pick % n}" if n and pick else None) for n, pick in enumerate(picks)}
)
"""Trees: each turn follows an earlier one, or nothing."""
anyhow = st.dictionaries(
    st.integers(0, 12).map(lambda n: f"t{n}"), st.integers(0, 15).map(lambda n: f"t{n}" if n else None), max_size=13
)
"""What logs may say: circles, parents that are not there, several roots."""


# against a plain dictionary -----------------------------------------------------------------------------------


@given(sound)
def test_the_ancestry_is_what_following_parents_gives(parents: dict[str, str | None]) -> None:
    for uid in parents:
        chain: list[str] = []
        at: str | None = uid
        while at is not None:
            chain.append(at)
            at = parents[at]
        assert uids(get_ancestry(turns(parents), uid)) == chain[::-1]
        assert Tree(turns(parents)).depth(uid) == len(chain) - 1


@given(sound)
def test_leaves_are_the_turns_that_nobody_names_as_parent_newest_first(parents: dict[str, str | None]) -> None:
    expected = [uid for uid in parents if uid not in parents.values()]
    assert uids(get_leaves(turns(parents))) == expected[::-1]


@given(sound)
def test_children_are_those_that_name_a_turn_as_parent(parents: dict[str, str | None]) -> None:
    tree = Tree(turns(parents))
    for uid in [None, *parents]:
        assert uids(tree.children(uid)) == [each for each in parents if parents[each] == uid]


@given(anyhow)
def test_whatever_parents_are_told_every_turn_is_walked_once_and_after_the_one_it_follows(
    parents: dict[str, str | None],
) -> None:
    tree = Tree(turns(parents))
    order = uids(list(tree.walk()))
    assert sorted(order) == sorted(parents)
    for uid in parents:
        above = tree.parent(uid)
        assert above is None or order.index(above.uid) < order.index(uid)


@given(anyhow)
def test_a_circle_is_cut_once_and_at_its_first_turn(parents: dict[str, str | None]) -> None:
    tree = Tree(turns(parents))
    order = list(parents)
    for root in tree.children(None):
        named = parents[root.uid]
        if named in parents:
            below = uids(tree.below(root.uid))
            assert named in below
            circle = uids(tree.ancestry(str(named)))
            assert root.uid == min(circle, key=order.index)


@given(sound, st.data())
def test_two_paths_differ_in_what_only_one_of_them_holds(parents: dict[str, str | None], data: st.DataObject) -> None:
    tree = Tree(turns(parents))
    one, other = (data.draw(st.sampled_from(sorted(parents))) for _ in range(2))
    left, right = (tree.path(Point(uid, tree[uid].last_seq)) for uid in (one, other))
    parted = diff(left, right)
    shared = {span.uid for span in left} & {span.uid for span in right}
    assert [span.uid for span in parted.left] == [span.uid for span in left if span.uid not in shared]
    assert [span.uid for span in parted.right] == [span.uid for span in right if span.uid not in shared]
    assert (parted.fork is None) == (not shared)


@given(sound)
def test_every_branch_has_a_number_of_its_own_and_its_turns_keep_it_while_the_tree_grows(
    parents: dict[str, str | None],
) -> None:
    everything = turns(parents)
    before: dict[str, int] = {}
    for size in range(1, len(everything) + 1):
        tree = Tree(everything[:size])
        now = tree.numbers()
        assert sorted(now[turn.uid] for turn in tree.tips()) == list(range(1, len(tree.tips()) + 1))
        assert {uid: now[tree.tip(uid).uid] for uid in now} == now
        assert {uid: now[uid] for uid in before} == before
        before = now


# one by one ---------------------------------------------------------------------------------------------------


def test_a_fork_of_a_fork_has_its_own_ancestry() -> None:
    tree = turns(FORKED)
    assert uids(get_ancestry(tree, "e")) == ["u0", "a", "c", "e"]
    assert uids(get_ancestry(tree, "b")) == ["u0", "a", "b"]


def test_leaf_messages_is_another_name_for_leaves() -> None:
    assert uids(get_leaf_messages(turns(FORKED))) == ["e", "d", "b"]


@pytest.mark.slow
def test_a_chain_of_100000_turns_is_walked() -> None:
    chain = turns({f"t{n}": f"t{n - 1}" if n else None for n in range(DEEP)})
    tree = Tree(chain)
    assert len(tree.ancestry(f"t{DEEP - 1}")) == DEEP
    assert tree.depths()[f"t{DEEP - 1}"] == DEEP - 1
    assert set(tree.numbers().values()) == {1}
    assert len(tree.below("t0")) == DEEP


def test_a_tree_of_10000_leaves_numbers_each() -> None:
    broad = {"root": None} | {f"t{n}": "root" for n in range(10_000)}
    assert set(Tree(turns(broad)).numbers().values()) == set(range(1, 10_001))


@pytest.mark.parametrize(
    "parents", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "c", "b": "a", "c": "b", "d": "c"}], ids=str
)
def test_turns_in_a_circle_begin_with_the_first(parents: dict[str, str]) -> None:
    tree = Tree(turns(parents))
    assert uids(tree.children(None)) == ["a"]
    assert uids(tree.ancestry(list(parents)[-1])) == list(parents)


def test_a_parent_that_is_not_there_makes_a_root() -> None:
    tree = Tree(turns({"a": "gone", "b": "a"}))
    assert uids(tree.children(None)) == ["a"]
    assert tree.depth("b") == 1


def test_what_is_not_there_has_no_ancestry() -> None:
    assert get_ancestry(turns(FORKED), "nobody") == []
    assert get_leaves(list[Turn]()) == []


def test_two_roots_share_nothing() -> None:
    tree = Tree(turns({"a": None, "b": None}))
    parted = diff(tree.path(Point("a", 5)), tree.path(Point("b", 15)))
    assert parted.fork is None
    assert (parted.left, parted.right) == ([Span("a", 0, 5)], [Span("b", 10, 15)])


def test_a_record_does_not_differ_from_itself() -> None:
    path = Tree(turns(FORKED)).path(Point("d", 43))
    parted = diff(path, path)
    assert (parted.fork, parted.left, parted.right) == (Point("d", 43), [], [])


def test_a_path_holds_of_each_turn_what_comes_before_the_next() -> None:
    inside = [turn("a", at=0), turn("b", "a", at=1, parent_seq=4)]
    assert Tree(inside).path(Point("b", 12)) == [Span("a", 0, 4), Span("b", 10, 12)]


def test_paths_that_part_inside_a_turn_differ_in_its_rest() -> None:
    tree = Tree([turn("a", at=0), turn("b", "a", at=1, parent_seq=4)])
    parted = diff(tree.path(Point("a", 9)), tree.path(Point("b", 19)))
    assert parted.fork == Point("a", 4)
    assert (parted.left, parted.right) == ([Span("a", 5, 9)], [Span("b", 10, 19)])


def test_a_copy_with_other_numbers_parts_at_the_same_place() -> None:
    parted = diff([Span("a", 1, 9), Span("b", 10, 12)], [Span("a", 101, 105)])
    assert parted.fork == Point("a", 5)
    assert parted.left == [Span("a", 6, 9), Span("b", 10, 12)]


def test_a_number_outside_its_turn_cuts_nothing_off() -> None:
    wrong = [turn("a", at=3), turn("b", "a", at=4, parent_seq=2)]
    assert Tree(wrong).path(Point("b", 44)) == [Span("a", 30, 39), Span("b", 40, 44)]


def test_a_turn_that_was_left_in_the_middle_is_a_tip_and_no_leaf() -> None:
    tree = Tree([turn("a", at=0), turn("b", "a", at=1, parent_seq=4)])
    assert uids(tree.tips()) == ["b", "a"]
    assert uids(tree.leaves()) == ["b"]
    assert tree.numbers() == {"a": 1, "b": 2}


def test_what_a_branch_has_alone_ends_where_another_begins() -> None:
    tree = Tree(turns(FORKED))
    assert uids(tree.alone("b")) == ["b"]
    assert uids(tree.alone("e")) == ["e"]
    assert uids(Tree(turns({"a": None, "b": "a"})).alone("b")) == ["a", "b"]


def test_a_tip_inside_which_another_branch_begins_has_nothing_alone() -> None:
    tree = Tree([turn("a", at=0), turn("b", "a", at=1, parent_seq=4)])
    assert tree.alone("a") == []
    assert uids(tree.alone("b")) == ["b"]
