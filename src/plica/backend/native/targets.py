"""The machines that native files are for, and features that a machine must have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plica.errors import InputError
from plica.runtime.machine import LEVELS, architecture, features


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of machine.

    Args:
        name: Its name for the option `--target`.
        architecture: `x86_64` or `aarch64`.
        features: Instruction sets that the processor must have.
    """

    name: str
    architecture: str
    features: tuple[str, ...] = ()


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        *(Target(level, "x86_64", features) for level, features in LEVELS.items()),
        Target("aarch64", "aarch64", ("asimd",)),
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
