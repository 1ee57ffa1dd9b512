"""Random numbers as pure functions of a key: Threefry-2x32 with 20 rounds, a counter for each element, no state.

A key is two words of 32 bits, stored as int64. Threefry maps a key and a counter of 64 bits to a *block* of two words.

Element i of an array, in row-major order, depends on the key and on i alone. If it needs 32 bits or fewer, it takes
word i % 2 of the block of counter i // 2. If it needs more, it takes the block of counter i, whose first word has the
high bits. So the first elements of a long array are those of a short one, and an array may be drawn in pieces.

Elements use counters below 2**63. Key j of `split` is the block of counter 2**63 + j. `fold_in(key, n)` takes the block
of counter 2**64 - 1 as a second key, and the result is the block of counter n under that. So elements, split keys and
folded keys of one key never use the same block.

Source: Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011), and its library Random123.

>>> [hex(word) for word in block((0, 0), 0)]
['0x6b200159', '0x99ba4efe']
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plica.errors import DTypeError, InputError, ShapeError
from plica.ir.dtypes import DType
from plica.ir.op import Array, Op, sample
from plica.ir.ranges import Range
from plica.ir.sizes import Dim
from plica.ir.types import SCALAR_SIZE, ArrayType, array_type
from plica.ops.rules import given_shape, require_equal_sizes

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""The rotations of table 2 of the paper, for two groups of four rounds; the groups alternate."""

KEY_SCHEDULE = 0x1BD11BDA
"""The third word of the key is this constant of the paper, exclusive-or the other two."""

WORD = 0xFFFFFFFF
"""The mask of a word."""

SPLIT_COUNTER = -(1 << 63)
"""The counter of the first key of `split`: 2**63 as a signed integer."""

DATA_COUNTER = -1
"""The counter of the second key of `fold_in`: 2**64 - 1 as a signed integer."""

DIGITS = {DType.FLOAT16: 11, DType.FLOAT32: 24, DType.FLOAT64: 53}
"""Binary digits of the mantissas of floats."""

INTERVALS = ("[0,1)", "(-1,1)", "(0,1)")
"""The intervals of uniform numbers; a round bracket leaves that end out."""

_MAX_SCALAR_BLOCKS = 8
"""Up to so many blocks are computed with Python integers, in 50 microseconds: numpy takes as long for a single one."""


def block(key: Sequence[int], counter: int) -> tuple[int, int]:
    """The block of a counter: Threefry-2x32 with 20 rounds of its high and its low 32 bits."""
    first, second = key[0] & WORD, key[1] & WORD
    keys = (first, second, first ^ second ^ KEY_SCHEDULE)
    high, low = ((counter >> 32) + first) & WORD, (counter + second) & WORD
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            high = (high + low) & WORD
            low = (low << rotation & WORD | low >> 32 - rotation) ^ high
        high = (high + keys[(group + 1) % 3]) & WORD
        low = (low + keys[(group + 2) % 3] + group + 1) & WORD
    return high, low


def blocks(key: Array, counters: Array) -> Array:
    """The blocks of many counters.

    Shapes: key (2,), counters (N,), the result (N, 2) in uint32.
    """
    if len(counters) <= _MAX_SCALAR_BLOCKS:
        words = [block(key.tolist(), counter) for counter in counters.tolist()]
        return np.asarray(words, "uint32").reshape(-1, 2)
    first, second = (key & WORD).astype("uint32")
    keys = (first, second, first ^ second ^ np.uint32(KEY_SCHEDULE))
    high, low = pair = np.empty((2, len(counters)), "uint32")
    with np.errstate(over="ignore"):  # arithmetic is modulo 2**32
        np.add(counters >> 32 & WORD, first, out=high, casting="unsafe")
        np.add(counters & WORD, second, out=low, casting="unsafe")
        for group in range(5):
            for rotation in ROTATIONS[group % 2]:
                high += low
                rotated_out = low >> np.uint32(32 - rotation)
                low <<= np.uint32(rotation)
                low |= rotated_out
                low ^= high
            high += keys[(group + 1) % 3]
            low += keys[(group + 2) % 3] + np.uint32(group + 1)
    return pair.T


# --- types -----------------------------------------------------------------------------------------------------------


def _require_key(key: ArrayType) -> None:
    if key.dtype != DType.INT64:
        raise DTypeError(f"a key is an array of int64, found {key}; make one with random.key(seed).")
    if len(key.shape) != 1:
        advice = "take one of several keys with keys[i]" if key.shape else "make one with random.key(seed)"
        raise ShapeError(f"a key has the shape (2,), found {key}; {advice}.")
    require_equal_sizes(key.shape[0], 2, f"a key has the shape (2,), found {key}; make one with random.key(seed).")


def _require_number(what: str, number: ArrayType) -> None:
    if number != SCALAR_SIZE:
        raise DTypeError(f"{what} is a scalar of int64, found {number}; convert it with astype(x, 'int64').")


def _key_type(seed: ArrayType) -> ArrayType:
    _require_number("a seed", seed)
    return array_type((2,), DType.INT64)


def _split_type(key: ArrayType, *, num: Dim) -> ArrayType:
    _require_key(key)
    return array_type((num, 2), DType.INT64)


def _fold_in_type(key: ArrayType, data: ArrayType) -> ArrayType:
    _require_key(key)
    _require_number("what is folded into a key", data)
    return key


def _bits_type(key: ArrayType, *, shape: tuple[Dim, ...], width: int) -> ArrayType:
    _require_key(key)
    if not 1 <= width <= 64:
        raise InputError(f"an element has from 1 to 64 random bits, found a width of {width}.")
    return array_type(shape, DType.INT64)


def _uniform_type(key: ArrayType, *, shape: tuple[Dim, ...], digits: int, interval: str, dtype: DType) -> ArrayType:
    _require_key(key)
    if digits not in DIGITS.values() or interval not in INTERVALS:
        raise InputError(f"uniform numbers of {digits} digits in {interval} are not among {DIGITS} and {INTERVALS}.")
    if dtype.kind != "float":
        raise DTypeError(f"uniform numbers have a dtype of floats, found {dtype.value}.")
    return array_type(shape, dtype)


def _permutation_type(key: ArrayType, *, size: Dim) -> ArrayType:
    _require_key(key)
    return array_type((size,), DType.INT64)


# --- references ------------------------------------------------------------------------------------------------------


def _key(seed: Array) -> Any:
    return np.stack([(seed >> 32) & WORD, seed & WORD])


def _split(key: Array, *, num: int) -> Any:
    return blocks(key, np.arange(num) + SPLIT_COUNTER).astype("int64")


def folded_key(key: Sequence[int], data: int) -> tuple[int, int]:
    """The key that `fold_in` makes of a key and a number."""
    return block(block(key, DATA_COUNTER), data)


def _fold_in(key: Array, data: Array) -> Any:
    return np.asarray(folded_key(key.tolist(), data.item()))


def _bits(key: Array, *, shape: tuple[int, ...], width: int) -> Any:
    count = int(np.prod(shape))
    if width <= 32:
        words = blocks(key, np.arange((count + 1) // 2)).reshape(-1)[:count]
        return (words.astype("int64") >> (32 - width)).reshape(shape)
    high, low = blocks(key, np.arange(count)).astype("uint64").T
    return (((high << np.uint64(32)) | low) >> np.uint64(64 - width)).astype("int64").reshape(shape)


def _half_open(key: Array, shape: tuple[int, ...], digits: int) -> Any:
    # k 2**-p, for an integer k of p = digits bits
    return _bits(key, shape=shape, width=digits) * 2.0**-digits


def _centred(key: Array, shape: tuple[int, ...], digits: int) -> Any:
    # (2 k + 1 - 2**p) 2**-p, for an integer k of p = digits bits
    return (2 * _bits(key, shape=shape, width=digits) + (1 - (1 << digits))) * 2.0**-digits


def _open(key: Array, shape: tuple[int, ...], digits: int) -> Any:
    # (2 k + 1) 2**-63, for an integer k of 62 bits; rounding to 1 is replaced by the number before it
    odd = _bits(key, shape=shape, width=63) | 1
    scaled = odd.astype("float32" if digits < 53 else "float64") * 2.0**-63
    return np.minimum(scaled, 1 - 2.0**-digits).astype(f"float{_BITS[digits]}")


_BITS = {11: 16, 24: 32, 53: 64}  # of the float with so many digits
_INTERVALS: dict[str, Callable[..., Array]] = {"[0,1)": _half_open, "(-1,1)": _centred, "(0,1)": _open}

_RANGES: dict[str, Range] = {"[0,1)": (0.0, 1.0), "(-1,1)": (-1.0, 1.0), "(0,1)": (0.0, 1.0)}


def _uniform(key: Array, *, shape: tuple[int, ...], digits: int, interval: str, dtype: DType) -> Any:
    return _INTERVALS[interval](key, shape, digits).astype(dtype.value)


def _permutation(key: Array, *, size: int) -> Any:
    return np.argsort(_bits(key, shape=(size,), width=63), kind="stable")


# --- samples ---------------------------------------------------------------------------------------------------------

_KEY = np.asarray([0x13198A2E, 0x03707344])
_ONES = np.asarray([WORD, WORD])

RANDOM = (
    Op("random_key", _key_type, _key, lambda: [sample(seed) for seed in (0, 42, -1, 3 << 40, -(1 << 63))]),
    Op(
        "random_split",
        _split_type,
        _split,
        lambda: [sample(_KEY, num=3), sample(_ONES, num=0)],
        nonnegative=lambda _, *, num: (num,),
    ),
    Op("random_fold_in", _fold_in_type, _fold_in, lambda: [sample(_KEY, data) for data in (0, 1, -1, 7 << 40)]),
    Op(
        "random_bits",
        _bits_type,
        _bits,
        lambda: [
            *(sample(_KEY, shape=(3, 5), width=width) for width in (1, 8, 31, 32, 33, 63, 64)),
            *(sample(_ONES, shape=shape, width=width) for shape in ((), (0, 3), (1,)) for width in (32, 64)),
        ],
        nonnegative=given_shape,
    ),
    Op(
        "random_uniform",
        _uniform_type,
        _uniform,
        lambda: [
            sample(_KEY, shape=(3, 5), digits=digits, interval=interval, dtype=dtype)
            for interval in INTERVALS
            for dtype, digits in (*DIGITS.items(), (DType.FLOAT64, 24))
        ],
        range=lambda *_, interval, **__: _RANGES[interval],
        nonnegative=given_shape,
    ),
    Op(
        "random_permutation",
        _permutation_type,
        _permutation,
        lambda: [sample(_KEY, size=7), sample(_KEY, size=0)],
        nonnegative=lambda _, *, size: (size,),
    ),
)
