"""Very many values in little memory."""

from __future__ import annotations

from msgspec import Struct

from backstory.derive.packed import AT_ONCE, Packed
from tests.support.masks import NumberedRedactor

TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


class _Note(Struct, frozen=True):
    text: str


def test_values_are_read_in_their_order_as_often_as_asked() -> None:
    many = Packed(map(_Note, map(str, range(AT_ONCE * 2 + 1))))
    assert [each.text for each in many] == [each.text for each in many] == list(map(str, range(AT_ONCE * 2 + 1)))
    assert (len(many), bool(Packed[int]())) == (AT_ONCE * 2 + 1, False)


def test_values_are_taken_one_after_the_other_and_no_more_than_some_are_held() -> None:
    living, most = 0, 0

    class Counted:
        def __init__(self) -> None:
            nonlocal living, most
            living += 1
            most = max(most, living)

        def __del__(self) -> None:
            nonlocal living
            living -= 1

        def __reduce__(self) -> tuple[type[int], tuple[()]]:
            return int, ()

    assert len(Packed(Counted() for _ in range(AT_ONCE * 4))) == AT_ONCE * 4
    assert most < AT_ONCE * 3


def test_only_what_changed_is_another_value() -> None:
    many = Packed(range(AT_ONCE * 2))
    assert many.changed(lambda each: each) is many
    assert list(many.changed(lambda each: each * 2)) == list(range(0, AT_ONCE * 4, 2))


def test_secrets_in_many_values_have_the_masks_that_they_have_in_a_tuple() -> None:
    notes = [_Note(f"note {n}" + (f" token {TOKEN[:-1]}{n % 3}" if n % 7 == 0 else "")) for n in range(AT_ONCE * 2)]
    of_tuple, of_packed = NumberedRedactor(), NumberedRedactor()
    assert of_tuple.learn(tuple(notes)) and of_packed.learn(Packed(notes))
    masked = of_packed.value(Packed(notes))
    assert tuple(masked) == of_tuple.value(tuple(notes))
    assert "[github-token-1]" in next(iter(masked)).text
    assert next(iter(Packed(notes))).text == notes[0].text
