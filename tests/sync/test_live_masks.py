"""An answer that is being written: at no moment a part of it leaves in which half a secret stands bare."""

from __future__ import annotations

import pytest

from backstory.derive.secrets import Redactor
from backstory.sync.live_masks import sure_part
from tests.support.planted import CONTEXTS, KINDS, made, wrapped

PIECE = 8
KEY = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n" + "MIIEpAIBAAKCAQEA7bq\n" * 9


def shown(text: str) -> set[str]:
    """All that was ever shown while a text was written."""
    parts = {sure_part(text[:at]) for at in range(len(text) + 1)}
    return {masked(each) for each in parts if each}


def masked(text: str) -> str:
    return Redactor(people=False, key=lambda: b"k" * 32).text(text)


def planted() -> list[tuple[str, str]]:
    """Answers with a secret that is masked when they are whole, each in another context, and the secret."""
    found = list[tuple[str, str]]()
    for seed, form in enumerate(KINDS.values()):
        text, secret = made(form, seed)
        for context in (*CONTEXTS.values(), wrapped):
            whole = context(text)
            answers = (f"Look:\n\n{whole}\n\nThat was it.\n\nAnd more", f"Look: {whole}\nThat was it.\n\nAnd more")
            found += [(each, secret) for each in answers if secret[:PIECE] not in masked(each)]
    assert len(found) > 400
    return found


def test_no_half_of_a_secret_is_ever_shown() -> None:
    for answer, secret in planted():
        assert [each for each in shown(answer) if secret[:PIECE] in each] == []


def test_whole_paragraphs_are_shown() -> None:
    assert shown("One.\nTwo.\n\nThree.\n\nFour") == {"One.\nTwo.\n\n", "One.\nTwo.\n\nThree.\n\n"}


@pytest.mark.parametrize("key", [KEY, KEY + "\n" + KEY])
def test_nothing_is_shown_from_the_beginning_of_a_key_on(key: str) -> None:
    assert shown(f"Here:\n\n{key}\n\nmore\n\nof it") == {"Here:\n\n"}


@pytest.mark.parametrize("text", ['{"a": 1,\n\n "b": 2}\n\n', "  [1,\n\n2]\n\n"])
def test_of_json_nothing_is_shown(text: str) -> None:
    assert shown(text) == set()
