"""Write what is read from every recorded run anew: ``PYTHONPATH=src python -m tests.agents.rewrite_streams``.

Read the difference before you keep it: the expectation is what a person saw in the run, not what came out.
"""

from __future__ import annotations

import json

from tests.support.streaming import expectations, runs, stream_reviewed


def main() -> None:
    for agent in ("claude", "codex"):
        path, known = expectations(agent)
        rows = []
        for run in runs(agent):
            ended = known.get(run.stem, {"exit": {"code": 0}})["exit"]
            content = {"exit": ended, **stream_reviewed(agent, run, ended)}
            rows.append(f' "{run.stem}": {json.dumps(content, ensure_ascii=False)}')
        path.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
