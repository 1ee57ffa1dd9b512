"""Nested Programs in equations: what their types are at given operands, and where their operands stand.

A size that an operation may change is an implicit output: the type of a result then refers to it by `OutDBIdx`. A size
that it does not change is the operand's own.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

from plica.errors import VerifyError
from plica.ir.program import Equation, Operand, Program, size_variables
from plica.ir.sizes import Dim, Size, as_size, same, substitute
from plica.ir.types import ArrayType, OutDBIdx, array_type
from plica.ops.rules import require_equal_sizes

Typed = tuple[ArrayType, Dim | None]


class Region:
    """A nested Program at the operands that it is given: what its sizes are outside.

    Args:
        program: The Program.
        consts: The type of each const outside, and the size that it stands for.
        inputs: The same of each input; None for one that has another value each time, such as the index of a loop.
        what: How messages call the operation.
    """

    def __init__(
        self, program: Program, consts: Sequence[Typed | None], inputs: Sequence[Typed | None], what: str
    ) -> None:
        for kind, variables, operands in (("consts", program.consts, consts), ("inputs", program.inputs, inputs)):
            if len(operands) != len(variables):
                raise VerifyError(f"{what}: the region takes {len(variables)} {kind}, found {len(operands)}.")
        self.program = program
        self._outside: dict[Any, Dim] = {}
        for var, operand in zip((*program.consts, *program.inputs), (*consts, *inputs), strict=True):
            if operand is None:
                continue
            type_, size = operand
            if var.type.dtype != type_.dtype or len(var.type.shape) != len(type_.shape):
                raise VerifyError(f"{what}: the region expects {var!r}, found {type_}.")
            for inner, found in zip(var.type.shape, type_.shape, strict=True):
                wanted = self.outside(inner)
                if wanted is None:
                    raise VerifyError(f"{what}: the sizes of {var!r} are none that the region is given.")
                require_equal_sizes(wanted, found, f"{what}: the region expects {var!r}, found {type_}.")
            if as_size(var) is not None and size is not None:
                self._outside[var] = size

    def outside(self, dim: Dim, changing: frozenset[Any] = frozenset()) -> Dim | None:
        """A size of the region in terms of the sizes outside; None if it depends on what is computed inside."""
        unknown = False

        def value(atom: Any) -> Dim:
            nonlocal unknown
            if atom not in self._outside or atom in changing:
                unknown = True
                return 0
            return self._outside[atom]

        result = substitute(dim, value)
        return None if unknown else result


def require_sizes(program: Program, num_inputs: int, num_outputs: int, what: str) -> None:
    """Check that a region takes and returns as many sizes as its equation says.

    Raises:
        VerifyError: It does not.
    """
    found = (program.num_implicit_inputs, program.num_implicit_outputs)
    if found != (num_inputs, num_outputs):
        raise VerifyError(
            f"{what}: the region takes {found[0]} size(s) and returns {found[1]}, "
            f"but the equation says {num_inputs} and {num_outputs}."
        )


def typed(types: Sequence[ArrayType], sizes: Sequence[Dim | None]) -> list[Typed]:
    """Each operand's type with the size that it stands for."""
    return list(zip(types, sizes, strict=True))


def carried(
    region: Region, first: int, count: int, what: str, *, stacks: bool = False
) -> tuple[list[ArrayType], frozenset[Any]]:
    """The types of `count` results that a loop carries, whose inputs start at `first`, and the sizes that change.

    With `stacks` the body may return more than it carries.
    """
    program = region.program
    kept, given, made = program.num_implicit_inputs, program.inputs, program.outputs
    if program.num_implicit_outputs != kept:
        raise VerifyError(f"{what}: the body takes {kept} size(s) and returns {program.num_implicit_outputs}.")
    if len(program.results) < count or (len(program.results) > count and not stacks):
        raise VerifyError(f"{what}: the body carries {count} value(s) and returns {len(program.results)}.")
    changing = frozenset(var for var, after in zip(given[:kept], made[:kept], strict=True) if after is not var)
    places = {Size.of(var): place for place, var in enumerate(given[:kept])}
    types = []
    for before, after in zip(given[first : first + count], made[kept : kept + count], strict=True):
        if before.type.dtype != after.type.dtype or len(before.type.shape) != len(after.type.shape):
            raise VerifyError(f"{what}: the body is given {before!r} and returns {after.type}.")
        dims: list[Dim] = []
        for old, new in zip(before.type.shape, after.type.shape, strict=True):
            place = places.get(old) if isinstance(old, Size) else None
            if place is None or given[place] not in changing:
                expected, outside = old, region.outside(old)
            else:
                expected, outside = program.size_of(made[place]), Size.of(OutDBIdx(place))
            if not same(expected, new):
                raise VerifyError(f"{what}: the body is given {before!r} and returns {after.type}.")
            assert outside is not None, "the sizes of an input are sizes of consts and inputs before it"
            dims.append(outside)
        types.append(array_type(dims, after.type.dtype))
    return types, changing


def varying(operands: Sequence[Typed]) -> list[Typed]:
    """Operands that have other values each time: a scalar among them is no size that is known outside."""
    return [(type_, None) for type_, _ in operands]


def agreed(regions: Sequence[Region], num_implicit: int, what: str) -> list[ArrayType]:
    """The types of what several regions return: a size on which all agree, else an implicit output of each."""
    results = [region.program.results for region in regions]
    if len({len(one) for one in results}) != 1:
        raise VerifyError(f"{what}: the branches return {', '.join(str(len(one)) for one in results)} results.")
    for region in regions:
        require_sizes(region.program, region.program.num_implicit_inputs, num_implicit, what)
    made = [[region.program.size_of(one) for one in region.program.outputs[:num_implicit]] for region in regions]
    types = []
    for alike in zip(*results, strict=True):
        shapes = [one.type.shape for one in alike]
        if len({(len(one.type.shape), one.type.dtype) for one in alike}) != 1:
            raise VerifyError(f"{what}: the branches return {', '.join(str(one.type) for one in alike)}.")
        dims = [_agreed_dim(regions, axis, made, what) for axis in zip(*shapes, strict=True)]
        types.append(array_type(dims, alike[0].type.dtype))
    return types


def _agreed_dim(regions: Sequence[Region], dims: Sequence[Dim], made: Sequence[Sequence[Dim]], what: str) -> Dim:
    for place, sizes in enumerate(zip(*made, strict=True)):
        if all(same(size, dim) for size, dim in zip(sizes, dims, strict=True)):
            return Size.of(OutDBIdx(place))
    outside = {region.outside(dim) for region, dim in zip(regions, dims, strict=True)}
    if len(outside) != 1 or None in outside:
        raise VerifyError(f"{what}: the sizes {', '.join(map(str, dims))} of a result are no outputs.")
    return next(dim for dim in outside if dim is not None)


# Where the operands of nested Programs stand


def _counts(counts: Sequence[int]) -> list[slice]:
    """Consecutive slices of these lengths, and one for the rest."""
    starts = [0]
    for count in counts:
        starts.append(starts[-1] + count)
    return [slice(a, b) for a, b in pairwise(starts)] + [slice(starts[-1], None)]


def split(items: Sequence[Any], *counts: int) -> list[list[Any]]:
    """`items` in parts of these lengths, and the rest."""
    return [list(items[part]) for part in _counts(counts)]


def with_regions(equation: Equation, regions: Sequence[tuple[Program, Sequence[Operand]]]) -> Equation:
    """The same equation with other nested Programs, and other operands for their consts, as `regions_of` gives them."""
    programs, captured = [one for one, _ in regions], [tuple(operands) for _, operands in regions]
    before = sum(len(operands) for _, operands in regions_of(equation))
    counts = tuple(map(len, captured))
    changed: dict[str, Any]
    leading = 0
    match equation.op.name:
        case "cond":
            leading = len(programs) - 1
            changed = {"branches": tuple(programs), "branch_nconsts": counts}
        case "while_loop":
            changed = dict(zip(("cond", "body"), programs, strict=True))
            changed |= dict(zip(("cond_nconsts", "body_nconsts"), counts, strict=True))
        case "call":
            changed = {"program": programs[0], "body_nconsts": counts[0]}
        case _:
            changed = {"body": programs[0], "body_nconsts": counts[0]}
    inputs = (*equation.inputs[:leading], *chain(*captured), *equation.inputs[leading + before :])
    params = {name: changed.get(name, value) for name, value in equation.params.items()}
    return replace(equation, inputs=inputs, params=params)


_WITH_REGIONS = frozenset({"call", "cond", "for_loop", "scan", "while_loop"})


def regions_of(equation: Equation) -> list[tuple[Program, tuple[Operand, ...]]]:
    """The nested Programs of an equation, each with the operands that stand for its consts."""
    if equation.op.name not in _WITH_REGIONS:
        return []
    params, operands = equation.params, equation.inputs
    match equation.op.name:
        case "cond":
            programs = list(params["branches"])
            counts = [len(programs) - 1, *params["branch_nconsts"]]
            parts = split(operands, *counts)[1:]
        case "while_loop":
            programs = [params["cond"], params["body"]]
            parts = split(operands, params["cond_nconsts"], params["body_nconsts"])
        case "for_loop" | "scan":
            programs, parts = [params["body"]], split(operands, params["body_nconsts"])
        case _:
            programs, parts = [params["program"]], split(operands, params["body_nconsts"])
    return [(program, tuple(part)) for program, part in zip(programs, parts, strict=False)]


def read_by(program: Program) -> dict[Operand, None]:
    """What the equations and the results of a Program read, sizes in types and parameters among it."""
    read: dict[Operand, None] = dict.fromkeys(program.outputs)
    for equation in program.equations:
        read.update(dict.fromkeys(equation.inputs))
        values = (tuple(equation.params.values()), *(var.type for var in equation.outputs))
        for value in values:
            read.update(dict.fromkeys(size_variables(value)))
    return read


def without_unread(program: Program, operands: Sequence[Operand]) -> tuple[Program, tuple[Operand, ...]]:
    """A region without the consts that nothing in it reads."""
    read = read_by(program)
    for var in (*program.consts, *program.inputs):
        read.update(dict.fromkeys(size_variables(var.type)))
    kept = [(var, operand) for var, operand in zip(program.consts, operands, strict=True) if var in read]
    return replace(program, consts=tuple(var for var, _ in kept)), tuple(operand for _, operand in kept)
