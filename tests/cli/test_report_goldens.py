"""Reports of real logs are what they were when they were read beside the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.report_goldens import GOLDEN, REGENERATE, REPORTS, machine_with_logs, report

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return machine_with_logs(tmp_path_factory.mktemp("reports"))


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_is_as_it_was(machine: Shell, name: str) -> None:
    assert report(machine, name) == (GOLDEN / f"{name}.txt").read_text("utf-8"), (
        f"It changed. If that was meant, run `{REGENERATE}` and read every difference beside the logs."
    )


def test_every_file_is_of_a_report() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(REPORTS)
