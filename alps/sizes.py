"""The largest sizes of what others send, and the one way in which it is read within them.

All are counted after unpacking: a megabyte of gzip may hold a gigabyte.
"""

import zlib

LARGEST_REPLY = 16 << 20
"""Bytes of a reply of a provider, a memory system or a program; the longest answers of today, of
128k tokens, are below 1 MB."""
LARGEST_TEXT = 4 << 20
"""Bytes of one text in a reply, such as a hit of a memory system: about a million tokens."""

# Those that can be inflated bit by bit, and so within a bound, with Python's own library
ENCODINGS = "gzip, deflate"
_GZIP_BITS = zlib.MAX_WBITS | 16
_SLICE = 1 << 12
_MOST_LAYERS = 2


class Unreadable(ValueError):
    """A body can't be inflated, is too large, or encoded in a way that was not asked for."""


class TooLarge(Unreadable):
    """A body has more bytes than anybody needs."""


class Body:
    """Collects and inflates a body; gives up as soon as it is larger than `largest` bytes.

    Raises:
        Unreadable: If it is encoded in another way than by `ENCODINGS`, or again and again.
    """

    def __init__(self, encoding: str = "", largest: int = LARGEST_REPLY) -> None:
        self._largest = largest
        names = [name.strip().lower() for name in encoding.split(",")]
        names = [name for name in names if name not in ("", "identity")]
        if len(names) > _MOST_LAYERS:
            raise Unreadable(f"it is compressed {len(names):,} times")
        self._layers = [_inflater(name) for name in reversed(names)]
        self._received = 0
        self.data = bytearray()

    def add(self, data: bytes) -> None:
        """Take in the next bytes.

        Raises:
            Unreadable: If they can't be inflated, or are too many.
        """
        self._received += len(data)
        for layer in self._layers:
            try:
                data = layer.decompress(data, self._largest + 1)
            except zlib.error as error:
                raise Unreadable(f"it can't be decompressed ({error})") from error
            if len(data) > self._largest:
                raise too_large(self._largest)
        self.data += data
        if len(self.data) > self._largest or self._received > self._largest:
            raise too_large(self._largest)

    @property
    def is_whole(self) -> bool:
        """Whether what was packed has its end."""
        return all(layer.eof for layer in self._layers)


def too_large(largest: int) -> TooLarge:
    """Return the error for what has more than `largest` bytes."""
    return TooLarge(f"it is larger than {largest >> 20} MB")


def check_size(size: int, largest: int, what: str) -> None:
    """Refuse what has more than `largest` bytes.

    Raises:
        TooLarge: Names `what` it is and both sizes.
    """
    if size > largest:
        raise TooLarge(f"{what} has {size:,} bytes; at most {largest:,} are allowed")


def _inflater(name: str) -> "_Inflater":
    if name in ("gzip", "x-gzip"):
        return _Inflater(gzip=True)
    if name == "deflate":
        return _Inflater(gzip=False)
    raise Unreadable(f"its encoding {name[:20]!r} was not requested")


class _Inflater:
    """Inflates gzip data, of which several pieces may follow each other, or deflate data.

    Deflate is zlib data, or raw, which many servers send under the same name.
    """

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._layer = zlib.decompressobj(_GZIP_BITS if gzip else zlib.MAX_WBITS)
        # The first two bytes tell whether deflate is raw.
        self._head: bytes | None = None if gzip else b""

    @property
    def eof(self) -> bool:
        return self._layer.eof

    def decompress(self, data: bytes, most: int) -> bytes:
        """Return what data inflates to; where that is more than `most` bytes, the first of it."""
        if self._head is not None:
            data = self._head + data
            if len(data) < 2:
                self._head = data
                return b""
            self._head = None
            if data[0] & 15 != zlib.DEFLATED or int.from_bytes(data[:2], "big") % 31:
                self._layer = zlib.decompressobj(-zlib.MAX_WBITS)
        inflated = bytearray()
        # What follows a piece is copied after each: a megabyte may hold 50,000 pieces of nothing.
        for start in range(0, len(data), _SLICE):
            self._inflate(data[start : start + _SLICE], inflated, most)
            if len(inflated) >= most:
                break
        return bytes(inflated)

    def _inflate(self, data: bytes, inflated: bytearray, most: int) -> None:
        while data and len(inflated) < most:
            if self._layer.eof:
                data = data.lstrip(b"\0") if self._gzip else b""
                if not data:
                    return
                self._layer = zlib.decompressobj(_GZIP_BITS)
            inflated += self._layer.decompress(data, most - len(inflated))
            data = self._layer.unused_data
