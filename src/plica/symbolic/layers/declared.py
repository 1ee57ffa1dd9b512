"""Distributions of one variable, declared by parameters, a domain and formulas; the rest follows.

    class RayleighLayer(UnivariateLayer, name="rayleigh"):
        '''Densities x / scale^2 exp(-x^2 / (2 scale^2)) of one real variable of at least 0.'''

        scale: Parameter = unit_parameter(positive_normal, "positive scales; by default above 1e-5")
        domain = NONNEGATIVE_REALS

        @staticmethod
        def log_density(xp, x, scale, log_scale):
            return xp.log(x) - 2.0 * log_scale - 0.5 * xp.square(x / scale)

The constructor, its documentation, `config`, `params` and the row `RayleighLayer.row` follow from such a class.
`formulas.py` lists the formulas and their arguments. A class may also have these static functions:

    settings(num_values), fitted(column)  as of a `Distribution`
    defaults(<settings>)  factories by their keywords, where the defaults of parameters follow from settings
    check(layer)          raises if the given parameters do not fit each other
    closed_form           a `ClosedForm`, where expectation maximization has one
    product(xp, first, second)  where a product of two densities of the class is one, but for a constant: its
                          parameters by name, from those of the two, `(F, K1, 1)` and `(F, 1, K2)`

>>> from plica.symbolic.layers import GammaLayer
>>> GammaLayer.parameter_names, GammaLayer.row.distribution.name
(('concentration', 'rate'), 'gamma')
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from plica.errors import GraphError, InputError, UnsupportedError
from plica.ir.op import Unsupported
from plica.symbolic.domains import Domain
from plica.symbolic.initializers import reals_of
from plica.symbolic.layers.base import (
    assign,
    at_most_one,
    choose_parameter,
    input_scope,
    positive,
)
from plica.symbolic.layers.closed_form import ClosedForm
from plica.symbolic.layers.distribution import Distribution
from plica.symbolic.layers.formula_parameters import units_at
from plica.symbolic.layers.formulas import RESERVED, Formula, formula_row, formulas_of
from plica.symbolic.layers.rows import InputRow, normalized_total
from plica.symbolic.layers.states import StateTable, TabulatedLayer
from plica.symbolic.parameters import (
    ConstantParameter,
    Parameter,
    ParameterFactory,
    ParameterInput,
    ParameterLike,
    Shape,
)
from plica.symbolic.scope import Scope

_HOOKS = ("settings", "fitted", "defaults", "check", "product", "product_settings", "anchor")


@dataclass(frozen=True, slots=True)
class UnitParameter:
    """A declared parameter: one number for each unit."""

    about: str
    start: ParameterFactory | None
    instead_of: str | None
    numbers: bool


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
        start: Makes the default. Without it, the layer has the parameter only if it is given.
        about: Its documentation: "positive rates; by default the softplus of normal draws".
        instead_of: The parameter that a layer has if this one is not given.
        numbers: Whether the argument may also be numbers; these are not learned.
    """
    return UnitParameter(about, start, instead_of, numbers)


def setting(about: str, default: int | None = None) -> Any:
    """Declare a positive integer that the constructor takes by name; without a default it must be given.

    >>> from plica.symbolic.domains import POSITIVE_REALS
    >>> from plica.symbolic.parameters import normal
    >>> class PowerLayer(UnivariateLayer):
    ...     rate = unit_parameter(normal, "rates; standard normal draws by default")
    ...     power: int = setting("the power of the variable", 2)
    ...     domain = POSITIVE_REALS
    ...     log_density = staticmethod(lambda xp, x, rate, power: power * xp.log(x) - rate * x)
    >>> PowerLayer([0], 4, power=3).config
    {'scope': Scope({0}), 'num_output_units': 4, 'power': 3}
    """
    return Setting(about, inspect.Parameter.empty if default is None else default)


def constant_numbers(owner: str, value: ArrayLike, shape: Shape) -> Parameter:
    """Numbers that are not learned: one for all units, or one for each."""
    array = reals_of(owner, value)
    return Parameter.from_input(ConstantParameter(*(array.shape or shape), value=array))


class UnivariateLayer(TabulatedLayer):
    """An input layer of one variable that is declared: see the head of this module."""

    parameter_names: ClassVar[tuple[str, ...]] = ()
    setting_names: ClassVar[tuple[str, ...]] = ()
    alternatives: ClassVar[tuple[Mapping[str, str], ...]] = ()
    """Groups of arguments of which one may be given, for example `mean` and `mean_factory`, each with its parameter."""
    formulas: ClassVar[Mapping[str, Formula]] = {}
    increasing: ClassVar[tuple[str, ...]] = ()
    closed_form: ClassVar[ClosedForm | Unsupported | None] = None
    row: ClassVar[InputRow]
    scope: Scope
    num_output_units: int

    def __init_subclass__(cls, name: str | None = None) -> None:
        """Read the declarations of a class.

        Args:
            name: The name of the distribution in templates and on the command line, if it has one.

        Raises:
            GraphError: A formula that is no static function, or has an argument that names nothing of the class; a
                name that means something else already; no parameters.
        """
        super().__init_subclass__()
        declared: dict[str, Any] = {}  # of the class first, in order
        for kind in cls.__mro__:
            declared = declared | {key: value for key, value in vars(kind).items() if key not in declared}
        parameters = {key: value for key, value in declared.items() if isinstance(value, UnitParameter)}
        cls.parameter_names = tuple(parameters)
        cls.setting_names = tuple(key for key, value in declared.items() if isinstance(value, Setting))
        _check_names(cls, declared)
        groups: dict[str, list[str]] = {}
        for key, parameter in parameters.items():
            groups.setdefault(parameter.instead_of or key, []).append(key)
        cls.alternatives = tuple(_arguments(cls, names) for names in groups.values())
        cls.formulas = formulas_of(cls)
        if not {"log_density", "table"} & cls.formulas.keys():  # a base class of several distributions
            return
        if not parameters:
            raise GraphError(f"{cls.__name__} has no parameters; declare one by unit_parameter(...)")
        unknown = [key for key in cls.increasing if key not in parameters]
        if unknown:
            raise GraphError(
                f"{cls.__name__}.increasing names {unknown[0]!r}, which is none of its parameters; rename it"
            )
        cls.row = formula_row(cls, cls.formulas)
        if name is not None:
            given = tuple(key for key, parameter in parameters.items() if parameter.start is not None)
            settings, fitted = (getattr(cls, key, None) for key in ("settings", "fitted"))
            cls.row = replace(cls.row, distribution=Distribution(name, cls, given, settings, fitted))
        cls.row = replace(cls.row, increasing=cls.increasing)
        if cls.closed_form is not None:
            cls.row = replace(cls.row, closed_form=cls.closed_form)
        cls.__init__ = _constructor(cls)  # type: ignore[method-assign]
        cls.__doc__ = _documentation(cls)

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        **given: ParameterLike | ParameterFactory | ArrayLike | None,
    ) -> None:
        kind, owner = type(self), type(self).__name__
        units = positive(owner, "num_output_units", num_output_units)
        fields: dict[str, Any] = {"scope": input_scope(owner, scope, 1), "num_output_units": units}
        for name in kind.setting_names:
            value = given.pop(name, getattr(kind, name).default)
            if value is inspect.Parameter.empty:
                raise TypeError(f"{owner}.__init__() missing 1 required keyword-only argument: {name!r}")
            fields[name] = positive(owner, name, value)
        defaults = kind.defaults(*map(fields.get, kind.setting_names)) if hasattr(kind, "defaults") else {}
        for parameter_of in kind.alternatives:
            ways = {argument: given.pop(argument, None) for argument in parameter_of}
            at_most_one(owner, **ways)
            chosen = [parameter_of[argument] for argument, value in ways.items() if value is not None]
            fields |= dict.fromkeys(parameter_of.values())
            name = (chosen or [*parameter_of])[0]
            fields[name] = _parameter(kind, name, units, ways, defaults)
        if given:
            raise TypeError(f"{owner}.__init__() got an unexpected keyword argument {next(iter(given))!r}")
        if all(fields[name] is None for name in kind.parameter_names):
            raise InputError(f"{owner} has no parameters; give one of {', '.join(kind.parameter_names)}")
        assign(self, **fields)
        if hasattr(kind, "check"):
            kind.check(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """The values of the variable; most classes set it to a domain."""

    @property
    def config(self) -> dict[str, Any]:
        """The settings besides parameters."""
        return {name: getattr(self, name) for name in ("scope", "num_output_units", *self.setting_names)}

    @property
    def params(self) -> dict[str, Parameter]:
        """The parameters `(K,)` that the layer has, by name."""
        fields = vars(self)
        return {name: fields[name] for name in self.parameter_names if fields[name] is not None}

    @property
    def normalized(self) -> bool:
        """Whether each unit sums or integrates to 1, whatever its parameters."""
        return type(self).row.marginal is normalized_total

    @property
    def log_masses(self) -> bool:
        """Whether tables hold the logarithms of masses: these do not underflow, but 0 then has no derivative."""
        return True

    def state_table(self, num_states: int) -> StateTable:
        """The masses of states, or their logarithms.

        Raises:
            UnsupportedError: The variable is real, so that the layer has densities and no masses.
        """
        if not self.domain.whole:
            raise UnsupportedError(
                f"{self!r} gives densities, and no masses of {num_states} states; take a layer of states or counts, or "
                "a CategoricalLayer of the numbers that you mean."
            )
        return StateTable(units_at(self, num_states=num_states), log_space=self.log_masses)


def _check_names(kind: type[UnivariateLayer], declared: Iterable[str]) -> None:
    """Refuse names that mean something else already, a GraphError."""
    names = (*kind.parameter_names, *kind.setting_names)
    others = {f"{name}_factory": name for name in kind.parameter_names}
    others |= {f"log_{name}": name for name in kind.parameter_names}
    for key in names:
        if key in RESERVED or key in _HOOKS or hasattr(UnivariateLayer, key):
            raise GraphError(f"{kind.__name__}: no parameter or setting can be called {key!r}; rename it")
    for key in others.keys() & declared:
        raise GraphError(
            f"{kind.__name__}: {key!r} is made of the parameter {others[key]!r} already; rename one of them"
        )
    for key in kind.parameter_names:
        instead_of = getattr(kind, key).instead_of
        if instead_of is not None and instead_of not in kind.parameter_names:
            raise GraphError(
                f"{kind.__name__}.{key} is instead of {instead_of!r}, which is none of its parameters "
                f"({', '.join(kind.parameter_names)}); declare that one, or leave out instead_of"
            )


# The constructor of a class.


def _arguments(kind: type[UnivariateLayer], names: Iterable[str]) -> dict[str, str]:
    """The arguments that give some parameters, each with its parameter: numbers first, then factories."""
    factories = {f"{name}_factory": name for name in names if getattr(kind, name).start is not None}
    return {name: name for name in names} | factories


def _parameter(
    kind: type[UnivariateLayer], name: str, units: int, ways: Mapping[str, Any], defaults: Mapping[str, Any]
) -> Parameter | None:
    """The parameter from the given arguments, or its default."""
    declared, factory = getattr(kind, name), f"{name}_factory"
    given, start = ways[name], defaults.get(factory, declared.start)
    if given is None and start is None:
        return None
    if declared.numbers and given is not None and not isinstance(given, Parameter | ParameterInput):
        given = constant_numbers(kind.__name__, given, (units,))
    return choose_parameter(kind.__name__, name, (units,), given, ways.get(factory), start)


def _constructor(kind: type[UnivariateLayer]) -> Callable[..., None]:
    """The constructor, whose signature names what the class declares."""

    def construct(self: Any, scope: Any, num_output_units: Any, **given: Any) -> None:
        UnivariateLayer.__init__(self, scope, num_output_units, **given)

    annotations = {"scope": "Iterable[int]", "num_output_units": "int"} | dict.fromkeys(kind.setting_names, "int")
    for argument in _arguments(kind, kind.parameter_names):
        is_parameter = argument in kind.parameter_names
        takes = "ParameterLike | None" if is_parameter else "ParameterFactory | None"
        if is_parameter and getattr(kind, argument).numbers:
            takes = "ParameterLike | ArrayLike | None"
        annotations[argument] = takes
    either, named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("self", either)]
    for argument, annotation in annotations.items():
        by_position = argument in ("scope", "num_output_units")
        default = getattr(kind, argument).default if argument in kind.setting_names else None
        parameters.append(
            inspect.Parameter(
                argument,
                either if by_position else named,
                default=inspect.Parameter.empty if by_position else default,
                annotation=annotation,
            )
        )
    construct.__signature__ = inspect.Signature(parameters, return_annotation="None")  # type: ignore[attr-defined]
    construct.__annotations__ = annotations | {"return": "None"}
    construct.__name__, construct.__qualname__ = "__init__", f"{kind.__qualname__}.__init__"
    construct.__module__ = kind.__module__
    return construct


def _documentation(kind: type[UnivariateLayer]) -> str:
    """The docstring of a class, with the arguments of its constructor."""
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
