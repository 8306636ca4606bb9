"""Words as people write them: a word's other forms, contractions without their apostrophe, slips of the fingers.

English only, and generous: a form that nobody ever wrote is in no text, so looking for it costs nearly nothing.
"""

from __future__ import annotations

from backstory.lazy import lazy_regex

FORMS_MAX = 16
"""The most other forms of a word that are looked for."""
LETTERS_LEAST = 3
"""Shorter words have no other forms: "is" is not the plural of "i"."""
EDITED_LETTERS_MAX = 24
LETTERS = "abcdefghijklmnopqrstuvwxyz"
_VOWELS = "aeiou"

_FUNCTION_WORDS = """
a about all also am an and any are as at be because been being but by can cannot could did do does doing done for from
get gets getting got had has have having he her here him his how i if in into is isn it its just let lets may me might
must my no nor not of off on or our ours out please shall she should so some such than that the their them then there
these they this those to too us very was we were what when where which while who whom whose why will with would you
your yours isnt arent wasnt werent dont doesnt didnt cant couldnt wont wouldnt shouldnt hasnt havent hadnt im ive youre
youve theyre weve thats whats
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""Words that a question is built with: an answer need not have them."""

_NOT = ("ai", "are", "ca", "could", "did", "does", "do", "had", "has", "have", "is", "must", "need", "should", "was",
        "were", "wo", "would")  # fmt: skip
_SHORT = {
    **{f"{verb}nt": f"{verb}n t" for verb in _NOT},
    **{f"{who}{verb}": f"{who} {verb}" for who in ("they", "you") for verb in ("re", "ve", "ll")},
    "im": "i m", "ive": "i ve", "weve": "we ve", "thats": "that s", "whats": "what s", "heres": "here s",
    "theres": "there s", "lets": "let s",
}  # fmt: skip
_APOSTROPHE = lazy_regex(r"['\u2019]")


def forms(word: str) -> list[str]:
    """Other forms of a word: singular and plural, and the verb's with -ed and -ing.

    >>> forms("queries"), forms("files")
    (['query', 'queried', 'querying'], ['file', 'filed', 'filing'])
    """
    small = word.lower()
    if len(small) < LETTERS_LEAST or not (small.isascii() and small.isalpha()) or small in FUNCTION_WORDS:
        return []
    found = dict[str, None]()
    for base in _bases(small):
        found |= dict.fromkeys(_inflected(base))
    found.pop(small, None)
    return list(found)[:FORMS_MAX]


def _bases(word: str) -> list[str]:
    """Return the words that a word may be a form of."""
    found = list[str]()
    if word.endswith(("ies", "ied")) and len(word) > 4:
        found.append(f"{word[:-3]}y")
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        found.append(word[:-1])
        if word.endswith(("sses", "shes", "ches", "xes", "zes")):
            found.append(word[:-2])
    elif word.endswith("ed") and len(word) > 4:
        found += [word[:-1], *_stems(word[:-2])]
    elif word.endswith("ing") and len(word) > 5:
        found += [*_stems(word[:-3]), f"{word[:-3]}e"]
    return found or [word]


def _stems(stem: str) -> list[str]:
    """A stem, and the same without the letter that its ending doubled."""
    # "add" and "roll" end so by themselves, "cancell" does not.
    is_doubled = len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "aeious" and (
        stem[-1] != "l" or len(stem) > 4
    )  # fmt: skip
    return [stem, stem[:-1]] if is_doubled else [stem]


def _inflected(base: str) -> list[str]:
    if base.endswith("y") and base[-2:-1] not in _VOWELS:
        return [base, f"{base[:-1]}ies", f"{base[:-1]}ied", f"{base}ing"]
    if base.endswith("e"):
        return [base, f"{base}s", f"{base}d", f"{base[:-1]}ing"]
    plural = f"{base}es" if base.endswith(("s", "sh", "ch", "x", "z")) else f"{base}s"
    found = [base, plural, f"{base}ed", f"{base}ing"]
    if len(base) > 2 and base[-1] not in f"{_VOWELS}wxy" and base[-2] in _VOWELS and base[-3] not in _VOWELS:
        found += [f"{base}{base[-1]}ed", f"{base}{base[-1]}ing"]
    return found


def respelt(word: str) -> str | None:
    """A contraction as it is written the other way, its words apart: "dont" for "don't"; None for any other word.

    >>> respelt("dont"), respelt("don't"), respelt("o'clock")
    ('don t', 'dont', None)
    """
    small = word.lower()
    if small in _SHORT:
        return _SHORT[small]
    joined = _APOSTROPHE.sub("", small)
    return joined if joined != small and joined in _SHORT else None


def edited(word: str) -> list[str]:
    """Every word that one slip of a finger makes of this one: two letters swapped, one left out, wrong, or too many."""
    small = word.lower()
    if len(small) > EDITED_LETTERS_MAX:
        return []
    cuts = [(small[:at], small[at:]) for at in range(len(small) + 1)]
    swapped = [f"{head}{tail[1]}{tail[0]}{tail[2:]}" for head, tail in cuts if len(tail) > 1]
    missed = [f"{head}{tail[1:]}" for head, tail in cuts if tail]
    wrong = [f"{head}{letter}{tail[1:]}" for head, tail in cuts if tail for letter in LETTERS]
    added = [f"{head}{letter}{tail}" for head, tail in cuts for letter in LETTERS]
    return [each for each in dict.fromkeys((*swapped, *missed, *added, *wrong)) if each != small]
