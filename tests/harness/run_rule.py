"""Computes a rule written against an array namespace: traced, then interpreted in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np

from plica.ir.interpret import interpret_program
from plica.ir.types import spec
from plica.ops import OPS
from plica.tracing.trace import trace_function


def run_rule(rule: Callable[..., Any], *arrays: Any, batch_axis: dict[int, int] | None = None) -> Any:
    """`rule(*arrays)`; the axes in `batch_axis` (argument: axis) get a symbolic size."""
    values = [np.asarray(array) for array in arrays]
    specs = []
    for number, value in enumerate(values):
        sizes: list[Any] = list(value.shape)
        if batch_axis and number in batch_axis:
            sizes[batch_axis[number]] = "b"
        specs.append(spec(tuple(sizes), str(value.dtype)))
    bound = trace_function(rule, specs, lambda found: (found, {}), specs).bound
    results = interpret_program(bound.program, OPS, values, bound.leaves)  # arrays that the rule closes over
    return results[0] if len(results) == 1 else results
