"""The real ``claude`` and ``codex``, offline: a machine of their own, in a network namespace with loopback alone.

``make clients`` installs them. Without them, or without namespaces, the tests are skipped and say why; with
BACKSTORY_REQUIRE_CLIENTS set, as CI does where it could install them, that is a failure.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.real_clients import Machine, begin_by_run, begin_natively, why_not

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.real_clients import Done, DoneOnce


@pytest.fixture(scope="session")
def real_clients() -> None:
    """Skip where they cannot be run; fail where that is demanded."""
    if why := why_not():
        if os.environ.get("BACKSTORY_REQUIRE_CLIENTS"):
            pytest.fail(why, pytrace=False)
        pytest.skip(why)


@pytest.fixture
def machine(real_clients: None, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.switch_off()


@pytest.fixture(scope="session")
def kept_machines() -> dict[tuple[Done, str], Machine]:
    """Machines on which something was done once, by what and with which agent."""
    return {}


@pytest.fixture
def done_once(
    real_clients: None, kept_machines: dict[tuple[Done, str], Machine],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[DoneOnce]:  # fmt: skip
    """Gives a machine on which this was done with an agent, as it was right then, whatever tests did to it since."""
    given: list[Machine] = []

    def done(what: Done, agent: str) -> Machine:
        machine = kept_machines.get((what, agent))
        if machine is None:
            machine = Machine(tmp_path_factory.mktemp("machine") / "root")
            given.append(machine)
            what(machine, agent)
            machine.keep()
            kept_machines[what, agent] = machine
        else:
            given.append(machine)
            machine.put_back()
        return machine

    yield done
    for machine in given:
        machine.switch_off()


@pytest.fixture
def native(done_once: DoneOnce) -> Callable[[str], Machine]:
    """Gives a machine with a session of an agent's client itself."""
    return lambda agent: done_once(begin_natively, agent)


@pytest.fixture
def ran(done_once: DoneOnce) -> Callable[[str], Machine]:
    """Gives a machine with a session of ours that an agent's run began."""
    return lambda agent: done_once(begin_by_run, agent)
