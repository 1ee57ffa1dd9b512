"""Distributions of one variable as they are declared: parameters, a domain, and formulas; the rest follows.

    class RayleighLayer(UnivariateLayer, name="rayleigh"):
        '''Densities x / scale^2 exp(-x^2 / (2 scale^2)) of one real variable of at least 0.'''

        scale: Parameter = unit_parameter(positive_normal, "positive scales; by default above 1e-5")
        domain = NONNEGATIVE_REALS

        @staticmethod
        def log_density(xp, x, scale, log_scale):
            return xp.log(x) - 2.0 * log_scale - 0.5 * xp.square(x / scale)

The constructor, its documentation, `config`, `params` and the row `RayleighLayer.row` follow from such a class.

A formula is a static function whose arguments are found by name, when the class is created:

* `xp` is the array namespace. `loc` is the parameter of that name, None where the layer lacks it; `log_loc` are its
  logarithms, right where it underflows. A setting is the layer's. `params` are all parameters, `(F, K)`.
* The name of another static function is its result: `width` in a sampler, where the class has `width(xp, low, high)`.
* `x`, `lower`, `upper`, `uniforms` are operands. `x` comes in the dtype of the parameters, the ends as they are given.

Formulas and what they return, from parameters of the shape:

    log_density(x)        (F, 1, K)  -> (F, B, K) logarithms, or a Weight where ordinary numbers have other derivatives
    table                 (F, K, 1)  -> Weight (F, K, C), in place of the density of finitely many states
    log_maximum           (F, 1, K)  -> (F, 1, K); the density at the mode where it is left out
    log_total             (F, 1, K)  -> (F, 1, K), what units integrate to; None where that is 1
    log_interval(lower, upper), interval(lower, upper)  (F, 1, K) -> (F, B, K) shares of the total: logarithms, numbers
    sample(uniforms)      (F, B, 1) of the chosen units -> (F, B, 1)
    mode, expectation, variance  (F, K) -> (F, K)

`fitted(column)` and `settings(num_values)` are those of a `Distribution`, `defaults` gives factories from settings by
their keywords, `check(layer)` refuses a layer that was built. A formula may be an `unsupported("why")`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import FrozenInstanceError, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, TypeAlias

from numpy.typing import ArrayLike

from plica.errors import GraphError
from plica.ir.op import Unsupported, unsupported
from plica.symbolic.initializers import reals_of
from plica.symbolic.layers import states
from plica.symbolic.layers.base import (
    InputLayer,
    assign,
    at_most_one,
    choose_parameter,
    fields_of,
    input_scope,
    positive,
)
from plica.symbolic.layers.distribution import Distribution
from plica.symbolic.layers.rows import InputRow, normalized_total
from plica.symbolic.parameters import (
    Array,
    ConstantParameter,
    Namespace,
    Parameter,
    ParameterFactory,
    ParameterInput,
    ParameterLike,
    Shape,
)
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value, Weight

Source: TypeAlias = Callable[[Namespace, Any, Params], Any]
# (F, K) -> the shape that a formula reads
Place: TypeAlias = Callable[[Array], Array]

_OPERANDS = ("x", "lower", "upper", "uniforms")
_NO_SAMPLE = unsupported("its class has no 'sample'; give it a static function (xp, uniforms, <parameters>)")


@dataclass(frozen=True, slots=True)
class UnitParameter:
    """A declared parameter: one number for each unit."""

    about: str
    start: ParameterFactory | None
    instead_of: str | None
    numbers: bool

    def arguments(self, name: str) -> tuple[str, ...]:
        """The arguments of a constructor that give it."""
        return (name,) if self.start is None else (name, f"{name}_factory")


@dataclass(frozen=True, slots=True)
class Setting:
    """A declared setting: a positive integer."""

    about: str
    default: Any


def unit_parameter(
    start: ParameterFactory | None, about: str, *, instead_of: str | None = None, numbers: bool = False
) -> Any:
    """Declare a parameter `(K,)`, an argument of the constructor as `<name>` and as `<name>_factory`.

    Args:
        start: Makes it where neither is given. Without it, the layer has the parameter only where it is given.
        about: Its documentation: "positive rates; by default the softplus of normal draws".
        instead_of: The parameter that a layer has where it lacks this one.
        numbers: Whether numbers may be given, which are not learned.
    """
    return UnitParameter(about, start, instead_of, numbers)


def setting(about: str, default: int | None = None) -> Any:
    """Declare a positive integer that the constructor takes by name; without a default it must be given."""
    return Setting(about, inspect.Parameter.empty if default is None else default)


def constant_numbers(owner: str, value: ArrayLike, shape: Shape) -> Parameter:
    """Numbers that are not learned: one for all units, or one for each."""
    array = reals_of(owner, value)
    return Parameter.from_input(ConstantParameter(*(array.shape or shape), value=array))


@dataclass(frozen=True, slots=True)
class Formula:
    """A static function of a distribution's class, with what its arguments are.

    Args:
        function: The function.
        of_units: How the arrays `(F, K)` among its arguments are computed.
        others: What its other arguments are, but for operands.
        operands: The operands that it takes.
    """

    function: Callable[..., Any]
    of_units: Mapping[str, Source] = field(default_factory=dict)
    others: Mapping[str, Source] = field(default_factory=dict)
    operands: tuple[str, ...] = ()

    @staticmethod
    def of(kind: type[UnivariateLayer], name: str) -> Formula:
        """The formula of a name.

        Raises:
            GraphError: An argument that names nothing of the class.
        """
        function: Callable[..., Any] = getattr(kind, name)
        of_units: dict[str, Source] = {}
        others: dict[str, Source] = {}
        operands = []
        for argument in inspect.signature(function).parameters:
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
                of_units[argument] = Formula.of(kind, argument)
            else:
                raise GraphError(
                    f"{kind.__name__}.{name} takes {argument!r}, which is none of its parameters "
                    f"({', '.join(kind.parameter_names)}) or their logarithms ('log_<name>'), settings, operands "
                    f"({', '.join(_OPERANDS)}) or static functions; rename the argument, or declare it"
                )
        return Formula(function, of_units, others, tuple(operands))

    def __call__(
        self, xp: Namespace, layer: Any, params: Params, place: Place = lambda array: array, **operands: Array
    ) -> Any:
        """The result for a layer; arrays of units come in the shape that `place` gives them."""
        arrays = {name: source(xp, layer, params) for name, source in self.of_units.items()}
        arrays = {name: None if array is None else place(array) for name, array in arrays.items()}
        given = {name: source(xp, layer, params) for name, source in self.others.items()}
        given |= {name: operands[name] for name in self.operands}
        if "x" in given:
            like = next((array for array in arrays.values() if array is not None), given["x"])
            given["x"] = xp.astype(given["x"], like.dtype)
        return self.function(**arrays, **given)


def _parameter(name: str, xp: Namespace, layer: Any, params: Params) -> Array | None:  # noqa: ARG001
    return params[name] if name in tuple(params) else None  # `name in params` would compute it


def _logarithms(name: str, xp: Namespace, layer: Any, params: Params) -> Array:  # noqa: ARG001
    return params.log(xp, name)


def _setting(name: str, xp: Namespace, layer: Any, params: Params) -> Any:  # noqa: ARG001
    return getattr(layer, name)


# The arguments that every formula may take.
_WHOLE: Mapping[str, Source] = {"xp": lambda xp, _, __: xp, "params": lambda _, __, params: params}


class UnivariateLayer(InputLayer):
    """An input layer of one variable that is declared: see the head of this module."""

    parameter_names: ClassVar[tuple[str, ...]] = ()
    setting_names: ClassVar[tuple[str, ...]] = ()
    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = ()
    formulas: ClassVar[Mapping[str, Formula]] = {}
    increasing: ClassVar[tuple[str, ...]] = ()
    row: ClassVar[InputRow]
    scope: Scope
    num_output_units: int

    def __init_subclass__(cls, name: str | None = None) -> None:
        """Read the declarations of a class.

        Args:
            name: How templates and the command line call the distribution, if they do.

        Raises:
            GraphError: No domain, or a formula with an argument that names nothing of the class.
        """
        super().__init_subclass__()
        declared: dict[str, Any] = {}  # of the class first, in order
        for kind in cls.__mro__:
            declared = declared | {key: value for key, value in vars(kind).items() if key not in declared}
        parameters = {key: value for key, value in declared.items() if isinstance(value, UnitParameter)}
        cls.parameter_names = tuple(parameters)
        cls.setting_names = tuple(key for key, value in declared.items() if isinstance(value, Setting))
        groups: dict[str, list[str]] = {}
        for key, parameter in parameters.items():
            groups.setdefault(parameter.instead_of or key, []).append(key)
        cls.alternatives = tuple(map(tuple, groups.values()))
        if "log_density" not in declared and "table" not in declared:  # what several distributions share
            return
        if "domain" not in declared:
            raise GraphError(f"{cls.__name__} has no domain; give it one, such as domain = REALS")
        formulas = [key for key in _COLUMNS if isinstance(declared.get(key), staticmethod)]
        cls.formulas = {key: Formula.of(cls, key) for key in formulas}
        cls.row = _row(cls, declared, name)
        cls.__init__ = _constructor(cls)  # type: ignore[method-assign]
        cls.__doc__ = _documentation(cls)

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        **given: ParameterLike | ParameterFactory | ArrayLike | None,
    ) -> None:
        kind, owner = type(self), type(self).__name__
        settings = {name: given.pop(name, getattr(kind, name).default) for name in kind.setting_names}
        choices = [
            {argument: given.pop(argument, None) for argument in _arguments(kind, names)} for names in kind.alternatives
        ]
        if given:
            raise TypeError(f"{owner}.__init__() got an unexpected keyword argument {next(iter(given))!r}")
        for name, value in settings.items():
            if value is inspect.Parameter.empty:
                raise TypeError(f"{owner}.__init__() missing 1 required keyword-only argument: {name!r}")
        for choice in choices:
            at_most_one(owner, **choice)
        units = positive(owner, "num_output_units", num_output_units)
        assign(self, scope=input_scope(owner, scope, 1), num_output_units=units)
        assign(self, **{name: positive(owner, name, value) for name, value in settings.items()})
        defaults = kind.defaults(**fields_of(self, *settings)) if hasattr(kind, "defaults") else {}
        for names, choice in zip(kind.alternatives, choices, strict=True):
            chosen = next((argument for argument, value in choice.items() if value is not None), names[0])
            for name in names:
                is_chosen = chosen in getattr(kind, name).arguments(name)
                assign(self, **{name: _made(kind, name, units, choice, defaults) if is_chosen else None})
        if hasattr(kind, "check"):
            kind.check(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    @property
    def config(self) -> dict[str, Any]:
        """The settings beside parameters."""
        return fields_of(self, "scope", "num_output_units", *self.setting_names)

    @property
    def params(self) -> dict[str, Parameter]:
        """The parameters `(K,)` that the layer has, by name."""
        return {name: value for name, value in fields_of(self, *self.parameter_names).items() if value is not None}


# The constructor of a class.


def _arguments(kind: type[UnivariateLayer], names: Iterable[str]) -> list[str]:
    """The arguments that give some parameters: the parameters, then the factories."""
    arguments = [getattr(kind, name).arguments(name) for name in names]
    return [ways[place] for place in (0, 1) for ways in arguments if place < len(ways)]


def _made(
    kind: type[UnivariateLayer], name: str, units: int, choice: Mapping[str, Any], defaults: Mapping[str, Any]
) -> Parameter | None:
    """A parameter from what was given, if anything, else as it is by default."""
    declared, factory = getattr(kind, name), f"{name}_factory"
    given, start = choice[name], defaults.get(factory, declared.start)
    if declared.numbers and given is not None and not isinstance(given, Parameter | ParameterInput):
        given = constant_numbers(kind.__name__, given, (units,))
    if given is None and start is None:
        return None
    return choose_parameter(kind.__name__, name, (units,), given, choice.get(factory), start)


def _constructor(kind: type[UnivariateLayer]) -> Callable[..., None]:
    """The constructor, whose signature names what the class declares."""

    def construct(self: Any, scope: Any, num_output_units: Any, **given: Any) -> None:
        UnivariateLayer.__init__(self, scope, num_output_units, **given)

    either, named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("self", either)]
    parameters += [inspect.Parameter("scope", either, annotation=Iterable[int])]
    parameters += [inspect.Parameter("num_output_units", either, annotation=int)]
    parameters += [
        inspect.Parameter(name, named, default=getattr(kind, name).default, annotation=int)
        for name in kind.setting_names
    ]
    for argument in _arguments(kind, kind.parameter_names):
        is_factory = argument not in kind.parameter_names
        annotation: Any = ParameterFactory if is_factory else ParameterLike
        if not is_factory and getattr(kind, argument).numbers:
            annotation = ParameterLike | ArrayLike
        parameters.append(inspect.Parameter(argument, named, default=None, annotation=annotation | None))
    signature = inspect.Signature(parameters, return_annotation=None)
    construct.__signature__ = signature  # type: ignore[attr-defined]
    construct.__annotations__ = {one.name: one.annotation for one in parameters[1:]} | {"return": None}
    construct.__name__, construct.__qualname__ = "__init__", f"{kind.__qualname__}.__init__"
    construct.__module__ = kind.__module__
    return construct


def _documentation(kind: type[UnivariateLayer]) -> str:
    """The docstring of a class, with what its constructor takes."""
    lines = ["scope: The variable.", "num_output_units: K, the number of distributions."]
    lines += [f"{name}: {getattr(kind, name).about}." for name in kind.setting_names]
    lines += [
        f"{name}: `(K,)` {getattr(kind, name).about}."
        if name in kind.parameter_names
        else f"{name}: Makes `{name.removesuffix('_factory')}` from its shape."
        for name in _arguments(kind, kind.parameter_names)
    ]
    errors = [
        "ShapeError: More than one variable, a parameter of another shape.",
        "InputError: Two ways to give one parameter.",
    ]
    return "\n    ".join([f"{inspect.cleandoc(kind.__doc__ or '')}\n\nArgs:", *lines]) + "\n    ".join(
        ["\n\nRaises:", *errors]
    )


# The columns of a row.


def _body(xp: Namespace, semiring: Semiring, layer: Any, params: Params, x: Array) -> Value:
    value = layer.formulas["log_density"](xp, layer, params, partial(xp.expand_dims, axis=1), x=x)
    return semiring.from_weight(xp, value) if isinstance(value, Weight) else semiring.from_log(xp, value)


def _table(xp: Namespace, layer: Any, params: Params) -> Weight:
    table: Weight = layer.formulas["table"](xp, layer, params, partial(xp.expand_dims, axis=-1))
    return table


def _marginal(xp: Namespace, semiring: Semiring, layer: Any, params: Params) -> Value:
    total = layer.formulas["log_total"](xp, layer, params, partial(xp.expand_dims, axis=1))
    return normalized_total(xp, semiring, layer, params) if total is None else semiring.from_log(xp, total)


def _maximum(xp: Namespace, semiring: Semiring, layer: Any, params: Params) -> Value:
    if "log_maximum" in layer.formulas:
        return semiring.from_log(xp, layer.formulas["log_maximum"](xp, layer, params, partial(xp.expand_dims, axis=1)))
    return _body(xp, semiring, layer, params, xp.expand_dims(layer.formulas["mode"](xp, layer, params), axis=1))


def _sample(xp: Namespace, layer: Any, params: Params, units: Array, uniforms: Array) -> Array:
    def chosen(array: Array) -> Array:
        return xp.expand_dims(xp.take_along_axis(array, units, axis=-1, nonnegative=True), axis=-1)

    return layer.formulas["sample"](xp, layer, params, chosen, uniforms=uniforms)


def _of_each_unit(formula: str, xp: Namespace, layer: Any, params: Params) -> Array:
    return xp.expand_dims(layer.formulas[formula](xp, layer, params), axis=-1)


def _interval(
    formula: str, xp: Namespace, semiring: Semiring, layer: Any, params: Params, low: Array, high: Array
) -> Value:
    share = layer.formulas[formula](xp, layer, params, partial(xp.expand_dims, axis=1), lower=low, upper=high)
    share = xp.astype(share, params[next(iter(params))].dtype)
    value = semiring.from_log(xp, share) if formula == "log_interval" else semiring.from_linear(xp, share)
    if "log_total" not in layer.formulas:
        return value
    return semiring.product(xp, value, _marginal(xp, semiring, layer, params))


# formula -> the column that it makes, and its rule
_COLUMNS: Mapping[str, tuple[str, Any]] = {
    "log_density": ("body", _body),
    "table": ("states", None),
    "log_total": ("marginal", _marginal),
    "log_maximum": ("maximum", _maximum),
    "log_interval": ("interval", partial(_interval, "log_interval")),
    "interval": ("interval", partial(_interval, "interval")),
    "sample": ("sample", _sample),
    "mode": ("mode", partial(_of_each_unit, "mode")),
    "expectation": ("mean", partial(_of_each_unit, "expectation")),
    "variance": ("variance", partial(_of_each_unit, "variance")),
}


def _row(kind: type[UnivariateLayer], declared: Mapping[str, Any], name: str | None) -> InputRow:
    """The row of a class: the columns that its formulas make."""
    columns = {
        column: declared[formula] if isinstance(declared.get(formula), Unsupported) else rule
        for formula, (column, rule) in _COLUMNS.items()
        if rule is not None and (formula in kind.formulas or isinstance(declared.get(formula), Unsupported))
    }
    if "body" in columns and "mode" in kind.formulas:
        columns.setdefault("maximum", _maximum)
    distribution = name and Distribution(
        name,
        kind,
        tuple(key for key in kind.parameter_names if declared[key].start is not None),
        getattr(kind, "settings", None),
        getattr(kind, "fitted", None),
    )
    row = (
        states.input_row(kind, _table)
        if "table" in kind.formulas
        else InputRow(kind, body=_body, marginal=normalized_total, sample=_NO_SAMPLE)
    )
    columns.setdefault("marginal", normalized_total)
    return replace(row, **columns, increasing=kind.increasing, distribution=distribution or None)
