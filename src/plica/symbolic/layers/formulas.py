"""Formulas of a declared distribution (see `declared.py`), and the row that they make.

A formula is a static function of the class, whose arguments are found by name when the class is created:

* `xp` is the array namespace.
* `loc` is the parameter of that name, or None if the layer lacks it. `log_loc` are its logarithms, accurate also where
  it underflows. `params` are all parameters, `(F, K)`. The name of a setting is the value that the layer has.
* The name of another static function is its result: `width` in a sampler, where the class has `width(xp, low, high)`.
* `x`, `lower`, `upper` and `uniforms` are operands. `x` comes in the dtype of the parameters, ends as they are given.

Shapes: `log_density` gets parameters `(F, 1, K)` and data `(F, B, 1)`, and gives logarithms `(F, B, K)`, or a `Weight`
where ordinary numbers have derivatives that logarithms lack. The other formulas, with the shapes that they get and
give:

    table              (F, K, 1): a Weight (F, K, C) of the masses of finitely many states; if there is a log_density
                       too, it is computed for data, and no masses are looked up
    log_maximum        (F, 1, K): the logarithms of the largest values; those at the mode where it is left out
    log_total          (F, 1, K): the logarithms of the integrals of units; None where they are 1
    log_interval       (F, 1, K), ends (F, B, 1): logarithms of the shares between the ends, (F, B, K)
    interval           the same as ordinary numbers
    sample             (F, B, 1) of the chosen units, uniform numbers (F, B, 1): draws
    mode, expectation, variance  (F, K): the same

In place of a function, a formula may be an `unsupported("why")`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from plica.errors import DTypeError, GraphError, ShapeError
from plica.ir.dtypes import as_dtype
from plica.ir.op import Unsupported, unsupported
from plica.symbolic.layers import states
from plica.symbolic.layers.base import InputLayer
from plica.symbolic.layers.rows import InputRow, normalized_total
from plica.symbolic.parameters import Array, Namespace
from plica.symbolic.semirings import Params, Semiring, Value, Weight

Source: TypeAlias = Callable[[Namespace, Any, Params], Any]
# (F, K) -> the shape that a formula reads
Arrangement: TypeAlias = Callable[[Array], Array]

_OPERANDS = ("x", "lower", "upper", "uniforms")

# column of an InputRow -> why a class without its formula has none
_NO_FORMULAS = {
    column: unsupported(f"its class has no {names}; give it a static function ({arguments})")
    for column, names, arguments in (
        ("sample", "'sample'", "xp, uniforms, <parameters>"),
        ("maximum", "'mode' and no 'log_maximum'", "<parameters>"),
        ("mode", "'mode'", "<parameters>"),
        ("mean", "'expectation'", "<parameters>"),
        ("variance", "'variance'", "<parameters>"),
        ("interval", "'interval' and no 'log_interval'", "xp, lower, upper, <parameters>"),
    )
}


@dataclass(frozen=True, slots=True)
class Formula:
    """A static function of a distribution's class, with the sources of its arguments.

    Args:
        function: The function.
        of_units: The sources of arguments that are arrays `(F, K)`.
        others: The sources of other arguments, except operands.
        operands: The operands that it takes.
        name: Its name in messages.
    """

    function: Callable[..., Any]
    of_units: Mapping[str, Source]
    others: Mapping[str, Source]
    operands: tuple[str, ...]
    name: str

    @staticmethod
    def of(kind: Any, name: str, callers: tuple[str, ...] = ()) -> Formula:
        """The formula of a name, which the formulas `callers` read.

        Raises:
            GraphError: It has no arguments that are found by name, an argument that names nothing of the class, or it
                reads itself.
        """
        if name in callers:
            raise GraphError(f"{kind.__name__}.{name} reads itself through its arguments; rename one of them")
        owner, function = f"{kind.__name__}.{name}", getattr(kind, name)
        of_units: dict[str, Source] = {}
        others: dict[str, Source] = {}
        operands = []
        for argument in _arguments(owner, function):
            parameter = argument.removeprefix("log_")
            if argument in kind.parameter_names:
                of_units[argument] = partial(_parameter, argument)
            elif parameter in kind.parameter_names:
                of_units[argument] = partial(_logarithms, parameter)
            elif argument in _OPERANDS:
                operands.append(argument)
            elif argument in kind.setting_names:
                others[argument] = partial(_setting, argument)
            elif argument in _WHOLE:
                others[argument] = _WHOLE[argument]
            elif isinstance(inspect.getattr_static(kind, argument, None), staticmethod):
                of_units[argument] = Formula.of(kind, argument, (*callers, name))
            else:
                raise GraphError(
                    f"{owner} takes {argument!r}, which is none of its parameters "
                    f"({', '.join(kind.parameter_names)}) or their logarithms ('log_<name>'), settings, operands "
                    f"({', '.join(_OPERANDS)}) or static functions; rename the argument, or declare it"
                )
        return Formula(function, of_units, others, tuple(operands), owner)

    def __call__(
        self, xp: Namespace, layer: Any, params: Params, arrange: Arrangement = lambda array: array, **operands: Array
    ) -> Any:
        """The result for a layer; arrays of units come in the shape that `arrange` gives them."""
        arrays = {name: source(xp, layer, params) for name, source in self.of_units.items()}
        arrays = {name: None if array is None else arrange(array) for name, array in arrays.items()}
        given = {name: source(xp, layer, params) for name, source in self.others.items()}
        given |= {name: operands[name] for name in self.operands}
        if "x" in given:
            like = next((array for array in arrays.values() if array is not None), given["x"])
            given["x"] = xp.astype(given["x"], like.dtype)
        return self.function(**arrays, **given)


def _arguments(owner: str, function: Callable[..., Any]) -> list[str]:
    """The names of the arguments of a formula."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise GraphError(f"{owner} is {function!r}, whose arguments have no names; give it a function") from error
    for argument, parameter in parameters.items():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise GraphError(f"{owner}: {argument!r} cannot be given by name; declare it without '/' and '*'")
    return list(parameters)


def _parameter(name: str, xp: Namespace, layer: Any, params: Params) -> Array | None:  # noqa: ARG001
    return params[name] if name in tuple(params) else None  # `name in params` would compute it


def _logarithms(name: str, xp: Namespace, layer: Any, params: Params) -> Array | None:  # noqa: ARG001
    return params.log(xp, name) if name in tuple(params) else None


def _setting(name: str, xp: Namespace, layer: Any, params: Params) -> Any:  # noqa: ARG001
    return getattr(layer, name)


# The arguments that every formula may take.
_WHOLE: Mapping[str, Source] = {"xp": lambda xp, _, __: xp, "params": lambda _, __, params: params}


# The columns of a row.


def _result(
    formula: str, shape: str, xp: Namespace, layer: Any, params: Params, *expand: Arrangement, **operands: Array
) -> Any:
    """The value of a formula, which only `log_total` may leave out.

    Args:
        formula: The formula.
        shape: The names of its axes: "FBK". An axis may have the length 1 instead.
        xp: The array namespace.
        layer: The layer.
        params: Its parameters.
        expand: The arrangement of arrays of units.
        operands: The operands; the second axis of the first one counts rows.
    """
    name = layer.formulas[formula].name
    value = layer.formulas[formula](xp, layer, params, *expand, **operands)
    if value is None and formula != "log_total":
        raise DTypeError(f"{name} gave None, expected an array; return one")
    if value is None or (isinstance(value, Weight) and formula == "log_density"):
        return value
    rows = next((_dims(operand)[1] for operand in operands.values()), 1)
    sizes = {"F": _dims(params[next(iter(params))])[0], "B": rows, "K": layer.num_output_units, "1": 1}
    return _held_to(name, formula.startswith("log_"), shape, tuple(sizes[axis] for axis in shape), value)


def _held_to(name: str, is_float: bool, axes: str, sizes: Sequence[Any], value: Any) -> Any:
    """An array of a formula, which fits the shape that the formula has."""
    lengths = ", ".join(f"{axis} = {size}" for axis, size in zip(axes, sizes, strict=True) if axis != "1")
    expected = f"({', '.join(axes)}) with {lengths}"
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise DTypeError(f"{name} gave {type(value).__name__} {value!r:.60}, expected an array {expected}; return one")
    kind = as_dtype(value.dtype).kind
    if kind != "float" and (is_float or kind != "int"):
        raise DTypeError(
            f"{name} gave numbers of {as_dtype(value.dtype)}, expected floats; convert them with xp.astype"
        )
    dims = _dims(value)
    if len(dims) != len(sizes) or any(dim not in (1, size) for dim, size in zip(dims, sizes, strict=True)):
        raise ShapeError(
            f"{name} gave an array of shape ({', '.join(map(str, dims))}), expected {expected}; an axis may have the "
            "length 1 instead"
        )
    return value


def _dims(array: Any) -> tuple[Any, ...]:
    """The sizes of an array; those of a tracer may be symbolic."""
    return tuple(array.dims if hasattr(array, "dims") else array.shape)


def _body(xp: Namespace, semiring: Semiring, layer: Any, params: Params, x: Array) -> Value:
    value = _result("log_density", "FBK", xp, layer, params, partial(xp.expand_dims, axis=1), x=x)
    return semiring.from_weight(xp, value) if isinstance(value, Weight) else semiring.from_log(xp, value)


def _table(xp: Namespace, layer: Any, params: Params) -> Weight:
    """The table, which is held to the states of the domain wherever its numbers are read."""
    name = layer.formulas["table"].name
    table = layer.formulas["table"](xp, layer, params, partial(xp.expand_dims, axis=-1))
    if not isinstance(table, Weight):
        raise DTypeError(
            f"{name} gave {type(table).__name__}, expected a Weight; states.from_logs(xp, logs) makes one, and so does "
            "Weight.of(numbers)"
        )
    if layer.domain.num_states is None:
        raise GraphError(f"{name} is of states that count from 0, and its domain is {layer.domain}; take finite(C)")
    first = params[next(iter(params))]
    sizes = (_dims(first)[0], layer.num_output_units, layer.domain.num_states)
    in_logs = None if table.in_logs is None else lambda: _held_to(name, True, "FKC", sizes, table.log(xp))
    return replace(table, in_linear=lambda: _held_to(name, True, "FKC", sizes, table.linear), in_logs=in_logs)


def _marginal(xp: Namespace, semiring: Semiring, layer: Any, params: Params) -> Value:
    total = _result("log_total", "F1K", xp, layer, params, partial(xp.expand_dims, axis=1))
    return normalized_total(xp, semiring, layer, params) if total is None else semiring.from_log(xp, total)


def _maximum(xp: Namespace, semiring: Semiring, layer: Any, params: Params) -> Value:
    if "log_maximum" in layer.formulas:
        return semiring.from_log(xp, _result("log_maximum", "F1K", xp, layer, params, partial(xp.expand_dims, axis=1)))
    return _body(xp, semiring, layer, params, xp.expand_dims(_result("mode", "FK", xp, layer, params), axis=1))


def _sample(xp: Namespace, layer: Any, params: Params, units: Array, uniforms: Array) -> Array:
    def chosen(array: Array) -> Array:
        return xp.expand_dims(xp.take_along_axis(array, units, axis=-1, nonnegative=True), axis=-1)

    return _result("sample", "FB1", xp, layer, params, chosen, uniforms=uniforms)


def _of_each_unit(formula: str, xp: Namespace, layer: Any, params: Params) -> Array:
    return xp.expand_dims(_result(formula, "FK", xp, layer, params), axis=-1)


def _interval(
    formula: str, xp: Namespace, semiring: Semiring, layer: Any, params: Params, low: Array, high: Array
) -> Value:
    share = _result(formula, "FBK", xp, layer, params, partial(xp.expand_dims, axis=1), lower=low, upper=high)
    share = xp.astype(share, params[next(iter(params))].dtype)
    value = semiring.from_log(xp, share) if formula == "log_interval" else semiring.from_linear(xp, share)
    if "log_total" not in layer.formulas:
        return value
    return semiring.product(xp, value, _marginal(xp, semiring, layer, params))


# formula -> the column that it makes, and its rule
_COLUMNS: Mapping[str, tuple[str, Any]] = {
    "log_density": ("body", _body),
    "log_total": ("marginal", _marginal),
    "log_maximum": ("maximum", _maximum),
    "log_interval": ("interval", partial(_interval, "log_interval")),
    "interval": ("interval", partial(_interval, "interval")),
    "sample": ("sample", _sample),
    "mode": ("mode", partial(_of_each_unit, "mode")),
    "expectation": ("mean", partial(_of_each_unit, "expectation")),
    "variance": ("variance", partial(_of_each_unit, "variance")),
}
RESERVED = frozenset({*_OPERANDS, "table", *_COLUMNS, "xp", "self", "row", "scope", "num_output_units"})
"""Names that parameters and settings cannot have; a parameter called `variance` would hide the formula."""


def formulas_of(kind: type[InputLayer]) -> dict[str, Formula]:
    """The formulas of a class that make columns of its row.

    Raises:
        GraphError: A formula that is no static function, or has an argument that names nothing of the class.
    """
    attributes = {name: inspect.getattr_static(kind, name, None) for name in ("table", *_COLUMNS)}
    for name, attribute in attributes.items():
        if not isinstance(attribute, staticmethod | Unsupported | None):
            raise GraphError(
                f"{kind.__name__}.{name} is {attribute!r}, expected a static function; write @staticmethod above it"
            )
    names = [name for name, attribute in attributes.items() if isinstance(attribute, staticmethod)]
    return {name: Formula.of(kind, name) for name in names}


def formula_row(kind: type[InputLayer], formulas: Mapping[str, Formula]) -> InputRow:
    """The row that the formulas of a class make."""
    columns: dict[str, Any] = {"marginal": normalized_total}
    if {"log_density", "mode"} <= formulas.keys():
        columns["maximum"] = _maximum
    for name, (column, rule) in _COLUMNS.items():
        value = inspect.getattr_static(kind, name, None)
        if name in formulas or isinstance(value, Unsupported):
            columns[column] = value if isinstance(value, Unsupported) else rule
    if "table" in formulas:
        return replace(states.input_row(kind, _table), **columns)
    return InputRow(kind, **_NO_FORMULAS | columns)
