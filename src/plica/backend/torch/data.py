"""Data at hand, checked against a circuit: its shape and dtype, and the entries that no layer can read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, final

import numpy as np
import torch
from torch import Tensor

from plica.arguments import found
from plica.backend.torch.emit import emit
from plica.backend.torch.leaves import Leaves
from plica.errors import DTypeError, InputError, UnsupportedError
from plica.ir.dtypes import as_dtype
from plica.lower.data import column_domains, input_width, lower_check, not_reduced, reads_whole
from plica.lower.fold.groups import FoldedCircuit
from plica.symbolic.layers import InputRow
from plica.symbolic.semirings import Reduction, Semiring

_WIDER = {torch.bfloat16: torch.float32}  # which says too little of whole numbers for the Programs of circuits

_ACCEPTED = frozenset({torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64})
_ACCEPTED |= {torch.int8, torch.int16, torch.int32, torch.int64}
_ACCEPTED |= {torch.bfloat16, torch.float16, torch.float32, torch.float64}


def as_tensor(rows: Any) -> Tensor:
    """Rows of numbers as a tensor: a tensor as it is, arrays of other libraries, and lists.

    Raises:
        DTypeError: They are no numbers.
    """
    if isinstance(rows, Tensor):
        return rows
    try:
        array = np.asarray(rows)
        if array.dtype == np.longdouble:
            array = array.astype(np.float64)
        return torch.as_tensor(np.require(array, requirements=("C", "W")))  # torch warns of arrays that are read-only
    except (RuntimeError, TypeError, ValueError) as error:
        raise DTypeError(
            f"rows must be numbers, as an array or a tensor, {found(rows)}; encode text as numbers, and pass NaN "
            "where a value is missing"
        ) from error


@final
class DataCheck:
    """Checks of the data that a circuit takes.

    Args:
        folded: The folded circuit.
    """

    def __init__(self, folded: FoldedCircuit) -> None:
        self._folded = folded
        self._width = input_width(folded.described)
        self._runs: dict[tuple[torch.dtype, torch.dtype, Reduction], tuple[Callable[..., Any], Leaves]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_runs": {}}  # generated functions are made again where they are needed

    @property
    def width(self) -> int:
        """The number of columns."""
        return self._width

    @property
    def has_states(self) -> bool:
        """Whether some variable takes whole numbers."""
        return any(domain.whole for domain in self._folded.described.domains.values())

    def take(self, x: Tensor) -> Tensor:
        """`x` in a dtype that Programs of circuits are for; raises as `check_shape` does."""
        self.check_shape(x)
        return x.to(_WIDER[x.dtype]) if x.dtype in _WIDER else x

    def check_shape(self, x: Tensor) -> None:
        """Raise where `x` is no tensor of real numbers with one column for each variable.

        Raises:
            DTypeError: `x` is sparse or quantized, or has complex numbers or floats of 8 bits.
            InputError: `x` has another number of axes or columns.
        """
        if x.layout is not torch.strided or x.is_nested:
            raise DTypeError(
                f"a circuit takes tensors that hold every entry, found {'nested rows' if x.is_nested else x.layout}; "
                "try x.to_dense(), or torch.nested.to_padded_tensor(x, torch.nan) for rows of several lengths."
            )
        if x.dtype not in _ACCEPTED:
            advice = (
                "take real numbers" if x.is_complex() else "convert it, as by x.to(torch.float32) or x.dequantize()"
            )
            raise DTypeError(f"a circuit takes integers or floats, found {x.dtype}; {advice}.")
        if not self._width and (x.ndim != 2 or x.shape[1]):
            raise InputError(
                f"the circuit has no variables left, found data of shape {tuple(x.shape)}; call it without an "
                "argument: circuit()."
            )
        if x.ndim != 2 or x.shape[1] != self._width:
            raise InputError(
                f"the circuit expects data of shape (B, {self._width}), one column for each variable up to "
                f"{self._width - 1}, found {tuple(x.shape)}; reshape or select columns."
            )

    def check(self, x: Tensor, real: torch.dtype, semiring: Semiring) -> None:
        """Raise where some entry of `x` cannot be read; `x` as `take` gives it. This waits for the device.

        Args:
            x: The data.
            real: The dtype in which layers read real numbers.
            semiring: The semiring, whose algebra reduces variables of missing values.

        Raises:
            InputError: An entry is outside the domain of its variable, or a layer lacks some of its variables.
            StructuralPropertyError: An entry is missing and the circuit cannot sum it out.
            UnsupportedError: An entry is missing and its layer cannot sum it out.
        """
        if x.is_meta:
            raise InputError("data on the meta device has no values to check; check it before it goes there.")
        entries, rows = self._masks(x, real, semiring)
        if bool(entries.any()):
            row, column = (int(number) for number in entries.nonzero()[0])
            self._refuse_entry(x, row, column, semiring)
        if bool(rows.any()):
            self._refuse_row(x, int(rows.nonzero()[0]), semiring)

    def _masks(self, x: Tensor, real: torch.dtype, semiring: Semiring) -> tuple[Tensor, Tensor]:
        key = (x.dtype, real, semiring.algebra.reduction)
        if key not in self._runs:
            program, constants = lower_check(self._folded, semiring, as_dtype(real), as_dtype(x.dtype))
            leaves = Leaves()
            for var, constant in zip(program.consts, constants, strict=True):
                leaves.set_constant(var.name, constant)
            self._runs[key] = (emit(program, "check", shares=True), leaves)
        run, leaves = self._runs[key]
        entries, rows = run(leaves.to(x.device), x)
        return entries, rows

    def _refuse_entry(self, x: Tensor, row: int, column: int, semiring: Semiring) -> NoReturn:
        circuit = self._folded.described
        value = x[row, column].detach().cpu().numpy()[()]
        if value != value:
            circuit.check_smooth_and_decomposable("a missing value (NaN)")
            layer, rule = not_reduced(self._folded, semiring)[column]
            name = self._folded.circuit.layer_name(layer)
            raise UnsupportedError(f"row {row}: variable {column} is missing, and {name} needs it: {rule.why}.")
        domain = column_domains(circuit)[column]
        or_missing = ", or NaN where it is missing" if x.is_floating_point() else ""
        raise InputError(
            f"row {row}, variable {column}: the value {_shown(value)} is {domain.refusal}; {domain.advice}{or_missing}."
        )

    def _refuse_row(self, x: Tensor, row: int, semiring: Semiring) -> NoReturn:
        circuit = self._folded.circuit
        for layer in circuit.live.input_layers:
            missing = [variable for variable in layer.scope if bool(x[row, variable].isnan())]
            entry = self._folded.row(layer)
            assert isinstance(entry, InputRow), "input layers have input rows"
            if reads_whole(layer, entry, semiring) and 0 < len(missing) < layer.num_variables:
                raise InputError(
                    f"row {row}: variable {missing[0]} is missing, but {circuit.layer_name(layer)} sums out all of its "
                    f"variables {layer.scope!s} or none; give the value, make all of them missing, or "
                    + _more_advice(type(layer).__name__, semiring)
                )
        raise AssertionError("the Program of the check found a layer")


def _more_advice(layer: str, semiring: Semiring) -> str:
    algebra = semiring.algebra
    if algebra.reduction is Reduction.INTEGRATE:
        return f"write `partial` in the row of {layer}."
    return f"write `partial_maximum` in the row of {layer}, or use a semiring that sums: {algebra.name} does not."


def _shown(value: Any) -> str:
    """A numpy scalar as messages write it, by the digits that its dtype has: 2, not 2.0, and 0.1."""
    number = value.item()
    is_integer = isinstance(number, int) or (number.is_integer() and abs(number) < 2**63)
    return str(int(number)) if is_integer else str(value)
