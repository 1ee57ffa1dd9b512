"""Random numbers from keys, as `plica.ops.random` defines them: each entry depends on the key and its position."""

from collections.abc import Callable
from math import ldexp

from plica.backend.native.loops.arrays import Array, Value
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.nest import Index
from plica.backend.native.loops.rows.sorting import sorting_order
from plica.backend.native.scalars.builder import Scalar
from plica.ir.dtypes import DType
from plica.ir.program import Equation
from plica.ops.random import DATA_COUNTER, KEY_SCHEDULE, ROTATIONS, SPLIT_COUNTER

_WORD = DType.UINT32
_WORK = 100  # instructions of an entry: about those of 20 rounds
Words = tuple[Scalar, Scalar]


def _words(block: Block, key: Value) -> Words:
    """The two words of a key, read from its array."""
    assert isinstance(key, Array), "a key is an array"
    first, second = (block.writer.convert(key.read([index]), _WORD) for index in (0, 1))
    return first, second


def _threefry(block: Block, key: Words, counter: Index) -> Words:
    """The two words that Threefry-2x32 with 20 rounds computes from a key and a counter: `plica.ops.random.block`."""
    writer = block.writer

    def word(value: int) -> Scalar:
        return writer.number(value, _WORD)

    schedule = writer.compute("xor", writer.compute("xor", *key), word(KEY_SCHEDULE))
    keys = (*key, schedule)
    count = writer.value(counter)
    high = writer.convert(writer.compute("shift_right", count, 32), _WORD)
    high, low = writer.compute("add", high, key[0]), writer.compute("add", writer.convert(count, _WORD), key[1])
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            high = writer.compute("add", high, low)
            left = writer.compute("shift_left", low, word(rotation))
            right = writer.compute("shift_right", low, word(32 - rotation))
            low = writer.compute("xor", writer.compute("or", left, right), high)
        high = writer.compute("add", high, keys[(group + 1) % 3])
        low = writer.compute("add", low, writer.compute("add", keys[(group + 2) % 3], word(group + 1)))
    return high, low


def _stored_key(block: Block, equation: Equation, words: Words) -> Value:
    """A key of two words, in memory."""
    target = block.new(equation.outputs[0], (2,))
    assert target.buffer is not None, "it is new memory"
    for index, word in enumerate(words):
        value = block.writer.convert(word, DType.INT64)
        block.writer.store(target.buffer, block.writer.add(target.start, index), value)
    return target


def random_key(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """The key of a seed: its high and its low 32 bits."""
    writer, seed = block.writer, block.scalar(operands[0])
    high = writer.convert(writer.compute("shift_right", seed, 32), _WORD)
    return _stored_key(block, equation, (high, writer.convert(seed, _WORD)))


def random_fold_in(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """The key that `fold_in` makes of a key and a number."""
    key, number = operands
    second_key = _threefry(block, _words(block, key), DATA_COUNTER)
    return _stored_key(block, equation, _threefry(block, second_key, block.scalar(number)))


def random_split(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """New keys, `(num, 2)`."""
    writer, key = block.writer, _words(block, operands[0])
    dims = block.dims(equation.outputs[0].type)
    target = block.new(equation.outputs[0], dims)
    assert target.buffer is not None, "it is new memory"
    with writer.loop(dims[0]) as row:
        words = _threefry(block, key, writer.compute("add", row, writer.number(SPLIT_COUNTER, DType.INT64)))
        for index, word in enumerate(words):
            offset = writer.add(target.start, writer.flat([row, index], dims))
            writer.store(target.buffer, offset, writer.convert(word, DType.INT64))
    return target


def _bits(block: Block, key: Words, width: int, offset: Index) -> Scalar:
    """The random bits of the entry at a row-major offset: `width` of them, as an integer of 64 bits."""
    writer = block.writer
    if width <= 32:
        index = writer.value(offset)
        high, low = _threefry(block, key, writer.compute("shift_right", index, 1))
        is_low = writer.convert(writer.compute("and", index, 1), DType.BOOL)
        word = writer.convert(writer.select(is_low, low, high), DType.INT64)
        return writer.compute("shift_right", word, 32 - width) if width < 32 else word
    high, low = (writer.convert(word, DType.UINT64) for word in _threefry(block, key, offset))
    joined = writer.compute("or", writer.compute("shift_left", high, writer.number(32, DType.UINT64)), low)
    if width < 64:
        joined = writer.compute("shift_right", joined, writer.number(64 - width, DType.UINT64))
    return writer.convert(joined, DType.INT64)


def _drawn(block: Block, equation: Equation, key: Value, entry: Callable[[Words, Index], Scalar]) -> Value:
    """The array of `entry(words of the key, offset)` for each row-major offset; entries are computed when read."""
    writer, type_ = block.writer, equation.outputs[0].type
    words = _words(block, key)
    if not type_.shape:
        return entry(words, 0)
    dims = block.dims(type_)

    def flat(offset: Index) -> Scalar:
        return entry(words, offset)

    return Array(dims, type_.dtype, lambda index: flat(writer.flat(index, dims)), {}, _WORK, flat)


def random_bits(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """Random integers of `width` bits."""
    width = equation.params["width"]
    return _drawn(block, equation, operands[0], lambda key, offset: _bits(block, key, width, offset))


def random_uniform(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """Uniform numbers in an interval."""
    params = equation.params
    digits, dtype = params["digits"], params["dtype"]
    uniform = _INTERVALS[params["interval"]]

    def entry(key: Words, offset: Index) -> Scalar:
        return block.writer.convert(uniform(block, key, digits, offset), dtype)

    return _drawn(block, equation, operands[0], entry)


def _scaled(block: Block, integer: Scalar, digits: int, dtype: DType) -> Scalar:
    # integer 2**-digits
    writer = block.writer
    return writer.compute("multiply", writer.convert(integer, dtype), writer.number(ldexp(1, -digits), dtype))


def _half_open(block: Block, key: Words, digits: int, offset: Index) -> Scalar:
    # k 2**-p, for an integer k of p = digits bits
    return _scaled(block, _bits(block, key, digits, offset), digits, DType.FLOAT64)


def _centred(block: Block, key: Words, digits: int, offset: Index) -> Scalar:
    # (2 k + 1 - 2**p) 2**-p, for an integer k of p = digits bits
    writer = block.writer
    twice = writer.multiply(2, _bits(block, key, digits, offset))
    return _scaled(block, writer.value(writer.add(twice, 1 - (1 << digits))), digits, DType.FLOAT64)


def _open(block: Block, key: Words, digits: int, offset: Index) -> Scalar:
    # (2 k + 1) 2**-63, for an integer k of 62 bits; rounding to 1 is replaced by the number before it
    writer, dtype = block.writer, DType.FLOAT32 if digits < 53 else DType.FLOAT64
    odd = writer.compute("or", _bits(block, key, 63, offset), 1)
    return writer.compute("minimum", _scaled(block, odd, 63, dtype), writer.number(1 - ldexp(1, -digits), dtype))


_INTERVALS: dict[str, Callable[[Block, Words, int, Index], Scalar]] = {
    "[0,1)": _half_open,
    "(-1,1)": _centred,
    "(0,1)": _open,
}


def random_permutation(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """A permutation of 0, ..., size - 1: the order that sorts random integers, one for each index."""
    writer, key = block.writer, _words(block, operands[0])
    (size,) = block.dims(equation.outputs[0].type)
    integers = block.temporary(DType.INT64, [size])
    assert integers.buffer is not None, "it is new memory"
    with writer.loop(size) as index:
        writer.store(integers.buffer, index, _bits(block, key, 63, index))
    order = sorting_order(block, size, lambda a, b: writer.compare("less", integers.read([a]), integers.read([b])))
    return Array((size,), DType.INT64, lambda index: writer.load(order, index[0]), {order: True})


RANDOM: dict[str, Row] = {
    "random_key": random_key,
    "random_split": random_split,
    "random_fold_in": random_fold_in,
    "random_bits": random_bits,
    "random_uniform": random_uniform,
    "random_permutation": random_permutation,
}
