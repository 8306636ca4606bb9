"""Frames of one session that came, in a file until they are taken over: each was checked when it came.

What a cut line left is gone on with: the frames that are whole stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from backstory.exchange import frames
from backstory.exchange.frames import Frame, FrameDamaged, FrameHead, FrameVerdict, head_of
from backstory.store.private import as_ours, make_private_folder

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self


class FrameSpool(Sequence[Frame]):
    """The frames of a file, in order. Only the last one that was asked for is in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.heads: list[FrameHead] = []
        self._places: list[tuple[int, int]] = []
        self._last: tuple[int, Frame] | None = None
        make_private_folder(path.parent)
        try:
            self._file = path.open("a+b")
            path.chmod(0o600)
        except OSError as refused:
            raise as_ours(path, refused) from refused
        self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.heads)

    @overload
    def __getitem__(self, at: int) -> Frame: ...
    @overload
    def __getitem__(self, at: slice) -> list[Frame]: ...
    def __getitem__(self, at: int | slice) -> Frame | list[Frame]:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        if self._last is None or self._last[0] != at:
            start, size = self._places[at]
            self._file.seek(start)
            self._last = at, frames.read_again(self._file.read(size))
        return self._last[1]

    @property
    def size(self) -> int:
        """The bytes of all frames."""
        return sum(self._places[-1]) if self._places else 0

    def add(self, data: bytes) -> FrameHead:
        """Add a frame that follows the last one. Raises FrameDamaged for any other, DiskFull, CannotWrite."""
        frame = frames.read(data)
        if self.heads:
            if (found := frames.verdict(frame.head, self.heads[-1:])) != FrameVerdict.NEXT:
                raise FrameDamaged(f"it does not follow the frame before it: {found}")
            if frame.head.epoch != self.heads[0].epoch or frame.head.session != self.heads[0].session:
                raise FrameDamaged("it is of another epoch, or of another session")
        start = self.size
        try:
            self._file.seek(0, 2)
            self._file.write(data)
            self._file.flush()
        except OSError as refused:
            raise as_ours(self.path, refused) from refused
        self.heads.append(frame.head)
        self._places.append((start, len(data)))
        self._last = len(self) - 1, frame
        return frame.head

    def close(self, *, stays: bool = True) -> None:
        """Close the file, which stays, or goes."""
        self._file.close()
        if not stays:
            self.path.unlink(missing_ok=True)

    def _read(self) -> None:
        """Read what is there, up to where a kill cut it."""
        self._file.seek(0)
        at = 0
        while line := self._file.readline(frames.HEAD_BYTES_MAX):
            try:
                head = head_of(line)
                data = line + self._file.read(head.size)
                frames.read(data)
                if self.heads and frames.verdict(head, self.heads[-1:]) != FrameVerdict.NEXT:
                    break
            except FrameDamaged:
                break
            self.heads.append(head)
            self._places.append((at, len(data)))
            at += len(data)
        self.shorten(at)

    def shorten(self, size: int = 0) -> None:
        """Forget the frames behind these first bytes."""
        try:
            self._file.truncate(size)
        except OSError as refused:
            raise as_ours(self.path, refused) from refused
        self.heads = [head for head, (start, _) in zip(self.heads, self._places, strict=True) if start < size]
        self._places, self._last = self._places[: len(self.heads)], None
