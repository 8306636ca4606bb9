"""Writes what the stories of README.md print today into it, and links to the pictures of screens.

``python -m tests.set_readme_output``; ``tests/test_readme.py`` compares.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.support.stories import README, Machine, address, addressed, illustrated, retold


def main() -> None:
    """Run every story, and say whether anything changed."""
    before = README.read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder:
        after = addressed(illustrated(retold(before, Machine(Path(folder)))), address())
    README.write_text(after, "utf-8")
    sys.stdout.write("README.md has other output now.\n" if after != before else "README.md is as it was.\n")


if __name__ == "__main__":
    main()
