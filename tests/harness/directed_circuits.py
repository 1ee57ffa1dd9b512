"""Random circuits of numbers of any sign, and complex ones, with what they compute in plain arithmetic.

Nothing is shared with the compiler or with `oracle.py`: each layer is drawn with a function of rows of data, written
on arrays of numpy in long double or on tensors of torch, which gives values and the sums of the sizes of all terms. How
far a rounded value may be off follows from these, where terms cancel.

draw = draw_directed(3, is_complex=True)
draw.values(x), draw.sizes(x), draw.circuit
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import (
    CategoricalLayer,
    ConstantValueLayer,
    EmbeddingLayer,
    EvidenceLayer,
    GaussianLayer,
    HadamardLayer,
    KroneckerLayer,
    PolynomialLayer,
    SumLayer,
)
from plica.symbolic.parameters import ConstantParameter, TensorParameter

Array = Any
Value = Callable[[dict[Any, Array], Array], Array]
"""From the arrays of leaves and rows `(B, D)` to the units `(B, K)`."""

STATES = 3
_ABSOLUTE = "absolute"  # among the arrays of leaves, where the sizes of terms are asked for


@dataclass(frozen=True)
class DirectedDraw:
    """A random circuit.

    Args:
        circuit: The circuit.
        leaves: The numbers of each learned tensor.
        value: What it computes, all outputs side by side.
        x: Rows of data: NaN where a variable is missing.
        widths: The units of each output.
    """

    circuit: Circuit
    leaves: dict[TensorParameter, Array]
    value: Value
    x: Array
    widths: tuple[int, ...]

    def values(self, x: Array) -> Array:
        """In long double, `(B, outputs, units)`."""
        wide = {leaf: np.asarray(one, np.clongdouble) for leaf, one in self.leaves.items()}
        return self.value(wide, x).reshape(len(x), len(self.widths), self.widths[0])

    def sizes(self, x: Array) -> Array:
        """The sums of the sizes of all terms, in the same shape."""
        wide = {leaf: np.abs(np.asarray(one, np.clongdouble)) for leaf, one in self.leaves.items()}
        found = self.value({**wide, _ABSOLUTE: True}, x)
        return found.real.reshape(len(x), len(self.widths), self.widths[0])

    def check(self, found: torch.Tensor, x: Array) -> None:
        """Raise unless results are principal logarithms of the values, to the rounding of their dtype."""
        logs, values, sizes = found.detach().numpy(), self.values(x), self.sizes(x)
        assert logs.shape == values.shape
        assert not np.isnan(logs).any()
        zero = logs.real == -math.inf
        assert (logs.imag[zero] == 0).all()
        assert (logs.real < math.inf).all()
        assert (logs.imag > -math.pi).all()
        assert (logs.imag <= logs.imag.dtype.type(math.pi)).all()
        with np.errstate(divide="ignore", invalid="ignore"):
            numbers = np.where(zero, 0, np.exp(logs.astype(np.clongdouble)))
            digits = 3 + np.abs(np.where(sizes > 0, np.log(sizes), 0)) + np.abs(np.where(zero, 0, logs.real))
        limit = 100 * np.finfo(logs.dtype).eps * digits * sizes
        assert (np.abs(numbers - values) <= limit).all()


class _Drawing:
    """One circuit in the making."""

    def __init__(self, seed: int, *, is_complex: bool, is_extreme: bool, whole: bool) -> None:
        self.rng = np.random.default_rng([seed, 11])
        self.is_complex, self.is_extreme, self.whole = is_complex, is_extreme, whole
        self.leaves: dict[TensorParameter, Array] = {}
        self.edges: dict[Any, list[Any]] = {}
        self.functions: dict[Any, Value] = {}

    def numbers(self, *shape: int) -> Array:
        """Numbers of any sign, some of them 0, alike but for the sign, or far from 1."""
        found: Array = self.rng.normal(size=shape)
        if self.is_complex and self.rng.random() < 0.6:
            found = found + 1j * self.rng.normal(size=shape)
            if self.rng.random() < 0.3:  # on the axes, where logarithms have their cut
                found = np.array([1, -1, 1j, -1j])[self.rng.integers(4, size=shape)] * np.abs(found)
        if self.rng.random() < 0.3:
            found = np.sign(found.real) * 0.5  # which cancel exactly
        if self.is_extreme:
            found = found * 10.0 ** self.rng.integers(-25, 25, shape if self.rng.random() < 0.5 else ())
        found = np.where(self.rng.random(shape) < 0.15, 0.0, found)
        return narrowed(found)

    def leaf(self, value: Array) -> Any:
        """A learned tensor, or a constant."""
        if self.rng.random() < 0.25:
            leaf: Any = ConstantParameter(*value.shape, value=value)
        else:
            kind = DataType.COMPLEX if np.iscomplexobj(value) else DataType.REAL
            leaf = TensorParameter(*value.shape, initializer=ConstantTensorInitializer(value), dtype=kind)
            self.leaves[leaf] = value
        return leaf

    def add(self, layer: Any, value: Value, *inputs: Any) -> Any:
        self.edges[layer], self.functions[layer] = list(inputs), value
        return layer

    def input(self, variable: int, units: int) -> Any:
        """A layer of one variable: all of one variable are of one kind, by its number."""
        if variable % 2 and not self.whole:
            if self.rng.random() < 0.5:
                return self.normal(variable, units)
            return self.add(*self.polynomial(variable, units))
        return self.add(*self.table(variable, units))

    def table(self, variable: int, units: int) -> tuple[Any, Value]:
        numbers = self.numbers(units, STATES)
        leaf = self.leaf(numbers)
        if self.rng.random() < 0.3:
            layer: Any = CategoricalLayer([variable], units, num_categories=STATES, probs=leaf)
        else:
            layer = EmbeddingLayer([variable], units, num_states=STATES, weight=leaf)

        def value(arrays: dict[Any, Array], x: Array) -> Array:
            table, column = _of(arrays, leaf, numbers), x[:, variable]
            missing = np.isnan(column)
            found = table[:, np.where(missing, 0, column).astype(int)].T
            return _where(missing, table.sum(1)[None], found)

        return layer, value

    def polynomial(self, variable: int, units: int) -> tuple[Any, Value]:
        degree = int(self.rng.integers(0, 4))
        numbers = self.numbers(units, degree + 1)
        leaf = self.leaf(numbers)

        def value(arrays: dict[Any, Array], x: Array) -> Array:
            column, coeff = x[:, variable], _of(arrays, leaf, numbers)
            column = np.abs(column) if _ABSOLUTE in arrays else column
            return sum(coeff[None, :, power] * _like(coeff, column[:, None] ** power) for power in range(degree + 1))

        return PolynomialLayer([variable], units, degree=degree, coeff=leaf), value

    def normal(self, variable: int, units: int) -> Any:
        mean = self.rng.normal(size=units)
        layer = GaussianLayer(
            [variable],
            units,
            mean=ConstantParameter(units, value=mean),
            stddev=ConstantParameter(units, value=np.full(units, 1.5)),
        )

        def value(arrays: dict[Any, Array], x: Array) -> Array:
            z = (x[:, variable, None] - mean) / 1.5
            found = np.where(np.isnan(z), 1.0, np.exp(-z * z / 2) / (1.5 * math.sqrt(2 * math.pi)))
            return _like(_first(arrays), found)

        return self.add(layer, value)

    def without_variables(self, units: int) -> Any:
        """A constant, or a layer whose variable is observed."""
        kind = self.rng.random()
        if kind < 0.4:
            numbers = self.numbers(units)
            leaf = self.leaf(numbers)
            layer: Any = ConstantValueLayer(units, value=leaf)
            return self.add(layer, lambda arrays, x: _rows(_of(arrays, leaf, numbers), x))
        if kind < 0.6:
            logs: Array = self.rng.normal(size=units) * (40 if self.is_extreme else 1)
            logs = logs + 1j * self.rng.normal(size=units) * 3 if self.is_complex else logs
            logs = narrowed(logs)
            numbers = np.exp(np.asarray(logs, np.clongdouble if self.is_complex else np.longdouble))
            layer = ConstantValueLayer(units, log_space=True, value=ConstantParameter(units, value=logs))
            return self.add(layer, lambda arrays, x: _rows(_fixed(arrays, numbers), x))
        held, value = self.polynomial(90, units) if kind < 0.8 else self.table(90, units)
        seen = float(self.rng.integers(STATES))
        layer = EvidenceLayer(held, observation=seen)
        return self.add(layer, lambda arrays, x: value(arrays, np.full((len(x), 91), seen)))

    def hadamard(self, inputs: list[Any]) -> Any:
        layer = HadamardLayer(inputs[0].num_output_units, len(inputs))

        def value(arrays: dict[Any, Array], x: Array) -> Array:
            found = self.functions[inputs[0]](arrays, x)
            for one in inputs[1:]:
                found = found * self.functions[one](arrays, x)
            return found

        return self.add(layer, value, *inputs)

    def kronecker(self, first: Any, second: Any) -> Any:
        def value(arrays: dict[Any, Array], x: Array) -> Array:
            a, b = (self.functions[one](arrays, x) for one in (first, second))
            return (a[:, :, None] * b[:, None, :]).reshape(len(x), a.shape[1] * b.shape[1])

        return self.add(KroneckerLayer(first.num_output_units, 2), value, first, second)

    def sum(self, inputs: list[Any], units: int) -> Any:
        width = inputs[0].num_output_units
        numbers = self.numbers(units, len(inputs) * width)
        leaf = self.leaf(numbers)
        layer = SumLayer(width, units, len(inputs), weight=leaf)

        def value(arrays: dict[Any, Array], x: Array) -> Array:
            weight, found = _of(arrays, leaf, numbers), 0.0
            for place, one in enumerate(inputs):
                part = weight[:, place * width : (place + 1) * width]
                found = found + (self.functions[one](arrays, x)[:, None, :] * part[None]).sum(-1)
            return found

        return self.add(layer, value, *inputs)

    def over(self, variables: list[int], units: int) -> Any:
        """A layer of some variables."""
        if len(variables) == 1:
            layer = self.input(variables[0], units)
            return self.sum([layer], units) if self.rng.random() < 0.4 else layer
        parts = []
        for _ in range(int(self.rng.integers(1, 3))):
            cut = int(self.rng.integers(1, len(variables)))
            factors = [self.over(variables[:cut], units), self.over(variables[cut:], units)]
            if self.rng.random() < 0.3:
                factors.append(self.without_variables(units))
            if len(factors) == 2 and self.rng.random() < 0.3:
                parts.append(self.sum([self.kronecker(factors[0], factors[1])], units))
            else:
                parts.append(self.hadamard(factors))
        return self.sum(parts, units) if len(parts) > 1 or self.rng.random() < 0.5 else parts[0]

    def rows(self, count: int, variables: int) -> Array:
        x: Array = np.empty((count, variables))
        for variable in range(variables):
            real = variable % 2 and not self.whole
            x[:, variable] = self.rng.normal(size=count) if real else self.rng.integers(0, STATES, count)
        x = narrowed(x)
        polynomial = {
            v for layer in self.edges if isinstance(layer, PolynomialLayer) for v in layer.scope if v < variables
        }
        for variable in set(range(variables)) - polynomial:
            x[self.rng.random(count) < 0.25, variable] = math.nan
        return x


def narrowed(numbers: Array) -> Array:
    """Numbers of double precision that single precision has too."""
    return (
        numbers.astype(np.complex64).astype(complex) if np.iscomplexobj(numbers) else numbers.astype("f4").astype(float)
    )


def _first(arrays: dict[Any, Array]) -> Array:
    return next((one for one in arrays.values() if one is not True), None)


def _fixed(arrays: dict[Any, Array], numbers: Array) -> Array:
    return _like(_first(arrays), np.abs(numbers) if _ABSOLUTE in arrays else numbers)


def _of(arrays: dict[Any, Array], leaf: Any, numbers: Array) -> Array:
    return arrays[leaf] if leaf in arrays else _fixed(arrays, numbers)


def _like(other: Array, numbers: Array) -> Array:
    """Numbers of numpy in the library of another array."""
    if other is None or isinstance(other, np.ndarray):
        return np.asarray(numbers, np.clongdouble)
    return other.new_tensor(np.asarray(numbers, complex))


def _where(mask: Array, first: Array, second: Array) -> Array:
    if isinstance(second, np.ndarray):
        return np.where(mask[:, None], first, second)
    mask = second.new_tensor(mask).real.bool()[:, None]
    return first * mask + second * ~mask


def _rows(numbers: Array, x: Array) -> Array:
    return numbers[None] * _like(numbers, np.ones((len(x), 1)))


def draw_directed(
    seed: int, *, is_complex: bool, is_extreme: bool = False, whole: bool = False, rows: int = 7
) -> DirectedDraw:
    """The circuit of one seed.

    Args:
        seed: By which everything is drawn.
        is_complex: Whether leaves may be complex.
        is_extreme: Whether numbers are as far from 1 as float32 allows.
        whole: Whether all variables have states.
        rows: The rows of data.
    """
    drawing = _Drawing(seed, is_complex=is_complex, is_extreme=is_extreme, whole=whole)
    rng = drawing.rng
    variables, units = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    outputs = [drawing.over(list(range(variables)), units) for _ in range(int(rng.integers(1, 3)))]
    x = drawing.rows(rows, variables)

    def value(arrays: dict[Any, Array], x: Array) -> Array:
        found = [drawing.functions[one](arrays, x) for one in outputs]
        return np.concatenate(found, axis=1) if isinstance(found[0], np.ndarray) else torch.cat(found, dim=1)

    circuit = Circuit(list(drawing.edges), {one: read for one, read in drawing.edges.items() if read}, outputs)
    return DirectedDraw(circuit, drawing.leaves, value, x, tuple(one.num_output_units for one in outputs))
