"""`Closed`: a Program whose constants are known arrays, all that can be computed from them alone computed.

What folding keeps between calls of other backends (`passes/constants`) is computed here once, when the file is made: by
the interpreter, in float64, and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.backend.native.circuits.operations import NATIVE_OPS
from plica.ir.interpret import interpret_program
from plica.ir.op import OpTable
from plica.ir.program import Program, Var
from plica.ops import OPS
from plica.passes.constants.fold import fold
from plica.passes.constants.policy import FoldPolicy

Array = NDArray[Any]
_POLICY = FoldPolicy(max_growth=None, widen=True)


@dataclass(frozen=True, slots=True, eq=False)
class Closed:
    """A Program and the array of each of its consts.

    Args:
        program: The Program; its arguments are what a call gives.
        constants: By const.
    """

    program: Program
    constants: Mapping[Var, Array]

    def __call__(self, *arguments: Any, precise: bool = False) -> tuple[Array, ...]:
        """The results, by the interpreter."""
        leaves = [self.constants[var] for var in self.program.consts]
        return interpret_program(self.program, NATIVE_OPS, arguments, leaves, precise=precise)

    def rewritten(self, program: Program, constants: Mapping[Var, Array]) -> Closed:
        """Another Program with further constants; those that it does not read are left out."""
        read = dict.fromkeys(
            one for equation in program.equations for one in equation.inputs if isinstance(one, Var)
        ) | dict.fromkeys(one for one in program.outputs if isinstance(one, Var))
        known = {var: array for var, array in {**self.constants, **constants}.items() if var in read}
        return replace(self, program=replace(program, consts=tuple(known)), constants=known)


def closed(program: Program, leaves: Sequence[Any]) -> Closed:
    """A Program and what stands behind its consts, folded.

    Args:
        program: The Program.
        leaves: The arrays, in the order of its consts.
    """
    arrays = {var.name: np.asarray(leaf) for var, leaf in zip(program.consts, leaves, strict=True)}
    folding = fold(program, policy=_POLICY)
    for part in folding.components:
        given = [[arrays[var.name] for var in some] for some in (part.arguments, part.consts)]
        results = interpret_program(part, _FOLDING, *given, precise=True)
        for var, result in zip(part.results, results, strict=True):
            assert isinstance(var, Var), "what is kept is computed"
            with np.errstate(over="ignore"):  # too large a number is infinite there, as in other backends
                arrays[var.name] = result.astype(var.type.dtype.numpy, order="C")
    entry, kept = folding.split.entry, folding.split.kept
    explicit = tuple(var for var in entry.inputs if var not in kept)
    consts = (*entry.consts, *kept)
    program = replace(entry, consts=consts, inputs=explicit)
    return Closed(program, {var: arrays[var.name] for var in consts})


def _log_matmul_exp(*arrays: Array, logs: str | None = None, **settings: Any) -> Any:
    """The same numbers by a matrix product, which needs no array of all terms, wherever none of float64 is lost."""
    *inputs, weight = arrays[:-1] if logs is not None else arrays
    x = np.concatenate(inputs, axis=-1)
    largest = np.max(x, axis=-1, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0)
    total = np.matmul(np.exp(x - shift), np.swapaxes(weight, -1, -2))
    if total.dtype != np.float64 or np.any((total < _SMALL) & np.isfinite(largest)):
        return _EXACT.reference(*arrays, logs=logs, **settings)
    return np.log(total) + shift


_EXACT = OPS["log_matmul_exp"]
_SMALL = 2.0**-900  # beside which terms that are no numbers of float64 do not count
_FOLDING: OpTable = {**OPS, "log_matmul_exp": replace(_EXACT, reference=_log_matmul_exp)}
"""The operations by which constants are computed."""
