"""Compiles MLIR text to machine code, with the compiler of `iree-base-compiler`."""

import os
import re
import shutil
import tempfile

from plica.backend.native.branch_operands import with_distinct_references
from plica.backend.native.targets import Target, target_of
from plica.errors import UnsupportedError, WriteError
from plica.extras import require

FLAGS = (
    "--iree-opt-level=O3",
    # aggressive fusion puts arrays of unknown sizes on the stack, which is refused later, and makes nothing faster
    "--iree-dispatch-creation-enable-aggressive-fusion=false",
    "--iree-input-demote-f64-to-f32=false",  # or float64 becomes float32
    # IREE 3.13 folds constants wrongly: two results of one dispatch become one. Plica has folded constants before
    "--iree-opt-const-expr-hoisting=false",
    "--iree-opt-strip-assertions=false",  # or -O1 and above remove checks of sizes
    "--iree-llvmcpu-stack-allocation-limit=131072",  # `tree_of_sums` keeps the results of its steps on the stack
)

COMMAND = f"// iree-compile --iree-hal-target-backends=llvm-cpu {' '.join(FLAGS)} IN.mlir -o OUT.vmfb\n"
"""A comment for exported text, which says how to compile it: with other flags it has another meaning."""

LOOPS = ("--iree-llvmcpu-loop-vectorization",)
"""Further flags for loop nests (`loops/mlir.py`). The compiler vectorizes all other loops earlier."""

_LEAST_FREE = 2**20  # bytes; with fewer in the folder for temporary files, a failure is probably due to that
_NEST = re.compile(r"stream\.executable private @\w+\.loop\d")


def compile_text(text: str, target: str | Target = "host") -> bytes:
    """The machine code of a module.

    Args:
        text: The module, as `emit.module_text` writes it.
        target: A target, or the name of one.

    Raises:
        UnsupportedError: The compiler refuses the module for the target, or is not installed.
        WriteError: The folder for temporary files is full, or is not writable.
    """
    compiler = require("iree.compiler")
    machine = target_of(target) if isinstance(target, str) else target
    flags = (*FLAGS, *LOOPS, *machine.flags) if _NEST.search(text) else (*FLAGS, *machine.flags)

    def compiled(module: str, phase: str) -> bytes:
        code: bytes = compiler.compile_str(module, target_backends=["llvm-cpu"], extra_args=[*flags, phase])
        return code

    try:
        instructions = with_distinct_references(compiled(text, "--compile-to=vm").decode())
        return compiled(instructions, "--compile-from=vm")
    except compiler.CompilerToolError as error:
        if fault := _fault_of_temporary_files(str(error)):
            raise WriteError(f"{fault}, which the IREE compiler needs; set TMPDIR to another folder") from error
        diagnostic = re.search(r"error: (.*)", str(error))
        reason = f"says: {diagnostic[1]:.200}" if diagnostic else "ended without a word"
        raise UnsupportedError(
            f"the IREE compiler makes no code of this model for target {machine.name}: it {reason}; give another "
            'target, or sizes that are not known, or run a function by plica.jit(backend="native").'
        ) from error


def _fault_of_temporary_files(message: str) -> str:
    """The fault of the folder for temporary files, or "", after the compiler failed with a message."""
    folder = os.environ.get("TMPDIR") or tempfile.gettempdir()  # Python skips a folder that is not writable
    try:
        with tempfile.TemporaryFile(dir=folder):
            is_full = "no space left" in message.lower() or shutil.disk_usage(folder).free < _LEAST_FREE
    except OSError as error:
        return f"{folder}: nothing can be written to the folder for temporary files ({(error.strerror or '').lower()})"
    return f"{folder}: the folder for temporary files has no space left" if is_full else ""
