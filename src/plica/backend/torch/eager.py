"""Eager calls of `plica.numpy`: a small Program runs at once on tensors, and its function is kept."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import torch

from plica.backend.torch.emit import emit
from plica.backend.torch.leaves import attribute_of
from plica.ir.program import Bound, Program


def run(bound: Bound, values: Sequence[Any], scalars: frozenset[int], device: Any = None) -> tuple[Any, ...]:
    """The results of a Program.

    Args:
        bound: The Program and its leaves, which any library may hold.
        values: Tensors and Python numbers.
        scalars: The places of the numbers among `values`.
        device: Where new tensors go.
    """
    leaves = {
        attribute_of(var.name): torch.asarray(leaf, device=device)
        for var, leaf in zip(bound.program.consts, bound.leaves, strict=True)
    }
    results = emitted(bound.program, scalars)(SimpleNamespace(device=device, **leaves), *values)
    return results if isinstance(results, tuple) else (results,)


@lru_cache(maxsize=1024)
def emitted(program: Program, scalars: frozenset[int]) -> Callable[..., Any]:
    """The function of a Program, in which the numbers at `scalars` stay Python numbers."""
    return emit(program, numbers=scalars, constants=scalars)
