"""What ``export`` writes as text: JSON lines that ``import`` reads again, and Markdown for people."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.cli import output, sharing
from backstory.export.exporting import Chosen, Written
from backstory.export.markdown import document
from backstory.export.portable import JsonExport
from backstory.export.whole_file import whole_file
from backstory.workspace.located import LocatedSession

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.cli.app import App
    from backstory.derive.secrets import Redactor

JSON, MARKDOWN = "json", "md"
FORMATS = (JSON, MARKDOWN)
STDOUT = Path("-")


def write(
    app: App, form: str, chosen: Sequence[Chosen], target: Path, *, everything: bool, has_bytes: bool, force: bool,
    redactor: Redactor | None,
) -> Written | None:  # fmt: skip
    """Write sessions to a new file, or to stdout (-), which gives None. Raises FileInTheWay, DiskFull, CannotWrite."""
    if form == JSON:
        export = JsonExport(has_bytes=has_bytes, now=app.workspace.now(), redactor=redactor)
        pieces, counts = export.lines(chosen, removed=everything), export.counts
    else:
        counts = Counter[str]()
        pieces = _markdown(app, chosen, counts, redactor)
    if target == STDOUT:
        output.binary(pieces)
        _tell(form, has_bytes=has_bytes, redactor=redactor)
        return None
    place = target.absolute()
    with whole_file(place, force=force) as file:
        size = sum(map(file.write, pieces))
    _tell(form, has_bytes=has_bytes, redactor=redactor)
    return Written(
        format=form, file=str(place), exact=False, bytes=size, rows=dict(counts), left_out=0,
        masked=redactor.counts if redactor is not None else None,
    )  # fmt: skip


def _tell(form: str, *, has_bytes: bool, redactor: Redactor | None) -> None:
    """Say what the file lacks."""
    sharing.tell_masked(redactor)
    if form == JSON and redactor is not None:
        output.talk("The bytes of the logs are left out: they cannot be masked and stay what they are.")
    elif form == JSON and not has_bytes:
        output.talk("The bytes of the logs are left out: who imports the file has no logs to restore.")


def _markdown(app: App, chosen: Sequence[Chosen], counts: Counter[str], redactor: Redactor | None) -> Iterator[bytes]:
    """Every session as ``show --md`` prints it, an empty line between two."""
    for each in chosen:
        found = each.store.sessions(subagents=True) if each.is_all_but else map(each.store.session, each.ids)
        for session in found:
            if each.is_all_but and session.id in each.ids:
                continue
            shared = app.reader.shared(LocatedSession(each.store, session), redactor)
            if counts["sessions"]:
                yield b"\n"
            for line in document(shared.session, shared.events, is_masked=redactor is not None):
                yield line.encode("utf-8", "replace") + b"\n"
            counts["sessions"] += 1
