"""Control flow: operations that run nested Programs, and the check of a size that is known only at run time.

Operands come in one order: the constants that the regions capture, then the implicit sizes, then the rest. Regions
see the constants as their consts. Results are the implicit sizes that the operation makes, then the explicit ones.

A size that the operation may change is an implicit output: the type of a result then refers to it by `OutDBIdx`. A
size that it does not change is the operand's own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

import numpy as np

from plica.errors import DTypeError, InputError, ShapeError, VerifyError
from plica.ir.dtypes import DType
from plica.ir.op import Array, Op, Sample, op_table, sample
from plica.ir.program import Equation, Operand, Program
from plica.ir.sizes import Dim, Size, as_size, same, substitute
from plica.ir.text import parse_program
from plica.ir.types import SCALAR_SIZE, ArrayType, OutDBIdx, ShapedArray, array_type
from plica.ops.elementwise import ELEMENTWISE
from plica.ops.rules import require_equal_sizes
from plica.ops.shape import SHAPE

Run = Callable[[Program, Sequence[Array], Sequence[Array]], tuple[Array, ...]]
Sizes = Sequence[Dim | None]
Typed = tuple[ArrayType, Dim | None]
_BOOL = ShapedArray((), DType.BOOL)


# What the rules share


class _Region:
    """A nested Program at the operands that it is given: what its sizes are outside.

    Args:
        program: The Program.
        operands: The type of each const and input outside, and the size that it stands for; None for an input that
            has another value each time, such as the index of a loop.
        what: How messages call the operation.
    """

    def __init__(self, program: Program, operands: Sequence[Typed | None], what: str) -> None:
        variables = (*program.consts, *program.inputs)
        if len(operands) != len(variables):
            raise VerifyError(f"{what}: the region takes {len(variables)} operands, found {len(operands)}.")
        self.program = program
        self._outside: dict[Any, Dim] = {}
        for var, operand in zip(variables, operands, strict=True):
            if operand is None:
                continue
            type_, size = operand
            if var.type.dtype != type_.dtype or len(var.type.shape) != len(type_.shape):
                raise VerifyError(f"{what}: the region expects {var!r}, found {type_}.")
            for inner, found in zip(var.type.shape, type_.shape, strict=True):
                wanted = self.outside(inner)
                assert wanted is not None, "the sizes of an input are sizes of consts and inputs before it"
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


def _typed(types: Sequence[ArrayType], sizes: Sequence[Dim | None]) -> list[Typed]:
    return list(zip(types, sizes, strict=True))


def _carried(region: _Region, first: int, count: int, what: str) -> tuple[list[ArrayType], frozenset[Any]]:
    """The types of `count` results that a loop carries, whose inputs start at `first`, and the sizes that change."""
    program = region.program
    kept, given, made = program.num_implicit_inputs, program.inputs, program.outputs
    if program.num_implicit_outputs != kept:
        raise VerifyError(f"{what}: the body takes {kept} sizes and returns {program.num_implicit_outputs}.")
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


def _varying(operands: Sequence[Typed]) -> list[Typed]:
    """Operands that have other values each time: a scalar among them is no size that is known outside."""
    return [(type_, None) for type_, _ in operands]


def _require_scalars(operands: Sequence[Typed], type_: ArrayType, what: str) -> None:
    for found, _ in operands:
        if found != type_:
            raise DTypeError(f"{what}: found {found}, expected {type_}.")


def _counts(counts: Sequence[int]) -> list[slice]:
    """Consecutive slices of these lengths, and one for the rest."""
    starts = [0]
    for count in counts:
        starts.append(starts[-1] + count)
    return [slice(a, b) for a, b in pairwise(starts)] + [slice(starts[-1], None)]


def _split(items: Sequence[Any], *counts: int) -> list[list[Any]]:
    return [list(items[part]) for part in _counts(counts)]


# for_loop


def _for_type(
    sizes: Sizes,
    *types: ArrayType,
    body: Program,
    body_nconsts: int,
    num_implicit_inputs: int,
    num_implicit_outputs: int,
    preserve_dimensions: bool,  # noqa: ARG001 - says how the sizes of the inputs were found
) -> tuple[ArrayType, ...]:
    consts, implicit, bounds, carries = _split(_typed(types, sizes), body_nconsts, num_implicit_inputs, 3)
    _require_scalars(bounds, SCALAR_SIZE, "the bounds and the step of a loop")
    region = _Region(body, [*consts, *implicit, None, *_varying(carries)], "for_loop")
    results, _ = _carried(region, num_implicit_inputs + 1, len(carries), "for_loop")
    return (*[SCALAR_SIZE] * num_implicit_outputs, *results)


def _for(
    run: Run, *arrays: Array, body: Program, body_nconsts: int, num_implicit_inputs: int, **_: object
) -> tuple[Array, ...]:
    consts, state, bounds, carries = _split(arrays, body_nconsts, num_implicit_inputs, 3)
    state += carries
    for index in steps(*(int(bound) for bound in bounds)):
        place = [np.asarray(index, dtype=np.int64)]
        state = list(run(body, consts, [*state[:num_implicit_inputs], *place, *state[num_implicit_inputs:]]))
    return tuple(state)


def steps(lower: int, upper: int, step: int) -> range:
    """The values of a loop's index.

    Raises:
        InputError: The step is zero.
    """
    if step == 0:
        raise InputError(f"a loop from {lower} to {upper} has step 0; take a positive or a negative step.")
    return range(lower, upper, step)


# while_loop


def _while_type(
    sizes: Sizes,
    *types: ArrayType,
    cond: Program,
    cond_nconsts: int,
    body: Program,
    body_nconsts: int,
    num_implicit_inputs: int,
    num_implicit_outputs: int,
    preserve_dimensions: bool,  # noqa: ARG001 - says how the sizes of the inputs were found
) -> tuple[ArrayType, ...]:
    asked, consts, implicit, carries = _split(_typed(types, sizes), cond_nconsts, body_nconsts, num_implicit_inputs)
    _Region(cond, [*asked, *implicit, *_varying(carries)], "the condition of while_loop")
    if len(cond.outputs) != 1 or cond.outputs[0].type != _BOOL:
        found = ", ".join(str(one.type) for one in cond.outputs)
        raise DTypeError(f"the condition of while_loop returns one bool[], found {found}.")
    region = _Region(body, [*consts, *implicit, *_varying(carries)], "while_loop")
    results, _ = _carried(region, num_implicit_inputs, len(carries), "while_loop")
    return (*[SCALAR_SIZE] * num_implicit_outputs, *results)


def _while(
    run: Run, *arrays: Array, cond: Program, cond_nconsts: int, body: Program, body_nconsts: int, **_: object
) -> tuple[Array, ...]:
    asked, consts, state = _split(arrays, cond_nconsts, body_nconsts)
    while bool(run(cond, asked, state)[0]):
        state = list(run(body, consts, state))
    return tuple(state)


# cond


def _cond_type(
    sizes: Sizes,
    *types: ArrayType,
    branches: tuple[Program, ...],
    branch_nconsts: tuple[int, ...],
    num_implicit_outputs: int,
) -> tuple[ArrayType, ...]:
    predicates, *captured = _split(_typed(types, sizes), len(branches) - 1, *branch_nconsts)
    _require_scalars(predicates, _BOOL, "the predicates of cond")
    if captured.pop():
        raise VerifyError("cond: there are operands that no branch takes.")
    regions = [_Region(one, consts, "cond") for one, consts in zip(branches, captured, strict=True)]
    return (*[SCALAR_SIZE] * num_implicit_outputs, *_agreed(regions, num_implicit_outputs, "cond"))


def _agreed(regions: Sequence[_Region], num_implicit: int, what: str) -> list[ArrayType]:
    """The types of what several regions return: a size on which all agree, else an implicit output of each."""
    results = [region.program.results for region in regions]
    if len({len(one) for one in results}) != 1:
        raise VerifyError(f"{what}: the branches return {', '.join(str(len(one)) for one in results)} results.")
    made = [[region.program.size_of(one) for one in region.program.outputs[:num_implicit]] for region in regions]
    types = []
    for alike in zip(*results, strict=True):
        shapes = [one.type.shape for one in alike]
        if len({(len(one.type.shape), one.type.dtype) for one in alike}) != 1:
            raise VerifyError(f"{what}: the branches return {', '.join(str(one.type) for one in alike)}.")
        dims = [_agreed_dim(regions, axis, made, what) for axis in zip(*shapes, strict=True)]
        types.append(array_type(dims, alike[0].type.dtype))
    return types


def _agreed_dim(regions: Sequence[_Region], dims: Sequence[Dim], made: Sequence[Sequence[Dim]], what: str) -> Dim:
    outside = {region.outside(dim) for region, dim in zip(regions, dims, strict=True)}
    if len(outside) == 1 and None not in outside:
        return next(dim for dim in outside if dim is not None)
    for place, sizes in enumerate(zip(*made, strict=True)):
        if all(same(size, dim) for size, dim in zip(sizes, dims, strict=True)):
            return Size.of(OutDBIdx(place))
    raise VerifyError(f"{what}: the sizes {', '.join(map(str, dims))} of a result are no outputs.")


def _cond(
    run: Run, *arrays: Array, branches: tuple[Program, ...], branch_nconsts: tuple[int, ...], **_: object
) -> tuple[Array, ...]:
    predicates, *captured = _split(arrays, len(branches) - 1, *branch_nconsts)
    chosen = next((place for place, one in enumerate(predicates) if bool(one)), len(predicates))
    return run(branches[chosen], captured[chosen], [])


# scan


def _scan_type(
    sizes: Sizes,
    *types: ArrayType,
    body: Program,
    body_nconsts: int,
    num_carries: int,
    length: Dim,
    reverse: bool,  # noqa: ARG001 - the types are the same
    num_implicit_inputs: int,
    num_implicit_outputs: int,
    preserve_dimensions: bool,  # noqa: ARG001 - says how the sizes of the inputs were found
) -> tuple[ArrayType, ...]:
    parts = _split(_typed(types, sizes), body_nconsts, num_implicit_inputs, num_carries)
    consts, implicit, carries, stacked = parts
    rows = [(_row(type_, length), None) for type_, _ in stacked]
    region = _Region(body, [*consts, *implicit, *_varying(carries), *rows], "scan")
    results, changing = _carried(region, num_implicit_inputs, num_carries, "scan")
    for one in body.results[num_carries:]:
        dims = [region.outside(dim, changing) for dim in one.type.shape]
        known = [dim for dim in dims if dim is not None]
        if len(known) != len(dims):
            raise ShapeError(f"scan stacks {one.type}, whose size may differ from step to step; carry it instead.")
        results.append(array_type((length, *known), one.type.dtype))
    return (*[SCALAR_SIZE] * num_implicit_outputs, *results)


def _row(type_: ArrayType, length: Dim) -> ArrayType:
    if not type_.shape:
        raise ShapeError(f"scan runs along the first axis of its arrays, found {type_}.")
    require_equal_sizes(length, type_.shape[0], f"scan has {length} steps, but is given {type_}.")
    return array_type(type_.shape[1:], type_.dtype)


def _scan(
    run: Run,
    *arrays: Array,
    body: Program,
    body_nconsts: int,
    num_carries: int,
    length: int,
    reverse: bool,
    num_implicit_inputs: int,
    **_: object,
) -> tuple[Array, ...]:
    kept = num_implicit_inputs + num_carries
    consts, state, stacked = _split(arrays, body_nconsts, kept)
    rows: list[Sequence[Array]] = []
    for step in reversed(range(length)) if reverse else range(length):
        state, made = _split(run(body, consts, [*state, *(array[step] for array in stacked)]), kept)
        rows.append(made)
    rows = rows[::-1] if reverse else rows
    outside = dict(zip((*body.consts, *body.inputs), (*consts, *arrays[body_nconsts:][:kept]), strict=False))
    stacks = [
        np.stack([row[place] for row in rows]) if rows else _no_rows(one, outside)
        for place, one in enumerate(body.results[num_carries:])
    ]
    return (*state, *stacks)


def _no_rows(result: Operand, values: Mapping[Any, Array]) -> Array:
    """The stack of what no step has made."""
    dims = [substitute(dim, lambda atom: int(values[atom])) for dim in result.type.shape]
    return np.zeros((0, *dims), dtype=result.type.dtype.numpy)


# call


def _call_type(
    sizes: Sizes,
    *types: ArrayType,
    program: Program,
    body_nconsts: int,
    num_implicit_inputs: int,
    num_implicit_outputs: int,
    name: str,
) -> tuple[ArrayType, ...]:
    assert body_nconsts + num_implicit_inputs <= len(types), "the region checks how many operands there are"
    region = _Region(program, _typed(types, sizes), name)
    return (*[SCALAR_SIZE] * num_implicit_outputs, *_agreed([region], num_implicit_outputs, name))


def _call(run: Run, *arrays: Array, program: Program, body_nconsts: int, **_: object) -> tuple[Array, ...]:
    consts, inputs = _split(arrays, body_nconsts)
    return run(program, consts, inputs)


# assert_shape


def _assert_type(x: ArrayType, *, shape: tuple[Dim, ...]) -> ArrayType:
    if len(shape) != len(x.shape) or any(same(a, b) is False for a, b in zip(shape, x.shape, strict=True)):
        raise ShapeError(f"{x} cannot have the shape ({', '.join(map(str, shape))}).")
    return array_type(shape, x.dtype)


def _assert(x: Array, *, shape: tuple[int, ...]) -> Array:
    if x.shape != tuple(shape):
        raise InputError(
            f"an array has shape {x.shape}, but {tuple(shape)} is needed: sizes that meet must be equal; "
            "give the arguments sizes that fit."
        )
    return x


# Samples


_TABLE = op_table(ELEMENTWISE, SHAPE)
_SCALE = """{ lambda c:f32[] ; {n:i64[]} i:i64[] x:f32[n] . let
    y:f32[n] = multiply x c
  in ({n}, y) }"""
_GROW = """{ lambda ; {n:i64[]} i:i64[] x:f32[n] . let
    one:f32[1] = full[shape=(1,)] 1.0:f32[]
    more:f32[n+1] = concat[axis=0] x one
    size:i64[] = add n 1:i64[]
  in ({size}, more) }"""
_IS_SHORT = """{ lambda m:i64[] ; {n:i64[]} x:f32[n] . let
    short:bool[] = less n m
  in (short,) }"""
_ONE = """{ lambda ; . let one:f32[1] = full[shape=(1,)] 1.0:f32[] in ({1:i64[]}, one) }"""
_FEW = """{ lambda n:i64[] ; . let few:f32[n] = full[shape=(n,)] 2.0:f32[] in ({n}, few) }"""
_SUM = """{ lambda ; {n:i64[]} x:f32[n] y:f32[n] . let
    total:f32[n] = add x y
    twice:f32[n] = add total total
  in ({n}, total, twice) }"""
_TWICE = """{ lambda ; {n:i64[]} x:f32[n] . let y:f32[n] = add x x in (y,) }"""


def _program(text: str) -> Program:
    return parse_program(text, _TABLE)


def _for_samples() -> list[Sample]:
    x, n, start = np.arange(3, dtype="float32"), np.int64(3), np.int64(0)
    scale = {"body": _program(_SCALE), "body_nconsts": 1}
    grow = {"body": _program(_GROW), "body_nconsts": 0}
    sizes = {"num_implicit_inputs": 1, "num_implicit_outputs": 1, "preserve_dimensions": True}
    return [
        sample(np.float32(2), n, start, np.int64(4), np.int64(1), x, **scale, **sizes),
        sample(n, np.int64(4), np.int64(-3), np.int64(-2), x, **grow, **sizes),
        sample(n, start, start, np.int64(1), x, **grow, **sizes),
    ]


def _while_samples() -> list[Sample]:
    x, n = np.arange(3, dtype="float32"), np.int64(3)
    grow = _program(_GROW.replace("i:i64[] ", ""))
    params = {"cond": _program(_IS_SHORT), "cond_nconsts": 1, "body": grow, "body_nconsts": 0}
    sizes = {"num_implicit_inputs": 1, "num_implicit_outputs": 1, "preserve_dimensions": True}
    return [sample(np.int64(bound), n, x, **params, **sizes) for bound in (6, 0)]


def _cond_samples() -> list[Sample]:
    params = {"branches": (_program(_ONE), _program(_FEW)), "branch_nconsts": (0, 1), "num_implicit_outputs": 1}
    return [sample(np.bool_(value), np.int64(3), **params) for value in (True, False)]


def _scan_samples() -> list[Sample]:
    x, n = np.arange(3, dtype="float32"), np.int64(3)
    params = {"body": _program(_SUM), "body_nconsts": 0, "num_carries": 1}
    sizes = {"num_implicit_inputs": 1, "num_implicit_outputs": 1, "preserve_dimensions": True}
    rows = np.arange(12, dtype="float32").reshape(4, 3)
    return [
        sample(n, x, rows[:length], **params, length=length, reverse=reverse, **sizes)
        for length, reverse in ((4, False), (4, True), (0, False))
    ]


def _call_samples() -> list[Sample]:
    params = {"body_nconsts": 0, "num_implicit_inputs": 1, "num_implicit_outputs": 0, "name": "twice"}
    return [sample(np.int64(3), np.arange(3, dtype="float32"), program=_program(_TWICE), **params)]


CONTROL = (
    Op("for_loop", _for_type, _for, _for_samples, regions=True),
    Op("while_loop", _while_type, _while, _while_samples, regions=True),
    Op("cond", _cond_type, _cond, _cond_samples, regions=True),
    Op("scan", _scan_type, _scan, _scan_samples, regions=True),
    Op("call", _call_type, _call, _call_samples, regions=True),
    Op(
        "assert_shape",
        _assert_type,
        _assert,
        lambda: [sample(np.zeros((2, 3), dtype="float32"), shape=(2, 3)), sample(np.float32(1), shape=())],
    ),
)


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


def regions_of(equation: Equation) -> list[tuple[Program, tuple[Operand, ...]]]:
    """The nested Programs of an equation, each with the operands that stand for its consts."""
    params, operands = equation.params, equation.inputs
    match equation.op.name:
        case "cond":
            programs = list(params["branches"])
            counts = [len(programs) - 1, *params["branch_nconsts"]]
            parts = _split(operands, *counts)[1:]
        case "while_loop":
            programs = [params["cond"], params["body"]]
            parts = _split(operands, params["cond_nconsts"], params["body_nconsts"])
        case "for_loop" | "scan":
            programs, parts = [params["body"]], _split(operands, params["body_nconsts"])
        case "call":
            programs, parts = [params["program"]], _split(operands, params["body_nconsts"])
        case _:
            programs, parts = [], []
    return [(program, tuple(part)) for program, part in zip(programs, parts, strict=False)]
