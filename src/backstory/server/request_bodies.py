"""The bodies of requests, by what each asks for."""

from __future__ import annotations

from msgspec import Struct

from backstory.exchange.json_lines import BoardLine, Uid
from backstory.server.people import TeamRole
from backstory.sync.pull_plan import Want


class Join(Struct, frozen=True):
    """Asks to come in by an invitation."""

    code: str
    name: str
    machine: str = ""
    secret: str = ""
    """Chosen by the machine, which may ask again by it."""


class Wait(Struct, frozen=True):
    """Asks to wait until a person lets this machine in."""

    machine: str = ""


class ComeIn(Struct, frozen=True):
    """Asks whether the machine was let in."""

    login: str
    secret: str = ""


class Approve(Struct, frozen=True, forbid_unknown_fields=True):
    """Lets a machine in, or a browser; ``steer``: which may steer."""

    code: str
    steer: bool = False


class NewInvite(Struct, frozen=True, forbid_unknown_fields=True):
    """Asks for an invitation."""

    role: TeamRole = TeamRole.MEMBER


class NewRole(Struct, frozen=True, forbid_unknown_fields=True):
    """Gives a person another role."""

    role: TeamRole


class NewToken(Struct, frozen=True, forbid_unknown_fields=True):
    """Asks for a token with these rights. ``repositories``: null for all."""

    name: str
    scopes: list[str]
    repositories: list[str] | None = None
    days: int = 30


class SentBoard(Struct, frozen=True):
    """The boards of a repository, masked."""

    repository: str
    items: list[BoardLine]


class WantedState(Struct, frozen=True):
    """Asks up to where sessions are there; ``is_hashed``: and what was sent of them, as hashes."""

    uids: list[Uid]
    is_hashed: bool = False


class WantedBackfill(Struct, frozen=True, forbid_unknown_fields=True):
    """Asks to derive anew."""

    session_id: Uid | None = None


class Named(Struct, frozen=True, forbid_unknown_fields=True):
    """Asks which session is meant."""

    words: str


class WantedFrames(Struct, frozen=True):
    """Asks for the frames of sessions."""

    wants: list[Want]
