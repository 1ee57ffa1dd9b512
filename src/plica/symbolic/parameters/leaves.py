"""The leaves of parameter graphs: learnable or fixed tensors, constants, and references to another leaf.

>>> from plica.symbolic.initializers import NormalInitializer
>>> weight = TensorParameter(4, 3, initializer=NormalInitializer())
>>> ReferenceParameter(weight).deref() is weight
True
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import FrozenInstanceError, dataclass, field, fields
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from plica.arguments import flag, found
from plica.errors import DTypeError, ShapeError, UnsupportedError
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import Initializer, numbers_of
from plica.symbolic.parameters.nodes import ParameterInput, Shape, as_shape, setting_key


@final
@dataclass(slots=True, eq=False, init=False)
class TensorParameter(ParameterInput):
    """A tensor that the compiled circuit owns; immutable, but for its initializer until it is compiled.

    Args:
        shape: The sizes.
        initializer: Fills the tensor at first; None for a leaf whose value each call passes. It may be assigned until
            a circuit, layer or parameter with the leaf is compiled.
        learnable: Whether training changes it.
        dtype: The kind of its numbers.
        name: Its key in a `state_dict`; without one, the layer's index and the parameter's name.
    """

    shape: Shape
    initializer: Initializer | None
    learnable: bool
    dtype: DataType
    name: str | None
    is_compiled: bool = field(repr=False)

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
        _check_initializer(initializer, sizes)
        if not isinstance(name, str | None):
            raise DTypeError(f"{owner}: name must be a text, {found(name)}")
        if learnable and dtype == DataType.INTEGER:
            raise DTypeError("TensorParameter: integers cannot be learned; pass learnable=False or dtype=DataType.REAL")
        _set(self, shape=sizes, initializer=initializer, learnable=learnable, dtype=dtype, name=name, is_compiled=False)

    def __setattr__(self, name: str, value: Any) -> None:
        """Assign the initializer.

        Raises:
            UnsupportedError: The leaf was compiled.
            DTypeError: `value` is neither an initializer nor None.
            ShapeError: It does not fill the shape of the leaf.
            FrozenInstanceError: Another attribute is assigned.
        """
        if name != "initializer":
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        if self.is_compiled:
            raise UnsupportedError(
                f"TensorParameter: the leaf {self.name or self!r} was compiled, and its tensor filled, so that its "
                "initializer stays; assign it before the circuit is compiled, or fill the tensor of the compiled one"
            )
        _check_initializer(value, self.shape)
        _set(self, initializer=value)

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __getstate__(self) -> list[Any]:
        return [getattr(self, item.name) for item in fields(self)]

    def __setstate__(self, state: Sequence[Any]) -> None:
        _set(self, **{item.name: value for item, value in zip(fields(self), state, strict=True)})

    def mark_compiled(self) -> None:
        """Note that the leaf was compiled: from now on its initializer stays."""
        _set(self, is_compiled=True)

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


def _check_initializer(initializer: Any, shape: Shape) -> None:
    """Refuse an initializer that is none, or that does not fill a shape."""
    if not isinstance(initializer, Initializer | None):
        raise DTypeError(f"TensorParameter: expected an initializer, such as NormalInitializer(), {found(initializer)}")
    if initializer is not None and not initializer.allows_shape(shape):
        raise ShapeError(
            f"TensorParameter: {type(initializer).__name__} with {initializer.config} cannot fill shape {shape}; "
            "change the shape, or the value, axis or number of concentrations of the initializer"
        )


def _set(node: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(node, name, value)
