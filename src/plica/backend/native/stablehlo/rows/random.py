"""Random numbers as functions of a key: the numbers of `ops/random.py`, bit for bit."""

from collections.abc import Callable

from plica.backend.native.stablehlo.call import Call, Row, of
from plica.backend.native.stablehlo.code import Shape
from plica.backend.native.stablehlo.rows.sorting import in_order
from plica.backend.native.stablehlo.values import Value, stacked
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim, floor_divide, product
from plica.ops.random import DATA_COUNTER, KEY_SCHEDULE, ROTATIONS, SPLIT_COUNTER, WORD

_Pair = tuple[Value, Value]


def _halves(numbers: Value) -> _Pair:
    """The high and the low 32 bits of integers."""
    high = numbers.map("shift_right_logical", 32)
    return tuple((number & WORD).astype(DType.UINT32) for number in (high, numbers))  # type: ignore[return-value]


def _words(key: Value) -> _Pair:
    first, second = ((key & WORD).astype(DType.UINT32).part(0, index, index + 1).drop(0) for index in range(2))
    return first, second


def _block(key: _Pair, counters: Value) -> _Pair:
    """The two words of each counter: 20 rounds of Threefry-2x32."""
    keys = (*key, key[0] ^ key[1] ^ KEY_SCHEDULE)
    high, low = (half + word for half, word in zip(_halves(counters), key, strict=True))
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            high = high + low
            turned = low.map("shift_left", rotation) | low.map("shift_right_logical", 32 - rotation)
            low = turned ^ high
        high = high + keys[(group + 1) % 3]
        low = low + keys[(group + 2) % 3] + (group + 1)
    return high, low


def _pairs(words: _Pair) -> Value:
    return stacked([word.astype(DType.INT64) for word in words], -1)


def _key(seed: Value) -> Value:
    return _pairs(_halves(seed))


def _split(key: Value, *, num: Dim) -> Value:
    return _pairs(_block(_words(key), key.iota(0, (num,)) + SPLIT_COUNTER))


def _fold_in(key: Value, data: Value) -> Value:
    return _pairs(_block(_block(_words(key), key.like(DATA_COUNTER)), data))


def _bits(key: Value, shape: Shape, width: int) -> Value:
    count = product(shape)
    if width <= 32:
        blocks = floor_divide(count + 1, 2)
        words = _pairs(_block(_words(key), key.iota(0, (blocks,)))).reshape((2 * blocks,)).part(0, 0, count)
        return words.map("shift_right_logical", 32 - width).reshape(shape)
    high, low = (word.astype(DType.UINT64) for word in _block(_words(key), key.iota(0, (count,))))
    joined = (high.map("shift_left", 32) | low).map("shift_right_logical", 64 - width)
    return joined.astype(DType.INT64).reshape(shape)


def _half_open(key: Value, shape: Shape, digits: int) -> Value:
    # k 2**-p, for p digits and a whole k below 2**p
    return _bits(key, shape, digits).astype(DType.FLOAT64) * 2.0**-digits


def _centred(key: Value, shape: Shape, digits: int) -> Value:
    # (2 k + 1 - 2**p) 2**-p, for p digits and a whole k below 2**p
    return (_bits(key, shape, digits) * 2 + (1 - (1 << digits))).astype(DType.FLOAT64) * 2.0**-digits


def _open(key: Value, shape: Shape, digits: int) -> Value:
    # (2 k + 1) 2**-63, for a whole k below 2**62; rounded, but to less than 1
    odd = _bits(key, shape, 63) | 1
    scaled = odd.astype(DType.FLOAT32 if digits < 53 else DType.FLOAT64) * 2.0**-63
    return scaled.minimum(1 - 2.0**-digits).astype(_DTYPES[digits])


_DTYPES = {11: DType.FLOAT16, 24: DType.FLOAT32, 53: DType.FLOAT64}
_INTERVALS: dict[str, Callable[..., Value]] = {"[0,1)": _half_open, "(-1,1)": _centred, "(0,1)": _open}


def _uniform(call: Call) -> Value:
    numbers = _INTERVALS[call.params["interval"]](call.inputs[0], call.shape, call.params["digits"])
    return numbers.astype(call.dtype)


def _permutation(key: Value, *, size: Dim) -> Value:
    return in_order(_bits(key, (size,), 63), 0)[1]


RANDOM: dict[str, Row] = {
    "random_bits": lambda call: _bits(call.inputs[0], call.shape, call.params["width"]),
    "random_fold_in": of(_fold_in),
    "random_key": of(_key),
    "random_permutation": of(_permutation),
    "random_split": of(_split),
    "random_uniform": _uniform,
}
