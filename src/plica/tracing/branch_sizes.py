"""`BranchSizes`: the strategy of branches and calls, whose results are those of one function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plica.errors import DTypeError, ShapeError, TraceError
from plica.ir.program import Var
from plica.ir.sizes import Dim, as_size
from plica.tracing.inner_sizes import outside
from plica.tracing.namespace.operands import cast, result_dtype
from plica.tracing.nested import Expanded, Region, Traced, build_region
from plica.tracing.tracer import Tracer
from plica.tracing.trees import shown


@dataclass(frozen=True, slots=True)
class BranchSizes:
    """Results are those of one function among several.

    A size of a result is the enclosing one if all functions agree on it, else a new one.

    Args:
        what: How messages call the operation.
        shared: Whether all axes on which the functions make the same choice share one new size.
    """

    what: str
    shared: bool = True
    keeps_arguments = True

    def expand_results(self, expanded: Expanded, traced: Sequence[Traced]) -> list[Region]:
        """The Programs, with results of the same types and as many implicit outputs."""
        self._check_structures(traced)
        results = self._fitted(traced)
        new: list[tuple[Dim, ...]] = []
        for alike in zip(*results, strict=True):
            self._check_ranks(traced, alike)
            for dims in zip(*(result.dims for result in alike), strict=True):
                if self._common(expanded, traced, dims) is None and not (self.shared and dims in new):
                    new.append(dims)
        regions = []
        for position, (branch, fitted) in enumerate(zip(traced, results, strict=True)):
            implicit = [branch.scope.builder.size_operand(dims[position]) for dims in new]
            regions.append(build_region(branch, [result.operand for result in fitted], implicit))
        return regions

    def openable(self, inputs: Sequence[Tracer]) -> frozenset[tuple[int, int]]:
        """None: arguments keep their sizes."""
        del inputs
        return frozenset()

    def numbers(self, expanded: Expanded, traced: Sequence[Traced]) -> list[bool]:
        """Which results are Python numbers in every branch."""
        del expanded
        return [
            all(result.weak for result in alike) for alike in zip(*(branch.results for branch in traced), strict=True)
        ]

    def _common(self, expanded: Expanded, traced: Sequence[Traced], dims: Sequence[Dim]) -> Dim | None:
        sizes = [
            outside(branch.scope, _given_sizes(expanded, branch), dim) for branch, dim in zip(traced, dims, strict=True)
        ]
        return sizes[0] if all(size is not None and size == sizes[0] for size in sizes) else None

    def _check_structures(self, traced: Sequence[Traced]) -> None:
        first = traced[0]
        for branch in traced[1:]:
            if branch.structure != first.structure:
                raise TraceError(
                    f"{self.what}: the branches return different structures: {shown(first.structure)} "
                    f"at {first.function.location}, {shown(branch.structure)} at {branch.function.location}; "
                    "return the same tuples, lists and dicts."
                )

    def _check_ranks(self, traced: Sequence[Traced], alike: Sequence[Tracer]) -> None:
        if len({result.ndim for result in alike}) != 1:
            shown = ", ".join(
                f"{result.aval} at {branch.function.location}" for result, branch in zip(alike, traced, strict=True)
            )
            raise ShapeError(f"{self.what}: the branches return {shown}; give the results the same number of axes.")

    def _fitted(self, traced: Sequence[Traced]) -> list[list[Tracer]]:
        """The results in dtypes that all branches share."""
        results = [list(branch.results) for branch in traced]
        for position, alike in enumerate(zip(*(branch.results for branch in traced), strict=True)):
            dtype = result_dtype(alike)
            for branch, fitted in zip(traced, results, strict=True):
                if fitted[position].dtype == dtype:
                    continue
                if not fitted[position].weak:
                    shown = ", ".join(
                        f"{result.aval} at {maker.function.location}"
                        for result, maker in zip(alike, traced, strict=True)
                    )
                    raise DTypeError(f"{self.what}: the branches return {shown}; convert with astype.")
                with branch.scope.reopened():
                    fitted[position] = cast(fitted[position], dtype)
        return results


def _given_sizes(expanded: Expanded, traced: Traced) -> dict[Var, Dim]:
    """The sizes that a function is called with, and those among its explicit arguments."""
    sizes = dict(zip(traced.implicit, expanded.sizes, strict=True))
    for argument, tracer in zip(traced.arguments, expanded.inputs, strict=True):
        size = as_size(tracer.value)
        if size is not None and isinstance(argument.value, Var):
            sizes[argument.value] = size
    return sizes
