"""What expands moves below elementwise operations, and stops at those that depend on the place; casts, below views."""

from math import prod

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import plica
import plica.numpy as pnp
from plica.constants.fold import fold
from plica.constants.policy import FoldPolicy
from plica.constants.report import Fate
from plica.constants.rewrites.postpone import postpone
from plica.ir.types import ArrayType
from plica.passes.dead_code import eliminate_dead_code
from tests.harness.constant_programs import constant_programs, named_arguments
from tests.harness.programs import assert_same
from tests.harness.random_programs import SIZES
from tests.harness.together import grouped

ROW = plica.spec((3,), "float64")
ROW_OF_INT8 = plica.spec((3, 4), "int8")


def _entries(type_: ArrayType) -> int:
    return prod(size for size in type_.shape if isinstance(size, int))


def _run(fn, *specs, widen=False):
    """The Program after the pass, all of it constant; and that it computes what it did."""
    program = plica.trace(fn, *specs)
    done = postpone(program, dict.fromkeys(program.equations), widen=widen)
    plica.verify(done.program)
    program_after = eliminate_dead_code(done.program)
    arrays = [np.linspace(-1, 2, int(np.prod(one.shape))).reshape(one.shape).astype(one.dtype.value) for one in specs]
    for found, expected in zip(plica.interpret(program_after, *arrays), plica.interpret(program, *arrays), strict=True):
        assert_same(found, expected)
    return program_after


def _ops(program):
    return [(one.op.name, one.outputs[0].type.shape) for one in program.equations]


def test_what_is_expanded_to_a_single_number_is_read_where_it_is() -> None:
    after = _run(lambda x: pnp.abs(pnp.full((), x[0])) * 2.0, ROW)
    assert "full" not in dict(_ops(after))


def test_the_seeds_example() -> None:
    def chain(arg2):
        packed = pnp.pack(arg2, outer_dims_perm=(0,), inner_dims_pos=(0,), inner_tiles=(32,))
        expanded = pnp.broadcast_to(pnp.expand_dims(pnp.expand_dims(packed, axis=0), axis=2), (2, 8, 32, 32))
        return pnp.astype(pnp.astype(expanded, "float32") * 2.0, "bfloat16")

    after = _run(chain, plica.spec((256,), "bfloat16"))
    assert _ops(after) == [
        ("pack", (8, 32)),
        ("expand_dims", (1, 8, 32)),
        ("expand_dims", (1, 8, 1, 32)),
        ("astype", (1, 8, 1, 32)),
        ("multiply", (1, 8, 1, 32)),
        ("astype", (1, 8, 1, 32)),
        ("broadcast_to", (2, 8, 32, 32)),
    ]
    program = plica.trace(
        lambda x, arg2: x + chain(arg2), plica.spec((2, 8, 32, 32), "bfloat16"), plica.spec((256,), "bfloat16")
    )
    folding = fold(program, run_time=("arg2",))
    assert [one.op.name for one in folding.split.entry.equations] == ["broadcast_to", "add"]
    assert folding.report.after == 512
    assert [one.operation for one in folding.report.of(Fate.POSTPONED)] == ["broadcast_to"]


MOVED = {
    "unary": (lambda w: pnp.exp(pnp.broadcast_to(w, (4, 3))), ["exp", "broadcast_to"]),
    "two, broadcast differently": (
        lambda w: pnp.broadcast_to(w, (4, 3)) * pnp.broadcast_to(w[:1], (4, 3)),
        ["slice", "multiply", "broadcast_to"],
    ),
    "with a small array": (lambda w: pnp.broadcast_to(w, (4, 3)) + w, ["add", "broadcast_to"]),
    "with a splat": (
        lambda w: pnp.broadcast_to(w, (4, 3)) + pnp.full((4, 3), 2.0, dtype="float64"),
        ["add", "broadcast_to"],
    ),
    "splats alone": (
        lambda w: w * 0.0 + pnp.exp(pnp.ones((4, 3))) * 2.0,
        ["multiply", "exp", "multiply", "add", "broadcast_to"],
    ),
    "a splat beside an array": (lambda w: w * pnp.ones((3,)), ["multiply"]),
    "two readers": (
        lambda w: (lambda v: pnp.exp(v) - pnp.sin(v))(pnp.broadcast_to(w, (4, 3))),
        ["exp", "sin", "subtract", "broadcast_to"],
    ),
    "a reader that stays": (
        lambda w: (lambda v: (pnp.exp(v), pnp.cumulative_sum(v, axis=0)))(pnp.broadcast_to(w, (4, 3))),
        ["broadcast_to", "exp", "broadcast_to", "cumulative_sum"],
    ),
    "tile": (lambda w: pnp.exp(pnp.tile(w, (4,))), ["reshape", "exp", "broadcast_to", "reshape"]),
    "repeat": (
        lambda w: pnp.exp(pnp.repeat(w, 4)) * 3.0,
        ["expand_dims", "exp", "multiply", "broadcast_to", "reshape"],
    ),
    "two tiled alike": (
        lambda w: pnp.tile(w, (4,)) * pnp.tile(pnp.sin(w), (4,)),
        ["reshape", "sin", "reshape", "multiply", "broadcast_to", "reshape"],
    ),
    "dtypes": (
        lambda w: pnp.astype(pnp.broadcast_to(w, (4, 3)), "float32") > 0.5,
        ["astype", "greater", "broadcast_to"],
    ),
    "two broadcasts": (
        lambda w: pnp.exp(pnp.broadcast_to(pnp.broadcast_to(w, (4, 3)), (2, 4, 3))),
        ["exp", "broadcast_to"],
    ),
}


@pytest.mark.parametrize("name", MOVED)
def test_what_expands_moves_below(name) -> None:
    fn, expected = MOVED[name]
    assert sorted(op for op, _ in _ops(_run(fn, ROW))) == sorted(expected)


BLOCKED = {
    "cumulative sum": lambda v: pnp.exp(pnp.cumulative_sum(v, axis=1)),
    "softmax": lambda v: pnp.softmax(v, axis=0),
    "sum": lambda v: pnp.sum(v, axis=1),
    "take": lambda v: pnp.exp(pnp.take(v, pnp.asarray([0, 2]), axis=1)),
    "concat": lambda v: pnp.exp(pnp.concat([v, v])),
    "division of integers": lambda v: pnp.astype(v, "int64") // 2,
}


@pytest.mark.parametrize("name", BLOCKED)
def test_what_depends_on_the_place_or_may_raise_stops_it(name) -> None:
    program = plica.trace(lambda w: BLOCKED[name](pnp.broadcast_to(w, (4, 3))), ROW)
    after = postpone(program, dict.fromkeys(program.equations))
    assert program.results[0] not in after.moved


def test_what_is_not_constant_stops_it() -> None:
    program = plica.trace(lambda x, w: x * pnp.broadcast_to(w, (4, 3)), plica.spec((4, 3)), plica.spec((3,)))
    (broadcast, _) = program.equations
    assert not postpone(program, {broadcast: None}).moved


def test_sizes_that_are_not_known_yet() -> None:
    program = plica.trace(
        lambda x, w: x + pnp.exp(pnp.broadcast_to(w, (x.shape[0], 3))), plica.spec(("n", 3)), plica.spec((3,))
    )
    folding = fold(program, run_time=("w",))
    names = [one.op.name for one in folding.split.entry.equations]
    assert names == ["broadcast_to", "exp", "add"], "its size varies, so it is no constant"


def test_a_cast_to_a_wider_dtype_moves_below_views() -> None:
    def fn(w):
        return pnp.pack(pnp.permute_dims(pnp.astype(w, "float32") * 0.5, (1, 0)), inner_dims_pos=(0,), inner_tiles=(2,))

    spec = plica.spec((3, 4), "int8")
    assert [op for op, _ in _ops(_run(fn, spec))] == ["permute_dims", "pack", "astype", "multiply"]
    assert [op for op, _ in _ops(_run(fn, spec, widen=True))] == ["astype", "multiply", "permute_dims", "pack"]
    program = plica.trace(lambda x, w: x * fn(w), plica.spec((2, 3, 2)), spec)
    folding = fold(program, run_time=("w",))
    assert [one.op.name for one in folding.split.runtime_fold.equations] == ["permute_dims", "pack"]
    assert folding.report.after == folding.report.before == 12


# Dequantization: what is kept is the integers, viewed; what scales them is viewed alike

PER_CHANNEL = {
    "per tensor": lambda w, s: pnp.astype(w, "float32") * s[0],
    "per row": lambda w, s: pnp.astype(w, "float32") * s[:, None],
    "per column": lambda w, s: s[:4] * pnp.astype(w, "float32"),
    "with zero points": lambda w, s: (pnp.astype(w, "float32") - pnp.astype(w[:, :1], "float32")) * s[:, None],
    "scales spread out": lambda w, s: pnp.astype(w, "float32") * pnp.broadcast_to(s[:, None], (6, 4)),
    "in two steps": lambda w, s: pnp.astype(pnp.astype(w, "float16") * 0.5, "float32") * s[:, None],
}
SEEN = {
    "transposed": lambda w: pnp.permute_dims(w, (1, 0)),
    "packed": lambda w: pnp.pack(w, (1, 0), (2, 3), outer_dims_perm=(1, 0)),
    "unpacked": lambda w: pnp.unpack(pnp.pack(w, (1, 0), (2, 3)), (1, 0), (2, 3)),
    "cut": lambda w: w[1:5, ::2],
    "one row": lambda w: w[2:3],
    "turned": lambda w: pnp.roll(pnp.flip(w), 1, axis=1),
    "split": lambda w: pnp.reshape(w, (2, 3, 1, 4)),
    "transposed and packed": lambda w: pnp.pack(pnp.permute_dims(w, (1, 0)), (0, 1), (2, 3)),
}
FOLLOW_UP = ("astype", "multiply", "subtract")


@grouped("view", SEEN)
@grouped("scaled", PER_CHANNEL)
@grouped("dtype", ["int8", "int4"])
def test_dequantization_moves_below_views(dtype, scaled, view) -> None:
    def fn(w, s):
        return SEEN[view](PER_CHANNEL[scaled](w, s))

    specs = plica.spec((6, 4), dtype), plica.spec((6,))
    folded = plica.fold_constants(plica.trace(fn, *specs), run_time=("w", "s"))
    plica.verify(folded.entry)
    assert {one.op.name for one in folded.entry.equations} <= {*FOLLOW_UP}, "every view is folded"
    kept = [one.type for one in folded.entry.arguments if one.type.dtype == dtype and 24 >= _entries(one.type) > 6]
    assert len(kept) <= 1, "the integers are kept once"
    w, s = np.arange(-12, 12).reshape(6, 4) % 16 - 8, np.linspace(0.5, 2, 6, dtype="float32")
    (expected,) = plica.interpret(folded.program, w.astype(dtype), s)
    for backend in ("torch", "interpreter"):
        assert_same(folded.compile(backend)(w.astype(dtype), s), expected)


READ = {
    "rows": lambda v, i: v[i],
    "taken rows": lambda v, i: pnp.take(v, i, axis=0),
    "rows that are known": lambda v, i: v[pnp.asarray([3, 1])] * pnp.astype(i[:2, None], "float32"),
    "columns of a row": lambda v, i: v[2][i],
    "rows of what is turned": lambda v, i: pnp.permute_dims(v, (1, 0))[i],
    "twice": lambda v, i: v[i][pnp.asarray([1, 0])],
}


@grouped("name", READ)
@grouped("beside", [lambda s: s[:, None], lambda s: s[:1], lambda s: s])
@grouped("dtype", ["int8", "int4"])
def test_of_a_table_only_what_is_read_is_dequantized(dtype, beside, name) -> None:
    def fn(i, w, s):
        return READ[name](pnp.astype(w, "float32") * beside(s), i)

    traced = plica.jit(fn)
    i, w, s = np.array([5, 0, 5]), (np.arange(64) * 5 % 16 - 8).reshape(8, 8), np.linspace(0.5, 2, 8, dtype="float32")
    expected = traced(i, w.astype(dtype), s)
    folded = plica.fold_constants(traced.bound, run_time=("w", "s"))
    plica.verify(folded.entry)
    wide = [one for equation in folded.entry.equations for one in equation.outputs if one.type.dtype == "float32"]
    assert max(_entries(one.type) for one in wide) <= 24
    for backend in ("torch", "interpreter"):
        assert_same(folded.compile(backend)(i, w.astype(dtype), s), expected)


def test_reads_that_are_more_than_the_table_leave_it_as_it_is() -> None:
    def fn(i, w):
        return (pnp.astype(w, "float32") * 0.5)[i]

    for rows, expected in ((4, ["gather", "astype", "multiply"]), (5, ["astype", "multiply", "gather"])):
        program = plica.trace(fn, plica.spec((rows,), "int64"), plica.spec((4, 4), "int8"))
        assert [one.op.name for one in fold(program, run_time=("w",)).split.entry.equations] == expected


BLOCKED_VIEWS = {
    "rows are joined": (lambda w: pnp.reshape(w, (24,)), ["astype", "multiply", "reshape"]),
    "two are joined": (lambda w: pnp.concat([w, w]), ["astype", "multiply", "concat"]),
    "it is expanded": (lambda w: pnp.broadcast_to(w, (2, 6, 4)), ["astype", "multiply", "broadcast_to"]),
    "the result depends on the place": (lambda w: pnp.softmax(w.T), []),
}


@pytest.mark.parametrize("name", BLOCKED_VIEWS)
def test_dequantization_stays_above_what_scales_cannot_follow(name) -> None:
    view, expected = BLOCKED_VIEWS[name]

    def fn(w, s):
        return view(pnp.astype(w, "float32") * s[:, None])

    folding = fold(plica.trace(fn, plica.spec((6, 4), "int8"), plica.spec((6,))), run_time=("w", "s"))
    assert [one.op.name for one in folding.split.entry.equations] == expected


def test_what_may_raise_stays_above_views() -> None:
    spec = plica.spec((3,), "int32")
    program = plica.trace(lambda w, s: (pnp.astype(w, "int32") // s[:, None])[:1], ROW_OF_INT8, spec)
    after = eliminate_dead_code(postpone(program, dict.fromkeys(program.equations)).program)
    assert [op for op, _ in _ops(after)] == [op for op, _ in _ops(program)]


BLOCKS = {  # scales of blocks of columns, as weights of four bits have
    "repeated": lambda w, s: pnp.astype(w, "float32") * pnp.repeat(s, 4, axis=1),
    "by an axis": lambda w, s: pnp.reshape(
        pnp.astype(pnp.reshape(w, (64, 16, 4)), "float32") * s[:, :, None], (64, 64)
    ),
    "spread out": lambda w, s: (
        pnp.astype(w, "float32") * pnp.reshape(pnp.broadcast_to(s[:, :, None], (64, 16, 4)), (64, 64))
    ),
}


@pytest.mark.parametrize("seen", ["as it is", "transposed", "packed"])
@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize(("dtype", "bits"), [("int8", 8), ("int4", 4)])
def test_weights_are_never_widened_by_default(dtype, bits, name, seen) -> None:
    views = {"as it is": lambda w: w, "transposed": SEEN["transposed"], "packed": lambda w: pnp.pack(w, (0, 1), (8, 8))}

    def fn(x, w, s):
        return x * views[seen](BLOCKS[name](w, s))

    size = (8, 8, 8, 8) if seen == "packed" else (64, 64)
    program = plica.trace(fn, plica.spec(size), plica.spec((64, 64), dtype), plica.spec((64, 16)))
    kept = fold(program, run_time=("w", "s")).report
    assert kept.after is not None
    assert kept.before is not None
    assert kept.after <= kept.before == 64 * 64 * bits // 8 + 64 * 16 * 4
    wide = fold(program, run_time=("w", "s"), policy=FoldPolicy(widen=True)).report
    assert wide.after == 64 * 64 * 4, "unless it is asked for"


@st.composite
def quantized_chains(draw):
    """A function of integers (2, 6, 4) and of a source of scales that views, scales and shifts them in any order."""
    steps = draw(
        st.lists(st.sampled_from(["scale", "shift", "turn", "flip", "cut", "pack", "split", "join"]), max_size=6)
    )
    numbers = draw(st.lists(st.integers(0, 63), min_size=12, max_size=12))

    def fn(w, s):
        value, rest = pnp.astype(w, "float32"), iter(numbers)
        for step in steps:
            number = next(rest)
            axis = number % value.ndim
            if step in ("scale", "shift"):
                size = [dim if number >> place & 1 else 1 for place, dim in enumerate(value.shape)]
                few = pnp.reshape(s[: int(np.prod(size))], size)
                value = value * few if step == "scale" else few - value
            elif step == "turn":
                value = pnp.permute_dims(value, (*range(axis, value.ndim), *range(axis)))
            elif step == "flip":
                value = pnp.roll(pnp.flip(value, axis=axis), 1, axis=number % 2)
            elif step == "cut":
                value = value[1:] if value.shape[0] > 1 else value[:, :1]
            elif step == "join":
                value = pnp.reshape(value, (-1, value.shape[-1]))
            elif step == "split" or value.ndim > 4:
                value = pnp.reshape(value, (1, value.shape[0], -1, value.shape[-1]))
            elif value.shape[axis] % 2 == 0:
                value = pnp.pack(value, (axis,), (2,))
        return value

    return fn


@settings(max_examples=60, deadline=None)
@given(quantized_chains(), st.sampled_from(["int8", "int4"]))
def test_whatever_is_done_to_integers_has_the_same_bits_and_grows_nothing(fn, dtype) -> None:
    program = plica.trace(fn, plica.spec((2, 6, 4), dtype), plica.spec((48,)))
    policy = FoldPolicy(max_growth=0)
    folded = plica.fold_constants(program, run_time=("w", "s"), policy=policy)
    plica.verify(folded.entry)
    w, s = (np.arange(48) * 5 % 16 - 8).reshape(2, 6, 4).astype(dtype), np.linspace(-1, 1, 48, dtype="float32")
    (expected,) = plica.interpret(program, w, s)
    run = folded.compile("interpreter")
    assert np.array_equal(run(w, s), expected)
    before, after = folded.report().before, folded.report().after
    assert before is not None
    assert after is not None
    assert run.num_bytes <= after <= before


def test_a_cast_that_is_read_elsewhere_too_stays() -> None:
    def fn(w):
        wide = pnp.astype(w, "float32")
        return pnp.permute_dims(wide, (1, 0)), wide * 2.0

    assert [op for op, _ in _ops(_run(fn, plica.spec((3, 4), "int8")))] == ["astype", "permute_dims", "multiply"]


@settings(max_examples=40, deadline=None)
@given(constant_programs(), st.booleans())
def test_results_are_the_same(case, widen) -> None:
    program, *_ = case
    after = postpone(program, dict.fromkeys(program.equations), widen=widen).program
    plica.verify(after)
    assert plica.parse(str(after)) == after
    for number in SIZES:
        named = named_arguments(program, number)
        for found, expected in zip(
            plica.interpret(after, *named.values()), plica.interpret(program, *named.values()), strict=True
        ):
            assert_same(found, expected)


def test_a_parameter_that_is_expanded_and_computed_with_is_kept_small() -> None:
    def fn(x, w):
        return x * pnp.exp(pnp.broadcast_to(pnp.sqrt(w), (2**18, 4)))

    folding = fold(
        plica.trace(fn, plica.spec((2**18, 4)), plica.spec((4,))), run_time=("w",), policy=FoldPolicy(max_growth=None)
    )
    assert folding.report.after == 16
    assert [one.op.name for one in folding.split.runtime_fold.equations] == ["sqrt", "exp"]


def test_a_set_that_entries_are_looked_up_in_is_no_array_beside_them() -> None:
    def fn(w, some):
        return pnp.isin(pnp.astype(w, "int8"), some)[1:, 1:]

    program = plica.trace(fn, plica.spec((4, 4), "int4"), plica.spec((4,), "int8"))
    folded = plica.fold_constants(program, run_time=("w", "some"))
    w, some = np.arange(16).reshape(4, 4).astype("int4"), np.array([5, 1, 2, 6], "int8")
    assert folded.compile("interpreter")(w, some).tolist() == plica.interpret(program, w, some)[0].tolist()
