"""The plan of a pull: nothing that is here is asked for twice, and nothing that changed is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.exchange.frames import FramePoint
from backstory.ids import encode, session_identity
from backstory.sync.pull_plan import Here, SentPoint, SessionOffer, changed, wanted

UIDS = [encode(number + (number % 3 << 90)) for number in range(1, 7)]
MARKS = st.sampled_from(["a", "b", "removed 7"])
OFFERS = st.lists(st.builds(lambda uid, mark: SessionOffer(uid=uid, mark=mark), st.sampled_from(UIDS), MARKS))
HELD = st.dictionaries(st.sampled_from(UIDS), MARKS.map(lambda mark: point(mark)))
HERE = st.dictionaries(st.sampled_from([*map(session_identity, UIDS)]), st.sampled_from(Here))


def point(mark: str, epoch: int = 1) -> SentPoint:
    return SentPoint(epoch=epoch, upto=FramePoint(3, 0), chain="0" * 64, mark=mark)


@pytest.mark.hypothesis
@given(OFFERS, HELD, HERE)
def test_of_any_sides_what_changed_is_asked_for_once(
    offers: list[SessionOffer], held: dict[str, SentPoint], here: dict[str, Here]
) -> None:
    wants = wanted(offers, held, here)
    assert len({session_identity(each.uid) for each in wants}) == len(wants)
    first = {session_identity(each.uid): each for each in reversed(offers)}
    asked = {session_identity(each.uid): each for each in wants}
    for identity, offer in first.items():
        state, sent = here.get(identity), held.get(offer.uid)
        is_known = sent is not None and sent.mark == offer.mark and (state == Here.PULLED or offer.is_removal)
        assert (identity in asked) == (state not in (Here.OWN, Here.REMOVED) and not is_known)
        # From a point on only what is here can go on.
        if identity in asked and not offer.is_removal and state is None:
            assert asked[identity].sent is None


@pytest.mark.hypothesis
@given(OFFERS, HERE)
def test_what_came_is_not_asked_for_again(offers: list[SessionOffer], here: dict[str, Here]) -> None:
    first = {session_identity(each.uid): each for each in reversed(offers)}
    taken = wanted(offers, {}, here)
    marks = {each.uid: first[session_identity(each.uid)] for each in taken}
    held = {uid: point(offer.mark) for uid, offer in marks.items()}
    then = here | {session_identity(uid): Here.PULLED for uid, offer in marks.items() if not offer.is_removal}
    assert wanted(offers, held, then) == []


@pytest.mark.hypothesis
@given(OFFERS, HELD)
def test_what_changed_is_pushed_and_nothing_else(offers: list[SessionOffer], held: dict[str, SentPoint]) -> None:
    pushed = changed(offers, held)
    assert [each.uid for each in pushed] == [
        each.uid for each in offers if each.uid not in held or held[each.uid].mark != each.mark
    ]
    assert all(each.sent == held.get(each.uid) for each in pushed)
