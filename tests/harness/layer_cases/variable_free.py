"""Layers without variables: constants, and layers whose variables are observed."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plica.errors import DTypeError, InputError, ShapeError
from plica.symbolic.layers import (
    LAYER_ROWS,
    CategoricalLayer,
    ConstantValueLayer,
    EvidenceLayer,
    GaussianLayer,
    IntegratedLayer,
    PolynomialLayer,
    SumLayer,
)
from plica.symbolic.parameters import ConstantParameter, normal
from tests.harness.layer_cases.case import InputCase, Params, Refused
from tests.harness.layer_cases.categorical import exp_normal
from tests.harness.layer_cases.holding import reference_of, under
from tests.harness.layer_cases.numbers import (
    FACTOR,
    LOG_FACTOR,
    PLACE,
    SCALE,
    SIGNED_FACTOR,
    Numbers,
    logits,
    signed_weights,
)
from tests.harness.spaces import LINEAR, Space

Array = Any


def _case(name: str, layer: type, build: Any, number: Callable[[Space, Any, Params], Array], **more: Any) -> InputCase:
    """A case from its number `(K,)` in a space."""
    signed = more.pop("signed", False)

    def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
        return np.broadcast_to(number(space, layer, params), (len(x), layer.num_output_units))

    return InputCase(
        name,
        LAYER_ROWS[layer],
        build,
        reference,
        None if signed else lambda *_: [],
        totals=lambda layer, params: number(LINEAR, layer, params),
        draw=lambda _, __, rows: np.zeros((rows, 0)),
        num_variables=0,
        modes=lambda layer, _: np.zeros((layer.num_output_units, 0)),
        means=lambda layer, _: np.zeros((layer.num_output_units, 0)),
        variances=lambda layer, _: np.zeros((layer.num_output_units, 0)),
        covariances=lambda layer, _: np.zeros((layer.num_output_units, 0, 0)),
        shares=lambda layer, _, low, __: np.ones((len(low), layer.num_output_units)),
        points=lambda _: np.zeros((1, 0)),
        wrong=(),
        sampled=(),
        starts=(),
        **more,
    )


def constants(**settings: Any) -> Callable[[Sequence[int], int], ConstantValueLayer]:
    """Layers of constants."""

    def build(_: Sequence[int], units: int) -> ConstantValueLayer:
        given = {name: one((units,)) if callable(one) else one for name, one in settings.items()}
        return ConstantValueLayer(units, **given)

    return build


def _constant(space: Space, layer: Any, params: Params) -> Array:
    return space.from_log(params["value"]) if layer.log_space else space.from_linear(params["value"])


def observed(make: Callable[[int], Any], observation: Any) -> Callable[[Sequence[int], int], EvidenceLayer]:
    """Layers whose variables are observed."""
    return lambda _, units: EvidenceLayer(make(units), observation=observation)


def _observed(space: Space, layer: Any, params: Params) -> Array:
    """The reference of the layer that is observed, at the observation."""
    held = layer.layer
    x = np.zeros((1, max(held.scope) + 1))
    x[:, list(held.scope)] = params["observation"]
    return reference_of(held)(space, held, under("layer", params), x)[0]


def integrated(make: Callable[[int], Any]) -> Callable[[Sequence[int], int], IntegratedLayer]:
    """Layers whose variables are integrated."""
    return lambda _, units: IntegratedLayer(make(units))


def _integrated(space: Space, layer: Any, params: Params) -> Array:
    """The sum that the reference of the layer is in ordinary numbers, in every algebra."""
    held = layer.layer
    x = np.full((1, max(held.scope) + 1), np.nan)
    return space.from_linear(reference_of(held)(LINEAR, held, under("layer", params), x)[0])


def _states(categories: int) -> Callable[[int], CategoricalLayer]:
    return lambda units: CategoricalLayer([3], units, num_categories=categories)


_NO_INPUT: Any = SumLayer(2, 2)
_WRONG = (
    Refused(lambda: EvidenceLayer(_NO_INPUT, observation=0), DTypeError, "expected an input layer, found SumLayer"),
    Refused(
        lambda: EvidenceLayer(_states(3)(2), observation=3),
        InputError,
        "variable 3 of CategoricalLayer.* is observed as 3, which is none of the 3 states 0 to 2",
    ),
    Refused(lambda: EvidenceLayer(_states(3)(2), observation=float("nan")), InputError, "observed as nan"),
    Refused(lambda: EvidenceLayer(_states(3)(2), observation=[1, 2]), ShapeError, "expected observation of shape"),
    Refused(lambda: EvidenceLayer(_states(3)(2), observation=1j), InputError, "is complex; give real numbers"),
    Refused(
        lambda: EvidenceLayer(_states(3)(2), observation=normal((1,))),
        InputError,
        "is a state, which is known when the circuit is described",
    ),
)

_NOT_INTEGRATED = (Refused(lambda: IntegratedLayer(_NO_INPUT), DTypeError, "expected an input layer, found SumLayer"),)

_STATE = Numbers(((1.0,),), lambda _, shape, __: np.ones(shape), shared=True, fixed=True)

CASES = (
    _case("constant", ConstantValueLayer, constants(value=0.25), _constant, parameters={"value": FACTOR}),
    _case(
        "learned constants", ConstantValueLayer, constants(value=exp_normal), _constant, parameters={"value": FACTOR}
    ),
    _case(
        "constants of any sign",
        ConstantValueLayer,
        constants(value=normal),
        _constant,
        signed=True,
        parameters={"value": SIGNED_FACTOR},
    ),
    _case(
        "logarithms",
        ConstantValueLayer,
        constants(value=normal, log_space=True),
        _constant,
        parameters={"value": LOG_FACTOR},
    ),
    _case(
        "observed state",
        EvidenceLayer,
        observed(_states(3), 1),
        _observed,
        alike=(observed(_states(5), [4]), observed(_states(2), ConstantParameter(1, value=0))),
        refused=_WRONG,
        parameters={"observation": _STATE, "layer.logits": logits(3)},
    ),
    _case(
        "observed real number",
        EvidenceLayer,
        observed(lambda units: GaussianLayer([2], units), normal((1,))),
        _observed,
        parameters={
            "observation": Numbers(((0.0,), (1e3,)), PLACE.draw, shared=True),
            "layer.mean": PLACE,
            "layer.stddev": SCALE,
        },
    ),
    _case(
        "polynomial at an observation",
        EvidenceLayer,
        observed(lambda units: PolynomialLayer([1], units, degree=2), -0.5),
        _observed,
        signed=True,
        parameters={
            "observation": Numbers(((-0.5,), (0.0,)), PLACE.draw, shared=True),
            "layer.coeff": signed_weights(3),
        },
        alike=(observed(lambda units: PolynomialLayer([1], units, degree=1), 2.0),),
    ),
    _case(
        "integrated states",
        IntegratedLayer,
        integrated(lambda units: CategoricalLayer([3], units, num_categories=3, logits_factory=normal)),
        _integrated,
        refused=_NOT_INTEGRATED,
        alike=(integrated(lambda units: CategoricalLayer([3], units, num_categories=2, logits_factory=normal)),),
        parameters={"layer.logits": logits(3)},
    ),
    _case(
        "integrated real number",
        IntegratedLayer,
        integrated(lambda units: GaussianLayer([2], units)),
        _integrated,
        parameters={"layer.mean": PLACE, "layer.stddev": SCALE},
    ),
)
