"""What cases of densities of one real variable share: from the logarithm of a density, and SciPy's distribution."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError
from plica.symbolic.layers import InputLayer
from plica.symbolic.parameters import normal
from tests.harness.layer_cases.case import InputCase, Params, Refused
from tests.harness.layer_cases.numbers import PLACE, REALS, SCALE, Numbers, column
from tests.harness.spaces import WIDE, Space

Array = Any


def of_scipy(
    distribution: Callable[..., Any], *columns: Callable[[Params], Array]
) -> Callable[[Any, Params], list[Any]]:
    """`(layer, params)`: the distribution of each unit.

    Args:
        distribution: Makes one, of `scipy.stats` and the numbers of a unit.
        columns: Each gives one of these numbers for all units, `(K,)`.
    """

    def distributions(_: Any, params: Params) -> list[Any]:
        from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

        numbers = [column(params).astype(float) for column in columns]
        return [distribution(stats, *unit) for unit in zip(*numbers, strict=True)]

    return distributions


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
) -> InputCase:
    """A case of a layer whose densities integrate to 1.

    Args:
        name: What it is called.
        layer: The class.
        log_density: Of the parameters `(K,)` and data `(B, 1)`, in extended precision.
        distribution: SciPy's, of `scipy.stats` and the parameters of one unit as floats.
        draw: `(rng, rows)`: data, `(rows,)`.
        build: Makes the layer; its constructor by default.
        modes: Where each unit is largest, `(K,)`; its mean by default.
        parameters: What each parameter may be.
        points: What data may be, at the ends.
        wrong: What it may not be.
        sampled: Parameters of single units whose samples are compared.
        starts: The means and the spreads of columns.
    """

    def reference(space: Space, one: Any, params: Params, x: Array) -> Array:
        (variable,) = one.scope
        value = x[:, variable, None]
        density = log_density(params, value)
        return space.from_log(np.where(np.isnan(value), WIDE(0), density))

    names = list(layer([0], 1).params)
    twice = {names[0]: normal((2,)), f"{names[0]}_factory": normal}
    return InputCase(
        name,
        layer.row,
        build or layer,
        reference,
        of_scipy(distribution, *map(itemgetter, names)),
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
            Refused(lambda: layer([0], 2, **twice), InputError, f"{names[0]} and {names[0]}_factory"),
        ),
    )


def location_case(
    name: str, layer: Any, log_density: Callable[[Params, Array], Array], distribution: Callable[..., Any]
) -> InputCase:
    """A case of symmetric densities of all real numbers, with a location and a scale: see `density_case`."""
    return density_case(
        name,
        layer,
        log_density,
        distribution,
        lambda rng, rows: 2 * rng.normal(size=rows),
        parameters={"loc": PLACE, "scale": SCALE},
        points=REALS,
        wrong=(),
        sampled=tuple({"loc": 0.0, "scale": scale} for scale in (1e-6, 1e6)),
        starts=((1e4, 0.5), (-3.0, 40.0)),
    )
