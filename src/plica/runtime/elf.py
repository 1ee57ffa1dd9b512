"""Whether a shared library of Linux (ELF) is whole: the system maps what its head promises, and dies beyond its end.

>>> check_whole(b"text")
Traceback (most recent call last):
plica.errors.NativeFileError: its code is no shared library of Linux for machines of 64 bits; export the model again
"""

import struct

from plica.errors import NativeFileError

_HEAD = struct.Struct("<7s9xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = 64  # bytes
_MAGIC = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian, the only version
_LIBRARY = 3  # a kind of file
_DYNAMIC = 2  # a kind of segment: what the loader reads first


def check_whole(code: bytes | memoryview) -> None:
    """Raise unless some bytes are a shared library that ends where its tables say.

    Raises:
        NativeFileError: They are no such library, or its end is missing.
    """
    if len(code) < _HEAD.size:
        raise _no_library()
    magic, kind, _, _, _, segments, sections, _, _, segment_bytes, num_segments, section_bytes, num_sections, _ = (
        _HEAD.unpack(code[: _HEAD.size])
    )
    if magic != _MAGIC or kind != _LIBRARY or segment_bytes != _SEGMENT.size or section_bytes not in (0, _SECTION):
        raise _no_library()
    end = max(segments + num_segments * segment_bytes, sections + num_sections * section_bytes)
    if end > len(code):
        raise _cut_short(end, len(code))
    kinds = set()
    for index in range(num_segments):
        segment, _, offset, _, _, length, memory, _ = _SEGMENT.unpack_from(code, segments + index * segment_bytes)
        kinds.add(segment)
        if length > memory:
            raise _no_library()
        if offset + length > len(code):
            raise _cut_short(offset + length, len(code))
    if _DYNAMIC not in kinds:
        raise _no_library()


def _no_library() -> NativeFileError:
    return NativeFileError("its code is no shared library of Linux for machines of 64 bits; export the model again")


def _cut_short(expected_bytes: int, num_bytes: int) -> NativeFileError:
    return NativeFileError(
        f"its code is cut short: expected {expected_bytes} bytes, found {num_bytes}; export the model again"
    )
