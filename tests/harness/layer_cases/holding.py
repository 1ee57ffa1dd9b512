"""Layers of a user's own that hold other layers: one around an input layer, and a sum of several sums."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plica.symbolic.domains import Domain
from plica.symbolic.layers import CategoricalLayer, Choice, InnerLayer, InputLayer, InputRow, Layer, SumLayer, SumRow
from plica.symbolic.layers.base import FieldsLayer
from plica.symbolic.parameters import ConstantParameter, Parameter
from plica.symbolic.scope import Scope
from tests.harness.layer_cases import categorical
from tests.harness.layer_cases import sum as sum_
from tests.harness.layer_cases.case import InnerCase, InputCase, Params
from tests.harness.layer_cases.categorical import exp_normal
from tests.harness.layer_cases.numbers import FACTOR, STATES_WRONG, logits, states, weights
from tests.harness.spaces import Space

Array = Any


@dataclass(frozen=True, eq=False)
class WeighedLayer(FieldsLayer, InputLayer):
    """The units of the layer that it holds, each times a number of its own: `scale (K,)`."""

    part: InputLayer
    scale: Parameter

    @property
    def scope(self) -> Scope:
        return self.part.scope

    @property
    def domain(self) -> Domain:
        return self.part.domain

    @property
    def num_output_units(self) -> int:
        return self.part.num_output_units

    @property
    def sub_layers(self) -> dict[str, Layer]:
        return {"part": self.part}


def _scaled(xp: Any, semiring: Any, params: Any, value: Any) -> Any:
    scale = params.weight("scale").map(lambda array: xp.expand_dims(array, axis=1))
    return semiring.product(xp, value, semiring.from_weight(xp, scale))


def _body(xp: Any, semiring: Any, layer: WeighedLayer, params: Any, x: Any) -> Any:  # noqa: ARG001
    part = params.sub_layers["part"]
    return _scaled(xp, semiring, params, part.row.body(xp, semiring, part.layer, part.params, x))


def _marginal(xp: Any, semiring: Any, layer: WeighedLayer, params: Any) -> Any:  # noqa: ARG001
    part = params.sub_layers["part"]
    return _scaled(xp, semiring, params, part.row.marginal(xp, semiring, part.layer, part.params))


def _maximum(xp: Any, semiring: Any, layer: WeighedLayer, params: Any) -> Any:  # noqa: ARG001
    part = params.sub_layers["part"]
    return _scaled(xp, semiring, params, part.row.maximum(xp, semiring, part.layer, part.params))


def _sample(xp: Any, layer: WeighedLayer, params: Any, units: Any, uniforms: Any) -> Any:  # noqa: ARG001
    part = params.sub_layers["part"]
    return part.row.sample(xp, part.layer, part.params, units, uniforms)


def _mode(xp: Any, layer: WeighedLayer, params: Any) -> Any:  # noqa: ARG001
    part = params.sub_layers["part"]
    return part.row.mode(xp, part.layer, part.params)


WEIGHED_ROW = InputRow(WeighedLayer, _body, _marginal, _sample, maximum=_maximum, mode=_mode)


def under(name: str, params: Params) -> Params:
    """The values of the parameters of a sub-layer."""
    return {key.removeprefix(f"{name}."): value for key, value in params.items() if key.startswith(f"{name}.")}


def reference_of(layer: Layer) -> Callable[..., Array]:
    """The reference of a layer that is held, once all cases are known."""
    from tests.harness import layer_cases

    return layer_cases.references(layer_cases.CASES)[type(layer)]


def _reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    value = categorical.reference(space, layer.part, under("part", params), x)
    return space.multiply(value, space.from_linear(params["scale"]))


def weighed(categories: int, scale: Callable[[tuple[int]], Parameter] = exp_normal, **settings: Any) -> Any:
    """A builder of layers around categorical ones."""

    def build(scope: Sequence[int], units: int) -> WeighedLayer:
        part = CategoricalLayer(scope, units, num_categories=categories, **settings)
        return WeighedLayer(part, scale((units,)))

    return build


@dataclass(frozen=True, eq=False)
class BlendLayer(FieldsLayer, InnerLayer):
    """The sum of the sum layers that it holds, which all read its one input."""

    parts: tuple[SumLayer, ...]
    arity = 1

    @property
    def num_input_units(self) -> int:
        return self.parts[0].num_input_units

    @property
    def num_output_units(self) -> int:
        return self.parts[0].num_output_units

    @property
    def sub_layers(self) -> dict[str, Layer]:
        return {f"parts.{place}": part for place, part in enumerate(self.parts)}


def _blend(xp: Any, semiring: Any, layer: BlendLayer, params: Any, inputs: Any) -> Any:  # noqa: ARG001
    parts = params.sub_layers.values()
    return semiring.total(xp, [one.row.body(xp, semiring, one.layer, one.params, inputs) for one in parts])


def _log_weights(xp: Any, layer: BlendLayer, params: Any) -> Any:  # noqa: ARG001
    parts = params.sub_layers.values()
    return xp.concat([one.row.choose.log_weights(xp, one.layer, one.params) for one in parts], axis=-1)


def _reads(layer: BlendLayer) -> Any:
    return np.tile(np.arange(layer.num_input_units), len(layer.parts))[None]


BLEND_ROW = SumRow(BlendLayer, body=_blend, choose=Choice(_log_weights, _reads))


def _blend_reference(space: Space, layer: Any, params: Params, inputs: list[Array]) -> Array:
    weights = [params[f"parts.{place}.weight"] for place in range(len(layer.parts))]
    return sum_.reference(space, layer, {"weight": np.concatenate(weights, axis=1)}, inputs * len(weights))


def blend(units: int = 3, count: int = 2) -> BlendLayer:
    """A sum of sums."""
    return BlendLayer(tuple(SumLayer(units, units) for _ in range(count)))


@dataclass(frozen=True, eq=False)
class ObservedLayer(FieldsLayer, InputLayer):
    """The values of the input layer that it holds at `observation (num_variables,)`: it reads no variable itself."""

    layer: InputLayer
    observation: Parameter

    @property
    def scope(self) -> Scope:
        return Scope([])

    @property
    def domain(self) -> Domain:
        return self.layer.domain

    @property
    def num_output_units(self) -> int:
        return self.layer.num_output_units

    @property
    def sub_layers(self) -> dict[str, Layer]:
        return {"layer": self.layer}


def _observed(xp: Any, semiring: Any, layer: ObservedLayer, params: Any) -> Any:  # noqa: ARG001
    part = params.sub_layers["layer"]
    x = xp.expand_dims(params["observation"], axis=1)  # (F, 1, num_variables)
    return part.row.body(xp, semiring, part.layer, part.params, x)


def _never(*_: Any) -> Any:
    raise AssertionError("a layer without variables is asked for its total alone")


OBSERVED_ROW = InputRow(ObservedLayer, _never, _observed, _never, maximum=_observed, mode=_never)


def observed(layer: InputLayer, *observation: float) -> ObservedLayer:
    """A layer at an observation."""
    value = ConstantParameter(len(observation), value=np.array(observation))
    return ObservedLayer(layer, Parameter.from_input(value))


CASES = (
    InputCase(
        "weighed categorical",
        WEIGHED_ROW,
        weighed(3),
        _reference,
        distributions=lambda layer, params: categorical.distributions(layer.part, under("part", params)),
        totals=lambda layer, params: categorical.totals(layer.part, under("part", params)) * params["scale"],
        draw=lambda layer, rng, rows: rng.integers(0, layer.part.num_categories, (rows, 1)),
        alike=(weighed(5), weighed(1)),
        parameters={"scale": FACTOR, "part.logits": logits(3)},
        points=states,
        wrong=(5.0, *STATES_WRONG),
        sampled=(),
        starts=(),
    ),
    InnerCase(
        "blend of two sums",
        BLEND_ROW,
        blend,
        _blend_reference,
        parameters={"parts.0.weight": weights(3), "parts.1.weight": weights(3)},
    ),
)
