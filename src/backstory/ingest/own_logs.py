"""The agents' own logs of our runs, read side by side with the runs' streams for what those do not say.

What is found is kept beside the stream, so that it is there again whenever the run's events are derived anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backstory import agents
from backstory.agents.jsonl import lines_of
from backstory.errors import in_words, is_for_one_only
from backstory.ingest.log_reader import numbered_lines
from backstory.ingest.report import Problem
from backstory.lazy import lazy_module
from backstory.model import RunFacts
from backstory.store.tables.sidecars import pack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.ingest.report import IngestReport
    from backstory.store import Store
    from backstory.store.intake import run_facts
    from backstory.store.intake.run_facts import Unmatched
else:
    run_facts = lazy_module("backstory.store.intake.run_facts")

INPUTS_BYTES_MAX = 8 * 1024 * 1024
"""The most bytes, of those that a run's edits changed, that are kept a second time; all of them are in the log."""
TIMES_MAX = 250_000
"""The most records with a time; each takes up to 36 bytes."""


def match_runs(store: Store, report: IngestReport) -> None:
    """Read the own logs of runs that were not read for that yet, or have changed."""
    for each in store.ask_or([], run_facts.unmatched):
        try:
            _match(store, each)
            report.runs_matched += 1
        except Exception as refused:
            if not is_for_one_only(refused):
                raise
            report.errors.append(Problem(each.name, in_words(refused)))


def _match(store: Store, each: Unmatched) -> None:
    own_log = agents.load(each.agent).own_log
    # Kept also where nothing was found: it notes that this log was read for the run.
    facts = RunFacts()
    if own_log is not None:
        stream = ((start, line) for start, _, line in lines_of(store.stream_log(each.stream_id)) if line is not None)
        facts = _within_bounds(own_log.run_facts(stream, _logged(store, each)))
    store.change(
        run_facts.keep, each.stream_id, pack(each.name, each.mtime_ns, msgspec.json.encode(facts)), own_log=each.log_id
    )


def _logged(store: Store, each: Unmatched) -> Iterator[bytes]:
    log = store.log(each.log_id)
    if log is not None:
        yield from (line for line, seq in numbered_lines(store, log) if seq <= each.last_seq)


def _within_bounds(facts: RunFacts) -> RunFacts:
    """The first times and inputs, as long as there is room for them; ``store.run_facts`` reads no more."""
    kept, room = {}, INPUTS_BYTES_MAX
    for offset, given in sorted(facts.inputs.items()):
        room -= len(msgspec.json.encode({offset: given}))
        if room < 0:
            break
        kept[offset] = given
    return RunFacts(times=dict(sorted(facts.times.items())[:TIMES_MAX]), inputs=kept)
