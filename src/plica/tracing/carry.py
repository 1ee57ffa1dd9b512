"""`Carry`: the strategy of loops, whose results become the next arguments."""

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
class Carry:
    """Results become the next arguments.

    The body was traced with sizes that stand for those of any iteration. A size is the enclosing one if, as long as
    it is, the results have it too; this is the largest set of sizes for which that holds. All others are carried: then
    all arguments that share such a size must have one size again.

    Args:
        shared: Whether arguments that have one size share it (`preserve_dimensions`).
        num_carries: How many inputs are carried; the others are given anew each time, with the sizes they have.
    """

    shared: bool
    num_carries: int
    keeps_arguments = False

    def expand_results(self, expanded: Expanded, traced: Sequence[Traced]) -> list[Region]:
        """The Programs; the body comes last, before it may stand a condition on the same arguments."""
        body = traced[-1]
        solver = _Solver(self, expanded, body, self._fitted(expanded, body))
        results, implicit = solver.outputs(solver.solve())
        asked = [build_region(one, [result.operand for result in one.results], ()) for one in traced[:-1]]
        return [*asked, build_region(body, results, implicit)]

    def openable(self, inputs: Sequence[Tracer]) -> frozenset[tuple[int, int]]:
        """With sizes of their own, all carried arguments may be resized."""
        if self.shared:
            return frozenset()
        carried = enumerate(inputs[: self.num_carries])
        return frozenset(
            (place, axis) for place, one in carried for axis, dim in enumerate(one.dims) if isinstance(dim, int)
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
        for place, (before, after) in enumerate(zip(expanded.inputs[: self.num_carries], body.results, strict=False)):
            if before.ndim != after.ndim:
                raise ShapeError(
                    f"{body.function.place}: {_argument(body, place)} is {before.aval} and becomes {after.aval}; "
                    "what a loop carries keeps its number of axes."
                )
            wanted = result_dtype([before, after])
            if before.weak and (wanted != before.dtype or not after.weak):
                converted = cast(before, wanted)
                casts[place] = Tracer(converted.value, converted.trace, weak=after.weak)
            elif wanted == before.dtype and (after.weak or before.dtype == after.dtype):
                with body.scope.reopened():
                    results[place] = cast(after, wanted)
            else:
                raise DTypeError(
                    f"{body.function.place}: {_argument(body, place)} is {before.aval} and becomes {after.aval}; "
                    f"return it with astype(..., '{before.dtype.value}'), or start with {after.dtype.value}."
                )
        if casts:
            raise Retry(casts)
        return tuple(results)


class _Solver:
    """Which sizes of a loop stay, and what the others become."""

    def __init__(self, strategy: Carry, expanded: Expanded, body: Traced, results: tuple[Tracer, ...]) -> None:
        self._strategy = strategy
        self._expanded = expanded
        self._body = body
        self._results = results
        self._equal = Equalities(body.scope)
        self._uses: dict[int, list[_Axis]] = {entry: [] for entry in range(len(expanded.sizes))}
        for place in range(strategy.num_carries):
            for axis, entry in enumerate(expanded.entries(place)):
                if entry is not None:
                    self._uses[entry].append((place, axis))
        rows = range(strategy.num_carries, len(expanded.inputs))
        self._pinned = {entry for place in rows for entry in expanded.entries(place)}

    def solve(self) -> dict[int, Dim]:
        """The sizes that change, each with what it becomes in terms of the body."""
        kept = set(self._uses)
        while True:
            sizes = self._sizes(kept)
            lost = {entry for entry in kept if any(not self._stays(use, sizes) for use in self._uses[entry])}
            if not lost:
                break
            kept -= lost
        changed = {entry: self._new_size(entry, kept) for entry in sorted(set(self._uses) - kept)}
        self._check_others(self._sizes(kept))
        return changed

    def _sizes(self, kept: set[int]) -> dict[Var, Dim]:
        return {self._body.implicit[entry]: self._expanded.sizes[entry] for entry in sorted(kept)}

    def _before(self, use: _Axis) -> Dim:
        return self._expanded.inputs[use[0]].dims[use[1]]

    def _given(self, place: int) -> tuple[Dim, ...]:
        """The sizes of an argument in terms of the body."""
        return self._body.arguments[len(self._body.function.leading) + place].dims

    def _dim(self, use: _Axis) -> Dim:
        return self._results[use[0]].dims[use[1]]

    def _stays(self, use: _Axis, sizes: Mapping[Var, Dim]) -> bool:
        """Whether a result has the size of the argument, if the sizes that stay are those outside."""
        dim, first = self._dim(use), self._before(use)
        normal = self._equal.normal(dim)
        if normal == self._equal.normal(self._given(use[0])[use[1]]):
            return True
        return first in (outside(self._body.scope, sizes, dim), outside(self._body.scope, sizes, normal))

    def _new_size(self, entry: int, kept: set[int]) -> Dim:
        """What all arguments that share a size become.

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
            if self._known(self._dim(use), kept) != self._known(first, kept):
                stays = [one for one in uses if self._stays(one, self._sizes(kept | {entry}))]
                moved = next(one for one in uses if one not in stays) if stays else uses[0]
                other = stays[0] if stays else use
                became = "keeps it" if stays else f"becomes {self._shown(self._dim(other))}"
                raise self._refusal(moved, partner(_argument(self._body, other[0]), became))
        return first

    def _known(self, dim: Dim, kept: set[int]) -> Dim:
        """What sizes share that are equal in every iteration: sizes that stay are written as they are outside."""
        scope, sizes = self._body.scope, self._sizes(kept)
        known = outside(scope, sizes, dim)
        if known is not None:
            return known

        def value(atom: Any) -> Dim:
            found = outside(scope, sizes, Size.of(atom))
            return Size.of(atom) if found is None else found

        return substitute(self._equal.normal(dim), value)

    def _shown(self, dim: Dim) -> Dim:
        """A size as the user knows it: of the first iteration, where it can be said."""
        sizes = dict(zip(self._body.implicit, self._expanded.sizes, strict=True))
        known = outside(self._body.scope, sizes, dim)
        return dim if known is None else known

    def _refusal(self, use: _Axis, why: str) -> ShapeError:
        result, name = self._results[use[0]], _argument(self._body, use[0])
        after = f"{self._shown(self._dim(use))} (made at {result.line})"
        return resized(self._body.function.place, name, use[1], self._before(use), after, why)

    def _check_others(self, sizes: Mapping[Var, Dim]) -> None:
        """Sizes that are no inputs stay: numbers, and those that were taken to. Where they do not, they are opened.

        Raises:
            Retry: Some are to be opened.
            ShapeError: A number changes, and sizes are shared.
        """
        opened: set[_Axis] = set()
        for place in range(self._strategy.num_carries):
            for axis, entry in enumerate(self._expanded.entries(place)):
                use = place, axis
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
        return {(place, axis) for place, one in inputs for axis, dim in enumerate(one.dims) if dim == size}

    def outputs(self, changed: Mapping[int, Dim]) -> tuple[list[Operand], list[Operand]]:
        """The explicit and the implicit outputs of the body; results get the very sizes that their types need."""
        builder = self._body.scope.builder
        sizes = [changed.get(entry, Size.of(var)) for entry, var in enumerate(self._body.implicit)]
        results: list[Operand] = []
        for place, result in enumerate(self._results):
            operand = result.operand
            if place < self._strategy.num_carries and result.ndim:
                entries, given = self._expanded.entries(place), self._given(place)
                wanted = [dim if entry is None else sizes[entry] for entry, dim in zip(entries, given, strict=True)]
                operand = builder.assert_dims(operand, wanted)
            results.append(operand)
        return results, [builder.size_operand(size) for size in sizes]


def _argument(traced: Traced, place: int) -> str:
    """How messages call a carried argument."""
    return argument_name(traced.function.names[len(traced.function.leading) :], place)
