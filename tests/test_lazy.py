"""Modules that are imported when they are first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from backstory.lazy import lazy_module

PROGRAM = """
import sys
from backstory.lazy import lazy_module
colours = lazy_module("colorsys")
print("colorsys" in sys.modules, colours.ONE_THIRD == 1 / 3, "colorsys" in sys.modules)
"""


def test_a_module_is_imported_when_something_of_it_is_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "True", "True"]


def test_what_is_asked_for_is_what_the_module_has_at_that_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import colorsys

    stands_for = lazy_module("colorsys")
    assert stands_for.hls_to_rgb is colorsys.hls_to_rgb
    monkeypatch.setattr(colorsys, "hls_to_rgb", None)
    assert stands_for.hls_to_rgb is None


def test_what_the_module_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = lazy_module("colorsys").nothing_of_this_name
