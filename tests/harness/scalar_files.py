"""Elementwise operations as functions of one IREE module, from their scalar code alone."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from plica.backend.native.scalars import MlirScalars, Scalar, write_scalar
from plica.backend.native.scalars.mlir import mlir_type
from plica.ir.dtypes import DType
from tests.harness.scalar_functions import Signature, aligned

_FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-input-demote-f64-to-f32=false",
    "--iree-opt-level=O2",
)

Write = Callable[[MlirScalars, tuple[Scalar, ...], DType], Scalar]


def _stored(dtype: DType) -> str:
    return "i8" if dtype == DType.BOOL else mlir_type(dtype)


def _function(one: Signature, write: Write) -> str:
    lines: list[str] = []
    code = MlirScalars(lines)
    operands = []
    for place, dtype in enumerate(one.operands):
        name = f"%a{place}"
        if dtype == DType.BOOL:
            lines.append(f"%b{place} = arith.trunci %a{place} : i8 to i1")
            name = f"%b{place}"
        operands.append(Scalar(name, dtype))
    found = write(code, tuple(operands), one.dtype)
    text = found.text
    if one.dtype == DType.BOOL:
        lines.append(f"%whole = arith.extui {text} : i1 to i8")
        text = "%whole"
    given = ", ".join(f"%x{place}: tensor<?x{_stored(dtype)}>" for place, dtype in enumerate(one.operands))
    arrays = ", ".join(f"%x{place}" for place in range(len(operands)))
    types = ", ".join(f"tensor<?x{_stored(dtype)}>" for dtype in one.operands)
    entries = ", ".join(f"%a{place}: {_stored(dtype)}" for place, dtype in enumerate(one.operands))
    result, maps = f"tensor<?x{_stored(one.dtype)}>", ", ".join(["affine_map<(d0) -> (d0)>"] * (len(operands) + 1))
    body = "\n      ".join(lines)
    return f"""  func.func @{one.symbol}({given}) -> {result} {{
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x0, %c0 : tensor<?x{_stored(one.operands[0])}>
    %empty = tensor.empty(%n) : {result}
    %found = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
        ins({arrays} : {types}) outs(%empty : {result}) {{
    ^bb0({entries}, %old: {_stored(one.dtype)}):
      {body}
      linalg.yield {text} : {_stored(one.dtype)}
    }} -> {result}
    return %found : {result}
  }}"""


class FileScalars:
    """Functions of signatures in one module: called with arrays of one shape."""

    def __init__(self, functions: Mapping[Signature, Write] | Sequence[Signature], target: str = "x86-64-v3") -> None:
        import iree.compiler as compiler
        import iree.runtime as runtime

        written = (
            functions
            if isinstance(functions, Mapping)
            else {
                one: lambda code, operands, dtype, name=one.name: write_scalar(code, name, operands, dtype)
                for one in functions
            }
        )
        text = "\n".join(["module {", *(_function(one, write) for one, write in written.items()), "}"])
        flags = [*_FLAGS, f"--iree-llvmcpu-target-cpu={target}"]
        code = compiler.compile_str(text, target_backends=[], extra_args=flags)
        config = runtime.Config("local-sync")
        own = runtime.VmModule.copy_buffer(config.vm_instance, code)
        self._module = runtime.load_vm_module(own, config)

    def __call__(self, one: Signature, *arrays: np.ndarray) -> np.ndarray:
        """The entries of the result."""
        given = [a.view(np.int8) if a.dtype == bool else a for a in aligned(one, arrays)]
        found = np.asarray(getattr(self._module, one.symbol)(*given).to_host())
        return found.view(one.dtype.numpy)
