"""Whether a model fits this machine, asked before anything of its size is made.

>>> check_fits(1000, "float32")
"""

import os
from pathlib import Path

from plica.errors import InputError

_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container: a number of bytes, or a word
_COPIES = 5  # of the parameters in training: weights, gradients, Adam's two moments, and the best weights so far
_BYTES = {"float32": 4, "float64": 8}


def check_fits(num_parameters: int, dtype: str, memory: int | None = None) -> None:
    """Raise where the parameters of a model, as training needs them, are more than the memory of this machine.

    Args:
        num_parameters: How many numbers are learned.
        dtype: Of the weights.
        memory: In bytes; by default what the machine, or its container, has.

    Raises:
        InputError: They do not fit.
    """
    found = machine_memory() if memory is None else memory
    needed = num_parameters * _BYTES[dtype] * _COPIES
    if found is not None and needed > found:
        raise InputError(
            f"the model would have {num_parameters:,} parameters, which take {needed / 2**30:,.0f} GiB in training, "
            f"and this machine has {found / 2**30:,.0f} GiB of memory; choose smaller --units or --num-values"
        )


def machine_memory() -> int | None:
    """The memory in bytes of this machine, or of the container that it is; None where it cannot be known."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        return None
    try:
        return min(found, int(_LIMIT.read_text()))
    except (OSError, ValueError):
        return found
