"""`Closed`: a Program whose constants are known arrays, all that can be computed from them alone computed.

What folding keeps between calls of other backends (`constants/`) is computed here once, when the file is made: by
the interpreter, in float64, and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.backend.native.circuits.held import Held, Made
from plica.backend.native.circuits.operations import NATIVE_OPS
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
class Closed:
    """A Program and the array of each of its consts.

    Args:
        program: The Program; its arguments are what a call gives, and then what is held.
        constants: By const.
        held: Arrays that may change, by argument, in their order.
    """

    program: Program
    constants: Mapping[Var, Array]
    held: Mapping[Var, Held] = field(default_factory=dict)

    def __call__(self, *arguments: Any, precise: bool = False) -> tuple[Array, ...]:
        """The results, by the interpreter."""
        leaves = [self.constants[var] for var in self.program.consts]
        given = [*arguments, *(one.array for one in self.held.values())]
        return interpret_program(self.program, NATIVE_OPS, given, leaves, precise=precise)

    def rewritten(
        self, program: Program, constants: Mapping[Var, Array], held: Mapping[Var, Held] = MappingProxyType({})
    ) -> Closed:
        """Another Program with further constants; those that it does not read are left out."""
        read = dict.fromkeys(
            one for equation in program.equations for one in equation.inputs if isinstance(one, Var)
        ) | dict.fromkeys(one for one in program.outputs if isinstance(one, Var))
        known = {var: array for var, array in {**self.constants, **constants}.items() if var in read}
        changing = {var: one for var, one in {**self.held, **held}.items() if var in read}
        inputs = (*(var for var in program.inputs if var not in self.held), *changing)
        return Closed(replace(program, consts=tuple(known), inputs=inputs), known, changing)


def closed(program: Program, leaves: Sequence[Any]) -> Closed:
    """A Program and what stands behind its consts, folded.

    Args:
        program: The Program.
        leaves: The arrays, in the order of its consts; what depends on a `Held` one is held too.

    Raises:
        UnsupportedError: A size depends on the entries of an array that may change.
    """
    known = dict(zip((var.name for var in program.consts), map(_leaf, leaves), strict=True))
    fixed = [name for name, leaf in known.items() if not isinstance(leaf, Held)]
    changes = len(fixed) < len(known)
    folding = fold(program, fixed if changes else (), policy=_POLICY, is_two=changes)
    for part in folding.components:
        given = [[_first(known[var.name]) for var in some] for some in (part.arguments, part.consts)]
        results = interpret_program(part, _FOLDING, *given, precise=True)
        with np.errstate(over="ignore"):  # too large a number is infinite there, as in other backends
            arrays = [
                result.astype(var.type.dtype.numpy, order="C")
                for var, result in zip(part.results, results[part.num_implicit_outputs :], strict=True)
            ]
        made = _made(part, known, arrays)
        for place, (var, array) in enumerate(zip(part.results, arrays, strict=True)):
            assert isinstance(var, Var), "what is kept is computed"
            known[var.name] = array if made is None else Held(array, made=made, place=place)
    entry, kept = folding.split.entry, folding.split.kept
    constants: dict[Var, Array] = {}
    held: dict[Var, Held] = {}
    for var in (*entry.consts, *kept):
        leaf = known[var.name]
        if isinstance(leaf, Held):
            held[var] = leaf
        else:
            constants[var] = leaf
    explicit = tuple(var for var in entry.inputs if var not in kept)
    return Closed(replace(entry, consts=tuple(constants), inputs=(*explicit, *held)), constants, held)


def _leaf(leaf: Any) -> Array | Held:
    return leaf if isinstance(leaf, Held) else np.asarray(leaf)


def _first(leaf: Array | Held) -> Array:
    return leaf.array if isinstance(leaf, Held) else leaf


def _made(part: Program, known: Mapping[str, Array | Held], first: Sequence[Array]) -> Made | None:
    """What computes the results of a part that reads arrays that may change; None of one that reads none."""
    constants: dict[Var, Array] = {}
    held: dict[Var, Held] = {}
    for var in (*part.consts, *part.arguments):
        leaf = known[var.name]
        if isinstance(leaf, Held):
            held[var] = leaf
        else:
            constants[var] = leaf
    if not held:
        return None
    if part.num_implicit_inputs or part.num_implicit_outputs:
        raise UnsupportedError(
            "a size depends on the entries of an array that may change, so that no file can hold what is computed from "
            "it; leave the array out of `updatable`."
        )
    program = replace(part, consts=tuple(constants), inputs=tuple(held))
    return Made(program, constants, tuple(held.values()), tuple(first))


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
