"""Queries that choose: rows of data made up on a walk down, in parts that the memory is enough for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple, final

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.program import QueryProgram, as_described, parts, query_dtype
from plica.backend.torch.queries.rows import device_of
from plica.errors import StructuralPropertyError
from plica.ir.dtypes import as_dtype
from plica.lower.leaves import owners_of
from plica.lower.queries.query import LoweredQuery, Query, lower_query


class Answer(NamedTuple):
    """What a query's Program returns for some rows.

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
        query: What is asked.
        input_dtype: The dtype of the data; None where nothing is known of any variable.
    """

    def __init__(self, circuit: TorchCircuit, query: Query, input_dtype: torch.dtype | None) -> None:
        real = as_dtype(circuit.dtype)
        known = None if input_dtype is None else as_dtype(input_dtype)
        self._query = query
        self._dtype = query_dtype(circuit)
        self.lowered: LoweredQuery = lower_query(
            query,
            as_described(circuit),
            self._dtype,
            input_dtype=known,
            real_dtype=known if known is not None and known.kind == "float" else real,
            owners=owners_of(leaf for leaf, _ in circuit.leaves.items()),
        )
        self.run = QueryProgram((query.name, input_dtype, circuit.dtype), self.lowered, query.chooser.column)

    def rows_at_once(self) -> int:
        """How many rows the memory budget is enough for."""
        return self.run.rows_at_once()

    def leaves(self, circuit: TorchCircuit) -> SimpleNamespace:
        """The circuit's tensors as they are now, under the names and in the dtypes of this Program's variables."""
        return self.run.leaves(circuit)

    def __call__(
        self, circuit: TorchCircuit, size: int, x: Tensor | None, generator: torch.Generator | None = None
    ) -> Answer:
        """The answer for `size` rows.

        Raises:
            StructuralPropertyError: A weight is negative, so that the circuit describes no distribution.
        """
        arguments = [] if x is None else [x]
        if self._query.chooser.draws:
            arguments.insert(0, self._uniforms(size, circuit.leaves.device, generator))
        *answer, invalid = self.run(circuit, *arguments)
        if bool(invalid):
            raise StructuralPropertyError(
                f"{self._query.name} needs weights that are not negative, but a layer has a negative one (or NaN); "
                "square the circuit or keep its weights positive (softmax, for instance)."
            )
        return Answer(*answer)

    def _uniforms(self, size: int, device: torch.device, generator: torch.Generator | None) -> Tensor:
        """`(U, size)`, above 0 and below 1: the same numbers whether rows are drawn at once or in parts."""
        dtype = getattr(torch, self._dtype.value)
        drawn = torch.rand((size, self.lowered.num_uniforms), dtype=dtype, device=device, generator=generator)
        # 0 stands for all numbers below the next one: their middle is no end of any interval
        return drawn.clamp_(min=torch.finfo(dtype).eps / 4).T.contiguous()


def query_of(circuit: TorchCircuit, query: Query, input_dtype: torch.dtype | None) -> TorchQuery:
    """The query of a circuit for data of one dtype, made once for each dtype of the circuit."""
    key = (query.name, input_dtype, circuit.dtype)
    if key not in circuit.queries:
        circuit.queries[key] = TorchQuery(circuit, query, input_dtype)
    found: TorchQuery = circuit.queries[key]
    return found


@torch.no_grad()
def answer(
    circuit: TorchCircuit,
    query: Query,
    size: int,
    x: Tensor | None = None,
    *,
    times: int = 1,
    generator: torch.Generator | None = None,
) -> Answer:
    """The answer for `size` rows, computed in parts that the memory is enough for.

    Args:
        circuit: The circuit.
        query: What is asked.
        size: How many rows come out.
        x: Data; row number r belongs to the rows that come out from `r * times` on.
        times: How many rows come out for each row of data.
        generator: Where random numbers come from.

    Raises:
        UnsupportedError: The circuit is on the meta device.
    """
    device_of(circuit, query.name)
    asked = query_of(circuit, query, None if x is None else x.dtype)
    found = []
    for start, stop in parts(size, asked.rows_at_once()):
        rows = None if x is None else x[torch.arange(start, stop, device=x.device) // times]
        found.append(asked(circuit, stop - start, rows, generator))
    if len(found) == 1:
        return found[0]
    log_value = found[0].log_value if x is None else torch.cat([part.log_value for part in found])
    return Answer(torch.cat([part.rows for part in found]), torch.cat([part.terms for part in found], 1), log_value)
