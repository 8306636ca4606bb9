"""A scan of stores for secrets: logs, the files beside them, summaries that we had written, and the prompts of runs.

Only what came since the last scan is read. What was looked through is noted while it goes on, so a scan that was killed
goes on where it was. Not looked at are bytes in base64 (images), files that are no text, prompts that wait, and boards.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct, field

from backstory.ask import kept_texts
from backstory.derive.secret_finding import NamedSecret, SecretFinder
from backstory.derive.secret_sieve import SecretSieve
from backstory.errors import BackstoryError, in_words
from backstory.ingest.log_reader import kept_lines
from backstory.projects.mask_key import mask_key
from backstory.projects.secret_notes import ScannedPart, ScanNotes, Sighted, mark_of
from backstory.store.codec import CodecError
from backstory.store.tables import sidecars

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from pathlib import Path

    from backstory.ask.kept_texts import ChunkEnd
    from backstory.store import Log, Store

KEEP_EVERY_MS = 1_000
BACK_BYTES = 64 * 1024
"""The most bytes of a line without a number that are looked through before and behind a place in it."""
BINARY_WITHIN = 8_192


class SecretPlaceFound(Struct, frozen=True, kw_only=True):
    """A place of a secret: a record of a session, or a file beside its log."""

    store: Store
    session_id: int
    seq: int | None = None
    file: str | None = None


class SecretFinding(Struct, frozen=True, kw_only=True):
    """A secret, and everywhere it stands."""

    secret: NamedSecret
    places: dict[SecretPlaceFound, None]
    """In order, each once: an agent may have a run's prompt in its log, too."""

    @property
    def sessions(self) -> list[tuple[Store, int]]:
        """The sessions that have it, each once."""
        return list({(id(each.store), each.session_id): (each.store, each.session_id) for each in self.places}.values())


class ScanCounts(Struct, kw_only=True):
    """The extent of a scan."""

    logs: int = 0
    files: int = 0
    bytes: int = 0
    """Bytes of logs and files that were read now; the others were known."""
    not_text: int = 0
    """Files that are no text."""
    errors: list[tuple[str, str]] = field(default_factory=list)
    """Logs and files that could not be read, each with the reason."""
    is_noted: bool = True
    """False where the home takes no notes, so that the next scan reads all again."""


class SecretScan:
    """Scans stores, one after another. ``now``: ms since 1970."""

    def __init__(self, home: Path, now: Callable[[], int]) -> None:
        self.key = mask_key(home)
        self._now, self._kept = now, now()
        self._notes = ScanNotes(home, self.key)
        self._sieve, self._finder = SecretSieve(), SecretFinder(lambda: self.key)
        self._found: dict[str, SecretFinding] = {}
        self.came = set[str]()
        """The digits of those that no scan found before in their store."""
        self.counts = ScanCounts()

    @property
    def findings(self) -> list[SecretFinding]:
        """The secrets that were found, by kind; of each kind those in the most places first."""
        return sorted(self._found.values(), key=lambda each: (each.secret.kind, -len(each.places), each.secret.digits))

    def scan(
        self,
        store: Store,
        session_ids: Container[int] | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """Scan these sessions of a store (None: all). ``progress`` receives bytes done and to do."""
        ends = store.ask(kept_texts.chunk_ends)
        logs, files, summaries = store.logs(), store.ask(kept_texts.files), store.ask(kept_texts.summaries)
        prompts = store.ask(kept_texts.run_prompts)
        here = [{each.id for each in kept} for kept in (logs, files, summaries, prompts)]
        notes = self._notes.of_store(f"{store.ask(kept_texts.store_id)} {store.path}", *here)
        logs = [each for each in logs if session_ids is None or each.session_id in session_ids]
        files = [each for each in files if session_ids is None or each.session_id in session_ids]
        known = notes.digits
        done, total = 0, sum(each.read_to for each in logs) + sum(each.size for each in files)
        with self._keeping():
            for log in logs:
                with self._one(log.path or log.relpath):
                    self._log(store, log, ends.get(log.id, []), notes.logs)
                done += log.read_to
                progress(done, total)
            for file in files:
                with self._one(file.name):
                    self._file(store, file, notes.files)
                done += file.size
                progress(done, total)
            for kept, noted in ((summaries, notes.summaries), (prompts, notes.prompts)):
                for text in kept:
                    if session_ids is None or text.session_id in session_ids:
                        data = text.text.encode("utf-8", "surrogatepass")
                        part = noted[text.id] = self._text(noted.get(text.id), data, mark_of(self.key, data))
                        self._add(part, store, text.session_id, seq=text.seq)
        self.came |= notes.digits - known

    @contextmanager
    def _one(self, name: str) -> Iterator[None]:
        """Note of a log or file that cannot be read why; the others are read."""
        try:
            yield
        except (BackstoryError, CodecError) as refused:
            self.counts.errors.append((name, in_words(refused)))
        if self._now() - self._kept >= KEEP_EVERY_MS:
            self._keep()

    @contextmanager
    def _keeping(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._keep()

    def _keep(self) -> None:
        self.counts.is_noted = self._notes.keep()
        self._kept = self._now()

    def _log(self, store: Store, log: Log, ends: list[ChunkEnd], known: dict[int, ScannedPart]) -> None:
        marks = list(self._marks(ends))
        before, self.counts.logs = known.get(log.id), self.counts.logs + 1
        part = ScannedPart(marks[-1] if marks else "", log.read_to)
        if before is not None and (before.end, before.mark) in zip((each.end for each in ends), marks, strict=True):
            part.found, part.line = before.found, before.line
            start = before.end
        else:
            start = 0
        if start < log.read_to:
            self.counts.bytes += log.read_to - start
            # A line that had not ended had no number yet, and may have told what it does not tell as a whole.
            met = dict.fromkeys(each for each in part.found if each.at is None or each.at < part.line)
            part.found = list(met | dict.fromkeys(self._in_log(store, log, part)))
        known[log.id] = part
        self._add(part, store, log.session_id)

    def _marks(self, ends: list[ChunkEnd]) -> Iterator[str]:
        """Yield a mark of the bytes up to the end of each chunk."""
        mark = ""
        for each in ends:
            mark = mark_of(self.key, mark.encode() + each.sha256)
            yield mark

    def _in_log(self, store: Store, log: Log, part: ScannedPart) -> Iterator[Sighted]:
        """Yield the secrets of a log from the line on where it was left, and note where its last line starts."""
        start = part.line
        places = [start + at for at in self._sieve.places_in(_noting_line(store.stream_log(log.id, start), part))]
        if not places:
            return
        for line in kept_lines(store, log):
            first = bisect_left(places, line.start)
            behind = bisect_left(places, line.stop)
            if first == behind:
                continue
            data = store.read_log(log.id, line.start, line.stop - line.start) if line.content is None else line.content
            yield from (Sighted(each, line.seq) for each in self._finder.found_in(data))
            del places[first:behind]
        for at in places:
            # No record: what an agent writes around the records of a document, or a line that was not parsed.
            begin = _line_before(store, log, at)
            data = store.read_log(log.id, begin, min(log.read_to, at + BACK_BYTES) - begin)
            yield from (Sighted(each, at=at) for each in self._finder.found_in(data.partition(b"\n")[0]))

    def _file(self, store: Store, file: kept_texts.KeptSidecar, known: dict[int, ScannedPart]) -> None:
        self.counts.files += 1
        name = file.name.encode("utf-8", "surrogateescape")
        mark, before = mark_of(self.key, file.sha256, name), known.get(file.id)
        if before is None or before.mark != mark:
            data = store.ask(sidecars.read, file.id)
            self.counts.bytes += len(data)
            before = ScannedPart(mark, -1) if b"\0" in data[:BINARY_WITHIN] else self._text(None, data, mark)
            before.found = list(dict.fromkeys([*before.found, *self._text(None, name, mark).found]))
        self.counts.not_text += before.end < 0
        known[file.id] = before
        self._add(before, store, file.session_id, file=file.name)

    def _text(self, known: ScannedPart | None, data: bytes, mark: str) -> ScannedPart:
        """Look through a text as a whole, unless it is known."""
        if known is not None and known.mark == mark:
            return known
        has_any = next(self._sieve.places_in([data]), None) is not None
        return ScannedPart(mark, len(data), [Sighted(each) for each in self._finder.found_in(data)] if has_any else [])

    def _add(
        self, part: ScannedPart, store: Store, session_id: int, *, seq: int | None = None, file: str | None = None
    ) -> None:
        for each in part.found:
            finding = self._found.setdefault(each.secret.digits, SecretFinding(secret=each.secret, places={}))
            place = SecretPlaceFound(
                store=store, session_id=session_id, seq=each.seq if seq is None else seq, file=file
            )
            finding.places[place] = None


def _noting_line(pieces: Iterator[bytes], part: ScannedPart) -> Iterator[bytes]:
    """Yield the bytes up to the part's end, and note the start of their last line."""
    at = part.line
    for whole in pieces:
        piece = whole[: max(part.end - at, 0)]
        if end := piece.rfind(b"\n") + 1:
            part.line = at + end
        at += len(piece)
        yield piece


def _line_before(store: Store, log: Log, at: int) -> int:
    """Return the start of the line that a place is in; of a very long one, of its last part."""
    begin = max(at - BACK_BYTES, 0)
    end = store.read_log(log.id, begin, at - begin).rfind(b"\n") if at else -1
    return begin + end + 1
