"""Covariances of variables: see `plica.queries.covariance`."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from plica.arguments import elements
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.expected import read_off
from plica.backend.torch.queries.program import QueryProgram, as_described, parts, query_dtype
from plica.backend.torch.queries.rows import check_known, device_of, integer, whole_layers
from plica.backend.torch.queries.values import log_values, once
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
    # before what is missing in rows is said to be at fault
    once(circuit, ("needs", COVARIANCE.name, *chosen), lambda: check_covariance(as_described(circuit), chosen))
    dtype = getattr(torch, query_dtype(circuit).value)
    if x is None:
        given = torch.full((1, max(circuit.scope, default=-1) + 1), torch.nan, dtype=torch.float64, device=device)
        return covariance(circuit, chosen, given)[0]
    x = whole_layers(circuit, COVARIANCE.needs, x)
    if not chosen:
        return torch.zeros((len(x), 0, 0), dtype=dtype, device=device)

    def program() -> QueryProgram:
        lowered = lower_products(as_described(circuit), chosen, circuit.leaves.owners)
        return QueryProgram((*key, circuit.dtype), lowered, "covariance")

    key = (COVARIANCE.name, *chosen)
    run = once(circuit, key, program)
    log_value = log_values(circuit, x).double()
    check_known(log_value, 1, "no covariance")
    reference = read_off(circuit, MEAN, x).double()
    number = len(chosen)
    left, right = torch.tril_indices(number, number, device=device)
    numbers = torch.tensor(chosen, device=device)
    first = torch.cat([numbers, numbers[left]])  # a row for each variable, and then for each pair
    second = torch.cat([torch.full_like(numbers, -1), numbers[right]])
    means = _expected(circuit, run, x.double(), reference, log_value, first, second)
    single, pairs = means[:, :number], means[:, number:]
    covariances = x.new_zeros((len(x), number, number), dtype=torch.float64)
    covariances[:, left, right] = covariances[:, right, left] = pairs - single[:, left] * single[:, right]
    return covariances.to(dtype)


def _expected(
    circuit: TorchCircuit,
    run: QueryProgram,
    x: Tensor,
    reference: Tensor,
    log_value: Tensor,
    first: Tensor,
    second: Tensor,
) -> Tensor:
    """The means of products of distances, `(R, P)`, in parts that the memory is enough for."""
    number = len(first)
    means = []
    for start, stop in parts(len(x) * number, run.rows_at_once()):
        places = torch.arange(start, stop, device=x.device)
        row, pair = places // number, places % number
        direction, size = run(circuit, x[row], reference[row], first[pair], second[pair])
        means.append(direction * torch.exp(size - log_value[row]))
    return torch.cat(means).reshape(len(x), number)


def _variables(circuit: TorchCircuit, variables: Iterable[int]) -> tuple[int, ...]:
    names = elements(COVARIANCE.name, "variables", variables)
    for variable in names:
        if integer(f"{COVARIANCE.name} of variable {variable!r}: it", variable) not in circuit.scope:
            raise InputError(
                f"{COVARIANCE.name} of variable {variable!r}: the circuit has the variables {circuit.scope!s}; name "
                "some of these."
            )
    return tuple(map(int, names))
