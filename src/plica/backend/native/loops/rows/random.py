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
_WORK = 100
Words = tuple[Scalar, Scalar]


def _words(block: Block, key: Value) -> Words:
    """The two words of a key."""
    assert isinstance(key, Array), "a key is an array"
    first, second = (block.writer.convert(key.read([index]), _WORD) for index in (0, 1))
    return first, second


def _block(block: Block, key: Words, counter: Index) -> Words:
    """The two words that Threefry-2x32 with 20 rounds computes from a counter."""
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


def _pair(block: Block, equation: Equation, words: Words) -> Value:
    """A key of two words."""
    target = block.new(equation.outputs[0], (2,))
    assert target.buffer is not None, "it is new memory"
    for index, word in enumerate(words):
        value = block.writer.convert(word, DType.INT64)
        block.writer.store(target.buffer, block.writer.add(target.start, index), value)
    return target


def random_key(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """The words of a seed."""
    writer, seed = block.writer, block.scalar(operands[0])
    high = writer.convert(writer.compute("shift_right", seed, 32), _WORD)
    return _pair(block, equation, (high, writer.convert(seed, _WORD)))


def random_fold_in(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """The key for a number."""
    key, data = operands
    second = _block(block, _words(block, key), DATA_COUNTER)
    return _pair(block, equation, _block(block, second, block.scalar(data)))


def random_split(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """New keys, in rows."""
    writer, key = block.writer, _words(block, operands[0])
    dims = block.dims(equation.outputs[0].type)
    target = block.new(equation.outputs[0], dims)
    assert target.buffer is not None, "it is new memory"
    with writer.loop(dims[0]) as row:
        words = _block(block, key, writer.compute("add", row, writer.number(SPLIT_COUNTER, DType.INT64)))
        for index, word in enumerate(words):
            offset = writer.add(target.start, writer.flat([row, index], dims))
            writer.store(target.buffer, offset, writer.convert(word, DType.INT64))
    return target


def _bits(block: Block, key: Words, width: int, offset: Index) -> Scalar:
    """`width` random bits for an entry, as an integer of 64 bits."""
    writer = block.writer
    if width <= 32:
        index = writer.value(offset)
        high, low = _block(block, key, writer.compute("shift_right", index, 1))
        is_low = writer.convert(writer.compute("and", index, 1), DType.BOOL)
        word = writer.convert(writer.select(is_low, low, high), DType.INT64)
        return writer.compute("shift_right", word, 32 - width) if width < 32 else word
    high, low = (writer.convert(word, DType.UINT64) for word in _block(block, key, offset))
    joined = writer.compute("or", writer.compute("shift_left", high, writer.number(32, DType.UINT64)), low)
    if width < 64:
        joined = writer.compute("shift_right", joined, writer.number(64 - width, DType.UINT64))
    return writer.convert(joined, DType.INT64)


def _entries(block: Block, equation: Equation, key: Value, entry: Callable[[Words, Index], Scalar]) -> Value:
    """An array whose entries are computed from the key and their offset."""
    writer, type_ = block.writer, equation.outputs[0].type
    words = _words(block, key)
    if not type_.shape:
        return entry(words, 0)
    dims = block.dims(type_)

    def flat(offset: Index) -> Scalar:
        return entry(words, offset)

    return Array(dims, type_.dtype, lambda at: flat(writer.flat(at, dims)), {}, _WORK, flat)


def random_bits(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """Random integers of some bits."""
    width = equation.params["width"]
    return _entries(block, equation, operands[0], lambda key, offset: _bits(block, key, width, offset))


def random_uniform(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """Uniform numbers in an interval."""
    params = equation.params
    digits, dtype = params["digits"], params["dtype"]
    entry = _INTERVALS[params["interval"]]

    def number(key: Words, offset: Index) -> Scalar:
        return block.writer.convert(entry(block, key, digits, offset), dtype)

    return _entries(block, equation, operands[0], number)


def _scaled(block: Block, integer: Scalar, digits: int, dtype: DType) -> Scalar:
    writer = block.writer
    return writer.compute("multiply", writer.convert(integer, dtype), writer.number(ldexp(1, -digits), dtype))


def _half_open(block: Block, key: Words, digits: int, offset: Index) -> Scalar:
    # k 2**-p
    return _scaled(block, _bits(block, key, digits, offset), digits, DType.FLOAT64)


def _centred(block: Block, key: Words, digits: int, offset: Index) -> Scalar:
    # (2 k + 1 - 2**p) 2**-p
    writer = block.writer
    twice = writer.multiply(2, _bits(block, key, digits, offset))
    return _scaled(block, writer.value(writer.add(twice, 1 - (1 << digits))), digits, DType.FLOAT64)


def _open(block: Block, key: Words, digits: int, offset: Index) -> Scalar:
    # (2 k + 1) 2**-63, rounded, below 1
    writer, dtype = block.writer, DType.FLOAT32 if digits < 53 else DType.FLOAT64
    odd = writer.compute("or", _bits(block, key, 63, offset), 1)
    return writer.compute("minimum", _scaled(block, odd, 63, dtype), writer.number(1 - ldexp(1, -digits), dtype))


_INTERVALS: dict[str, Callable[[Block, Words, int, Index], Scalar]] = {
    "[0,1)": _half_open,
    "(-1,1)": _centred,
    "(0,1)": _open,
}


def random_permutation(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """The order of random integers."""
    writer, key = block.writer, _words(block, operands[0])
    (size,) = block.dims(equation.outputs[0].type)
    drawn = block.temporary(DType.INT64, [size])
    assert drawn.buffer is not None, "it is new memory"
    with writer.loop(size) as index:
        writer.store(drawn.buffer, index, _bits(block, key, 63, index))
    order = sorting_order(block, size, lambda a, b: writer.compare("less", drawn.read([a]), drawn.read([b])))
    return Array((size,), DType.INT64, lambda index: writer.load(order, index[0]), {order: True})


RANDOM: dict[str, Row] = {
    "random_key": random_key,
    "random_split": random_split,
    "random_fold_in": random_fold_in,
    "random_bits": random_bits,
    "random_uniform": random_uniform,
    "random_permutation": random_permutation,
}
