"""OpenHands' conversations: ``conversations/<32 hex digits>/events/event-NNNNN-<id>.json`` below ~/.openhands.

Source: recordings of OpenHands CLI 1.16.0. A file holds one event, and none is written twice. ``base_state.json``
beside the events is written anew after each one; of it the folder that the agent works in and the tokens of each
request are records, so that a version of it costs what it adds.
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from backstory import ids
from backstory.agents import jsonl
from backstory.agents.contract import FolderOrder, LogRoot
from backstory.agents.openhands.places import CONVERSATIONS, EVENTS, STATE
from backstory.lazy import lazy_module, lazy_regex
from backstory.model import LogIdentity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from backstory.agents.openhands import reader
else:
    # An ingest with nothing new reads no record.
    reader = lazy_module("backstory.agents.openhands.reader")

_ID = lazy_regex(r"[0-9a-f]{32}")
_EVENT = lazy_regex(r"events/event-(\d{1,9})-[^/]+\.json")
_FLAT = lazy_regex(rb"\{[^{}]*\}")
_OWN = lazy_regex(rb'\s*\{\s*"id"\s*:\s*"[0-9a-f-]{36}"\s*,\s*"timestamp"\s*:')
_OF_STATE = lazy_regex(rb'\s*\{[^{}]*"(?:response_id|working_dir)"\s*:')
_BEGAN = lazy_regex(rb'[^{]*\{[^{}]*"timestamp"\s*:\s*"([0-9T:.-]{19,26})"')


class Logs:
    """See ``contract.LogPart``."""

    is_whole = staticmethod(jsonl.is_whole)

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        root = Path(environ.get("OPENHANDS_PERSISTENCE_DIR") or home / ".openhands")
        named = environ.get("OPENHANDS_CONVERSATIONS_DIR")
        folder = Path(named) if named else root / CONVERSATIONS
        return [LogRoot(folder=folder, root=folder.parent)]

    def is_log(self, path: Path) -> bool:
        return path.name == EVENTS and _ID.fullmatch(path.parent.name) is not None

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        if not _ID.fullmatch(path.parent.name):
            return None
        records = [line for line in jsonl.lines_in(head) if not line.startswith(jsonl.FOLDER_LINE)]
        events = [line for line in records if _OWN.match(line)]
        # The state may be written before the first event, which alone says when the conversation began.
        if not events and not (len(head) >= ids.HEAD_BYTES and any(map(_OF_STATE.match, records))):
            return None
        found = next(filter(None, map(_BEGAN.match, events)), None)
        began = ids.parse_time_ms(f"{found[1].decode()}Z") if found else None
        return LogIdentity(native_id=path.parent.name, began=began)

    def reader(
        self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]
    ) -> reader.Reader:
        return reader.Reader(identity, state)

    def native_id_of(self, line: bytes) -> str | None:
        return reader.id_of(line)


class Conversations:
    """See ``contract.FolderPart``."""

    head, watched = EVENTS, (STATE,)

    def folder_of(self, below: PurePath) -> PurePath | None:
        return PurePath(below.parts[0]) if below.parts and _ID.fullmatch(below.parts[0]) else None

    def order(self, names: Sequence[str], read: Callable[[str], bytes]) -> FolderOrder:
        numbered = sorted((int(found[1]), name) for name in names if (found := _EVENT.fullmatch(name)))
        named = [name for _, name in numbered]
        gap = next((number for number, (own, _) in enumerate(numbered) if own != number), None)
        return FolderOrder(
            # The first event says when the session began; then requests come before the answers to them.
            names=[*named[:1], *(name for name in names if name == STATE), *named[1:]],
            missing=f"event {gap:05} is missing" if gap is not None else None,
        )

    def records(self, name: str, content: bytes) -> Sequence[tuple[int, int]] | None:
        text = content.rstrip()
        if not jsonl.is_whole(text):
            return None
        if name != STATE:
            return [(len(text) - len(text.lstrip()), len(text))]
        return [found.span() for found in _FLAT.finditer(content) if reader.is_of_state(found[0])]
