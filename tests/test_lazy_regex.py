"""Regular expressions that wait for their first use, and are then as any other."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pkgutil import walk_packages

import pytest

import backstory
from backstory.lazy import LazyRegex, lazy_regex


def test_nothing_is_compiled_before_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    compile_ = re.compile

    def noted(pattern: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(pattern)
        return compile_(pattern, flags)

    monkeypatch.setattr(re, "compile", noted)
    words = lazy_regex("[a-z]+")
    assert compiled == []
    assert (words.findall("a bc"), words.sub("x", "a bc")) == (["a", "bc"], "x x")
    assert compiled == ["[a-z]+"]


def test_it_is_the_pattern_that_was_asked_for() -> None:
    pattern = lazy_regex(rb"^b(?P<rest>.)", re.MULTILINE)
    assert (pattern.pattern, pattern.flags & re.MULTILINE, pattern.groupindex) == (
        rb"^b(?P<rest>.)", re.MULTILINE, {"rest": 1},
    )  # fmt: skip
    found = pattern.search(b"a\nbc")
    assert found is not None and found["rest"] == b"c"


def test_a_broken_one_is_refused_when_it_is_used() -> None:
    broken = lazy_regex("(")
    with pytest.raises(re.error):
        broken.search("")


@pytest.mark.slow
def test_every_one_of_ours_can_be_compiled() -> None:
    for module in walk_packages(backstory.__path__, "backstory."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    ours = [module for name, module in sys.modules.items() if name.split(".")[0] == "backstory"]
    waiting = {id(each): each for module in ours for each in vars(module).values() if isinstance(each, LazyRegex)}
    assert len(waiting) > 100
    for each in waiting.values():
        assert isinstance(each.groups, int)
