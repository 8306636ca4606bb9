"""Write every case's ``expected.json`` anew: ``PYTHONPATH=src python -m tests.agents.rewrite_cases``.

Read the difference before you keep it: the expectation is what a person saw in the log, not what came out.
"""

from __future__ import annotations

import json
from typing import Any

from tests.support.reading import EXPECTED, case_told, cases, reviewed


def written(content: dict[str, Any]) -> str:
    """As JSON with one event to a line, so that a difference names the record it is about."""
    heads = [f' "{key}": {json.dumps(content[key], ensure_ascii=False)}' for key in ("identity", "session", "unknown")]
    lists = []
    for key in ("turns", "events"):
        rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in content[key])
        lists.append(f' "{key}": [\n{rows}\n ]' if rows else f' "{key}": []')
    return "{\n" + ",\n".join(heads + lists) + "\n}\n"


def main() -> None:
    for folder in cases():
        (folder / EXPECTED).write_text(written(reviewed(case_told(folder))), "utf-8")


if __name__ == "__main__":
    main()
