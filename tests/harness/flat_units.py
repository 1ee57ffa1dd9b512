"""Units of input layers with the distributions of SciPy that they are, by family: what random mixtures are made of.

layer, units = FAMILIES["gaussian"](np.random.default_rng(0), 2, 3)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp

from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import LogNormalLayer, StudentTLayer, VonMisesLayer
from plica.symbolic.parameters import ConstantParameter, Parameter, TensorParameter
from tests.harness.layer_cases import LAYER_CASES, InputCase
from tests.harness.spaces import LOG, WIDE

Array = Any
UNDERFLOWS, MOST_STATES = -1000.0, 40


@dataclass(frozen=True)
class Unit:
    """A unit of an input layer.

    Args:
        kind: Its distribution, of SciPy.
        log_total: The logarithm of what it comes to in all.
        states: How many states it has; None for numbers, and for counts without a largest.
    """

    kind: Any
    log_total: float = 0.0
    states: int | None = None

    @property
    def whole(self) -> bool:
        """Whether it is of integers."""
        return hasattr(self.kind, "pmf")

    def log(self, x: Array) -> Array:
        """The logarithm of what it is at numbers."""
        return self.log_total + (self.kind.logpmf(x) if self.whole else self.kind.logpdf(x))

    def share(self, low: Array, high: Array) -> Array:
        """The share between two ends, both included."""
        before = np.ceil(low) - 1 if self.whole else low
        return np.where(low <= high, np.maximum(self.kind.cdf(high) - self.kind.cdf(before), 0), 0)


class Table:
    """A distribution of states, with the methods of SciPy's that are needed here, right at zeros."""

    def __init__(self, logs: Array) -> None:
        with np.errstate(divide="ignore"):
            self.logs = logs - logsumexp(logs)
        self.states = np.arange(len(logs))

    def pmf(self, x: Array) -> Array:
        """Probabilities."""
        return np.exp(self.logpmf(x))

    def logpmf(self, x: Array) -> Array:
        """Their logarithms."""
        return self.logs[np.asarray(x, int)]

    def cdf(self, x: Array) -> Array:
        """Up to ends."""
        return np.exp(self.logs) @ (self.states[:, None] <= np.ravel(x)).astype(float)

    def mean(self) -> float:
        """The mean."""
        return float(np.exp(self.logs) @ self.states)

    def var(self) -> float:
        """The variance."""
        return float(np.exp(self.logs) @ (self.states - self.mean()) ** 2)


def leaf(values: Array) -> Parameter:
    """A tensor that is learned, of some values."""
    return Parameter.from_input(
        TensorParameter(*np.shape(values), initializer=ConstantTensorInitializer(np.asarray(values, float)))
    )


def drawn(case: InputCase, rng: Any, variable: int, units: int, states: int | None) -> tuple[Any, list[Unit]]:
    """A layer of a case with parameters that are drawn, and its units; tables of all states where these are few."""
    makers = [case.build, *case.alike]
    layers = [make([variable], units) for make in makers]
    (layer, *_) = [one for one in layers if states is None or one.domain.num_states == states]
    values = {name: one.draw(rng, layer.all_params[name].shape, 1.0) for name, one in case.parameters.items()}
    if "logits" in values and values["logits"].ndim == 2:
        values["logits"] = values["logits"] * rng.choice([1, 5]) + rng.choice([0, 0, UNDERFLOWS])
    layer = layer.with_params(
        {
            name: Parameter.from_input(ConstantParameter(*np.shape(value), value=value))
            if case.parameters[name].fixed
            else leaf(value)
            for name, value in values.items()
        }
    )
    params = {name: value.astype(WIDE) for name, value in values.items()}
    count = layer.domain.num_states
    with np.errstate(all="ignore"):
        if count is not None and count <= MOST_STATES:
            rows = np.full((count, variable + 1), np.nan, WIDE)
            rows[:, variable] = np.arange(count)
            tables = np.asarray(case.reference(LOG, layer, params, rows), float).T
            return layer, [Unit(Table(one), float(logsumexp(one)), count) for one in tables]
        nothing = np.full((1, variable + 1), np.nan, WIDE)
        totals = np.asarray(case.reference(LOG, layer, params, nothing), float)[0]
    kinds = case.distributions(layer, {name: value.astype(float) for name, value in params.items()})
    return layer, [Unit(kind, float(total), count) for kind, total in zip(kinds, totals, strict=True)]


# Ends of densities that are infinite, and moments that are, are other tests' business.
_ENDLESS = (LogNormalLayer, StudentTLayer, VonMisesLayer)
_CASES = [
    case
    for case in LAYER_CASES
    if isinstance(case, InputCase) and not case.signed and case.num_variables == 1 and case.parameters
    if case.row.layer not in _ENDLESS and case.name not in ("beta", "gamma")  # others of them are above 2
]
FAMILIES: dict[str, Callable[..., tuple[Any, list[Unit]]]] = {
    f"{case} of {states}" if case.alike else str(case): partial(drawn, case, states=states)
    for case in _CASES
    for states in sorted({make([0], 1).domain.num_states for make in (case.build, *case.alike)}, key=str)
}
