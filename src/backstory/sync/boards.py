"""Context boards of repositories that may leave: sent to a team's server as they may, and taken from it.

A board names its repository without the host, so it leaves only where no other repository here has that name.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.errors import ServerUnreachable
from backstory.exchange import portable
from backstory.exchange.json_lines import BoardLine
from backstory.store.tables import boarding
from backstory.sync.notes import SyncNote
from backstory.sync.outward_export import BESIDES
from backstory.sync.removed import FORGOTTEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from backstory.store import Store
    from backstory.sync.leaving import LeavingChoice, LeavingSession
    from backstory.sync.notes import SyncNotes
    from backstory.sync.outward_export import OutwardExport
    from backstory.sync.remote import Remote

NOTED = "board "
"""Before a repository and the hash of its boards in a note of what was sent."""
HASH_CHARS = 32


class _Boards(Struct, frozen=True):
    items: list[Any]


def leaving_boards(stores: Iterable[Store], choice: LeavingChoice) -> dict[str, list[BoardLine]]:
    """Return the items of boards that may leave, by the key of their repository."""
    keys = {each.repository.lower() for each in choice.leaving}
    names = dict[str, list[str]]()
    for key in keys | {project.lower() for _, project in choice.staying}:
        names.setdefault(_name_of(key), []).append(key)
    found = dict[str, dict[tuple[str, str, str, str], BoardLine]]()
    for store in stores:
        for item in [] if store.is_elsewhere else store.ask_or([], portable.board_lines):
            of_name = names.get(item.repository.lower(), [])
            if len(of_name) == 1 and of_name[0] in keys:
                # Of two stores' copies of an item the later one counts.
                place = (item.repository, item.branch, item.src, item.name)
                items = found.setdefault(of_name[0], {})
                if place not in items or items[place].changed < item.changed:
                    items[place] = item
    return {repository: [*items.values()] for repository, items in found.items()}


def send(
    remote: Remote, notes: SyncNotes, stores: Sequence[Store], choice: LeavingChoice,
    outward: Callable[[Sequence[LeavingSession]], OutwardExport], *, own: Mapping[str, str], failed: set[str],
) -> int:  # fmt: skip
    """Send the boards that changed since; return how many items these have. ``outward`` masks those of a repository.

    ``own``: the marks of sessions as they are now, by uid. Boards wait beside sessions that ``failed``.
    Raises ServerRefused, ServerUnreachable.
    """
    count = 0
    # Of a repository of which everything was taken out of the server nothing goes there again.
    there = {each.repository.lower() for each in choice.leaving if not _is_forgotten(each, notes)}
    boards = {key: items for key, items in leaving_boards(stores, choice).items() if key in there}
    noted = {each.removeprefix(NOTED).partition(" ")[0] for each in notes.files if each.startswith(NOTED)}
    for repository in sorted({*boards, *noted}):
        items = boards.get(repository, [])
        sessions = [each for each in choice.leaving if each.repository.lower() == repository]
        said = f"{NOTED}{repository} {_hash(items, sessions, notes)}"
        if said in notes.files or any(each.origin.uid in failed for each in sessions):
            continue
        export = outward(sessions)
        _learn(export, sessions, notes, own)
        masked = [msgspec.json.decode(line, type=BoardLine) for each in items if (line := export.board_line(each))]
        remote.ask("PUT", "/v1/boards", {"repository": repository, "items": masked})
        notes.forget_files(f"{NOTED}{repository} ")
        notes.add(SyncNote(file=said))
        count += len(masked)
    return count


def take(remote: Remote, store: Store) -> int:
    """Take what was written later on the person's other machines; return how many items.

    One that is as it is here comes back masked, and changes nothing. Raises ServerRefused, ServerUnreachable.
    """
    try:
        said = msgspec.convert(remote.ask("GET", "/v1/boards"), _Boards).items
    except msgspec.ValidationError as refused:
        raise ServerUnreachable(remote.address, f"it says what is not known here: {refused}") from refused
    theirs = []
    for each in said:
        # Another version of backstory may have written it.
        with suppress(ValueError):
            theirs.append(portable.item_of(msgspec.convert(each, BoardLine)))
    known = {each.key: each for each in boarding.copies(store)} if theirs else {}
    later = [each for each in theirs if each.key not in known or known[each.key].changed < each.changed]
    return boarding.take(store, later)


def _name_of(key: str) -> str:
    """The name of a remote as boards have it: without its host."""
    return "" if key.startswith("/") else key.partition("/")[2]


def _is_forgotten(session: LeavingSession, notes: SyncNotes) -> bool:
    return (sent := notes.sent.get(session.origin.uid)) is not None and sent.history == FORGOTTEN


def _hash(items: Iterable[BoardLine], sessions: Iterable[LeavingSession], notes: SyncNotes) -> str:
    """A hash of what boards say, and of the masks of the secrets that their repository's sessions tell."""
    masks = {sent.mark.rpartition(" ")[2] for each in sessions if (sent := notes.sent.get(each.origin.uid)) is not None}
    said = msgspec.json.encode([[*items], sorted(masks)])
    return hashlib.sha256(said).hexdigest()[:HASH_CHARS]


def _learn(export: OutwardExport, sessions: Iterable[LeavingSession], notes: SyncNotes, own: Mapping[str, str]) -> None:
    """Learn the secrets that the sessions of a repository tell, also those that were taken out of the server."""
    whole = list["LeavingSession"]()
    for each in sessions:
        sent = notes.sent.get(each.origin.uid)
        is_noted = sent is not None and sent.mark.startswith(f"{own[each.origin.uid]} ")
        if sent is None or not is_noted or BESIDES in sent.telling:
            whole.append(each)
        else:
            export.recall(each, sent.telling)
    for _, lines in export.by_session(whole):
        for _line in lines:
            pass
