"""Loop nests as a shared library, for this machine or others: entries that take pointers, and need no Python.

    int64_t plica_run_NAME(void *const *arguments, const int64_t *sizes, void *const *results, int64_t *info);
    void plica_release(void *array);
    const char plica_types[];

`arguments` point to the captures and the arguments of the nest, in order, row-major; a number is an array of no
dimension. `sizes` are the symbolic sizes, in the order of `Nest.sizes`. `results` are the arrays that the caller
allocates. The function returns 0, or the number of the site that ended the run, counted from 1, or `NO_MEMORY`.
`info` receives the address and the sizes of each result that the nest allocates, or the numbers of an error.
`plica_release` frees such memory. `plica_types` has a line for each entry (`runtime.shared_library.Signature`). A
boolean is a byte.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from plica.backend.native.loops.call_lines import LOOP
from plica.backend.native.loops.compile import machine, optimized
from plica.backend.native.loops.functions import Registers
from plica.backend.native.loops.link import shared_library
from plica.backend.native.loops.llvm import llvm_text
from plica.backend.native.loops.most_work import loops_apart
from plica.backend.native.loops.nest import Buffer, Nest
from plica.backend.native.loops.product import blocked_product
from plica.backend.native.loops.rounding import with_rounding
from plica.backend.native.loops.support import HEADER_BYTES, SUPPORT, stored
from plica.backend.native.scalars.llvm import llvm_type
from plica.ir.dtypes import DType
from plica.runtime.shared_library import ENTRY, RELEASE, TYPES

_UNKNOWN = "\t"  # no sizes, no types
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
        rounds: Whether it has instructions that round to a whole number.
    """

    name: str
    triple: str
    cpu: str
    registers: Registers
    features: str = ""
    rounds: bool = True


_LINUX = "x86_64-unknown-linux-gnu"
MACHINES: Mapping[str, Machine] = {
    machine_kind.name: machine_kind
    for machine_kind in (
        Machine("x86-64", _LINUX, "x86-64", Registers(16, 6), rounds=False),
        Machine("x86-64-v2", _LINUX, "x86-64-v2", Registers(16, 6)),
        Machine("x86-64-v3", _LINUX, "x86-64-v3", Registers(32, 6)),
        Machine("x86-64-v4", _LINUX, "x86-64-v4", Registers(64, 8), "-prefer-256-bit"),
        Machine("aarch64", "aarch64-unknown-linux-gnu", "generic", Registers(16, 8)),
    )
}
"""Kinds of machines by the names of targets. x86-64 has 16 vector registers of 16 bytes, arm64 has 32."""


@cache
def _targets() -> Any:
    """LLVM's targets, initialized for all machines."""
    binding = machine().binding
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding.Target


def library(nests: Mapping[str, Nest], kind: Machine, described: Mapping[str, str] = MappingProxyType({})) -> bytes:
    """A shared library.

    Args:
        nests: The nests, by the names of their entries: words of C.
        kind: The machine that it is for.
        described: For each entry the names of its sizes, a tab, and its types, as `plica_types` keeps them.

    Raises:
        UnsupportedError: There is no linker, or it refuses the code.
        MissingExtraError: llvmlite or ziglang is not installed.
        WriteError: The folder for temporary files is full, or cannot be written to.
    """
    target = (
        _targets()
        .from_triple(kind.triple)
        .create_target_machine(cpu=kind.cpu, features=kind.features, opt=2, reloc="pic", codemodel="small")
    )
    lines = [f"{name}\t{nest.num_reported}\t{described.get(name, _UNKNOWN)}" for name, nest in nests.items()]
    module = _linked([SUPPORT, _RELEASE, _text_of("\n".join(lines))], kind)
    for name, nest in nests.items():
        texts = llvm_text(nest, entry_text(name, nest), kind.registers, loops_apart(nest), blocked_product)
        part = _linked([text for text in (texts.main, texts.hot) if text], kind)
        for function in part.functions:
            if function.name.startswith(LOOP):  # before another nest has functions of these names
                function.linkage = "internal"
        module.link_in(part)
    public = {*(f"{ENTRY}{name}" for name in nests), RELEASE}
    for function in module.functions:
        if not function.is_declaration and function.name not in public:
            function.linkage = "internal"
    return shared_library(target.emit_object(optimized(module, target)))


def _linked(texts: Sequence[str], kind: Machine) -> Any:
    """The module of some texts."""
    module, *others = [machine().binding.parse_assembly(text if kind.rounds else with_rounding(text)) for text in texts]
    for other in others:
        module.link_in(other)
    return module


def _text_of(signatures: str) -> str:
    """The text `plica_types` as a constant."""
    data = signatures.encode() + b"\0"
    return f'@{TYPES} = constant [{len(data)} x i8] c"' + "\\" + data.hex("\\") + '"'


def entry_text(name: str, nest: Nest) -> str:
    """The function of an entry, which takes pointers and calls `run`."""
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
    head = f"define i64 @{ENTRY}{name}(ptr %arguments, ptr %sizes, ptr %results, ptr %info) {{"
    return "\n".join([head, *lines, f"%status = call i64 @run({', '.join(call_operands)})", "ret i64 %status", "}"])
