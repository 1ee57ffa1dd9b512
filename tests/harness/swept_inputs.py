"""Every input layer of the cases as it may be drawn, rows at the ends of what it takes, and its values by its case."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plica.ir.op import Unsupported
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import LAYER_ROWS
from plica.symbolic.parameters import ConstantParameter, Parameter, TensorParameter
from tests.harness.layer_cases import LAYER_CASES, InputCase
from tests.harness.spaces import LOG, WIDE

Array = Any
Values = Callable[[Array], Array]  # logarithms of units, `(B, K)`, of rows `(B, D)`


@dataclass(frozen=True)
class Input:
    """An input layer.

    Args:
        layer: The layer.
        scores: Of rows of its variables, NaN where one is missing.
        best: The logarithms of the largest values of its units.
        total: The logarithms of what its units add up to.
        points: Legal rows of its variables, at the ends of what they may be too.
        wrong: Numbers that are no values of its variables.
    """

    layer: Any
    scores: Values
    best: Array
    points: Array
    total: Array
    wrong: Sequence[float] = ()


@dataclass
class Sweeper:
    """What writes one circuit."""

    rng: np.random.Generator
    dtype: Any
    wild: float = 0.0
    count: int = 0

    def leaf(self, value: Array, fixed: bool = False) -> tuple[Any, Array]:
        """A tensor of its own, and the number that it has in the dtype."""
        value = np.asarray(value, self.dtype)
        if fixed:
            return Parameter.from_input(ConstantParameter(*value.shape, value=value)), value.astype(np.float64)
        self.count += 1
        leaf = TensorParameter(
            *value.shape, initializer=ConstantTensorInitializer(value.astype(float)), name=f"p{self.count}"
        )
        return Parameter.from_input(leaf), value.astype(np.float64)

    def input(self, case: InputCase, scope: Sequence[int], units: int) -> Input:
        """A layer of a case, or of one that folds with it, with parameters that are drawn."""
        makers = [case.build, *case.alike]
        layer = makers[self.rng.integers(len(makers))](scope, units)
        spread = 10.0 if self.rng.random() < self.wild else 1.0
        leaves, values = {}, {}
        for name, numbers in case.parameters.items():
            drawn = numbers.draw(self.rng, layer.all_params[name].shape, spread)
            leaves[name], values[name] = self.leaf(drawn, numbers.fixed)
        layer = layer.with_params(leaves)
        params = {name: value.astype(WIDE) for name, value in values.items()}

        def scores(x: Array) -> Array:
            rows = np.full((len(x), max(scope) + 1), np.nan, WIDE)
            rows[:, list(scope)] = x
            with np.errstate(all="ignore"):
                return np.asarray(case.reference(LOG, layer, params, rows), float)

        points = np.asarray(case.points(layer), np.float32).astype(float)  # of either dtype
        with np.errstate(all="ignore"):
            best = np.diag(scores(_modes(case, layer, params)))
        count = layer.domain.num_states
        wrong = {float(np.float32(one)) for one in case.wrong if count is None or not 0 <= one < count or one % 1}
        total = scores(np.full((1, len(scope)), np.nan))[0]
        return Input(layer, scores, best, points, total, sorted(wrong | ({float(count)} if count else set())))


def _modes(case: InputCase, layer: Any, params: Any) -> Array:
    """Where each unit is largest: at the case's word, among all states, or at the median of a symmetric density."""
    if case.modes is not None:
        return np.asarray(case.modes(layer, params), float)
    count = layer.domain.num_states
    if count is None:
        return np.array([[kind.median()] for kind in case.distributions(layer, params)])
    every = np.full((count, max(layer.scope) + 1), np.nan, WIDE)
    every[:, list(layer.scope)] = np.arange(count)[:, None]
    with np.errstate(all="ignore"):
        return np.argmax(case.reference(LOG, layer, params, every), axis=0)[:, None].astype(float)


_ALL = [
    case for case in LAYER_CASES if isinstance(case, InputCase) and not case.signed and case.row.layer in LAYER_ROWS
]
FAMILIES = {str(case): case for case in _ALL if case.num_variables == 1 and case.parameters}
JOINT = {str(case): case for case in _ALL if case.num_variables > 1 and not isinstance(case.row.mode, Unsupported)}


def log_of(x: Array) -> Array:
    """The logarithm, -inf at 0."""
    with np.errstate(divide="ignore"):
        return np.log(x)
