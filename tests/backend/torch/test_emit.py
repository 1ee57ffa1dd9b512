"""Emission: what generated functions look like, what they return, and what they leave behind."""

import inspect
import linecache
import traceback
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.backend.torch.emit import emit, source
from plica.errors import UnsupportedError
from plica.frontend.programs import interpret, parse
from plica.ir.program import Equation, OpRef, Program
from plica.passes.clean import clean
from tests.harness.programs import assert_same, run_torch, to_torch

X = np.arange(6, dtype="float32").reshape(2, 3)
PARTS = (0.0, -0.0, 1.5, -np.inf, np.nan)


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
    assert leaf.tolist() == leaves.min.tolist()
    assert emit(program, shares=True)(leaves, to_torch(X))[1] is leaves.min


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
    (gradient,) = torch.autograd.grad([result.sum() for result in results], x)
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


def test_lines_for_tracebacks_go_with_their_function() -> None:
    function = emit(plica.trace(pnp.exp, plica.spec((2,))))
    name = function.__code__.co_filename
    assert any("torch.exp(x)" in line for line in linecache.getlines(name))
    del function
    assert name not in linecache.cache


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


# Control flow: the code, without the comments that say where it comes from

N = plica.spec("n")


def _code(function, *specs) -> str:
    lines = source(plica.trace(function, *specs), "run").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


CODE = {
    "a for is a for": (
        lambda x: plica.for_loop(0, 3, 1, lambda i, a: a * 2 + i, x),
        (N,),
        """
def run(leaves, x):
    n = x.shape[0]
    b = x
    for i in range(3):
        b_1 = b * 2.0
        c = float(i)
        d = b_1 + c
        del b_1, c
        b = d
    return b""",
    ),
    "arguments that change places": (
        lambda x, k: plica.for_loop(k, 0, -1, lambda i, a, b: (b, a), x, x),  # noqa: ARG005
        (N, int),
        """
def run(leaves, x, k):
    n = x.shape[0]
    k = int(k)
    d = x.clone()
    e = x.clone()
    b = d
    c = e
    for i in range(k, 0, -1):
        b, c = c, b
    del d, e
    return (b, c)""",
    ),
    "a step that may be zero": (
        lambda k: plica.for_loop(0, 5, k, lambda i, a: a + i, 0.5),
        (int,),
        """
def run(leaves, k):
    device = leaves.device
    k = int(k)
    a = torch.full((), 0.5, dtype=torch.float64, device=device)
    for i in kernels.steps(0, 5, k):
        b = float(i)
        c = a + b
        del b
        a = c
    return a""",
    ),
    "counting makes no tensor": (
        lambda x: plica.while_loop(lambda a, _: a < x.shape[0], lambda a, b: (a + b, b * 2), 0, 1)[0],
        (N,),
        """
def run(leaves, x):
    device = leaves.device
    n = x.shape[0]
    a = 0
    b = 1
    while True:
        b_1 = a < n
        if not b_1:
            break
        c = a + b
        d = kernels.wrap(b * 2)
        a, b = kernels.wrap(c), kernels.wrap(d)
    return torch.full((), a, dtype=torch.int64, device=device)""",
    ),
    "sizes that change are read off": (
        lambda x: plica.while_loop(lambda a: a.shape[0] < 9, lambda a: pnp.concat([a, a]), x),
        (N,),
        """
def run(leaves, x):
    n = x.shape[0]
    c = x.clone()
    b = c
    while True:
        n_1 = b.shape[0]
        b_1 = n_1 < 9
        if not b_1:
            break
        n_1 = b.shape[0]
        b_2 = torch.cat((b, b,), 0)
        b = b_2
    del c
    return b""",
    ),
    "an if is an if": (
        lambda x, p, q: plica.cond(p)(lambda: x * 2).else_if(q)(lambda: x).otherwise(lambda: x + 1)(),
        (N, bool, bool),
        """
def run(leaves, x, p, q):
    n = x.shape[0]
    if p:
        a_1 = x * 2.0
        a = a_1
    elif q:
        a_2 = x.clone()
        a = a_2
    else:
        a_3 = x + 1.0
        a = a_3
    return a""",
    ),
    "scan makes lists": (
        lambda x: plica.scan(lambda c, r: (c + r, c * r), 0.0, x),
        (N,),
        """
def run(leaves, x):
    device = leaves.device
    n = x.shape[0]
    a = torch.full((), 0.0, dtype=torch.float32, device=device)
    b = []
    for r in x.unbind(0):
        a_1 = a + r
        b_1 = a * r
        b.append(b_1)
        a = a_1
    b = torch.stack(b) if b else torch.empty((n,), dtype=torch.float32, device=device)
    return (a, b)""",
    ),
    "a stack that nothing reads is not kept": (
        lambda x: plica.scan(lambda c, r: (c + r, c * r), 0.0, x, reverse=True)[0],
        (N,),
        """
def run(leaves, x):
    device = leaves.device
    n = x.shape[0]
    a = torch.full((), 0.0, dtype=torch.float32, device=device)
    for r in x.unbind(0)[::-1]:
        a_1 = a + r
        b_1 = a * r
        a = a_1
    return a""",
    ),
    "a call is written out": (
        lambda x: plica.jit(lambda y: y * y)(x + 1),
        (N,),
        """
def run(leaves, x):
    n = x.shape[0]
    a = x + 1.0
    y = a
    a_1 = y * y
    b = a_1
    del a
    return b""",
    ),
    "sizes that meet are compared": (
        lambda x, y: x + y,
        (N, plica.spec("m")),
        """
def run(leaves, x, y):
    n = x.shape[0]
    m = y.shape[0]
    a = kernels.assert_shape(y, (n,), PLACE)
    b = x + a
    del a
    return b""",
    ),
    "sizes are Python numbers": (
        lambda x: pnp.ones([x.shape[0] + 1]) * x.shape[0],
        (N,),
        """
def run(leaves, x):
    device = leaves.device
    n = x.shape[0]
    a = torch.full((1 + n,), 1.0, dtype=torch.float64, device=device)
    b = float(n)
    c = a * b
    del a, b
    return c""",
    ),
}


@pytest.mark.parametrize(("function", "specs", "text"), CODE.values(), ids=CODE)
def test_code_of_control_flow(function, specs, text: str) -> None:
    place = f"{__file__}:"
    lines = [line.split(repr(place)[:-1])[0] for line in _code(function, *specs).splitlines()]
    expected = [line.split("PLACE")[0] for line in text.strip().splitlines()]
    assert lines == expected


def test_comments_say_where_the_code_comes_from() -> None:
    text = source(plica.trace(lambda x: pnp.exp(x), N))
    assert f"    # {__file__}:{inspect.currentframe().f_lineno - 1}\n    a = torch.exp(x)\n" in text


NAMES = ("for_", "torch", "kernels", "leaves", "device", "range", "zip", "reversed", "min", "int", "float", "_")


def test_values_of_loops_may_be_called_like_pythons_words() -> None:
    scope: dict = {"plica": plica, "pnp": pnp}
    arguments = ", ".join(NAMES)
    exec(
        f"def function({arguments}):\n"
        f"    def body(i, while_, torch):\n        return torch + {' + '.join(NAMES)}, while_ * i\n"
        f"    return plica.for_loop(0, 3, 1, body, range, zip)\n",
        scope,
    )
    program = plica.trace(scope["function"], *[plica.spec((2,))] * len(NAMES))
    _agrees(program, *(X[0, :2] + place for place in range(len(NAMES))))


def test_nothing_is_deleted_that_an_outer_scope_reads() -> None:
    def function(x, y):
        z = pnp.exp(x)
        w = z * y

        @plica.for_loop(0, 3)
        def outer(i, a):
            b = a + w

            @plica.for_loop(0, i + 1)
            def inner(j, c):
                return plica.cond(j > 0, lambda: c * b + z, lambda: c + a * w + z)

            return inner(b) + b + z

        return outer(z), w

    one = plica.spec(("n",), "float64")
    program = plica.trace(function, one, one)
    for size in (3, 0):
        _agrees(program, np.linspace(-1, 1, size), np.linspace(0, 2, size))


def test_arguments_that_loops_update_stay_as_they_are() -> None:
    function = plica.jit(lambda x: plica.for_loop(0, 3, 1, lambda i, a: pnp.at(a)[i].set(a[i] * 2 + 1), x))
    x = torch.arange(3.0)
    assert function(x).tolist() == [1.0, 3.0, 5.0]
    assert x.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("value", [complex(real, imag) for real, imag in product(PARTS, PARTS)], ids=repr)
def test_complex_constants_keep_their_parts(value: complex) -> None:
    """Not compared as numbers: the signs of zeros count, and infinity and NaN are parts like others."""

    def constant(x):
        @plica.for_loop(0, 2)
        def carried(_i, y):
            return pnp.where(y == y, value, value)

        @plica.cond(pnp.sum(x) > 0)
        def chosen():
            return pnp.full((2,), value)

        @chosen.otherwise
        def chosen():
            return pnp.full((2,), value, dtype="complex128")

        found = pnp.where(x > 0, value, pnp.asarray(value)), carried(pnp.astype(x, "complex128")), chosen()
        return *found, pnp.stack([pnp.asarray(value)] * 2), pnp.full((x.shape[0],), value)

    def parts(one) -> list[str]:
        return [repr(complex(entry)) for entry in np.asarray(one)]

    arguments = np.asarray([1.0, -1.0]), np.asarray([-1.0, 0.5])
    program = plica.trace(constant, plica.spec("n", "float64"))
    assert parse(str(program)) == program
    for x in arguments:
        for results in (interpret(program, x), run_torch(program, to_torch(x)), plica.jit(constant)(to_torch(x))):
            assert [parts(one) for one in results] == [[repr(value)] * 2] * 5
        for library in (np.asarray, to_torch):
            assert parts(pnp.where(library(x > 0), value, value)) == [repr(value)] * 2
            assert parts(pnp.full((2,), value)) == [repr(value)] * 2


@pytest.mark.parametrize("zero", [complex(real, imag) for real, imag in product((0.0, -0.0), repeat=2)], ids=repr)
def test_complex_zeros_are_cleaned_away_only_where_they_change_no_sign(zero: complex) -> None:
    entries = np.asarray([complex(real, imag) for real, imag in product((0.0, -0.0, 1.0), repeat=2)])
    program = plica.trace(lambda x: (x + zero, x - zero, zero + x), plica.spec("n", "complex128"))
    for one, other in zip(interpret(clean(program), entries), interpret(program, entries), strict=True):
        assert list(map(repr, one)) == list(map(repr, other))
