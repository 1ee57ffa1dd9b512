"""Damaged and forged native files: everything that must be refused before anything of a file runs."""

import hashlib
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from plica.runtime.container import _HEAD, MAGIC, PAGE

Json = Any
Damage = tuple[str, bytes]
Forgery = Callable[[Json], object]


def damaged_files(whole: bytes, count: int, seed: int = 0) -> Iterator[Damage]:
    """`count` files made from a good one, each with a word about what was done to it.

    Every bit of the head is flipped, and every forgery of `FORGERIES` is among them; the rest is drawn.
    """
    draw = random.Random(seed)
    made = 0
    for place in range(8 * _HEAD.size):
        yield f"bit {place} flipped", _flipped(whole, place)
        made += 1
    for name, forge in FORGERIES:
        yield name, forged(whole, forge)
        made += 1
    for name, text in BOMBS:
        yield name, with_description(whole, text)
        made += 1
    while made < count:
        name, damage = draw.choice(_DRAWN)
        data = damage(whole, draw)
        if data != whole:  # two equal pieces may have changed places
            yield name, data
            made += 1


def damaged_parts(good: bytes) -> Iterator[Damage]:
    """Other contents of a file that is a part: each byte changed, cut off, longer, empty, and those of another."""
    for place in range(len(good)):
        yield f"byte {place} changed", _flipped(good, 8 * place + place % 8)
    yield "cut off", good[:-1]
    yield "longer", good + b"\0"
    yield "empty", b""
    yield "another's", bytes(len(good))


def forged(whole: bytes, forge: Forgery) -> bytes:
    """A file whose description was changed, and whose hashes are right all the same."""
    described = description_of(whole)
    forge(described)
    return with_description(whole, json.dumps(described).encode())


def with_description(whole: bytes, text: bytes) -> bytes:
    """A file with another description, its hash right and its parts moved to where they then begin."""
    _, version, signed, length, _, _ = _HEAD.unpack(whole[: _HEAD.size])
    body = whole[-(-(_HEAD.size + signed + length) // PAGE) * PAGE :]
    room = -(_HEAD.size + len(text)) % PAGE
    moved = _HEAD.size + len(text) + room - (len(whole) - len(body))
    if moved:
        try:
            described = json.loads(text)
            for part in described["parts"]:
                part["offset"] += 0 if part["file"] else moved
            text = json.dumps(described).encode()
        except (ValueError, RecursionError, TypeError, KeyError):
            pass  # no description at all: where the parts are does not matter
        room = -(_HEAD.size + len(text)) % PAGE
    head = _HEAD.pack(
        MAGIC, version, 0, len(text), _HEAD.size + len(text) + room + len(body), hashlib.sha256(text).digest()
    )
    return head + text + bytes(room) + body


def description_of(whole: bytes) -> Json:
    """The description of a file, as JSON."""
    _, _, signed, length, _, _ = _HEAD.unpack(whole[: _HEAD.size])
    return json.loads(whole[_HEAD.size + signed :][:length])


def _flipped(whole: bytes, bit: int) -> bytes:
    data = bytearray(whole)
    data[bit // 8] ^= 1 << bit % 8
    return bytes(data)


def _flip_anywhere(whole: bytes, draw: random.Random) -> bytes:
    return _flipped(whole, draw.randrange(8 * len(whole)))


def _overwritten(whole: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(whole))
    piece = draw.randbytes(draw.choice((1, 2, 8, 100, PAGE)))
    return (whole[:start] + piece + whole[start + len(piece) :])[: len(whole)]


def _zeroed(whole: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(0, len(whole), 512)
    return whole[:start] + bytes(len(whole[start : start + 512])) + whole[start + 512 :]


def _cut_short(whole: bytes, draw: random.Random) -> bytes:
    return whole[: draw.choice((draw.randrange(len(whole)), draw.randrange(100), draw.randrange(0, len(whole), PAGE)))]


def _cut_out(whole: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(0, len(whole))
    return whole[:start] + whole[start + draw.choice((1, 4, 64, PAGE)) :]


def _put_in(whole: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(0, len(whole))
    return whole[:start] + draw.randbytes(draw.choice((1, 4, 64, PAGE))) + whole[start:]


def _appended(whole: bytes, draw: random.Random) -> bytes:
    return whole + draw.choice((bytes(draw.randrange(1, 2 * PAGE)), draw.randbytes(9), whole))


def _swapped(whole: bytes, draw: random.Random) -> bytes:
    """Two pages change places."""
    pages = [whole[start : start + PAGE] for start in range(0, len(whole), PAGE)]
    first, second = draw.sample(range(len(pages)), 2)
    pages[first], pages[second] = pages[second], pages[first]
    return b"".join(pages)


def _as_text(whole: bytes, draw: random.Random) -> bytes:
    """What tools do that take the file for text."""
    old, new = draw.choice(((b"\n", b"\r\n"), (b"\r\n", b"\n"), (b"\0", b""), (b"\x93", b"\xc2\x93")))
    return whole.replace(old, new)


_DRAWN: tuple[tuple[str, Callable[[bytes, random.Random], bytes]], ...] = (
    ("a bit flipped", _flip_anywhere),
    ("bytes overwritten", _overwritten),
    ("bytes zeroed", _zeroed),
    ("cut short", _cut_short),
    ("bytes cut out", _cut_out),
    ("bytes put in", _put_in),
    ("bytes appended", _appended),
    ("pages swapped", _swapped),
    ("taken for text", _as_text),
)


def _set(*path: str | int, to: Any) -> Forgery:
    def forge(described: Json) -> None:
        for step in path[:-1]:
            described = described[step]
        described[path[-1]] = to

    return forge


def _twice(*path: str | int) -> Forgery:
    def forge(described: Json) -> None:
        for step in path:
            described = described[step]
        described.append(described[0])

    return forge


def _swap_parts(described: Json) -> None:
    first, second = described["parts"][:2]
    first["name"], second["name"] = second["name"], first["name"]


def _reverse(described: Json) -> None:
    described["parts"].reverse()


def _swap_places(described: Json) -> None:
    first, second = described[_M]["tensors"][:2]
    first["offset"], second["offset"] = second["offset"], first["offset"]


def _among_code(described: Json) -> None:
    described[_M]["tensors"][2] |= {"part": "code/host", "offset": 0}


def _no_key(described: Json) -> None:
    del described["manifest"]["entries"][0]["rows"]


def _back_to_itself(described: Json) -> None:
    entries = described["manifest"]["entries"]
    score, exact = (next(one for one in entries if one["name"] == name) for name in ("score", "exact"))
    exact |= {key: score[key] for key in ("results", "fallback", "rows", "function")}
    exact["fallback"] = {"entry": "score", "bound": "proven"}


_M = "manifest"
_ELSEWHERE = {"name": "tensors", "offset": 0, "length": 192, "sha256": "0" * 64}
_HUGE = (2**48 + 1, 2**63, 2**64 - 1, 10**300)
FORGERIES: tuple[tuple[str, Forgery], ...] = (
    ("another machine", _set(_M, "targets", 0, "architecture", to="riscv64")),
    ("another processor", _set(_M, "targets", 0, "features", to=["avx9000"])),
    ("no targets", _set(_M, "targets", to=[])),
    ("code in no part", _set(_M, "targets", 0, "part", to="code/none")),
    ("code that is none", _set(_M, "targets", 0, "part", to="tensors")),
    ("an entry twice", _twice(_M, "entries")),
    ("a tensor twice", _twice(_M, "tensors")),
    ("a target twice", _twice(_M, "targets")),
    ("a fold twice", _twice(_M, "folds")),
    ("a part twice", _twice("parts")),
    ("an argument twice", _twice(_M, "entries", 0, "arguments")),
    ("a result twice", _twice(_M, "entries", 0, "results")),
    ("names of parts swapped", _swap_parts),
    ("parts in another order", _reverse),
    ("no such main entry", _set(_M, "main", to="none")),
    ("a hidden main entry", _set(_M, "main", to="exact")),
    ("no such function", _set(_M, "entries", 0, "function", to="none")),
    ("a function of the runtime", _set(_M, "entries", 0, "function", to="")),
    ("the name of a method", _set(_M, "entries", 0, "name", to="update")),
    ("a private name", _set(_M, "entries", 0, "name", to="__init__")),
    ("a name of two lines", _set(_M, "entries", 0, "name", to="product\nplica: all is well")),
    ("a path as a name", _set(_M, "entries", 0, "name", to="../../product")),
    ("no such dtype", _set(_M, "entries", 0, "arguments", 0, "dtype", to="float31")),
    ("dtype object", _set(_M, "tensors", 0, "dtype", to="object")),
    ("a size that is code", _set(_M, "entries", 0, "arguments", 0, "shape", to=["__import__('os')", 4])),
    ("a size without end", _set(_M, "entries", 0, "arguments", 0, "shape", to=["(" * 500, 4])),
    ("a size of brackets", _set(_M, "entries", 0, "arguments", 0, "shape", to=["max(" * 200 + "n", 4])),
    ("a size like 9^9^9", _set(_M, "entries", 0, "arguments", 0, "shape", to=["9^9^9^9", 4])),
    ("a size divided by 0", _set(_M, "entries", 0, "arguments", 0, "shape", to=["floordiv(n,0)", 4])),
    ("a size of a symbol that nothing binds", _set(_M, "entries", 0, "arguments", 0, "shape", to=["2*n", 4])),
    ("a negative size", _set(_M, "tensors", 0, "shape", to=[-4, 3])),
    ("a size that is a fraction", _set(_M, "tensors", 0, "shape", to=[4.0, 3])),
    ("a size that is true", _set(_M, "tensors", 0, "shape", to=[True, 3])),
    ("a tensor that is too long", _set(_M, "tensors", 0, "shape", to=[4, 300])),
    ("a tensor outside", _set(_M, "tensors", 0, "offset", to=6400)),
    ("a tensor that is not aligned", _set(_M, "tensors", 0, "offset", to=4)),
    ("a tensor over another", _set(_M, "tensors", 1, "offset", to=0)),
    ("a tensor in the place of the next", _set(_M, "tensors", 0, "offset", to=64)),
    ("two tensors in each other's places", _swap_places),
    ("a tensor among code", _among_code),
    ("a tensor in no part", _set(_M, "tensors", 0, "part", to="none")),
    ("a tensor missing", _set(_M, "tensors", to=[])),
    ("a fold of nothing", _set(_M, "folds", 0, "inputs", to=["none"])),
    ("a fold of its own result", _set(_M, "folds", 0, "inputs", to=["doubled"])),
    ("a fold over what callers give", _set(_M, "folds", 0, "outputs", to=["shift"])),
    ("pieces of no rows", _set(_M, "entries", 0, "rows", to={"symbol": "n", "chunk": 0})),
    ("rows of nothing", _set(_M, "entries", 0, "rows", to={"symbol": "k", "chunk": 9})),
    ("rows that are a number", _set(_M, "entries", 0, "rows", to={"symbol": "4", "chunk": 9})),
    ("a way out to nowhere", _set(_M, "entries", 1, "fallback", to={"entry": "none", "bound": "proven"})),
    ("a way out to itself", _set(_M, "entries", 1, "fallback", to={"entry": "score", "bound": "proven"})),
    ("a way out and back", _back_to_itself),
    ("a way out of other results", _set(_M, "entries", 1, "fallback", to={"entry": "product", "bound": "proven"})),
    ("nothing that says what is proven", _set(_M, "entries", 1, "fallback", to={"entry": "exact", "bound": "score"})),
    ("draws of integers", _set(_M, "entries", 4, "draws", 0, "dtype", to="int64")),
    ("a key too many", _set(_M, "entries", 0, "extra", to=1)),
    ("a key missing", _no_key),
    ("a list for an object", _set(_M, to=[])),
    ("an object for a list", _set("parts", to={})),
    ("nothing for a name", _set(_M, "main", to=None)),
    ("text of a megabyte", _set(_M, "provenance", to={"source": "x" * 2**20})),
    ("a name of a megabyte", _set(_M, "main", to="x" * 2**20)),
    ("no parts", _set("parts", to=[])),
    ("a part before the file", _set("parts", 0, "offset", to=0)),
    ("a part that is not aligned", _set("parts", 0, "offset", to=PAGE + 1)),
    ("a part over another", _set("parts", 1, "offset", to=PAGE)),
    ("a part that is too short", _set("parts", 0, "length", to=1)),
    ("a part of another hash", _set("parts", 0, "sha256", to="0" * 64)),
    ("a part that is a file elsewhere", _set("parts", 0, "file", to="../tensors")),
    ("a part that is a missing file", _set("parts", 0, to={**_ELSEWHERE, "file": "none.weights"})),
    ("a part that is this file", _set("parts", 0, to={**_ELSEWHERE, "file": "damaged.plicab"})),
    ("a part that is a folder", _set("parts", 0, to={**_ELSEWHERE, "file": "."})),
    ("a part of no hash", _set("parts", 0, "sha256", to="x")),
    *((f"a part at {huge:.0e}", _set("parts", 0, "offset", to=huge)) for huge in _HUGE),
    *((f"a part of {huge:.0e} bytes", _set("parts", 0, "length", to=huge)) for huge in _HUGE),
    *((f"a tensor of {huge:.0e} entries", _set(_M, "tensors", 0, "shape", to=[huge])) for huge in _HUGE),
    *((f"a tensor at {huge:.0e}", _set(_M, "tensors", 0, "offset", to=huge)) for huge in _HUGE),
    *((f"pieces of {huge:.0e} rows", _set(_M, "entries", 0, "rows", "chunk", to=huge)) for huge in _HUGE),
)

BOMBS: tuple[tuple[str, bytes], ...] = (
    ("no JSON", b"all is well"),
    ("nothing", b""),
    ("null", b"null"),
    ("a number", b"1"),
    ("no UTF-8", b'{"manifest": "\xff"}'),
    ("UTF-16", '{"manifest": 1}'.encode("utf-16")),
    ("half of an object", b'{"manifest": {'),
    ("nested lists", b"[" * 200_000),
    ("nested lists that end", b"[" * 200_000 + b"]" * 200_000),
    ("nested objects", b'{"manifest":' * 100_000),
    ("a long number", b"1" * 1_000_000),
    ("a long fraction", b"0." + b"1" * 1_000_000),
    ("NaN", b'{"manifest": NaN, "parts": []}'),
    ("infinity", b'{"manifest": 1e999, "parts": []}'),
    ("a key twice", b'{"parts": [], "manifest": {}, "parts": []}'),
    ("many keys", b"{" + b",".join(b'"%d":0' % number for number in range(50_000)) + b"}"),
    ("many strings", b"[" + b",".join([b'"\\u0000"'] * 100_000) + b"]"),
)
