"""An option means one thing, whatever the command; docs/commands.md lists what."""

from __future__ import annotations

from tests.support.option_meanings import DOCUMENT, MEANINGS, TWO_MEANINGS, by_text, reference, uses


def test_an_option_means_the_same_in_every_command() -> None:
    """A text of its own is a meaning of its own, unless the tables name a command with it."""
    strange = {}
    for option, texts in by_text().items():
        reviewed = {each.strip() for each in MEANINGS.get(option, ("", "\0"))[1].split(",")}
        found = [{each.command for each in group} for group in texts.values()]
        plain = [where for where in found if not any((option, each) in TWO_MEANINGS for each in where)]
        if len(plain) > 1 and (other := [sorted(where) for where in plain if not where & reviewed]):
            strange[option] = other
    assert strange == {}


def test_a_short_name_belongs_to_one_long_name() -> None:
    found = {(name, each.main) for each in uses() for name in each.names if not name.startswith("--")}
    again = {name for name, main in found for other, another in found if name == other and main != another}
    assert again == {"-m", "-n"}


def test_no_second_meaning_is_listed_that_is_gone() -> None:
    there = {(name, each.command) for each in uses() for name in each.names}
    assert {*TWO_MEANINGS} - there == set()


def test_the_reference_of_options_is_the_program_s_own() -> None:
    assert DOCUMENT.read_text("utf-8") == reference(), "python -m tests.set_option_reference"
