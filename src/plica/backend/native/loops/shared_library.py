"""Loop nests as a shared library, for this machine or others: entries that take pointers, and need no Python.

    int64_t NAME(void *const *arguments, const int64_t *sizes, void *const *results, int64_t *info);
    void plica_release(void *array);

`arguments` point to the captures and the arguments of the nest, in order, row-major; a number is an array of no
dimension. `sizes` are the symbolic sizes, in the order of `Nest.sizes`. `results` are the arrays that the caller
allocates. The function returns 0, or the number of the site that ended the run, counted from 1, or `NO_MEMORY`.
`info` receives the address and the sizes of each result that the nest allocates. `plica_release` frees such memory.
A boolean is a byte.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from plica.backend.native.loops.compile import machine, optimized
from plica.backend.native.loops.link import shared_library
from plica.backend.native.loops.llvm import whole_text
from plica.backend.native.loops.nest import Buffer, Nest
from plica.backend.native.loops.product import Registers, blocked_product
from plica.backend.native.loops.support import HEADER_BYTES, SUPPORT, stored
from plica.backend.native.scalars.llvm import llvm_type
from plica.ir.dtypes import DType

RELEASE = "plica_release"
"""The function that frees a result."""

_RELEASE = f"""
declare void @free(ptr)
define void @{RELEASE}(ptr %array) {{
  %memory = getelementptr i8, ptr %array, i64 -{HEADER_BYTES}
  call void @free(ptr %memory)
  ret void
}}
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """A kind of machine that libraries are compiled for.

    Args:
        name: Its name.
        triple: LLVM's target triple.
        cpu: LLVM's name of a processor whose code runs on all of the kind.
        registers: Its vector registers.
        features: LLVM's names of further features.
    """

    name: str
    triple: str
    cpu: str
    registers: Registers
    features: str = ""


_LINUX = "x86_64-unknown-linux-gnu"
MACHINES: Mapping[str, Machine] = {
    machine_kind.name: machine_kind
    for machine_kind in (
        Machine("x86-64", _LINUX, "x86-64", Registers(16, 6)),
        Machine("x86-64-v2", _LINUX, "x86-64-v2", Registers(16, 6)),
        Machine("x86-64-v3", _LINUX, "x86-64-v3", Registers(32, 6)),
        Machine("x86-64-v4", _LINUX, "x86-64-v4", Registers(64, 8), "-prefer-256-bit"),
        Machine("aarch64", "aarch64-unknown-linux-gnu", "generic", Registers(16, 8)),
    )
}
"""Kinds of machines by name. x86-64 has 16 vector registers of 16 bytes, arm64 has 32."""


@cache
def _targets() -> Any:
    """LLVM's targets, initialized for all machines."""
    binding = machine().binding
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding.Target


def library(nests: Mapping[str, Nest], kind: Machine) -> bytes:
    """A shared library.

    Args:
        nests: The nests, by the names of their entries: words of C.
        kind: The machine that it is for.

    Raises:
        UnsupportedError: There is no linker, or it refuses the code.
        MissingExtraError: llvmlite or ziglang is not installed.
        WriteError: The folder for temporary files is full, or cannot be written to.
    """
    binding = machine().binding
    target = (
        _targets()
        .from_triple(kind.triple)
        .create_target_machine(cpu=kind.cpu, features=kind.features, opt=2, reloc="pic", codemodel="small")
    )
    module = binding.parse_assembly(SUPPORT)
    write_product = partial(blocked_product, registers=kind.registers)
    texts = [whole_text(nest, entry_text(name, nest), write_product) for name, nest in nests.items()]
    for text in (_RELEASE, *texts):
        module.link_in(binding.parse_assembly(text))
    public = {*nests, RELEASE}
    for function in module.functions:
        if not function.is_declaration and function.name not in public:
            function.linkage = "internal"
    return shared_library(target.emit_object(optimized(module, target)))


def entry_text(name: str, nest: Nest) -> str:
    """The function `name`, which takes pointers and calls `run`."""
    lines: list[str] = []
    call_operands = ["ptr %info"]

    def loaded(type_: str, array: str, index: int) -> str:
        value = f"%x{len(lines)}"
        lines.append(f"{value}.p = getelementptr {type_}, ptr %{array}, i64 {index}")
        lines.append(f"{value} = load {type_}, ptr {value}.p")
        return value

    for index in range(len(nest.sizes)):
        call_operands.append(f"i64 {loaded('i64', 'sizes', index)}")
    for index, parameter in enumerate(nest.parameters):
        pointer = loaded("ptr", "arguments", index)
        if isinstance(parameter, Buffer):
            call_operands.append(f"ptr {pointer}")
            continue
        value = loaded(stored(parameter.dtype), pointer.removeprefix("%"), 0)
        if parameter.dtype == DType.BOOL:
            byte, value = value, f"{value}.bit"
            lines.append(f"{value} = icmp ne i8 {byte}, 0")
        call_operands.append(f"{llvm_type(parameter.dtype)} {value}")
    results = [result for result in nest.results if result.is_caller_allocated]
    call_operands += [f"ptr {loaded('ptr', 'results', index)}" for index in range(len(results))]
    head = f"define i64 @{name}(ptr %arguments, ptr %sizes, ptr %results, ptr %info) {{"
    return "\n".join([head, *lines, f"%status = call i64 @run({', '.join(call_operands)})", "ret i64 %status", "}"])
