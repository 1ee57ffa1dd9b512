"""The base classes of layers: numbers of units, an arity, a config and parameters; and the three kinds of layer.

A custom layer is a `@dataclass(frozen=True, eq=False)` under `InputLayer`, `ProductLayer` or `InnerLayer`, whose
parameters are attributes of the names in `params`, together with a row (see `plica.symbolic.layers.rows`).

    >>> from plica.symbolic.layers import SumLayer
    >>> layer = SumLayer(4, 2, arity=3)
    >>> layer, layer.config, layer.params["weight"].shape
    (SumLayer(arity=3, 4 -> 2), {'num_input_units': 4, 'num_output_units': 2, 'arity': 3}, (2, 12))
"""

import copy
import math
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args, get_type_hints

from plica.arguments import function, integer
from plica.errors import DTypeError, GraphError, InputError, ShapeError
from plica.graph.kinds import Form, NodeKind, constructor_arguments
from plica.symbolic.domains import Domain
from plica.symbolic.dtypes import DataType
from plica.symbolic.parameters import Parameter, ParameterFactory, ParameterLike, Shape, setting_key
from plica.symbolic.scope import Scope

MAX_BITS = 62  # of a number of units


class Layer(NodeKind):
    """A node of a circuit: `num_output_units` functions computed together; compared by identity.

    >>> from plica.symbolic.layers import SumLayer
    >>> layer = SumLayer(4, 2)
    >>> layer.copyref(), layer.copyref().params["weight"]  # which shares the tensor
    (SumLayer(arity=1, 4 -> 2), Parameter((2, 4): ReferenceParameter -> SoftmaxParameter))
    """

    __slots__ = ()

    @classmethod
    def form(cls) -> Form:
        """The settings and parameters by the constructor's names: parameters are those annotated as such."""
        arguments = constructor_arguments(cls)
        if arguments is None:
            return Form(None, None, *cls.input_range)
        config, graphs = set(), set()
        for name, annotation in arguments.items():
            unknown = isinstance(annotation, str)  # of names that only a type checker reads
            if unknown or _takes(annotation, Parameter):
                graphs.add(name)
            if unknown or not (_takes(annotation, Parameter) or _takes(annotation, ParameterFactory)):
                config.add(name)
        return Form(frozenset(config), frozenset(graphs), *cls.input_range)

    if TYPE_CHECKING:  # only for type checkers: at run time a dataclass would take a property for a field's default

        @property
        def num_input_units(self) -> int:
            """The number of units of each input; for an input layer, its number of variables."""

        @property
        def num_output_units(self) -> int:
            """The number of units."""

        @property
        def arity(self) -> int:
            """The number of inputs."""

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The settings other than parameters: `type(layer)(**layer.config, **layer.params)` is an equal layer."""

    @property
    @abstractmethod
    def params(self) -> dict[str, Parameter]:
        """The parameters, by the names of the constructor and of the attributes."""

    @property
    def input_widths(self) -> tuple[int, ...]:
        """The number of units of each input: most often one number for all."""
        return (self.num_input_units,) * self.arity

    @property
    def evaluated_params(self) -> dict[str, Parameter]:
        """The parameters that the rules of the layer's row read; most often `params`."""
        return self.params

    @property
    def sub_layers(self) -> dict[str, "Layer"]:
        """The layers that it holds, and whose values its row reads.

        By the names of the constructor and of the attributes: `"part"`, or `"parts.0"` for the first layer of a tuple.
        They are no nodes of the circuit: their parameters are the layer's, and they fold as it does.
        """
        return {}

    @property
    def opaque(self) -> dict[str, Any]:
        """Objects of a backend that the row calls, `params.call(name, method, ...)`, by the names of attributes."""
        return {}

    @property
    def padded(self) -> dict[str, str]:
        """The parameters that the row pads along their last axis, each with the setting that gives its length.

        Layers fold even if they differ in these lengths and settings.
        """
        return {}

    @property
    def all_params(self) -> dict[str, Parameter]:
        """The parameters, and those of sub-layers under names such as `"part.weight"`."""
        if not self.sub_layers:  # a fast path for most layers
            return self.params
        return {
            start + name: parameter for start, layer in held_layers(self) for name, parameter in layer.params.items()
        }

    @property
    def all_evaluated_params(self) -> dict[str, Parameter]:
        """The parameters that the rows of the layer and of its sub-layers read, under the names of `all_params`."""
        if not self.sub_layers:
            return self.evaluated_params
        return {
            start + name: parameter
            for start, layer in held_layers(self)
            for name, parameter in layer.evaluated_params.items()
        }

    @abstractmethod
    def fold_settings(self) -> Hashable:
        """A key that is equal for layers that may be computed as one; types and sub-layers are compared too."""

    def with_params(self, params: Mapping[str, Parameter]) -> Self:
        """A new layer of the same settings with other parameters of the same shapes, by the names of `all_params`.

        Raises:
            ShapeError: Other names or shapes than those of `all_params`.
        """
        expected = {name: parameter.shapes for name, parameter in self.all_params.items()}
        shapes = {name: parameter.shapes for name, parameter in params.items()}
        if expected != shapes:
            raise ShapeError(f"{self}.with_params: expected parameters of shapes {expected}, found {shapes}")
        other = copy.copy(self)
        for name in self.params:
            object.__setattr__(other, name, params[name])
        for name, layer in self.sub_layers.items():
            start = f"{name}."
            params_held = {
                key.removeprefix(start): parameter for key, parameter in params.items() if key.startswith(start)
            }
            _replace_sub_layer(other, name, layer.with_params(params_held))
        return other

    def copyref(self) -> Self:
        """A new layer of the same settings that shares the tensors of this one."""
        return self.with_params({name: parameter.ref() for name, parameter in self.all_params.items()})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({layer_details(self)})"


class InputLayer(Layer):
    """A layer that reads variables."""

    __slots__ = ()
    input_range: ClassVar[tuple[int, int | None]] = (0, 0)
    has_conjugate: ClassVar[bool] = False
    """Whether conjugates of the parameters give the conjugates of the units, as in sums and products of parameters."""

    if TYPE_CHECKING:  # declared only for type checkers, as in `Layer`

        @property
        def scope(self) -> Scope:
            """The variables that it reads."""

        @property
        def domain(self) -> Domain:
            """The values that each variable takes; if several layers read a variable, those in all their domains."""

    @property
    def num_variables(self) -> int:
        """The number of variables."""
        return len(self.scope)

    @property
    def num_input_units(self) -> int:
        """The number of variables."""
        return len(self.scope)

    @property
    def arity(self) -> int:
        """No other layer is read."""
        return 0

    @property
    def num_uniforms(self) -> int:
        """How many uniform numbers a sample takes: most often one for each variable."""
        return self.num_variables

    @property
    def unsummed(self) -> str | None:
        """Why its variables cannot be summed out; None if they can."""
        return None

    def fold_settings(self) -> Hashable:
        """Type, config without the scope, number of variables and shapes of parameters."""
        return (type(self), self.num_variables, *settings_key(self))


class InnerLayer(Layer):
    """A layer that reads other layers."""

    __slots__ = ()
    input_range: ClassVar[tuple[int, int | None]] = (1, None)

    def fold_settings(self) -> Hashable:
        """Type, config and shapes of parameters."""
        return (type(self), *settings_key(self))


class ProductLayer(InnerLayer):
    """A layer whose units multiply units of its inputs, one of each."""

    __slots__ = ()

    @property
    def params(self) -> dict[str, Parameter]:
        """A product has no parameters."""
        return {}


class FusedLayer(InnerLayer):
    """A layer by which the optimizer replaces a sum layer, or a sum layer and the product layer that it reads.

    Like a product, it needs inputs without a common variable to be decomposable. It is never sampled from.

    >>> from plica.symbolic.layers import LAYER_ROWS
    >>> sorted(layer.__name__ for layer in LAYER_ROWS if issubclass(layer, FusedLayer))
    ['CPTLayer', 'SparseSumLayer', 'TensorDotLayer', 'TuckerLayer']
    """

    __slots__ = ()


class FieldsLayer(Layer):
    """A layer that is a dataclass: its fields are its settings and, where they are annotated so, its parameters."""

    __slots__ = ()

    @property
    def config(self) -> dict[str, Any]:
        """The fields that are no parameters."""
        return {name: getattr(self, name) for name in _fields(type(self))[0]}

    @property
    def params(self) -> dict[str, Parameter]:
        """The fields that are parameters and not None."""
        params = {}
        for name in _fields(type(self))[1]:
            if (value := getattr(self, name)) is not None:
                params[name] = value
        return params


@cache
def _fields(kind: type) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the fields of a class: settings, and parameters."""
    hints, names = get_type_hints(kind), [field.name for field in fields(kind)]
    parameters = tuple(name for name in names if _takes(hints[name], Parameter))
    return tuple(name for name in names if name not in parameters), parameters


def _takes(annotation: Any, kind: Any) -> bool:
    """Whether an annotation is a type, or a union that contains it."""
    return annotation == kind or kind in get_args(annotation)


def layer_details(layer: Layer) -> str:
    """The details of a layer in messages: `scope={3}, 16` or `arity=2, 16 -> 16`."""
    if isinstance(layer, InputLayer):
        return f"scope={layer.scope!s}, {layer.num_output_units}"
    widths = " and ".join(map(str, dict.fromkeys(layer.input_widths)))
    return f"arity={layer.arity}, {widths} -> {layer.num_output_units}"


def settings_key(layer: Layer) -> tuple[Hashable, Hashable]:
    """Config, shapes and kinds of the evaluated parameters, without the scope and padded lengths."""
    padded = layer.padded
    left_out = ("scope", *padded.values(), *(name.partition(".")[0] for name in layer.sub_layers))
    config = tuple((name, setting_key(value)) for name, value in layer.config.items() if name not in left_out)
    params = layer.evaluated_params
    are_complex = [parameter.dtype == DataType.COMPLEX for parameter in params.values()]
    sizes = tuple(
        (name, parameter.shape[:-1] if name in padded else parameter.shapes) for name, parameter in params.items()
    )
    return config, (sizes, tuple(are_complex)) if any(are_complex) else sizes


def held_layers(layer: Layer, start: str = "") -> Iterator[tuple[str, Layer]]:
    """A layer and all its sub-layers, each with the prefix of its parameters' names in `all_params`."""
    yield start, layer
    for name, sub_layer in layer.sub_layers.items():
        yield from held_layers(sub_layer, f"{start}{name}.")


def check_layer(layer: Layer) -> None:
    """Raise unless `layer` is a layer, compared by identity, and its sub-layers are layers among its attributes."""
    if not isinstance(layer, InputLayer | InnerLayer):
        raise DTypeError(
            f"Circuit: expected layers, found {layer!r}; a layer of your own subclasses InputLayer, InnerLayer or "
            "ProductLayer"
        )
    if type(layer).__eq__ is not object.__eq__:
        raise DTypeError(
            f"Circuit: layers must be compared by identity, but {type(layer).__name__} defines equality; "
            "declare it with @dataclass(frozen=True, eq=False)"
        )
    for name, sub_layer in layer.sub_layers.items():
        check_layer(sub_layer)
        attribute, _, index = name.partition(".")
        attribute_value = getattr(layer, attribute, None)
        if index:
            attribute_value = (
                dict(enumerate(attribute_value)).get(int(index))
                if isinstance(attribute_value, tuple) and index.isdecimal()
                else None
            )
        if attribute_value is not sub_layer:
            raise GraphError(
                f"Circuit: {layer} says that it holds the sub-layer {name!r}, which is not its attribute of that name; "
                "name sub-layers by attributes, and those of a tuple by its places: 'parts.0', 'parts.1'"
            )


def _replace_sub_layer(layer: Layer, name: str, new: Layer) -> None:
    """Set the attribute that holds a sub-layer: `name`, or one entry of a tuple."""
    attribute, _, index = name.partition(".")
    before = getattr(layer, attribute)
    value = (*before[: int(index)], new, *before[int(index) + 1 :]) if index else new
    object.__setattr__(layer, attribute, value)


def positive(owner: str, name: str, value: int) -> int:
    """`value` as an integer of at least 1."""
    return integer(owner, name, value, least=1)


def check_power(owner: str, units: int, arity: int) -> None:
    """Raise if a layer with one unit for each combination of input units would have too many units."""
    if units > 1 and arity * math.log2(units) > MAX_BITS:
        raise ShapeError(
            f"{owner}: one unit for every choice of {units} units from {arity} inputs is more than can be counted; use "
            "fewer inputs or units, or a HadamardLayer"
        )


def input_scope(owner: str, scope: Iterable[int], num_variables: int | None = None) -> Scope:
    """`scope` as a Scope of `num_variables` variables."""
    variables = scope if isinstance(scope, Scope) else Scope(scope)
    if num_variables is not None and len(variables) != num_variables:
        raise ShapeError(
            f"{owner}: expected a scope of {num_variables} variable(s), found {variables!s}; "
            "use one input layer per variable and multiply them with a HadamardLayer"
        )
    return variables


def choose_parameter(
    owner: str,
    name: str,
    shape: Shape,
    parameter_given: ParameterLike | None,
    factory: ParameterFactory | None,
    default: ParameterFactory | None = None,
) -> Parameter:
    """The given parameter, else one of `factory`, or of `default` without a factory; checked to have `shape`."""
    if parameter_given is None:
        chosen = default if factory is None else factory
        parameter_given = function(owner, f"the factory of {name}", chosen)(shape)
    parameter = Parameter.from_input(parameter_given)
    if parameter.shapes != (shape,):
        raise ShapeError(
            f"{owner}: expected {name} of shape {shape}, found {' and '.join(map(str, parameter.shapes))}; "
            "check the numbers of units (and the arity or categories) against the parameter"
        )
    return parameter


def at_most_one(owner: str, **choices: object) -> None:
    """Raise if two settings are given of which only one may be."""
    chosen = [name for name, value in choices.items() if value is not None]
    if len(chosen) > 1:
        raise InputError(f"{owner}: {' and '.join(chosen)} exclude each other; pass one of them")


def assign(layer: Layer, /, **values: object) -> None:
    """Set fields of a frozen layer from its constructor."""
    for name, value in values.items():
        object.__setattr__(layer, name, value)
