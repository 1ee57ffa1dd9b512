"""Expected counts: how often each weight, and each state, is used when a circuit explains rows.

>>> import torch
>>> import plica
>>> from plica.symbolic.layers import BernoulliLayer, SumLayer
>>> coins, mix = BernoulliLayer([0], 2), SumLayer(2, 1)
>>> model = plica.compile(plica.Circuit([coins, mix], {mix: [coins]}, [mix]))
>>> counted = flows(model, torch.tensor([[1.0], [0.0], [1.0], [float("nan")]]))
>>> counted.num_rows, round(float(counted.counts["1.weight"].sum()), 4)
(4, 4.0)
>>> counted.statistics[coins]["states"].sum(0).round(decimals=4).tolist()
[1.0, 2.0]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from plica.errors import InputError
from plica.learn.expectation import Expectation, Statistics
from plica.learn.scores import to_tensor
from plica.learn.sites import Kind
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import Layer

_ROWS = 4096  # of a part of the rows, whose activations are in memory together


@dataclass(frozen=True, slots=True, eq=False)
class Flows:
    """Expected counts and statistics of some rows, in float64; those of two parts of the rows add up: `first + second`.

    Attributes:
        counts: How often each entry of a weight of sums, or of a table of states, is expected to be used. They have its
            shape, and the key of its leaf in the state dict. Counts of layers that share a leaf are added.
        statistics: Those of each input layer with a closed form: `{"states": (K, C)}` of a variable of finitely many
            states. Others have sums over rows such as `{"count": (K,), "sum": (K,)}`. Layers that share their leaves
            have the same. A row that lacks a variable adds nothing for it.
        refused: Why other layers that are learned have none, by layer.
        num_rows: The number of rows.
        log_likelihood: The sum of the log-likelihoods of the rows.

    >>> import plica
    >>> from plica.symbolic.layers import BernoulliLayer
    >>> coin = BernoulliLayer([0], 1)
    >>> model = plica.compile(plica.Circuit([coin], {}, [coin]))
    >>> both = flows(model, torch.tensor([[1], [0]])) + flows(model, torch.tensor([[1]]))
    >>> both.num_rows, both.statistics[coin]["states"].tolist()
    (3, [[1.0, 2.0]])
    """

    counts: Mapping[str, Tensor]
    statistics: Mapping[Layer, Mapping[str, Tensor]]
    refused: Mapping[Layer, str]
    num_rows: int
    log_likelihood: float
    _circuit: Circuit

    def __add__(self, other: Flows) -> Flows:
        if not isinstance(other, Flows):
            return NotImplemented
        if other._circuit is not self._circuit:
            raise InputError("flows of two circuits cannot be added; count the rows with one circuit")
        return Flows(
            {key: count + other.counts[key] for key, count in self.counts.items()},
            {
                layer: {name: numbers + other.statistics[layer][name] for name, numbers in sums.items()}
                for layer, sums in self.statistics.items()
            },
            self.refused,
            self.num_rows + other.num_rows,
            self.log_likelihood + other.log_likelihood,
            self._circuit,
        )


def flows(circuit: Any, x: Any) -> Flows:
    """The expected counts of a compiled circuit's weights and states, and expected statistics of its input layers.

    A draw of a row's latent choices, given its known cells, takes a weight with some probability. The count of the
    weight is the sum of these over rows. It is the weight times the derivative of the log-likelihood. Expectation
    maximization divides counts by their totals; pruning removes what is hardly used.

    Args:
        circuit: A compiled circuit of one output of one unit, in the semiring `lse-sum`.
        x: `(N, D)` rows; NaN is missing.

    Raises:
        UnsupportedError: It is no such circuit, or a weight is negative.
        InputError: There are no rows, or a row has probability 0.
        DTypeError: The rows are no numbers.

    Source: Darwiche, "A differential approach to inference in Bayesian networks", 2003.
    """
    expectation = Expectation(circuit)
    rows = to_tensor(x, torch.empty(0, dtype=circuit.dtype, device=circuit.leaves.device))
    if rows.ndim != 2 or not len(rows):
        raise InputError(f"flows: expected rows (N, D), at least one, found shape {tuple(rows.shape)}")
    total: Statistics | None = None
    for part in torch.split(rows, _ROWS):
        statistics = expectation.of(part, waits=True)
        total = statistics if total is None else total + statistics
    assert total is not None, "there is a row"
    counts: dict[str, Tensor] = {}
    by_layer: dict[Layer, Mapping[str, Tensor]] = {}
    keys = circuit.compiled.keys
    for group, sums in zip(expectation.groups, total.groups, strict=True):
        for number, site in enumerate(group.sites):
            own = {name: numbers[number].clone() for name, numbers in sums.items()}
            count = own.get("weight", own.get("states"))
            if count is not None and len(site.tensors) == 1 and count.shape == site.tensors[0].shape:
                counts[keys[site.tensors[0]]] = count
            if group.kind is not Kind.WEIGHT:
                by_layer |= dict.fromkeys(site.layers, own)
    ordered = {key: counts[key] for key in keys.values() if key in counts}
    return Flows(
        ordered, by_layer, expectation.sites.refused, int(total.num_rows), float(total.log_likelihood), circuit.symbolic
    )
