"""`CircuitArrays`: a compiled circuit with the arrays of its leaves, as files contain it.

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
Drawing = Mapping[type[Initializer], InitializerRow]
"""The rows of a context for initializers."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class CircuitArrays:
    """A compiled circuit with the arrays of its leaves.

    Args:
        compiled: The circuit.
        leaves: Its leaves, each with its array `(F, *shape)`.
        dtype: The dtype of its real numbers.
    """

    compiled: CompiledCircuit
    leaves: Sequence[tuple[Leaf, Array]]
    dtype: DType

    def arrays(self) -> "CircuitArrays":
        """This object: `HasArrays` holds for it too."""
        return self


@runtime_checkable
class HasArrays(Protocol):
    """A circuit compiled for a backend, which gives the arrays of its leaves."""

    def arrays(self) -> CircuitArrays:
        """The circuit with its tensors as they are now; arrays may share their memory."""


def initial_arrays(
    compiled: CompiledCircuit, dtype: DType = DType.FLOAT32, seed: int = 0, drawing: Drawing | None = None
) -> CircuitArrays:
    """A circuit with the values of its initializers; every backend draws the same numbers from this seed.

    Args:
        compiled: The circuit.
        dtype: The dtype of its real numbers.
        seed: Draws depend on it, and on the index of a tensor in the circuit.
        drawing: The rows of a context for initializers.

    Raises:
        UnsupportedError: A tensor has no value of its own.
    """
    numbers = {tensor: number for number, tensor in enumerate(compiled.keys)}

    def value(tensor: TensorParameter) -> Array:
        assert tensor.initializer is not None, "a leaf without a value of its own is in no Program"
        generator = np.random.default_rng([seed, numbers[tensor]])
        drawn = draw(tensor.initializer, tensor.shape, wide_dtype(tensor.dtype, dtype), generator, drawing)
        return drawn if tensor.dtype == DataType.COMPLEX else drawn.real

    return _filled(compiled, dtype, value)


def arrays_of(compiled: CompiledCircuit, dtype: DType, tensors: Mapping[str, Array]) -> CircuitArrays:
    """A circuit with the arrays of a model file or a state dict, by key."""
    return _filled(compiled, dtype, lambda tensor: np.asarray(tensors[compiled.keys[tensor]]))


def _filled(compiled: CompiledCircuit, dtype: DType, value: Callable[[TensorParameter], Array]) -> CircuitArrays:
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
    drawing: Drawing | None = None,
) -> Array:
    """The values of an initializer, by the context's row for it if there is one.

    Raises:
        ShapeError: The draw has another shape.
        DTypeError: Fractions or imaginary parts of the draw would be lost in the dtype.
    """
    row = (drawing or {}).get(type(initializer))
    values = initializer.draw(generator, shape) if row is None else row.draw(initializer, generator, shape)
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
    """Whether a dtype holds the fractions and imaginary parts of numbers, up to rounding."""
    if drawn.dtype.kind == "c" and dtype.kind != "complex":
        return not drawn.imag.any() and _holds(dtype, drawn.real)
    if dtype.kind in ("float", "complex"):
        return True
    low, high = (0, 1) if dtype == DType.BOOL else (np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max)
    return bool(((drawn == np.trunc(drawn)) & (drawn >= low) & (drawn <= high)).all())
