"""Strategies of expansion: which sizes of the results of a nested function are sizes outside, and which are new.

`Carry` is that of loops: results become the next arguments, so that a size either stays what it was or is carried
along. `Agree` is that of branches and calls: a size is the enclosing one where all functions agree on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar

from plica.errors import DTypeError, ShapeError, TraceError
from plica.ir.program import Equation, Operand, Program, Var, nested, size_variables
from plica.ir.sizes import Dim, Size, as_size, atoms, same, single_atom, substitute
from plica.tracing.namespace.operands import cast, result_dtype
from plica.tracing.nested import Expanded, Region, Retry, Traced, build_region
from plica.tracing.refine import refine
from plica.tracing.tracer import Trace, Tracer

_Axis = tuple[int, int]


# Sizes inside, in terms of the sizes outside


class _Equalities:
    """Sizes of a scope up to the equalities that its checks establish."""

    def __init__(self, scope: Trace) -> None:
        self._known: dict[Any, Dim] = {}
        for first, second in scope.builder.equalities:
            left, right = self.normal(first), self.normal(second)
            for one, other in ((left, right), (right, left)):
                atom = single_atom(one) if isinstance(one, Size) else None
                if isinstance(atom, Var) and atom not in list(atoms(other)):
                    self._known[atom] = other
                    break

    def normal(self, dim: Dim) -> Dim:
        for _ in range(len(self._known) + 1):
            dim = substitute(dim, lambda atom: self._known.get(atom, Size.of(atom)))
        return dim


def _outside(scope: Trace, sizes: Mapping[Var, Dim], dim: Dim) -> Dim | None:
    """A size of `scope` in terms of the enclosing one; None if it depends on what only the scope knows."""
    outer = {inner: Size.of(var) for var, inner in scope.captured.items()}
    known = True

    def value(atom: Any) -> Dim:
        nonlocal known
        found = sizes.get(atom, outer.get(atom))
        known = known and found is not None
        return 0 if found is None else found

    result = substitute(dim, value)
    return result if known else None


# Loops


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

    def expand_results(self, expanded: Expanded, traced: Sequence[Traced]) -> list[Region]:
        """The Programs; the body comes last, before it may stand a condition on the same arguments."""
        body = traced[-1]
        solver = _Solver(self, expanded, body, self._fitted(expanded, body))
        changed = solver.solve()
        constant = solver.constant_sizes(changed)
        results, implicit = solver.outputs(changed)
        asked = [build_region(one, [result.operand for result in one.results], ()) for one in traced[:-1]]
        regions = [*asked, build_region(body, results, implicit)]
        return _without(regions, traced, constant)

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
                with _open(body.scope):
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
        self._equal = _Equalities(body.scope)
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
            lost = {entry for entry in kept if any(not self._stays(use, entry, sizes) for use in self._uses[entry])}
            if not lost:
                break
            kept -= lost
        changed = {entry: self._new_size(entry, kept) for entry in sorted(set(self._uses) - kept)}
        self._check_numbers(self._sizes(kept))
        return changed

    def _sizes(self, kept: set[int]) -> dict[Var, Dim]:
        return {self._body.implicit[entry]: self._expanded.sizes[entry] for entry in sorted(kept)}

    def _dim(self, use: _Axis) -> Dim:
        return self._results[use[0]].dims[use[1]]

    def _stays(self, use: _Axis, entry: int, sizes: Mapping[Var, Dim]) -> bool:
        """Whether a result has the size of the argument, if the sizes that stay are those outside."""
        own, first = Size.of(self._body.implicit[entry]), self._expanded.sizes[entry]
        dim = self._dim(use)
        normal = self._equal.normal(dim)
        if normal == self._equal.normal(own):
            return True
        return first in (_outside(self._body.scope, sizes, dim), _outside(self._body.scope, sizes, normal))

    def _new_size(self, entry: int, kept: set[int]) -> Dim:
        """What all arguments that share a size become.

        Raises:
            ShapeError: They become different sizes.
        """
        uses = self._uses[entry]
        first = self._dim(uses[0])
        if entry in self._pinned:
            self._refuse(uses[0], "the arrays that the loop runs over have it too, and they do not change")
        for use in uses[1:]:
            if self._equal.normal(self._dim(use)) != self._equal.normal(first):
                stays = [one for one in uses if self._stays(one, entry, self._sizes(kept | {entry}))]
                moved = next(one for one in uses if one not in stays) if stays else uses[0]
                other = stays[0] if stays else use
                became = "keeps it" if stays else f"becomes {self._shown(self._dim(other))}"
                self._refuse(moved, f"{_argument(self._body, other[0])}, which shares that size, {became}")
        return first

    def _shown(self, dim: Dim) -> Dim:
        """A size as the user knows it: of the first iteration, where it can be said."""
        sizes = dict(zip(self._body.implicit, self._expanded.sizes, strict=True))
        outside = _outside(self._body.scope, sizes, dim)
        return dim if outside is None else outside

    def _refuse(self, use: _Axis, why: str) -> None:
        place, axis = use
        result = self._results[place]
        raise ShapeError(
            f"{self._body.function.place}: axis {axis} of {_argument(self._body, place)} has size "
            f"{self._expanded.inputs[place].dims[axis]} and becomes {self._shown(result.dims[axis])} "
            f"(made at {result.line}), but {why}. If these sizes are equal only at first, "
            "use preserve_dimensions=False."
        )

    def _check_numbers(self, sizes: Mapping[Var, Dim]) -> None:
        """Axes whose size is a number keep it; with `preserve_dimensions=False` they are opened where they do not.

        Raises:
            Retry: Some are to be opened.
            ShapeError: One changes.
        """
        opened = []
        for place in range(self._strategy.num_carries):
            for axis, entry in enumerate(self._expanded.entries(place)):
                before, after = self._expanded.inputs[place].dims[axis], self._dim((place, axis))
                if entry is not None or same(before, after):
                    continue
                outside = _outside(self._body.scope, sizes, after)
                if outside == before:
                    continue
                if not self._strategy.shared:
                    opened.append((place, axis))
                elif (outside is not None and same(before, outside) is False) or isinstance(after, int):
                    self._refuse((place, axis), "a size that is a number stays what it is")
                else:
                    self._refuse((place, axis), "a size that is a number stays what it is, and this one may not be it")
        if opened:
            raise Retry(opened=frozenset(opened))

    def constant_sizes(self, changed: Mapping[int, Dim]) -> dict[int, Dim]:
        """Sizes that stay and that the body also knows as captured ones, in terms of the enclosing scope."""
        captured = self._body.scope.captured
        used = _sizes_in_types(self._body.scope)
        constant = {}
        for entry, size in enumerate(self._expanded.sizes):
            outer = list(atoms(size))
            if entry not in changed and outer and all(captured.get(atom) in used for atom in outer):  # type: ignore[call-overload]
                constant[entry] = size
        return constant

    def outputs(self, changed: Mapping[int, Dim]) -> tuple[list[Operand], list[Operand]]:
        """The explicit and the implicit outputs of the body; results get the very sizes that their types need."""
        builder = self._body.scope.builder
        sizes = [changed.get(entry, Size.of(var)) for entry, var in enumerate(self._body.implicit)]
        results: list[Operand] = []
        for place, result in enumerate(self._results):
            operand = result.operand
            if place < self._strategy.num_carries and result.ndim:
                before = self._expanded.inputs[place].dims
                entries = self._expanded.entries(place)
                wanted = [dim if entry is None else sizes[entry] for entry, dim in zip(entries, before, strict=True)]
                operand = builder.assert_dims(operand, wanted)
            results.append(operand)
        return results, [builder.size_operand(size) for size in sizes]


def _sizes_in_types(scope: Trace) -> dict[Var, None]:
    """The variables that sizes within a scope refer to."""
    program = scope.builder.build((), ())
    values: list[Any] = [var.type for var in program.consts]
    for equation in program.equations:
        values += [tuple(equation.params.values()), *(var.type for var in equation.outputs)]
        for one in nested(equation.params):
            inputs = (*one.consts, *one.inputs)
            shapes = [var for var in inputs if var in dict.fromkeys(chain(*(size_variables(v.type) for v in inputs)))]
            places = [inputs.index(var) for var in shapes]
            values += [tuple(Size.of(operand) for operand in _at(equation, places) if isinstance(operand, Var))]
    return dict.fromkeys(chain(*map(size_variables, values)))


def _at(equation: Equation, places: Sequence[int]) -> list[Operand]:
    return [equation.inputs[place] for place in places if place < len(equation.inputs)]


def _without(regions: Sequence[Region], traced: Sequence[Traced], constant: Mapping[int, Dim]) -> list[Region]:
    """The regions with captured sizes in the place of implicit inputs that equal them.

    Args:
        regions: What was built; outputs of the last one belong to its inputs.
        traced: What they were built from.
        constant: Implicit inputs by place, with their sizes outside.
    """
    if not constant:
        return list(regions)
    programs = [_renamed(region.program, one, constant) for region, one in zip(regions, traced, strict=True)]
    gone = {entry for entry in constant if not any(_reads(one, one.inputs[entry]) for one in programs)}
    return [
        Region(
            replace(
                program,
                inputs=_dropped(program.inputs, gone),
                outputs=_dropped(program.outputs, gone) if program.num_implicit_outputs else program.outputs,
                num_implicit_inputs=program.num_implicit_inputs - len(gone),
                num_implicit_outputs=program.num_implicit_outputs and program.num_implicit_outputs - len(gone),
            ),
            tuple(one.scope.captured),
            _dropped(region.entries, gone),
        )
        for program, region, one in zip(programs, regions, traced, strict=True)
    ]


T = TypeVar("T")


def _dropped(items: Sequence[T], gone: set[int]) -> tuple[T, ...]:
    return tuple(one for place, one in enumerate(items) if place not in gone)


def _reads(program: Program, var: Var) -> bool:
    """Whether an equation or an explicit result reads the value of `var`."""
    return var in program.results or any(var in equation.inputs for equation in program.equations)


def _renamed(program: Program, traced: Traced, constant: Mapping[int, Dim]) -> Program:
    """`program` with the sizes outside, as captured, in the place of implicit inputs."""
    scope = traced.scope
    assert scope.parent is not None, "a nested function has an enclosing scope"
    sizes = {traced.implicit[entry]: scope.lift(size, scope.parent) for entry, size in constant.items()}
    before = len(program.equations)
    values = {var: scope.builder.size_operand(size) for var, size in sizes.items() if _reads(program, var)}
    made = scope.builder.build((), ()).equations[before:]
    equations = (*made, *(one for one in program.equations if one not in made))
    program = replace(program, consts=tuple(scope.captured.values()), equations=equations)
    return refine(program, sizes, {var: one for var, one in values.items() if isinstance(one, Var)})


def _argument(traced: Traced, place: int) -> str:
    """How messages call a carried argument."""
    names = traced.function.names[len(traced.function.leading) :]
    name = names[place] if place < len(names) else None
    return f"argument {place}" if name is None else f"argument {name!r}"


# Branches and calls


@dataclass(frozen=True, slots=True)
class Agree:
    """Results are those of one function among several.

    A size of a result is the enclosing one if all functions agree on it, else a new one, shared by all axes on which
    the functions make the same choice.
    """

    what: str
    shared: bool = True

    def expand_results(self, expanded: Expanded, traced: Sequence[Traced]) -> list[Region]:
        """The Programs, with results of the same types and as many implicit outputs."""
        self._check_structures(traced)
        results = self._fitted(traced)
        new: dict[tuple[Dim, ...], None] = {}
        for alike in zip(*results, strict=True):
            self._check_ranks(traced, alike)
            for dims in zip(*(one.dims for one in alike), strict=True):
                if self._common(expanded, traced, dims) is None:
                    new[dims] = None
        regions = []
        for place, (one, found) in enumerate(zip(traced, results, strict=True)):
            implicit = [one.scope.builder.size_operand(dims[place]) for dims in new]
            regions.append(build_region(one, [result.operand for result in found], implicit))
        return regions

    def numbers(self, expanded: Expanded, traced: Sequence[Traced]) -> list[bool]:
        """Which results are Python numbers in every branch."""
        del expanded
        return [all(one.weak for one in alike) for alike in zip(*(one.results for one in traced), strict=True)]

    def _common(self, expanded: Expanded, traced: Sequence[Traced], dims: Sequence[Dim]) -> Dim | None:
        found = [_outside(one.scope, _given_sizes(expanded, one), dim) for one, dim in zip(traced, dims, strict=True)]
        return found[0] if all(one is not None and one == found[0] for one in found) else None

    def _check_structures(self, traced: Sequence[Traced]) -> None:
        first = traced[0]
        for one in traced[1:]:
            if one.structure != first.structure:
                raise TraceError(
                    f"{self.what}: the branches return different structures: {first.structure} "
                    f"at {first.function.place}, {one.structure} at {one.function.place}; "
                    "return the same tuples, lists and dicts."
                )

    def _check_ranks(self, traced: Sequence[Traced], alike: Sequence[Tracer]) -> None:
        if len({one.ndim for one in alike}) != 1:
            shown = ", ".join(f"{one.aval} at {where.function.place}" for one, where in zip(alike, traced, strict=True))
            raise ShapeError(f"{self.what}: the branches return {shown}; give the results the same number of axes.")

    def _fitted(self, traced: Sequence[Traced]) -> list[list[Tracer]]:
        """The results in dtypes that all branches share."""
        results = [list(one.results) for one in traced]
        for place, alike in enumerate(zip(*(one.results for one in traced), strict=True)):
            dtype = result_dtype(alike)
            for one, found in zip(traced, results, strict=True):
                if found[place].dtype == dtype:
                    continue
                if not found[place].weak:
                    shown = ", ".join(
                        f"{result.aval} at {where.function.place}" for result, where in zip(alike, traced, strict=True)
                    )
                    raise DTypeError(f"{self.what}: the branches return {shown}; convert with astype.")
                with _open(one.scope):
                    found[place] = cast(found[place], dtype)
        return results


def _given_sizes(expanded: Expanded, traced: Traced) -> dict[Var, Dim]:
    """The sizes that a function is given, those among its explicit arguments too."""
    sizes = dict(zip(traced.implicit, expanded.sizes, strict=True))
    for argument, found in zip(traced.arguments, expanded.inputs, strict=True):
        size = as_size(found.value)
        if size is not None and isinstance(argument.value, Var):
            sizes[argument.value] = size
    return sizes


class _open:  # noqa: N801 - reads as a word: with _open(scope)
    """A scope whose function has ended takes a few more equations."""

    def __init__(self, scope: Trace) -> None:
        self._scope = scope

    def __enter__(self) -> None:
        self._scope.is_open = True
        self._active = self._scope.active()
        self._active.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._active.__exit__(*error)
