"""Calls of one traced function by another, and of compiled circuits: nested Programs under the operation `call`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from plica.ir.program import Program
from plica.ir.sizes import Dim, substitute
from plica.tracing.branch_sizes import BranchSizes
from plica.tracing.control import place_of
from plica.tracing.namespace.operands import as_tracer
from plica.tracing.nested import Expanded, Function, Region, bind_nested
from plica.tracing.refine import apply_nested
from plica.tracing.scope import Trace, scope_of
from plica.tracing.tracer import Tracer
from plica.tracing.trees import unflatten


def trace_call(
    fn: Callable[..., Any], leaves: Sequence[Any], call: Callable[[Sequence[Tracer]], Any], names: Sequence[str | None]
) -> Any:
    """Record a call of `fn`.

    Args:
        fn: The function.
        leaves: The leaves of its arguments: tracers, arrays, numbers.
        call: Runs it on tracers for the leaves.
        names: Hints for the names of the leaves.
    """
    name = getattr(fn, "__name__", type(fn).__name__)
    inputs = [as_tracer(name, leaf) for leaf in leaves]
    function = Function(lambda *tracers: call(tracers), name, place_of(fn), (), tuple(names))

    def record(scope: Trace, expanded: Expanded, regions: Sequence[Region]) -> tuple[Tracer, ...]:
        (region,) = regions
        program = region.program
        return apply_nested(
            scope,
            "call",
            *region.captured,
            *map(scope.builder.size_operand, expanded.sizes),
            *expanded.inputs,
            program=program,
            body_nconsts=len(region.captured),
            num_implicit_inputs=program.num_implicit_inputs,
            num_implicit_outputs=program.num_implicit_outputs,
            name=name,
        )

    results, structure = bind_nested("call", [function], inputs, BranchSizes(name), record)
    return unflatten(structure, results)


def call_program(program: Program, leaves: Sequence[Any], arguments: Sequence[Any], name: str) -> tuple[Tracer, ...]:
    """Record a call of a Program.

    Args:
        program: The Program to call. Its sizes that are results come before its other results.
        leaves: The references or arrays that it captures, in the order of its consts.
        arguments: Its explicit arguments.
        name: The name of the call.

    Raises:
        ShapeError: The arguments do not fit.
    """
    scope = scope_of(*arguments)
    captured = [scope.capture(leaf, var.name) for leaf, var in zip(leaves, program.consts, strict=True)]
    tracers = [scope.receive(as_tracer(name, argument)) for argument in arguments]
    sizes: dict[Any, Dim] = {}
    for var, tracer in zip(program.arguments, tracers, strict=True):
        for wanted, dim in zip(var.type.shape, tracer.dims, strict=False):
            for size in program.inputs[: program.num_implicit_inputs]:
                if size not in sizes and substitute(wanted, lambda atom, size=size: 0 if atom is size else -1) == 0:  # type: ignore[misc]
                    sizes[size] = dim
    implicit = [scope.builder.size_operand(sizes[size]) for size in program.inputs[: program.num_implicit_inputs]]
    return scope.apply(
        "call",
        *captured,
        *implicit,
        *tracers,
        program=program,
        body_nconsts=len(captured),
        num_implicit_inputs=program.num_implicit_inputs,
        num_implicit_outputs=program.num_implicit_outputs,
        name=name,
    )
