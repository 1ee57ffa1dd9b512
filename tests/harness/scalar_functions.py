"""Elementwise operations as native functions of numpy arrays, from their scalar code alone."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np

from plica.backend.native.scalars import SCALARS, LlvmScalars, Scalar, write_scalar
from plica.backend.native.scalars.llvm import llvm_type
from plica.ir.dtypes import DType, as_dtype


class Signature(NamedTuple):
    """An operation of operands of some dtypes, and the dtype of its result."""

    name: str
    operands: tuple[DType, ...]
    dtype: DType

    @property
    def symbol(self) -> str:
        """The name of its function."""
        return "_".join([self.name, *(one.short for one in self.operands), self.dtype.short])


def signature(name: str, operands: Sequence[str], dtype: str | None = None) -> Signature:
    """A signature of names; the result has the dtype of the first operand if none is given."""
    types = tuple(map(as_dtype, operands))
    return Signature(name, types, as_dtype(dtype) if dtype else types[0])


def aligned(one: Signature, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The operands as flat arrays of one size."""
    flat = [np.ravel(array) for array in np.broadcast_arrays(*arrays)]
    return [np.ascontiguousarray(a, dtype.numpy) for a, dtype in zip(flat, one.operands, strict=True)]


Write = Callable[[LlvmScalars, tuple[Scalar, ...], DType], Scalar]


def _of_row(name: str) -> Write:
    return lambda code, operands, dtype: write_scalar(code, name, operands, dtype)


def llvm_module(functions: Mapping[Signature, Write]) -> str:
    """LLVM IR of a function for each signature, which fills an array of any length."""
    declared: set[str] = set()
    texts = [_function(one, write, declared) for one, write in functions.items()]
    return "\n".join([*texts, *sorted(declared)])


def _stored(dtype: DType) -> str:
    return "i8" if dtype == DType.BOOL else llvm_type(dtype)


def _function(one: Signature, write: Write, declared: set[str]) -> str:
    row = SCALARS.get(one.name)
    is_fused = row is not None and row.is_rounded  # as loops are compiled
    code = LlvmScalars([], block="body", declared=declared, is_fused=is_fused)
    operands = []
    for place, dtype in enumerate(one.operands):
        code.lines.append(f"%p{place} = getelementptr {_stored(dtype)}, ptr %a{place}, i64 %i")
        code.lines.append(f"%m{place} = load {_stored(dtype)}, ptr %p{place}")
        if dtype == DType.BOOL:
            code.lines.append(f"%v{place} = trunc i8 %m{place} to i1")
        operands.append(Scalar(f"%v{place}" if dtype == DType.BOOL else f"%m{place}", dtype))
    found = write(code, tuple(operands), one.dtype)
    assert found.dtype == one.dtype, f"{one.symbol} gives {found.dtype}"
    if one.dtype == DType.BOOL:
        code.lines.append(f"%whole = zext i1 {found.text} to i8")
    text = "%whole" if one.dtype == DType.BOOL else found.text
    code.lines.append(f"%po = getelementptr {_stored(one.dtype)}, ptr %out, i64 %i")
    code.lines.append(f"store {_stored(one.dtype)} {text}, ptr %po")
    given = ", ".join(f"ptr noalias %a{place}" for place in range(len(operands)))
    body = "\n".join(code.lines)
    return f"""define void @{one.symbol}({given}, ptr noalias %out, i64 %n) {{
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %body, label %end
body:
  %i = phi i64 [ 0, %entry ], [ %next, %{code.block} ]
{body}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %body, label %end
end:
  ret void
}}"""


def _machine(level: int) -> Any:
    """Of which the compiler of a module becomes the owner."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=level
    )


class NativeScalars:
    """Functions of signatures, compiled: called with arrays of one shape.

    Args:
        functions: The signatures, of which the rows are written, or how each is written.
        level: How much is optimized, 0 to 3; from 2 on loops are vectorized.
    """

    def __init__(self, functions: Mapping[Signature, Write] | Sequence[Signature], level: int = 3) -> None:
        written = functions if isinstance(functions, Mapping) else {one: _of_row(one.name) for one in functions}
        module = llvm.parse_assembly(llvm_module(written))
        module.verify()
        machine = _machine(level)
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        options.loop_vectorization = level > 1
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()

        self._module = module

    @property
    def optimized(self) -> str:
        """The LLVM IR that machine code was made of."""
        return str(self._module)

    def __call__(self, one: Signature, *arrays: np.ndarray) -> np.ndarray:
        """The entries of the result."""
        given = aligned(one, arrays)
        out = np.empty(given[0].shape, one.dtype.numpy)
        address = self._engine.get_function_address(one.symbol)
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(given) + 1), ctypes.c_int64)(address)
        function(*(a.ctypes.data for a in given), out.ctypes.data, out.size)
        return out
