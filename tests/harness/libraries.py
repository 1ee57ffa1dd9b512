"""Programs as shared libraries of this machine, called with numpy arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np

from plica.backend.native.loops.build import build_nest
from plica.backend.native.loops.shared_library import MACHINES, Machine, library
from plica.backend.native.loops.support import NO_MEMORY
from plica.backend.native.targets import target_of
from plica.ir.program import Program
from plica.ir.signature import size_sources
from plica.ir.sizes import Size, evaluate
from plica.runtime.shared_library import Left, Library
from tests.harness.programs import Array

HOST: Machine = MACHINES[target_of("host").name]
"""The best machine that this one is."""


def compile_library(program: Program, kind: Machine = HOST) -> Callable[..., tuple[Array, ...]]:
    """A Program that captures nothing as a library; the function raises what its sites raise."""
    nest = build_nest(program)
    loaded = Library(library({"main": nest}, kind))
    sources = size_sources(program)
    types = [var.type.dtype.numpy for var in program.arguments]

    def run(*arguments: Any) -> tuple[Array, ...]:
        arrays = [
            np.ascontiguousarray(one, dtype).reshape(np.shape(one)) for one, dtype in zip(arguments, types, strict=True)
        ]
        sizes: dict[Any, int] = {var: arrays[place].shape[axis] for var, (place, axis) in sources.items()}
        given, left = [], []
        for result, written in zip(program.results, nest.results, strict=True):
            if written.is_caller_allocated:
                shape = [
                    evaluate(dim, lambda var: sizes[var]) if isinstance(dim, Size) else dim for dim in result.type.shape
                ]
                given.append(np.empty([max(one, 0) for one in shape], result.type.dtype.numpy))
            else:
                left.append(Left(len(result.type.shape), result.type.dtype.numpy))
        most = max((site.count for site in nest.sites), default=0)
        status, arrays_left, numbers = loaded.call("main", arrays, [*sizes.values()], given, left, most)
        if status == NO_MEMORY:
            raise MemoryError
        if status:
            site = nest.sites[status - 1]
            raise site.error(numbers[: site.count])
        ours, theirs = iter(given), iter(arrays_left)
        return tuple(next(ours if written.is_caller_allocated else theirs) for written in nest.results)

    return run
