"""The program: ``backstory``, or ``python -m backstory``."""

import gc
import os
import sys

from backstory import __version__

GARBAGE_LOOK_EVERY = 100_000
"""Number of new objects after which garbage is looked for: to import a command makes many, and no garbage."""


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] == ["--version"] and _has_printed_version():
        return
    gc.set_threshold(GARBAGE_LOOK_EVERY)
    from backstory.lazy import import_lean

    import_lean("pathlib", "click")
    from backstory.cli import main as of_the_command_line

    of_the_command_line()


def _has_printed_version() -> bool:
    """Print the version before anything is imported; where that fails the command line does it, and says why."""
    line = f"backstory {__version__}\n".encode()
    try:
        return os.write(1, line) == len(line)
    except OSError:
        return False


if __name__ == "__main__":
    main()
