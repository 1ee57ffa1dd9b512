"""Drops the units of a trained circuit that carry least, and copies units: two ways to another size.

Dropping and copying in turn, with training between, finds circuits that use their units better.

>>> import numpy as np
>>> import plica
>>> from plica.templates import hclt
>>> rows = np.random.default_rng(0).integers(2, size=(50, 4))
>>> model = plica.compile(hclt(rows, num_latents=3))
>>> larger = grow(model, 2)
>>> [layer.num_output_units for layer in larger.input_layers]
[6, 6, 6, 6]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from plica.arguments import found, integer, number
from plica.arguments import seed as checked_seed
from plica.errors import DTypeError, InputError
from plica.learn.expected_counts import Flows
from plica.lower.arrays import HasArrays
from plica.lower.leaves import leaf_keys
from plica.symbolic.circuit import Circuit
from plica.symbolic.operators.resizing import Groups, resized, unit_flows
from plica.symbolic.parameters import TensorParameter

Array: TypeAlias = NDArray[Any]

__all__ = ["grow", "prune"]


def prune(model: Any, flows: Flows | Mapping[Any, Any], keep: float) -> Circuit:
    """The circuit without the units that carry least, in each layer the same share, so that layers stay dense.

    Units that are multiplied one by one stay or go together. The rest of a row of weights takes over its dropped
    part: a softmax, and a tensor that is not negative, keep the sum of each row.

    Args:
        model: A compiled circuit; or a circuit whose tensors have arrays as initializers.
        flows: The `Flows` of `plica.learn.flows`. Or expected counts `(O, H*I)` of weights: by sum layer, by the
            tensor of its weight, or by the key of that in the state dict.
        keep: The share of the units of each layer that stay, above 0 and at most 1; at least one unit does.

    Returns:
        A new circuit; initializers of its tensors hold their values.

    Raises:
        InputError: `keep` is no share, flows are missing or negative, or no unit can go.
        ShapeError: Flows of another shape than the weight.
        DTypeError: Flows are neither `Flows` nor a mapping.

    Source: Dang, Liu and Van den Broeck, "Sparse Probabilistic Circuits via Pruning and Growing", NeurIPS 2022,
        algorithm 1, for whole units.
    """
    share = number("prune", "keep", keep)
    if not 0.0 < share <= 1.0:
        raise InputError(f"prune: keep must be above 0 and at most 1, found {share}; 0.5 keeps half of the units")
    given = flows.counts if isinstance(flows, Flows) else flows
    if not isinstance(given, Mapping):
        raise DTypeError(f"prune: flows must be those of plica.learn.flows, or a mapping, {found(flows)}")
    counts = {key: count.cpu() if isinstance(count, Tensor) else count for key, count in given.items()}
    circuit, values = _with_values("prune", model)
    groups = Groups(circuit)
    keys = leaf_keys(circuit)
    totals = unit_flows(groups, {**{leaf: counts[key] for leaf, key in keys.items() if key in counts}, **counts})

    def units_of(group: int) -> Array:
        count = max(math.ceil(share * len(totals[group]) - 1e-9), 1)
        return np.sort(np.argsort(-totals[group], kind="stable")[:count])

    return resized(groups, units_of, values)


def grow(model: Any, factor: int, noise: float = 0.1, *, seed: int = 0) -> Circuit:
    """The circuit with several copies of each unit, which share what the unit had; outputs keep their units.

    Without noise it is the same function. Copies that are equal learn the same, so noise makes them differ.

    Args:
        model: A compiled circuit; or a circuit whose tensors have arrays as initializers.
        factor: The number of copies.
        noise: The standard deviation of normal draws that are added to the logarithms of weights, and to those of
            positive numbers of input layers. Rows of weights keep their sums.
        seed: The seed of these draws.

    Returns:
        A new circuit; initializers of its tensors hold their values.

    Raises:
        InputError: The noise is negative or not finite, or no unit can be copied.
        ShapeError: The factor is below 1.

    Source: as of `prune`, algorithm 2.
    """
    copies = integer("grow", "factor", factor, least=1)
    deviation = number("grow", "noise", noise)
    if not 0.0 <= deviation < math.inf:
        raise InputError(f"grow: noise must be at least 0 and finite, found {deviation}; 0.1 is a good start")
    circuit, values = _with_values("grow", model)

    groups = Groups(circuit)

    def units_of(group: int) -> Array:
        return np.tile(np.arange(groups.members[group][0].num_output_units), copies)

    return resized(groups, units_of, values, noise=deviation, seed=checked_seed("grow", seed))


def _with_values(name: str, model: Any) -> tuple[Circuit, dict[TensorParameter, Array]]:
    """The circuit of a model, and the values of its tensors."""
    if isinstance(model, Circuit):
        return model, {}
    if not isinstance(model, HasArrays):
        raise DTypeError(f"{name}: expected a compiled circuit, or a Circuit, {found(model)}")
    arrays = model.arrays()
    values = {member: array[fold] for leaf, array in arrays.leaves for fold, member in enumerate(leaf.members)}
    return arrays.compiled.symbolic, values
