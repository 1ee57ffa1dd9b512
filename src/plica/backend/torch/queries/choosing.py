"""Queries that choose: rows of data made up on a walk down, in parts that the memory is enough for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple, final

import torch
from torch import Tensor

from plica.backend.torch.cascade import computed_again, rows_without
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.garbage import without_collection
from plica.backend.torch.queries.program import QueryProgram, as_described, parts, query_dtype
from plica.backend.torch.queries.rows import device_of, refuse_signs, whole_layers
from plica.backend.torch.queries.values import cached
from plica.ir.dtypes import as_dtype
from plica.lower.queries.choosing import LoweredChoices, lower_choices
from plica.lower.queries.query import Choosing, Query
from plica.symbolic.semirings import Bound, Semiring

_SHARE = 4  # of the budget, which many arrays that are read once each leave for those of one layer
_ROW_BY_ROW_FROM = 2**19  # activations of the rows made up for one row of data: below, calls for each cost more


class Answer(NamedTuple):
    """The results of a query's Program for some rows.

    Args:
        rows: `(B, D)`.
        terms: `(S, B)`, the chosen term of each sum layer, or -1.
        log_value: `(B,)`, or `(1,)` where nothing is known of any row.
    """

    rows: Tensor
    terms: Tensor
    log_value: Tensor


@final
class TorchQuery:
    """A query of one circuit for data of one dtype, lowered and emitted.

    Numbers are float32 at least: logarithms of float16 do not tell apart what a sum chooses between.

    Args:
        circuit: The circuit.
        query: The query.
        input_dtype: The dtype of the data; None where nothing is known of any variable.
        semiring: The number format, if not that of the query.
        one_row: Whether data is one row that all rows that are made up complete.
    """

    @without_collection()
    def __init__(
        self,
        circuit: TorchCircuit,
        query: Query[Choosing],
        input_dtype: torch.dtype | None,
        semiring: Semiring | None = None,
        *,
        one_row: bool = False,
    ) -> None:
        real = as_dtype(circuit.dtype)
        known = None if input_dtype is None else as_dtype(input_dtype)
        self._query = query
        self._dtype = query_dtype(circuit)
        self.lowered: LoweredChoices = lower_choices(
            query,
            as_described(circuit),
            self._dtype,
            input_dtype=known,
            real_dtype=known if known is not None and known.kind == "float" else real,
            owners=circuit.leaves.owners,
            semiring=semiring,
            one_row=one_row,
        )
        carrier = (semiring or query.policy.semiring).name
        self._has_bound = semiring is not None and semiring.proven is not None
        self.run = QueryProgram(
            (query, carrier, input_dtype, one_row, circuit.dtype), self.lowered, query.policy.chooser.column
        )

    def rows_at_once(self) -> int:
        """How many rows a share of the memory budget is enough for: more at once take more time, not less."""
        return max(1, self.run.rows_at_once() // _SHARE)

    def leaves(self, circuit: TorchCircuit) -> SimpleNamespace:
        """The circuit's tensors as they are now, under the names and in the dtypes of this Program's variables."""
        return self.run.leaves(circuit)

    def __call__(
        self, circuit: TorchCircuit, x: Tensor | None, uniforms: Tensor | None
    ) -> tuple[Answer, Tensor | None]:
        """The answer for some rows, and for which a bound holds, if they have some; `uniforms` where it draws.

        Raises:
            StructuralPropertyError: A weight is negative, so that the circuit describes no distribution.
        """
        results = list(self.run(circuit, *(argument for argument in (uniforms, x) if argument is not None)))
        holds = results.pop() if self._has_bound else None
        *answer, invalid = results
        if bool(invalid):
            refuse_signs(self._query.function, self._query.name)
        return Answer(*answer), holds

    def uniforms(self, size: int, device: torch.device, generator: torch.Generator | None) -> Tensor | None:
        """`(U, size)`, above 0 and below 1: the same numbers whether rows are drawn at once or in parts."""
        if not self._query.policy.chooser.draws:
            return None
        dtype = getattr(torch, self._dtype.value)
        drawn = torch.rand((size, self.lowered.num_uniforms), dtype=dtype, device=device, generator=generator)
        # 0 stands for all numbers below the next one: their middle is no end of any interval
        return drawn.clamp_(min=torch.finfo(dtype).eps / 4).T.contiguous()


def query_of(
    circuit: TorchCircuit,
    query: Query[Choosing],
    input_dtype: torch.dtype | None,
    semiring: Semiring | None = None,
    *,
    one_row: bool = False,
) -> TorchQuery:
    """The query of a circuit for data of one dtype, made once for each dtype of the circuit."""
    key = (query, input_dtype, None if semiring is None else semiring.name, one_row)
    return cached(circuit, key, lambda: TorchQuery(circuit, query, input_dtype, semiring, one_row=one_row))


@torch.no_grad()
def choose(
    circuit: TorchCircuit,
    query: Query[Choosing],
    size: int,
    x: Tensor | None = None,
    *,
    times: int = 1,
    generator: torch.Generator | None = None,
) -> Answer:
    """`size` rows that a query makes up, computed in parts that the memory is enough for.

    Many rows for one row of data are made up as rows without data are, once that row is scored. Otherwise each row has
    its own weights at every sum: on the CPU large batches are computed in scaled numbers first, and again in logarithms
    for rows whose bound fails.

    Args:
        circuit: The circuit.
        query: The query.
        size: How many rows come out.
        x: Data; row number r belongs to the rows that come out from `r * times` on.
        times: How many rows come out for each row of data.
        generator: Where random numbers come from.

    Raises:
        UnsupportedError: The circuit is on the meta device.
    """
    device = device_of(circuit, query.name)
    if x is None:
        free = query_of(circuit, query, None)
        return _joined(
            [
                free(circuit, None, free.uniforms(stop - start, device, generator))[0]
                for start, stop in parts(size, free.rows_at_once())
            ],
            alike=True,
        )
    if query.policy.chooser.draws and times * circuit.compiled.work.total >= _ROW_BY_ROW_FROM:
        single = query_of(circuit, query, x.dtype, one_row=True)
        answers = []
        for row in (x[number : number + 1] for number in range(len(x))):
            for start, stop in parts(times, single.rows_at_once()):
                answer = single(circuit, row, single.uniforms(stop - start, device, generator))[0]
                answers.append(answer._replace(log_value=answer.log_value.expand(stop - start)))
        if answers:
            return _joined(answers)
    stage = circuit.stages(query.policy.semiring, x, size)[0]
    first = query_of(circuit, query, x.dtype, None if stage.bound is Bound.NONE else stage.semiring)
    answers = []
    for start, stop in parts(size, first.rows_at_once()):
        rows = x[torch.arange(start, stop, device=x.device) // times]
        uniforms = first.uniforms(stop - start, device, generator)
        answer, holds = first(circuit, rows, uniforms)
        if holds is not None:
            exact = partial(_exact, circuit, query, rows, uniforms)
            answer = Answer(*computed_again(answer, (0, 1, 0), rows_without(holds), exact))
        answers.append(answer)
    return _joined(answers)


def complete(circuit: TorchCircuit, query: Query[Choosing], x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows with what is missing filled in `(B, D)`, and the logarithms of their values `(B,)`, without chance."""
    x = whole_layers(circuit, query.needs, x)
    answer = choose(circuit, query, len(x), x)
    return answer.rows, answer.log_value


def _exact(circuit: TorchCircuit, query: Query[Choosing], x: Tensor, uniforms: Tensor | None, rows: Tensor) -> Answer:
    exact = query_of(circuit, query, x.dtype)
    return exact(circuit, x[rows], None if uniforms is None else uniforms[:, rows])[0]


def _joined(answers: Sequence[Answer], *, alike: bool = False) -> Answer:
    """The answers for all rows; where nothing is known of any, they have one value."""
    if len(answers) == 1:
        return answers[0]
    log_value = answers[0].log_value if alike else torch.cat([answer.log_value for answer in answers])
    return Answer(
        torch.cat([answer.rows for answer in answers]), torch.cat([answer.terms for answer in answers], 1), log_value
    )
