"""Text forms of ``export``: JSON lines that ``import`` reads again, and Markdown for people."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.views import sharing
from backstory.derive.secrets import SecretCount
from backstory.export.exporting import Chosen, WrittenFile
from backstory.workspace.located import LocatedSession

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backstory.cli.app import App
    from backstory.derive.secrets import Redactor

JSON, MARKDOWN = "json", "md"
FORMATS = (JSON, MARKDOWN)
ENDINGS = {".json": JSON, ".jsonl": JSON, ".md": MARKDOWN}
"""The format that the name of a file stands for."""
STDOUT = Path("-")
BYTES_LINE = b'{"type":"bytes"'
"""The beginning of a line with bytes of a log."""


def write(
    app: App, form: str, chosen: Sequence[Chosen], target: Path, *, everything: bool, has_bytes: bool, force: bool,
    redactor: Redactor | None,
) -> WrittenFile | None:  # fmt: skip
    """Write sessions to a new file, or to stdout (-), which gives None.

    Raises FileInTheWay, unless ``force``, DiskFull and CannotWrite.
    """
    if form == MARKDOWN:
        return _write_markdown(app, chosen, target, force=force, redactor=redactor)
    return _write_json(
        app, chosen, target, everything=everything, has_bytes=has_bytes, force=force, redactor=redactor
    )  # fmt: skip


def _write_json(
    app: App, chosen: Sequence[Chosen], target: Path, *, everything: bool, has_bytes: bool, force: bool,
    redactor: Redactor | None,
) -> WrittenFile | None:  # fmt: skip
    from backstory.bounds import LINE_BYTES_MAX
    from backstory.export.portable import JsonExport

    export = JsonExport(has_bytes=has_bytes, now=app.workspace.now(), redactor=redactor)
    lines, secrets = export.lines(chosen, removed=everything), SecretCount()
    if redactor is None:
        lines = _counted(lines, secrets)
    if target == STDOUT:
        output.lines_of_json(lines, LINE_BYTES_MAX)
        written = None
    else:
        written = _written(JSON, target, lines, export.counts, force=force, redactor=redactor)
    sharing.tell_masked(redactor)
    sharing.tell_secrets(secrets)
    if redactor is not None:
        output.talk("The bytes of the logs are left out: they cannot be masked and stay what they are.")
    elif not has_bytes:
        output.talk("The bytes of the logs are left out: who imports the file has no logs to restore.")
    if export.damaged:
        output.talk(f"{output.counted(len(export.damaged), 'session')} could not be written; the others were.")
        raise export.damaged[0]
    return written


def _write_markdown(
    app: App, chosen: Sequence[Chosen], target: Path, *, force: bool, redactor: Redactor | None
) -> WrittenFile | None:
    """Write sessions as ``show --md`` prints them, an empty line between two."""
    written, secrets = None, SecretCount()
    if target == STDOUT:
        lines = _markdown(app, chosen, Counter(), redactor)
        output.pages(lines if redactor is not None else secrets.counting(lines))
    else:
        written, secrets = write_markdown(app, chosen, target, force=force, redactor=redactor)
    sharing.tell_masked(redactor)
    sharing.tell_secrets(secrets)
    return written


def write_markdown(
    app: App, chosen: Sequence[Chosen], target: Path, *, force: bool, redactor: Redactor | None
) -> tuple[WrittenFile, SecretCount]:
    """Write sessions to a file; returns it, and the secrets that are in it, of which a masked one has none.

    Raises FileInTheWay, unless ``force``, DiskFull and CannotWrite.
    """
    counts, secrets = Counter[str](), SecretCount()
    lines = _markdown(app, chosen, counts, redactor)
    if redactor is None:
        lines = secrets.counting(lines)
    encoded = (line.encode("utf-8", "replace") + b"\n" for line in lines)
    return _written(MARKDOWN, target, encoded, counts, force=force, redactor=redactor), secrets


def _counted(lines: Iterable[bytes], secrets: SecretCount) -> Iterator[bytes]:
    """The same lines, with the secrets of their texts counted; the bytes of logs have the same ones."""
    for line in lines:
        yield line
        if not line.startswith(BYTES_LINE):
            secrets.add(line.decode())


def _written(
    form: str, target: Path, pieces: Iterable[bytes], counts: Counter[str], *, force: bool, redactor: Redactor | None
) -> WrittenFile:
    from backstory.export.files import whole_file

    place = target.absolute()
    with whole_file(place, force=force) as file:
        size = sum(map(file.write, pieces))
    return WrittenFile(
        format=form, file=str(place), exact=False, bytes=size, rows=dict(counts), left_out=0,
        masked=redactor.counts if redactor is not None else None,
    )  # fmt: skip


def _markdown(app: App, chosen: Sequence[Chosen], counts: Counter[str], redactor: Redactor | None) -> Iterator[str]:
    from backstory.export.markdown import document

    for each in chosen:
        found = each.store.sessions(subagents=True) if each.is_all_but else map(each.store.session, each.ids)
        for session in found:
            if each.is_all_but and session.id in each.ids:
                continue
            shared = app.reader.shared(LocatedSession(each.store, session), redactor)
            if counts["sessions"]:
                yield ""
            yield from document(shared.session, shared.events, is_masked=redactor is not None)
            counts["sessions"] += 1
