"""MLIR text becomes code, by the compiler of `iree-base-compiler`."""

from plica.backend.native.targets import Target, target_of

FLAGS = (
    "--iree-opt-level=O3",
    # it joins nests by arrays of unknown sizes on the stack, which is refused later, and makes nothing faster
    "--iree-dispatch-creation-enable-aggressive-fusion=false",
    "--iree-input-demote-f64-to-f32=false",  # or float64 becomes float32
    "--iree-opt-strip-assertions=false",  # or no check of a size is left from -O1 on
)

LOOPS = ("--iree-llvmcpu-loop-vectorization",)
"""What loops of nests take beside (`loops/mlir.py`); the compiler makes vectors of all others before."""


def compile_text(text: str, target: str | Target = "host") -> bytes:
    """The code of a module.

    Args:
        text: The module, as `emit.module_text` gives it.
        target: A target, or the name of one.
    """
    import iree.compiler as compiler

    found = target_of(target) if isinstance(target, str) else target
    flags = (*FLAGS, *LOOPS) if "stream.executable" in text else FLAGS
    code: bytes = compiler.compile_str(text, target_backends=[found.backend], extra_args=[*flags, *found.flags])
    return code
