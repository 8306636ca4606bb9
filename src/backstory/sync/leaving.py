"""The sessions that may leave the machine, and of all others the reason that they stay."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backstory.ask import origins
from backstory.ids import session_identity
from backstory.model import Relation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backstory.ask.origins import SessionOrigin
    from backstory.store import Store
    from backstory.sync.opted import OptedIn

NOT_OPTED_IN = "its repository is not in sync.repositories"
NO_PROJECT = "it is of no repository and no folder"
OF_ANOTHER = "it comes from a session that stays"
ORIGIN_UNKNOWN = "the session that it comes from is not here"
ELSEWHERE = "it is from a store from elsewhere"
REMOVED = "you removed it"
CAME_MASKED = "it came from a server, or by an import without the bytes of its logs"
"""The reason that bars nothing that comes from such a session."""
PRUNED = "it was pruned in part, and what was sent of it before stays as it is"
"""The same; and nothing takes the place of what was sent."""
NO_CONVERSATION = "it holds no conversation"
NO_TALK = (Relation.UNREAD, Relation.ASIDE)


class LeavingSession(Struct, frozen=True, kw_only=True):
    """A session that may leave, and the store that it is read from. ``repository``: the key that was opted in."""

    store: Store
    origin: SessionOrigin
    repository: str = ""


class LeavingChoice(Struct, frozen=True, kw_only=True):
    """The sessions that may leave; ``staying``: the number of others, by reason and project's key."""

    leaving: list[LeavingSession]
    staying: Counter[tuple[str, str]]
    removed: set[str]
    """The uids of sessions that people removed."""

    @property
    def pruned(self) -> int:
        """The number of those that stay because they were pruned in part."""
        return sum(count for (why, _), count in self.staying.items() if why == PRUNED)


def choose(stores: Iterable[Store], opted: OptedIn) -> LeavingChoice:
    """Decide of every session of these stores, each of which is in the first of them that has it."""
    found = dict[str, LeavingSession]()
    stores = list(stores)
    uids = removed_uids(stores)
    for store in stores:
        for each in store.ask(origins.origins):
            found.setdefault(session_identity(each.uid), LeavingSession(store=store, origin=each))
    decided, removed = dict[str, str](), {session_identity(uid) for uid in uids}
    for identity in found:
        _decide(identity, found, removed, opted, decided)
    staying = Counter((why, found[each].origin.project or "") for each, why in decided.items() if why)
    leaving = [replace(found[each], repository=_repository(each, found)) for each, why in decided.items() if not why]
    return LeavingChoice(leaving=leaving, staying=staying, removed=uids)


def removed_uids(stores: Iterable[Store]) -> set[str]:
    """Return the uids of sessions that people removed; a store from elsewhere may say so of any, and is not asked."""
    return {uid for store in stores if not store.is_elsewhere for uid in store.ask(origins.forgotten)}


def _repository(identity: str, found: dict[str, LeavingSession]) -> str:
    """The key of the project of a session that leaves, or of the nearest one that it comes from."""
    while not (project := found[identity].origin.project):
        identity = found[identity].origin.parent or ""
    return project


def _decide(
    identity: str, found: dict[str, LeavingSession], removed: set[str], opted: OptedIn, decided: dict[str, str]
) -> None:
    """Note the reason that a session stays, '' for one that leaves, and that of those that it comes from."""
    line = [identity]
    while (parent := found[line[-1]].origin.parent) in found and parent not in decided and parent not in line:
        line.append(parent)
    for each in reversed(line):
        parent = found[each].origin.parent
        own = _own_reason(found[each], each in removed, opted, is_alone=parent not in found)
        if own or parent is None or parent == each:
            decided[each] = own
        elif parent not in found:
            decided[each] = ORIGIN_UNKNOWN if found[each].origin.relation == Relation.SUBAGENT else ""
        else:
            # Of a circle, which only a damaged store has, nothing leaves.
            decided[each] = "" if decided.get(parent, OF_ANOTHER) in ("", CAME_MASKED, PRUNED) else OF_ANOTHER


def _own_reason(session: LeavingSession, is_removed: bool, opted: OptedIn, *, is_alone: bool) -> str:
    origin = session.origin
    if is_removed:
        return REMOVED
    if session.store.is_elsewhere or origin.elsewhere is not None:
        return ELSEWHERE
    if origin.relation in NO_TALK:
        return NO_CONVERSATION
    if not origin.project:
        # A subagent may not say where it works: where its caller does.
        return NO_PROJECT if is_alone else ""
    if not opted.covers(origin.project):
        return NOT_OPTED_IN
    if origin.pruned:
        return PRUNED
    return CAME_MASKED if origin.without_bytes else ""
