"""What cases of densities of one real variable share: from the logarithm of a density, and SciPy's distribution."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError
from plica.symbolic.layers import InputLayer
from plica.symbolic.parameters import normal
from tests.harness.layer_cases.case import InputCase, Params, Refused
from tests.harness.layer_cases.numbers import Numbers, column
from tests.harness.spaces import WIDE, Space

Array = Any


def density_case(
    name: str,
    layer: Any,
    log_density: Callable[[Params, Array], Array],
    distribution: Callable[..., Any],
    draw: Callable[[np.random.Generator, int], Array],
    *,
    build: Callable[[Sequence[int], int], InputLayer] | None = None,
    modes: Callable[[Params], Array] | None = None,
    parameters: Mapping[str, Numbers],
    points: tuple[float, ...],
    wrong: tuple[float, ...],
    sampled: tuple[Mapping[str, Any], ...],
    starts: tuple[tuple[float, float], ...],
    refused: tuple[Refused, ...] = (),
) -> InputCase:
    """A case of a layer whose densities integrate to 1.

    Args:
        name: What it is called.
        layer: The class.
        log_density: Of the parameters `(K,)` and data `(B, 1)`, in extended precision.
        distribution: SciPy's, of the parameters of one unit as floats.
        draw: `(rng, rows)`: data, `(rows,)`.
        build: Makes the layer; its constructor by default.
        modes: Where each unit is largest, `(K,)`; its mean by default.
        parameters: What each parameter may be.
        points: What data may be, at the ends.
        wrong: What it may not be.
        sampled: Parameters of single units whose samples are compared.
        starts: The means and the spreads of columns.
        refused: What the constructor refuses, beside what all such layers do.
    """

    def reference(space: Space, one: Any, params: Params, x: Array) -> Array:
        (variable,) = one.scope
        value = x[:, variable, None]
        density = log_density(params, value)
        return space.from_log(np.where(np.isnan(value), WIDE(0), density))

    def distributions(one: Any, params: Params) -> list[Any]:
        columns = [params[key].astype(float) for key in one.params]
        return [distribution(*numbers) for numbers in zip(*columns, strict=True)]

    first = next(iter(layer([0], 1).params))
    twice = {first: normal((2,)), f"{first}_factory": normal}
    return InputCase(
        name,
        layer.row,
        build or layer,
        reference,
        distributions,
        totals=lambda one, _: np.ones(one.num_output_units, WIDE),
        draw=lambda _, rng, count: draw(rng, count)[:, None],
        modes=None if modes is None else lambda _, params: modes(params)[:, None],
        parameters=parameters,
        points=column(points),
        wrong=wrong,
        sampled=sampled,
        starts=starts,
        refused=(
            Refused(lambda: layer([], 2), ShapeError, r"found \{\}"),
            Refused(lambda: layer([0, 1], 2), ShapeError, r"expected a scope of 1 variable\(s\)"),
            Refused(lambda: layer([0], 2, **twice), InputError, f"{first} and {first}_factory"),
            *refused,
        ),
    )
