"""`LoopSizes`: the strategy of loops, whose results become the next arguments."""

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

_Axis = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LoopSizes:
    """Results become the next arguments.

    The body was traced with sizes that stand for those of any iteration. A size stays the enclosing one if the results
    have it whenever the arguments have it: `_Solver` finds the largest set of such sizes. All other sizes are carried.
    Arguments that share a carried size must share its next value too.

    Args:
        shared: Whether arguments that have one size share it (`preserve_dimensions`).
        num_carries: How many inputs are carried. The others, such as the rows of a scan, always keep their sizes.
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
        """With sizes of their own, all carried arguments may be resized."""
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
        """Which results are Python numbers, as their first values were."""
        count, results = self.num_carries, traced[-1].results
        carried = zip(expanded.inputs[:count], results, strict=False)
        return [first.weak and again.weak for first, again in carried] + [False] * len(results[count:])

    def _fitted(self, expanded: Expanded, body: Traced) -> tuple[Tracer, ...]:
        """The results in the dtypes of the arguments; ranks are checked.

        Raises:
            Retry: An argument that is a Python number takes the dtype of its result.
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
    """Decides which sizes of a loop keep their outer value, and what the others become."""

    def __init__(self, strategy: LoopSizes, expanded: Expanded, body: Traced, results: tuple[Tracer, ...]) -> None:
        self._strategy = strategy
        self._expanded = expanded
        self._body = body
        self._results = results
        self._equal = Equalities(body.scope)
        self._uses: dict[int, list[_Axis]] = {entry: [] for entry in range(len(expanded.sizes))}
        for position in range(strategy.num_carries):
            for axis, entry in enumerate(expanded.entries(position)):
                if entry is not None:
                    self._uses[entry].append((position, axis))
        rows = range(strategy.num_carries, len(expanded.inputs))
        self._pinned = {entry for position in rows for entry in expanded.entries(position)}

    def solve(self) -> dict[int, Dim]:
        """The sizes that change, each with what it becomes in terms of the body."""
        stable = set(self._uses)
        while True:
            sizes = self._sizes(stable)
            changing = {entry for entry in stable if any(not self._stays(use, sizes) for use in self._uses[entry])}
            if not changing:
                break
            stable -= changing
        changed = {entry: self._new_size(entry, stable) for entry in sorted(set(self._uses) - stable)}
        self._check_others(self._sizes(stable))
        return changed

    def _sizes(self, stable: set[int]) -> dict[Var, Dim]:
        return {self._body.implicit[entry]: self._expanded.sizes[entry] for entry in sorted(stable)}

    def _before(self, use: _Axis) -> Dim:
        return self._expanded.inputs[use[0]].dims[use[1]]

    def _given(self, position: int) -> tuple[Dim, ...]:
        """The sizes of an argument in terms of the body."""
        return self._body.arguments[len(self._body.function.leading) + position].dims

    def _dim(self, use: _Axis) -> Dim:
        return self._results[use[0]].dims[use[1]]

    def _stays(self, use: _Axis, sizes: Mapping[Var, Dim]) -> bool:
        """Whether a result has the size of the argument, if the sizes that stay are those outside."""
        dim, first = self._dim(use), self._before(use)
        normal = self._equal.normal(dim)
        if normal == self._equal.normal(self._given(use[0])[use[1]]):
            return True
        return first in (outside(self._body.scope, sizes, dim), outside(self._body.scope, sizes, normal))

    def _new_size(self, entry: int, stable: set[int]) -> Dim:
        """The size that all arguments which share `entry` have after an iteration.

        Raises:
            ShapeError: They become different sizes.
        """
        uses = self._uses[entry]
        first = self._dim(uses[0])
        if entry in self._pinned:
            raise self._refusal(
                uses[0],
                "the rows that the loop reads share it. To give each its own size",
            )
        for use in uses[1:]:
            if self._known(self._dim(use), stable) != self._known(first, stable):
                stays = [candidate for candidate in uses if self._stays(candidate, self._sizes(stable | {entry}))]
                moved = next(candidate for candidate in uses if candidate not in stays) if stays else uses[0]
                differing = stays[0] if stays else use
                became = "keeps it" if stays else f"becomes {self._shown(self._dim(differing))}"
                raise self._refusal(moved, partner(_argument(self._body, differing[0]), became))
        return first

    def _known(self, dim: Dim, stable: set[int]) -> Dim:
        """A normal form that sizes which are equal in every iteration share; sizes that stay are written as outside."""
        scope, sizes = self._body.scope, self._sizes(stable)
        known = outside(scope, sizes, dim)
        if known is not None:
            return known

        def value(atom: Any) -> Dim:
            outer = outside(scope, sizes, Size.of(atom))
            return Size.of(atom) if outer is None else outer

        return substitute(self._equal.normal(dim), value)

    def _shown(self, dim: Dim) -> Dim:
        """A size as the user knows it: in terms of the first iteration, where that is possible."""
        sizes = dict(zip(self._body.implicit, self._expanded.sizes, strict=True))
        known = outside(self._body.scope, sizes, dim)
        return dim if known is None else known

    def _refusal(self, use: _Axis, why: str) -> ShapeError:
        result, name = self._results[use[0]], _argument(self._body, use[0])
        after = f"{self._shown(self._dim(use))} (made at {result.line})"
        return resized(self._body.function.location, name, use[1], self._before(use), after, why)

    def _check_others(self, sizes: Mapping[Var, Dim]) -> None:
        """Check the sizes that are no implicit inputs, such as numbers: they stay, or their axes are opened.

        Raises:
            Retry: Some are to be opened.
            ShapeError: A number changes, and sizes are shared.
        """
        opened: set[_Axis] = set()
        for position in range(self._strategy.num_carries):
            for axis, entry in enumerate(self._expanded.entries(position)):
                use = position, axis
                if entry is not None or self._stays(use, sizes):
                    continue
                if not self._strategy.shared:
                    opened.add(use)
                elif isinstance(self._before(use), int):
                    raise self._refusal(use, "a size that is a number stays what it is. To let it change")
                else:
                    opened |= self._sharing(self._before(use))
        if opened:
            raise Retry(opened=frozenset(opened))

    def _sharing(self, size: Dim) -> set[_Axis]:
        inputs = enumerate(self._expanded.inputs)
        return {
            (position, axis) for position, argument in inputs for axis, dim in enumerate(argument.dims) if dim == size
        }

    def outputs(self, changed: Mapping[int, Dim]) -> tuple[list[Operand], list[Operand]]:
        """The explicit and the implicit outputs of the body; results get the very sizes that their types need."""
        builder = self._body.scope.builder
        sizes = [changed.get(entry, Size.of(var)) for entry, var in enumerate(self._body.implicit)]
        results: list[Operand] = []
        for position, result in enumerate(self._results):
            operand = result.operand
            if position < self._strategy.num_carries and result.ndim:
                entries, given = self._expanded.entries(position), self._given(position)
                wanted = [dim if entry is None else sizes[entry] for entry, dim in zip(entries, given, strict=True)]
                operand = builder.assert_dims(operand, wanted)
            results.append(operand)
        return results, [builder.size_operand(size) for size in sizes]


def _argument(traced: Traced, position: int) -> str:
    """How messages call a carried argument."""
    return argument_name(traced.function.names[len(traced.function.leading) :], position)
