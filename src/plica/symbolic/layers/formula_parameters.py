"""Parameters that the formulas of declared distributions compute: tables, integrals, and parameters of products.

An operation reads the parameters of layers in order. Its `layer` tells it the class and the settings, and has
placeholders as parameters. It asks the row of the class, also where a context has replaced that row.

>>> from plica.symbolic.layers import ExponentialLayer, PoissonLayer
>>> units_at(PoissonLayer([0], 4), num_states=3)
Parameter((4, 3): ... -> HadamardParameter -> ConstantParameter -> SumParameter -> LogUnitsParameter)
>>> product, log_constant = product_of_family(ExponentialLayer([0], 4), ExponentialLayer([0], 2))
>>> product.params["rate"].shape, log_constant.shape
((8,), (8,))
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, final

from plica.ir.ranges import ANYTHING, Range
from plica.symbolic.layers.base import InputLayer
from plica.symbolic.parameters import Array, ConstantParameter, Namespace, Parameter, ParameterOp, Shape, setting_key
from plica.symbolic.parameters.nodes import as_shape
from plica.symbolic.semirings import LSE_SUM, SUM_PRODUCT, Params, Semiring, Value

Arrays: TypeAlias = dict[str, Array]


@dataclass(frozen=True, slots=True, eq=False, init=False)
class FormulaOp(ParameterOp):
    """An operation on parameters of declared layers of one class, `(K,)` each."""

    range: ClassVar[Callable[..., Range | None]] = lambda op, *_: ANYTHING  # noqa: ARG005
    underflow: ClassVar[Callable[..., float]] = lambda *_: math.inf
    setting_names: ClassVar[tuple[str, ...]] = ()

    shapes: tuple[Shape, ...]
    layer: Any

    def _assign(self, in_shapes: Iterable[Iterable[int]], **settings: object) -> None:
        settings["shapes"] = tuple(as_shape(shape, self) for shape in in_shapes)
        for name, value in settings.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "shape", self.infer_shape())

    @property
    def in_shapes(self) -> tuple[Shape, ...]:
        """The shape of each parameter."""
        return self.shapes

    @property
    def config(self) -> dict[str, Any]:
        """The layer, and further settings."""
        return {name: getattr(self, name) for name in ("layer", *self.setting_names)}

    def fold_settings(self) -> Hashable:
        """What layers that fold have in common, and further settings."""
        values = (getattr(self, name) for name in self.setting_names)
        settings = tuple(one.fold_settings() if isinstance(one, InputLayer) else setting_key(one) for one in values)
        return self.shapes, self.layer.fold_settings(), settings


@dataclass(frozen=True, slots=True, eq=False, init=False)
class UnitsOp(FormulaOp):
    """A layer's units at states 0 to C - 1, `(K, C)`; or at a value, the last operand `(1,)`, as `(K,)`.

    Args:
        num_states: C; None for a value.
    """

    setting_names: ClassVar[tuple[str, ...]] = ("num_states",)
    num_states: int | None

    def __init__(self, *in_shapes: Shape, layer: InputLayer, num_states: int | None) -> None:
        self._assign(in_shapes, layer=layer, num_states=num_states)

    def infer_shape(self) -> Shape:
        """`(K, C)`, or `(K,)`."""
        units = self.layer.num_output_units
        return (units,) if self.num_states is None else (units, self.num_states)

    def _units(self, xp: Namespace, semiring: Semiring, arrays: Sequence[Array]) -> Value:
        """The body of the layer's row, `(F, C, K)` or `(F, 1, K)`."""
        if self.num_states is None:
            *arrays, value = arrays
            x = xp.expand_dims(xp.astype(value, xp.int64) if self.layer.domain.whole else value, axis=1)
        else:
            states = xp.reshape(xp.arange(self.num_states), (1, -1, 1))
            x = xp.broadcast_to(states, (arrays[0].shape[0], self.num_states, 1))
        units: Value = type(self.layer).row.body(xp, semiring, self.layer, _params(xp, self.layer, arrays), x)
        return units

    def _units_first(self, xp: Namespace, units: Array) -> Array:
        """`(F, C, K)` as `(F, *shape)`."""
        if self.num_states is None:
            return xp.reshape(units, (units.shape[0], *self.shape))
        return xp.broadcast_to(xp.matrix_transpose(units), (units.shape[0], *self.shape))

    def logs(self, xp: Namespace, arrays: Sequence[Array]) -> Array:
        """The logarithms, which have no derivatives where a number is 0."""
        return self._units_first(xp, LSE_SUM.to_log(xp, self._units(xp, LSE_SUM, arrays)))

    def linear(self, xp: Namespace, arrays: Sequence[Array]) -> Array:
        """The ordinary numbers, with the derivatives of ordinary arithmetic."""
        return self._units_first(xp, SUM_PRODUCT.to_linear(xp, self._units(xp, SUM_PRODUCT, arrays)))

    @abstractmethod
    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The result, `(F, *shape)`."""


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class LogUnitsParameter(UnitsOp):
    """The logarithms of a layer's units, which have no derivatives where a number is 0."""

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The logarithms."""
        return self.logs(xp, arrays)


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class UnitsParameter(UnitsOp):
    """A layer's units, which may be 0."""

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The ordinary numbers."""
        return self.linear(xp, arrays)


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class UnitsSizeParameter(UnitsOp):
    """The sizes of a layer's units: their logarithms as constants, and 0 where a number is 0."""

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The sizes."""
        return _size(xp, self.logs(xp, arrays))


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class UnitsSignParameter(UnitsOp):
    """The signs of a layer's units, 1 or 0, with the derivatives of the numbers: numbers are `sign * exp(size)`."""

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The signs."""
        logs = self.logs(xp, arrays)
        is_zero = xp.equal(logs, -math.inf)
        ratio = xp.exp(xp.where(is_zero, 0.0, logs) - _size(xp, logs))
        return xp.where(is_zero, self.linear(xp, arrays), ratio)


def _size(xp: Namespace, logs: Array) -> Array:
    return xp.where(xp.equal(logs, -math.inf), 0.0, xp.stop_gradient(logs))


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class LogTotalParameter(FormulaOp):
    """The logarithms of the sums or integrals of a layer's units: `(K,)`."""

    def __init__(self, *in_shapes: Shape, layer: InputLayer) -> None:
        self._assign(in_shapes, layer=layer)

    def infer_shape(self) -> Shape:
        """`(K,)`."""
        return (self.layer.num_output_units,)

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The marginal of the layer's row."""
        value = type(self.layer).row.marginal(xp, LSE_SUM, self.layer, _params(xp, self.layer, arrays))
        return xp.reshape(LSE_SUM.to_log(xp, value), (arrays[0].shape[0], *self.shape))


@dataclass(frozen=True, slots=True, eq=False, init=False)
class FamilyProductOp(FormulaOp):
    """An operation on the parameters of two layers of a class that has a `product`, those of the first layer first.

    `layer` is the product; `first` and `second` are layers as wide as it, with placeholders and the two's settings.
    """

    setting_names: ClassVar[tuple[str, ...]] = ("first", "second")
    first: Any
    second: Any

    def infer_shape(self) -> Shape:
        """`(K1 * K2,)`."""
        return (self.layer.num_output_units,)

    def _pairs(self, xp: Namespace, arrays: Sequence[Array]) -> tuple[Arrays, Arrays]:
        """The parameters of both layers, `(F, K1, 1)` and `(F, 1, K2)`."""
        names = [tuple(side.params) for side in (self.first, self.second)]
        count = len(names[0])
        first = {name: xp.expand_dims(array, axis=2) for name, array in zip(names[0], arrays[:count], strict=True)}
        second = {name: xp.expand_dims(array, axis=1) for name, array in zip(names[1], arrays[count:], strict=True)}
        return first, second

    def _flat(self, xp: Namespace, array: Array) -> Array:
        """An array that broadcasts with `(F, K1, K2)`, as `(F, K1 * K2)`."""
        folds, units1, units2 = array.shape[0], self.shapes[0][0], self.shapes[-1][0]
        return xp.reshape(xp.broadcast_to(array, (folds, units1, units2)), (folds, *self.shape))

    def _product(self, xp: Namespace, pairs: tuple[Arrays, Arrays]) -> Arrays:
        """The parameters of the product, `(F, K1 * K2)`."""
        sides = [Params.of(xp, side) for side in pairs]
        return {name: self._flat(xp, array) for name, array in type(self.layer).product(xp, *sides).items()}

    @abstractmethod
    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The result, `(F, K1 * K2)`."""


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class FamilyProductParameter(FamilyProductOp):
    """One parameter of the product of two layers of one family."""

    setting_names: ClassVar[tuple[str, ...]] = ("first", "second", "name")
    name: str

    def __init__(self, *in_shapes: Shape, layer: InputLayer, first: InputLayer, second: InputLayer, name: str) -> None:
        self._assign(in_shapes, layer=layer, first=first, second=second, name=name)

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The parameter, from the `product` of the class."""
        return self._product(xp, self._pairs(xp, arrays))[self.name]


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class FamilyProductLogConstant(FamilyProductOp):
    """The logarithm of the constant by which the product of two densities differs from a density of the family.

    It is `log f(x) + log g(x) - log h(x)`, where h is that density, for any x: the one here is the `anchor` of the
    class, else the mean under h, or its mode if the family has no mean or counts. Derivatives need not pass through x.
    """

    def __init__(self, *in_shapes: Shape, layer: InputLayer, first: InputLayer, second: InputLayer) -> None:
        self._assign(in_shapes, layer=layer, first=first, second=second)

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The logarithms."""
        pairs = self._pairs(xp, arrays)
        product = self._product(xp, pairs)
        x = xp.expand_dims(xp.stop_gradient(self._point(xp, Params.of(xp, product))), axis=1)
        x = xp.astype(x, xp.int64) if self.layer.domain.whole else x
        first, second = ({name: self._flat(xp, array) for name, array in side.items()} for side in pairs)
        sides = ((self.first, first), (self.second, second), (self.layer, product))
        logs = [self._log_density(xp, layer, params, x) for layer, params in sides]
        return logs[0] + logs[1] - logs[2]

    def _point(self, xp: Namespace, params: Params) -> Array:
        if hasattr(type(self.layer), "anchor"):
            return type(self.layer).anchor(xp, params)
        formulas = self.layer.formulas
        mode = formulas["mode"](xp, self.layer, params)
        if "expectation" not in formulas or self.layer.domain.whole:
            return mode
        mean = formulas["expectation"](xp, self.layer, params)
        return xp.where(xp.isfinite(mean), mean, mode)

    def _log_density(self, xp: Namespace, layer: Any, params: Arrays, x: Array) -> Array:
        value = type(layer).row.body(xp, LSE_SUM, layer, Params.of(xp, params), x)
        logs = LSE_SUM.to_log(xp, value)
        return xp.reshape(logs, (logs.shape[0], *self.shape))


def units_at(layer: Any, *, num_states: int | None = None, value: Parameter | None = None) -> Parameter:
    """A layer's units at states 0 to C - 1, `(K, C)`, or at a value of its variable, a parameter `(1,)`: `(K,)`.

    They are logarithms where `layer.log_masses`.
    """
    params = _references(layer)
    operands = [*params.values(), *([] if value is None else [value])]
    kind = LogUnitsParameter if layer.log_masses else UnitsParameter
    op = kind(*(operand.shape for operand in operands), layer=_template(layer, params), num_states=num_states)
    return Parameter.from_nary(op, *operands)


def log_total(layer: Any) -> Parameter:
    """The logarithms of the sums or integrals of a layer's units, `(K,)`."""
    params = _references(layer)
    shapes = [parameter.shape for parameter in params.values()]
    return Parameter.from_nary(LogTotalParameter(*shapes, layer=_template(layer, params)), *params.values())


def product_of_family(first: Any, second: Any) -> tuple[Any, Parameter]:
    """The layer whose units are the products of all pairs, but for constants; and the logarithms of these, `(K1*K2,)`.

    Assumes:
        The layers are of one class, which has a `product`.
    """
    kind, sides = type(first), (_references(first), _references(second))
    units = first.num_output_units * second.num_output_units
    config = {**first.config, "num_output_units": units}
    if hasattr(kind, "product_settings"):
        config |= kind.product_settings(first, second)
    names = [next(iter(group.values())) for group in kind.alternatives]
    shape = (units,)
    placeholders = _placeholders(dict.fromkeys((name for name in names if getattr(kind, name).start), shape))
    layer = kind(**config, **placeholders)
    operands = [parameter for side in sides for parameter in side.values()]
    shapes = [operand.shape for operand in operands]
    wide = [_template(operand, side, units) for operand, side in zip((first, second), sides, strict=True)]
    named = {"layer": layer, "first": wide[0], "second": wide[1]}
    params = {
        name: Parameter.from_nary(FamilyProductParameter(*shapes, **named, name=name), *operands)
        for name in placeholders
    }
    log_constant = Parameter.from_nary(FamilyProductLogConstant(*shapes, **named), *operands)
    return layer.with_params(params), log_constant


def _references(layer: Any) -> dict[str, Parameter]:
    return {name: parameter.ref() for name, parameter in layer.evaluated_params.items()}


def _template(layer: Any, params: Iterable[str], units: int | None = None) -> Any:
    """A layer of the same settings, with placeholders; of another number of units if that is given."""
    count = units or layer.num_output_units
    config = {**layer.config, "num_output_units": count}
    return type(layer)(**config, **_placeholders(dict.fromkeys(params, (count,))))


def _placeholders(shapes: dict[str, Shape]) -> dict[str, Parameter]:
    """Constants that increase from one parameter to the next: no constructor refuses them."""
    return {
        name: Parameter.from_input(ConstantParameter(*shape, value=float(number)))
        for number, (name, shape) in enumerate(shapes.items(), 1)
    }


def _params(xp: Namespace, layer: Any, arrays: Sequence[Array]) -> Params:
    return Params.of(xp, dict(zip(layer.params, arrays, strict=True)))
