"""Compiles LLVM text to machine code in this process, with llvmlite."""

import ctypes
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from plica.backend.native.loops.call_lines import LOOP
from plica.backend.native.loops.functions import Registers
from plica.backend.native.loops.llvm import Texts, llvm_text
from plica.backend.native.loops.most_work import split
from plica.backend.native.loops.nest import Nest
from plica.backend.native.loops.support import SUPPORT, argument_type, entry_text, is_object, require_layout
from plica.extras import require
from plica.forks import ForkSafeLock, take_at_forks

_TYPES: dict[str, Any] = {
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
_LOCK = ForkSafeLock()


@dataclass(frozen=True, slots=True)
class Machine:
    """LLVM for this computer, made once, with the functions that nests call.

    Args:
        binding: llvmlite.
        triple: The target.
        cpu: LLVM's name of the processor.
        features: LLVM's names of its features.
        registers: Its vector registers.
        support: The owners of the functions that nests call.
    """

    binding: Any
    triple: Any
    cpu: str
    features: str
    registers: Registers
    support: list[Any] = field(default_factory=list)

    def target(self, level: int = 2) -> Any:
        """A compiler for one module: of fast code, or at level 0 a fast compiler."""
        return self.triple.create_target_machine(cpu=self.cpu, features=self.features, opt=level, jit=True)


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code.

    Args:
        function: `function(arrays and numbers..., arrays of results..., info)`, which lets other threads run.
        engines: The owners of the code.
    """

    function: Callable[..., int]
    engines: list[Any]


@cache
def machine() -> Machine:
    """LLVM for this computer.

    Raises:
        UnsupportedError: llvmlite is not installed, or numpy's array objects have another layout.
    """
    binding: Any = require("llvmlite.binding")
    if lock := getattr(binding.ffi.lib, "_lock", None):
        take_at_forks(lock)  # a fork waits for a running call of LLVM, so that the child's LLVM is in a valid state
    require_layout()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    host_features = binding.get_host_cpu_features()
    features = host_features.flatten()
    if host_features.get("avx512vbmi2"):  # earlier processors lower their clock for vectors of 512 bits
        features += ",-prefer-256-bit"
    triple, registers = binding.Target.from_default_triple(), _registers(host_features)
    llvm = Machine(binding, triple, binding.get_host_cpu_name(), features, registers)
    target = llvm.target()
    engine = _engine(binding, binding.parse_assembly(SUPPORT), target)
    for name in re.findall(r"@(plica\.\w+)\(", SUPPORT):
        binding.add_symbol(name, engine.get_function_address(name))
    llvm.support.append(engine)
    return llvm


def _registers(features: Mapping[str, bool]) -> Registers:
    """The vector registers of a processor with some features, by LLVM's names for these."""
    if features.get("avx512f"):
        return Registers(64, 8)
    if features.get("avx2"):
        return Registers(32, 6)
    return Registers(16, 8 if features.get("neon") else 6)


def _engine(binding: Any, module: Any, target: Any) -> Any:
    """The owner of the machine code of a module."""
    engine = binding.create_mcjit_compiler(module, target)
    engine.finalize_object()
    return engine


def optimized(module: Any, target: Any, *, in_vectors: bool = True) -> Any:
    """A module, optimized for a machine.

    Args:
        module: The module, as LLVM has parsed its text.
        target: The machine.
        in_vectors: Whether it has loops of many iterations. Passes on loops take as long as all others together.
            Without such loops, only cells become registers, and code generation does the rest.
    """
    binding = machine().binding
    module.triple, module.data_layout = target.triple, str(target.target_data)
    # vectors repay the time of their passes; unrolled loops take longer to compile than most of them ever run
    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = True
    options.slp_vectorization = options.loop_unrolling = options.loop_interleaving = False
    builder = binding.create_pass_builder(target, options)
    if in_vectors:
        builder.getModulePassManager().run(module, builder)
        return module
    passes = binding.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()  # and not NewGVN, which ends the process on some random functions
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    return module


def _compiled(texts: Texts) -> list[Any]:
    """The engines that own the machine code of a nest; the first has its entry."""
    binding, target = machine().binding, machine().target()
    engines = []
    parts = [(texts.hot, True), (texts.warm, False)]
    loops = [optimized(binding.parse_assembly(text), target, in_vectors=fast) for text, fast in parts if text]
    if loops:
        for loop in loops[1:]:
            loops[0].link_in(loop)
        engines.append(_engine(binding, loops[0], target))
        target = machine().target(level=0)
    main = optimized(binding.parse_assembly(texts.main), target, in_vectors=texts.hot is None)
    engine = binding.create_mcjit_compiler(main, target)
    for function in main.functions:
        if function.is_declaration and function.name.startswith(LOOP):
            engine.add_global_mapping(function, engines[0].get_function_address(function.name))
    engine.finalize_object()
    return [engine, *engines]


def compile_nest(nest: Nest) -> Code:
    """The machine code of a nest."""
    with _LOCK:
        engines = _compiled(llvm_text(nest, entry_text(nest), machine().registers, split(nest)))
    types_of_parameters = [
        ctypes.py_object if is_object(parameter) else _TYPES[argument_type(parameter.dtype)]
        for parameter in nest.parameters
    ]
    results = [ctypes.py_object for result in nest.results if result.is_caller_allocated]
    type_ = ctypes.CFUNCTYPE(ctypes.c_int64, *types_of_parameters, *results, ctypes.py_object)
    return Code(type_(engines[0].get_function_address("entry")), engines)
