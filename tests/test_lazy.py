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


LEAN = """
import sys
from backstory.lazy import import_lean
import_lean("pathlib", "click", "msgspec")
import click, msgspec
names = ("inspect", "ipaddress", "msgspec.inspect", "platform", "textwrap", "typing_extensions")
rarely = [name for name in names if name in sys.modules]
many = click.Option(["--it"], help="Two\\n    lines.").help
import inspect
print(rarely, [many], click.termui.inspect.isfunction(len), type(inspect).__name__)
print(msgspec.json.decode(b"[1]", type=list[int]))
"""


def test_what_other_modules_use_rarely_is_imported_when_they_use_it() -> None:
    done = subprocess.run([sys.executable, "-c", LEAN], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[] ['Two\\nlines.'] False module\n[1]\n"


@pytest.mark.parametrize("text", ["", "  one", "one  ", " a\tb", "one\n   two\n  three\n", "\n\n  one\n"])
def test_a_help_loses_its_indentation_as_it_does_with_inspect(text: str) -> None:
    import inspect

    from backstory import lazy

    assert lazy._cleandoc(text) == inspect.cleandoc(text)


def test_the_system_is_the_one_that_platform_names() -> None:
    import platform

    from backstory import lazy

    assert lazy._system() == platform.system()
    assert lazy._implementation() == platform.python_implementation()
