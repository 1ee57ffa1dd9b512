"""The sum layer: dense over one and several inputs, and mixing."""

from functools import partial
from typing import Any

import numpy as np

from plica.errors import DTypeError, InputError, ShapeError
from plica.symbolic.layers import LAYER_ROWS, SumLayer
from plica.symbolic.parameters import mixing_weight_factory, normal, softmax_normal
from tests.harness.layer_cases.case import InnerCase, Params, Refused
from tests.harness.layer_cases.categorical import exp_normal
from tests.harness.layer_cases.numbers import weights
from tests.harness.spaces import Space

Array = Any
mixing = partial(mixing_weight_factory, param_factory=softmax_normal)


def reference(space: Space, layer: Any, params: Params, inputs: list[Array]) -> Array:  # noqa: ARG001
    """The weights times all units of all inputs."""
    return space.weighted_sum(np.concatenate(inputs, axis=1), params["weight"])


def _case(name: str, *settings: Any, weight_factory: Any = None, refused: tuple[Refused, ...] = ()) -> InnerCase:
    row = LAYER_ROWS[SumLayer]
    units, _, arity = (*settings, 1)[:3]
    number = arity if weight_factory is mixing else units * arity
    make = partial(SumLayer, weight_factory=weight_factory)
    return InnerCase(
        f"sum, {name}",
        row,
        partial(make, *settings),
        reference,
        refused,
        parameters={"weight": weights(number)},
        multiplies_logs=weight_factory is mixing,
    )


_WRONG = (
    Refused(
        lambda: SumLayer(3, 2, weight=normal((2, 3)), weight_factory=softmax_normal), InputError, "exclude each other"
    ),
    Refused(lambda: SumLayer(3, 2, arity=1.5), DTypeError, "arity must be an integer, found 1.5"),  # type: ignore[arg-type]
    Refused(lambda: SumLayer(3, 2, weight=3.0), DTypeError, "expected a Parameter or a leaf of one, found float"),  # type: ignore[arg-type]
    Refused(lambda: SumLayer(3, 4, weight_factory=mixing), ShapeError, r"expected a shape \(K, H\*K\), found \(4, 3\)"),
)

CASES = (
    _case("of one input", 3, 2, refused=_WRONG),
    _case("of three inputs", 2, 4, 3),
    _case("unnormalized", 3, 3, 2, weight_factory=exp_normal),
    _case("mixing", 3, 3, 3, weight_factory=mixing),
    _case("mixing one input", 3, 3, 1, weight_factory=mixing),
)
