"""Scalar code of every elementwise operation: `SCALARS`, a row for each name of an operation."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plica.backend.native.scalars.arithmetic import ARITHMETIC
from plica.backend.native.scalars.bessel import BESSEL
from plica.backend.native.scalars.builder import (
    Application,
    Failure,
    Scalar,
    ScalarCode,
    ScalarRow,
    is_complex,
    no_reals,
    refuse_complex,
)
from plica.backend.native.scalars.complexes import COMPLEX
from plica.backend.native.scalars.densities import DENSITIES
from plica.backend.native.scalars.error_functions import ERROR_FUNCTIONS
from plica.backend.native.scalars.exponentials import EXPONENTIALS
from plica.backend.native.scalars.gammas import GAMMAS
from plica.backend.native.scalars.hyperbolic import HYPERBOLIC
from plica.backend.native.scalars.incomplete import INCOMPLETE
from plica.backend.native.scalars.llvm import LlvmScalars
from plica.backend.native.scalars.logarithms import LOGARITHMS
from plica.backend.native.scalars.neighbours import NEIGHBOURS
from plica.backend.native.scalars.trigonometric import TRIGONOMETRIC
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType

__all__ = ["SCALARS", "Failure", "LlvmScalars", "Scalar", "ScalarCode", "ScalarRow", "write_scalar"]

_REAL: dict[str, ScalarRow] = {
    **ARITHMETIC,
    **EXPONENTIALS,
    **LOGARITHMS,
    **TRIGONOMETRIC,
    **HYPERBOLIC,
    **ERROR_FUNCTIONS,
    **GAMMAS,
    **BESSEL,
    **INCOMPLETE,
    **NEIGHBOURS,
    **DENSITIES,
    **{name: ScalarRow(no_reals(name)) for name in ("conj", "imag", "real")},
}


def _of_any_kind(name: str, row: ScalarRow) -> ScalarRow:
    """A row for complex numbers too: by the formula over their parts, or else an error that names the operation."""
    of_complex = COMPLEX.get(name)

    def write(code: ScalarCode, application: Application) -> Scalar:
        if of_complex is not None and is_complex(application):
            return of_complex(code, application)
        refuse_complex(name, application)
        return row.write(code, application)

    return replace(row, write=write)


SCALARS: dict[str, ScalarRow] = {name: _of_any_kind(name, row) for name, row in _REAL.items()}


def write_scalar(
    code: ScalarCode, name: str, operands: tuple[Scalar, ...], dtype: DType, params: Mapping[str, Any] | None = None
) -> Scalar:
    """One entry of the result of an operation, in dtype `dtype`, from one entry of each operand.

    Raises:
        UnsupportedError: The operation has no row, or its row does not take complex numbers.
    """
    if name not in SCALARS:
        raise UnsupportedError(
            f"the operation {name} has no native code: plica.backend.native.scalars has no row for it."
        )
    return SCALARS[name].write(code, Application(operands, dtype, params or {}))
