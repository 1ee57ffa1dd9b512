"""The machines that native files are made for: flags of the compiler, and what a machine must have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plica.errors import InputError
from plica.runtime.machine import LEVELS, architecture, features


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of machine.

    Args:
        name: As `--target` calls it.
        flags: Of the compiler.
        architecture: `x86_64`, `aarch64`, or empty where the processor does not matter.
        features: What the processor must be able to.
        backend: That of the compiler.
        driver: That of the runtime; empty where the size of the work decides.
        is_gpu: Whether it is a graphics processor, of which layers are written operation by operation.
    """

    name: str
    flags: tuple[str, ...]
    architecture: str
    features: tuple[str, ...] = ()
    backend: str = "llvm-cpu"
    driver: str = ""
    is_gpu: bool = False


def _x86(level: str) -> Target:
    cpu = "generic" if level == "x86-64" else level  # said too, else the compiler warns of it in 36 lines
    flags = ("--iree-llvmcpu-target-triple=x86_64-unknown-linux-gnu", f"--iree-llvmcpu-target-cpu={cpu}")
    return Target(level, flags, "x86_64", LEVELS[level])


TARGETS: Mapping[str, Target] = {
    one.name: one
    for one in (
        *map(_x86, LEVELS),
        Target("aarch64", ("--iree-llvmcpu-target-triple=aarch64-unknown-linux-gnu",), "aarch64", ("asimd",)),
        Target("cuda", ("--iree-cuda-target=sm_80",), "", backend="cuda", driver="cuda", is_gpu=True),
        Target("vulkan", ("--iree-vulkan-target=ampere",), "", backend="vulkan-spirv", driver="vulkan", is_gpu=True),
    )
}


def target_of(name: str) -> Target:
    """A target by its name; "host" is the best one that this machine fits.

    Raises:
        InputError: There is none.
    """
    if name == "host":
        fitting = [
            one for one in TARGETS.values() if one.architecture == architecture() and set(one.features) <= features()
        ]
        if not fitting:
            raise InputError(
                f"there is no target for this machine ({architecture()}); give one of {', '.join(TARGETS)}."
            )
        return fitting[-1]
    if name not in TARGETS:
        raise InputError(f"there is no target {name!r}; there are host, {', '.join(TARGETS)}.")
    return TARGETS[name]
