"""`NativeFunction`: the backend "native" of `jit`, machine code that is compiled once for all sizes.

It runs on arrays in the CPU's memory, without copies of contiguous ones. The same Program runs in torch if gradients
are needed, under a transform of torch, and for tensors on other devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any

import array_api_compat
import numpy as np

from plica.backend.native.loops.calls import compile_jit
from plica.backend.native.loops.nest_text import nest_text
from plica.errors import InputError
from plica.forks import cached_property
from plica.ir.dtypes import DType
from plica.ir.program import Bound, Var
from plica.logger import LOGGER
from plica.passes.clean import clean
from plica.passes.rewriting import Rewriting
from plica.tracing.leaves import PYTHON_NUMBERS, is_array
from plica.tracing.scope import Reference

Runner = Callable[[Sequence[Any]], Any]  # as in `executors`, which loads this module when it is first needed


class NativeFunction:
    """Machine code with the arrays that it captures.

    Args:
        bound: The Program with its captured arrays; references are read at each call.
        fallback: Makes the executor of torch when it is first needed.
        torch: A function of torch's backend, by its name.
        rewriting: The rewrite rules for the Program; None for the default ones.
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
        return nest_text(self._call.nest)

    @cached_property
    def _fallback(self) -> Any:
        return self._make_fallback()

    def specialize(self, leaves: Sequence[Any]) -> Runner:
        """The function that runs leaves of these kinds."""
        variables = self.program.arguments
        converters = [
            (index, convert)
            for index, (leaf, var) in enumerate(zip(leaves, variables, strict=True))
            if (convert := self._converter(leaf, var)) is not None
        ]
        arrays = [leaf for leaf in leaves if is_array(leaf)]
        is_numpy = bool(arrays) and all(isinstance(leaf, np.ndarray | np.generic) for leaf in arrays)
        call, captured, single = self._call.run, self._captured(), len(self.program.results) == 1

        def natively(leaves: Sequence[Any]) -> Any:
            if converters:
                leaves = list(leaves)
                for index, convert in converters:
                    leaves[index] = convert(leaves[index])
            results = call(*captured(), *leaves) if captured is not None else call(*leaves)
            return results[0] if single else results

        if is_numpy:
            return natively
        tensors = [index for index, leaf in enumerate(leaves) if array_api_compat.is_torch_array(leaf)]
        is_plain = self._torch("is_plain")
        result_makers = [
            self._torch("from_numpy" if result.type.dtype == DType.BFLOAT16 else "tensor_of")
            for result in self.program.results
        ]
        has_captures = bool(self._leaves)
        in_torch: list[Runner] = []

        def run(leaves: Sequence[Any]) -> Any:
            tensor_arguments = [leaves[index] for index in tensors]
            if not is_plain(*tensor_arguments, *self._tensors()) if has_captures else not is_plain(*tensor_arguments):
                if not in_torch:
                    LOGGER.info("torch runs a native function: gradients are needed, or a tensor is not plain")
                    in_torch.append(self._fallback.specialize(leaves))
                return in_torch[0](leaves)
            results = natively(leaves)
            return (
                result_makers[0](results)
                if single
                else tuple([make_result(result) for make_result, result in zip(result_makers, results, strict=True)])
            )

        return run

    def _converter(self, leaf: Any, var: Var) -> Callable[[Any], Any] | None:
        """A function that converts an argument for machine code; None if no conversion is needed."""
        if isinstance(leaf, PYTHON_NUMBERS) and not is_array(leaf):
            return _fit_check(var) if var.type.dtype.kind == "int" else None
        if not var.type.shape:
            return methodcaller("item")
        if isinstance(leaf, np.ndarray):
            return None if leaf.dtype.isnative else _native
        if not array_api_compat.is_torch_array(leaf):
            return np.from_dlpack
        converter: Callable[[Any], Any] = self._torch("to_numpy" if var.type.dtype == DType.BFLOAT16 else "array_of")
        return converter

    # Captured arrays

    def _tensors(self) -> list[Any]:
        """The captured tensors, which may require gradients."""
        arrays = (leaf.read() if isinstance(leaf, Reference) else leaf for leaf in self._leaves)
        return [leaf for leaf in arrays if array_api_compat.is_torch_array(leaf)]

    def _captured(self) -> Callable[[], list[Any]] | None:
        """A function that reads the captured arrays at each call; None if nothing is captured."""
        if not self._leaves:
            return None
        pairs = list(zip(self._leaves, self.program.consts, strict=True))
        if all(isinstance(leaf, np.ndarray) and var.type.shape and leaf.dtype.isnative for leaf, var in pairs):
            arrays = [leaf for leaf, _ in pairs]
            return lambda: arrays
        return lambda: [self._read(leaf, var) for leaf, var in pairs]

    def _read(self, leaf: Any, var: Var) -> Any:
        array = leaf.read() if isinstance(leaf, Reference) else leaf
        if not var.type.shape:
            return array if isinstance(array, PYTHON_NUMBERS) else array.item()
        if array_api_compat.is_torch_array(array):
            array = self._torch("to_numpy")(array)
        array = np.asarray(array)
        if array.dtype != var.type.dtype.numpy:
            raise InputError(
                f"the captured array {var.name} has dtype {array.dtype} now, but was compiled as {var!r}; give it that "
                "dtype again, or compile the function anew."
            )
        return _native(array)


def _native(array: Any) -> Any:
    """An array in this computer's order of bytes."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _fit_check(var: Var) -> Callable[[int], int]:
    """A function that checks that an integer fits the dtype of an argument."""
    least, most = var.type.dtype.limits

    def check(value: int) -> int:
        if not least <= value <= most:
            raise InputError(
                f"argument {var.name} is {value}, which does not fit {var.type.dtype.value}; pass a float, or an array "
                "of a dtype that holds it."
            )
        return value

    return check
