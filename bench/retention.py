"""What summaries keep: of each kind of fact, how much a session's own summary names, and that of other sessions.

    python -m bench.retention STORE

Looks at the sessions whose client made a summary itself. The figures stand in ``conversation/retention.py``: a kind of
which another session's summary names a third as much, or more, says nothing and is not shown.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from backstory.conversation.compaction import facts_of, is_kept
from backstory.conversation.tree import Point, Span
from backstory.store import open_store
from backstory.store.tables import branches, compactions

SESSIONS_MAX = 40
CHARS = 1 << 60


def main() -> None:
    """Count, and print a line of JSON for each kind."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("store", type=Path)
    found: list[tuple[str, dict[str, list[str]]]] = []
    with open_store(options.parse_args().store, shared=True) as store:
        for session in store.sessions():
            summaries = store.ask(compactions.of_session, session.id)
            turns = store.turns(session)
            if not summaries or len(found) >= SESSIONS_MAX:
                continue
            summary = summaries[0]
            last = next((each for each in turns if each.first_seq <= summary.after_seq <= each.last_seq), None)
            if last is None:
                continue
            covered = store.context_turns(session, CHARS, Point(last.uid, summary.after_seq))
            spans = [Span(each.turn.uid, each.turn.first_seq, each.turn.last_seq) for each in covered]
            found.append((summary.summary, facts_of(covered, store.ask(branches.touched, session.id, spans))))
    for kind in dict.fromkeys(kind for _, facts in found for kind in facts):
        own = [is_kept(kind, summary, fact) for summary, facts in found for fact in facts[kind]]
        other = [
            is_kept(kind, summary, fact)
            for number, (_, facts) in enumerate(found)
            for place, (summary, _) in enumerate(found)
            if place != number
            for fact in facts[kind]
        ]
        figures = {"own": round(sum(own) / max(len(own), 1), 3), "other": round(sum(other) / max(len(other), 1), 3)}
        print(json.dumps({"kind": kind, "sessions": len(found), "facts": len(own), **figures}))


if __name__ == "__main__":
    main()
