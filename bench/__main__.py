"""Every figure beside its bound, as one table: ``python -m bench LOGS [options]``, or ``make bench``.

LOGS is a home folder with agents' logs, or an archive of one. Processor time is of all processes of a command, and
commands that are compared run in turn, so that what else the machine does meets them alike. Wall time is judged only if
the load was below 0.5 before each turn, which is waited for, except with ``--quick``. Quick means: 100 MB of generated
logs instead of 1 GB, 20,000 small sessions but not 100,000, only what has a bound, fewer runs, no profiles.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import homes, ingests, peers, startup
from bench.figures import Figure, arguments, as_json, from_json, not_measured, show, verdict
from bench.measuring import ROOT, Failed, Quiet, answer
from bench.plan import Machine, Plan, earlier

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

WAIT_S = 180
"""So long a quiet moment is waited for before each turn."""
GENERATED_BYTES, GENERATED_BYTES_QUICK = 1e9, 1e8
MANY, VERY_MANY = 20_000, 100_000
Section = tuple[str, "Callable[[], Iterable[Figure]]"]


def sections(plan: Plan) -> Iterator[Section]:
    """What is measured, in this order; each begins with what the one before left behind."""
    machine = Machine(homes.real(plan.logs, plan.work / "home"), plan.work / "store")
    yield "ingest of real logs", lambda: ingests.real(plan, machine)
    runs = 7 if plan.quick else 15
    yield "commands on them, over bare Python", lambda: startup.commands(plan, machine, _session(machine), runs)
    yield "search in them", lambda: alone(plan, "search", str(machine.store), *_few_queries(plan))
    yield "what contexts keep", lambda: alone(plan, "context_policy", str(machine.store))
    yield "what leaves the machine", lambda: alone(plan, "leaving", str(machine.store))
    yield "a sync with a team's server", lambda: alone(plan, "syncing", str(machine.store))
    if not plan.quick:
        yield "a search on a team's server", lambda: alone(plan, "team_search")
    yield "what arrives", lambda: alone(plan, "arriving", str(machine.store))
    yield "search beside other indexers", lambda: startup.beside_peers(plan, machine, 1 if plan.quick else 3)
    yield "real logs, stored for long", lambda: ingests.optimized(plan, machine)
    yield from _generated(plan)
    yield from _many(plan)
    yield "a run", lambda: alone(plan, "run", *(["--quick"] if plan.quick else []))
    yield from _further(plan)


def _generated(plan: Plan) -> Iterator[Section]:
    size = GENERATED_BYTES_QUICK if plan.quick else GENERATED_BYTES
    with _machine(plan) as machine:
        runs = min(plan.runs, 3)
        yield f"ingest of {size / 1e9:g} GB of generated logs", lambda: ingests.generated(plan, machine, size, runs)
        if not plan.quick:
            yield "search in them", lambda: alone(plan, "search", str(machine.store))


def _many(plan: Plan) -> Iterator[Section]:
    with _machine(plan) as machine:
        yield f"{MANY:,} small sessions", lambda: ingests.many_small(plan, machine, MANY)
    title = f"{VERY_MANY:,} small sessions"
    if plan.quick:
        yield title, lambda: [left_out("all of it")]
    else:
        with _machine(plan) as machine:
            yield title, lambda: ingests.many_small(plan, machine, VERY_MANY)
    turns = (ingests.COPILOT_TURNS,) if plan.quick else (ingests.COPILOT_TURNS, ingests.COPILOT_TURNS * 10)
    for count in turns:
        with _machine(plan) as machine:
            few = min(plan.runs, 3) if plan.quick or count > turns[0] else plan.runs
            yield f"{count:,} turns of Copilot CLI", lambda: ingests.copilot(plan, machine, count, few)  # noqa: B023


def _further(plan: Plan) -> Iterator[Section]:
    """What has no bound that changes, each by a module that can be run alone."""
    titles = {
        "tree": "a conversation of 10,000 turns", "append": "a log that grows by a line", "lock": "holding a session",
        "watch": "ingest --watch", "growth": "growth",
    }  # fmt: skip
    for module, title in titles.items():
        if plan.quick:
            yield title, lambda: [left_out("all of it")]
        else:
            words = [str(plan.logs)] if module == "growth" else []
            yield title, lambda: alone(plan, module, *words)  # noqa: B023


def left_out(name: str) -> Figure:
    """What a quick measurement leaves out."""
    return not_measured(name, "left out by QUICK")


class _machine:  # noqa: N801 - used as a statement
    """A machine that is removed afterwards: its logs may be a gigabyte."""

    def __init__(self, plan: Plan) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=plan.work))

    def __enter__(self) -> Machine:
        (self._folder / "home").mkdir()
        return Machine(self._folder / "home", self._folder / "store")

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder)


def alone(plan: Plan, module: str, *words: str) -> list[Figure]:
    """The figures of a module that measures in its own process."""
    out = plan.work / f"{module}.json"
    profile = ["--profile"] if plan.profiles and module in ("run", "search") else []
    command = [sys.executable, "-m", f"bench.{module}", *words, *profile, "--json", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(" ".join(done.stderr.split())[-300:])
    return [from_json(each) for each in json.loads(out.read_text("utf-8"))]


def _few_queries(plan: Plan) -> list[str]:
    return ["--queries", "100"] if plan.quick else []


def _session(machine: Machine) -> str:
    """A session to show."""
    found = json.loads(answer(machine.command("list", "--all", "--json")))
    sessions = found["sessions"] if isinstance(found, dict) else found
    return str(sessions[0]["uid"])


def measured(plan: Plan) -> Iterator[Figure]:
    """All figures, printed as they come; a section that fails says so and stops no other."""
    for title, measure in sections(plan):
        print(f"\n{title}", flush=True)
        try:
            for figure in measure():
                placed = figure._replace(section=title)
                show(placed)
                yield placed
        except (Failed, OSError, ValueError, subprocess.SubprocessError) as failed:
            figure = not_measured("the rest of it", " ".join(str(failed).split())[:300])._replace(section=title)
            show(figure)
            yield figure


def machine_of(started: float, load: float) -> dict[str, object]:
    """What figures are to be read with."""
    revision = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "took_s": round(time.time() - started),
        "revision": revision.stdout.strip(), "python": platform.python_version(), "processors": os.cpu_count(),
        "system": platform.platform(),
        "load": load,
    }  # fmt: skip


def parsed() -> argparse.Namespace:
    """What is asked for."""
    parser = arguments(__doc__)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--before", default="", metavar="REVISION", help="compare with this revision of ours")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="other indexers are installed there")
    parser.add_argument("--runs", type=int, help="how often what is compared runs")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    if not given.logs.exists():
        parser.error(f"there are no logs at {given.logs}")
    return given


def main() -> None:
    """Measure, print, write."""
    given, started, load = parsed(), time.time(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="backstory-bench-") as name:
        work = Path(name)
        plan = Plan(
            logs=given.logs.absolute(), work=work, before=earlier(given.before, work / "earlier-source"),
            peers=peers.installed(given.peers) if given.peers else peers.none("no folder is named for it"),
            quiet=Quiet(0 if given.quick else WAIT_S), runs=given.runs or (3 if given.quick else 5), quick=given.quick,
            profiles=given.profile or not given.quick,
        )  # fmt: skip
        every = list(measured(plan))
    counts = [verdict(each) for each in every]
    told = machine_of(started, load) | {"quick": given.quick}
    words = ", ".join(f"{counts.count(each)} {each}" for each in ("met", "not met", "not judged", "not measured"))
    print(
        f"\n{words}; {told['took_s']} s, {told['processors']} processors, Python {told['python']}, {told['revision']}"
    )
    if given.json:
        figures = [as_json(each) for each in every]
        given.json.write_text(json.dumps({**told, "figures": figures}, indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
