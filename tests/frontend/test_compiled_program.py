"""Programs as a source language: read from text and compiled, they compute what the interpreter says they mean."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import plica
import plica.numpy as pnp
from plica.errors import DTypeError, InputError, PlicaError, TraceError, VerifyError
from plica.frontend.programs import interpret, parse
from plica.ir.program import Program
from plica.lower.optimize import DEFAULT_RULES
from plica.ops import OPS
from plica.pipeline import PipelineContext
from tests.harness import function_runs as runs
from tests.harness.own_rules import SQUARED
from tests.harness.programs import assert_same, one_equation, to_torch, unique
from tests.harness.random_functions import Function, functions
from tests.harness.random_programs import SIZES, arguments, programs
from tests.harness.samples import SAMPLES, Case, over

SCALED = """{ lambda w:f32[3] ; {n:i64[]} x:f32[n,3] k:f32[] . let
    y:f32[n,3] = multiply x w
    z:f32[n,3] = multiply y k
  in (z, x) }"""
GROWING = """{ lambda ; {n:i64[]} x:f32[n] times:i64[] . let
    {a:i64[]} b:f32[a] = for_loop[body={ lambda {m:i64[]} x:f32[m] ; {n:i64[]} i:i64[] a:f32[n] . let
          b:f32[n+m] = concat[axis=0] a x
          c:i64[] = add n m
        in ({c}, b) } body_nconsts=2 num_implicit_inputs=1 num_implicit_outputs=1 preserve_dimensions=True]
        n x n 0:i64[] times 1:i64[] x
  in ({a}, b) }"""
W = torch.tensor([1.0, 2.0, 3.0])
X, K = torch.ones(2, 3), torch.tensor(2.0)


def _again(program: Program) -> Program:
    """The Program that its text says."""
    return parse(str(program))


def _tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


# Every Program runs


@pytest.mark.one_in(2)
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@over(SAMPLES)
def test_each_operation_runs_from_its_text(case: Case) -> None:
    program = _again(one_equation(case.op, case.inputs, case.params))
    results = _tuple(plica.jit(program)(*map(to_torch, case.inputs)))
    expected = interpret(program, *case.inputs)
    found = unique(case.op, tuple(one.resolve_conj().numpy() for one in results))
    for one, other in zip(found, unique(case.op, expected), strict=True):
        assert_same(one, other, OPS[case.op].tolerance)


@settings(max_examples=25)
@given(programs())
def test_random_programs_run_from_their_text_at_all_sizes(program: Program) -> None:
    run = plica.compile(_again(program))
    for sizes in SIZES:
        arrays = arguments(program, sizes)
        for one, other in zip(_tuple(run(*arrays)), interpret(program, *arrays), strict=True):
            assert_same(one, other, 1e3)


@settings(max_examples=25)
@given(functions())
def test_traced_functions_run_from_their_text_with_loops_branches_and_calls(function: Function) -> None:
    drawn = ({"n": 3, "m": 2}, {"n": 0, "m": 1}, {"n": 1, "m": 4})
    traced = runs.compiled(function)
    traced(*function.draw(drawn[0], 0))
    program = _again(traced.program)
    run, tolerance = plica.jit(program, consts=traced.bound.leaves), max(runs.TOLERANCE[one] for one in function.floats)
    for sizes in drawn:
        given_ = function.draw(sizes, 0)
        expected = interpret(
            program, *_declared(program, given_), consts=[np.asarray(one) for one in traced.bound.leaves]
        )
        runs.assert_same(_tuple(run(*runs.to_torch(given_))), expected, tolerance, f"at {sizes}")


def _declared(program: Program, given_: list[Any]) -> list[Any]:
    return [np.asarray(one, var.type.dtype.numpy) for one, var in zip(given_, program.arguments, strict=True)]


def test_sizes_that_change_in_a_loop_are_sizes_of_every_call() -> None:
    run = plica.jit(parse(GROWING))
    for size, times in ((2, 3), (1, 0), (0, 5)):
        x = np.arange(size, dtype="float32")
        found, expected = run(x, times), interpret(run.program, x, np.int64(times))[0]
        assert isinstance(found, np.ndarray)
        assert_same(found, expected)


def test_a_nested_program_runs_alone_with_its_captured_sizes() -> None:
    body = parse(GROWING).equations[0].params["body"]
    a, x = np.zeros(3, "float32"), np.ones(2, "float32")
    run = plica.jit(_again(body), consts={"m": 2, "x": x})
    assert_same(run(0, a), interpret(body, np.int64(0), a, consts=[np.int64(2), x])[0])


@pytest.mark.parametrize("backend", ["torch", "interpreter"])
def test_arguments_may_have_captured_sizes(backend: str) -> None:
    text = "{ lambda n:i64[] w:f32[n] ; x:f32[n] . let y:f32[n] = multiply x w in (y,) }"
    run = plica.jit(parse(text), consts=[3, np.full(3, 2.0, "float32")], backend=backend)
    for _ in range(2):
        assert run(np.ones(3, "float32")).tolist() == [2.0] * 3
    with pytest.raises(InputError, match="axis 0"):
        run(np.ones(4, "float32"))


# What is captured


@pytest.mark.parametrize("consts", [(W,), [W.numpy()], {"w": W}], ids=["sequence", "numpy", "by name"])
def test_consts_are_given_in_order_or_by_name(consts: Any) -> None:
    z, x = plica.jit(parse(SCALED), consts=consts)(X, 2)
    assert torch.equal(z, 2 * X * W)
    assert torch.equal(x, X)


def test_tensors_are_captured_by_reference_and_have_gradients() -> None:
    w, x = W.clone().requires_grad_(), X.clone().requires_grad_()
    run = plica.jit(parse(SCALED), consts={"w": w})
    run(x, K)[0].sum().backward()
    assert w.grad is not None
    assert x.grad is not None
    assert torch.equal(w.grad, torch.full((3,), 4.0))
    assert torch.equal(x.grad, (2 * W).expand(2, 3))
    with torch.no_grad():
        w.zero_()
    assert not run(X, 1)[0].any()


def test_what_a_function_captures_goes_with_its_program() -> None:
    module = torch.nn.Linear(3, 3)

    @plica.jit(abstracted_axes={0: "n"})
    def function(x):
        return x @ module.weight

    expected = function(X)
    run = plica.jit(function.bound)
    again = plica.jit(_again(function.program), consts=function.bound.leaves)
    for one in (run, again):
        torch.testing.assert_close(one(X), expected)
        torch.testing.assert_close(one(X[:1]), expected[:1])


REFUSED_CONSTS: Any = (
    (None, r"captures w:f32\[3\], but 0 of 1 were given; write jit\(program, consts=\{'w': ...\}\)"),
    ((W, W), "2 of 1 were given"),
    ({"v": W}, "captures no 'v'; it captures w"),
    ((torch.ones(4),), r"leaf w is float32 of shape \(4,\), but the program expects w:f32\[3\]"),
    ((W.double(),), "leaf w is float64"),
    ((2.0,), r"leaf w is 2.0, but the program expects w:f32\[3\]"),
    (("w",), "takes arrays and numbers, found 'w' of type str"),
)


@pytest.mark.parametrize(("consts", "message"), REFUSED_CONSTS)
def test_consts_that_do_not_fit_are_refused_when_the_program_is_compiled(consts: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plica.jit(parse(SCALED), consts=consts)


# Arguments


REFUSED: Any = (
    ((X,), {}, InputError, r"takes x:f32\[n,3\], k:f32\[\]; found 1 by position. Give each one once"),
    ((X, K, K), {}, InputError, "found 3 by position"),
    ((X, K), {"k": K}, InputError, "found 2 by position, 'k'"),
    ((X,), {"q": K}, InputError, "no argument 'q'; there are x, k"),
    ((X.double(), K), {}, DTypeError, "argument x has dtype float64, but the program was made for float32"),
    ((X, K.double()), {}, DTypeError, "argument k has dtype float64"),
    ((X[0], K), {}, InputError, r"argument x has shape \(3,\), but the program expects f32\[n,3\]"),
    ((X.T, K), {}, InputError, "axis 1 is 2, expected 3"),
    ((1.0, K), {}, DTypeError, r"argument x is 1.0, but the program expects f32\[n,3\]"),
    ((X, 1j), {}, DTypeError, r"argument k is 1j, but the program expects f32\[\]"),
    ((X, "k"), {}, InputError, "takes arrays and numbers, found 'k' of type str"),
)


@pytest.mark.parametrize(("args", "kwargs", "error", "message"), REFUSED)
def test_arguments_that_do_not_fit_are_refused(args: Any, kwargs: Any, error: type[Exception], message: str) -> None:
    run = plica.jit(parse(SCALED), consts=(W,))
    for _ in range(2):  # and again when the kinds of the others are known
        run(X, K)
        with pytest.raises(error, match=message):
            run(*args, **kwargs)


def test_sizes_of_one_name_are_compared_at_every_call() -> None:
    run = plica.jit(parse("{ lambda ; {n:i64[]} x:f32[n] y:f32[n+1] . let in (y,) }"))
    assert run(torch.ones(2), torch.ones(3)).shape == (3,)
    with pytest.raises(InputError, match="y"):
        run(torch.ones(2), torch.ones(2))
    with pytest.raises(InputError, match="y"):
        run(torch.ones(3), torch.ones(3))


def test_arguments_by_name_and_of_other_kinds() -> None:
    run = plica.jit(parse(SCALED), consts=(W,))
    for k in (2, 2.0, True, np.float32(2), K):
        z, _ = run(k=k, x=X)
        assert torch.equal(z, X * W * float(k))
    z, x = run(X.numpy(), 2)
    assert isinstance(z, np.ndarray)
    assert isinstance(x, np.ndarray)


def test_the_interpreter_is_a_backend() -> None:
    run = plica.jit(parse(SCALED), consts=(W,), backend="interpreter")
    assert torch.equal(run(X, 2)[0], 2 * X * W)
    assert run.code == str(run.program)
    with pytest.raises(InputError, match="no backend 'jax'"):
        plica.jit(parse(SCALED), consts=(W,), backend="jax")


# Calls in other functions


def test_a_program_is_called_by_traced_functions() -> None:
    scaled, growing = plica.jit(parse(SCALED), consts=(W,)), plica.jit(parse(GROWING))

    @plica.jit(abstracted_axes=({0: "n"}, None))
    def function(x, times):
        z, _ = scaled(x, 3)
        return pnp.sum(z, axis=0), growing(x[:, 0], times)

    for size in (1, 2):
        total, grown = function(X[:size], 2)
        assert torch.equal(total, size * 3 * W)
        assert grown.shape == (3 * size,)
    assert function.num_compilations == 1
    with pytest.raises(DTypeError, match="argument x has dtype float64, but the program was made for float32"):
        function(X.double(), 2)
    with pytest.raises(PlicaError, match="expects"):
        function(X[:, :2], 2)


# Ways to ask for it


def test_compile_takes_a_program() -> None:
    assert torch.equal(plica.compile(parse(SCALED), consts=(W,))(X, 1)[0], X * W)
    with PipelineContext(semiring="sum-product"):
        assert torch.equal(plica.compile(parse(SCALED), consts=(W,))(X, 1)[0], X * W)


def test_rules_on_programs_are_those_of_the_context_or_of_jit() -> None:
    program = plica.trace(lambda x: x * x, plica.spec(3))
    rules = DEFAULT_RULES.adding(programs=[SQUARED])
    context = PipelineContext(rules=rules)
    with context:
        within = plica.compile(program)
    with_rule = (within, plica.compile(program, context), plica.jit(program, rules=rules))
    without = (plica.compile(program), plica.compile(program, PipelineContext(rules=rules, optimize=False)))
    for compiled, squared in (*((one, True) for one in with_rule), *((one, False) for one in without)):
        assert ("square" in compiled.code) == squared
        assert torch.equal(compiled(X[0]), X[0] * X[0])


def test_rules_on_programs_are_applied_to_functions_and_methods() -> None:
    class Shape:
        @plica.jit(rules=DEFAULT_RULES.adding(programs=[SQUARED]))
        def area(self, x: torch.Tensor) -> torch.Tensor:
            return x * x

    shape = Shape()
    assert torch.equal(shape.area(X), X * X)
    assert "square" in shape.area.code
    with pytest.raises(DTypeError, match=r"rules must be tables, found \("):
        plica.jit(lambda x: x, rules=(SQUARED,))  # type: ignore[arg-type]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copy", "pickle"])
def test_a_copy_has_the_program_and_what_it_captures(again: Any) -> None:
    weights = W.clone()
    compiled = plica.jit(parse(SCALED), consts=(weights,))
    other = again(compiled)
    assert other.program == compiled.program
    weights.zero_()
    assert torch.equal(other(X, K)[0], X * W * K)
    assert not compiled(X, K)[0].any()


def test_what_belongs_to_functions_alone_is_refused() -> None:
    with pytest.raises(TraceError, match="names its sizes"):
        plica.jit(parse(GROWING), abstracted_axes={0: "n"})
    with pytest.raises(TraceError, match="names its sizes"):
        plica.jit(parse(GROWING), static_argnums=1)
    with pytest.raises(TraceError, match="consts belong to a Program"):
        plica.jit(lambda x: x, consts=(W,))


def test_a_program_that_breaks_a_rule_is_refused() -> None:
    good = parse(SCALED)
    broken = Program(good.consts, good.inputs, good.equations[1:], good.outputs, good.num_implicit_inputs)
    with pytest.raises(VerifyError, match="used before it is defined"):
        plica.jit(broken, consts=(W,))
