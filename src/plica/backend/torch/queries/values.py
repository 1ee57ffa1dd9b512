"""Logarithms of a circuit's values and of its total, whatever semiring it was compiled in.

Probabilities are added and multiplied in log space: of numbers of any sign where the circuit's own semiring has these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias, TypeVar, final

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.garbage import without_collection
from plica.backend.torch.logs import is_abstract, safe_log
from plica.backend.torch.queries.program import QueryProgram, as_described, parts, query_dtype, rows_within_budget
from plica.backend.torch.weights import WeightCheck
from plica.errors import InputError
from plica.ir.dtypes import DType, as_dtype
from plica.lower.checks import has_signs
from plica.lower.fold.groups import FoldedCircuit
from plica.lower.leaves import Owners
from plica.lower.queries.likelihood import LOG_LIKELIHOOD
from plica.lower.queries.needs import Needs
from plica.lower.queries.score import Lowered, lower_score
from plica.lower.queries.signs import is_never_negative
from plica.lower.queries.total import lower_total
from plica.symbolic.semirings import Semiring

Item = TypeVar("Item")


def cached(circuit: TorchCircuit, key: tuple[Any, ...], make: Callable[[], Item]) -> Item:
    """The result of `make`, which is called once for a key, a circuit and the dtype of its tensors."""
    key = (*key, circuit.dtype)
    if key not in circuit.queries:
        circuit.queries[key] = make()
    item: Item = circuit.queries[key]
    return item


def check_needs(circuit: TorchCircuit, needs: Needs) -> None:
    """Raise if a circuit cannot answer a query; checked once."""

    def check() -> bool:
        folded = circuit.folded
        needs.check(folded.described, folded.row)
        return True

    cached(circuit, ("needs", needs.name), check)


def carrier_of(circuit: TorchCircuit) -> Semiring:
    """The number format in which the probabilities of a circuit are added and multiplied."""
    return LOG_LIKELIHOOD.needs.carrier(circuit.semiring)


@final
class CarriedProgram:
    """A Program of a circuit in a carrier that need not be the circuit's own.

    Args:
        circuit: The circuit.
        carrier: The number format.
        key: Identifies the Program.
        lower: Lowers it: of the folded circuit, the carrier, the dtype that it computes in, and the leaves.
    """

    @without_collection()
    def __init__(self, circuit: TorchCircuit, carrier: Semiring, key: tuple[Hashable, ...], lower: Lower) -> None:
        own = circuit.semiring.algebra == carrier.algebra
        folded = circuit.folded if own else as_described(circuit)
        lowered = lower(folded, carrier, query_dtype(circuit), circuit.leaves.owners)
        self._weights = WeightCheck(lowered.folded, carrier, lowered.weights)
        self._run = QueryProgram((*key, circuit.dtype), lowered, str(key[0]).replace(" ", "_"))
        self.rows_at_once = self._run.rows_at_once

    def __call__(self, circuit: TorchCircuit, *arguments: Tensor) -> Tensor:
        """The result of the Program.

        Raises:
            UnsupportedError: A weight has become negative, and the carrier has no such numbers.
        """
        self._weights.check(circuit.leaves)
        result: Tensor = self._run(circuit, *arguments)
        return result


Lower: TypeAlias = Callable[[FoldedCircuit, Semiring, DType, Owners], Lowered]


def carried(circuit: TorchCircuit, key: tuple[Hashable, ...], lower: Lower) -> CarriedProgram:
    """A Program of a circuit in the carrier in which its probabilities are added and multiplied, made once."""
    carrier = carrier_of(circuit)
    key = (*key, carrier.name)
    return cached(circuit, key, lambda: CarriedProgram(circuit, carrier, key, lower))


def is_square(circuit: TorchCircuit) -> bool:
    """Whether a circuit has signs, but is known never to be negative."""
    symbolic = circuit.symbolic
    return cached(circuit, ("is square",), lambda: has_signs(symbolic) and is_never_negative(symbolic))


def log_values(circuit: TorchCircuit, x: Tensor) -> Tensor:
    """The logarithms of the values of rows, with what is NaN summed out: `(B,)`, of one output of one unit.

    A square that rounding has made negative is 0. Computed in parts that the memory budget is enough for, where no
    gradients are asked for.
    """
    logs = _log_values(circuit, x)
    return squared_logs(logs) if is_square(circuit) else real_logs(logs)


def _log_values(circuit: TorchCircuit, x: Tensor) -> Tensor:
    """The logarithms of the values of rows, complex ones of numbers with signs."""
    carrier = carrier_of(circuit)
    if carrier is circuit.semiring and query_dtype(circuit) == as_dtype(circuit.dtype):
        return _logs(values(circuit, x)[:, 0, 0], carrier)

    def program(complete: bool) -> CarriedProgram:
        def lower(folded: FoldedCircuit, semiring: Semiring, dtype: DType, leaves: Owners) -> Lowered:
            return lower_score(folded, semiring, dtype, as_dtype(x.dtype), leaves, complete=complete)

        return carried(circuit, ("log values", x.dtype, complete), lower)

    def of_rows(rows: Tensor | None, complete: bool) -> Tensor:
        run = program(complete)
        return in_parts(lambda part: run(circuit, part), run.rows_at_once, x if rows is None else x[rows])

    if not circuit.scope:
        return _logs(program(complete=False)(circuit)[0, 0], carrier).expand(len(x))
    results = circuit.by_completeness(x, of_rows)[:, 0, 0]
    if x.is_cpu and not is_abstract(results) and bool(results.detach().isnan().any()):
        circuit.checked(x, carrier)
    return _logs(results, carrier)


def _logs(results: Tensor, carrier: Semiring) -> Tensor:
    """Results of a carrier as logarithms."""
    return results if carrier.logarithmic else safe_log(results)


def real_logs(logs: Tensor) -> Tensor:
    """Logarithms of positive numbers; NaN where a number is negative, or complex by more than rounding."""
    if not logs.is_complex():
        return logs
    is_positive = logs.imag.detach().abs() <= torch.finfo(logs.real.dtype).eps ** 0.5
    return torch.where(is_positive, logs.real, torch.nan)


def squared_logs(logs: Tensor) -> Tensor:
    """Logarithms of squares: minus infinity where rounding has made a number negative, or complex."""
    positive = real_logs(logs)
    return torch.where(positive.isnan() & logs.real.isnan().logical_not(), -torch.inf, positive)


def values(circuit: TorchCircuit, x: Tensor) -> Tensor:
    """The values of a circuit for rows, `(B, outputs, units)`, in parts as `log_values` computes them.

    Without variables they are equal for all rows.
    """
    if not circuit.scope:
        value: Tensor = circuit()
        return value.repeat(len(x), 1, 1)

    def plan() -> int:
        return rows_within_budget(circuit.lowered(x.dtype).program)

    return in_parts(circuit, lambda: cached(circuit, ("rows", x.dtype), plan), x)


def in_parts(ask: Callable[..., Tensor], rows_at_once: Callable[[], int], *arrays: Tensor) -> Tensor:
    """The results of a function of rows, in parts; at once if gradients are needed, which would keep all parts."""
    count = len(arrays[0])
    rows = max(1, count) if torch.is_grad_enabled() or any(map(is_abstract, arrays)) else rows_at_once()
    results = [ask(*(array[start:stop] for array in arrays)) for start, stop in parts(count, rows)]
    return results[0] if len(results) == 1 else torch.cat(results)


def log_total(circuit: TorchCircuit) -> Tensor:
    """The logarithm of the total of a circuit of one output of one unit, `()`; kept in eval mode.

    Raises:
        InputError: The logarithm is not finite, so that the circuit describes no distribution.
    """
    total = real_logs(carried(circuit, ("log total",), lower_total)(circuit))
    if not is_abstract(total) and not bool(torch.isfinite(total.detach()).all()):
        raise InputError(
            f"the logarithm of the circuit's total is {float(total.detach())}, so it describes no distribution; "
            "check the weights for zeros, negative numbers or NaN."
        )
    return total[0, 0]
