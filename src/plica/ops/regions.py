"""Nested Programs in equations: their types at given operands, and the positions of their operands.

A size that an operation may change is an implicit output: the type of a result then refers to it by `OutDBIdx`. A size
that it does not change is the operand's own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, islice, pairwise
from types import MappingProxyType
from typing import Any

from plica.errors import VerifyError
from plica.ir.program import Equation, Operand, Program, size_variables
from plica.ir.sizes import Dim, Size, as_size, same, substitute
from plica.ir.types import ArrayType, OutDBIdx, array_type
from plica.ops.rules import require_equal_sizes

Typed = tuple[ArrayType, Dim | None]  # the type of an operand, and the size that it stands for


class Region:
    """A nested Program at the operands that it is called with: its sizes in terms of the outer Program.

    Args:
        program: The Program.
        consts: The type of each const outside, and the size that it stands for.
        inputs: The same for each input; None for one that changes between iterations, such as the index of a loop.
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
            for inner, outer in zip(var.type.shape, type_.shape, strict=True):
                wanted = self.outside(inner)
                if wanted is None:
                    raise VerifyError(f"{what}: a size of {var!r} is not among the sizes that the region takes.")
                require_equal_sizes(wanted, outer, f"{what}: the region expects {var!r}, found {type_}.")
            if as_size(var) is not None and size is not None:
                self._outside[var] = size

    def outside(self, dim: Dim, changed: Mapping[Any, Dim | None] = MappingProxyType({})) -> Dim | None:
        """A size of the region in terms of the sizes outside; None if it depends on what is computed inside.

        Args:
            dim: The size.
            changed: The sizes that replace variables which change between iterations; None where there is none.
        """
        unknown = False

        def value(atom: Any) -> Dim:
            nonlocal unknown
            outer = changed[atom] if atom in changed else self._outside.get(atom)
            unknown = unknown or outer is None
            return 0 if outer is None else outer

        result = substitute(dim, value)
        return None if unknown else result


def require_sizes(program: Program, num_inputs: int, num_outputs: int, what: str) -> None:
    """Check that a region takes and returns as many sizes as its equation says.

    Raises:
        VerifyError: The numbers of implicit inputs or outputs differ.
    """
    counts = (program.num_implicit_inputs, program.num_implicit_outputs)
    if counts != (num_inputs, num_outputs):
        raise VerifyError(
            f"{what}: the region takes {counts[0]} size(s) and returns {counts[1]}, "
            f"but the equation says {num_inputs} and {num_outputs}."
        )


def typed(types: Sequence[ArrayType], sizes: Sequence[Dim | None]) -> list[Typed]:
    """Each operand's type with the size that it stands for."""
    return list(zip(types, sizes, strict=True))


def carried(
    region: Region, first: int, count: int, what: str, *, runs: bool, stacks: bool = False
) -> tuple[list[ArrayType], dict[Any, None]]:
    """The types of `count` results that a loop carries, whose inputs start at `first`, and the sizes that change.

    Args:
        region: The body.
        first: The position of the first input that is carried.
        count: How many inputs are carried.
        what: How messages call the operation.
        runs: Whether the loop surely runs a step, so that results have the sizes that the body returns.
        stacks: Whether the body may return more than it carries.
    """
    program = region.program
    num_sizes, given, outputs = program.num_implicit_inputs, program.inputs, program.outputs
    if program.num_implicit_outputs != num_sizes:
        raise VerifyError(f"{what}: the body takes {num_sizes} size(s) and returns {program.num_implicit_outputs}.")
    if len(program.results) < count or (len(program.results) > count and not stacks):
        raise VerifyError(f"{what}: the body carries {count} value(s) and returns {len(program.results)}.")
    after = {
        var: output for var, output in zip(given[:num_sizes], outputs[:num_sizes], strict=True) if output is not var
    }
    results = {var: Size.of(OutDBIdx(position)) for position, var in enumerate(given[:num_sizes]) if var in after}
    types = []
    for before, returned in zip(given[first : first + count], outputs[num_sizes : num_sizes + count], strict=True):
        if before.type.dtype != returned.type.dtype or len(before.type.shape) != len(returned.type.shape):
            raise VerifyError(f"{what}: the body is given {before!r} and returns {returned.type}.")
        dims: list[Dim] = []
        for old, new in zip(before.type.shape, returned.type.shape, strict=True):
            next_size = substitute(old, lambda var: _next(program, after, var))
            if not (same(next_size, new) or same(next_size, substitute(new, lambda var: program.size_of(var)))):  # type: ignore[arg-type]
                raise VerifyError(f"{what}: the body is given {before!r} and returns {returned.type}.")
            outside = _size_after_step(region, new, results) if runs else None
            outside = region.outside(old, results) if outside is None else outside
            assert outside is not None, "the sizes of an input are sizes of consts and inputs before it"
            dims.append(outside)
        types.append(array_type(dims, returned.type.dtype))
    return types, dict.fromkeys(after)


def _size_after_step(region: Region, dim: Dim, results: Mapping[Any, Dim]) -> Dim | None:
    """A size that a step makes: one that is known outside, or a result of the loop."""
    known = region.outside(dim, dict.fromkeys(results))
    if known is not None:
        return known
    sizes = zip(region.program.inputs, region.program.outputs, strict=False)
    return next(
        (results[var] for var, output in sizes if var in results and same(region.program.size_of(output), dim)), None
    )


def _next(program: Program, after: Mapping[Any, Operand], var: Any) -> Dim:
    """The size that `var` has in the next step."""
    return program.size_of(after[var]) if var in after else Size.of(var)


def varying(operands: Sequence[Typed]) -> list[Typed]:
    """Operands that change between iterations: a scalar among them is no size that is known outside."""
    return [(type_, None) for type_, _ in operands]


def agreed(regions: Sequence[Region], num_implicit: int, what: str, *, shared: bool) -> list[ArrayType]:
    """The types of the results of several regions: a size on which all agree, else an implicit output of each.

    Args:
        regions: The regions, one of which runs.
        num_implicit: How many sizes each of them returns.
        what: How messages call the operation.
        shared: Whether axes of one size share an implicit output; otherwise each has the next one.
    """
    results = [region.program.results for region in regions]
    if len({len(returned) for returned in results}) != 1:
        raise VerifyError(
            f"{what}: the branches return {', '.join(str(len(returned)) for returned in results)} results."
        )
    implicit = [
        [region.program.size_of(output) for output in region.program.outputs[:num_implicit]] for region in regions
    ]
    types, positions = [], iter(range(num_implicit))
    for same_result in zip(*results, strict=True):
        shapes = [result.type.shape for result in same_result]
        if len({(len(result.type.shape), result.type.dtype) for result in same_result}) != 1:
            shown = ", ".join(str(result.type) for result in same_result)
            raise VerifyError(f"{what}: the branches return {shown}; expected one dtype and one number of axes.")
        dims = [
            _agreed_dim(regions, axis, implicit, None if shared else positions, what)
            for axis in zip(*shapes, strict=True)
        ]
        types.append(array_type(dims, same_result[0].type.dtype))
    return types


def _agreed_dim(
    regions: Sequence[Region],
    dims: Sequence[Dim],
    implicit: Sequence[Sequence[Dim]],
    positions: Iterator[int] | None,
    what: str,
) -> Dim:
    outside = {region.outside(dim) for region, dim in zip(regions, dims, strict=True)}
    known = outside.pop() if len(outside) == 1 else None
    if positions is not None and known is not None:
        return known
    for position in range(len(implicit[0])) if positions is None else islice(positions, 1):
        if all(same(sizes[position], dim) for sizes, dim in zip(implicit, dims, strict=True)):
            return Size.of(OutDBIdx(position))
    if known is None:
        raise VerifyError(
            f"{what}: the branches must return the sizes {', '.join(map(str, dims))} of a result as implicit outputs."
        )
    return known


# The positions of the operands of nested Programs


def split(items: Sequence[Any], *counts: int) -> list[list[Any]]:
    """`items` in parts of these lengths, and the rest."""
    starts = list(accumulate(counts, initial=0))
    return [*(list(items[start:stop]) for start, stop in pairwise(starts)), list(items[starts[-1] :])]


def with_regions(equation: Equation, regions: Sequence[tuple[Program, Sequence[Operand]]]) -> Equation:
    """The same equation with other nested Programs, and other operands for their consts, as `regions_of` gives them."""
    programs, captured = [program for program, _ in regions], [tuple(operands) for _, operands in regions]
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


def regions_of(equation: Equation) -> list[tuple[Program, tuple[Operand, ...]]]:
    """The nested Programs of an equation, each with the operands that stand for its consts."""
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
        case "call":
            programs, parts = [params["program"]], split(operands, params["body_nconsts"])
        case _:
            return []
    return [(program, tuple(part)) for program, part in zip(programs, parts, strict=False)]


def read_by(program: Program) -> dict[Operand, None]:
    """The operands that equations and results of a Program read, and the sizes in types and parameters."""
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
    read_consts = [(var, operand) for var, operand in zip(program.consts, operands, strict=True) if var in read]
    return replace(program, consts=tuple(var for var, _ in read_consts)), tuple(operand for _, operand in read_consts)
