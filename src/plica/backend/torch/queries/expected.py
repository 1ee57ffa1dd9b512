"""Expectations of variables and of choices, given rows: see `plica.queries.posterior` and its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, final

import torch
from torch import Tensor

from plica.backend.torch.cascade import computed_again, rows_without
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.program import QueryProgram, as_described, parts, query_dtype
from plica.backend.torch.queries.rows import check_known, device_of, floating, refuse_signs, whole_layers
from plica.backend.torch.queries.values import cached
from plica.errors import UnsupportedError
from plica.ir.dtypes import as_dtype
from plica.lower.queries.answers import Posterior
from plica.lower.queries.expect import LATENTS, POSTERIOR
from plica.lower.queries.flowing import LoweredFlows, lower_flows
from plica.lower.queries.query import Flowing, Query
from plica.symbolic.semirings import LSE_SUM, Semiring


@final
class FlowProgram:
    """A query of the flows of one circuit, for data of one dtype, lowered and emitted.

    Args:
        circuit: The circuit.
        query: The query.
        input_dtype: The dtype of the data, which is floating.
        semiring: The number format.
    """

    def __init__(
        self, circuit: TorchCircuit, query: Query[Flowing], input_dtype: torch.dtype, semiring: Semiring
    ) -> None:
        self.query, self._semiring = query, semiring
        settings = (query_dtype(circuit), as_dtype(input_dtype), circuit.leaves.owners, semiring)
        self.lowered: LoweredFlows = _lowered(query, circuit, *settings)
        self.run = QueryProgram((query, semiring.name, input_dtype, circuit.dtype), self.lowered, "flows")

    def __call__(self, circuit: TorchCircuit, x: Tensor) -> tuple[Sequence[Tensor], Tensor | None]:
        """The results for some rows, last the logarithms of their values, and the rows for which a bound holds.

        Raises:
            StructuralPropertyError: A weight is negative, so that the circuit describes no distribution.
        """
        results = list(self.run(circuit, x))
        holds = results.pop() if self._semiring.proven is not None else None
        invalid = results.pop()
        if bool(invalid):
            refuse_signs(self.query.function, self.query.name)
        return results, holds


def _exact(circuit: TorchCircuit, query: Query[Flowing], x: Tensor, rows: Tensor) -> Sequence[Tensor]:
    return _program(circuit, query, x.dtype, LSE_SUM)(circuit, x[rows])[0]


def _lowered(query: Query[Flowing], circuit: TorchCircuit, *settings: Any) -> LoweredFlows:
    """The Program of derivatives of the optimized circuit, if these answer, or of flows of the described one."""
    *_, semiring = settings
    if not (semiring.logarithmic or query.policy.of_sums):
        with suppress(UnsupportedError):
            return lower_flows(query, circuit.folded, *settings, by_derivatives=True)
    return lower_flows(query, as_described(circuit), *settings)


def _program(circuit: TorchCircuit, query: Query[Flowing], dtype: torch.dtype, semiring: Semiring) -> FlowProgram:
    """The Program of a query, made once for each dtype of the circuit."""
    return cached(circuit, (query, semiring.name, dtype), lambda: FlowProgram(circuit, query, dtype, semiring))


@torch.no_grad()
def read_flows(
    circuit: TorchCircuit,
    query: Query[Flowing],
    x: Tensor,
    keep: Callable[[list[Tensor]], list[Tensor]] = list,
    otherwise: str = "nothing to be expected of the rest",
) -> tuple[LoweredFlows, list[Tensor]]:
    """The results of a query for checked rows, in parts that fit the memory.

    On the CPU large batches are computed in scaled numbers first, and again in logarithms for rows whose bound fails.

    Args:
        circuit: The circuit.
        query: The query.
        x: The rows.
        keep: Chooses results of a part; the axis of rows stays where the query has it.
        otherwise: The end of the message about a row of probability zero.
    """
    x = floating(x)
    program = _program(circuit, query, x.dtype, circuit.stages(LSE_SUM, x)[0].semiring)
    rows, joined, logs = program.run.rows_at_once(), [], []
    for start, stop in parts(len(x), rows):
        part = x[start:stop]
        answers, holds = program(circuit, part)
        if holds is not None:
            axes = [*[query.policy.rows] * (len(answers) - 1), 0]
            exact = partial(_exact, circuit, query, part)
            answers = computed_again(answers, axes, rows_without(holds), exact)
        *results, log_value = answers
        results = keep(results)
        if not start:
            joined = results if stop == len(x) else [_longer(result, query.policy.rows, len(x)) for result in results]
        if joined is not results:
            for array, result in zip(joined, results, strict=True):
                array.narrow(query.policy.rows, start, stop - start).copy_(result)
        logs.append(log_value)
    check_known(torch.cat(logs), 1, otherwise)
    return program.lowered, joined


def _longer(array: Tensor, axis: int, size: int) -> Tensor:
    """An array of another size along one axis, whose numbers are not set."""
    return array.new_empty((*array.shape[:axis], size, *array.shape[axis + 1 :]))


def posterior(circuit: TorchCircuit, x: Tensor) -> Posterior:
    """See `plica.queries.posterior`."""
    device_of(circuit, POSTERIOR.name)
    x = whole_layers(circuit, POSTERIOR.needs, x)
    lowered, results = read_flows(circuit, POSTERIOR, x)
    _write_known(results[0], floating(x), lowered.states)
    return Posterior(*results)


def _write_known(probabilities: Tensor, x: Tensor, variables: Sequence[int]) -> None:
    """Overwrite the zeros of known variables with a probability of 1 at their category."""
    known = x.isnan().logical_not_()
    if len(variables) < x.shape[1]:
        known[:, sorted({*range(x.shape[1])}.difference(variables))] = False
    row, variable = known.nonzero(as_tuple=True)
    if len(row):
        to_row, to_variable, to_state = probabilities.stride()
        offsets = row * to_row + variable * to_variable + x[row, variable].long() * to_state
        sizes = zip(probabilities.shape, probabilities.stride(), strict=True)
        span = 1 + sum((size - 1) * step for size, step in sizes)  # of memory, from the first entry to the last
        probabilities.as_strided((span,), (1,)).index_fill_(0, offsets, 1.0)


def read_off(circuit: TorchCircuit, query: Query[Flowing], x: Tensor) -> Any:
    """The results of a query of flows for rows: one array, or a tuple of several."""
    device_of(circuit, query.name)
    results = read_flows(circuit, query, whole_layers(circuit, query.needs, x))[1]
    return results[0] if len(results) == 1 else tuple(results)


def latent_posterior(circuit: TorchCircuit, x: Tensor) -> dict[int, Tensor]:
    """See `plica.queries.latent_posterior`."""
    device_of(circuit, LATENTS.name)
    lowered, results = read_flows(circuit, LATENTS, circuit.checked(x, LATENTS.needs.carrier(circuit.semiring)))
    terms_of = {
        index: terms
        for indices, group in zip(lowered.sums, results, strict=True)
        for index, terms in zip(indices, group, strict=True)
    }
    for index, count in lowered.unread:
        terms_of[index] = torch.zeros(
            (len(x), count), dtype=results[0].dtype if results else circuit.dtype, device=x.device
        )
    return dict(sorted(terms_of.items()))
