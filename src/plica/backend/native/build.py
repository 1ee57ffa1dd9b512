"""MLIR text becomes code, by the compiler of `iree-base-compiler`."""

from collections.abc import Mapping, Sequence

TARGETS: Mapping[str, Sequence[str]] = {
    "host": ("--iree-llvmcpu-target-cpu=host",),
    "x86-64-v3": ("--iree-llvmcpu-target-triple=x86_64-unknown-linux-gnu", "--iree-llvmcpu-target-cpu=x86-64-v3"),
}
"""The flags of each target."""

FLAGS = (
    "--iree-opt-level=O3",
    # it joins nests by arrays of unknown sizes on the stack, which is refused later, and makes nothing faster
    "--iree-dispatch-creation-enable-aggressive-fusion=false",
    "--iree-input-demote-f64-to-f32=false",  # or float64 becomes float32
    "--iree-opt-strip-assertions=false",  # or no check of a size is left from -O1 on
)


def compile_text(text: str, target: str = "host") -> bytes:
    """The code of a module.

    Args:
        text: The module, as `emit.module_text` gives it.
        target: One of `TARGETS`.
    """
    import iree.compiler as compiler

    code: bytes = compiler.compile_str(text, target_backends=["llvm-cpu"], extra_args=[*FLAGS, *TARGETS[target]])
    return code
