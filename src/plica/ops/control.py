"""Control flow: operations that run nested Programs, and the check of a size that is known only at run time.

Operands come in one order: the constants that the regions capture, then the implicit sizes, then the rest. Regions
see the constants as their consts. Results are the implicit sizes that the operation makes, then the explicit ones.

A size that the operation may change is an implicit output: the type of a result then refers to it by `OutDBIdx`. A
size that it does not change is the operand's own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from plica.errors import DTypeError, InputError, ShapeError, VerifyError
from plica.ir.dtypes import DType
from plica.ir.op import Array, Memory, Op, Sample, View, op_table, sample
from plica.ir.program import Operand, Program
from plica.ir.ranges import as_first
from plica.ir.sizes import Dim, same, substitute
from plica.ir.text import parse_program
from plica.ir.types import SCALAR_SIZE, ArrayType, ShapedArray, array_type
from plica.ops.elementwise import ELEMENTWISE
from plica.ops.regions import Region, Typed, agreed, carried, require_sizes, split, typed, varying
from plica.ops.rules import require_equal_sizes, shape_text
from plica.ops.shape import SHAPE

Run = Callable[[Program, Sequence[Array], Sequence[Array]], tuple[Array, ...]]
Sizes = Sequence[Dim | None]
_BOOL = ShapedArray((), DType.BOOL)


def _require_scalars(operands: Sequence[Typed], type_: ArrayType, what: str) -> None:
    for operand_type, _ in operands:
        if operand_type != type_:
            raise DTypeError(f"{what}: found {operand_type}, expected {type_}.")


# for_loop


def _for_type(
    sizes: Sizes,
    *types: ArrayType,
    body: Program,
    body_nconsts: int,
    num_implicit_inputs: int,
    num_implicit_outputs: int,
    preserve_dimensions: bool,
) -> tuple[ArrayType, ...]:
    consts, implicit, bounds, carries = split(typed(types, sizes), body_nconsts, num_implicit_inputs, 3)
    _require_scalars(bounds, SCALAR_SIZE, "the bounds and the step of a loop")
    region = Region(body, consts, [*implicit, None, *varying(carries)], "for_loop")
    require_sizes(body, num_implicit_inputs, num_implicit_outputs, "for_loop")
    index = body.arguments[0]
    if index.type != SCALAR_SIZE:
        raise VerifyError(f"for_loop: the index is {SCALAR_SIZE}, but the body expects {index!r}.")
    numbers = [size for _, size in bounds if isinstance(size, int)]
    runs = preserve_dimensions and len(numbers) == len(bounds) and bool(steps(*numbers))
    results, _ = carried(region, num_implicit_inputs + 1, len(carries), "for_loop", runs=runs)
    return (*[SCALAR_SIZE] * num_implicit_outputs, *results)


def _for(
    run: Run, *arrays: Array, body: Program, body_nconsts: int, num_implicit_inputs: int, **_: object
) -> tuple[Array, ...]:
    consts, state, bounds, carries = split(arrays, body_nconsts, num_implicit_inputs, 3)
    state += carries
    for index in steps(*(int(bound) for bound in bounds)):
        counter = [np.asarray(index, dtype=np.int64)]
        state = list(run(body, consts, [*state[:num_implicit_inputs], *counter, *state[num_implicit_inputs:]]))
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
    cond_consts, consts, implicit, carries = split(typed(types, sizes), cond_nconsts, body_nconsts, num_implicit_inputs)
    Region(cond, cond_consts, [*implicit, *varying(carries)], "the condition of while_loop")
    require_sizes(cond, num_implicit_inputs, 0, "the condition of while_loop")
    if len(cond.outputs) != 1 or cond.outputs[0].type != _BOOL:
        returned = ", ".join(str(output.type) for output in cond.outputs)
        raise DTypeError(f"the condition of while_loop returns one bool[], found {returned}.")
    region = Region(body, consts, [*implicit, *varying(carries)], "while_loop")
    require_sizes(body, num_implicit_inputs, num_implicit_outputs, "while_loop")
    results, _ = carried(region, num_implicit_inputs, len(carries), "while_loop", runs=False)
    return (*[SCALAR_SIZE] * num_implicit_outputs, *results)


def _while(
    run: Run, *arrays: Array, cond: Program, cond_nconsts: int, body: Program, body_nconsts: int, **_: object
) -> tuple[Array, ...]:
    cond_consts, consts, state = split(arrays, cond_nconsts, body_nconsts)
    while bool(run(cond, cond_consts, state)[0]):
        state = list(run(body, consts, state))
    return tuple(state)


# cond


def _cond_type(
    sizes: Sizes,
    *types: ArrayType,
    branches: tuple[Program, ...],
    branch_nconsts: tuple[int, ...],
    num_implicit_inputs: int,
    num_implicit_outputs: int,
    preserve_dimensions: bool,
) -> tuple[ArrayType, ...]:
    predicates, *captured = split(typed(types, sizes), len(branches) - 1, *branch_nconsts)
    _require_scalars(predicates, _BOOL, "the predicates of cond")
    if captured.pop():
        raise VerifyError(
            "cond: expected operands that a branch takes, found more operands than the branches take together."
        )
    regions = [Region(branch, consts, (), "cond") for branch, consts in zip(branches, captured, strict=True)]
    for branch in branches:
        require_sizes(branch, num_implicit_inputs, num_implicit_outputs, "cond")
    results = agreed(regions, num_implicit_outputs, "cond", shared=preserve_dimensions)
    return (*[SCALAR_SIZE] * num_implicit_outputs, *results)


def _cond(
    run: Run, *arrays: Array, branches: tuple[Program, ...], branch_nconsts: tuple[int, ...], **_: object
) -> tuple[Array, ...]:
    predicates, *captured = split(arrays, len(branches) - 1, *branch_nconsts)
    chosen = next((position for position, predicate in enumerate(predicates) if bool(predicate)), len(predicates))
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
    preserve_dimensions: bool,
) -> tuple[ArrayType, ...]:
    parts = split(typed(types, sizes), body_nconsts, num_implicit_inputs, num_carries)
    consts, implicit, carries, stacked = parts
    first = len(types) - len(stacked)
    rows = [(_row(type_, length, first + position), None) for position, (type_, _) in enumerate(stacked)]
    region = Region(body, consts, [*implicit, *varying(carries), *rows], "scan")
    require_sizes(body, num_implicit_inputs, num_implicit_outputs, "scan")
    runs = preserve_dimensions and isinstance(length, int) and length > 0
    results, changing = carried(region, num_implicit_inputs, num_carries, "scan", runs=runs, stacks=True)
    for result in body.results[num_carries:]:
        dims = [region.outside(dim, changing) for dim in result.type.shape]
        known = [dim for dim in dims if dim is not None]
        if len(known) != len(dims):
            raise ShapeError(f"scan stacks {result.type}, whose size may differ from step to step; carry it instead.")
        results.append(array_type((length, *known), result.type.dtype))
    return (*[SCALAR_SIZE] * num_implicit_outputs, *results)


def _row(type_: ArrayType, length: Dim, operand: int) -> ArrayType:
    if not type_.shape:
        raise ShapeError(f"scan runs along the first axis of its arrays, found {type_}.")
    require_equal_sizes(length, type_.shape[0], f"scan has {length} steps, but is given {type_}.", 0, operand)
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
    num_states = num_implicit_inputs + num_carries
    consts, state, stacked = split(arrays, body_nconsts, num_states)
    rows: list[Sequence[Array]] = []
    for step in reversed(range(length)) if reverse else range(length):
        state, outputs = split(run(body, consts, [*state, *(array[step] for array in stacked)]), num_states)
        rows.append(outputs)
    rows = rows[::-1] if reverse else rows
    outside = dict(zip((*body.consts, *body.inputs), (*consts, *arrays[body_nconsts:][:num_states]), strict=False))
    stacks = [
        np.stack([row[position] for row in rows]) if rows else _no_rows(result, outside)
        for position, result in enumerate(body.results[num_carries:])
    ]
    return (*state, *stacks)


def _no_rows(result: Operand, values: Mapping[Any, Array]) -> Array:
    """The stack of the rows of a scan without steps."""
    dims = [substitute(dim, lambda atom: int(values[atom])) for dim in result.type.shape]
    wrong = next((dim for dim in dims if isinstance(dim, int) and dim < 0), None)
    if wrong is not None:
        raise InputError(f"the size {wrong} of a row that scan stacks is negative; take 0 or more.")
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
    consts, inputs = split(typed(types, sizes), body_nconsts)
    region = Region(program, consts, inputs, name)
    require_sizes(program, num_implicit_inputs, num_implicit_outputs, name)
    return (*[SCALAR_SIZE] * num_implicit_outputs, *agreed([region], num_implicit_outputs, name, shared=True))


def _call(run: Run, *arrays: Array, program: Program, body_nconsts: int, **_: object) -> tuple[Array, ...]:
    consts, inputs = split(arrays, body_nconsts)
    return run(program, consts, inputs)


# assert_shape


def _assert_type(x: ArrayType, *, shape: tuple[Dim, ...]) -> ArrayType:
    if len(shape) != len(x.shape) or any(same(a, b) is False for a, b in zip(shape, x.shape, strict=True)):
        raise ShapeError(f"{x} cannot have the shape {shape_text(shape)}.")
    return array_type(shape, x.dtype)


def _differences(x: ArrayType, *, shape: tuple[Dim, ...]) -> list[Dim]:
    return [
        difference for wanted, dim in zip(shape, x.shape, strict=True) for difference in (wanted - dim, dim - wanted)
    ]


def _assert(x: Array, *, shape: tuple[int, ...]) -> Array:
    if x.shape != tuple(shape):
        raise InputError(
            f"an array has shape {x.shape}, but {tuple(shape)} is needed: paired sizes must be equal; "
            "pass arguments whose sizes agree."
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
    params = {"branches": (_program(_ONE), _program(_FEW)), "branch_nconsts": (0, 1)}
    sizes = {"num_implicit_inputs": 0, "num_implicit_outputs": 1, "preserve_dimensions": True}
    return [sample(np.bool_(value), np.int64(3), **params, **sizes) for value in (True, False)]


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
    Op("for_loop", _for_type, _for, _for_samples, regions=True, repeats=True),
    Op("while_loop", _while_type, _while, _while_samples, regions=True, repeats=True),
    Op("cond", _cond_type, _cond, _cond_samples, regions=True),
    Op(
        "scan",
        _scan_type,
        _scan,
        _scan_samples,
        regions=True,
        repeats=True,
        nonnegative=lambda *_, length, **__: (length,),
    ),
    Op("call", _call_type, _call, _call_samples, regions=True),
    Op(
        "assert_shape",
        _assert_type,
        _assert,
        lambda: [sample(np.zeros((2, 3), dtype="float32"), shape=(2, 3)), sample(np.float32(1), shape=())],
        memory=Memory.VIEW,
        range=as_first,
        view=View.MOVED,
        nonnegative=_differences,
    ),
)
