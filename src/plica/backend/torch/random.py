"""Random numbers from counters: Threefry-2x32 with 20 rounds on tensors, bit for bit what `ops/random.py` computes.

Words of 32 bits are kept in int32, whose arithmetic wraps as unsigned arithmetic does: torch has no other for them, and
they are half as wide as int64. A hundred small operations of torch take 250 microseconds whatever their size: short
draws on the CPU are made in numpy, long ones in pieces that stay in the cache (`python -m benchmarks.random_numbers`).
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from plica.ops.random import DATA_COUNTER, KEY_SCHEDULE, ROTATIONS, SPLIT_COUNTER, WORD, blocks, folded_key

_SHORT = 1 << 14
"""Up to so many blocks numpy is faster on one core."""

_PIECE = 1 << 16
"""Blocks of one piece for one thread: a few arrays of 256 KiB, which stay in a core's second-level cache."""


def threefry(key: Tensor, counters: Tensor) -> Tensor:
    """The two words that Threefry-2x32 with 20 rounds makes of each counter.

    Values: `key` int64, the low 32 bits of each count; `counters` int64, all 64 bits; the result int32.

    Shapes: key (2,), counters (N,), result (N, 2).

    Source: Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011).
    """
    first, second = key.to(torch.int32).unbind()
    keys = (first, second, first ^ second ^ KEY_SCHEDULE)
    low = counters.to(torch.int32) + second
    high = (counters >> 32).to(torch.int32) + first
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            high += low
            carried = (low >> (32 - rotation)) & ((1 << rotation) - 1)
            low = low.bitwise_left_shift_(rotation).bitwise_or_(carried).bitwise_xor_(high)
        high += keys[(group + 1) % 3]
        low += keys[(group + 2) % 3] + (group + 1)
    return torch.stack([high, low], -1)


def _readable(x: Tensor) -> bool:
    """Whether elements can be read at once: on the CPU, under no tracer or transform."""
    plain = x.device.type == "cpu" and type(x) is Tensor and not torch.compiler.is_compiling()
    return plain and not torch._C._functorch.is_functorch_wrapped_tensor(x)


def _blocks(key: Tensor, start: int, stop: int) -> Tensor:
    """The words of the counters from `start` to `stop`, (N, 2) in int32."""
    if stop - start <= _SHORT and _readable(key):
        return torch.from_numpy(blocks(key.numpy(), np.arange(start, stop)).view("int32"))
    return threefry(key, torch.arange(start, stop, device=key.device))


def _pieces(key: Tensor, count: int) -> Iterator[Tensor]:
    """The words of the counters from 0 to `count`, in pieces on the CPU."""
    step = _PIECE * torch.get_num_threads() if _readable(key) else max(count, 1)
    for start in range(0, max(count, 1), step):
        yield _blocks(key, start, min(start + step, count))


def _drawn(key: Tensor, shape: tuple[int, ...], wide: bool, finish: Callable[[Tensor], Tensor]) -> Tensor:
    """`finish` of the words of each element: of 32 bits in int32, two to a block, or of 64 bits in int64."""
    count = 1
    for size in shape:
        count *= size
    pieces = [
        finish(_wide(words) if wide else words.flatten()) for words in _pieces(key, count if wide else -(-count // 2))
    ]
    return (pieces[0] if len(pieces) == 1 else torch.cat(pieces))[:count].reshape(shape)


def _wide(words: Tensor) -> Tensor:
    """Words of 64 bits in int64."""
    high, low = words.to(torch.int64).unbind(-1)
    return (high << 32) | (low & WORD)


def _unsigned(words: Tensor) -> Tensor:
    """Words of 32 bits as numbers that are not negative, in int64."""
    return words.to(torch.int64) & WORD


def key(seed: Tensor) -> Tensor:
    """The key whose words are the halves of `seed`."""
    return torch.stack([(seed >> 32) & WORD, seed & WORD])


def split(key: Tensor, num: int) -> Tensor:
    """Keys from a part of the counters that nothing else uses."""
    return _unsigned(_blocks(key, SPLIT_COUNTER, SPLIT_COUNTER + num))


def fold_in(key: Tensor, data: Tensor) -> Tensor:
    """A key for each number, from counters under a key that nothing else uses."""
    if _readable(key) and _readable(data):
        return torch.tensor(folded_key(key.tolist(), int(data)))
    inner = threefry(key, torch.full((1,), DATA_COUNTER, device=key.device))[0]
    return _unsigned(threefry(inner, data.reshape(1))[0])


def bits(key: Tensor, shape: tuple[int, ...], width: int) -> Tensor:
    """The leading `width` bits of the word of each element, in int64."""
    if width <= 32:
        return _drawn(key, shape, False, lambda words: _unsigned(words) >> (32 - width))
    return _drawn(key, shape, True, lambda words: _leading(words, width))


def _leading(words: Tensor, width: int) -> Tensor:
    """The leading `width` bits of words of 64."""
    return words if width == 64 else (words >> (64 - width)) & ((1 << width) - 1)


def uniform(key: Tensor, shape: tuple[int, ...], digits: int, interval: str, dtype: torch.dtype) -> Tensor:
    """Numbers of `digits` binary digits, spread evenly over an interval."""
    return _INTERVALS[interval](key, shape, digits).to(dtype)


_FLOATS = {11: torch.float16, 24: torch.float32, 53: torch.float64}


def _integers(key: Tensor, shape: tuple[int, ...], digits: int) -> Tensor:
    """Integers of `digits` bits, in the dtype that holds them exactly."""
    if digits > 32:
        return _drawn(key, shape, True, lambda words: _leading(words, digits))
    return _drawn(key, shape, False, lambda words: (words >> (32 - digits)) & ((1 << digits) - 1))


def _half_open(key: Tensor, shape: tuple[int, ...], digits: int) -> Tensor:
    # k 2**-p
    return _integers(key, shape, digits).to(_FLOATS[digits]) * 2.0**-digits


def _centred(key: Tensor, shape: tuple[int, ...], digits: int) -> Tensor:
    # (2 k + 1 - 2**p) 2**-p
    odd = _integers(key, shape, digits) * 2 + (1 - (1 << digits))
    return (odd.to(torch.float32).to(torch.float16) if digits == 11 else odd.to(_FLOATS[digits])) * 2.0**-digits


def _open(key: Tensor, shape: tuple[int, ...], digits: int) -> Tensor:
    # (2 k + 1) 2**-63, rounded, below 1
    words = _drawn(key, shape, True, lambda word: _leading(word, 63) | 1)
    scaled = words.to(torch.float32 if digits < 53 else torch.float64) * 2.0**-63
    return scaled.clamp(max=1 - 2.0**-digits).to(_FLOATS[digits])


_INTERVALS = {"[0,1)": _half_open, "(-1,1)": _centred, "(0,1)": _open}


def permutation(key: Tensor, size: int) -> Tensor:
    """The order of `size` words of 63 bits; equal ones stay in theirs."""
    return torch.argsort(bits(key, (size,), 63), stable=True)
