"""`ProgramWithConstants`: a Program whose constants are known arrays, with constants folded.

Other backends fold constants at the first call and cache them (`constants/`). A native file folds them once, when it is
written: the interpreter computes in float64, and each result is rounded once.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.backend.native.circuits.operations import NATIVE_OPS
from plica.backend.native.circuits.updatable import UpdatableConstant, UpdatableFold
from plica.constants.fold import fold
from plica.constants.policy import FoldPolicy
from plica.errors import UnsupportedError
from plica.ir.interpret import interpret_program
from plica.ir.op import OpTable
from plica.ir.program import Program, Var
from plica.ops import OPS

Array = NDArray[Any]
_POLICY = FoldPolicy(max_growth=None, widen=True)


@dataclass(frozen=True, slots=True, eq=False)
class ProgramWithConstants:
    """A Program and the array of each of its consts.

    Args:
        program: The Program; its arguments are those of a call, followed by the updatable constants.
        constants: The array of each const.
        updatable: The constant of each updatable argument, in their order.
    """

    program: Program
    constants: Mapping[Var, Array]
    updatable: Mapping[Var, UpdatableConstant] = field(default_factory=dict)

    def __call__(self, *arguments: Any, precise: bool = False) -> tuple[Array, ...]:
        """The results, by the interpreter."""
        leaves = [self.constants[var] for var in self.program.consts]
        values = [*arguments, *(constant.array for constant in self.updatable.values())]
        return interpret_program(self.program, NATIVE_OPS, values, leaves, precise=precise)

    def rewritten(
        self,
        program: Program,
        constants: Mapping[Var, Array],
        updatable: Mapping[Var, UpdatableConstant] = MappingProxyType({}),
    ) -> ProgramWithConstants:
        """Another Program with the constants of this one and further ones, without those that it does not read."""
        read = dict.fromkeys(
            operand for equation in program.equations for operand in equation.inputs if isinstance(operand, Var)
        ) | dict.fromkeys(output for output in program.outputs if isinstance(output, Var))
        known = {var: array for var, array in {**self.constants, **constants}.items() if var in read}
        changing = {var: constant for var, constant in {**self.updatable, **updatable}.items() if var in read}
        inputs = (*(var for var in program.inputs if var not in self.updatable), *changing)
        return ProgramWithConstants(replace(program, consts=tuple(known), inputs=inputs), known, changing)


def with_constants(program: Program, leaves: Sequence[Any]) -> ProgramWithConstants:
    """A Program with the arrays of its consts, after constant folding.

    Args:
        program: The Program.
        leaves: The arrays, in the order of its consts. Constants computed from an updatable one are updatable too.

    Raises:
        UnsupportedError: A size depends on the entries of an array that may change.
    """
    known = dict(zip((var.name for var in program.consts), map(_leaf, leaves), strict=True))
    fixed = [name for name, leaf in known.items() if not isinstance(leaf, UpdatableConstant)]
    has_updatable = len(fixed) < len(known)
    folding = fold(program, fixed if has_updatable else (), policy=_POLICY, is_two=has_updatable)
    for part in folding.components:
        operands = [[_first_value(known[var.name]) for var in some] for some in (part.arguments, part.consts)]
        results = interpret_program(part, _FOLDING_OPS, *operands, precise=True)
        with np.errstate(over="ignore"):  # numbers that are too large become infinite, as in other backends
            arrays = [
                result.astype(var.type.dtype.numpy, order="C")
                for var, result in zip(part.results, results[part.num_implicit_outputs :], strict=True)
            ]
        updatable_fold = _updatable_fold(part, known, arrays)
        for index, (var, array) in enumerate(zip(part.results, arrays, strict=True)):
            assert isinstance(var, Var), "folded values are computed by equations"
            known[var.name] = (
                array if updatable_fold is None else UpdatableConstant(array, fold=updatable_fold, index=index)
            )
    entry, kept = folding.split.entry, folding.split.kept
    constants: dict[Var, Array] = {}
    updatable: dict[Var, UpdatableConstant] = {}
    for var in (*entry.consts, *kept):
        leaf = known[var.name]
        if isinstance(leaf, UpdatableConstant):
            updatable[var] = leaf
        else:
            constants[var] = leaf
    explicit = tuple(var for var in entry.inputs if var not in kept)
    return ProgramWithConstants(
        replace(entry, consts=tuple(constants), inputs=(*explicit, *updatable)), constants, updatable
    )


def _leaf(leaf: Any) -> Array | UpdatableConstant:
    return leaf if isinstance(leaf, UpdatableConstant) else np.asarray(leaf)


def _first_value(leaf: Array | UpdatableConstant) -> Array:
    return leaf.array if isinstance(leaf, UpdatableConstant) else leaf


def _updatable_fold(
    part: Program, known: Mapping[str, Array | UpdatableConstant], first: Sequence[Array]
) -> UpdatableFold | None:
    """The computation of a part of the folding that reads updatable constants; None if it reads none."""
    constants: dict[Var, Array] = {}
    updatable: dict[Var, UpdatableConstant] = {}
    for var in (*part.consts, *part.arguments):
        leaf = known[var.name]
        if isinstance(leaf, UpdatableConstant):
            updatable[var] = leaf
        else:
            constants[var] = leaf
    if not updatable:
        return None
    if part.num_implicit_inputs or part.num_implicit_outputs:
        raise UnsupportedError(
            "expected folded values of known sizes, found a size that depends on the entries of an updatable array; "
            "leave the array out of `updatable`."
        )
    program = replace(part, consts=tuple(constants), inputs=tuple(updatable))
    return UpdatableFold(program, constants, tuple(updatable.values()), tuple(first))


def _log_matmul_exp(*arrays: Array, logs: str | None = None, **settings: Any) -> Any:
    """`log_matmul_exp` by a matrix product, without an array of all terms; by its reference if a sum may underflow."""
    *inputs, weight = arrays[:-1] if logs is not None else arrays
    x = np.concatenate(inputs, axis=-1)
    largest = np.max(x, axis=-1, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0)
    total = np.matmul(np.exp(x - shift), np.swapaxes(weight, -1, -2))
    if total.dtype != np.float64 or np.any((total < _SMALL) & np.isfinite(largest)):
        return _EXACT.reference(*arrays, logs=logs, **settings)
    return np.log(total) + shift


_EXACT = OPS["log_matmul_exp"]
_SMALL = 2.0**-900  # a larger sum does not change by terms that underflow in float64
_FOLDING_OPS: OpTable = ChainMap({"log_matmul_exp": replace(_EXACT, reference=_log_matmul_exp)}, OPS)
"""The operations by which constants are computed."""
