"""Answers of queries that are several arrays, of the library that the circuit was compiled for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

from plica.notebooks import table_html

_MOST_LINES, _MOST_STATES = 100, 5  # that a notebook shows

Array: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Posterior:
    """The distribution of each variable, given the rest of its row.

    Args:
        probabilities: `(B, D, C)`, of each state of each variable that has states: zeros beyond its own number of
            states, and for all other variables. A variable that is known has its state with probability 1.
        mean: `(B, D)`, of each variable that has no states; a known entry is its own mean. NaN for missing entries
            of variables with states, and of columns that no layer reads.
        stddev: `(B, D)`, its standard deviation; 0 for known entries.

    >>> import plica, torch
    >>> from plica.symbolic.layers import BernoulliLayer
    >>> from plica.symbolic.parameters import ConstantParameter
    >>> coin = BernoulliLayer([0], 1, probs=ConstantParameter(1, value=[0.25]))
    >>> circuit = plica.compile(plica.Circuit([coin], {}, [coin]))
    >>> plica.queries.posterior(circuit, torch.tensor([[torch.nan], [1.0]])).probabilities[:, 0]
    tensor([[0.7500, 0.2500],
            [0.0000, 1.0000]])
    """

    probabilities: Array
    mean: Array
    stddev: Array

    def _repr_html_(self) -> str:
        """A table for notebooks: a line for each variable of the first rows, with its most probable states."""
        rows, variables = self.mean.shape
        shown = [(row, variable) for row in range(rows) for variable in range(variables)][:_MOST_LINES]
        lines = [self._line(row, variable) for row, variable in shown]
        if len(shown) < rows * variables:
            lines.append((f"and {rows * variables - len(shown):,} more", "", "", "", ""))
        return table_html(("row", "variable", "most probable states", "mean", "standard deviation"), lines)

    def _line(self, row: int, variable: int) -> tuple[int | str, ...]:
        shares = self.probabilities[row, variable].tolist()
        likely = sorted(range(len(shares)), key=lambda state: -shares[state])[:_MOST_STATES]
        numbers = (float(values[row, variable]) for values in (self.mean, self.stddev))
        return (
            row,
            variable,
            ", ".join(f"{state}: {shares[state]:.3g}" for state in likely if shares[state] > 0),
            *("" if math.isnan(number) else f"{number:.4g}" for number in numbers),
        )


@dataclass(frozen=True, slots=True)
class Explanations:
    """The completions that max-product decoding finds, and how far from the most probable ones they may be.

    All values are logarithms of the circuit's values; they are probabilities only if the circuit is normalized.
    For each row `log_values <= found <= the value of the most probable completion <= upper`.

    Args:
        rows: `(B, D)`, the completions.
        log_values: `(B,)`, the max-product value: of a completion together with the terms that sums chose for it.
        found: `(B,)`, the value of a completion itself.
        upper: `(B,)`, an upper bound of the values of all completions.
        is_exact: Whether constants prove that the circuit is deterministic. Then the completions are the most probable
            ones, and `found` and `upper` are equal up to rounding.

    >>> import plica, torch
    >>> from plica.symbolic.layers import BernoulliLayer, SumLayer
    >>> from plica.symbolic.parameters import ConstantParameter
    >>> coins = BernoulliLayer([0], 2, probs=ConstantParameter(2, value=[0.25, 0.5]))
    >>> mix = SumLayer(2, 1, weight=ConstantParameter(1, 2, value=[[0.5, 0.5]]))
    >>> circuit = plica.compile(plica.Circuit([coins, mix], {mix: [coins]}, [mix]))
    >>> answer = plica.queries.mpe_bounds(circuit, torch.tensor([[torch.nan]]))
    >>> answer.rows, answer.found.exp(), answer.gap
    (tensor([[0]]), tensor([0.6250]), tensor([0.]))
    """

    rows: Array
    log_values: Array
    found: Array
    upper: Array
    is_exact: bool

    @property
    def gap(self) -> Array:
        """`(B,)`, an upper bound of how much the largest logarithm exceeds that of the completion."""
        return self.upper - self.found
