"""The program: ``backstory``, or ``python -m backstory``."""

import gc

GARBAGE_LOOK_EVERY = 100_000
"""Garbage is looked for each time when so many objects are new: to import a command makes many, and no garbage."""


def main() -> None:
    """Run the command line."""
    gc.set_threshold(GARBAGE_LOOK_EVERY)
    from backstory import cli

    cli.main()


if __name__ == "__main__":
    main()
