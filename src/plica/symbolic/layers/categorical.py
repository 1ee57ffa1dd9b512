"""The categorical input layer: one finite distribution per unit.

>>> from plica.symbolic.scope import Scope
>>> layer = CategoricalLayer(Scope([2]), 8, num_categories=256)
>>> layer, layer.domain, layer.params["logits"].shape
(CategoricalLayer(scope={2}, 8), Domain('256 states'), (8, 256))
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, final

from plica.symbolic.domains import Domain, finite
from plica.symbolic.layers import closed_form, states
from plica.symbolic.layers.base import (
    FieldsLayer,
    InputLayer,
    assign,
    at_most_one,
    choose_parameter,
    input_scope,
    positive,
)
from plica.symbolic.layers.blocks import ones, total_of_table
from plica.symbolic.layers.distribution import Distribution
from plica.symbolic.layers.operator_rows import CircuitBlock, OperatorRow
from plica.symbolic.layers.rows import normalized_total
from plica.symbolic.parameters import (
    CountedLogSoftmaxParameter,
    LogSoftmaxParameter,
    Namespace,
    Parameter,
    ParameterFactory,
    ParameterLike,
    SoftmaxParameter,
    log_softmax_normal,
    softmax_normal,
)
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value, Weight

_NORMALIZED = LogSoftmaxParameter | SoftmaxParameter | CountedLogSoftmaxParameter


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class CategoricalLayer(FieldsLayer, states.TabulatedLayer):
    """Distributions over the values 0 to C-1 of one variable.

    Args:
        scope: The variable.
        num_output_units: K, the number of distributions.
        num_categories: C, the number of values.
        logits: `(K, C)` logarithms of the numbers that the layer carries, used as given: unit k sums to
            `sum(exp(logits[k]))`. By default the log-softmax of standard normal draws, which sums to 1.
        probs: `(K, C)` probabilities, used as given.
        logits_factory: Makes the logits from their shape.
        probs_factory: Makes the probabilities from their shape.

    Raises:
        ShapeError: More than one variable, a parameter of another shape.
        InputError: Two ways to give the parameter.
    """

    has_conjugate: ClassVar[bool] = True
    scope: Scope
    num_output_units: int
    num_categories: int
    logits: Parameter | None
    probs: Parameter | None

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        num_categories: int,
        logits: ParameterLike | None = None,
        probs: ParameterLike | None = None,
        logits_factory: ParameterFactory | None = None,
        probs_factory: ParameterFactory | None = None,
    ) -> None:
        name = "CategoricalLayer"
        at_most_one(name, logits=logits, probs=probs, logits_factory=logits_factory, probs_factory=probs_factory)
        units, categories = (
            positive(name, "num_output_units", num_output_units),
            positive(name, "num_categories", num_categories),
        )
        assign(self, scope=input_scope(name, scope, 1), num_output_units=units, num_categories=categories)
        shape = (units, categories)
        if probs is None and probs_factory is None:
            chosen = choose_parameter(name, "logits", shape, logits, logits_factory, log_softmax_normal)
            assign(self, logits=chosen, probs=None)
        else:
            chosen = choose_parameter(name, "probs", shape, probs, probs_factory, softmax_normal)
            assign(self, logits=None, probs=chosen)

    @property
    def normalized(self) -> bool:
        """Whether the parameter is a softmax over the states, or its logarithm, so that each unit sums to 1."""
        (parameter,) = self.params.values()
        return isinstance(parameter.output, _NORMALIZED) and parameter.output.axis in (-1, 1)

    @property
    def domain(self) -> Domain:
        """The categories, counted from 0."""
        return finite(self.num_categories)

    @property
    def num_states(self) -> int:
        """The number of categories."""
        return self.num_categories

    def state_table(self, num_states: int) -> states.StateTable:
        """The logits or the probabilities of the first categories."""
        (parameter,) = self.params.values()
        return states.StateTable(parameter.ref(), log_space=self.logits is not None).first_states(num_states)

    def fold_settings(self) -> Hashable:
        """The key of any input layer, and whether it is normalized."""
        return InputLayer.fold_settings(self), self.normalized

    @property
    def padded(self) -> dict[str, str]:
        """The tables, by number of categories."""
        return dict.fromkeys(self.params, "num_categories")


def _table(xp: Namespace, layer: CategoricalLayer, params: Params) -> Weight:  # noqa: ARG001
    return params.weight("probs") if layer.logits is None else params.exp_weight("logits")


def _marginal(xp: Namespace, semiring: Semiring, layer: CategoricalLayer, params: Params) -> Value:
    if layer.normalized:
        return normalized_total(xp, semiring, layer, params)
    return _ROW.marginal(xp, semiring, layer, params)


def _categories(num_values: int) -> dict[str, int]:
    """The settings for data of `num_values` values."""
    return {"num_categories": num_values}


_ROW = states.input_row(
    CategoricalLayer,
    _table,
    padding={"logits": float("-inf"), "probs": 0.0},  # categories that some layers of a fold do not have
    distribution=Distribution("categorical", CategoricalLayer, ("logits", "probs"), _categories),
)
ROW = replace(_ROW, marginal=_marginal, closed_form=closed_form.table("logits", "probs"))


def _integrate(layer: CategoricalLayer, *, scope: Scope) -> CircuitBlock:  # noqa: ARG001 - the variable of the layer
    return ones(layer) if layer.normalized else total_of_table(layer.state_table(layer.num_categories))


OPERATORS = (OperatorRow("integrate", (CategoricalLayer,), _integrate),)
