"""Samples and completions: see `plica.queries.sample`."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.choosing import choose, query_of
from plica.backend.torch.queries.rows import (
    check_known,
    check_total,
    circuit_of,
    count,
    device_of,
    integer,
    whole_layers,
)
from plica.backend.torch.queries.values import is_square
from plica.backend.torch.sources import untraced
from plica.errors import UnsupportedError
from plica.ir.program import Program
from plica.lower.queries.query import Choosing, Query
from plica.lower.queries.sample import SAMPLING


def draw(
    circuit: TorchCircuit, query: Query[Choosing], n: int = 1, given: Tensor | None = None, seed: int | None = None
) -> Tensor:
    """Rows that a query draws, or completions of rows: see `plica.queries.sample`."""
    number = count("n", n)
    device = device_of(circuit, query.name)
    generator = None if seed is None else torch.Generator(device).manual_seed(integer("seed", seed) % 2**64)
    if given is None:
        answer = choose(circuit, query, number, generator=generator)
        check_total(answer.log_value)
        return answer.rows
    x = whole_layers(circuit, query.needs, given)
    answer = choose(circuit, query, len(x) * number, x, times=number, generator=generator)
    check_known(answer.log_value, number)
    return answer.rows


@final
class SamplingQuery:
    """Draws exact, independent samples from the distribution that a circuit describes (normalized or not).

    Args:
        circuit: Smooth and decomposable, with one output of one unit.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        ShapeError: More than one output or unit.
        UnsupportedError: A layer does not say how it is sampled, or the circuit is made of squares.
    """

    def __init__(self, circuit: TorchCircuit) -> None:
        self._circuit = circuit_of("SamplingQuery", circuit)
        if is_square(self._circuit):
            raise UnsupportedError(
                "SamplingQuery gives the terms that sums choose, and the sums of squares choose none; ask for samples "
                "alone: plica.queries.sample(circuit, n)."
            )
        query_of(circuit, SAMPLING, None)

    @property
    def program(self) -> Program:
        """The Program: uniform numbers `(U, N)` in; samples, choices, log-partition and a flag out."""
        return query_of(self._circuit, SAMPLING, None).lowered.program

    @untraced
    def __call__(
        self, num_samples: int = 1, *, generator: torch.Generator | None = None
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """Samples and the choices that led to them.

        Args:
            num_samples: N, at least 0.
            generator: Where the random numbers come from; torch's own for the device by default.

        Returns:
            Samples `(N, D)`, column v is variable v (int64 if every variable has states), and for each sum layer, by
            topological index, the column of its weight that was picked (`(N,)`; the input for a mixing layer), or -1
            where the sample did not come by.

        Raises:
            InputError: `num_samples` is negative, or the circuit's total is zero or not finite.
            StructuralPropertyError: A weight is negative, so that the circuit describes no distribution.
        """
        answer = choose(self._circuit, SAMPLING, count("num_samples", num_samples), generator=generator)
        check_total(answer.log_value)
        sums = query_of(self._circuit, SAMPLING, None).lowered.sums
        return answer.rows, dict(zip(sums, answer.terms, strict=True))
