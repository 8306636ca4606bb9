"""The conversation tree: turns that follow turns. Values only; nothing here recurses, however deep a tree is.

A turn follows its parent at a record (``parent_seq``), which may lie inside it. What foreign logs say is taken as it
comes: a parent that is not there makes a root, and so does, of turns that follow each other in a circle, the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from msgspec import Struct


class Node(Protocol):
    """The fields of a turn that a tree needs; ``model.Turn`` has them."""

    @property
    def uid(self) -> str: ...
    @property
    def parent_uid(self) -> str | None: ...
    @property
    def parent_seq(self) -> int | None: ...
    @property
    def first_seq(self) -> int: ...
    @property
    def last_seq(self) -> int: ...


N = TypeVar("N", bound=Node)


class Point(Struct, frozen=True):
    """A record of a turn: where something follows, or could."""

    uid: str
    seq: int


class Span(Struct, frozen=True):
    """Records of one turn, from ``first`` to ``last``, both included."""

    uid: str
    first: int
    last: int


class Difference(Struct, frozen=True, kw_only=True):
    """The place where two paths part, and the turns of each from there on. ``fork`` is None if they share nothing."""

    fork: Point | None
    left: list[Span]
    right: list[Span]


def get_ancestry(turns: Iterable[N], uid: str) -> list[N]:
    """The turns from the root to this one, both included; nothing where it is not among ``turns``.

    >>> from backstory.model import Turn
    >>> turns = [Turn(uid="a", agent="x"), Turn(uid="b", agent="x", parent_uid="a")]
    >>> [turn.uid for turn in get_ancestry(turns, "b")]
    ['a', 'b']
    """
    return Tree(turns).ancestry(uid)


def get_leaves(turns: Iterable[N]) -> list[N]:
    """The turns that no other follows, the newest first.

    >>> from backstory.model import Turn
    >>> turns = [Turn(uid=uid, agent="x", parent_uid=parent) for uid, parent in (("a", None), ("b", "a"), ("c", "a"))]
    >>> sorted(turn.uid for turn in get_leaves(turns))
    ['b', 'c']
    """
    return Tree(turns).leaves()


get_leaf_messages = get_leaves


class Tree(Generic[N]):
    """Turns by who follows whom. Roots and children are in the order of their first records."""

    def __init__(self, turns: Iterable[N]) -> None:
        self._nodes: dict[str, N] = {}
        for turn in sorted(turns, key=lambda each: each.first_seq):
            self._nodes.setdefault(turn.uid, turn)
        self._parents = _parents(self._nodes)
        self._children: dict[str | None, list[N]] = {}
        self._next: dict[str, str] = {}
        """The first turn that follows the last record of each."""
        for uid, node in self._nodes.items():
            parent = self._parents[uid]
            self._children.setdefault(parent, []).append(node)
            if parent is not None and (node.parent_seq is None or node.parent_seq >= self._nodes[parent].last_seq):
                self._next.setdefault(parent, uid)

    def __contains__(self, uid: object) -> bool:
        return uid in self._nodes

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[N]:
        return iter(self._nodes.values())

    def __getitem__(self, uid: str) -> N:
        return self._nodes[uid]

    def parent(self, uid: str) -> N | None:
        """The turn that this one follows; None for a root."""
        parent = self._parents[uid]
        return None if parent is None else self._nodes[parent]

    def children(self, uid: str | None) -> list[N]:
        """The turns that follow this one, inside it or behind it; of None the roots."""
        return self._children.get(uid, [])

    def ancestry(self, uid: str) -> list[N]:
        """The turns from the root to this one; nothing where it is not there."""
        found: list[N] = []
        at: str | None = uid if uid in self._nodes else None
        while at is not None:
            found.append(self._nodes[at])
            at = self._parents[at]
        return found[::-1]

    def depth(self, uid: str) -> int:
        """Return the number of turns above this one: 0 for a root."""
        return max(len(self.ancestry(uid)) - 1, 0)

    def depths(self) -> dict[str, int]:
        """The depth of every turn, by its uid."""
        found: dict[str, int] = {}
        for node in self.walk():
            parent = self._parents[node.uid]
            found[node.uid] = 0 if parent is None else found[parent] + 1
        return found

    def below(self, uid: str) -> list[N]:
        """This turn and all that come from it, each after the one it follows."""
        found, waiting = list[N](), [self._nodes[uid]]
        while waiting:
            node = waiting.pop()
            found.append(node)
            waiting += reversed(self.children(node.uid))
        return found

    def walk(self) -> Iterator[N]:
        """Every turn, each after the one it follows, a branch to its end before the next."""
        for root in self.children(None):
            yield from self.below(root.uid)

    def leaves(self) -> list[N]:
        """The turns without children, the newest first."""
        return [node for node in reversed(self._nodes.values()) if node.uid not in self._children]

    def tips(self) -> list[N]:
        """The turns whose last record nothing follows, the newest first: the leaves, and those left in the middle."""
        return [node for node in reversed(self._nodes.values()) if node.uid not in self._next]

    def numbers(self) -> dict[str, int]:
        """The number (1, 2, …) of the branch that each turn is on: one that begins later has a higher one.

        A branch is a turn and what goes on from it first, to its tip. It keeps its number as the tree grows.
        """
        simply = set(self._next.values())
        begins = (uid for uid in self._nodes if uid not in simply)
        found: dict[str, int] = {}
        for number, begin in enumerate(begins, 1):
            at: str | None = begin
            while at is not None:
                found[at] = number
                at = self._next.get(at)
        return found

    def tip(self, uid: str) -> N:
        """The tip that is reached from a turn by always going on with what followed it first."""
        while uid in self._next:
            uid = self._next[uid]
        return self._nodes[uid]

    def branch(self, tip: str) -> list[N]:
        """The turns of the branch with this tip, from where it begins; those before are another branch's."""
        found = [self._nodes[tip]]
        while (parent := self._parents[found[-1].uid]) is not None and self._next.get(parent) == found[-1].uid:
            found.append(self._nodes[parent])
        return found[::-1]

    def path(self, to: Point) -> list[Span]:
        """The records that lead to this one, turn by turn from the root: of each turn up to where the next begins."""
        spans: list[Span] = []
        cut: int | None = to.seq
        for node in reversed(self.ancestry(to.uid)):
            last = cut if cut is not None and node.first_seq <= cut <= node.last_seq else node.last_seq
            spans.append(Span(node.uid, node.first_seq, last))
            cut = node.parent_seq
        return spans[::-1]

    def alone(self, uid: str) -> list[N]:
        """The turns that only the branch with this tip has; none where another branch begins inside the tip."""
        if self.children(uid):
            return []
        found = [self._nodes[uid]]
        while (parent := self._parents[found[-1].uid]) is not None:
            if len(self.children(parent)) > 1 or self._next.get(parent) != found[-1].uid:
                break
            found.append(self._nodes[parent])
        return found[::-1]


def diff(left: Sequence[Span], right: Sequence[Span]) -> Difference:
    """Compare two paths: turns by uid, and how far into them by counting from their first records.

    >>> diff([Span("a", 1, 4), Span("b", 5, 6)], [Span("a", 1, 2), Span("c", 7, 9)])
    Difference(fork=Point(uid='a', seq=2), left=[Span(uid='a', first=3, last=4), Span(uid='b', first=5, last=6)], \
right=[Span(uid='c', first=7, last=9)])
    """
    shared = 0
    while shared < min(len(left), len(right)) and left[shared].uid == right[shared].uid:
        shared += 1
        if _length(left[shared - 1]) != _length(right[shared - 1]):
            break
    if not shared:
        return Difference(fork=None, left=list(left), right=list(right))
    ours, theirs = left[shared - 1], right[shared - 1]
    length = min(_length(ours), _length(theirs))
    return Difference(
        fork=Point(ours.uid, ours.first + length),
        left=[*_rest(ours, length), *left[shared:]],
        right=[*_rest(theirs, length), *right[shared:]],
    )


def _length(span: Span) -> int:
    return span.last - span.first


def _rest(span: Span, length: int) -> list[Span]:
    return [Span(span.uid, span.first + length + 1, span.last)] if _length(span) > length else []


def _parents(nodes: dict[str, N]) -> dict[str, str | None]:
    """The parent of each turn, without those that are not there and without circles."""
    parents: dict[str, str | None] = {}
    for uid, node in nodes.items():
        parents[uid] = node.parent_uid if node.parent_uid in nodes else None
    is_sound: set[str] = set()
    for uid in nodes:
        # Whatever leads back to where this walk has been closes a circle, which is cut above its first turn.
        walked: dict[str, None] = {}
        at: str | None = uid
        while at is not None and at not in is_sound and at not in walked:
            walked[at] = None
            at = parents[at]
        if at is not None and at in walked:
            order = list(walked)
            circle = order[order.index(at) :]
            parents[min(circle, key=lambda each: (nodes[each].first_seq, each))] = None
        is_sound.update(walked)
    return parents
