"""What commands take as whole processes, over bare Python, with nothing new to read."""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import TYPE_CHECKING

from bench import profiles
from bench.figures import Figure, not_measured
from bench.measuring import Command, Failed, Spent, in_turn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bench.plan import Machine, Plan

MOST_MS: dict[str, tuple[list[str], float | None]] = {
    "--version": (["--version"], 20),
    "list": (["list"], 60),
    "search, a rare word": (["search", "rate limit"], 60),
    "search, a common word": (["search", "the"], 60),
    "list --all": (["list", "--all"], None),
    "show": (["show", "SESSION"], None),
    "ingest, nothing new": (["ingest"], None),
}
"""Commands, and how many ms of processor time each may take over bare Python."""
LIST_MS = 110
LIST_MB = 60
WORDS = ("rate limit", "checkpoint", "worktree", "error", "pytest", "the", "migration")
PEERS = {"agentsview": ["session", "search"], "puenteo": ["search"], "agsearch": ["-n"]}
"""How each searches, as a process that ends."""
FOUND_OR_NOT = (0, 1)
"""The exit codes of a search: some say so if nothing was found."""


def bare(machine: Machine) -> Command:
    """Python alone."""
    return Command([sys.executable, "-c", "pass"], machine.command().env, machine.home)


def commands(plan: Plan, machine: Machine, session: str, runs: int) -> Iterator[Figure]:
    """Every command, in turn with bare Python."""
    ours = {
        name: machine.command(*(each.replace("SESSION", session) for each in words))
        for name, (words, _) in MOST_MS.items()
    }
    turns = in_turn({"bare": bare(machine), **ours}, runs)
    yield Figure("bare Python", turns.median("bare") * 1000, "ms", runs=runs)
    for name, command in ours.items():
        figure = Figure(name, turns.over(name, "bare") * 1000, "ms", most=MOST_MS[name][1], runs=runs)
        yield plan.profiled(figure, lambda command=command: profiles.imports(command))  # type: ignore[misc]


def list_all(plan: Plan, machine: Machine, *, bounded: bool, runs: int = 7) -> Iterator[Figure]:
    """A page of a list of every session."""
    command = machine.command("list", "--all")
    turns = in_turn({"bare": bare(machine), "list": command}, runs)
    most = LIST_MS if bounded else None
    figure = Figure("list --all, over bare Python", turns.over("list", "bare") * 1000, "ms", most=most, runs=runs)
    yield plan.profiled(figure, lambda: profiles.cpu(command))
    memory = max(each.peak_mb for each in turns.spent["list"])
    figure = Figure("list --all: memory", memory, "MB", most=LIST_MB if bounded else None)
    yield plan.profiled(figure, lambda: profiles.memory(command))


def beside_peers(plan: Plan, machine: Machine, runs: int) -> Iterator[Figure]:
    """Searches of the same words by every indexer, in turn; each has indexed the logs before."""
    env = machine.command().env
    programs = {"backstory": list(machine.command("search").words)}
    for name, peer in plan.peers.items():
        if peer.program is None:
            yield not_measured(f"{peer}: a search", peer.why_not)
        else:
            programs[name] = [str(peer.program), *PEERS[name]]
    try:
        for name, (first, why_not) in _indexed(programs, env, machine.home).items():
            if why_not:
                del programs[name]
                yield not_measured(f"{plan.peers[name]}: a search", why_not)
            elif name not in ("backstory", "agentsview"):
                # agentsview indexes in its server here; its ingest is measured as a process of its own.
                yield Figure(f"{plan.peers[name]}: first index of the same logs", first, "s", note="processor time")
        words = WORDS[:3] if plan.quick else WORDS
        commands = {
            f"{name} {word}": Command([*each, word], env, machine.home, codes=FOUND_OR_NOT)
            for word in words
            for name, each in programs.items()
        }
        turns = in_turn(commands, runs)
        for name in programs:
            yield _search(name, [each for word in words for each in turns.spent[f"{name} {word}"]])
    finally:
        if "agentsview" in programs:
            # Its searches ask a server that they start; it would outlive the logs.
            stop = [programs["agentsview"][0], "daemon", "stop"]
            subprocess.run(stop, env=dict(env), capture_output=True, check=False)


def _search(name: str, spent: list[Spent]) -> Figure:
    wall = statistics.median(each.wall_s * 1000 for each in spent)
    server = "; its server's own time is not in it" if name == "agentsview" else ""
    cpu = statistics.median(each.cpu_s * 1000 for each in spent)
    note = f"wall {wall:.0f} ms{server}"
    return Figure(f"{name}: a search, whole process", cpu, "ms", runs=len(spent), note=note)


def _indexed(programs: Mapping[str, list[str]], env: Mapping[str, str], home: Path) -> dict[str, tuple[float, str]]:
    """What each took to read the logs for the first time, or why it cannot search."""
    told: dict[str, tuple[float, str]] = {}
    for name, words in programs.items():
        first = {"agentsview": [words[0], "sync"], "puenteo": [words[0], "index"]}.get(name, [*words, WORDS[0]])
        try:
            spent = in_turn({"first": Command(first, env, home)}, 1).median("first")
            in_turn({"search": Command([*words, WORDS[0]], env, home, codes=FOUND_OR_NOT)}, 1)
            told[name] = (spent, "")
        except Failed as failed:
            told[name] = (0, " ".join(str(failed).split())[:150])
    return told
