"""MLIR text becomes code, by the compiler of `iree-base-compiler`."""

import os
import re
import shutil
import tempfile

from plica.backend.native.branches import handed_on_once
from plica.backend.native.targets import Target, target_of
from plica.errors import UnsupportedError, WriteError
from plica.extras import require

FLAGS = (
    "--iree-opt-level=O3",
    # it joins nests by arrays of unknown sizes on the stack, which is refused later, and makes nothing faster
    "--iree-dispatch-creation-enable-aggressive-fusion=false",
    "--iree-input-demote-f64-to-f32=false",  # or float64 becomes float32
    # IREE 3.13 computes once what depends on constants alone, but makes one of the results of one dispatch; there is
    # little of it: Plica has folded before
    "--iree-opt-const-expr-hoisting=false",
    "--iree-opt-strip-assertions=false",  # or no check of a size is left from -O1 on
    "--iree-llvmcpu-stack-allocation-limit=131072",  # walks through trees keep what they have left there
)

COMMAND = f"// iree-compile --iree-hal-target-backends=llvm-cpu {' '.join(FLAGS)} IN.mlir -o OUT.vmfb\n"
"""How text is compiled that leaves Plica, as a comment: without these flags it does not mean the same."""

LOOPS = ("--iree-llvmcpu-loop-vectorization",)
"""What loops of nests take beside (`loops/mlir.py`); the compiler makes vectors of all others before."""

_LEAST_FREE = 2**20  # bytes of the folder for temporary files, without which a failure is likely due to it
_NEST = re.compile(r"stream\.executable private @\w+\.loop\d")


def compile_text(text: str, target: str | Target = "host") -> bytes:
    """The code of a module.

    Args:
        text: The module, as `emit.module_text` gives it.
        target: A target, or the name of one.

    Raises:
        UnsupportedError: The compiler makes no code of it for the target, or is not installed.
        WriteError: The folder for temporary files is full, or cannot be written to.
    """
    compiler = require("iree.compiler")
    found = target_of(target) if isinstance(target, str) else target
    flags = (*FLAGS, *LOOPS, *found.flags) if _NEST.search(text) else (*FLAGS, *found.flags)

    def compiled(module: str, phase: str) -> bytes:
        made: bytes = compiler.compile_str(module, target_backends=[found.backend], extra_args=[*flags, phase])
        return made

    try:
        instructions = handed_on_once(compiled(text, "--compile-to=vm").decode())
        return compiled(instructions, "--compile-from=vm")
    except compiler.CompilerToolError as error:
        if fault := _fault_of_temporary_files(str(error)):
            raise WriteError(f"{fault}, which the IREE compiler needs; set TMPDIR to another folder") from error
        said = re.search(r"error: (.*)", str(error))
        reason = f"says: {said[1]:.200}" if said else "ended without a word"
        raise UnsupportedError(
            f"the IREE compiler makes no code of this model for target {found.name}: it {reason}; give another target, "
            'or sizes that are not known, or run a function by plica.jit(backend="native").'
        ) from error


def _fault_of_temporary_files(said: str) -> str:
    """What is wrong with the folder for them, or nothing, after a compiler that said this."""
    folder = os.environ.get("TMPDIR") or tempfile.gettempdir()  # Python passes over one that cannot be written to
    try:
        with tempfile.TemporaryFile(dir=folder):
            is_full = "no space left" in said.lower() or shutil.disk_usage(folder).free < _LEAST_FREE
    except OSError as error:
        return f"{folder}: nothing can be written to the folder for temporary files ({(error.strerror or '').lower()})"
    return f"{folder}: the folder for temporary files has no space left" if is_full else ""
