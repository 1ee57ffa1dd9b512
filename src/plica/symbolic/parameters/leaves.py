"""The leaves of parameter graphs: learnable or fixed tensors, constants, and references to another leaf.

>>> from plica.symbolic.initializers import NormalInitializer
>>> weight = TensorParameter(4, 3, initializer=NormalInitializer())
>>> ReferenceParameter(weight).deref() is weight
True
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from plica.arguments import flag, found
from plica.errors import DTypeError, ShapeError
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import Initializer, numbers_of
from plica.symbolic.parameters.nodes import ParameterInput, Shape, as_shape, setting_key


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class TensorParameter(ParameterInput):
    """A tensor that the compiled circuit owns.

    Args:
        shape: The sizes.
        initializer: Fills the tensor at first; None for a leaf whose value each call passes.
        learnable: Whether training changes it.
        dtype: The kind of its numbers.
        name: Its key in a `state_dict`; without one, the layer's index and the parameter's name.
    """

    shape: Shape
    initializer: Initializer | None
    learnable: bool
    dtype: DataType
    name: str | None

    def __init__(
        self,
        *shape: int,
        initializer: Initializer | None,
        learnable: bool = True,
        dtype: DataType = DataType.REAL,
        name: str | None = None,
    ) -> None:
        sizes = as_shape(shape, self)
        owner = "TensorParameter"
        learnable = flag(owner, "learnable", learnable)
        if not isinstance(dtype, DataType):
            raise DTypeError(f"{owner}: dtype must be one of DataType, such as DataType.REAL, {found(dtype)}")
        if not isinstance(initializer, Initializer | None):
            raise DTypeError(f"{owner}: expected an initializer, such as NormalInitializer(), {found(initializer)}")
        if not isinstance(name, str | None):
            raise DTypeError(f"{owner}: name must be a text, {found(name)}")
        if initializer is not None and not initializer.allows_shape(sizes):
            raise ShapeError(
                f"TensorParameter: {type(initializer).__name__} with {initializer.config} cannot fill shape {sizes}; "
                "change the shape, or the value, axis or number of concentrations of the initializer"
            )
        if learnable and dtype == DataType.INTEGER:
            raise DTypeError("TensorParameter: integers cannot be learned; pass learnable=False or dtype=DataType.REAL")
        _set(self, shape=sizes, initializer=initializer, learnable=learnable, dtype=dtype, name=name)

    @property
    def config(self) -> dict[str, Any]:
        """The settings other than shapes, by the names of the constructor."""
        names = ("initializer", "learnable", "dtype", "name")
        return {name: getattr(self, name) for name in names}

    def fold_settings(self) -> Hashable:
        """Shape, kind of numbers, whether training changes it, and whether each call passes its value."""
        return self.shape, self.dtype, self.learnable, self.initializer is None


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class ConstantParameter(ParameterInput):
    """A tensor that never changes and is not counted: one number everywhere, or an array of the shape."""

    shape: Shape
    value: complex | NDArray[Any]

    def __init__(self, *shape: int, value: complex | Iterable[Any] | NDArray[Any] = 0.0) -> None:
        sizes = as_shape(shape, self)
        array = numbers_of("ConstantParameter", value)
        if array.ndim == 0:
            _set(self, shape=sizes, value=value)
            return
        if array.shape != sizes:
            raise ShapeError(
                f"ConstantParameter: expected a value of shape {sizes}, found {array.shape}; "
                "declare the shape of the value, or pass one number"
            )
        array.setflags(write=False)
        _set(self, shape=sizes, value=array)

    @property
    def config(self) -> dict[str, Any]:
        """The settings other than shapes, by the names of the constructor."""
        return {"value": self.value}

    def fold_settings(self) -> Hashable:
        """Shape, whether the numbers are complex, and the value where it is one number."""
        value = setting_key(self.value) if np.ndim(self.value) == 0 else "array"
        return self.shape, self.dtype == DataType.COMPLEX, value

    @property
    def dtype(self) -> DataType:
        """The kind of the numbers."""
        kind = np.asarray(self.value).dtype.kind
        return {"b": DataType.INTEGER, "i": DataType.INTEGER, "u": DataType.INTEGER, "c": DataType.COMPLEX}.get(
            kind, DataType.REAL
        )


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class ReferenceParameter(ParameterInput):
    """A leaf that shares the tensor of another leaf; a reference to a reference points to that leaf too."""

    parameter: ParameterInput

    def __init__(self, parameter: ParameterInput) -> None:
        target = parameter.parameter if isinstance(parameter, ReferenceParameter) else parameter
        if not isinstance(target, ParameterInput):
            raise DTypeError(
                f"ReferenceParameter: expected a leaf of a parameter, found {type(parameter).__name__}; "
                "to share a whole parameter graph use its method ref()"
            )
        _set(self, parameter=target)

    @property
    def shape(self) -> Shape:
        """The shape of the leaf that it points to."""
        return self.parameter.shape

    @property
    def dtype(self) -> DataType:
        """The kind of the numbers of the leaf that it points to."""
        return kind_of(self.parameter)

    @property
    def config(self) -> dict[str, Any]:
        """The settings other than shapes, by the names of the constructor."""
        return {"parameter": self.parameter}

    def fold_settings(self) -> Hashable:
        """The leaf that it points to."""
        return self.parameter

    def deref(self) -> ParameterInput:
        """The leaf that it points to."""
        return self.parameter


def dereferenced(node: Any) -> Any:
    """The leaf that a reference points to; any other node itself."""
    return node.parameter if type(node) is ReferenceParameter else node


def kind_of(leaf: ParameterInput) -> DataType:
    """The kind of the numbers of a leaf; real for a custom leaf, whose kind is known only once it is compiled."""
    if isinstance(leaf, TensorParameter | ConstantParameter | ReferenceParameter):
        return leaf.dtype
    return DataType.REAL


def _set(node: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(node, name, value)
