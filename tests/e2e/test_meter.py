"""The fill of a session's context while the real ``claude`` writes one long answer."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow
ANSWER = {"text": "word " * 1_200, "chunk": 240, "chunk_delay": 0.04, "usage": {"input": 100, "output": 1_200}}


def test_the_meter_moves_within_an_answer(machine: Machine) -> None:
    on_a_terminal = f'{sys.executable} -c "import pty, sys; pty.spawn(sys.argv[1:])"'
    out = machine.do(
        f'$B config set compaction.chars 15000 > /dev/null; {on_a_terminal} $B run -a claude "Where?" < /dev/zero',
        ANSWER,
    )
    last = out.rindex("word ")
    moved = [int(each) for each in re.findall(r"context (\d+) %", out[:last].replace("\x1b[32m", ""))]
    assert moved == sorted(moved)
    assert len(set(moved)) >= 5
    machine.check()
