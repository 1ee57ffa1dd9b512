"""Folding keeps results, bit for bit; what is kept, what stays, what goes; both forms; sizes; the report."""
# ruff: noqa: ARG001, ARG005 - bodies are given what they need not use

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import plica
import plica.numpy as pnp
from plica.constants import fold as fold_module
from plica.constants.analysis.origins import needed_by
from plica.constants.fold import fold
from plica.constants.policy import FoldPolicy
from plica.constants.report import Fate
from plica.passes.memory import plan_memory
from tests.harness.constant_programs import constant_programs, named_arguments, run_components, run_folded
from tests.harness.programs import assert_same
from tests.harness.random_programs import SIZES

VECTOR, MATRIX = plica.spec((3,)), plica.spec((3, 3))
POLICIES = (FoldPolicy(max_growth=None), FoldPolicy(max_growth=0), FoldPolicy(max_growth=None, max_peak=100))


def _names(program):
    return [] if program is None else [equation.op.name for equation in program.equations]


def _same(first, second) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


@settings(max_examples=50, deadline=None)
@given(constant_programs(), st.sampled_from(POLICIES), st.booleans())
def test_entry_after_folding_is_the_original(case, policy, is_two) -> None:
    program, compile_time, run_time = case
    for number in SIZES:
        named = named_arguments(program, number)
        sizes = {var: number[var.name] for var in program.inputs[: program.num_implicit_inputs]}
        folding = fold(program, compile_time, run_time, sizes=sizes, policy=policy, is_two=is_two)
        made = folding.split
        for one in (made.compiletime_fold, made.runtime_fold, made.entry, *folding.components):
            if one is not None:
                plica.verify(one)
                assert plica.parse(str(one)) == one
        found = run_folded(folding, named)
        assert all(map(_same, found, run_components(folding, named)))
        assert all(map(_same, found, plica.interpret(folding.program, *named.values())))
        for result, expected in zip(found, plica.interpret(program, *named.values()), strict=True):
            assert_same(result, expected)  # numpy rounds some functions otherwise in arrays of another size
        report = folding.report
        assert report.before is not None
        if policy.max_growth is not None:
            assert report.after <= report.before + policy.max_growth
        if policy.max_peak is not None:
            assert report.peak <= policy.max_peak
        kept = [var.name for var in made.entry.arguments]
        assert len(set(kept)) == len(kept)
        varying = [var.name for var in program.arguments if var.name not in (*compile_time, *run_time)]
        assert [name for name in kept if name in varying] == varying


def _mlp(x, w1, b1, w2):
    hidden = pnp.tanh(x @ pnp.permute_dims(w1, (1, 0)) + b1 * 2.0)
    return hidden @ pnp.softmax(w2, axis=0) + pnp.sum(w1) * pnp.sum(w2)


MLP = plica.trace(_mlp, plica.spec(("b", 4)), plica.spec((5, 4)), plica.spec((5,)), plica.spec((5, 3)))


def test_the_seeds_two_forms() -> None:
    two = fold(MLP, ("w1",), ("b1", "w2"), is_two=True).split
    assert _names(two.compiletime_fold) == ["permute_dims", "sum"]
    assert _names(two.runtime_fold) == ["multiply", "softmax", "sum", "multiply"]
    assert [var.name for var in two.compiletime_fold.arguments] == ["w1"]
    assert [var.name for var in two.runtime_fold.arguments][:2] == ["b1", "w2"]
    assert len(two.runtime_fold.arguments) == 3, "and what the first folding hands over"
    one = fold(MLP, ("w1",), ("b1", "w2")).split
    assert one.compiletime_fold is None
    assert [var.name for var in one.runtime_fold.arguments] == ["w1", "b1", "w2"]
    assert one.entry == two.entry
    assert _names(one.entry) == ["matmul", "add", "tanh", "matmul", "add"]


def test_a_value_with_constant_and_other_readers_is_kept_once() -> None:
    def fn(x, w):
        v = pnp.exp(w)
        return x * v, pnp.sum(v), x + pnp.sum(v)

    made = fold(plica.trace(fn, VECTOR, VECTOR), run_time=("w",)).split
    assert _names(made.runtime_fold) == ["exp", "sum"]
    assert len(made.runtime_fold.results) == len(made.kept) == 2
    assert [var.name for var in made.entry.arguments] == ["x", *(var.name for var in made.kept)]
    assert made.entry.results[1] is made.kept[1], "a constant result is returned as it was kept"


def test_equal_constant_work_is_kept_once_and_dead_work_goes() -> None:
    def fn(x, w):
        pnp.cos(w)
        return x * pnp.exp(w), x + pnp.exp(w)

    made = fold(plica.trace(fn, VECTOR, VECTOR), run_time=("w",)).split
    assert _names(made.runtime_fold) == ["exp"]
    assert len(made.kept) == 1


def test_a_raw_constant_that_entry_reads_stays_where_it_was() -> None:
    program = plica.trace(lambda c, x, w: x * c + w * pnp.exp(c), VECTOR, VECTOR, VECTOR)
    made = fold(program, run_time=("c", "w")).split
    assert [var.name for var in made.entry.arguments][:2] == ["c", "x"]
    assert "w" not in [var.name for var in made.entry.arguments]


def test_nothing_constant_leaves_the_program_and_all_constant_leaves_its_results() -> None:
    program = plica.trace(lambda x: pnp.exp(x) * 2.0, VECTOR)
    made = fold(program).split
    assert made.runtime_fold is None
    assert made.compiletime_fold is None
    assert made.entry == program
    made = fold(program, run_time=("x",)).split
    assert not made.entry.equations
    assert made.entry.results == made.kept


def test_invariant_work_of_loops_and_of_called_functions_is_folded() -> None:
    def fn(x, w):
        return plica.for_loop(0, 3, 1, lambda i, a: a * pnp.exp(w), x) + plica.jit(lambda a: a * pnp.softmax(w))(x)

    made = fold(plica.trace(fn, VECTOR, VECTOR), run_time=("w",)).split
    assert _names(made.runtime_fold) == ["exp", "softmax"]


def test_a_loop_over_constants_is_folded_as_a_whole() -> None:
    program = plica.trace(lambda x, w: x @ plica.for_loop(0, 3, 1, lambda i, a: a @ w, w), MATRIX, MATRIX)
    folding = fold(program, run_time=("w",))
    assert _names(folding.split.runtime_fold) == ["for_loop"]
    x, w = np.eye(3, dtype="float32") * 2, np.linspace(-1, 1, 9, dtype="float32").reshape(3, 3)
    assert _same(run_folded(folding, {"x": x, "w": w})[0], plica.interpret(program, x, w)[0])


def test_a_constant_result_of_a_loop_that_reads_something_else_too_is_not_at_hand() -> None:
    def fn(x, w):
        first, second = plica.for_loop(0, 1, 1, lambda _, pair: (pair[0] + 1.0, pair[1] * 2.0), (x, w))
        return first, pnp.exp(second)

    folding = fold(plica.trace(fn, VECTOR, VECTOR), run_time=("w",))
    assert _names(folding.split.entry) == ["for_loop", "exp"]
    assert "as a whole reads values that are not constant" in folding.report["b"].why
    given = {"x": np.ones(3, "float32"), "w": np.arange(3, dtype="float32")}
    assert _same(run_folded(folding, given)[1], np.exp(2 * given["w"]))


def test_constants_that_are_passed_to_a_called_function_are_folded() -> None:
    @plica.jit
    def both(a, b):
        return a + 1.0, b * 2.0

    folding = fold(plica.trace(lambda x, w: both(x, w), VECTOR, VECTOR), run_time=("w",))
    assert _names(folding.split.entry) == ["add"]
    assert [value.operation for value in folding.report.values] == ["multiply"]


# Sizes


def test_a_size_that_only_a_folded_constant_has_is_kept_as_a_number() -> None:
    program = plica.trace(lambda x, w: x * w.shape[0], plica.spec(("b",), "int64"), plica.spec(("n", 3)))
    folding = fold(program, run_time=("w",), policy=FoldPolicy(max_growth=None))
    assert [var.name for var in folding.split.entry.arguments] == ["x", "n"]
    given = {"x": np.arange(2), "w": np.zeros((5, 3), "float32")}
    assert run_folded(folding, given)[0].tolist() == [0, 5]


def test_a_size_in_the_type_of_an_argument_keeps_the_constant_that_tells_it() -> None:
    program = plica.parse(
        "{ lambda ; {n:i64[]} x:f32[2*n] w:f32[n] . let a:f32[] = sum[axis=(0,) keepdims=False] w "
        "b:f32[2*n] = multiply x a in (b,) }"
    )
    folding = fold(program, run_time=("w",), policy=FoldPolicy(max_growth=None))
    assert [var.name for var in folding.split.entry.arguments] == ["x", "w", "a"]
    given = {"x": np.ones(4, "float32"), "w": np.ones(2, "float32")}
    assert run_folded(folding, given)[0].tolist() == [2.0] * 4


@pytest.mark.parametrize("is_two", [False, True])
def test_arithmetic_on_sizes_is_done_where_types_refer_to_it(is_two) -> None:
    def fn(x, k):
        def step(i, a):
            return pnp.full((2 * x.shape[1] + 1, x.shape[0]), 1.0, dtype="float64")

        return plica.for_loop(x.shape[1], 0, -1, step, pnp.repeat(k, 2, axis=0), preserve_dimensions=False)

    program = plica.trace(fn, plica.spec(("n", "m"), "float64"), plica.spec(("m", "n"), "float64"))
    folding = fold(program, ("k",), is_two=is_two)
    for one in (folding.split.compiletime_fold, folding.split.runtime_fold, folding.split.entry):
        if one is not None:
            plica.verify(one)
    given = {"x": np.ones((2, 3)), "k": np.ones((3, 2))}
    assert _same(run_folded(folding, given)[0], plica.interpret(program, *given.values())[0])


def test_a_size_that_folding_computes_is_read_off_what_is_kept() -> None:
    def fn(x, w):
        return x + pnp.sum(pnp.exp(w[w > 0]) * x[0])

    folding = fold(plica.trace(fn, plica.spec(("b",)), VECTOR), run_time=("w",), policy=FoldPolicy(max_growth=None))
    assert folding.split.runtime_fold is not None
    plica.verify(folding.split.runtime_fold)
    plica.verify(folding.split.entry)
    given = {"x": np.ones(2, "float32"), "w": np.asarray([1, -1, 1], "float32")}
    expected = plica.interpret(folding.program, *given.values())
    assert _same(run_folded(folding, given)[0], expected[0])
    assert "exp" not in _names(folding.split.entry)


def test_sizes_of_the_batch_do_not_keep_constants_from_folding() -> None:
    program = plica.trace(lambda x, w: x @ pnp.softmax(w), plica.spec(("b", 3)), MATRIX)
    assert _names(fold(program, run_time=("w",)).split.runtime_fold) == ["softmax"]


# The policy


def test_sixteen_bytes_that_are_expanded_to_four_mebibytes_are_not_kept_expanded() -> None:
    def fn(x, w):
        return x * pnp.cumulative_sum(pnp.broadcast_to(pnp.sqrt(w), (2**18, 4)), axis=0)

    folding = fold(plica.trace(fn, plica.spec((2**18, 4)), plica.spec((4,))), run_time=("w",))
    assert folding.report.after == 16
    assert _names(folding.split.entry) == ["broadcast_to", "cumulative_sum", "multiply"]
    assert [folding.report[name].fate for name in "abc"] == [Fate.FOLDED, Fate.REFUSED, Fate.CUT]


def test_a_large_value_may_exist_for_a_moment_if_the_peak_allows() -> None:
    def fn(x, w):
        return x * pnp.sum(pnp.exp(pnp.expand_dims(w, axis=1) * w), axis=0)

    program = plica.trace(fn, plica.spec((500,)), plica.spec((500,)))
    wide = fold(program, run_time=("w",), policy=FoldPolicy(max_growth=0))
    assert wide.report.work_after == 0
    assert wide.report.peak is not None
    assert wide.report.peak >= 10**6
    narrow = fold(program, run_time=("w",), policy=FoldPolicy(max_growth=0, max_peak=10_000))
    assert narrow.report.peak is not None
    assert narrow.report.peak <= 10_000
    assert narrow.report["b"].fate is Fate.CUT


def test_the_peak_counts_what_a_reshape_copies() -> None:
    program = plica.trace(lambda x, w: x * pnp.sum(pnp.tile(w, (2**16,))), plica.spec((3,)), plica.spec((4,)))
    assert fold(program, run_time=("w",)).report.peak == 2**20 + 4
    limited = fold(program, run_time=("w",), policy=FoldPolicy(max_peak=1000)).report
    assert limited.peak is not None
    assert limited.peak <= 1000
    assert limited.work_after > 2**16


def test_the_peak_is_that_of_components_in_turn_where_that_is_more() -> None:
    def fn(x, v, w):
        number = pnp.sum(pnp.sin(w))
        early = pnp.exp(number)
        other = pnp.sum(pnp.exp(v))
        return x + early, x + other, x * (w * number)

    program = plica.trace(fn, *[plica.spec((1000,))] * 3)
    folding = fold(program, run_time=("v", "w"), policy=FoldPolicy(max_growth=None))
    assert folding.split.runtime_fold is not None
    assert plan_memory(folding.split.runtime_fold, 1).peak < 4100, "the large result is made last"
    assert folding.report.peak == 4 + 4000 + 4000 + 4, "but belongs to the component that is folded first"


def test_what_is_known_when_the_program_is_compiled_is_no_component_of_what_is_not() -> None:
    program = plica.trace(lambda x, v, w: x * pnp.exp(pnp.sin(v) + w), VECTOR, VECTOR, VECTOR)
    apart = fold(program, ("v",), ("w",), is_two=True)
    assert [_names(one) for one in apart.components] == [["sin"], ["add", "exp"]]
    assert [_names(one) for one in (apart.split.compiletime_fold, apart.split.runtime_fold)] == [
        ["sin"],
        ["add", "exp"],
    ]
    assert [_names(one) for one in fold(program, ("v",), ("w",)).components] == [["sin", "add", "exp"]]


def test_a_size_of_an_argument_that_is_kept_as_a_number_belongs_to_no_component() -> None:
    def fn(x):
        longer = plica.for_loop(0, 2, 1, lambda i, a: pnp.concat([a, a[:1]]), x, preserve_dimensions=False)
        return pnp.tanh(longer)[: x.shape[0] % (longer.shape[0] + 1)]

    folding = fold(plica.trace(fn, plica.spec(("n",))), ("x",), sizes={}, policy=FoldPolicy(max_growth=None))
    assert [_names(one) for one in folding.components] == [[], ["for_loop", "tanh"]]
    x = np.linspace(0.0, 1.0, 3, dtype="float32")
    assert all(map(_same, run_components(folding, {"x": x}), plica.interpret(folding.program, x)))


def test_parts_that_read_each_other_are_one_component() -> None:
    def fn(x, w):
        inner = pnp.sin(w)
        first = pnp.exp(inner)
        second = pnp.cos(first)
        return x + first, x + second, x + pnp.log(inner + second)

    (one,) = fold(plica.trace(fn, VECTOR, VECTOR), run_time=("w",)).components
    assert _names(one) == ["sin", "exp", "cos", "add", "log"]


def test_parts_of_constants_that_are_held_take_no_memory() -> None:
    program = plica.trace(lambda x, w: x * w[0] + pnp.exp(w[1]), VECTOR, plica.spec((2, 3)))
    report = fold(program, run_time=("w",), policy=FoldPolicy(max_growth=12), sources_stay=True).report
    assert (report.before, report.after) == (24, 36)
    assert [one.why for one in report.of("folded") if "part of a constant" in one.why]


def test_what_a_reshape_copies_of_constants_that_are_held_takes_memory() -> None:
    def parts(w):
        return pnp.reshape(w[::2], (-1,)), pnp.reshape(pnp.permute_dims(w, (1, 0)), (-1,)), pnp.reshape(w, (-1,))

    program = plica.trace(lambda x, w: [x * one for one in parts(w)], plica.spec(()), plica.spec((4, 4)))
    report = fold(program, run_time=("w",), sources_stay=True).report
    assert (report.before, report.after) == (64, 64 + 32 + 64)


def test_a_splat_is_never_kept() -> None:
    folding = fold(plica.trace(lambda x: x + pnp.exp(pnp.zeros((3,)) + 1.0), plica.spec((3,), "float64")))
    assert folding.report.after == 8, "the number is"
    assert _names(folding.split.entry) == ["full", "add"]
    assert [one.operation for one in folding.report.of("postponed")] == ["full"]
    read = fold(plica.trace(lambda x: x + pnp.zeros((3,)), plica.spec((3,), "float64")))
    assert _names(read.split.entry) == ["add"], "a number is read instead"
    made = fold(plica.trace(lambda x: x @ pnp.zeros((3, 3)), plica.spec((3,), "float64")))
    assert made.split.runtime_fold is None
    assert [one.why for one in made.report.of("refused")] == ["a splat: one number, repeated at each use"]


@pytest.mark.parametrize("widen", [False, True])
def test_weights_of_integers_are_widened_only_where_the_policy_says_so(widen: bool) -> None:
    def fn(x, w, scale):
        return x @ (pnp.astype(w, pnp.float32) * scale)

    program = plica.trace(fn, plica.spec(("b", 4)), plica.spec((4, 4), "int8"), plica.spec((4,)))
    folding = fold(program, run_time=("w", "scale"), policy=FoldPolicy(widen=widen))
    assert _names(folding.split.runtime_fold) == (["astype", "multiply"] if widen else [])
    if not widen:
        assert "widened" in folding.report["a"].why


def test_what_is_narrow_again_is_kept() -> None:
    def fn(x, w):
        return x * pnp.astype(pnp.exp(pnp.astype(w, pnp.float32)), pnp.float16)

    program = plica.trace(fn, plica.spec((3,), "float16"), plica.spec((3,), "float16"))
    assert _names(fold(program, run_time=("w",)).split.runtime_fold) == ["astype", "exp", "astype"]


def test_a_value_of_unknown_size_is_refused_under_a_limit_and_folded_without_one() -> None:
    program = plica.trace(lambda x, w: x * pnp.sum(pnp.exp(w)[0]) + pnp.exp(w), plica.spec(("n",)), plica.spec(("n",)))
    limited = fold(program, run_time=("w",))
    assert "not known" in next(limited.report.of("refused")).why
    assert limited.report.after is None
    free = fold(program, run_time=("w",), policy=FoldPolicy(max_growth=None))
    assert free.report.work_after == 0


def test_a_limit_that_is_negative_is_refused() -> None:
    with pytest.raises(plica.errors.InputError, match="max_peak is -1 bytes; give 0 or more"):
        FoldPolicy(max_peak=-1)


def test_the_report_says_what_happened_to_each_value() -> None:
    text = str(fold(MLP, ("w1",), ("b1", "w2")).report)
    assert text.startswith(
        "6 constant value(s): 6 folded, 0 cut, 0 postponed, 0 by states, 0 refused\nbytes: 160 before, 164 after"
    )
    assert ": folded, kept, 80 bytes" in text
    assert ": folded, only other folded values read it" in text


def test_forty_doublings_and_long_chains_are_folded_in_one_walk() -> None:
    def doubled(x, w):
        for _ in range(40):
            w = w + w
        return x * w

    folding = fold(plica.trace(doubled, VECTOR, VECTOR), run_time=("w",))
    assert len(folding.split.runtime_fold.equations) == 40
    assert len(folding.split.entry.equations) == 1


@pytest.mark.parametrize("count", [1_000, pytest.param(100_000, marks=pytest.mark.full)])
def test_a_long_constant_chain(count: int) -> None:
    from plica.ir.builder import Builder
    from plica.ir.dtypes import DType
    from plica.ops import OPS

    builder = Builder(OPS)
    x, w = builder.argument("x", (3,), DType.FLOAT32), builder.argument("w", (3,), DType.FLOAT32)
    value = w
    for place in range(count):
        (value,) = builder.add("sin" if place % 2 else "cos", value)
    folding = fold(builder.build(builder.add("add", x, value)), run_time=("w",))
    assert len(folding.split.runtime_fold.equations) == count
    assert folding.report.work_after == 0


def test_what_many_results_read_is_not_looked_up_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """One equation of 200 results that are not constant, as where folds come apart, is read a few times."""
    asked: list[str] = []

    def counted(equations, outputs):
        listed = list(equations)
        asked.extend(one.op.name for one in listed)
        return needed_by(listed, outputs)

    monkeypatch.setattr(fold_module, "needed_by", counted)
    program = plica.trace(
        lambda x, w: pnp.concat([part * w for part in pnp.unstack(x)]), plica.spec((200, 1)), plica.spec((1,))
    )
    (several,) = {one.op.name for one in program.equations if len(one.outputs) == 200}
    fold(program, run_time=("w",))
    assert 0 < asked.count(several) < 10
