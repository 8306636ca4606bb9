"""Sealed files: without the passphrase nothing, and nothing that was changed, moved or left out."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.sync import sealing
from backstory.sync.sealing import (
    FolderKeyFile,
    OpenedFile,
    SealDamaged,
    key_file_of,
    key_of,
    new_key_file,
    opened,
    sealed,
)

KEY = bytes(range(32))
PIECES = st.lists(st.binary(max_size=40), min_size=1, max_size=5)


@pytest.mark.hypothesis
@given(PIECES)
def test_what_is_sealed_opens_with_its_key_alone(pieces: list[bytes]) -> None:
    made = b"".join(sealed(pieces, KEY))
    assert list(opened(io.BytesIO(made), KEY)) == pieces
    assert io.BufferedReader(OpenedFile(opened(io.BytesIO(made), KEY)), 16).read() == b"".join(pieces)
    with pytest.raises(SealDamaged):
        list(opened(io.BytesIO(made), KEY[::-1]))
    # The same is sealed otherwise each time.
    assert made != b"".join(sealed(pieces, KEY))


def test_any_change_is_noticed() -> None:
    made = b"".join(sealed([b"one", b"two", b"three"], KEY))
    for at in range(len(made)):
        for wrong in (made[:at], made[:at] + bytes([made[at] ^ 1]) + made[at + 1 :]):
            with pytest.raises(SealDamaged):
                list(opened(io.BytesIO(wrong), KEY))


def test_pieces_that_were_moved_or_left_out_are_noticed() -> None:
    head, *pieces = sealed([b"one", b"two", b"six"], KEY)
    one, two, six = pieces
    _, other, *_ = sealed([b"one", b"two", b"six"], KEY)
    for wrong in (
        [two, one, six],
        [one, six],
        [one, two],
        [one, one, two, six],
        [one, two, six, six],
        [other, two, six],
        [],
    ):
        with pytest.raises(SealDamaged):
            list(opened(io.BytesIO(b"".join([head, *wrong])), KEY))


def test_a_passphrase_makes_the_key_again_and_another_one_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "COST", 4)
    file, key = new_key_file("Grüße")
    assert key_of(file, "Gru\u0308ße") == key
    assert key_of(file, "other") is None
    again, other = new_key_file("Grüße")
    assert (again.salt, other) != (file.salt, key)


@pytest.mark.parametrize("wrong", [{"cost": 2**30}, {"cost": 3}, {"cost": 0}, {"salt": b"x"}, {"form": "other"}])
def test_a_hostile_key_file_is_refused_before_it_costs_anything(wrong: dict[str, object]) -> None:
    fields = {"form": sealing.FORM, "salt": b"s" * 16, "cost": 4, "check": b"c"} | wrong
    with pytest.raises(SealDamaged):
        key_of(FolderKeyFile(**fields), "x")  # type: ignore[arg-type]


def test_a_key_file_that_is_none_is_refused() -> None:
    for data in (b"", b"{}", b"\xff", b'{"form":1}', b"[" * 4_000):
        with pytest.raises(SealDamaged):
            key_file_of(data)


def test_a_guess_costs_time_and_memory() -> None:
    # 128 * N * r bytes.
    assert 128 * sealing.COST * sealing.BLOCK >= 64 * 1024 * 1024
