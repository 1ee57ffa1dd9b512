"""Calls of traced functions and of compiled circuits within traced functions: nested Programs under `call`."""

from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import PlicaError, TraceError
from plica.frontend.programs import interpret, parse, trace, verify
from plica.ir.types import spec
from plica.templates.data_modalities import image_data
from tests.harness.functions import Cases, checked, ramp

N, M = spec("n"), spec("m")
SOME = ((ramp(3),), (ramp(1),), (ramp(0),))
cases = Cases()


@plica.jit
def scaled(x, factor):
    return x * factor


@plica.jit
def repeated(x, n):
    return pnp.concat([x, x]), pnp.ones([n])


@plica.jit
def positive(x):
    return {"found": x[x > 0], "sum": (pnp.sum(x), None)}


@pytest.mark.parametrize("case", cases)
def test_every_way_gives_the_same(case) -> None:
    case()


@cases.add([N], *SOME, eager=False)
def one_function_at_several_types(x):
    return scaled(x, 2.0), scaled(pnp.sum(x), 3), scaled(x, x), scaled(pnp.ones([2, 2]), x.shape[0])


@cases.add([N, int], (ramp(3), 2), (ramp(0), 0), (ramp(1), 3), eager=False)
def sizes_of_results(x, k):
    a, b = repeated(x, k)
    c, d = repeated(x, x.shape[0] + 1)
    e, f = repeated(a, 2)
    return a + c, b, d[1:] * x, e, f


@cases.add([N], *SOME, (ramp(9),), eager=False)
def sizes_that_data_decide(x):
    found = positive(x)
    return found["found"] * 2, found["sum"][0] * x, positive(found["found"] - 1)["found"].shape[0]


@cases.add([N, int], (ramp(3), 2), (ramp(0), 3), (ramp(1), 0), eager=False)
def calls_in_loops_and_branches(x, k):
    def body(i, a):
        b, c = repeated(a, i)
        return plica.cond(i > 0, lambda: scaled(b, pnp.astype(pnp.sum(c), "float32")), lambda: scaled(a, i + 1))

    return plica.for_loop(0, k, 1, body, x)


@cases.add([N], *SOME, eager=False)
def functions_that_call_functions(x):
    @plica.jit
    def outer(y):
        return scaled(y, 2.0) + x

    return outer(x) + outer(scaled(x, 3.0))


@cases.add([N], *SOME, eager=False)
def only_the_size_of_a_result_is_used(x):
    return repeated(x, 2)[0].shape[0]


@cases.add([N], *SOME, eager=False)
def numbers_stay_weak(x):
    return x * scaled(2.0, 3.0), pnp.ones(2, dtype="int8") * scaled(2, 3)


@cases.add([N], *SOME, eager=False)
def arguments_by_name_and_in_trees(x):
    @plica.jit
    def function(tree, *, other):
        return [tree["a"] + other["b"], None, (tree["a"], 1.5)]

    return function({"a": x}, other={"b": x * 2})


def test_the_text() -> None:
    program = trace(lambda x: scaled(x, x) + scaled(x, 2.0), N)
    assert str(program) == (
        "{ lambda ; {n:i64[]} x:f32[n] . let\n"
        "    a:f32[n] = call[program={ lambda ; {n:i64[]} x:f32[n] factor:f32[n] . let\n"
        "          a:f32[n] = multiply x factor\n"
        "        in (a,) } body_nconsts=0 num_implicit_inputs=1 num_implicit_outputs=0 name='scaled'] n x x\n"
        "    b:f32[n] = call[program={ lambda ; {n:i64[]} x:f32[n] factor:f64[] . let\n"
        "          a:f32[] = astype[dtype=f32] factor\n"
        "          b:f32[n] = multiply x a\n"
        "        in (b,) } body_nconsts=0 num_implicit_inputs=1 num_implicit_outputs=0 name='scaled'] n x 2.0:f64[]\n"
        "    c:f32[n] = add a b\n"
        "  in (c,) }"
    )


def test_a_call_that_is_recorded_is_no_compilation() -> None:
    inner = plica.jit(lambda x: x * 2)
    outer = plica.jit(lambda x: inner(x) + inner(x[0]), abstracted_axes={0: "n"})
    for size in (3, 4):
        assert outer(torch.ones(size)).tolist() == [4.0] * size
    assert (inner.num_compilations, outer.num_compilations) == (0, 1)
    assert inner(torch.ones(1)).tolist() == [2.0]
    assert inner.num_compilations == 1


def test_annotations_of_the_callee_hold_within() -> None:
    @plica.jit
    def callee(n: int, x: spec(("n",))):
        return x * n

    (found,) = interpret(trace(lambda x: callee(2, x), N), ramp(3))
    assert found.tolist() == (ramp(3) * 2).tolist()


def test_static_arguments_of_the_callee_stay_python_values() -> None:
    callee = plica.jit(lambda x, mode: x + 1 if mode == "up" else x - 1, static_argnums=1)
    program = checked(lambda x: (callee(x, "up"), callee(x, "down")), [N], (ramp(3),), eager=False)
    assert str(program).count("= call[") == 2


def test_misuse_of_arguments_names_the_callee() -> None:
    with pytest.raises(TraceError, match=r"test_calls.py:\d+: scaled needs an array, found str 'a'"):
        trace(lambda x: scaled(x, "a"), N)
    with pytest.raises(TraceError, match=r"test_calls.py:\d+: scaled\(x, factor\): missing a required argument"):
        trace(lambda x: scaled(x), N)


def test_recursion_ends_with_pythons_error() -> None:
    @plica.jit
    def endless(x):
        return endless(x) + 1

    with pytest.raises(RecursionError):
        trace(endless, N)


# Circuits


@pytest.fixture
def circuit() -> Any:
    torch.manual_seed(0)
    shape: Any = (1, 3, 3)
    symbolic = image_data(shape, input_layer="categorical", num_input_units=2, sum_product_layer="cp", num_sum_units=2)
    return TorchCompiler().compile(symbolic)


X, Y = torch.arange(45).reshape(5, 9), torch.arange(27).reshape(3, 9) * 7


def _mixture(circuit: Any) -> Any:
    def function(x, y):
        a, b = circuit(x), circuit(y)

        @plica.for_loop(0, 2)
        def loop(i, total):
            return plica.cond(
                i == 0,
                lambda: total + pnp.sum(circuit(x)),
                lambda: total * 2 + pnp.sum(circuit(y)) + pnp.sum(a),
            )

        return pnp.sum(a) * pnp.sum(b) + loop(pnp.sum(b))

    return function


def _plain(circuit: Any, x: Any, y: Any) -> Any:
    a, b = circuit(x).sum(), circuit(y).sum()
    return a * b + (b + a) * 2 + b + a


def test_circuits_are_called_at_several_sizes(circuit) -> None:
    compiled = plica.jit(_mixture(circuit), abstracted_axes=({0: "n"}, {0: "m"}))
    for x, y in ((X, Y), (Y, X), (X[:0], Y), (X, X)):
        torch.testing.assert_close(compiled(x, y), _plain(circuit, x, y))
    assert compiled.num_compilations == 1


def test_their_parameters_are_captured_by_name_and_reference(circuit) -> None:
    compiled = plica.jit(_mixture(circuit), abstracted_axes=({0: "n"}, {0: "m"}))
    compiled(X, Y)
    program = compiled.program
    verify(program)
    assert parse(str(program)) == program
    names = [name.removeprefix("leaves.") for name, _ in circuit.named_parameters()]
    assert set(names) <= {var.name for var in program.consts}, "each is captured once, under its name"
    with torch.no_grad():
        for tensor in circuit.parameters():
            tensor.mul_(0.5)
    torch.testing.assert_close(compiled(X, Y), _plain(circuit, X, Y))
    assert compiled.num_compilations == 1


def test_gradients_reach_their_parameters(circuit) -> None:
    tensors = list(circuit.parameters())
    found = torch.autograd.grad(plica.jit(_mixture(circuit))(X, Y), tensors)
    expected = torch.autograd.grad(_plain(circuit, X, Y), tensors)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_the_interpreter_runs_them(circuit) -> None:
    function = plica.jit(_mixture(circuit), backend="interpreter")
    torch.testing.assert_close(function(X, Y), _plain(circuit, X, Y).detach())


def test_a_width_that_does_not_fit_is_refused(circuit) -> None:
    with pytest.raises(PlicaError, match="9"):
        trace(lambda x: circuit(x), spec(("n", 8), "int64"))


def test_numpy_arrays_give_numpy_results(circuit) -> None:
    found = plica.jit(lambda x: circuit(x), abstracted_axes={0: "n"})(X.numpy())
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, circuit(X).detach().numpy())


def test_a_size_that_is_an_argument_equals_that_of_what_a_function_closes_over() -> None:
    def function(x, y, k):
        @plica.jit
        def outer(y, k):
            @plica.jit
            def inner(y, size):
                def body(_, _first, second):
                    one = pnp.concat([second, pnp.ones(x.shape, dtype="int64")])
                    return one, pnp.concat([second, pnp.ones((size,), dtype="int64")])

                return plica.for_loop(0, 2, 1, body, k, k), y

            return inner(y, x.shape[0])

        return outer(y, k)

    specs = plica.spec(("n",), "float64"), plica.spec(("m",), "float32"), plica.spec(("n",), "int64")
    program = plica.trace(function, *specs)
    plica.verify(program)
    for n, m in ((2, 3), (0, 1), (3, 0)):
        first, second, y = plica.interpret(program, np.ones(n), np.ones(m, "float32"), np.arange(n))
        assert first.tolist() == second.tolist() == [*range(n), *[1] * (2 * n)]
        assert y.tolist() == [1] * m
