"""Ingest: processor time, time, memory and size, on real logs, generated ones, and very many small ones."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench import homes, profiles, startup
from bench.figures import Figure, not_measured
from bench.measuring import Command, Failed, Turns, answer, empty, environment, in_turn, offline, peak_mb, spend
from bench.plan import Machine, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator

CPU_PER_AGENTSVIEW = 0.60
TIMES_AS_FAST = 2.8
CPU_PER_EARLIER = 0.87
MORE_MEMORY_MB = 10
STORE_PER_REAL = 0.235
STORE_PER_REAL_OPTIMIZED = 0.21
STORE_PER_GENERATED = 0.44
STORE_PER_SMALL = 2.1
COPILOT_TURNS = 8_000
COPILOT_CPU_S = 2.4
AGAIN_CPU_S = 1.5
AGAIN_MB = 100
DIGEST = str(Path(__file__).with_name("content_digest.py"))
SESSIONS_OF_BOUNDS = 100_000
"""The bounds of a second ingest and of a list are for so many sessions."""


def ingest(machine: Machine) -> Command:
    """A first ingest."""
    return machine.command("ingest", before=empty(machine.folder))


def real(plan: Plan, machine: Machine) -> Iterator[Figure]:
    """Real logs, beside agentsview, which keeps no bytes of them."""
    commands = {"ours": _offline(ingest(machine))}
    theirs, peer = machine.home / ".agentsview", plan.peers["agentsview"]
    why_not = peer.why_not
    if peer.program:
        env = environment(machine.home, machine.folder, AGENTSVIEW_NO_DAEMON="1")
        command = _offline(Command([str(peer.program), "sync"], env, machine.home, empty(theirs)))
        try:
            spend(command)
            commands["theirs"] = command
        except Failed as failed:
            why_not = " ".join(str(failed).split())[:200]
    turns = in_turn(commands, plan.runs, plan.quiet)
    logs = kept_bytes(machine)
    yield _cpu("processor time", turns, logs)
    yield from _beside(plan, machine, turns, str(peer), why_not)
    if "theirs" in commands:
        size = (theirs / "sessions.db").stat().st_size / logs
        yield Figure("agentsview's store ÷ logs, without their bytes", size)
        shutil.rmtree(theirs)
    yield from _memory(plan, machine)
    yield _content(plan, machine)
    yield from sized(plan, machine, logs, STORE_PER_REAL)
    yield from again(plan, machine, runs=plan.runs)


def _offline(command: Command) -> Command:
    return Command([*offline(), *command.words], command.env, command.cwd, command.before)


def kept_bytes(machine: Machine) -> int:
    """Bytes of all logs, by a first ingest."""
    told = answer(machine.command("ingest", "--json", before=empty(machine.folder)))
    return int(json.loads(told)["bytes_read"])


def _cpu(name: str, turns: Turns, logs: float) -> Figure:
    cpu, wall = turns.median("ours"), turns.median("ours", "wall_s")
    note = f"{logs / 1e6:,.0f} MB; {logs / 1e6 / cpu:.0f} MB per CPU second; wall {wall:.2f} s"
    return Figure(name, cpu, "s", runs=len(turns.loads), note=note)


def _beside(plan: Plan, machine: Machine, turns: Turns, name: str, why_not: str) -> Iterator[Figure]:
    cpu, wall = f"processor time ÷ {name}'s", f"times as fast as {name}, on the clock"
    if "theirs" not in turns.spent:
        yield not_measured(cpu, why_not, most=CPU_PER_AGENTSVIEW)
        yield not_measured(wall, why_not, least=TIMES_AS_FAST)
        return
    runs = len(turns.loads)
    told = f"{turns.median('ours'):.2f} s and {turns.median('theirs'):.2f} s"
    figure = Figure(cpu, turns.ratio("ours", "theirs"), most=CPU_PER_AGENTSVIEW, runs=runs, note=told)
    yield plan.profiled(figure, lambda: profiles.cpu(ingest(machine)))
    told = f"{turns.median('ours', 'wall_s'):.2f} s and {turns.median('theirs', 'wall_s'):.2f} s"
    fast = turns.ratio("theirs", "ours", "wall_s")
    yield Figure(wall, fast, "×", least=TIMES_AS_FAST, runs=runs, loads=turns.loads, note=told)


def _memory(plan: Plan, machine: Machine) -> Iterator[Figure]:
    ours, before = peak_mb(ingest(machine)), plan.before
    name = f"peak memory, more than {before.revision}"
    if before.source is None:
        yield Figure("peak memory, both processes", ours, "MB")
        yield not_measured(name, before.why_not, most=MORE_MEMORY_MB)
        return
    theirs = peak_mb(_earlier(plan, machine))
    figure = Figure(name, ours - theirs, "MB", most=MORE_MEMORY_MB, note=f"both processes: {ours:.0f} and {theirs:.0f}")
    yield plan.profiled(figure, lambda: profiles.memory(ingest(machine)))


def _earlier(plan: Plan, machine: Machine) -> Command:
    """A first ingest as it was, into a store of its own."""
    folder = plan.work / "earlier"
    made = Machine(machine.home, folder)
    return made.command("ingest", before=empty(folder), PYTHONPATH=str(plan.before.source))


def _content(plan: Plan, machine: Machine) -> Figure:
    """Say how many of four digests are not those of the earlier revision: none, if it stores the same of these logs."""
    before = plan.before
    name = f"records, turns, sessions, logs: not as with {before.revision}"
    if before.source is None:
        return not_measured(name, before.why_not)
    try:
        spend(_earlier(plan, machine))
        ours = _digests(machine)
        theirs = _digests(Machine(machine.home, plan.work / "earlier"), PYTHONPATH=str(before.source))
    except Failed as failed:
        return not_measured(name, " ".join(str(failed).split())[-200:])
    told = ", ".join(f"{kind} {digest[:12]}" for kind, digest in ours.items())
    return Figure(name, sum(ours[kind] != theirs[kind] for kind in ours), note=told)


def _digests(machine: Machine, **more: str) -> dict[str, str]:
    env = environment(machine.home, machine.folder, **more)
    told: dict[str, str] = json.loads(answer(Command([sys.executable, "-P", DIGEST, str(machine.store)], env)))
    return told


def sized(plan: Plan, machine: Machine, logs: float, most: float) -> Iterator[Figure]:
    """A store beside the logs that it keeps."""
    size = machine.store.stat().st_size
    note = f"{size / 1e6:.1f} of {logs / 1e6:.1f} MB"
    figure = Figure("store ÷ logs", size / logs, most=most, note=note)
    yield plan.profiled(figure, lambda: profiles.tables(machine.store, logs))


def optimized(plan: Plan, machine: Machine) -> Iterator[Figure]:
    """The same after ``optimize --all``."""
    logs = kept_bytes(machine)
    spent = spend(machine.command("optimize", "--all"))
    size = machine.store.stat().st_size
    name = "store ÷ logs after optimize --all"
    figure = Figure(name, size / logs, most=STORE_PER_REAL_OPTIMIZED, note=f"which takes {spent.cpu_s:.1f} CPU s")
    yield plan.profiled(figure, lambda: profiles.tables(machine.store, logs))


def again(plan: Plan, machine: Machine, *, runs: int, bounded: bool = False) -> Iterator[Figure]:
    """A second ingest, which has nothing to read."""
    command = machine.command("ingest")
    spent = in_turn({"again": command}, runs)
    name, most = "ingest again, nothing new: processor time", AGAIN_CPU_S if bounded else None
    figure = Figure(name, spent.median("again"), "s", runs=runs, most=most)
    yield plan.profiled(figure, lambda: profiles.cpu(command))
    memory = max(each.peak_mb for each in spent.spent["again"])
    name, most = "ingest again, nothing new: memory", AGAIN_MB if bounded else None
    figure = Figure(name, memory, "MB", most=most)
    yield plan.profiled(figure, lambda: profiles.memory(command))


def generated(plan: Plan, machine: Machine, size: float, runs: int) -> Iterator[Figure]:
    """So many bytes of generated logs, beside an earlier revision."""
    homes.generated(machine.home, size)
    commands = {"ours": ingest(machine)}
    if plan.before.source:
        commands["earlier"] = _earlier(plan, machine)
    turns = in_turn(commands, runs)
    logs = homes_bytes(machine)
    yield _cpu("processor time", turns, logs)
    name = f"processor time ÷ {plan.before.revision}'s"
    if plan.before.source:
        told = f"{turns.median('ours'):.1f} s and {turns.median('earlier'):.1f} s"
        figure = Figure(name, turns.ratio("ours", "earlier"), most=CPU_PER_EARLIER, runs=runs, note=told)
        yield plan.profiled(figure, lambda: profiles.cpu(ingest(machine)))
    else:
        yield not_measured(name, plan.before.why_not, most=CPU_PER_EARLIER)
    yield from _memory(plan, machine)
    yield from sized(plan, machine, logs, STORE_PER_GENERATED)
    yield from again(plan, machine, runs=runs)


def homes_bytes(machine: Machine) -> int:
    """Bytes of all logs below a home folder of our own making."""
    return sum(each.stat().st_size for each in machine.home.rglob("*.jsonl"))


def many_small(plan: Plan, machine: Machine, sessions: int) -> Iterator[Figure]:
    """Very many sessions of a prompt and an answer."""
    logs = homes.small(machine.home, sessions)
    spent = in_turn({"ours": ingest(machine)}, 1)
    yield _cpu("processor time", spent, logs)
    yield Figure("memory of the largest process", spent.median("ours", "peak_mb"), "MB")
    yield from sized(plan, machine, logs, STORE_PER_SMALL)
    is_bounded = sessions >= SESSIONS_OF_BOUNDS
    yield from again(plan, machine, runs=3, bounded=is_bounded)
    yield from startup.list_all(plan, machine, bounded=is_bounded)
    verified = spend(machine.command("verify"))
    yield Figure("verify: processor time", verified.cpu_s, "s", note=f"{verified.peak_mb:.0f} MB")


def copilot(plan: Plan, machine: Machine, turns: int, runs: int) -> Iterator[Figure]:
    """Many turns of Copilot CLI."""
    logs = homes.copilot(machine.home, turns)
    spent = in_turn({"ours": ingest(machine)}, runs)
    figure = _cpu("processor time", spent, logs)._replace(most=COPILOT_CPU_S if turns == COPILOT_TURNS else None)
    yield plan.profiled(figure, lambda: profiles.cpu(ingest(machine)))
    yield Figure("processor time of 1,000 turns", spent.median("ours") / turns * 1000, "s", runs=runs)
    yield from again(plan, machine, runs=runs)
