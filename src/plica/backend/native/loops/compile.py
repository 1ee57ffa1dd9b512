"""LLVM text becomes machine code in this process, by llvmlite."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any

from plica.backend.native.loops.llvm import llvm_text
from plica.backend.native.loops.nest import Nest
from plica.backend.native.loops.support import given_type, is_object, require_layout
from plica.errors import UnsupportedError

_TYPES: dict[str, Any] = {
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
_LOCK = Lock()


@dataclass(frozen=True, slots=True)
class Machine:
    """LLVM for this computer, made once."""

    binding: Any
    triple: Any
    cpu: str
    features: str

    def target(self) -> Any:
        """What compiles one module."""
        return self.triple.create_target_machine(cpu=self.cpu, features=self.features, opt=2, jit=True)


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code.

    Args:
        function: `function(arrays and numbers..., arrays of results..., info)`, which lets other threads run.
        engine: What owns the code.
    """

    function: Callable[..., int]
    engine: Any


@cache
def machine() -> Machine:
    """LLVM for this computer.

    Raises:
        UnsupportedError: llvmlite is not installed, or numpy's arrays are other objects.
    """
    try:
        binding = import_module("llvmlite.binding")
    except ImportError:
        raise UnsupportedError(
            'the native backend of jit compiles with llvmlite, which is not installed; pip install "plica[loops]".'
        ) from None
    require_layout()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features().flatten()
    return Machine(binding, binding.Target.from_default_triple(), binding.get_host_cpu_name(), features)


def optimized(text: str, target: Any, *, in_vectors: bool = True) -> Any:
    """The module of a text, optimized for a machine.

    Args:
        text: The text of the module.
        target: The machine.
        in_vectors: Whether it has loops of many turns. Others gain little by what LLVM knows of loops, which takes as
            long as all the rest: memory of cells becomes registers, and code generation does what else is worth it.
    """
    binding = machine().binding
    module = binding.parse_assembly(text)
    module.triple, module.data_layout = target.triple, str(target.target_data)
    # vectors are worth their time; more copies of loops take longer to compile than most of them ever run
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


def compile_nest(nest: Nest) -> Code:
    """The machine code of a nest."""
    with _LOCK:
        target = machine().target()
        text, loops = llvm_text(nest)
        module = optimized(text, target, in_vectors=loops is None)
        if loops is not None and "define" in loops:
            module.link_in(optimized(loops, target))
        engine = machine().binding.create_mcjit_compiler(module, target)
        engine.finalize_object()
    given = [ctypes.py_object if is_object(one) else _TYPES[given_type(one.dtype)] for one in nest.parameters]
    results = [ctypes.py_object for one in nest.results if one.is_given]
    type_ = ctypes.CFUNCTYPE(ctypes.c_int64, *given, *results, ctypes.py_object)
    return Code(type_(engine.get_function_address("entry")), engine)
