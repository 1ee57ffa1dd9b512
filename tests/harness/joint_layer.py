"""An input layer of a test's own: a table over all states of several variables, with its row.

compiler.add_layer_rule(JOINT_ROW)
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

from plica.symbolic.layers import InputLayer, InputRow
from plica.symbolic.layers.base import assign, choose_parameter, fields_of, input_scope, positive, settings_key
from plica.symbolic.parameters import Parameter, ParameterLike, softmax_normal
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Semiring, Value

Array = Any


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class JointLayer(InputLayer):
    """Unnormalised masses of several variables of as many states each.

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
    def config(self) -> dict[str, Any]:
        """The settings beside the weight."""
        return fields_of(self, "scope", "num_output_units", "num_states")

    @property
    def params(self) -> dict[str, Parameter]:
        """The weight `(K, S^V)`."""
        return {"weight": self.weight}

    def fold_settings(self) -> Hashable:
        """Type, number of variables, config and shape of the weight."""
        return (JointLayer, self.num_variables, *settings_key(self))


def _body(xp: Any, semiring: Semiring, layer: JointLayer, params: Mapping[str, Array], x: Array) -> Value:
    states = xp.astype(x, xp.int64)  # (F, B, V)
    index = states[:, :, 0]
    for place in range(1, layer.num_variables):
        index = index * layer.num_states + states[:, :, place]
    return semiring.from_linear(xp, xp.lookup(params["weight"], index))


def _marginal(xp: Any, semiring: Semiring, layer: JointLayer, params: Mapping[str, Array]) -> Value:  # noqa: ARG001
    return semiring.from_linear(xp, xp.expand_dims(xp.sum(params["weight"], axis=-1), axis=1))


def _sample(xp: Any, layer: JointLayer, params: Mapping[str, Array], units: Array, uniforms: Array) -> Array:
    table = xp.cumulative_sum(params["weight"], axis=-1)
    index = xp.search_cumulative(table, units, uniforms[:, :, 0])
    powers = [layer.num_states**place for place in reversed(range(layer.num_variables))]
    return xp.stack([index // power % layer.num_states for power in powers], axis=-1)


JOINT_ROW = InputRow(JointLayer, body=_body, marginal=_marginal, sample=_sample)
