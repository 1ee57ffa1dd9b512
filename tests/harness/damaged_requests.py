"""Requests of HTTP that are whole or damaged: bytes changed, left out and added, lengths that lie, other headers."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

_PATHS = ("score", "marginal", "conditional-sample", "complete", "drawn", "none", "%2e%2e", "score?seed=1", "score?x=2")
_LENGTHS = (b"-", b"9", b"Content-Length: 1\r\nContent-Length: ")
_KINDS = (b"application/x-npy", b"application/json; charset=utf-16", b"")
_BODIES = (b"[[", b"{", b"[null,", b'["Infinity",', b"[1e400,")
_HEADS = (b"Expect: 100-continue\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Upgrade: h2c\r\n")

Damage = Callable[[bytes, random.Random], bytes]


def requests(fields: Any, count: int, seed: int) -> Iterator[bytes]:
    """`count` requests with these fields as JSON; most of them are damaged."""
    draw = random.Random(seed)
    body = json.dumps(fields).encode()
    for _ in range(count):
        data = b"".join(
            (
                f"POST /v1/{draw.choice(_PATHS)} HTTP/1.1\r\nHost: here\r\n".encode(),
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode(),
                body,
            )
        )
        for _ in range(draw.choice((0, 1, 1, 2, 4))):
            data = draw.choice(_DAMAGES)(data, draw)
        yield data


def _changed(data: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(data) + 1)
    return data[:place] + draw.randbytes(draw.choice((0, 1, 40))) + data[place + draw.choice((0, 1, 40)) :]


def _cut_short(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data) + 1)]


def _replaced(old: bytes, others: tuple[bytes, ...]) -> Damage:
    return lambda data, draw: data.replace(old, draw.choice(others), 1)


_DAMAGES: tuple[Damage, ...] = (
    _changed,
    _cut_short,
    _replaced(b"Content-Length: ", tuple(b"Content-Length: " + one for one in _LENGTHS)),
    _replaced(b"application/json", _KINDS),
    _replaced(b"[", _BODIES),
    _replaced(b"Host: here\r\n", tuple(b"Host: here\r\n" + one for one in _HEADS)),
)
