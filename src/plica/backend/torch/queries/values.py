"""Logarithms of a circuit's values and of its total, whatever semiring it was compiled in.

Probabilities are added and multiplied in log space; where a weight is negative, in the circuit's own carrier, if that
has negative numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, final

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.logs import is_abstract
from plica.backend.torch.queries.program import QueryProgram, as_described, parts, query_dtype, rows_within_budget
from plica.backend.torch.weights import WeightCheck
from plica.errors import InputError, UnsupportedError
from plica.ir.dtypes import as_dtype
from plica.lower.checks import check_semiring
from plica.lower.fold.groups import FoldedCircuit
from plica.lower.leaves import Owners, owners_of
from plica.lower.queries.needs import Needs
from plica.lower.queries.score import lower_score
from plica.lower.queries.total import lower_total
from plica.symbolic.semirings import LSE_SUM, Semiring

Found = TypeVar("Found")


def once(circuit: TorchCircuit, key: tuple[Any, ...], make: Callable[[], Found]) -> Found:
    """What is made once for a circuit and the dtype of its tensors."""
    key = (*key, circuit.dtype)
    if key not in circuit.queries:
        circuit.queries[key] = make()
    found: Found = circuit.queries[key]
    return found


def check_needs(circuit: TorchCircuit, needs: Needs) -> None:
    """Raise where a circuit cannot be asked; looked at once."""

    def check() -> bool:
        folded = circuit.folded
        needs.check(folded.described, folded.row)
        return True

    once(circuit, ("needs", needs.name), check)


def carrier_of(circuit: TorchCircuit) -> Semiring:
    """The carrier in which the probabilities of a circuit are added and multiplied."""
    own = circuit.semiring
    if not own.negative:
        return LSE_SUM
    signs = once(circuit, ("signs",), lambda: _Signs(circuit))
    return own if signs.is_negative(circuit) else LSE_SUM


@final
class _Signs:
    """Whether a weight of a circuit is negative, or complex, where its carrier has such numbers."""

    def __init__(self, circuit: TorchCircuit) -> None:
        self._weights: WeightCheck | None = None
        folded = circuit.folded
        try:
            check_semiring(folded.described, LSE_SUM, folded.rows)
        except UnsupportedError:
            return
        lowered = lower_total(folded, LSE_SUM, query_dtype(circuit), owners(circuit))
        self._weights = WeightCheck(folded, LSE_SUM, lowered.weights)

    def is_negative(self, circuit: TorchCircuit) -> bool:
        """Whether one is, as the tensors are now. This waits for the device."""
        if self._weights is None:
            return True
        try:
            self._weights.check(circuit.leaves)
        except UnsupportedError:
            return True
        return False


@final
class _LogValues:
    """The logarithms of a circuit's values, in a carrier that need not be its own, for data of one dtype."""

    def __init__(self, circuit: TorchCircuit, carrier: Semiring, input_dtype: torch.dtype) -> None:
        folded = in_algebra_of(circuit, carrier)
        lowered = lower_score(folded, carrier, query_dtype(circuit), as_dtype(input_dtype), owners(circuit))
        self._carrier = carrier
        self._weights = WeightCheck(folded, carrier, lowered.weights)
        self.run = QueryProgram(("log values", carrier.name, input_dtype, circuit.dtype), lowered, "log_values")

    def __call__(self, circuit: TorchCircuit, x: Tensor) -> Tensor:
        """Shapes: (B, outputs, units)."""
        found: Tensor = self.run(circuit, x)
        if x.is_cpu and not is_abstract(found):
            self._weights.check(circuit.leaves)
            if bool(found.detach().isnan().any()):
                circuit.readable(x)
        if self._carrier.logarithmic and not found.is_complex():
            return found
        logs: Tensor = LSE_SUM.map_from(found, self._carrier)
        return logs


def in_algebra_of(circuit: TorchCircuit, carrier: Semiring) -> FoldedCircuit:
    """The circuit as it was compiled, or, where its own algebra is another, as it was described."""
    return circuit.folded if circuit.semiring.algebra == carrier.algebra else as_described(circuit)


def owners(circuit: TorchCircuit) -> Owners:
    """The leaves of a circuit."""
    return owners_of(leaf for leaf, _ in circuit.leaves.items())


def log_values(circuit: TorchCircuit, x: Tensor) -> Tensor:
    """The logarithms of the values of rows, with what is NaN summed out: `(B,)`, of one output of one unit.

    Computed in parts that the memory budget is enough for, where no gradients are asked for.
    """
    carrier = carrier_of(circuit)
    if carrier is circuit.semiring and query_dtype(circuit) == as_dtype(circuit.dtype):

        def plan() -> int:
            return rows_within_budget(circuit.lowered(x.dtype).program)

        rows = len(x) if torch.is_grad_enabled() else once(circuit, ("rows", x.dtype), plan)
        return _in_parts(circuit, x, rows)
    asked = once(circuit, ("log values", carrier.name, x.dtype), lambda: _LogValues(circuit, carrier, x.dtype))
    rows = len(x) if torch.is_grad_enabled() else asked.run.rows_at_once()
    return _in_parts(lambda part: asked(circuit, part), x, rows)


def _in_parts(ask: Callable[[Tensor], Tensor], x: Tensor, rows: int) -> Tensor:
    found = [ask(x[start:stop])[:, 0, 0] for start, stop in parts(len(x), max(rows, 1))]
    return found[0] if len(found) == 1 else torch.cat(found)


def log_total(circuit: TorchCircuit) -> Tensor:
    """The logarithm of the total of a circuit of one output of one unit, `()`; kept in eval mode.

    Raises:
        InputError: It is no number, or infinite: the circuit describes no distribution.
    """
    carrier = carrier_of(circuit)

    def make() -> QueryProgram:
        folded = in_algebra_of(circuit, carrier)
        lowered = lower_total(folded, carrier, query_dtype(circuit), owners(circuit))
        return QueryProgram(("log total", carrier.name, circuit.dtype), lowered, "log_total")

    total: Tensor = once(circuit, ("log total", carrier.name), make)(circuit)
    if not is_abstract(total) and not bool(torch.isfinite(total.detach()).all()):
        raise InputError(
            f"the logarithm of the circuit's total is {float(total)}, so it describes no distribution; check the "
            "weights for zeros, negative numbers or NaN."
        )
    return total[0, 0]
