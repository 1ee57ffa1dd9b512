"""The covariance of variables, by the Program of `lower/queries/covariance.py`.

That Program gives the integral of a circuit times distances `x_i - a_i` from a reference `a`, for one variable or for a
pair of them. This module runs it for each row of data with each variable and each pair, and joins the results.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from plica.arguments import elements
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.expected import read_off
from plica.backend.torch.queries.program import QueryProgram, as_described, parts, query_dtype
from plica.backend.torch.queries.rows import check_known, device_of, integer, whole_layers
from plica.backend.torch.queries.values import cached, log_values
from plica.errors import InputError
from plica.lower.queries.covariance import COVARIANCE, check_covariance, lower_products
from plica.lower.queries.expect import MEAN


@torch.no_grad()
def covariance(circuit: TorchCircuit, variables: Iterable[int], x: Tensor | None) -> Tensor:
    """See `plica.queries.covariance`."""
    device = device_of(circuit, COVARIANCE.name)
    described = circuit.folded.described
    COVARIANCE.needs.check_layers(described, circuit.folded.row, described.live.inner_layers)
    chosen = _variables(circuit, variables)
    # this comes before checks of rows, whose errors would name missing entries as the cause
    cached(circuit, ("needs", COVARIANCE.name, *chosen), lambda: check_covariance(as_described(circuit), chosen))
    dtype = getattr(torch, query_dtype(circuit).value)
    if x is None:
        all_missing = torch.full((1, max(circuit.scope, default=-1) + 1), torch.nan, dtype=torch.float64, device=device)
        return covariance(circuit, chosen, all_missing)[0]
    x = whole_layers(circuit, COVARIANCE.needs, x)
    if not chosen:
        return torch.zeros((len(x), 0, 0), dtype=dtype, device=device)

    def make_program() -> QueryProgram:
        lowered = lower_products(as_described(circuit), chosen, circuit.leaves.owners)
        return QueryProgram((*key, circuit.dtype), lowered, "covariance")

    key = (COVARIANCE.name, *chosen)
    program = cached(circuit, key, make_program)
    log_value = log_values(circuit, x).double()
    check_known(log_value, 1, "no covariance")
    reference = read_off(circuit, MEAN, x).double()
    count = len(chosen)
    left, right = torch.tril_indices(count, count, device=device)
    indices = torch.tensor(chosen, device=device)
    first = torch.cat([indices, indices[left]])  # each variable alone, and then each pair
    second = torch.cat([torch.full_like(indices, -1), indices[right]])  # -1 where there is no second variable
    means = _mean_products(circuit, program, x.double(), reference, log_value, first, second)
    single, pairs = means[:, :count], means[:, count:]
    covariances = x.new_zeros((len(x), count, count), dtype=torch.float64)
    covariances[:, left, right] = covariances[:, right, left] = pairs - single[:, left] * single[:, right]
    return covariances.to(dtype)


def _mean_products(
    circuit: TorchCircuit,
    program: QueryProgram,
    x: Tensor,
    reference: Tensor,
    log_value: Tensor,
    first: Tensor,
    second: Tensor,
) -> Tensor:
    """The mean of each product of distances for each row of data, `(R, P)`; run in parts within the memory budget."""
    num_products = len(first)
    means = []
    for start, stop in parts(len(x) * num_products, program.rows_at_once()):
        runs = torch.arange(start, stop, device=x.device)
        row, product = runs // num_products, runs % num_products
        direction, size = program(circuit, x[row], reference[row], first[product], second[product])
        ratio = torch.exp(size - log_value[row])  # infinite for a direction of 0, of which no size is read
        means.append(torch.where(direction == 0, 0.0, direction * ratio))
    return torch.cat(means).reshape(len(x), num_products)


def _variables(circuit: TorchCircuit, variables: Iterable[int]) -> tuple[int, ...]:
    """The variables that a call names, each checked to be one of the circuit's."""
    names = elements(COVARIANCE.name, "variables", variables)
    for variable in names:
        if integer(f"{COVARIANCE.name} of variable {variable!r}: it", variable) not in circuit.scope:
            raise InputError(
                f"{COVARIANCE.name} of variable {variable!r}: the circuit has the variables {circuit.scope!s}; name "
                "some of these."
            )
    return tuple(map(int, names))
