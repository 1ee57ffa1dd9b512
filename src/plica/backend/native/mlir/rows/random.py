"""Random numbers as functions of a key and of the index of an element: the words of `plica.ops.random`, bit by bit."""

from collections.abc import Callable, Sequence

from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.emitter import Emitter, Row
from plica.backend.native.mlir.entries import Entry
from plica.backend.native.mlir.merge_sort import ordered
from plica.backend.native.mlir.structured import entry_at, indexed
from plica.backend.native.mlir.types import Value
from plica.backend.native.scalars import Scalar
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim
from plica.ops.random import DATA_COUNTER, DIGITS, KEY_SCHEDULE, ROTATIONS, SPLIT_COUNTER

Pair = tuple[Entry, Entry]
_HALVES = {digits: dtype for dtype, digits in DIGITS.items()}


def _block(key: Pair, counter: Entry) -> Pair:
    """The two words of a counter of 64 bits."""
    first, second = key
    keys = (first, second, first ^ second ^ KEY_SCHEDULE)
    high = (counter >> 32).astype(DType.UINT32) + first
    low = counter.astype(DType.UINT32) + second
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            high = high + low
            low = ((low << rotation) | (low >> (32 - rotation))) ^ high
        high = high + keys[(group + 1) % 3]
        low = low + keys[(group + 2) % 3] + (group + 1)
    return high, low


def _key(emitter: Emitter, key: Value) -> Pair:
    """The words of a key, within a nest."""
    indices = [emitter.code.op(f"arith.constant {index} : index") for index in range(2)]
    words = [Scalar(entry_at(emitter, key, [index]), DType.INT64) for index in indices]
    first, second = (Entry(emitter.scalars, word).astype(DType.UINT32) for word in words)
    return first, second


def _number(emitter: Emitter, index: str) -> Entry:
    """A value of type `index` as an integer of 64 bits."""
    text = emitter.code.op(f"arith.index_cast {index} : index to i64")
    return Entry(emitter.scalars, Scalar(text, DType.INT64))


def _bits(emitter: Emitter, key: Value, number: Entry, width: int) -> Entry:
    """The bits of an element, as an integer of 64 bits."""
    words = _key(emitter, key)
    if width <= 32:
        high, low = _block(words, number >> 1)
        word = ((number & 1) == 0).where(high, low)
        return (word >> (32 - width)).astype(DType.INT64)
    high, low = (word.astype(DType.UINT64) for word in _block(words, number))
    return (((high << 32) | low) >> (64 - width)).astype(DType.INT64)


def _elements(emitter: Emitter, shape: Sequence[Dim], dtype: DType, element: Callable[[Entry], Entry]) -> Value:
    """An array whose elements are functions of their numbers, in the order of rows."""
    sizes = [emitter.size(dim) for dim in shape]

    def body(indices: Sequence[str]) -> str:
        number = indices[0] if indices else emitter.code.op("arith.constant 0 : index")
        for index, size in zip(indices[1:], sizes[1:], strict=True):
            row = emitter.code.op(f"arith.muli {number}, {size} : index")
            number = emitter.code.op(f"arith.addi {row}, {index} : index")
        return element(_number(emitter, number)).scalar.text

    return indexed(emitter, shape, dtype, body)


def _random_bits(emitter: Emitter, call: Call) -> Value:
    (key,), (type_,), width = call.inputs, call.types, call.params["width"]
    return _elements(emitter, type_.shape, type_.dtype, lambda number: _bits(emitter, key, number, width))


def _half_open(bits: Callable[[int], Entry], digits: int) -> Entry:
    return bits(digits).astype(DType.FLOAT64) * 2.0**-digits


def _centred(bits: Callable[[int], Entry], digits: int) -> Entry:
    return (bits(digits) * 2 + (1 - (1 << digits))).astype(DType.FLOAT64) * 2.0**-digits


def _open(bits: Callable[[int], Entry], digits: int) -> Entry:
    wide = DType.FLOAT32 if digits < 53 else DType.FLOAT64
    scaled = (bits(63) | 1).astype(wide) * 2.0**-63
    return scaled.minimum(1 - 2.0**-digits).astype(_HALVES[digits])


_INTERVALS = {"[0,1)": _half_open, "(-1,1)": _centred, "(0,1)": _open}


def _random_uniform(emitter: Emitter, call: Call) -> Value:
    (key,), (type_,) = call.inputs, call.types
    interval, digits = _INTERVALS[call.params["interval"]], call.params["digits"]

    def element(number: Entry) -> Entry:
        return interval(lambda width: _bits(emitter, key, number, width), digits).astype(type_.dtype)

    return _elements(emitter, type_.shape, type_.dtype, element)


def _words(emitter: Emitter, shape: Sequence[Dim], pair: Callable[[Sequence[str]], Pair]) -> Value:
    """Keys: the words of pairs along the last axis."""

    def body(indices: Sequence[str]) -> str:
        high, low = pair(indices)
        word = (_number(emitter, indices[-1]) == 0).where(high, low)
        return word.astype(DType.INT64).scalar.text

    return indexed(emitter, shape, DType.INT64, body)


def _random_key(emitter: Emitter, call: Call) -> Value:
    seed = emitter.tensor(call.inputs[0])

    def pair(_: Sequence[str]) -> Pair:
        number = Entry(emitter.scalars, Scalar(entry_at(emitter, seed, []), DType.INT64))
        return (number >> 32).astype(DType.UINT32), number.astype(DType.UINT32)

    return _words(emitter, (2,), pair)


def _random_split(emitter: Emitter, call: Call) -> Value:
    (key,), (type_,) = call.inputs, call.types

    def pair(indices: Sequence[str]) -> Pair:
        return _block(_key(emitter, key), _number(emitter, indices[0]) + SPLIT_COUNTER)

    return _words(emitter, type_.shape, pair)


def _random_fold_in(emitter: Emitter, call: Call) -> Value:
    key, data = call.inputs[0], emitter.tensor(call.inputs[1])

    def pair(_: Sequence[str]) -> Pair:
        number = Entry(emitter.scalars, Scalar(entry_at(emitter, data, []), DType.INT64))
        return _block(_block(_key(emitter, key), number.like(DATA_COUNTER)), number)

    return _words(emitter, (2,), pair)


def _random_permutation(emitter: Emitter, call: Call) -> Value:
    (key,), (type_,) = call.inputs, call.types
    drawn = _elements(emitter, type_.shape, DType.INT64, lambda number: _bits(emitter, key, number, 63))
    return ordered(emitter, drawn, 0, descending=False)


RANDOM = {
    "random_bits": Row(_random_bits),
    "random_fold_in": Row(_random_fold_in),
    "random_key": Row(_random_key),
    "random_permutation": Row(_random_permutation),
    "random_split": Row(_random_split),
    "random_uniform": Row(_random_uniform),
}
