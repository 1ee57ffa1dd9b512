"""`LoopSizes`: the strategy of loops, whose body returns the arguments of the next iteration, the *carries*."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plica.errors import DTypeError, ShapeError
from plica.ir.program import Operand, Var
from plica.ir.sizes import Dim, Size, substitute
from plica.tracing.inner_sizes import Equalities, outside
from plica.tracing.namespace.operands import cast, result_dtype
from plica.tracing.nested import Expanded, Region, Retry, Traced, build_region
from plica.tracing.shared_sizes import argument_name, partner, resized
from plica.tracing.tracer import Tracer

_Axis = tuple[int, int]  # the position of an explicit input, and one of its axes


@dataclass(frozen=True, slots=True)
class LoopSizes:
    """Which sizes of the carries stay the same in all iterations, and which change and are carried too.

    The body was traced with fresh sizes, which may be those of any iteration. A size *stays* if the results have it
    whenever the arguments have it. `_Solver` finds the largest set of sizes that stay; these are sizes of the enclosing
    scope. The others change: each iteration returns their next values. Arguments that share a size that changes must
    share its next value too.

    Args:
        shared: Whether equal sizes of arguments are one size (`preserve_dimensions`). Otherwise each axis has its own.
        num_carries: How many inputs are carries. The others, such as the rows of a scan, always keep their sizes.
    """

    shared: bool
    num_carries: int
    keeps_arguments = False

    def expand_results(self, expanded: Expanded, traced: Sequence[Traced]) -> list[Region]:
        """The Programs: the condition of a while loop, if there is one, and then the body."""
        body = traced[-1]
        solver = _Solver(self, expanded, body, self._fitted(expanded, body))
        results, implicit = solver.outputs(solver.solve())
        conditions = [
            build_region(condition, [result.operand for result in condition.results], ()) for condition in traced[:-1]
        ]
        return [*conditions, build_region(body, results, implicit)]

    def openable(self, inputs: Sequence[Tracer]) -> frozenset[tuple[int, int]]:
        """All axes of carries whose size is a number, if each axis has a size of its own."""
        if self.shared:
            return frozenset()
        carried = enumerate(inputs[: self.num_carries])
        return frozenset(
            (position, axis)
            for position, argument in carried
            for axis, dim in enumerate(argument.dims)
            if isinstance(dim, int)
        )

    def numbers(self, expanded: Expanded, traced: Sequence[Traced]) -> list[bool]:
        """For each result whether it is a Python number: a carry is one if its first and its next value are."""
        count, results = self.num_carries, traced[-1].results
        carried = zip(expanded.inputs[:count], results, strict=False)
        return [first.weak and following.weak for first, following in carried] + [False] * len(results[count:])

    def _fitted(self, expanded: Expanded, body: Traced) -> tuple[Tracer, ...]:
        """The results of the body in the dtypes of its arguments.

        Raises:
            Retry: An argument that is a Python number must be an array of the dtype of its result.
            ShapeError: A carry would change its number of axes.
            DTypeError: A carry would change its dtype.
        """
        casts: dict[int, Tracer] = {}
        results = list(body.results)
        for position, (before, after) in enumerate(
            zip(expanded.inputs[: self.num_carries], body.results, strict=False)
        ):
            if before.ndim != after.ndim:
                raise ShapeError(
                    f"{body.function.location}: {_argument(body, position)} is {before.aval} and becomes {after.aval}; "
                    "what a loop carries keeps its number of axes."
                )
            wanted = result_dtype([before, after])
            if before.weak and (wanted != before.dtype or not after.weak):
                converted = cast(before, wanted)
                casts[position] = Tracer(converted.value, converted.trace, weak=after.weak)
            elif wanted == before.dtype and (after.weak or before.dtype == after.dtype):
                with body.scope.reopened():
                    results[position] = cast(after, wanted)
            else:
                raise DTypeError(
                    f"{body.function.location}: {_argument(body, position)} is {before.aval} and becomes {after.aval}; "
                    f"return it with astype(..., '{before.dtype.value}'), or start with {after.dtype.value}."
                )
        if casts:
            raise Retry(casts)
        return tuple(results)


class _Solver:
    """Decides which implicit inputs of a loop stay the same, and what the others become.

    An implicit input is named by its index, `size_index`. Its *uses* are the axes of carries that have this size.
    """

    def __init__(self, strategy: LoopSizes, expanded: Expanded, body: Traced, results: tuple[Tracer, ...]) -> None:
        self._strategy = strategy
        self._expanded = expanded
        self._body = body
        self._results = results
        self._equal = Equalities(body.scope)
        self._uses: dict[int, list[_Axis]] = {size_index: [] for size_index in range(len(expanded.sizes))}
        for position in range(strategy.num_carries):
            for axis, size_index in enumerate(expanded.size_indices(position)):
                if size_index is not None:
                    self._uses[size_index].append((position, axis))
        rows = range(strategy.num_carries, len(expanded.inputs))
        self._of_rows = {size_index for position in rows for size_index in expanded.size_indices(position)}

    def solve(self) -> dict[int, Dim]:
        """The implicit inputs that change, each with its next value in terms of the body."""
        stable = set(self._uses)
        while True:
            outer_sizes = self._outer_sizes(stable)
            changing = {
                size_index
                for size_index in stable
                if any(not self._stays(use, outer_sizes) for use in self._uses[size_index])
            }
            if not changing:
                break
            stable -= changing
        changed = {size_index: self._next_size(size_index, stable) for size_index in sorted(set(self._uses) - stable)}
        self._check_other_axes(self._outer_sizes(stable))
        return changed

    def _outer_sizes(self, stable: set[int]) -> dict[Var, Dim]:
        """The value in the enclosing scope of each implicit input that stays."""
        return {self._body.implicit[size_index]: self._expanded.sizes[size_index] for size_index in sorted(stable)}

    def _first(self, use: _Axis) -> Dim:
        """The size of an axis before the loop, in terms of the enclosing scope."""
        return self._expanded.inputs[use[0]].dims[use[1]]

    def _argument_dims(self, position: int) -> tuple[Dim, ...]:
        """The sizes of an argument of the body, in terms of the body."""
        return self._body.arguments[len(self._body.function.leading) + position].dims

    def _returned(self, use: _Axis) -> Dim:
        """The size of an axis of a result of the body, in terms of the body."""
        return self._results[use[0]].dims[use[1]]

    def _stays(self, use: _Axis, outer_sizes: Mapping[Var, Dim]) -> bool:
        """Whether a result has the size of its argument, if these implicit inputs have their outer sizes."""
        returned, first = self._returned(use), self._first(use)
        normal = self._equal.normal(returned)
        if normal == self._equal.normal(self._argument_dims(use[0])[use[1]]):
            return True
        scope = self._body.scope
        return first in (outside(scope, outer_sizes, returned), outside(scope, outer_sizes, normal))

    def _next_size(self, size_index: int, stable: set[int]) -> Dim:
        """The next value of an implicit input, which all of its uses have after an iteration.

        Raises:
            ShapeError: Its uses get different sizes, or a row that the loop reads has this size.
        """
        uses = self._uses[size_index]
        returned = self._returned(uses[0])
        if size_index in self._of_rows:
            raise self._refusal(
                uses[0],
                "the rows that the loop reads share it. To give each its own size",
            )
        for use in uses[1:]:
            if self._comparable(self._returned(use), stable) != self._comparable(returned, stable):
                outer_sizes = self._outer_sizes(stable | {size_index})
                staying = [candidate for candidate in uses if self._stays(candidate, outer_sizes)]
                changing = next(candidate for candidate in uses if candidate not in staying) if staying else uses[0]
                differing = staying[0] if staying else use
                became = "keeps it" if staying else f"becomes {self._shown(self._returned(differing))}"
                raise self._refusal(changing, partner(_argument(self._body, differing[0]), became))
        return returned

    def _comparable(self, dim: Dim, stable: set[int]) -> Dim:
        """A normal form: sizes that are equal in every iteration have the same. Sizes that stay are the outer ones."""
        scope, outer_sizes = self._body.scope, self._outer_sizes(stable)
        outer_dim = outside(scope, outer_sizes, dim)
        if outer_dim is not None:
            return outer_dim

        def value(atom: Any) -> Dim:
            outer = outside(scope, outer_sizes, Size.of(atom))
            return Size.of(atom) if outer is None else outer

        return substitute(self._equal.normal(dim), value)

    def _shown(self, dim: Dim) -> Dim:
        """A size as messages show it: that of the first iteration in terms of the enclosing scope, if it has one."""
        outer_sizes = dict(zip(self._body.implicit, self._expanded.sizes, strict=True))
        outer_dim = outside(self._body.scope, outer_sizes, dim)
        return dim if outer_dim is None else outer_dim

    def _refusal(self, use: _Axis, why: str) -> ShapeError:
        result, name = self._results[use[0]], _argument(self._body, use[0])
        after = f"{self._shown(self._returned(use))} (made at {result.line})"
        return resized(self._body.function.location, name, use[1], self._first(use), after, why)

    def _check_other_axes(self, outer_sizes: Mapping[Var, Dim]) -> None:
        """Check the axes of carries whose sizes are no implicit inputs, such as numbers: they stay, or are opened.

        Raises:
            Retry: Some are to be opened.
            ShapeError: A number changes, and sizes are shared.
        """
        opened: set[_Axis] = set()
        for position in range(self._strategy.num_carries):
            for axis, size_index in enumerate(self._expanded.size_indices(position)):
                use = position, axis
                if size_index is not None or self._stays(use, outer_sizes):
                    continue
                if not self._strategy.shared:
                    opened.add(use)
                elif isinstance(self._first(use), int):
                    raise self._refusal(use, "a size that is a number stays what it is. To let it change")
                else:
                    opened |= self._axes_of(self._first(use))
        if opened:
            raise Retry(opened=frozenset(opened))

    def _axes_of(self, size: Dim) -> set[_Axis]:
        """All axes of inputs that have this size before the loop."""
        inputs = enumerate(self._expanded.inputs)
        return {
            (position, axis) for position, argument in inputs for axis, dim in enumerate(argument.dims) if dim == size
        }

    def outputs(self, changed: Mapping[int, Dim]) -> tuple[list[Operand], list[Operand]]:
        """The explicit and the implicit outputs of the body; checks assert that carries have the sizes of `changed`."""
        builder = self._body.scope.builder
        sizes = [changed.get(size_index, Size.of(var)) for size_index, var in enumerate(self._body.implicit)]
        results: list[Operand] = []
        for position, result in enumerate(self._results):
            operand = result.operand
            if position < self._strategy.num_carries and result.ndim:
                axes = zip(self._expanded.size_indices(position), self._argument_dims(position), strict=True)
                dims = [dim if size_index is None else sizes[size_index] for size_index, dim in axes]
                operand = builder.assert_dims(operand, dims)
            results.append(operand)
        return results, [builder.size_operand(size) for size in sizes]


def _argument(traced: Traced, position: int) -> str:
    """The name of a carry in messages."""
    return argument_name(traced.function.names[len(traced.function.leading) :], position)
