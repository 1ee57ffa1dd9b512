"""`CircuitArrays`: a compiled circuit with an array for each of its leaves. Native files and StableHLO are made of it.

>>> from plica.lower.compiled import CircuitCompiler
>>> from plica.symbolic.circuit import Circuit
>>> from plica.symbolic.layers import CategoricalLayer
>>> layers = [CategoricalLayer([variable], 2, num_categories=3) for variable in (0, 1)]
>>> compiled = CircuitCompiler().compile(Circuit(layers, {}, layers))
>>> ((leaf, array),) = initial_arrays(compiled).leaves
>>> array.shape, array.dtype
((2, 2, 3), dtype('float32'))
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from plica.errors import DTypeError, ShapeError
from plica.ir.dtypes import DType
from plica.lower.compiled import CompiledCircuit
from plica.lower.leaves import Leaf
from plica.lower.parameters import wide_dtype
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import Initializer, InitializerRow
from plica.symbolic.parameters import TensorParameter

Array = NDArray[Any]
InitializerRows = Mapping[type[Initializer], InitializerRow]
"""A context's registry entries for initializers, which replace the `draw` of an initializer."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class CircuitArrays:
    """A compiled circuit with the arrays of its leaves.

    Args:
        compiled: The circuit.
        leaves: Pairs of a leaf and its array `(F, *shape)`.
        dtype: The dtype of its real parameters.
        encoding: The columns of the table that its rows come from, as model files store them; None if there is none.
    """

    compiled: CompiledCircuit
    leaves: Sequence[tuple[Leaf, Array]]
    dtype: DType
    encoding: Mapping[str, Any] | None = None

    def arrays(self) -> "CircuitArrays":
        """This object itself, so that it is one of `HasArrays`."""
        return self


@runtime_checkable
class HasArrays(Protocol):
    """A circuit compiled by a backend that can give the arrays of its leaves."""

    def arrays(self) -> CircuitArrays:
        """The circuit with the current values of its leaves. The arrays may share memory with the backend's tensors."""


def initial_arrays(
    compiled: CompiledCircuit, dtype: DType = DType.FLOAT32, seed: int = 0, drawing: InitializerRows | None = None
) -> CircuitArrays:
    """A circuit with initial values, drawn by its initializers. Every backend draws the same values from one seed.

    Args:
        compiled: The circuit.
        dtype: The dtype of its real parameters.
        seed: The seed; each tensor has a generator of the seed and of its position in the circuit.
        drawing: The context's entries for initializers.

    Raises:
        InputError: A leaf has no initializer, so that only calls give its value.
    """
    positions = {tensor: position for position, tensor in enumerate(compiled.keys)}

    def value(tensor: TensorParameter) -> Array:
        assert tensor.initializer is not None, "a leaf without a value of its own is in no Program"
        generator = np.random.default_rng([seed, positions[tensor]])
        drawn = draw(tensor.initializer, tensor.shape, wide_dtype(tensor.dtype, dtype), generator, drawing)
        return drawn if tensor.dtype == DataType.COMPLEX else drawn.real

    return _filled(compiled, dtype, value)


def arrays_of(compiled: CompiledCircuit, dtype: DType, tensors: Mapping[str, Array]) -> CircuitArrays:
    """A circuit with the arrays of a model file or a state dict; `tensors` has them by the keys of `compiled.keys`."""
    return _filled(compiled, dtype, lambda tensor: np.asarray(tensors[compiled.keys[tensor]]))


def _filled(compiled: CompiledCircuit, dtype: DType, value: Callable[[TensorParameter], Array]) -> CircuitArrays:
    """A circuit whose leaves hold `value(tensor)` in the fold of each tensor."""
    captured = compiled.score(dtype, compiled.usual_input(dtype)).captured
    leaves = []
    for leaf in (entry for entry in captured if isinstance(entry, Leaf)):
        array = np.empty(leaf.shape, wide_dtype(leaf.kind, dtype).numpy)
        for fold, member in enumerate(leaf.members):
            array[fold] = value(member)
        leaves.append((leaf, array))
    return CircuitArrays(compiled, leaves, dtype)


def draw(
    initializer: Initializer,
    shape: tuple[int, ...],
    dtype: DType,
    generator: np.random.Generator,
    drawing: InitializerRows | None = None,
) -> Array:
    """The values that an initializer draws; the context's entry for it comes first.

    Raises:
        ShapeError: The drawn array has another shape than `shape`.
        DTypeError: It is no array of numbers, or `dtype` would drop its fractions or imaginary parts.
    """
    row = (drawing or {}).get(type(initializer))
    of_class = initializer.draw_complex if dtype.kind == "complex" else initializer.draw
    values = of_class(generator, shape) if row is None else row.draw(initializer, generator, shape)
    drawn = np.asarray(values)
    if drawn.shape != shape:
        raise ShapeError(
            f"{type(initializer).__name__}: expected a draw of shape {shape}, found {drawn.shape}; `draw` returns an "
            "array of the shape that it is given"
        )
    if drawn.dtype.kind not in "biufc":
        raise DTypeError(
            f"draws of {type(initializer).__name__} are {drawn.dtype}, expected numbers; return an array of them"
        )
    widest = np.dtype(np.complex128 if drawn.dtype.kind == "c" else np.float64)
    if drawn.dtype.itemsize > widest.itemsize:
        drawn = drawn.astype(widest)
    if not _holds(dtype, drawn):
        raise DTypeError(
            f"draws of {type(initializer).__name__} are {drawn.dtype}, which a tensor of {dtype.value} does not hold; "
            "take a tensor of another dtype, or another initializer"
        )
    return drawn


def _holds(dtype: DType, drawn: Array) -> bool:
    """Whether a dtype can hold drawn numbers, up to rounding: no integer type holds 0.5, and no real type holds 1j."""
    if drawn.dtype.kind == "c" and dtype.kind != "complex":
        return not drawn.imag.any() and _holds(dtype, drawn.real)
    if dtype.kind in ("float", "complex"):
        return True
    low, high = (0, 1) if dtype == DType.BOOL else (np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max)
    return bool(((drawn == np.trunc(drawn)) & (drawn >= low) & (drawn <= high)).all())
