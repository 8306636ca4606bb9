"""The lines of one repository's sessions as they may leave: secrets masked, then names of this machine.

What secrets a repository has, all of its sessions tell. Of a session that did not change only those records are read
that tell one: a secret is never written down, but the records that tell it are.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from backstory.bounds import NUMBER_MAX
from backstory.conversation.board import CONTENT_CHARS_MAX, DESCRIPTION_CHARS_MAX
from backstory.export.exporting import Chosen
from backstory.export.full_form import FullForms
from backstory.export.portable import JsonExport
from backstory.model import encoded, event_to_json
from backstory.sync.outward import Outward

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from backstory.derive.secrets import KnownSecrets, Redactor
    from backstory.exchange.json_lines import BoardLine
    from backstory.model import Event
    from backstory.sync.leaving import LeavingSession
    from backstory.sync.outward import MachineNames

REMOTE = ("project", "repository")
"""The columns of a session that name its remote, by which a person opted in."""
BESIDES = -1
"""Stands for what other lines than records tell: of such a session all is read whenever any is."""
HASH_CHARS, MASK_CHARS = 16, 10
KEYS_MOST = 10_000
OF_FILE = b'{"type":"backstory"', b'{"type":"end"'
"""The beginnings of lines that belong to no session."""
END = b'{"type":"session_end"'


class OutwardExport:
    """Writes the lines of one repository's sessions as they may leave."""

    def __init__(self, sessions: Sequence[LeavingSession], machine: MachineNames, redactor: Redactor, now: int) -> None:
        self.sessions, self._redactor = sessions, redactor
        roots = {each for one in sessions for each in (one.origin.root, one.origin.project or "") if each}
        self._outward = Outward(machine, {each for each in roots if each.startswith("/")}, redactor.mask)
        self._plain = set[str]()
        """Keys that are no names of this machine."""
        self._export = JsonExport(has_bytes=False, now=now, redactor=redactor, is_taught=True)

    @property
    def counts(self) -> Counter[str]:
        """The number of sessions, turns and events."""
        return self._export.counts

    @property
    def masked(self) -> dict[str, int]:
        """The number of masks, by kind."""
        return dict(Counter(self._redactor.counts) + self._outward.counts)

    @property
    def masks(self) -> str:
        """A hash of the masks of all secrets that the sessions told which were read or recalled."""
        return hashlib.sha256("\n".join(sorted(self._told)).encode()).hexdigest()[:HASH_CHARS]

    @property
    def masks_each(self) -> list[str]:
        """A short hash of each of these masks."""
        return sorted(hashlib.sha256(each.encode()).hexdigest()[:MASK_CHARS] for each in self._told)

    @property
    def _told(self) -> set[str]:
        return {mask for each in self._export.told_by.values() for mask in each.told | each.besides}

    def telling(self, uid: str) -> tuple[int, ...]:
        """The records of a session, which was read, that tell its secrets."""
        found = self._export.told_by[uid]
        return (*found.records, *([] if found.besides <= found.told else [BESIDES]))

    def recall(self, session: LeavingSession, records: Iterable[int]) -> None:
        """Learn the secrets of a session whose ``telling`` records these are."""
        store, uid = session.store, session.origin.uid
        telling = self._export.told_by[uid] = type(self._export.telling)()
        forms = FullForms(store)
        for seq in records:
            after = (seq - 1, NUMBER_MAX)
            while window := store.events(session.origin.id, after=after, limit=1):
                after = (window[0].seq, window[0].part)
                if window[0].seq != seq:
                    break
                self._redactor.learn(forms.expand(window[0]))
                telling.note(seq, self._redactor.take_told())

    def lines(
        self, sessions: Iterable[LeavingSession] | None = None, after: Mapping[str, tuple[int, int]] | None = None
    ) -> Iterator[bytes]:
        """Yield the lines of all sessions, or of some, once all are read; ``after``: see ``JsonExport.lines``.

        Of sessions that have a part in ``after`` the secrets have to be recalled before.
        """
        by_store: dict[int, Chosen] = {}
        for each in self.sessions if sessions is None else sessions:
            by_store.setdefault(id(each.store), Chosen(store=each.store, is_exact=True)).ids.append(each.origin.id)
        for line in self._export.lines([*by_store.values()], removed=False, after=after):
            yield self._rewritten(line)

    def by_session(
        self, sessions: Sequence[LeavingSession], after: Mapping[str, tuple[int, int]] | None = None
    ) -> Iterator[tuple[LeavingSession, Iterator[bytes]]]:
        """Yield each session with its lines, which are gone with the next one."""
        wanted = {each.origin.uid: each for each in sessions}
        lines = self.lines(sessions, after)
        for line in lines:
            if not line.startswith(OF_FILE):
                uid = msgspec.json.decode(line, type=_Uid).uid
                of_session = _upto_end(line, lines)
                yield wanted[uid], of_session
                # Those that nobody wanted.
                for _ in of_session:
                    pass

    def event(self, event: Event) -> Any:
        """Return an event that no store has yet as it may leave, as JSON has it; its secrets are known from then on."""
        self._redactor.learn(event)
        return self._value(msgspec.json.decode(event_to_json(self._redactor.value(event))))

    def learned(self, known: int) -> tuple[KnownSecrets | None, int]:
        """Return the forms of secrets learned since so many were known, None for none, and how many are known now."""
        return self._redactor.known_since(known), self._redactor.known

    def text(self, text: str) -> str:
        """Return a text as it may leave."""
        return self._outward.text(self._redactor.text(text))

    def board_line(self, item: BoardLine) -> bytes | None:
        """Return an item of a board as it may leave; None if the names by which it is found may not.

        The name of its repository stays.
        """
        said = msgspec.json.decode(self._rewritten(self._export.board_line(item)))
        if (said["branch"], said["name"]) != (item.branch, item.name) or self._redactor.text(item.name) != item.name:
            return None
        texts = {"description": DESCRIPTION_CHARS_MAX, "content": CONTENT_CHARS_MAX}
        cut = {name: said[name][:most] for name, most in texts.items() if name in said}
        return encoded(said | cut | {"repository": item.repository})

    def _rewritten(self, line: bytes) -> bytes:
        if not self._outward.may_change(line):
            return line
        said: dict[str, Any] = msgspec.json.decode(line)
        remote = {name: said[name] for name in REMOTE if said.get("type") == "session" and _is_remote(said.get(name))}
        rewritten = self._value(said) | remote
        return line if rewritten == said else encoded(rewritten) + b"\n"

    def _key(self, key: str) -> str:
        rewritten = self._outward.text(key)
        if rewritten == key and len(self._plain) < KEYS_MOST:
            self._plain.add(key)
        return rewritten

    def _value(self, value: Any) -> Any:
        match value:
            case str():
                return self._outward.text(value)
            case list():
                return [self._value(each) for each in value]
            case dict():
                return {key if key in self._plain else self._key(key): self._value(each) for key, each in value.items()}
        return value


class _Uid(msgspec.Struct):
    uid: str


def _upto_end(first: bytes, lines: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    for line in lines:
        yield line
        if line.startswith(END):
            return


def _is_remote(value: object) -> bool:
    return isinstance(value, str) and not value.startswith("/")
