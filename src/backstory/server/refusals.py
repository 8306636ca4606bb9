"""Refusals of the server: a status of HTTP, a name for programs, and a sentence for a person."""

from __future__ import annotations


class Refused(Exception):
    """A request that is not done. ``str`` is the sentence; it holds nothing of another organisation, and no secret."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind
