"""Loops and branches: decorators that are recorded while a function is traced, and else run at once.

    >>> import plica
    >>> @plica.for_loop(0, 4)
    ... def total(i, a):
    ...     return a + i
    >>> total(10)
    16

Without a function they are decorators; with one they run immediately. Outside a trace they run as Python's own loops
and branches, on arrays of any library.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from operator import index
from typing import Any

import numpy as np

from plica.eager import namespace
from plica.errors import InputError, ShapeError, TraceError
from plica.ops.control import steps
from plica.tracing.control import (
    Body,
    argument_names,
    as_pair,
    as_result,
    carried_values,
    next_arguments,
    place_of,
    require_arity,
    require_branches,
    require_scalar,
    trace_cond,
    trace_for,
    trace_scan,
    trace_while,
)
from plica.tracing.locations import user_line
from plica.tracing.scope import current_trace, scope_of
from plica.tracing.shared_sizes import SharedSizes, handed_over
from plica.tracing.tracer import Tracer
from plica.tracing.trees import Structure, flatten, unflatten

__all__ = ["Cond", "cond", "for_loop", "scan", "while_loop"]


def _is_traced(*values: Any) -> bool:
    if current_trace() is not None:
        return True
    tracers = [leaf for leaf in flatten(values)[0] if isinstance(leaf, Tracer)]
    return bool(tracers) and scope_of(*tracers) is not None  # `scope_of` refuses tracers of functions that have ended


def for_loop(
    lower: Any,
    upper: Any,
    step: Any = 1,
    body: Body | None = None,
    *init: Any,
    preserve_dimensions: bool = True,
) -> Any:
    """A loop over `range(lower, upper, step)`: `body(i, *arguments)` returns the next arguments.

    Sizes of arguments may change from one iteration to the next. Arguments that start with one size share it in all
    iterations; with `preserve_dimensions=False` each has a size of its own. Outside a trace, where sizes may be equal
    by chance, only an array that is passed twice shares its size.

    Args:
        lower: The first index, a scalar integer.
        upper: The end of the indices, exclusive.
        step: The step from one index to the next, not 0; may be negative.
        body: The function; without it, `for_loop` is a decorator.
        init: The first arguments, if there is a body: trees of arrays.
        preserve_dimensions: Whether arguments of one size share it.

    Returns:
        With a body, the last arguments: one value if there is one, else a tuple. Without one, a decorator, which turns
        the body into a function of the first arguments.

    Raises:
        TraceError: The body returns something else than its next arguments.
        ShapeError: Arguments that share a size end an iteration with different sizes.
        DTypeError: A dtype changes.
        InputError: The step is 0.
    """

    def decorate(fn: Body) -> Callable[..., Any]:
        def loop(*first: Any) -> Any:
            if _is_traced(lower, upper, step, first):
                return trace_for((lower, upper, step), fn, first, shared=preserve_dimensions)
            require_arity(fn, (0, *first), f"the index and {carried_values(len(first))}")
            state, sizes = first, _shared_sizes(fn, 1, first, preserve_dimensions)
            for i in steps(*(_integer("the bound of a loop", bound) for bound in (lower, upper, step))):
                state = next_arguments("for_loop", place_of(fn), fn(i, *handed_over(state)), len(first))
                sizes.check(state)
            return as_result(handed_over(state))

        return update_wrapper(loop, fn)

    return decorate if body is None else decorate(body)(*init)


def while_loop(
    condition: Callable[..., Any], body: Body | None = None, *init: Any, preserve_dimensions: bool = True
) -> Any:
    """A loop that goes on while `condition(*arguments)` holds: `body(*arguments)` returns the next arguments.

    Args:
        condition: Gives a scalar bool.
        body: The function; without it, `while_loop` is a decorator.
        init: The first arguments, if there is a body.
        preserve_dimensions: Whether arguments of one size share it, as in `for_loop`.

    Returns:
        As `for_loop`.

    Raises:
        TraceError: The condition gives no scalar bool, or the body something else than its next arguments.
        ShapeError: Arguments that share a size end an iteration with different sizes.
        DTypeError: A dtype changes.
    """

    def decorate(fn: Body) -> Callable[..., Any]:
        def loop(*first: Any) -> Any:
            if _is_traced(first):
                return trace_while(condition, fn, first, shared=preserve_dimensions)
            for function in (condition, fn):
                require_arity(function, first, carried_values(len(first)))
            state, sizes = first, _shared_sizes(fn, 0, first, preserve_dimensions)
            while _truth("the condition of a loop", condition(*(state := handed_over(state)))):
                state = next_arguments("while_loop", place_of(fn), fn(*state), len(first))
                sizes.check(state)
            return as_result(state)

        return update_wrapper(loop, fn)

    return decorate if body is None else decorate(body)(*init)


class Cond:
    """Branches under construction; a call runs the chosen one.

    Args:
        predicate: The scalar bool of the first branch.
        branch: The first branch.
        preserve_dimensions: Whether axes of results share a size that all branches give to both.
    """

    def __init__(self, predicate: Any, branch: Body, *, preserve_dimensions: bool = True) -> None:
        self._shared = preserve_dimensions
        self._predicates = [predicate]
        self._branches = [branch]
        self._has_otherwise = False

    def else_if(self, predicate: Any) -> Callable[[Body], Cond]:
        """A decorator: another branch, if no predicate so far holds and this one does."""

        def decorate(branch: Body) -> Cond:
            self._require_open()
            self._predicates.append(predicate)
            self._branches.append(branch)
            return self

        return decorate

    def otherwise(self, branch: Body) -> Cond:
        """A decorator: the branch if no predicate holds."""
        self._require_open()
        self._branches.append(branch)
        self._has_otherwise = True
        return self

    def _require_open(self) -> None:
        if self._has_otherwise:
            raise TraceError(f"{user_line()}: `otherwise` is the last branch of a cond; put else_if before it.")

    def __call__(self, *args: Any) -> Any:
        """Run the chosen branch with `args`.

        Raises:
            TraceError: A predicate is no scalar bool, a branch does not take `args`, or the branches return
                different structures.
            DTypeError: They return different dtypes.
            ShapeError: They return different numbers of axes.
        """
        branches = [*self._branches, *([] if self._has_otherwise else [_nothing])]
        predicates = self._predicates
        require_branches(branches, args)
        if not _is_traced(predicates):
            indices_of_true = (
                index for index, predicate in enumerate(predicates) if _truth("the predicate of cond", predicate)
            )
            return handed_over(branches[next(indices_of_true, len(predicates))](*args))
        located_branches = [(branch, self._location(branch)) for branch in branches]
        return trace_cond(predicates, located_branches, args, shared=self._shared)

    def _location(self, branch: Body) -> str:
        return place_of(branch) if branch is not _nothing else f"{place_of(self._branches[0])} (there is no otherwise)"


def cond(
    predicate: Any,
    true_branch: Body | None = None,
    false_branch: Body | None = None,
    *args: Any,
    preserve_dimensions: bool = True,
) -> Any:
    """Branches: the first whose predicate holds, else `otherwise`.

    Used as a decorator, `cond(predicate)` makes a `Cond` of a function. Its methods `.else_if(predicate)` and
    `.otherwise` are decorators too; then it is called. With two functions it runs at once:
    `cond(predicate, true_branch, false_branch, *args)`.

    Branches may return arrays of different sizes; the size of the result is then known when the program runs. Axes
    that have the same size in every branch share it; with `preserve_dimensions=False` each has a size of its own.
    Without `otherwise` branches return nothing.

    Raises:
        TraceError: A predicate is no scalar bool, or the branches return different structures.
    """
    if true_branch is None:
        return lambda branch: Cond(predicate, branch, preserve_dimensions=preserve_dimensions)
    branches = Cond(predicate, true_branch, preserve_dimensions=preserve_dimensions)
    return (branches if false_branch is None else branches.otherwise(false_branch))(*args)


def _nothing(*_: Any) -> None:
    """The branch of a cond without `otherwise`."""


def _truth(what: str, value: Any) -> bool:
    require_scalar(what, value, "bool")
    return bool(value)


def scan(
    body: Body,
    init: Any,
    xs: Any = None,
    length: Any = None,
    *,
    reverse: bool = False,
    preserve_dimensions: bool = True,
) -> tuple[Any, Any]:
    """A loop over the first axis of arrays that stacks the results of its steps.

    Args:
        body: `body(carry, x)` returns the next carry and the result of this step, trees of arrays.
        init: The first carry.
        xs: Arrays of one size along their first axis; None if there are none.
        length: The number of steps if there is no `xs`.
        reverse: Whether to run from the last row to the first; results are still stacked in the order of rows.
        preserve_dimensions: Whether arguments of one size share it, as in `for_loop`.

    Returns:
        The last carry, and the results of the steps, stacked along a new first axis.

    Raises:
        ShapeError: Results of two steps may differ in size, or arrays of the carry no longer share a size.
        TraceError: The body returns no pair, or neither `xs` nor `length` is given.
    """
    if _is_traced(init, xs, length):
        return trace_scan(body, init, xs, length, reverse=reverse, shared=preserve_dimensions)
    leaves, structure = flatten(xs)
    if not leaves and length is None:
        raise TraceError(f"{user_line()}: scan needs arrays to run along, or a length.")
    count = _steps_along(leaves, length)
    carry, rows, sizes = init, [], _shared_sizes(body, 0, (init,), preserve_dimensions)
    for step in reversed(range(count)) if reverse else range(count):
        row = unflatten(structure, [leaf[step] for leaf in leaves])
        carry, row_result = as_pair(place_of(body), body(handed_over(carry), row))
        sizes.check(carry)
        rows.append(flatten(row_result))
    if not rows:  # tracing a step gives the structure of its result
        return _scan_nothing(body, init, xs)
    rows = rows[::-1] if reverse else rows
    stack = namespace.stack
    stacks = [stack(list(results), axis=0) for results in zip(*(leaves for leaves, _ in rows), strict=True)]
    return handed_over(carry), unflatten(rows[0][1], stacks)


def _steps_along(leaves: list[Any], length: Any) -> int:
    """How many steps a scan over arrays takes."""
    for leaf in leaves:
        if not getattr(leaf, "ndim", 0):
            raise TraceError(f"{user_line()}: scan runs along the first axis of its arrays, found {leaf!r}.")
    count = len(leaves[0]) if length is None else _integer("the length of scan", length)
    if count < 0:
        raise InputError(f"{user_line()}: the length of scan is {count}; take 0 or more.")
    for leaf in leaves:
        if len(leaf) != count:
            shape = tuple(leaf.shape)
            raise ShapeError(f"{user_line()}: scan has {count} steps, but is given an array of shape {shape}.")
    return count


def _shared_sizes(body: Body, leading: int, first: tuple[Any, ...], preserve_dimensions: bool) -> SharedSizes:
    """The check of sizes after each step."""
    names = argument_names(body, leading, first)[leading:]
    return SharedSizes(place_of(body), names, first if preserve_dimensions else ())


def _integer(what: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise TraceError(f"{user_line()}: {what} is a scalar int, found {value!r}.") from None


def _scan_nothing(body: Body, init: Any, xs: Any) -> tuple[Any, Any]:
    """A scan without steps: the carry unchanged, and empty stacks of the types that a step's results would have."""
    leaves, structure = flatten((init, xs))
    arrays = [leaf for leaf in leaves if hasattr(leaf, "dtype")]
    structures: list[Structure] = []

    def stacks(*tracers: Tracer) -> list[Any]:
        remaining = iter(tracers)
        carry, rows = unflatten(structure, [next(remaining) if hasattr(leaf, "dtype") else leaf for leaf in leaves])
        empty, tree = flatten(trace_scan(body, carry, rows, 0, reverse=False, shared=False)[1])
        structures.append(tree)
        return empty

    try:
        results = namespace.run_eagerly(stacks, arrays)
        return init, unflatten(structures[-1], results)
    except (ShapeError, TraceError):  # the body needs values, not only types: run a step on zeros
        empty, tree = flatten(as_pair(place_of(body), body(init, _zeros(xs)))[1])
        return init, unflatten(tree, [namespace.stack([leaf])[:0] for leaf in empty])


def _zeros(xs: Any) -> Any:
    """A row of zeros for each array, which has no rows."""
    leaves, structure = flatten(xs)
    return unflatten(
        structure,
        [
            np.zeros(leaf.shape[1:], leaf.dtype) if isinstance(leaf, np.ndarray) else leaf.new_zeros(leaf.shape[1:])
            for leaf in leaves
        ],
    )
