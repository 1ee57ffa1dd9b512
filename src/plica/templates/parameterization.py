"""Makes layers and parameters from names, for templates, configuration files and the command line.

>>> factory = parameterization_to_factory(Parameterization(activation="softmax", initialization="uniform"))
>>> factory((4, 3))
Parameter((4, 3): TensorParameter -> SoftmaxParameter)
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar, final

from plica.arguments import elements, flag, keywords, known, shown
from plica.errors import InputError
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import DirichletInitializer, Initializer, NormalInitializer, UniformInitializer
from plica.symbolic.layers import DISTRIBUTIONS, InputLayer
from plica.symbolic.parameters import (
    ClampParameter,
    ConstantParameter,
    Parameter,
    ParameterFactory,
    ParameterOp,
    Shape,
    SigmoidParameter,
    SoftmaxParameter,
    SoftplusParameter,
    TensorParameter,
    mixing_weight_factory,
)
from plica.symbolic.scope import Scope

Row = TypeVar("Row")
Activation: TypeAlias = Callable[[Shape], ParameterOp]
InputFactory: TypeAlias = Callable[[Scope, int], InputLayer]

INITIALIZERS: dict[str, Callable[..., Initializer]] = {
    "uniform": UniformInitializer,
    "normal": NormalInitializer,
    "dirichlet": DirichletInitializer,
}


def _positive_clamp(shape: Shape, *, vmin: float = 1e-5, vmax: float | None = None) -> ClampParameter:
    return ClampParameter(shape, vmin=vmin, vmax=vmax)


ACTIVATIONS: dict[str, Callable[..., ParameterOp] | None] = {
    "none": None,
    "softmax": SoftmaxParameter,
    "sigmoid": SigmoidParameter,
    "softplus": SoftplusParameter,
    "positive-clamp": _positive_clamp,
}

DTYPES: dict[str, DataType] = {"integer": DataType.INTEGER, "real": DataType.REAL, "complex": DataType.COMPLEX}


@final
@dataclass(frozen=True, slots=True)
class Parameterization:
    """A recipe for parameters of any shape: how a leaf starts, and the operation that is applied to it.

    Args:
        initialization: uniform, normal or dirichlet.
        activation: none, softmax, sigmoid, softplus or positive-clamp.
        dtype: integer, real or complex.
        initialization_kwargs: Settings of the initializer, such as `{"stddev": 0.1}`.
        activation_kwargs: Settings of the activation, such as `{"axis": 0}`.

    Raises:
        InputError: A name is not known.
    """

    initialization: str = "normal"
    activation: str = "none"
    dtype: str = "real"
    initialization_kwargs: Mapping[str, Any] = field(default_factory=dict)
    activation_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("initialization_kwargs", "activation_kwargs"):
            keywords("Parameterization", name, getattr(self, name))
        name_to_initializer(self.initialization, **self.initialization_kwargs)
        name_to_parameter_activation(self.activation, **self.activation_kwargs)
        name_to_dtype(self.dtype)


def parameterization_to_factory(parameterization: Parameterization) -> ParameterFactory:
    """The function from a shape to a new parameter of that kind."""
    if not isinstance(parameterization, Parameterization):
        raise InputError(
            f"expected a Parameterization, such as Parameterization(activation='softmax'), found {parameterization!r}"
        )
    initializer = name_to_initializer(parameterization.initialization, **parameterization.initialization_kwargs)
    activation = name_to_parameter_activation(parameterization.activation, **parameterization.activation_kwargs)
    dtype = name_to_dtype(parameterization.dtype)

    def factory(shape: Shape) -> Parameter:
        leaf = TensorParameter(
            *elements("a parameter factory", "shape", shape),
            initializer=initializer,
            learnable=dtype != DataType.INTEGER,
            dtype=dtype,
        )
        return Parameter.from_input(leaf) if activation is None else Parameter.from_unary(activation(shape), leaf)

    return factory


def named_parameterizations_to_factories(
    parameterizations: Mapping[str, Parameterization],
) -> dict[str, ParameterFactory]:
    """The factories under the keywords of a layer's constructor: "logits" gives "logits_factory"."""
    described = keywords("named_parameterizations_to_factories", "parameterizations", parameterizations)
    return {f"{name}_factory": parameterization_to_factory(value) for name, value in described.items()}


def sum_weight_factories(
    weight: Parameterization | None, *, use_mixing_weights: bool
) -> tuple[ParameterFactory, ParameterFactory]:
    """The weight factories of sums over units (softmax of normal draws by default) and of sums over partitions."""
    factory = parameterization_to_factory(Parameterization(activation="softmax") if weight is None else weight)
    mixing = flag("the sums over partitions", "use_mixing_weights", use_mixing_weights)
    return factory, partial(mixing_weight_factory, param_factory=factory) if mixing else factory


def ones(shape: Shape) -> ConstantParameter:
    """A constant parameter of ones, for sums whose terms are only added."""
    return ConstantParameter(*shape, value=1.0)


def name_to_initializer(name: str, **settings: Any) -> Initializer:
    """The initializer of that name, with its settings."""
    initializer = _looked_up("initialization", name, INITIALIZERS)
    _check_settings("initialization", name, initializer, settings)
    return initializer(**settings)


def name_to_parameter_activation(name: str, **settings: Any) -> Activation | None:
    """The function from a shape to the operation of that name; None for "none"."""
    operation = _looked_up("activation", name, ACTIVATIONS)
    if operation is None:
        if settings:
            raise InputError(f"activation 'none' takes no settings, found {_listed(settings)}; choose an activation")
        return None
    _check_settings("activation", name, operation, settings, (1,))
    return partial(operation, **settings)


def name_to_dtype(name: str) -> DataType:
    """The data type of that name."""
    return _looked_up("dtype", name, DTYPES)


def name_to_input_layer_factory(name: str, **settings: Any) -> InputFactory:
    """The function from a scope and a number of units to an input layer of that name.

    Args:
        name: One of `plica.symbolic.layers.DISTRIBUTIONS`, such as categorical.
        settings: Keywords of the layer's constructor, such as `num_categories` or `logits_factory`.
    """
    layer = _looked_up("input layer", name, DISTRIBUTIONS).layer
    _check_settings("input layer", name, layer, settings, Scope([0]), 1)
    return partial(layer, **settings)


def _looked_up(role: str, name: str, table: Mapping[str, Row]) -> Row:
    if not known(name, table):
        raise InputError(f"unknown {role} {shown(name)}; expected one of {_listed(table)}{_advice_on_classes(name)}")
    return table[name]


def _advice_on_classes(name: Any) -> str:
    """How to use a layer class, which a template does not take by its name."""
    if not isinstance(name, type):
        return ""
    return f"; a class goes into a region graph: QuadTree(shape).build_circuit(input_factory={name.__name__}, ...)"


def _check_settings(
    role: str, name: str, constructor: Callable[..., object], settings: Mapping[str, Any], *args: Any
) -> None:
    """Raise for wrong settings here, not in the middle of a circuit; `args` stand for the circuit's own arguments."""
    try:
        inspect.signature(constructor).bind(*args, **settings)
    except TypeError as error:
        raise InputError(
            f"{role} {name!r} does not take the settings {_listed(settings)}: {error}{_advice_on_settings(error)}"
        ) from error


def _advice_on_settings(error: TypeError) -> str:
    """How to pass a missing setting, such as the number of categories."""
    missing = str(error).partition("missing a required argument: ")[2]
    return (
        f"; templates take it as input_layer_kwargs={{{missing}: ...}}, region graphs by a partial" if missing else ""
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "(none)"
