"""Queries that are compositions of operators: their circuits, compiled once, and the answers of their Programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from plica.arguments import found
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.logs import is_abstract
from plica.backend.torch.queries.program import QueryProgram, query_dtype
from plica.backend.torch.queries.rows import device_of
from plica.backend.torch.queries.values import cached
from plica.errors import DTypeError, InputError, ShapeError, UnsupportedError
from plica.lower.fold.groups import FoldedCircuit
from plica.lower.leaves import Owners
from plica.lower.queries.composed import Operands, carrier_of, composed, lower_composed
from plica.lower.queries.query import Composed, Query
from plica.lower.queries.score import Lowered
from plica.symbolic.circuit import Circuit

_KEPT = 64
"""Compositions that a circuit keeps: each holds its other circuits."""


@final
@dataclass(frozen=True, slots=True)
class _Answering:
    """The circuits of a composition, compiled as one, and the Program that reads the answer off.

    It is kept with the first circuit of a query, for the same other circuits and settings.
    """

    circuit: TorchCircuit
    program: QueryProgram

    def __call__(self, *arguments: Tensor, training: bool) -> tuple[Tensor, Tensor]:
        self.circuit.train(training)
        answer, totals = self.program(self.circuit, *arguments)
        return answer, totals


def compose(
    circuit: TorchCircuit,
    query: Query[Composed],
    others: Sequence[Any] = (),
    settings: Mapping[str, Any] | None = None,
    values: Mapping[int, Any] | None = None,
) -> Tensor:
    """The answer to a composed query, in the dtype of the circuit.

    Args:
        circuit: The first circuit.
        query: The query.
        others: The other circuits, compiled in the same context, or described ones without tensors of their own.
        settings: What the query's `compose` takes besides circuits; it can be hashed.
        values: The values of the variables that are left in the circuits of the composition: for each a number, or an
            array `(B,)`.

    Raises:
        UnsupportedError: A circuit was compiled in another context, is a copy, or has another dtype or device.
        InputError: A total is not positive and finite; or a value is outside of its domain.
    """
    device = device_of(circuit, query.name)
    compiler, what = circuit.compiler(query.name), query.name
    described = [_described(circuit, query, operand) for operand in (circuit, *others)]
    given = {} if settings is None else dict(settings)

    def make() -> _Answering:
        _make_room(circuit)
        rules = compiler.compilation_rules
        composition = query.policy.compose(Operands(what, rules.operators, rules.layers.own), *described, **given)

        def lower(folded: FoldedCircuit, owners: Owners) -> Lowered:
            return lower_composed(folded, composition, owners)

        joined = composed(composition, what)
        compiled, lowered = compiler.compile_apart(joined, carrier_of(joined), lower)
        return _Answering(compiled, QueryProgram((query, compiled.dtype), lowered, query.function))

    key = (query, *described[1:], *sorted(given.items()))
    answering: _Answering = cached(circuit, key, make)
    arguments = []
    if values is not None:
        width = max(answering.circuit.data_scope) + 1  # further columns are of variables that are integrated out
        arguments = [_rows(circuit, what, values, device)[:, :width]]
    training = any(operand.training for operand in (circuit, *others) if isinstance(operand, TorchCircuit))
    answer, totals = answering(*arguments, training=training)
    _check_totals(totals, what)
    scalar = values is not None and all(torch.as_tensor(value).ndim == 0 for value in values.values())
    dtype = getattr(torch, query_dtype(circuit).value)
    return (answer[0] if scalar else answer).to(dtype.to_complex() if answer.is_complex() else dtype)


def _make_room(circuit: TorchCircuit) -> None:
    """Forget the oldest compositions of a circuit, so that with a new one it keeps `_KEPT`."""
    kept = [key for key, item in list(circuit.queries.items()) if isinstance(item, _Answering)]
    for key in kept[: max(0, len(kept) + 1 - _KEPT)]:
        circuit.queries.pop(key, None)


def _described(circuit: TorchCircuit, query: Query[Composed], operand: Any) -> Circuit:
    """An operand as it is described, checked to have tensors where those of the first circuit are."""
    compiler, what = circuit.compiler(query.name), query.name
    if isinstance(operand, TorchCircuit):
        described: Circuit = compiler.described(what, operand)
        first, other = ((one.dtype, one.leaves.device) for one in (circuit, operand))
        if first != other:
            raise UnsupportedError(
                f"{what}: the circuits need one dtype and one device, found {first[0]} on {first[1]} and {other[0]} on "
                f"{other[1]}; move one of them by circuit.to(...)."
            )
        return described
    if not isinstance(operand, Circuit):
        raise DTypeError(f"{what} takes circuits, {found(operand)}; compile them in one context.")
    if not compiler.has_tensors(operand):
        raise UnsupportedError(
            f"{what}: {operand!r} has tensors and is not compiled, so that they have no values; compile it in the "
            "context of the first circuit: ctx.compile(circuit)."
        )
    return operand


def _rows(circuit: TorchCircuit, what: str, values: Mapping[int, Any], device: torch.device) -> Tensor:
    """Rows `(B, D)` with these values, and NaN in all other columns; one row if all values are numbers."""
    try:
        columns = {variable: torch.as_tensor(value, device=device) for variable, value in values.items()}
    except (TypeError, ValueError, RuntimeError) as error:
        raise DTypeError(f"{what}: the values of variables are numbers, or arrays of them ({error}).") from None
    if any(column.is_complex() for column in columns.values()):
        raise DTypeError(f"{what}: the values of variables are real numbers; found complex ones.")
    columns = {variable: column.double() for variable, column in columns.items()}
    sizes = dict.fromkeys(column.shape[0] for column in columns.values() if column.ndim == 1)
    if len(sizes) > 1 or any(column.ndim > 1 for column in columns.values()):
        shapes = ", ".join(str(tuple(column.shape)) for column in columns.values())
        raise ShapeError(f"{what}: expected a number or an array (B,) for each variable, found shapes {shapes}.")
    width = max(circuit.data_scope) + 1
    rows = torch.full((next(iter(sizes), 1), width), torch.nan, dtype=torch.float64, device=device)
    for variable, column in columns.items():
        rows[:, variable] = column
    if rows[:, list(columns)].isnan().any():
        raise InputError(f"{what}: a value is NaN; give each variable a value.")
    circuit.checked(rows)
    return rows


def _check_totals(totals: Tensor, what: str) -> None:
    """Refuse totals that are no positive and finite numbers."""
    if is_abstract(totals):
        return
    wrong = totals.detach()[~torch.isfinite(totals.detach())]
    if len(wrong):
        raise InputError(
            f"{what}: the logarithm of a circuit's total is {float(wrong[0])}, so it describes no distribution; "
            "check the weights for zeros, negative numbers or NaN."
        )
