"""A text that is passed over has no secret: the words of texts tell as much as all of the shapes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.derive import secret_anchors
from backstory.derive.secret_anchors import Anchors
from backstory.derive.secret_shapes import findings_in
from tests.support.planted import COLOURED, CONTEXTS, KEY, KINDS, TEXTS, made, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BREAKS = ("\n", "\r\n", "\t", " ", "\\n", "→", "\x1b[31m", "\\u001b[0m", "\u212a", "İ")


def planted(seed: int) -> list[str]:
    """A text with a secret of each kind in each context, broken somewhere in one of two."""
    chance, texts = random.Random(seed), list[str]()
    contexts: list[Callable[[str], str]] = [*CONTEXTS.values(), COLOURED, wrapped]
    for form in (*KINDS.values(), KEY, "/home/anna/x", "C:\\Users\\anna\\x"):
        for context in contexts:
            text = context(made(form, seed)[0] if "{" in form else form)
            cut = chance.randrange(len(text))
            texts.append(text if chance.random() < 0.5 else f"{text[:cut]}{chance.choice(BREAKS)}{text[cut:]}")
    chance.shuffle(texts)
    return texts


@pytest.mark.parametrize("people", [True, False])
def test_what_is_passed_over_in_many_texts_has_no_secret(people: bool) -> None:
    anchors = Anchors(people=people)
    for seed in range(6):
        texts = planted(seed)
        for text, kinds in zip(texts, anchors.kinds(texts), strict=True):
            assert list(findings_in(text, people=people, kinds=kinds)) == list(findings_in(text, people=people)), text


@pytest.mark.hypothesis
@given(st.lists(TEXTS, max_size=4))
def test_what_is_passed_over_in_any_text_has_no_secret(texts: list[str]) -> None:
    for text, kinds in zip(texts, Anchors(people=True).kinds(texts), strict=True):
        assert list(findings_in(text, kinds=kinds)) == list(findings_in(text))


def test_a_word_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = list[str]()
    found = secret_anchors._anchors_in

    def anchors_in(words: str, *, people: bool) -> Iterator[tuple[int, int]]:
        looked.append(words)
        return found(words, people=people)

    monkeypatch.setattr(secret_anchors, "_anchors_in", anchors_in)
    anchors = Anchors(people=True)
    assert anchors.kinds(["make all", "password=hunter22"])[0] == 0
    assert sorted(looked.pop().split()) == ["all", "make", "password=hunter22"]
    assert anchors.kinds(["make password=hunter22 all", "all of it"])[1] == 0
    assert sorted(looked.pop().split()) == ["it", "of"]


def test_no_more_words_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_anchors, "WORDS_MAX", 10)
    anchors = Anchors(people=True)
    for number in range(100):
        assert anchors.kinds([f"word{number} more{number}", "z" * 200]) == [0, 0]
    assert len(anchors._plain) <= 13
    assert anchors.kinds(["password=hunter22"]) != [0]
