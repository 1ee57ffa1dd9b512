"""The machines that native files are for: flags of the compiler, and features that a machine must have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plica.errors import InputError
from plica.runtime.machine import LEVELS, architecture, features


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of machine.

    Args:
        name: Its name after `--target`.
        flags: Flags of the compiler.
        architecture: `x86_64` or `aarch64`.
        features: Instruction sets that the processor must have.
    """

    name: str
    flags: tuple[str, ...]
    architecture: str
    features: tuple[str, ...] = ()


def _x86(level: str) -> Target:
    cpu = "generic" if level == "x86-64" else level  # said too, else the compiler warns of it in 36 lines
    flags = ["--iree-llvmcpu-target-triple=x86_64-unknown-linux-gnu", f"--iree-llvmcpu-target-cpu={cpu}"]
    if level == "x86-64-v4":  # LLVM's vectors of loops would take half of a register, and IREE's take all of it
        flags.append("--iree-llvmcpu-target-cpu-features=-prefer-256-bit")
    return Target(level, tuple(flags), "x86_64", LEVELS[level])


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        *map(_x86, LEVELS),
        Target("aarch64", ("--iree-llvmcpu-target-triple=aarch64-unknown-linux-gnu",), "aarch64", ("asimd",)),
    )
}


def target_of(name: str) -> Target:
    """The target of a name; "host" is the best one that this machine can run.

    Raises:
        InputError: There is no such target.
    """
    if name == "host":
        fitting = [
            target
            for target in TARGETS.values()
            if target.architecture == architecture() and set(target.features) <= features()
        ]
        if not fitting:
            raise InputError(
                f"there is no target for this machine ({architecture()}); give one of {', '.join(TARGETS)}."
            )
        return fitting[-1]
    if name not in TARGETS:
        raise InputError(f"there is no target {name!r}; there are host, {', '.join(TARGETS)}.")
    return TARGETS[name]
