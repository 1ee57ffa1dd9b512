"""An input layer of a test's own: a table over all states of several variables, with its row.

compiler.add_layer_rule(JOINT_ROW)
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from plica.symbolic.domains import Domain, finite
from plica.symbolic.layers import InputLayer, InputRow
from plica.symbolic.layers.base import FieldsLayer, assign, choose_parameter, input_scope, positive, settings_key
from plica.symbolic.parameters import ExpParameter, Parameter, ParameterLike, normal, softmax_normal
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Semiring, Value
from tests.harness.layer_cases.case import InputCase, Params
from tests.harness.layer_cases.numbers import states, weights
from tests.harness.spaces import WIDE, Space

Array = Any


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class JointLayer(FieldsLayer, InputLayer):
    """Unnormalized masses of several variables of as many states each.

    Args:
        scope: The variables.
        num_output_units: K, the number of tables.
        num_states: S, the number of states of each variable.
        weight: `(K, S^V)` masses, the first variable slowest; by default the softmax of normal draws.
    """

    scope: Scope
    num_output_units: int
    num_states: int
    weight: Parameter

    def __init__(
        self, scope: Iterable[int], num_output_units: int, *, num_states: int, weight: ParameterLike | None = None
    ) -> None:
        name = "JointLayer"
        units, states = positive(name, "num_output_units", num_output_units), positive(name, "num_states", num_states)
        assign(self, scope=input_scope(name, scope), num_output_units=units, num_states=states)
        shape = (units, states ** len(self.scope))
        assign(self, weight=choose_parameter(name, "weight", shape, weight, softmax_normal))

    @property
    def domain(self) -> Domain:
        """The states of each variable."""
        return finite(self.num_states)

    def fold_settings(self) -> Hashable:
        """Type, number of variables, config and shape of the weight."""
        return (JointLayer, self.num_variables, *settings_key(self))


def _body(xp: Any, semiring: Semiring, layer: JointLayer, params: Params, x: Array) -> Value:
    states = xp.astype(x, xp.int64)  # (F, B, V)
    index = states[:, :, 0]
    for place in range(1, layer.num_variables):
        index = index * layer.num_states + states[:, :, place]
    return semiring.from_linear(xp, xp.lookup(params["weight"], index))


def _marginal(xp: Any, semiring: Semiring, layer: JointLayer, params: Params) -> Value:  # noqa: ARG001
    return semiring.from_linear(xp, xp.expand_dims(xp.sum(params["weight"], axis=-1), axis=1))


def _maximum(xp: Any, semiring: Semiring, layer: JointLayer, params: Params) -> Value:  # noqa: ARG001
    return semiring.from_linear(xp, xp.expand_dims(xp.max(params["weight"], axis=-1), axis=1))


def _mode(xp: Any, layer: JointLayer, params: Params) -> Array:
    return _states_of(xp, layer, xp.argmax(params["weight"], axis=-1))


def _partial(xp: Any, semiring: Semiring, layer: JointLayer, params: Params, x: Array, missing: Array) -> Value:
    # each variable chooses its state, or all of them: sum over i, j of W[k, i, j] c1[i] c2[j]
    letters = "ijlm"[: layer.num_variables]
    states = xp.arange(layer.num_states)
    chosen = xp.logical_or(
        xp.equal(xp.expand_dims(x, axis=-1), states), xp.expand_dims(missing, axis=-1)
    )  # (F, B, V, S)
    weight = params["weight"]
    table = xp.reshape(weight, (*weight.shape[:2], *[layer.num_states] * layer.num_variables))
    choices = xp.astype(chosen, table.dtype)
    terms = ",".join(f"fb{letter}" for letter in letters)
    masses = xp.einsum(f"fk{letters},{terms}->fbk", table, *[choices[:, :, place] for place in range(len(letters))])
    return semiring.from_linear(xp, masses)


def _sample(xp: Any, layer: JointLayer, params: Params, units: Array, uniforms: Array) -> Array:
    table = xp.cumulative_sum(params["weight"], axis=-1)
    return _states_of(xp, layer, xp.search_cumulative(table, units, uniforms[:, :, 0]))


def _states_of(xp: Any, layer: JointLayer, index: Array) -> Array:
    powers = [layer.num_states**place for place in reversed(range(layer.num_variables))]
    return xp.stack([index // power % layer.num_states for power in powers], axis=-1)


JOINT_ROW = InputRow(
    JointLayer, body=_body, marginal=_marginal, sample=_sample, mode=_mode, maximum=_maximum, partial=_partial
)


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """The entry of the table; variables that are missing are summed out one by one."""
    rows = []
    for row in x[:, list(layer.scope)]:
        table = params["weight"].reshape(-1, *[layer.num_states] * len(row))
        for state in row:  # the first variable of the table goes in each step
            table = table.sum(axis=1) if np.isnan(state) else table[:, int(state)]
        rows.append(space.from_linear(table))
    return np.array(rows, WIDE).reshape(len(x), layer.num_output_units)


def _powers(layer: Any) -> Array:
    return layer.num_states ** np.arange(layer.num_variables)[::-1]


def _distributions(layer: Any, params: Params) -> list[Any]:  # noqa: ARG001
    from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

    tables = params["weight"].astype(float)
    return [stats.rv_discrete(values=(range(len(row)), row / row.sum())) for row in tables]


CASES = (
    InputCase(
        "joint of two",
        JOINT_ROW,
        lambda scope, units: JointLayer(
            scope, units, num_states=3, weight=Parameter.from_unary(ExpParameter((units, 9)), normal((units, 9)))
        ),
        reference,
        _distributions,
        totals=lambda _, params: params["weight"].sum(axis=1),
        draw=lambda layer, rng, rows: rng.integers(0, layer.num_states, (rows, layer.num_variables)),
        encode=lambda layer, x: x @ _powers(layer),
        decode=lambda layer, values: np.asarray(values)[:, None] // _powers(layer) % layer.num_states,
        num_variables=2,
        parameters={"weight": weights(9)},
        points=states,
        wrong=(),
        sampled=(),
        starts=(),
    ),
)
