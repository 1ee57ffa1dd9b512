"""Recording of loops and branches: the functions that each operation runs, and the order of its operands.

The public decorators are in `plica/frontend/control.py`; the tracing itself, alike for all, is `nested.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from plica.errors import InputError, TraceError
from plica.ir.dtypes import DType, as_dtype
from plica.ir.program import Operand, Var
from plica.ir.sizes import Dim
from plica.ir.types import SCALAR_SIZE, array_type
from plica.tracing.branch_sizes import BranchSizes
from plica.tracing.locations import user_line
from plica.tracing.loop_sizes import LoopSizes
from plica.tracing.namespace.operands import as_dim, as_tracer, cast, is_array, is_number
from plica.tracing.nested import Expanded, Function, Region, bind_nested
from plica.tracing.refine import apply_nested
from plica.tracing.scope import Trace, scope_of
from plica.tracing.tracer import Tracer
from plica.tracing.trees import Structure, flatten, shown, unflatten

Body = Callable[..., Any]


# Pieces


def place_of(fn: Any) -> str:
    """`file:line` of a function."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(fn)


def parameter_names(fn: Any) -> list[str]:
    """The names of the positional parameters of a function; none where Python cannot tell."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]


def require_scalar(what: str, value: Any, kind: str) -> None:
    """Check that a bound or a predicate is a scalar, traced or not.

    Raises:
        TraceError: `value` is no scalar of that kind.
    """
    if isinstance(value, Tracer):
        type_: Any = value.aval
    elif is_number(value) or is_array(value):
        type_ = array_type(getattr(value, "shape", ()), as_dtype(getattr(value, "dtype", type(value))))
    else:
        type_ = None
    if type_ is None or type_.shape or type_.dtype.kind != kind:
        shown = f"{type(value).__name__} {value!r}" if type_ is None else type_
        hint = "; write a comparison such as x > 0, or reduce it with plica.numpy.any" if kind == "bool" else ""
        raise TraceError(f"{user_line()}: {what} is a scalar {kind}, found {shown}{hint}.")


def _scalar(what: str, value: Any, dtype: DType) -> Tracer:
    """A bound or a predicate as a tracer."""
    require_scalar(what, value, dtype.kind)
    return cast(as_tracer(what, value), dtype)


def argument_names(fn: Any, leading: int, trees: Sequence[Any]) -> tuple[str | None, ...]:
    """Hints for the names of the arguments: those of the parameters that are single arrays."""
    names: list[str | None] = [*parameter_names(fn)]
    names += [None] * (leading + len(trees) - len(names))
    hints = names[:leading]
    for name, tree in zip(names[leading:], trees, strict=False):
        count = len(flatten(tree)[0])
        hints += [name] if count == 1 else [None if name is None else f"{name}_{i}" for i in range(count)]
    return tuple(hints)


class _Carried:
    """The arguments that a loop carries, as trees.

    Args:
        what: The loop, for messages.
        init: The first arguments.
    """

    def __init__(self, what: str, init: tuple[Any, ...]) -> None:
        self._what = what
        self._count = len(init)
        leaves, self.structure = flatten(init)
        self.leaves = [as_tracer(f"an argument of {what}", leaf) for leaf in leaves]

    def returned(self, location: str, results: Any) -> list[Any]:
        """The leaves of what the body defined at `location` returned.

        Raises:
            TraceError: The body returned something else than its next arguments.
        """
        leaves, structure = flatten(next_arguments(self._what, location, results, self._count))
        if structure != self.structure:
            raise TraceError(
                f"{location}: the body of {self._what} is given {shown(self.structure)} and returns "
                f"{shown(structure)}; return the same tuples, lists and dicts."
            )
        return leaves

    def result(self, leaves: Sequence[Any]) -> Any:
        """The results of the loop as the caller sees them: as many trees as there were arguments."""
        return as_result(unflatten(self.structure, leaves))


def require_arity(fn: Body, args: Sequence[Any], what: str) -> None:
    """Check that a body, a condition or a branch takes `args`; `what` says what they are.

    Raises:
        TraceError: `fn` takes another number of arguments.
    """
    try:
        inspect.signature(fn).bind(*args)
    except ValueError:  # Python does not know the signature
        pass
    except TypeError as error:
        raise TraceError(
            f"{place_of(fn)}: the function is called with {what}, which it does not take: {error}."
        ) from None


def carried_values(count: int) -> str:
    """The arguments that a loop passes to its functions, for messages."""
    return f"{count} carried value(s)"


def require_branches(branches: Sequence[Body], args: Sequence[Any]) -> None:
    """Check that every branch of a cond, also one that is not chosen, takes `args`.

    Raises:
        TraceError: A branch does not take `args`, or is no function.
    """
    for branch in branches:
        if not callable(branch):
            raise TraceError(
                f"{user_line()}: a branch of cond is a function, found {type(branch).__name__}; write `lambda: x`, or "
                "use plica.numpy.where to choose between arrays."
            )
        require_arity(branch, args, f"the {len(args)} argument(s) that every branch of its cond is given")


def next_arguments(what: str, location: str, results: Any, count: int) -> tuple[Any, ...]:
    """The results of a body, as a tuple of its next arguments.

    Raises:
        TraceError: There are too few or too many.
    """
    if results is None and count:
        raise TraceError(f"{location}: the body of {what} returns nothing; return the next value of each argument.")
    trees = () if count == 0 and results is None else (results,) if count == 1 else results
    if not isinstance(trees, tuple | list) or len(trees) != count:
        returned = str(len(trees)) if isinstance(trees, tuple | list) else type(results).__name__
        raise TraceError(
            f"{location}: the body of {what} is given {count} argument(s) and returns {returned}; "
            "return the next value of each, in order."
        )
    return tuple(trees)


def as_result(trees: Sequence[Any]) -> Any:
    """The result of a loop: nothing, one value, or a tuple."""
    return None if not trees else trees[0] if len(trees) == 1 else tuple(trees)


def _implicit_operands(scope: Trace, expanded: Expanded) -> list[Operand]:
    """The operands of the sizes among a region's inputs."""
    return [scope.builder.size_operand(size) for size in expanded.sizes]


def _implicit_params(region: Region) -> dict[str, int]:
    program = region.program
    return {
        "num_implicit_inputs": program.num_implicit_inputs,
        "num_implicit_outputs": program.num_implicit_outputs,
    }


# One function for each operation


def trace_for(bounds: Sequence[Any], fn: Body, init: tuple[Any, ...], *, shared: bool) -> Any:
    """Record `for_loop` over `range(*bounds)`."""
    limits = [_scalar("the bound of a loop", bound, DType.INT64) for bound in bounds]
    if isinstance(bounds[2], int) and bounds[2] == 0:
        raise InputError(f"{user_line()}: the step of a loop is 0; take a positive or a negative step.")
    carried, location = _Carried("for_loop", init), place_of(fn)
    require_arity(fn, (0, *init), f"the index and {carried_values(len(init))}")

    def call(index: Tracer, *leaves: Tracer) -> Any:
        return carried.returned(location, fn(index, *unflatten(carried.structure, leaves)))

    def record(scope: Trace, expanded: Expanded, regions: Sequence[Region]) -> tuple[Tracer, ...]:
        (region,) = regions
        return apply_nested(
            scope,
            "for_loop",
            *region.captured,
            *_implicit_operands(scope, expanded),
            *limits,
            *expanded.inputs,
            body=region.program,
            body_nconsts=len(region.captured),
            **_implicit_params(region),
            preserve_dimensions=shared,
        )

    body = Function(call, "body", location, (SCALAR_SIZE,), argument_names(fn, 1, init))
    results, _ = bind_nested("for_loop", [body], carried.leaves, LoopSizes(shared, len(carried.leaves)), record)
    return carried.result(results)


def trace_while(condition: Callable[..., Any], fn: Body, init: tuple[Any, ...], *, shared: bool) -> Any:
    """Record `while_loop`."""
    carried, location = _Carried("while_loop", init), place_of(fn)
    for function in (condition, fn):
        require_arity(function, init, carried_values(len(init)))

    def ask(*leaves: Tracer) -> Any:
        result = condition(*unflatten(carried.structure, leaves))
        return _scalar("the condition of a loop", result, DType.BOOL)

    def call(*leaves: Tracer) -> Any:
        return carried.returned(location, fn(*unflatten(carried.structure, leaves)))

    def record(scope: Trace, expanded: Expanded, regions: Sequence[Region]) -> tuple[Tracer, ...]:
        cond, region = regions
        return apply_nested(
            scope,
            "while_loop",
            *cond.captured,
            *region.captured,
            *_implicit_operands(scope, expanded),
            *expanded.inputs,
            cond=cond.program,
            cond_nconsts=len(cond.captured),
            body=region.program,
            body_nconsts=len(region.captured),
            **_implicit_params(region),
            preserve_dimensions=shared,
        )

    functions = [
        Function(ask, "cond", place_of(condition), (), argument_names(condition, 0, init)),
        Function(call, "body", location, (), argument_names(fn, 0, init)),
    ]
    results, _ = bind_nested("while_loop", functions, carried.leaves, LoopSizes(shared, len(carried.leaves)), record)
    return carried.result(results)


def trace_cond(
    predicates: Sequence[Any], branches: Sequence[tuple[Body, str]], args: tuple[Any, ...], *, shared: bool
) -> Any:
    """Record `cond`: branches, each with its `file:line`, one more than there are predicates."""
    conditions = [_scalar("the predicate of cond", predicate, DType.BOOL) for predicate in predicates]
    functions = [
        Function(lambda branch=branch: branch(*args), f"branch {number}", location)
        for number, (branch, location) in enumerate(branches)
    ]

    def record(scope: Trace, expanded: Expanded, regions: Sequence[Region]) -> tuple[Tracer, ...]:
        del expanded
        return apply_nested(
            scope,
            "cond",
            *conditions,
            *(operand for region in regions for operand in region.captured),
            branches=tuple(region.program for region in regions),
            branch_nconsts=tuple(len(region.captured) for region in regions),
            **_implicit_params(regions[0]),
            preserve_dimensions=shared,
        )

    results, structure = bind_nested("cond", functions, (), BranchSizes("cond", shared), record)
    return unflatten(structure, results)


def trace_scan(body: Body, init: Any, xs: Any, length: Any, *, reverse: bool, shared: bool) -> tuple[Any, Any]:
    """Record `scan`."""
    scope, location = scope_of(), place_of(body)
    leaves, row_structure = flatten(xs)
    arrays = [scope.receive(as_tracer("an array of scan", leaf)) for leaf in leaves]
    carried = _Carried("scan", (init,))
    count, structures = len(carried.leaves), list[Structure]()

    def call(*leaves: Tracer) -> Any:
        (carry,) = unflatten(carried.structure, leaves[:count])
        after, row = as_pair(location, body(carry, unflatten(row_structure, leaves[count:])))
        stacked, structure = flatten(row)
        structures.append(structure)
        return [*carried.returned(location, after), *stacked]

    def record(scope: Trace, expanded: Expanded, regions: Sequence[Region]) -> tuple[Tracer, ...]:
        (region,) = regions
        return apply_nested(
            scope,
            "scan",
            *region.captured,
            *_implicit_operands(scope, expanded),
            *expanded.inputs[:count],
            *arrays,
            body=region.program,
            body_nconsts=len(region.captured),
            num_carries=count,
            length=_length(arrays, length),
            reverse=reverse,
            **_implicit_params(region),
            preserve_dimensions=shared,
        )

    rows = [Tracer(Var("row", array_type(array.dims[1:], array.dtype)), scope) for array in arrays if array.ndim]
    function = Function(call, "body", location, (), argument_names(body, 0, (init, xs)))
    _length(arrays, length)
    results, _ = bind_nested("scan", [function], [*carried.leaves, *rows], LoopSizes(shared, count), record)
    return carried.result(results[:count]), unflatten(structures[-1], results[count:])


def as_pair(location: str, results: Any) -> tuple[Any, Any]:
    """The next carry and the row that the body of a scan returned.

    Raises:
        TraceError: `results` is no pair.
    """
    if not isinstance(results, tuple | list) or len(results) != 2:
        raise TraceError(f"{location}: the body of scan returns a pair: the next carry, and what this step makes.")
    return results[0], results[1]


def _length(arrays: Sequence[Tracer], length: Any) -> Dim:
    if length is not None:
        return as_dim(length)
    for array in arrays:
        if not array.ndim:
            raise TraceError(f"{user_line()}: scan runs along the first axis of its arrays, found {array.aval}.")
    if not arrays:
        raise TraceError(f"{user_line()}: scan needs arrays to run along, or a length.")
    return arrays[0].dims[0]
