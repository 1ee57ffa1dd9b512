"""What expands moves below elementwise operations, and stops at those that depend on the place; casts, below views."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import plica
import plica.numpy as pnp
from plica.passes.constants.fold import fold
from plica.passes.constants.policy import FoldPolicy
from plica.passes.constants.postpone import postpone
from plica.passes.constants.report import Fate
from plica.passes.dead_code import eliminate_dead_code
from tests.harness.constant_programs import constant_programs, named_arguments
from tests.harness.programs import assert_same
from tests.harness.random_programs import SIZES

ROW = plica.spec((3,), "float64")


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
