"""Emission: what generated functions look like, what they return, and what they leave behind."""

import traceback
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.api import interpret, parse
from plica.backend.torch.emit import emit, source
from plica.errors import UnsupportedError
from plica.ir.program import Equation, OpRef, Program
from tests.harness.programs import assert_same, run_torch, to_torch

X = np.arange(6, dtype="float32").reshape(2, 3)


def _agrees(program: Program, *arrays: np.ndarray) -> None:
    expected = interpret(program, *arrays)
    found = run_torch(program, *map(to_torch, arrays))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)


def test_golden_text() -> None:
    program = parse(
        """{ lambda w:f32[3] ; {n:i64[]} x:f32[n,3] . let
        a:f32[n,3] = multiply x w
        b:f32[3,n] = permute_dims[axes=(1,0)] a
        c:f32[2*n+1] = full[shape=(2*n+1,)] 0.5:f32[]
      in (b, c) }"""
    )
    assert source(program, "run") == (
        "def run(leaves, x):\n"
        "    device = leaves.device\n"
        "    n = x.shape[0]\n"
        "    w = leaves.w\n"
        "    a = x * w\n"
        "    del w\n"
        "    b = a.permute((1, 0))\n"
        "    del a\n"
        "    c = torch.full((1 + n*2,), 0.5, dtype=torch.float32, device=device)\n"
        "    return (b, c)\n"
    )


RESULTS = (
    "{ lambda ; x:f32[2,3] . let in (x,) }",
    "{ lambda ; x:f32[2,3] . let in (x, x) }",
    "{ lambda ; x:f32[2,3] . let in () }",
    "{ lambda ; x:f32[2,3] . let in (1.5:f64[], True:bool[], nan:f32[]) }",
    "{ lambda ; {n:i64[]} {m:i64[]} x:f32[n,m] . let a:i64[] = multiply n m in (a, n) }",
    "{ lambda ; {n:i64[]} {m:i64[]} x:f32[n,m] . let a:i64[] = subtract 3:i64[] n in (a,) }",
    "{ lambda ; x:f32[2,3] . let a:f64[] = add 1.5:f64[] -0.5:f64[] b:bool[] = less 1:i64[] 2:i64[] in (a, b) }",
    "{ lambda ; x:f32[2,3] . let a:f64[2] = stack[axis=0] 1.0:f64[] inf:f64[] in (a,) }",
    "{ lambda ; x:f32[2,3] . let a:f32[2,3] = where True:bool[] x 0.0:f32[] in (a,) }",
    "{ lambda ; x:f32[2,3] . let a:f32[2,3] = subtract 2.0:f32[] x b:f32[2,3] = maximum -inf:f32[] a in (b,) }",
    "{ lambda ; {n:i64[]} {m:i64[]} x:f32[n,m] . let "
    "a:i64[min(n,m)+n^2] = full[shape=(min(n,m)+n^2,)] 1:i64[] in (a,) }",
    "{ lambda ; {n:i64[]} {m:i64[]} x:f32[n,m] . let a:i64[max(n,m)-n] = arange[size=max(n,m)-n dtype=i64] in (a,) }",
    "{ lambda ; {n:i64[]} {m:i64[]} x:f32[n,m] . let "
    "a:i64[floordiv(m,n)] = arange[size=floordiv(m,n) dtype=i64] in (a,) }",
    "{ lambda ; {n:i64[]} {m:i64[]} x:f32[n,m] . let a:i64[mod(m,n)] = arange[size=mod(m,n) dtype=i64] in (a,) }",
)


@pytest.mark.parametrize("text", RESULTS)
def test_results_are_tensors_of_the_declared_types(text: str) -> None:
    _agrees(parse(text), X)


def test_names_may_be_words_of_python_or_of_the_generated_code() -> None:
    names = ("while", "torch", "kernels", "leaves", "device", "min", "max", "for", "min_", "del")
    for name in names:
        other = f"{name}_"
        program = parse(
            f"{{ lambda ; {{{name}:i64[]}} {other}:f32[{name},3] . let "
            f"{name}__:f32[{name}] = sum[axis=(1,) keepdims=False] {other} "
            f"b:f32[2*{name}] = full[shape=(2*{name},)] 1.0:f32[] in ({name}__, b) }}"
        )
        _agrees(program, X)


def test_leaves_keep_their_names() -> None:
    program = parse("{ lambda min:f32[3] ; x:f32[2,3] . let a:f32[2,3] = add x min in (a, min) }")
    leaves = SimpleNamespace(min=torch.ones(3), device=torch.device("cpu"))
    added, leaf = emit(program)(leaves, to_torch(X))
    assert_same(added, X + 1)
    assert leaf is leaves.min


def test_arguments_stay_as_they_are() -> None:
    def every(x):
        return (
            pnp.logsumexp(x, axis=1),
            pnp.log_matmul_exp(x, pnp.ones((2, 3), dtype="float32")),
            pnp.logaddexp(x, x, x),
        )

    x = torch.full((2, 3), -torch.inf, requires_grad=True)
    results = run_torch(plica.trace(every, plica.spec(("n", 3))), x)
    assert torch.equal(x, torch.full((2, 3), -torch.inf))
    (gradient,) = torch.autograd.grad(sum(result.sum() for result in results), x)
    assert torch.equal(gradient, torch.zeros(2, 3))


def test_values_are_deleted_after_their_last_use() -> None:
    program = plica.trace(lambda x: pnp.exp(pnp.exp(pnp.exp(x))), plica.spec((2,)))
    assert [line.strip() for line in source(program).splitlines() if "del" in line] == ["del a", "del b"]


def test_tracebacks_show_the_generated_line() -> None:
    program = plica.trace(lambda x: pnp.matmul(x, x), plica.spec((2, 2)))
    with pytest.raises(RuntimeError) as caught:
        run_torch(program, torch.zeros(2, 3))
    text = "".join(traceback.format_exception(caught.value))
    assert "torch.matmul(x, x)" in text
    assert "<plica forward" in text


def test_an_operation_without_a_row_is_refused_by_name() -> None:
    program = plica.trace(lambda x: pnp.exp(x), plica.spec((2,)))
    (equation,) = program.equations
    strange = Equation(OpRef("frobnicate"), equation.inputs, equation.outputs)
    with pytest.raises(UnsupportedError, match="no row for the operation 'frobnicate'"):
        emit(Program((), program.inputs, (strange,), program.outputs))


GRADIENTS = (
    # at a probability of zero: forward -inf, backward 0 through the zero and the usual elsewhere
    (lambda x: pnp.safe_log(x), [0.0, 0.5], [0.0, 2.0]),
    (lambda x: pnp.logsumexp(x, axis=0), [-np.inf, 0.0], [0.0, 1.0]),
    (lambda x: pnp.logsumexp(x, axis=0), [-np.inf, -np.inf], [0.0, 0.0]),
    (lambda x: pnp.logaddexp(x, x), [-np.inf, 3.0], [0.0, 1.0]),
    (lambda x: pnp.log_matmul_exp(x[None, :], pnp.ones((1, 2))), [-np.inf, -np.inf], [0.0, 0.0]),
    (lambda x: pnp.log_matmul_exp(x[None, :], pnp.ones((1, 2))), [-np.inf, -1e4], [0.0, 1.0]),
    (lambda x: pnp.sigmoid(x), [-1e4, 1e4], [0.0, 0.0]),
    (lambda x: pnp.softplus(x), [-1e4, 1e4], [0.0, 1.0]),
    (lambda x: pnp.log_softmax(x, axis=0)[0], [1e4, -1e4], [0.0, 0.0]),
)


@pytest.mark.parametrize(("function", "at", "expected"), GRADIENTS)
def test_gradients_at_the_edges_are_finite(function, at, expected) -> None:
    x = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    (result,) = run_torch(plica.trace(function, plica.spec((2,), "float64")), x)
    (gradient,) = torch.autograd.grad(result, x, torch.ones_like(result))
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-12)
