"""What was said on a branch that a person removed is not found, until it is restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.model import AssistantText, UserMessage

if TYPE_CHECKING:
    from backstory.store import Session, Store


@pytest.fixture
def session(store: Store) -> Session:
    """Two turns; only the second says heron."""
    session = store.create_session()
    store.append_events(session, [UserMessage(content="otter"), AssistantText(text="river")])
    store.append_events(session, [UserMessage(content="heron"), AssistantText(text="reeds")])
    return session


def found(store: Store, word: str) -> int:
    return len(store.search(word).hits)


def test_a_removed_branch_is_not_found(store: Store, session: Session) -> None:
    assert found(store, "heron") == 1
    store.remove_turns(session, [store.turns(session)[1].uid])
    assert found(store, "heron") == found(store, "reeds") == 0
    assert found(store, "otter") == 1


def test_a_restored_branch_is_found_again(store: Store, session: Session) -> None:
    (_, second) = store.turns(session)
    store.remove_turns(session, [second.uid])
    store.restore_turns(session, second.uid)
    assert found(store, "heron") == found(store, "reeds") == 1
