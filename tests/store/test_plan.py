"""A plan between two stores: what it says of any two, and that performing it twice changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from backstory import ids
from backstory.model import AssistantText, UserMessage
from backstory.store import Store
from backstory.store.tables import decisions as store_decisions
from backstory.store.tables.plan import (
    NAME,
    TURN,
    CopySession,
    Decide,
    Decisions,
    Differ,
    Prune,
    Remove,
    SessionState,
    Side,
    Step,
    StoreState,
    Value,
    about_branch,
    fitting,
    merge,
    plan,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

OWNER = "P" * 26
UIDS = ["0" * 25 + "A", "0" * 25 + "B"]
TURNS = ["t1", "t2", "t3"]
BRANCHES = [about_branch("main"), about_branch("side")]
ABOUTS = [NAME, *BRANCHES, *(f"{TURN}{turn}" for turn in TURNS)]
TIMES = st.integers(1, 4)


def state(
    uid: str,
    owner: str | None,
    turns: frozenset[str],
    ended: frozenset[str],
    decided: Decisions,
    pruned: frozenset[str],
) -> SessionState:
    """A session whose facts agree with each other."""
    values = {about: value for about, value in decided.values.items() if fits(about, turns)}
    values |= {f"{TURN}{turn}": 1 for turn in pruned if f"{TURN}{turn}" not in values}
    at = {about: ms for about, ms in decided.at.items() if fits(about, turns)}
    removed = {turn for turn in turns if f"{TURN}{turn}" in values}
    return SessionState(
        uid=uid,
        owner=owner,
        is_borrowed=False,
        content=tuple(sorted(turns)),
        decided=Decisions(values=values, at=at, leaf=decided.leaf),
        turns=turns,
        finished=ended & turns - removed,
        pruned={turn: int(str(values[f"{TURN}{turn}"])) for turn in pruned},
        last_started=len(turns),
    )


def fits(about: str, turns: frozenset[str]) -> bool:
    return not about.startswith(TURN) or about[len(TURN) :] in turns


@st.composite
def decisions(draw: st.DrawFn) -> Decisions:
    values: dict[str, Value] = {NAME: draw(st.sampled_from(["", "herons", "cranes"]))}
    for name in draw(st.sets(st.sampled_from(["main", "side"]))):
        values[about_branch(name)] = (name, draw(st.sampled_from(TURNS)), None, draw(TIMES), None)
    values |= {f"{TURN}{turn}": draw(TIMES) for turn in draw(st.sets(st.sampled_from(TURNS)))}
    at = draw(st.dictionaries(st.sampled_from(ABOUTS), TIMES))
    return Decisions(values=values, at=at, leaf=(draw(st.sampled_from(TURNS)), None))


@st.composite
def sessions(draw: st.DrawFn, uid: str, owner: str | None) -> SessionState:
    turns = frozenset(draw(st.sets(st.sampled_from(TURNS))))
    ended = frozenset(draw(st.sets(st.sampled_from(TURNS))))
    pruned = frozenset(draw(st.sets(st.sampled_from(sorted(turns))))) if turns else turns
    return state(uid, owner, turns, ended, draw(decisions()), pruned)


class Pair(Struct, frozen=True):
    ours: StoreState
    theirs: StoreState


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    held: dict[str, list[SessionState]] = {"": [], OWNER: []}
    for uid in UIDS:
        owner = draw(st.sampled_from([OWNER, None]))
        for store in draw(st.sampled_from([("",), (OWNER,), ("", OWNER), ()])):
            held[store].append(draw(sessions(uid, owner)))
    ours, theirs = (
        StoreState(
            store_id=store,
            sessions={each.uid: each for each in found},
            removed={
                ids.session_identity(uid): draw(st.integers(0, 3))
                for uid in UIDS
                if uid not in {each.uid for each in found} and draw(st.booleans())
            },
        )
        for store, found in held.items()
    )
    return Pair(ours, theirs)


class Model:
    """Two stores of values, on which steps are performed as on files."""

    def __init__(self, pair: Pair) -> None:
        self.held = {Side.OURS: dict(pair.ours.sessions), Side.THEIRS: dict(pair.theirs.sessions)}
        self.removed = {Side.OURS: dict(pair.ours.removed), Side.THEIRS: dict(pair.theirs.removed)}

    @property
    def pair(self) -> Pair:
        return Pair(
            *(
                StoreState(store_id=store_id, sessions=self.held[side], removed=self.removed[side])
                for side, store_id in ((Side.OURS, ""), (Side.THEIRS, OWNER))
            )
        )

    def perform(self, steps: list[Step]) -> None:
        for step in steps:
            match step:
                case CopySession():
                    other, mine = self.held[Side.THEIRS][step.uid], self.held[Side.OURS].get(step.uid)
                    decided = other.decided if mine is None else fitting(merge(other, mine), other)
                    ended = other.finished | other.pruned.keys() | set(removed_in(other))
                    self.held[Side.OURS][step.uid] = state(
                        step.uid, other.owner, other.turns, ended, decided, frozenset(other.pruned)
                    )
                case Remove():
                    del self.held[step.side][step.uid]
                    self.removed[step.side][ids.session_identity(step.uid)] = 9
                case Prune():
                    self.change(step.side, step.uid, pruned=step.turns)
                case Decide():
                    if self.held[step.side][step.uid].decided.at == step.before.at:
                        self.change(step.side, step.uid, decided=step.decided)
                case Differ():
                    pass

    def change(
        self, side: Side, uid: str, *, decided: Decisions | None = None, pruned: Mapping[str, int] | None = None
    ) -> None:
        was = self.held[side][uid]
        base = decided or was.decided
        values = dict(base.values) | {f"{TURN}{turn}": ms for turn, ms in (pruned or {}).items()}
        ended = was.finished | set(removed_in(was))
        self.held[side][uid] = state(
            uid, was.owner, was.turns, ended, Decisions(values=values, at=base.at, leaf=base.leaf),
            frozenset(was.pruned) | frozenset(pruned or ()),
        )  # fmt: skip


def removed_in(session: SessionState) -> set[str]:
    return {turn for turn in session.turns if f"{TURN}{turn}" in session.decided.values}


def performed(pair: Pair) -> Pair:
    model = Model(pair)
    model.perform(plan(pair.ours, pair.theirs))
    return model.pair


@given(pairs())
def test_performing_a_plan_leaves_nothing_to_do_but_what_differs(pair: Pair) -> None:
    after = performed(pair)
    assert [step for step in plan(after.ours, after.theirs) if not isinstance(step, Differ)] == []


@given(pairs())
def test_performing_a_plan_twice_changes_nothing(pair: Pair) -> None:
    model = Model(pair)
    steps = plan(pair.ours, pair.theirs)
    model.perform(steps)
    once = model.pair
    again = Model(once)
    again.perform([step for step in steps if not isinstance(step, Remove)])
    assert again.pair == once


@given(pairs())
def test_no_turn_is_lost_but_with_a_session_that_a_person_removed(pair: Pair) -> None:
    after = performed(pair)
    for before, now, other in ((pair.ours, after.ours, pair.theirs), (pair.theirs, after.theirs, pair.ours)):
        for uid, session in before.sessions.items():
            if uid in now.sessions:
                assert session.finished <= now.sessions[uid].turns
                # Only what a person removed is no longer told: in this store or in the other.
                removed = removed_in(other.sessions[uid]) if uid in other.sessions else set[str]()
                # A turn that its owner holds as open is as its owner has it.
                held = other.sessions.get(uid, session)
                assert session.finished - now.sessions[uid].finished <= removed | (held.turns - held.finished)
            else:
                assert session.last_started <= other.removed[ids.session_identity(uid)]


@given(pairs())
def test_both_stores_hold_what_was_decided_last(pair: Pair) -> None:
    after = performed(pair)
    for uid in pair.ours.sessions.keys() & pair.theirs.sessions.keys() & after.ours.sessions.keys():
        before = [each.sessions[uid] for each in (pair.ours, pair.theirs)]
        for about in (NAME, *BRANCHES):
            latest = max(before, key=lambda each: each.decided.at.get(about, 0))
            times = {each.decided.at.get(about, 0) for each in before}
            if len(times) == 2:
                for now in (after.ours, after.theirs):
                    assert now.sessions[uid].decided.values.get(about) == latest.decided.values.get(about)


@given(pairs())
def test_what_nobody_dated_is_as_its_owner_has_it(pair: Pair) -> None:
    after = performed(pair)
    for uid, owned in pair.theirs.sessions.items():
        here, now = pair.ours.sessions.get(uid), after.ours.sessions.get(uid)
        is_undated = here is None or NAME not in here.decided.at
        differs = Differ(uid) in plan(pair.ours, pair.theirs)
        if now is not None and owned.owner == OWNER and is_undated and not differs:
            assert now.decided.values[NAME] == owned.decided.values[NAME]


@given(pairs())
def test_what_is_pruned_in_one_store_is_pruned_in_both(pair: Pair) -> None:
    after = performed(pair)
    for uid in after.ours.sessions.keys() & after.theirs.sessions.keys():
        ours, theirs = after.ours.sessions[uid], after.theirs.sessions[uid]
        both = ours.turns & theirs.turns
        assert ours.pruned.keys() & both == theirs.pruned.keys() & both


@given(pairs())
def test_a_session_that_was_removed_is_in_no_store_unless_it_was_used_since(pair: Pair) -> None:
    after = performed(pair)
    for uid, session in pair.theirs.sessions.items():
        at = pair.ours.removed.get(ids.session_identity(uid))
        if session.owner == OWNER and at is not None:
            assert uid not in after.ours.sessions
            assert (uid in after.theirs.sessions) == (session.last_started > at)


def test_what_another_store_owns_is_never_copied() -> None:
    nobody = Decisions(values={NAME: ""}, at={}, leaf=(None, None))
    session = state(UIDS[0], "Q" * 26, frozenset(TURNS), frozenset(TURNS), nobody, frozenset())
    theirs = StoreState(store_id=OWNER, sessions={UIDS[0]: session}, removed={})
    assert plan(StoreState(store_id="", sessions={}, removed={}), theirs) == []


def test_a_session_with_another_owner_here_is_reported_and_not_touched() -> None:
    nobody = Decisions(values={NAME: ""}, at={}, leaf=(None, None))
    mine, other = (
        state(UIDS[0], owner, frozenset(TURNS), frozenset(TURNS), nobody, frozenset()) for owner in ("Q" * 26, OWNER)
    )
    theirs = StoreState(store_id=OWNER, sessions={UIDS[0]: other}, removed={})
    assert plan(StoreState(store_id="", sessions={UIDS[0]: mine}, removed={}), theirs) == [Differ(UIDS[0])]


def undecided(**values: Value) -> Decisions:
    return Decisions(values={NAME: "", **values}, at={}, leaf=(None, None))


def test_what_was_pruned_here_is_pruned_there_before_it_is_copied_from_there() -> None:
    mine = state(UIDS[0], OWNER, frozenset(["t1"]), frozenset(["t1"]), undecided(), frozenset(["t1"]))
    other = state(UIDS[0], OWNER, frozenset(["t1", "t2"]), frozenset(["t1", "t2"]), undecided(), frozenset())
    steps = plan(
        StoreState(store_id="", sessions={UIDS[0]: mine}, removed={}),
        StoreState(store_id=OWNER, sessions={UIDS[0]: other}, removed={}),
    )
    assert steps[:2] == [Prune(Side.THEIRS, UIDS[0], {"t1": 1}), CopySession(UIDS[0])]


# performed when the store moved on --------------------------------------------------------------------------------


def step_for(store: Store, uid: str, name: str) -> Decide:
    """A step that gives a session a name, as it was planned when the store was as it is now."""
    before = state_of(store, uid)
    decided = Decisions(values={**before.values, NAME: name}, at={NAME: 1}, leaf=before.leaf)
    return Decide(Side.OURS, uid, decided, before, frozenset())


def state_of(store: Store, uid: str) -> Decisions:
    return store.ask(lambda db: store_decisions.session_states(db)[uid].decided)


def perform(store: Store, step: Decide) -> None:
    store.change(lambda db: store_decisions.write_step(db, step))


def test_a_step_gives_a_name(store: Store) -> None:
    session = store.create_session()
    perform(store, step_for(store, session.uid, "herons"))
    assert store.session(session.uid).name == "herons"


def test_a_step_does_not_undo_what_was_decided_since_it_was_planned(store: Store) -> None:
    session = store.create_session()
    step = step_for(store, session.uid, "herons")
    store.rename(session, "cranes")
    perform(store, step)
    assert store.session(session.uid).name == "cranes"


def test_a_step_does_not_undo_a_checkout_since_it_was_planned(store: Store) -> None:
    session = store.create_session()
    store.append_events(session, [UserMessage(content="one"), AssistantText(text="a"), AssistantText(text="b")])
    step = step_for(store, session.uid, "herons")
    store.checkout(session, store.place(session, 2).point)
    perform(store, step)
    leaf = store.leaf(session)
    assert (store.session(session.uid).name, leaf and leaf.seq) == ("herons", 2)
