"""The cells that hold events: JSON, as one zstd frame or, in the first schema, as text.

The frames are those of a streaming encoder at level 3: without the length of their content, so they are read as
streams, and no further than there is room. Where nothing else is possible AZUREAL stores the JSON itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backstory.agents.foreign import SESSION_BYTES_MAX, VALUE_BYTES_MAX, TooLarge
from backstory.lazy import lazy_module

if TYPE_CHECKING:
    import zstandard
else:
    zstandard = lazy_module("zstandard")

LEVEL = 3
WINDOW_BYTES_MAX = 32 * 1024 * 1024
"""A frame that asks for more memory to be unpacked is none of AZUREAL's, which ask for 2 MB."""
FRAME = bytes.fromhex("28b52ffd")
"""The first bytes of a frame."""


class Encoder:
    """Packs JSON as AZUREAL's own encoder does, byte for byte."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)

    def packed(self, json: bytes) -> bytes:
        """A cell that holds this."""
        encoder = self._compressor.compressobj()
        return encoder.compress(json) + encoder.flush()


class Cells:
    """Reads the cells of one session; what is in them together is limited, too, as a few bytes unpack to very many."""

    def __init__(self) -> None:
        self._room = SESSION_BYTES_MAX
        self._decoder = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)

    def json(self, cell: Any) -> bytes:
        """Return the content of a cell, whether or not it is JSON; raises TooLarge."""
        data = cell.encode() if isinstance(cell, str) else cell if isinstance(cell, bytes) else b""
        if data.startswith(FRAME):
            data = self._unpacked(data)
        self._room -= len(data)
        if self._room < 0:
            raise TooLarge(f"its events are larger than {SESSION_BYTES_MAX >> 20} MB")
        return data

    def _unpacked(self, data: bytes) -> bytes:
        most = min(VALUE_BYTES_MAX, self._room)
        try:
            found = self._decoder.stream_reader(data, read_across_frames=True).read(most + 1)
        except zstandard.ZstdError:
            # A damaged frame is kept as it is, and says nothing.
            return data
        if len(found) > most:
            raise TooLarge(f"one of its events is larger than {most >> 20} MB")
        return found
