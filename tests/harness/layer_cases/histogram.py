"""The histogram layer: by logits and by integrals, normalized and not, of unequal numbers of bins."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plica.errors import DTypeError, InputError, ShapeError
from plica.symbolic.layers import LAYER_ROWS, HistogramLayer, histogram_edges
from plica.symbolic.parameters import normal
from tests.harness.layer_cases.case import InputCase, Params, Refused
from tests.harness.layer_cases.categorical import exp_normal
from tests.harness.layer_cases.numbers import Numbers, logits, weights
from tests.harness.spaces import WIDE, Space

Array = Any
ROW: Any = LAYER_ROWS[HistogramLayer]


def _masses(params: Params) -> Array:
    return params["probs"] if "probs" in params else np.exp(params["logits"])


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """The integral over the bin divided by its width, 0 where there is none; the sum of all where it is missing."""
    (variable,) = layer.scope
    masses, edges = _masses(params), params["edges"]
    rows = []
    for value in x[:, variable]:
        if np.isnan(value):
            rows.append(masses.sum(axis=1))
            continue
        bins = [n for n in range(layer.num_bins) if edges[n] <= value < edges[n + 1]]
        bins += [layer.num_bins - 1] if value == edges[-1] else []
        rows.append(sum((masses[:, n] / (edges[n + 1] - edges[n]) for n in bins), 0 * masses[:, 0]))
    return space.from_linear(np.array(rows, WIDE).reshape(len(x), layer.num_output_units))


def distributions(layer: Any, params: Params) -> list[Any]:  # noqa: ARG001
    """Histograms."""
    from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

    edges = params["edges"].astype(float)
    if "logits" in params:  # of any size: what they come to is another's business
        masses = np.exp(params["logits"] - params["logits"].max(axis=1, keepdims=True)).astype(float)
    else:
        masses = params["probs"].astype(float)
    return [stats.rv_histogram((row, edges), density=False) for row in masses]


def modes(layer: Any, params: Params) -> Array:  # noqa: ARG001
    """The middles of the densest bins."""
    edges = params["edges"]
    best = np.argmax(_masses(params) / np.diff(edges), axis=1)
    return (0.5 * (edges[1:] + edges[:-1]))[best][:, None]


def bins(number: int, **settings: Any) -> Callable[[Sequence[int], int], HistogramLayer]:
    """Layers of some number of bins, which become wider, over other places for each number."""
    edges = -1 + np.linspace(0, 1.5, number + 1) ** 2
    return lambda scope, units: HistogramLayer(scope, units, edges=edges, **settings)


def _steps(rng: np.random.Generator, shape: tuple[int, ...], spread: float) -> Array:  # noqa: ARG001
    return np.cumsum(rng.integers(1, 4, shape)) / 2.0 - 2


_EDGES = Numbers(((-1.0, -0.5, 0.0, 1e-3, 1e6),), _steps, shared=True, fixed=True)


def _points(layer: Any) -> Array:
    """A number inside, the edges, what is beyond them, and infinity."""
    edges = np.asarray(layer.edges.output.value, float)
    beyond = (edges[0] - 0.25, edges[-1] + 0.25, np.inf, -np.inf)
    return np.array([edges[:2].mean(), *edges, *beyond])[:, None]


def _case(
    name: str, refused: tuple[Refused, ...] = (), *, parameters: Any, sampled: Any = (), **settings: Any
) -> InputCase:
    return InputCase(
        f"histogram by {name}",
        ROW,
        bins(4, **settings),
        reference,
        distributions,
        totals=lambda _, params: _masses(params).sum(axis=1),
        draw=lambda _, rng, rows: rng.uniform(-1.2, 1.5, (rows, 1)),
        modes=modes,
        alike=(bins(6, **settings), bins(1, **settings)),
        refused=refused,
        parameters=parameters | {"edges": _EDGES},
        points=_points,
        wrong=(),
        sampled=sampled,
        starts=((1e4, 0.5), (-3.0, 40.0)) if name == "log-softmax" else (),
    )


_WRONG = (
    Refused(lambda: bins(2)([0, 1], 2), ShapeError, r"expected a scope of 1 variable\(s\)"),
    Refused(lambda: HistogramLayer([0], 2, edges=[0.0, 1.0, 1.0]), InputError, "increase, found 1.0 before 1.0"),
    Refused(lambda: HistogramLayer([0], 2, edges=[0.0, float("nan")]), InputError, "finite edges that increase"),
    Refused(lambda: HistogramLayer([0], 2, edges="ab"), DTypeError, "HistogramLayer: expected numbers"),
    Refused(lambda: histogram_edges(["a"], 2), DTypeError, "histogram_edges: expected numbers"),
    Refused(lambda: HistogramLayer([0], 2, edges=[1.0]), ShapeError, "a list of at least 2 numbers"),
    Refused(lambda: HistogramLayer([0], 2, edges=[0.0, 1.0], num_bins=2), ShapeError, "expected edges of shape"),
    Refused(lambda: bins(2, logits=normal((2, 2)), probs=normal((2, 2)))([0], 2), InputError, "logits and probs"),
    Refused(lambda: histogram_edges([float("nan")], 3), InputError, "expected finite numbers, found none"),
    Refused(lambda: histogram_edges([1.0], 0), ShapeError, "num_bins must be at least 1"),
)

CASES = (
    _case("log-softmax", _WRONG, parameters={"logits": logits(4)}),
    _case(
        "probs",
        parameters={"probs": weights(4)},
        probs_factory=exp_normal,
        sampled=({"edges": [-1.0, 0.0, 1e-3, 4.0, 1e3], "probs": [1e-9, 1.0, 0.0, 1e3]},),
    ),
)
