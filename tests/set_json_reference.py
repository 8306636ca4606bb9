"""Writes docs/json.md, every key of the JSON that commands print, and the changelog's table of keys that changed.

``python -m tests.set_json_reference``; ``tests/test_json_keys.py`` compares.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from tests.support.json_answers import answers
from tests.support.json_keys import CHANGES, DOCUMENT, TABLE, before, changed, paths, reference, table

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        printed = answers(Path(folder) / "machine")
    DOCUMENT.write_text(reference(printed), "utf-8")
    rows = table(changed(before(), paths(printed)))
    CHANGES.write_text(re.sub(TABLE, lambda _: f"{rows}\n", CHANGES.read_text("utf-8")), "utf-8")
