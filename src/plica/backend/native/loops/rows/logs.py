"""Sums of products in log space: log sum_n w_n exp(a_n + b_n) for logarithms a, b and linear weights w.

The largest entry of each factor, its shift, is subtracted, so that a sum of products of exponentials is enough:

    log sum_n w_n exp(a_n - max a) exp(b_n - max b)  +  max a  +  max b

A sum that underflows or overflows loses digits. Entries that may have lost some are computed again, each as a sum of
exponentials of terms that are added in log space.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import inf
from typing import Any

import ml_dtypes

from plica.backend.native.loops.arrays import Array, Value, reshaped
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.nest import Index, Put
from plica.backend.native.loops.rows.contraction import Factor, at_index, factors_of, memory_of
from plica.backend.native.loops.rows.linalg import as_array, contract
from plica.backend.native.loops.rows.reduce import largest, normalized
from plica.backend.native.loops.rows.reductions import joined_index
from plica.backend.native.loops.rows.shape import write_part
from plica.backend.native.loops.support import PRODUCTS
from plica.backend.native.scalars.builder import Scalar
from plica.ir.dtypes import DType
from plica.ir.program import Equation
from plica.ir.sizes import Dim

_BATCH = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_UNITS = "*"
"""The letter of the last axis of an array with logarithms of a weight, which stands for several axes of the weight."""
_ONE = "+"
"""The letter of an axis of size 1, for a result without axes."""

_LOST = 1 / 64
"""The share of sums that have lost digits, as an estimate."""

Numbers = Mapping[str, Index]
"""The index along the axis of each letter."""


@dataclass(frozen=True, slots=True)
class _LogSum:
    """A sum of products in log space.

    Args:
        block: Where it is written.
        factors: The logarithms.
        weight: Linear numbers, in memory.
        log_source: The array from which the weight's logarithms are computed; None if the weight is.
        form: How they are computed: "log" where the array has them, "log_softmax" over its last axis.
        lost: The error that underflow may have made in an entry of the weight, in smallest normal numbers.
        sizes: The size of each letter.
        result: The letters of the result, one or more.
    """

    block: Block
    factors: Sequence[Factor]
    weight: Factor
    log_source: Factor | None
    form: str | None
    lost: float
    sizes: Mapping[str, Index]
    result: str

    @property
    def dtype(self) -> DType:
        """The dtype of all numbers."""
        return self.weight[0].dtype

    @property
    def limits(self) -> Any:
        """The limits of the dtype."""
        return ml_dtypes.finfo(self.dtype.numpy)  # type: ignore[no-untyped-call]

    def write(self, target: Array) -> None:
        """Write the logarithms to memory."""
        writer, batch = self.block.writer, self._batch()
        with writer.nest([self.sizes[letter] for letter in batch]) as index, self.block.scratch():
            at = dict(zip(batch, index, strict=True))
            part = replace(
                self,
                factors=[at_index(writer, factor, at) for factor in self.factors],
                weight=at_index(writer, self.weight, at),
                log_source=None if self.log_source is None else at_index(writer, self.log_source, at),
                result="".join(letter for letter in self.result if letter not in at),
            )

            def store(numbers: Numbers, value: Scalar) -> None:
                position = [{**at, **numbers}[letter] for letter in self.result]
                offset = writer.add(target.start, writer.flat(position, target.dims))
                writer.store(memory_of(target), offset, value)

            part._write(store)

    def _batch(self) -> str:
        """The first letters of the weight that all factors and the result have, but for one of the result."""
        term = self.weight[1] if self.log_source is None else self.log_source[1].removesuffix(_UNITS)
        shared = takewhile(
            lambda letter: letter in self.result and all(letter in other for _, other in self.factors), term
        )
        return "".join(shared)[: len(self.result) - 1]

    def _write(self, store: Callable[[Numbers, Scalar], None]) -> None:
        """Compute all entries; `store` writes one."""
        if self.dtype not in PRODUCTS:
            self._write_exactly(store, None)
            return
        writer, block = self.block.writer, self.block
        pairs = [self._exponentials(factor) for factor in self._separated()]
        total = block.temporary(self.dtype, [self.sizes[letter] for letter in self.result])
        contract(block, [*(power for power, _ in pairs), self.weight], self.sizes, self.result, total)
        limit = self._limit()
        is_any_lost = writer.cell(DType.BOOL)
        writer.put(Put(is_any_lost, writer.number(False, DType.BOOL)))

        def entry(numbers: Numbers) -> tuple[Scalar, list[Scalar], Scalar]:
            """A sum, the shifts of its factors, and whether it may have lost digits."""
            value = total.read([numbers[letter] for letter in self.result])
            shifts = [shift.read([numbers[letter] for letter in term]) for _, (shift, term) in pairs]
            return value, shifts, self._is_lost(value, shifts, limit)

        with writer.nest(total.dims) as index:
            numbers = dict(zip(self.result, index, strict=True))
            value, shifts, is_lost = entry(numbers)
            logarithm = writer.apply("log", [value], self.dtype, {})
            for shift in shifts:
                logarithm = writer.compute("add", logarithm, shift)
            store(numbers, logarithm)
            writer.put(Put(is_any_lost, writer.compute("or", writer.get(is_any_lost), is_lost)))
        with writer.when(writer.get(is_any_lost), _LOST):
            self._write_exactly(store, lambda numbers: entry(numbers)[2])

    def _separated(self) -> list[Factor]:
        """Factors that share a letter which is summed over are added, so that each such letter has one shift."""
        separate: list[Factor] = []
        for factor in self.factors:
            joined = factor
            for number, (_, term) in enumerate(separate):
                if any(letter in term and letter not in self.result for letter in factor[1]):
                    joined = self._added(separate.pop(number), factor)
                    break
            separate.append(joined)
        return separate

    def _added(self, first: Factor, second: Factor) -> Factor:
        """The sums of two arrays, broadcast to the letters of both."""
        letters = "".join(dict.fromkeys(first[1] + second[1]))

        def read(index: Sequence[Index]) -> Scalar:
            numbers = dict(zip(letters, index, strict=True))
            entries = [x.read([numbers[letter] for letter in term]) for x, term in (first, second)]
            return self.block.writer.compute("add", *entries)

        (x, _), (y, _) = first, second
        dims = tuple(self.sizes[letter] for letter in letters)
        return Array(dims, x.dtype, read, dict.fromkeys([*x.reads, *y.reads], False), x.work + y.work + 1), letters

    def _exponentials(self, factor: Factor) -> tuple[Factor, Factor]:
        """The exponentials of `factor - shift`, and the shift.

        The shift is the largest entry along the letters that are summed over, kept finite: `inf - inf` would be NaN.
        """
        (x, term), writer, limits = factor, self.block.writer, self.limits
        kept = [axis for axis, letter in enumerate(term) if letter in self.result]
        summed = [axis for axis, letter in enumerate(term) if letter not in self.result]
        powers = self.block.temporary(self.dtype, x.dims)
        shifts = self.block.temporary(self.dtype, [x.dims[axis] for axis in kept])
        with writer.nest(shifts.dims) as outer:
            top = writer.compute(
                "maximum", largest(self.block, x, kept, outer, summed), writer.number(float(limits.min), self.dtype)
            )
            shift = writer.compute("minimum", top, writer.number(float(limits.max), self.dtype))
            writer.store(memory_of(shifts), writer.flat(outer, shifts.dims), shift)
            with writer.nest([x.dims[axis] for axis in summed]) as inner:
                index = joined_index(kept, outer, summed, inner)
                power = writer.apply("exp", [writer.compute("subtract", x.read(index), shift)], self.dtype, {})
                writer.store(memory_of(powers), writer.flat(index, x.dims), power)
        return (powers, term), (shifts, "".join(term[axis] for axis in kept))

    def _limit(self) -> Scalar:
        """A sum below it may have lost digits to underflow.

        It is `lost` smallest normal numbers, divided by the precision of the dtype, times the largest entry of the
        weight. A softmax has no entry above 1.
        """
        writer, limits = self.block.writer, self.limits
        smallest_sum = min(float(limits.tiny) / float(limits.eps) * self.lost, float(limits.max))
        if self.form == "log_softmax":
            return writer.number(smallest_sum, self.dtype)
        largest_weight = writer.cell(self.dtype)
        writer.put(Put(largest_weight, writer.number(1, self.dtype)))
        weight = self.weight[0]
        assert weight.flat is not None, "it lies in memory"
        with writer.loop(writer.product(weight.dims), is_interleaved=True) as offset:
            size = writer.compute("absolute", weight.flat(offset))
            writer.put(Put(largest_weight, writer.compute("maximum", writer.get(largest_weight), size)))
        scaled = writer.compute("multiply", writer.get(largest_weight), writer.number(smallest_sum, self.dtype))
        return writer.compute("minimum", scaled, writer.number(float(limits.max), self.dtype))

    def _is_lost(self, total: Scalar, shifts: Sequence[Scalar], limit: Scalar) -> Scalar:
        """Whether a sum may have lost digits.

        A sum that is exactly 0 has lost none: one of its shifts is the lowest finite number. NaN may be infinity times
        a number that underflowed.
        """
        writer, limits = self.block.writer, self.limits
        is_small = writer.compare("less", total, limit)
        for shift in shifts:
            is_nonzero = writer.compare("greater", shift, writer.number(float(limits.min), self.dtype))
            is_small = writer.compute("and", is_small, is_nonzero)
        is_large = writer.compare("greater", total, writer.number(float(limits.max), self.dtype))
        is_nan = writer.compare("not_equal", total, total)
        return writer.compute("or", is_small, writer.compute("or", is_large, is_nan))

    def _write_exactly(
        self, store: Callable[[Numbers, Scalar], None], is_wanted: Callable[[Numbers], Scalar] | None
    ) -> None:
        """Write entries, by default all: each term is a sum of logarithms, so that none underflows."""
        writer = self.block.writer
        with self.block.scratch():
            factors = [*self.factors, (self._log_weight(), self.weight[1])]
            letters = dict.fromkeys(letter for _, term in factors for letter in term)
            summed = [letter for letter in letters if letter not in self.result]
            with writer.nest([self.sizes[letter] for letter in self.result]) as index:
                numbers = dict(zip(self.result, index, strict=True))

                def term(inner: Sequence[Index]) -> Scalar:
                    at = {**numbers, **dict(zip(summed, inner, strict=True))}
                    first, *others = [x.read([at[letter] for letter in own]) for x, own in factors]
                    for other in others:
                        first = writer.compute("add", first, other)
                    return first

                def write() -> None:
                    dims = [self.sizes[letter] for letter in summed]
                    store(numbers, _log_of_sum(self.block, self.dtype, dims, term))

                if is_wanted is None:
                    write()
                else:
                    with writer.when(is_wanted(numbers)):
                        write()

    def _log_weight(self) -> Array:
        """The logarithms of the weight."""
        block, weight = self.block, self.weight[0]
        if self.log_source is None:

            def read(index: Sequence[Index]) -> Scalar:
                return block.writer.apply("log", [weight.read(index)], weight.dtype, {})

            return block.in_memory(Array(weight.dims, weight.dtype, read, weight.reads, 16))
        assert self.form is not None, "it says how logarithms are computed"
        return reshaped(block.writer, _logarithms(block, self.log_source[0], self.form), weight.dims)


def _logarithms(block: Block, source: Array, form: str) -> Array:
    """The logarithms of a weight, computed from an array, in memory."""
    source = block.in_memory(source)
    return source if form == "log" else normalized(block, source, len(source.dims) - 1, None, logarithm=True)


def _log_of_sum(block: Block, dtype: DType, dims: Sequence[Index], term: Callable[[Sequence[Index]], Scalar]) -> Scalar:
    """log(sum(exp(terms - shift))) + shift; the shift is the largest term if that is finite, else 0."""
    writer = block.writer
    maximum, total = writer.cell(dtype), writer.cell(dtype)
    writer.put(Put(maximum, writer.number(-inf, dtype)))
    with writer.nest(dims) as index:
        writer.put(Put(maximum, writer.compute("maximum", writer.get(maximum), term(index))))
    top = writer.get(maximum)
    finite = writer.apply("isfinite", [top], DType.BOOL, {})
    shift = writer.select(finite, top, writer.number(0, dtype))
    writer.put(Put(total, writer.number(0, dtype)))
    with writer.nest(dims) as index:
        power = writer.apply("exp", [writer.compute("subtract", term(index), shift)], dtype, {})
        writer.put(Put(total, writer.compute("sum", writer.get(total), power)))
    return writer.compute("add", writer.apply("log", [writer.get(total)], dtype, {}), shift)


def log_einsum_exp(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """log(einsum(exp(values)..., weight))."""
    left, _, result = equation.params["equation"].replace(" ", "").partition("->")
    shapes = [operand.type.shape for operand in equation.inputs]
    return _written(
        block, equation, [as_array(block, operand) for operand in operands], shapes, left.split(","), result
    )


def log_matmul_exp(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """log(sum over h of exp(x_h) @ W_h.T)."""
    arrays = [as_array(block, operand) for operand in operands]
    shapes = [operand.type.shape for operand in equation.inputs]
    count = len(arrays) - (1 if equation.params.get("logs") is None else 2)
    batch = _BATCH[: len(equation.outputs[0].type.shape) - 2]
    terms = [
        batch[len(batch) - len(shape) + 2 :] + letters for shape, letters in ((shapes[0], "rk"), (shapes[count], "sk"))
    ]
    values = _joined(block, arrays[:count])
    shape = [*shapes[0][:-1], shapes[count][-1]]
    return _written(block, equation, [values, *arrays[count:]], [shape, *shapes[count:]], terms, batch + "rs")


def _joined(block: Block, arrays: Sequence[Array]) -> Array:
    """Arrays of one shape, joined along their last axis."""
    first, *others = arrays
    if not others:
        return first
    units = first.dims[-1]
    target = block.temporary(first.dtype, [*first.dims[:-1], block.writer.multiply(len(arrays), units)])
    for number, x in enumerate(arrays):
        write_part(block, target, x, len(first.dims) - 1, block.writer.multiply(number, units))
    return target


def _written(
    block: Block,
    equation: Equation,
    arrays: Sequence[Array],
    shapes: Sequence[Sequence[Dim]],
    terms: Sequence[str],
    result: str,
) -> Value:
    """The logarithm of a sum of products.

    Args:
        block: Where it is written.
        equation: The equation, whose parameters say what the last array is.
        arrays: The logarithms, the weight, and perhaps the array from which the weight's logarithms are computed.
        shapes: Their shapes.
        terms: The letters of the logarithms and of the weight.
        result: The letters of the result.
    """
    var, form, terms = equation.outputs[0], equation.params.get("logs"), list(terms)
    count = len(terms)
    arrays = [*arrays[: count - 1], *map(block.in_memory, arrays[count - 1 :])]
    if not result:
        arrays[count - 1 :] = [reshaped(block.writer, x, [1, *x.dims]) for x in arrays[count - 1 :]]
        shapes = [*shapes[: count - 1], *((1, *shape) for shape in shapes[count - 1 :])]
        terms[-1], result = _ONE + terms[-1], _ONE
    if form is not None and len(set(terms[-1])) < len(
        terms[-1]
    ):  # a repeated letter: the diagonal of the logarithms is read too
        arrays[-1] = reshaped(block.writer, _logarithms(block, arrays[-1], form), arrays[-2].dims)
        shapes, form = [*shapes[:-1], shapes[-2]], "log"
        terms.append(terms[-1])
    elif form is not None:
        terms.append(terms[-1][: len(shapes[-1]) - 1] + _UNITS)
    factors, sizes = factors_of(block, arrays, shapes, terms)
    weight = block.in_memory(factors[count - 1][0]), factors[count - 1][1]
    log_source = None if form is None else factors[-1]
    target = block.new(var, block.dims(var.type)) if var.type.shape else block.temporary(var.type.dtype, [1])
    lost = equation.params.get("lost", 1.0)
    _LogSum(block, factors[: count - 1], weight, log_source, form, lost, sizes, result).write(target)
    return target if var.type.shape else target.read([0])


LOGS: dict[str, Row] = {"log_einsum_exp": log_einsum_exp, "log_matmul_exp": log_matmul_exp}
