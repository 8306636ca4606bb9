"""Logs that we wrote for agents: each of their turns is counted once, whichever log is read first."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory import ids
from backstory.ask import costs as stored_costs
from backstory.ask import stats
from backstory.ask.stats import StatsQuestion
from backstory.derive.tally import Tally
from backstory.exchange import replication
from backstory.exchange.replicate import Taken
from backstory.ingest.reindex import reindex
from backstory.model import AssistantText, UserMessage
from backstory.store import open_store
from backstory.store.intake import claims, ingesting, written
from backstory.store.tables import copies, sessions
from backstory.store.tables.session_filter import ListFilter
from tests.support.clock import NOW
from tests.support.counts import examples
from tests.support.machines import Machine, looked_up
from tests.support.written_logs import USED, HandMade, Said, own, written_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backstory.store import Store

CLAUDE = own("claude", "original", "alpha", "beta", minute=1)
CODEX_COPY = written_of(CLAUDE, "codex", minute=10)
CODEX = CODEX_COPY.with_more("gamma", minute=20)
BACK_COPY = written_of(CODEX, "claude", uids=[*CLAUDE.uids, CODEX.uids[-1]])
BACK = BACK_COPY.with_more("delta", minute=40)
"""claude → codex → claude, with a turn more in each."""
SECOND = written_of(CLAUDE, "claude").with_more("omega", minute=50)
"""Another one of the first."""
WORDS = ("alpha", "beta", "gamma", "delta", "omega")


def put(machine: Machine, *logs: HandMade) -> None:
    for log in logs:
        machine.write(log.path, log.bytes)
        assert machine.read().errors == []
    ingesting.settle_written(machine.store)


def turns(machine: Machine, log: HandMade) -> list[str]:
    return [turn.uid for turn in machine.store.turns(machine.store.session(log.uid))]


def sums(store: Store) -> tuple[int, int, int | None]:
    """Sessions, turns and tokens of output, as ``stats`` counts them."""
    tally = Tally()
    store.ask_or(
        None,
        stats.add_turns,
        stored_costs.price_table(store.prices_file),
        StatsQuestion(wanted=ListFilter()),
        [tally],
        0,
    )
    figures = tally.whole.figures
    return figures.sessions, figures.turns, figures.output


def listed(store: Store) -> dict[str, int]:
    """The sessions of a list, by the agent's own id, with how many turns each has."""
    return {str(each.native_id): each.turns for each in store.sessions()}


def hits(store: Store, word: str) -> list[str | None]:
    """The sessions that a search finds, by the agent's own id."""
    found = store.search(word, limit=20, hits_per_session=None).hits
    return [store.session(each.session_id).native_id for each in found]


def known(store: Store) -> dict[str, Any]:
    """All that is said of sessions and turns, by what does not depend on the order in which they came."""
    told = {}
    for each in store.sessions(subagents=True):
        costs = {
            uid: cost.low_usd
            for uid, cost in store.ask(
                stored_costs.by_turn, stored_costs.price_table(store.prices_file), each.id
            ).items()
        }
        told[each.uid] = (each.relation, each.parent_uid, each.turns, each.tokens, each.duration_ms, costs)
    uids = looked_up(
        store.path, "select s.uid, t.uid from turns t join sessions s on s.id = t.session_id order by 1, 2"
    )
    return {
        "sessions": told,
        "uids": uids,
        "sums": sums(store),
        "hits": {word: sorted(hits(store, word)) for word in WORDS},
    }


# one log that was written --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("logs", [(CLAUDE, CODEX), (CODEX, CLAUDE)], ids=["original-first", "original-last"])
def test_turns_that_were_written_are_those_of_the_original(machine: Machine, logs: tuple[HandMade, ...]) -> None:
    put(machine, *logs)
    assert turns(machine, CODEX) == [*CLAUDE.uids, CODEX.uids[-1]]
    session = machine.store.session(CODEX.uid)
    assert (session.relation, session.parent_uid, session.turns) == ("continuation", CLAUDE.uid, 1)
    assert machine.store.session(CLAUDE.uid).relation is None
    assert sums(machine.store) == (2, 3, 2 * USED["claude"] + USED["codex"])
    assert [each.uid for each in machine.store.children(machine.store.session(CLAUDE.uid))] == [CODEX.uid]


def test_a_log_to_which_nobody_added_anything_is_not_listed_beside_the_original(machine: Machine) -> None:
    put(machine, CODEX_COPY)
    assert listed(machine.store) == {CODEX_COPY.native_id: 2}
    put(machine, CLAUDE)
    assert listed(machine.store) == {CLAUDE.native_id: 2}
    assert sums(machine.store) == (1, 2, 2 * USED["claude"])
    assert machine.store.children(machine.store.session(CLAUDE.uid)) == []
    # By its own name it is found all the same.
    assert machine.store.session(CODEX_COPY.native_id).uid == CODEX_COPY.uid


def test_what_the_agent_adds_is_read_behind_what_was_written(machine: Machine) -> None:
    put(machine, CLAUDE, CODEX_COPY, CODEX)
    assert turns(machine, CODEX) == [*CLAUDE.uids, CODEX.uids[-1]]
    parents = [turn.parent_uid for turn in machine.store.turns(machine.store.session(CODEX.uid))]
    assert parents == [None, *CLAUDE.uids]
    assert listed(machine.store) == {CLAUDE.native_id: 2, CODEX.native_id: 1}


def test_where_the_original_is_not_known_the_log_is_a_session_of_its_own(machine: Machine) -> None:
    put(machine, CODEX)
    assert turns(machine, CODEX) == CODEX.uids
    assert machine.store.session(CODEX.uid).relation is None
    assert listed(machine.store) == {CODEX.native_id: 3}


def test_two_logs_of_an_original_that_is_not_known_have_the_same_turns(machine: Machine) -> None:
    put(machine, CODEX, SECOND)
    assert turns(machine, CODEX)[:2] == turns(machine, SECOND)[:2]
    assert sums(machine.store)[1] == 4


def test_each_word_is_found_once_where_it_was_said_first(machine: Machine) -> None:
    put(machine, BACK, CODEX, CLAUDE)
    for word, log in {"alpha": CLAUDE, "beta": CLAUDE, "gamma": CODEX, "delta": BACK}.items():
        assert {*hits(machine.store, word)} == {log.native_id}
        assert len(hits(machine.store, word)) == 2  # its prompt and its answer


def test_a_turn_that_was_written_is_shown_where_it_was_written_of(machine: Machine) -> None:
    put(machine, CLAUDE, CODEX, BACK)
    assert machine.store.ask(claims.shown_elsewhere, machine.store.session(BACK.uid).id) == {
        **dict.fromkeys(CLAUDE.uids, CLAUDE.uid), CODEX.uids[-1]: CODEX.uid,
    }  # fmt: skip
    assert machine.store.ask(claims.shown_elsewhere, machine.store.session(CLAUDE.uid).id) == {}


def test_sql_knows_which_turns_are_copies(machine: Machine) -> None:
    put(machine, BACK, CODEX, CLAUDE)
    asked = "select user_message from turns where not is_copy order by timestamp"
    assert machine.store.execute_read_only(asked).rows == [(f"ask {word}",) for word in WORDS[:4]]
    used = machine.store.execute_read_only("select sum(output_tokens) from usage").rows
    assert used == [(sums(machine.store)[2],)]


def test_an_original_without_tokens_is_not_given_those_of_a_copy(machine: Machine) -> None:
    bare = HandMade("codex", CLAUDE.native_id, tuple(_uncounted(turn) for turn in CLAUDE.turns), CLAUDE.minute)
    put(machine, written_of(bare, "claude").with_more("gamma"), bare)
    assert sums(machine.store) == (2, 3, USED["claude"])


def _uncounted(turn: Any) -> Any:
    return type(turn)(turn.native_id, turn.prompt, turn.answer, turn.minute, is_counted=False)


# chains ---------------------------------------------------------------------------------------------------------------


def test_a_log_that_was_written_of_one_that_was_written_continues_that(machine: Machine) -> None:
    put(machine, BACK, CODEX, CLAUDE)
    session = machine.store.session(BACK.uid)
    assert (session.relation, session.parent_uid, session.turns) == ("continuation", CODEX.uid, 1)
    assert turns(machine, BACK) == [*CLAUDE.uids, CODEX.uids[-1], BACK.uids[-1]]


def test_a_log_of_a_log_whose_writer_did_not_know_the_original_is_known_by_both(machine: Machine) -> None:
    far = written_of(CODEX, "claude").with_more("delta", minute=40)  # by a machine that has the second log alone
    for logs in ((far, CODEX, CLAUDE), (CLAUDE, CODEX, far), (CLAUDE, far, CODEX), (CODEX, CLAUDE, far)):
        put(machine, *logs)
        assert turns(machine, far)[:3] == [*CLAUDE.uids, CODEX.uids[-1]]
        for log in logs:
            machine.store.remove(machine.store.session(log.uid))
        machine.store.decide(sessions.unforget)


@settings(max_examples=examples(25))
@given(st.permutations([CLAUDE, CODEX_COPY, CODEX, BACK_COPY, BACK, SECOND]), st.sets(st.integers(0, 5)))
def test_the_order_in_which_logs_come_makes_no_difference(
    tmp_path_factory: pytest.TempPathFactory, order: list[HandMade], together: set[int]
) -> None:
    """``together``: those logs that are read with the next one."""
    # A log never gets shorter.
    order = [log for n, log in enumerate(order) if not any(_goes_on(log, before) for before in order[:n])]
    one, other = Machine(tmp_path_factory.mktemp("one")), Machine(tmp_path_factory.mktemp("other"))
    for n, log in enumerate(order):
        one.write(log.path, log.bytes)
        if n not in together:
            assert one.read().errors == []
    put(one, order[-1])
    put(other, CLAUDE, CODEX, BACK, SECOND)
    assert known(one.store) == known(other.store)
    assert one.store.verify().problems == []
    one.close()
    other.close()


def _goes_on(log: HandMade, before: HandMade) -> bool:
    return log.native_id == before.native_id and len(before.turns) > len(log.turns)


def test_reindex_changes_nothing(machine: Machine) -> None:
    put(machine, BACK, SECOND, CODEX, CLAUDE)
    before = known(machine.store)
    assert before["sums"] == (4, 5, 4 * USED["claude"] + USED["codex"])
    reindex(machine.store, now=NOW, events_too=True)
    ingesting.settle_written(machine.store)
    assert known(machine.store) == before


# what goes ------------------------------------------------------------------------------------------------------------


def test_when_the_original_is_removed_its_turns_count_in_the_log_that_was_written(machine: Machine) -> None:
    put(machine, CLAUDE, CODEX)
    (holder,) = machine.store.ask_or([], copies.holders, CLAUDE.uids[:1])[1:]
    assert holder.parent == ids.session_identity(CLAUDE.uid)
    machine.store.remove(machine.store.session(CLAUDE.uid))
    assert sums(machine.store)[:2] == (1, 3)
    assert listed(machine.store) == {CODEX.native_id: 3}
    assert hits(machine.store, "alpha") == [CODEX.native_id] * 2


def test_a_log_without_additions_is_listed_once_its_original_is_removed(machine: Machine) -> None:
    put(machine, CLAUDE, CODEX_COPY)
    machine.store.remove(machine.store.session(CLAUDE.uid))
    assert listed(machine.store) == {CODEX_COPY.native_id: 2}
    assert sums(machine.store)[:2] == (1, 2)


def test_when_the_log_that_was_written_is_removed_nothing_changes_but_for_what_was_added(machine: Machine) -> None:
    put(machine, CLAUDE)
    before = known(machine.store)
    put(machine, CODEX)
    machine.store.remove(machine.store.session(CODEX.uid))
    assert known(machine.store) == before


def test_of_two_logs_whose_original_was_removed_one_counts(machine: Machine) -> None:
    put(machine, CLAUDE, CODEX, BACK)
    machine.store.remove(machine.store.session(CLAUDE.uid))
    assert sums(machine.store)[1] == 4
    assert sum(listed(machine.store).values()) == 4
    assert len(hits(machine.store, "alpha")) == 2


def test_an_original_that_was_removed_and_is_read_again_is_the_original_again(machine: Machine) -> None:
    put(machine, CLAUDE, CODEX)
    before = known(machine.store)
    machine.store.remove(machine.store.session(CLAUDE.uid))
    machine.store.decide(sessions.unforget)
    put(machine, CLAUDE)
    assert known(machine.store) == before


def test_a_log_whose_file_is_gone_is_still_known(machine: Machine) -> None:
    put(machine, CODEX)
    (machine.home / CODEX.path).unlink()
    put(machine, CLAUDE)
    assert turns(machine, CODEX)[:2] == CLAUDE.uids
    assert sums(machine.store)[1] == 3


# what it costs --------------------------------------------------------------------------------------------------------


def test_logs_that_agents_began_themselves_are_not_indexed_by_what_we_would_write(machine: Machine) -> None:
    put(machine, CLAUDE, own("codex", "other", "one", "two"))
    assert looked_up(machine.store_path, "select count(*) from written_turns") == [(0,)]


def test_of_logs_that_agents_began_themselves_no_id_is_computed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ids, "written_turn_id", None)
    put(machine, CLAUDE, CLAUDE.with_more("gamma"), own("codex", "other", "one", "two"))
    assert sums(machine.store)[1] == 5


def test_an_id_that_is_like_one_of_ours_is_a_turn_of_its_own(machine: Machine) -> None:
    (turn,) = own("claude", "like ours", "alpha").turns
    alike = Said(str(uuid.uuid5(uuid.NAMESPACE_DNS, "theirs")), turn.prompt, turn.answer, turn.minute)
    put(machine, CLAUDE, HandMade("claude", "like-ours", (alike,)))
    assert sums(machine.store)[:2] == (2, 3)
    assert machine.store.session("like-ours").relation is None


@pytest.mark.parametrize("odd", ["00000000-0000-5000-8000-00000000000g", "99999999999999599999999999999999999x"])
def test_an_id_that_is_no_uuid_is_read_as_any(machine: Machine, odd: str) -> None:
    put(machine, CODEX, HandMade("claude", "odd", (Said(odd, "ask alpha", "about alpha", 1),)), CLAUDE)
    assert len(turns(machine, HandMade("claude", "odd", (Said(odd, "ask alpha", "about alpha", 1),)))) == 1
    assert sums(machine.store)[1] == 4


def test_two_turns_with_the_same_end_of_an_id_are_told_apart(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "KEY_MASK", 0)
    put(machine, own("claude", "other", "one", "two"), CODEX, CLAUDE)
    assert turns(machine, CODEX)[:2] == CLAUDE.uids
    assert sums(machine.store)[1] == 5


def test_what_is_removed_leaves_no_trace_in_the_index(machine: Machine) -> None:
    put(machine, CLAUDE, CODEX)
    assert looked_up(machine.store_path, "select count(*) from written_turns")[0][0] >= 5
    for log in (CODEX, CLAUDE):
        machine.store.remove(machine.store.session(log.uid))
    assert looked_up(machine.store_path, "select count(*) from written_turns") == [(0,)]


def test_more_turns_than_are_indexed_at_once_are_all_found(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "TURNS_AT_ONCE", 2)
    others = [own("claude", f"other {n}", f"word{n}") for n in range(5)]
    put(machine, *others, CLAUDE, BACK, CODEX)
    assert turns(machine, BACK) == [*CLAUDE.uids, CODEX.uids[-1], BACK.uids[-1]]
    assert sums(machine.store)[1] == 9


# other stores ---------------------------------------------------------------------------------------------------------


def test_a_project_that_continued_a_log_learns_of_the_original(machine: Machine, store: Store) -> None:
    put(machine, CODEX)
    home = machine.store
    ours = replication.continue_session(store, home, CODEX.uid)
    store.append_events(ours, [UserMessage(content="ask epsilon")])
    assert replication.pull_sessions(home, store) == 1
    put(machine, CLAUDE)
    store.append_events(ours, [UserMessage(content="ask zeta")])
    assert replication.pull_sessions(home, store) == 1
    for each in (home, store):
        assert [turn.uid for turn in each.turns(each.session(ours.uid))][:2] == CLAUDE.uids
    assert sums(home)[1] == 5


def test_a_project_knows_the_original_of_a_log_better_than_a_store_that_lacks_it(
    machine: Machine, store: Store
) -> None:
    ours = store.create_session("ours")
    store.append_events(ours, [UserMessage(content="ask alpha"), AssistantText(text="about alpha")])
    (turn,) = store.turns(ours)
    put(machine, log := _written_of_ours(ours.uid, turn.uid))
    continued = replication.continue_session(store, machine.store, log.uid)
    store.append_events(continued, [UserMessage(content="ask epsilon")])
    assert store.turns(continued)[0].uid == turn.uid
    replication.pull_sessions(machine.store, store)
    assert turns(machine, log)[0] == turn.uid
    assert [each.uid for each in store.turns(ours)] == [turn.uid]
    assert sums(machine.store)[1] == 3


def _written_of_ours(session_uid: str, turn_uid: str) -> HandMade:
    before = Said(ids.written_turn_id(turn_uid), "ask alpha", "about alpha", 1, is_counted=False)
    return HandMade("codex", ids.written_log_id(session_uid, turn_uid, "codex"), (before,), 1).with_more("gamma")


def test_a_session_of_ours_may_come_after_the_log_that_was_written_of_it(machine: Machine, store: Store) -> None:
    ours = store.create_session("ours")
    store.append_events(ours, [UserMessage(content="ask alpha"), AssistantText(text="about alpha")])
    (turn,) = store.turns(ours)
    put(machine, log := _written_of_ours(ours.uid, turn.uid))
    assert sums(machine.store)[1] == 2
    for _ in range(2):
        replication.pull_sessions(machine.store, store)
        assert turns(machine, log) == [turn.uid, log.uids[-1]]
        session = machine.store.session(log.uid)
        assert (session.relation, session.parent_uid, session.turns) == ("continuation", ours.uid, 1)
        assert sums(machine.store)[:2] == (2, 2)
        # The owner's copy replaces ours.
        store.append_events(ours, [AssistantText(text="more of alpha")])


def test_what_came_from_elsewhere_is_no_copy_of_ours(
    machine: Machine, another: Callable[[], Machine], tmp_path: Path
) -> None:
    theirs = another()
    put(theirs, CODEX)
    origin = Taken(elsewhere=str(tmp_path), project=None, folder=str(tmp_path))
    assert replication.take_elsewhere(machine.store, theirs.store, CODEX.uid, origin)
    put(machine, SECOND, CLAUDE)
    assert turns(machine, CODEX) == CODEX.uids
    assert machine.store.session(CODEX.uid).relation is None
    assert turns(machine, SECOND)[:2] == CLAUDE.uids
    # Its own log says whose turns they are.
    put(machine, CODEX)
    assert turns(machine, CODEX)[:2] == CLAUDE.uids


def test_a_copy_of_a_store_knows_what_the_store_knows(machine: Machine, tmp_path: Path) -> None:
    put(machine, CLAUDE, CODEX)
    machine.store.backup(tmp_path / "copy.db")
    with open_store(tmp_path / "copy.db", shared=True, now=lambda: NOW) as copy:
        assert known(copy) == known(machine.store)


def test_another_sqlite_deletes_a_session_with_its_index(machine: Machine) -> None:
    put(machine, CLAUDE, CODEX)
    with closing(sqlite3.connect(machine.store_path)) as db, db:
        db.execute("delete from sessions where uid = ?", (CLAUDE.uid,))
    kept = "select count(*) from written_turns where turn_id not in (select id from turns)"
    assert looked_up(machine.store_path, kept) == [(0,)]
    assert listed(machine.store) == {CODEX.native_id: 3}
