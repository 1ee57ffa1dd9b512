"""Checks that a model fits the memory of this machine, before anything of its size is allocated.

>>> check_fits(1000, "float32")
"""

import os
from pathlib import Path

from plica.errors import InputError

_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container: a number of bytes, or a word
_COPIES = 5  # of the parameters in training: weights, gradients, Adam's two moments, and the best weights so far
_BYTES = {"float32": 4, "float64": 8}


def check_fits(num_parameters: int, dtype: str, memory: int | None = None) -> None:
    """Raise if training would need more memory for the parameters of a model than this machine has.

    Args:
        num_parameters: How many numbers are learned.
        dtype: The dtype of the weights.
        memory: In bytes; by default the memory of the machine or of its container.

    Raises:
        InputError: The parameters do not fit.
    """
    available = machine_memory() if memory is None else memory
    needed = num_parameters * _BYTES[dtype] * _COPIES
    if available is not None and needed > available:
        raise InputError(
            f"the model would have {num_parameters:,} parameters, which take {needed / 2**30:,.0f} GiB in training, "
            f"and this machine has {available / 2**30:,.0f} GiB of memory; choose smaller --units or --num-values"
        )


def machine_memory() -> int | None:
    """The memory in bytes of this machine, or of its container; None if it is unknown."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        return None
    try:
        return min(physical, int(_LIMIT.read_text()))
    except (OSError, ValueError):
        return physical
