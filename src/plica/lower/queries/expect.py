"""Questions about missing entries of rows: their distribution, mean and variance, and the terms that sums choose.

>>> import torch
>>> import plica
>>> from plica.symbolic.layers import CategoricalLayer
>>> from plica.symbolic.parameters import ConstantParameter
>>> layer = CategoricalLayer([0], 1, num_categories=3, probs=ConstantParameter(1, 3, value=[[0.5, 0.25, 0.25]]))
>>> circuit = plica.compile(plica.Circuit([layer], {}, [layer]))
>>> x = torch.tensor([[torch.nan], [2.0]])
>>> posterior(circuit, x).probabilities.squeeze(1).tolist()
[[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]]
>>> mean(circuit, x).squeeze(1).tolist(), variance(circuit, x).squeeze(1).tolist()
([0.75, 2.0], [0.6875, 0.0])

Each takes rows `(R, D)` with NaN in place of missing entries, which may differ from row to row. It answers for all
variables in one upward and one downward pass. Means and variances of variables with states are of the states' numbers.
"""

from __future__ import annotations

from typing import Any

from plica.lower.queries.answers import Posterior
from plica.lower.queries.posterior import Reading, with_states
from plica.lower.queries.query import Flowing, Query, ask
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


def posterior(circuit: Any, x: Any) -> Posterior:
    """The distribution of each missing variable, given the rest of its row.

    Args:
        circuit: A compiled circuit.
        x: Rows `(R, D)`; NaN where an entry is missing.

    Returns:
        Probabilities of states `(R, D, C)`, and mean and standard deviation `(R, D)` of variables without states: see
        `Posterior`.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable, or has negative weights.
        ShapeError: More than one output or unit.
        InputError: A row does not fit the circuit, has some but not all variables of a layer that needs all, or has a
            probability that is zero or not finite.
        UnsupportedError: A layer without states does not define its mean or its variance.
    """
    answer: Posterior = ask(circuit, "posterior", x)
    return answer


def latent_posterior(circuit: Any, x: Any) -> dict[int, Any]:
    """For each sum layer the probability of each of its terms, given the known entries of a row.

    Args:
        circuit: A compiled circuit.
        x: Rows `(R, D)`; NaN where an entry is missing.

    Returns:
        By topological index of the layer, `(R, N)`: the probability that a sampled completion of the row reaches the
        layer and takes term n, of any of its units. Terms are columns of the weight (inputs for a mixing layer), as in
        the choices of `SamplingQuery`. They add up to the probability that a sample reaches the layer.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable, or has negative weights.
        ShapeError: More than one output or unit.
        InputError: A row does not fit the circuit, or has a probability that is zero or not finite.
    """
    answer: dict[int, Any] = ask(circuit, "latent_posterior", x)
    return answer


def mean(circuit: Any, x: Any) -> Any:
    """The mean of each variable, given the known entries of its row: `(R, D)`.

    Args:
        circuit: A compiled circuit.
        x: Rows `(R, D)`; NaN where an entry is missing. A known entry is its own mean. A row of NaN gives the means of
            the distribution itself.

    Raises:
        StructuralPropertyError, ShapeError, InputError: As for `posterior`.
        UnsupportedError: A layer without states does not define its mean.
    """
    return ask(circuit, "mean", x)


def variance(circuit: Any, x: Any) -> Any:
    """The variance of each variable, given the known entries of its row: `(R, D)`, 0 for these.

    Args and errors are those of `mean`; layers without states must define their variance too.
    """
    return ask(circuit, "variance", x)


def _posterior(reading: Reading) -> list[Tracer]:
    states = with_states(reading.scope.folded.described)
    reals = [variable for variable in reading.scope.folded.described.scope if variable not in states]
    variance = reading.variance(reals)
    return [reading.probabilities(), reading.mean(reals), xp.sqrt(variance) if reals else variance]


def _terms(reading: Reading) -> list[Tracer]:
    return [terms for _, terms in reading.flows.terms]


POSTERIOR = Query(posterior, "the posterior", Flowing(_posterior, ("mean", "variance")), driver="expected")
LATENTS = Query(
    latent_posterior, "the posterior of latent variables", Flowing(_terms, rows=1, of_sums=True), driver="expected"
)
MEAN = Query(mean, "the mean", Flowing(lambda reading: [reading.mean()], ("mean",)))
VARIANCE = Query(variance, "the variance", Flowing(lambda reading: [reading.variance()], ("mean", "variance")))
