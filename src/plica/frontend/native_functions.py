"""`NativeFunction`: the backend "native" of `jit`, machine code that is compiled once for all sizes.

It runs on arrays in the CPU's memory, without copies of those that have no gaps. Where gradients are asked for, where a
transform of torch follows what happens, and for tensors on other devices, the same Program runs in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any

import array_api_compat
import numpy as np

from plica.backend.native.loops.calls import compile_jit
from plica.errors import InputError
from plica.forks import cached_property
from plica.ir.dtypes import DType
from plica.ir.program import Bound, Var
from plica.passes.clean import clean
from plica.passes.rewriting import Rewriting
from plica.tracing.leaves import PYTHON_NUMBERS, is_array
from plica.tracing.scope import Reference

Run = Callable[[Sequence[Any]], Any]


class NativeFunction:
    """Machine code with the arrays that it captures.

    Args:
        bound: The Program and what it captures; references are read at each call.
        fallback: Makes what runs in torch, which is asked for when it is needed.
        torch: A function of torch's backend, by its name.
        rewriting: How the Program is rewritten, where that is not as by default.
    """

    def __init__(
        self, bound: Bound, fallback: Callable[[], Any], torch: Callable[[str], Any], rewriting: Rewriting | None
    ) -> None:
        self.program = clean(bound.program, rewriting or Rewriting())
        self._leaves = bound.leaves
        self._make_fallback, self._torch = fallback, torch
        self._call = compile_jit(self.program)

    @property
    def code(self) -> str:
        """The loop nest that is compiled."""
        return str(self._call.nest)

    @cached_property
    def _fallback(self) -> Any:
        return self._make_fallback()

    def specialize(self, leaves: Sequence[Any]) -> Run:
        """The function of leaves of these kinds."""
        variables = self.program.arguments
        converters = [
            (place, convert)
            for place, (leaf, var) in enumerate(zip(leaves, variables, strict=True))
            if (convert := self._converter(leaf, var)) is not None
        ]
        arrays = [leaf for leaf in leaves if is_array(leaf)]
        is_numpy = bool(arrays) and all(isinstance(leaf, np.ndarray | np.generic) for leaf in arrays)
        call, captured, single = self._call.run, self._captured(), len(self.program.results) == 1

        def natively(found: Sequence[Any]) -> Any:
            if converters:
                found = list(found)
                for place, convert in converters:
                    found[place] = convert(found[place])
            results = call(*captured(), *found) if captured is not None else call(*found)
            return results[0] if single else results

        if is_numpy:
            return natively
        tensors = [place for place, leaf in enumerate(leaves) if array_api_compat.is_torch_array(leaf)]
        is_plain = self._torch("is_plain")
        makers = [
            self._torch("from_numpy" if one.type.dtype == DType.BFLOAT16 else "tensor_of")
            for one in self.program.results
        ]
        captures = bool(self._leaves)
        in_torch: list[Run] = []

        def run(found: Sequence[Any]) -> Any:
            given = [found[place] for place in tensors]
            if not is_plain(*given, *self._tensors()) if captures else not is_plain(*given):
                if not in_torch:
                    in_torch.append(self._fallback.specialize(found))
                return in_torch[0](found)
            results = natively(found)
            return (
                makers[0](results) if single else tuple([make(one) for make, one in zip(makers, results, strict=True)])
            )

        return run

    def _converter(self, leaf: Any, var: Var) -> Callable[[Any], Any] | None:
        """What makes of an argument what machine code takes; None where it is that already."""
        if isinstance(leaf, PYTHON_NUMBERS) and not is_array(leaf):
            return _whole(var) if var.type.dtype.kind == "int" else None
        if not var.type.shape:
            return methodcaller("item")
        if isinstance(leaf, np.ndarray):
            return None if leaf.dtype.isnative else _native
        if not array_api_compat.is_torch_array(leaf):
            return np.from_dlpack
        converter: Callable[[Any], Any] = self._torch("to_numpy" if var.type.dtype == DType.BFLOAT16 else "array_of")
        return converter

    # What the Program captures

    def _tensors(self) -> list[Any]:
        """The captured tensors, of which gradients may be asked."""
        found = (leaf.read() if isinstance(leaf, Reference) else leaf for leaf in self._leaves)
        return [leaf for leaf in found if array_api_compat.is_torch_array(leaf)]

    def _captured(self) -> Callable[[], list[Any]] | None:
        """What reads the captured arrays at each call; None where nothing is captured."""
        if not self._leaves:
            return None
        pairs = list(zip(self._leaves, self.program.consts, strict=True))
        if all(isinstance(leaf, np.ndarray) and var.type.shape and leaf.dtype.isnative for leaf, var in pairs):
            arrays = [leaf for leaf, _ in pairs]
            return lambda: arrays
        return lambda: [self._read(leaf, var) for leaf, var in pairs]

    def _read(self, leaf: Any, var: Var) -> Any:
        found = leaf.read() if isinstance(leaf, Reference) else leaf
        if not var.type.shape:
            return found if isinstance(found, PYTHON_NUMBERS) else found.item()
        if array_api_compat.is_torch_array(found):
            found = self._torch("to_numpy")(found)
        found = np.asarray(found)
        if found.dtype != var.type.dtype.numpy:
            raise InputError(
                f"the captured array {var.name} has dtype {found.dtype} now, but was compiled as {var!r}; give it that "
                "dtype again, or compile the function anew."
            )
        return _native(found)


def _native(array: Any) -> Any:
    """An array in this computer's order of bytes."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _whole(var: Var) -> Callable[[int], int]:
    """What checks that an integer fits the dtype of an argument."""
    least, most = var.type.dtype.limits

    def check(value: int) -> int:
        if not least <= value <= most:
            raise InputError(
                f"argument {var.name} is {value}, which does not fit {var.type.dtype.value}; pass a float, or an array "
                "of a dtype that holds it."
            )
        return value

    return check
