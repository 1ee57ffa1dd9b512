"""Tracing: what is recorded, under which names and types, and what cannot be recorded."""
# ruff: noqa: ARG005 - the tables hold functions of a given number of arguments

import inspect
import operator
import re

import numpy as np
import pytest
import torch

import plica.numpy as pnp
from plica.api import interpret, trace, verify
from plica.errors import DTypeError, ShapeError, TraceError
from plica.ir.types import spec
from plica.tracing.tracer import Tracer

F32, F64, I32, BOOL = (spec((2, 3), name) for name in ("float32", "float64", "int32", "bool"))


def _lines(function, *specs) -> list[str]:
    program = trace(function, *specs)
    verify(program)
    return [line.strip() for line in str(program).splitlines()[1:-1]]


RECORDED = (
    # a scalar takes the type of the array that it meets, unless its kind is higher
    (lambda x: x + 1, (F32,), ["a:f32[2,3] = add x 1.0:f32[]"]),
    (lambda x: 2.5 - x, (F32,), ["a:f32[2,3] = subtract 2.5:f32[] x"]),
    (lambda x: x * True, (I32,), ["a:i32[2,3] = multiply x 1:i32[]"]),
    (lambda x: x + 0.5, (I32,), ["a:f64[2,3] = astype[dtype=f64] x", "b:f64[2,3] = add a 0.5:f64[]"]),
    (lambda x: x + 1, (BOOL,), ["a:i64[2,3] = astype[dtype=i64] x", "b:i64[2,3] = add a 1:i64[]"]),
    (lambda x: x * 1j, (F32,), ["a:c64[2,3] = astype[dtype=c64] x", "b:c64[2,3] = multiply a 1j:c64[]"]),
    (lambda x: x + np.float64(2), (F32,), ["a:f32[2,3] = add x 2.0:f32[]"]),
    # arrays are promoted
    (lambda x, y: x * y, (F32, I32), ["a:f32[2,3] = astype[dtype=f32] y", "b:f32[2,3] = multiply x a"]),
    (lambda x, y: x + y, (F32, F64), ["a:f64[2,3] = astype[dtype=f64] x", "b:f64[2,3] = add a y"]),
    (
        lambda x, y: pnp.where(x > 0, x, y),
        (F32, F64),
        ["a:bool[2,3] = greater x 0.0:f32[]", "b:f64[2,3] = astype[dtype=f64] x", "c:f64[2,3] = where a b y"],
    ),
    # what changes nothing is not recorded
    (lambda x: pnp.reshape(pnp.broadcast_to(pnp.astype(+x[:, ...], "float32"), (2, 3)), (2, -1)), (F32,), []),
    # indexing
    (
        lambda x: x[-1],
        (F32,),
        ["a:f32[1,3] = slice[axis=0 start=1 stop=2 step=1] x", "b:f32[3] = squeeze[axis=(0,)] a"],
    ),
    (
        lambda x: x[..., None, ::2],
        (F32,),
        ["a:f32[2,2] = slice[axis=1 start=0 stop=3 step=2] x", "b:f32[2,1,2] = expand_dims[axis=1] a"],
    ),
    (lambda x: x[:, 5:2], (F32,), ["a:f32[2,0] = slice[axis=1 start=3 stop=3 step=1] x"]),
    (lambda x: x.T, (F32,), ["a:f32[3,2] = permute_dims[axes=(1,0)] x"]),
    (lambda x: x.mT, (F32,), ["a:f32[3,2] = permute_dims[axes=(1,0)] x"]),
    # negative axes are counted from the front
    (lambda x: pnp.sum(x, axis=(-1, 0), keepdims=True), (F32,), ["a:f32[1,1] = sum[axis=(0,1) keepdims=True] x"]),
    (lambda x: pnp.sum(x, axis=np.int64(1)), (F32,), ["a:f32[2] = sum[axis=(1,) keepdims=False] x"]),
    (lambda x: pnp.reshape(x, (np.int64(3), 2)), (F32,), ["a:f32[3,2] = reshape[shape=(3,2)] x"]),
    # sizes
    (lambda x: pnp.reshape(x, (-1,)), (spec(("n", "m")),), ["a:f32[m*n] = reshape[shape=(m*n,)] x"]),
    (lambda x: pnp.zeros(x.shape[0] + 1), (spec("n"),), ["a:f64[n+1] = full[shape=(n+1,)] 0.0:f64[]"]),
    (
        lambda x: pnp.concat([x, x], axis=None),
        (spec(("n", 2)),),
        [
            "a:f32[2*n] = reshape[shape=(2*n,)] x",
            "b:f32[2*n] = reshape[shape=(2*n,)] x",
            "c:f32[4*n] = concat[axis=0] a b",
        ],
    ),
    (
        lambda x: pnp.arange(2, x.shape[0], 3),
        (spec("n"),),
        [
            "a:i64[-floordiv(-n+2,3)] = arange[size=-floordiv(-n+2,3) dtype=i64]",
            "b:i64[-floordiv(-n+2,3)] = multiply a 3:i64[]",
            "c:i64[-floordiv(-n+2,3)] = add b 2:i64[]",
        ],
    ),
    (lambda x: pnp.arange(5, 2), (F32,), ["a:i64[0] = arange[size=0 dtype=i64]", "b:i64[0] = add a 5:i64[]"]),
)


@pytest.mark.parametrize(("function", "specs", "lines"), RECORDED, ids=lambda value: "")
def test_what_is_recorded(function, specs, lines) -> None:
    assert _lines(function, *specs) == lines


def test_names_of_arguments_are_kept() -> None:
    program = trace(lambda weight, torch, inf, a: weight + torch + inf + a, *[spec(())] * 4)
    assert [var.name for var in program.arguments] == ["weight", "torch", "inf_1", "a"]
    many = trace(lambda x, *xs: xs[0] + x, spec("x"), spec("x"))
    assert [var.name for var in many.inputs] == ["x", "x_1", "a"]


def test_results_may_be_several_none_or_scalars() -> None:
    assert str(trace(lambda x: (x, [x][0], 2, True), F32)).endswith("in (x, x, 2:i64[], True:bool[]) }")
    assert str(trace(lambda x: [], F32)).endswith("in () }")
    assert str(trace(lambda: pnp.ones(2))).startswith("{ lambda ; . let")


OPERATORS = (
    *((name, F64) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")),
    *((name, F64) for name in ("lt", "le", "gt", "ge", "eq", "ne")),
    *((name, I32) for name in ("and_", "or_", "xor", "add", "floordiv", "mod")),
    *((name, BOOL) for name in ("and_", "or_", "xor")),
)


@pytest.mark.parametrize(("name", "one"), OPERATORS, ids=lambda value: getattr(value, "dtype", value))
def test_operators_are_numpys(name: str, one) -> None:
    function = getattr(operator, name)
    x = (np.arange(6).reshape(2, 3) % 5 + 1).astype(one.dtype.value)
    y = np.flip(x).copy()
    scalar = {"bool": True, "int": 3, "float": 2.5}[one.dtype.kind]
    for call in (
        function,
        lambda a, b: function(b, a),
        lambda a, _: function(a, scalar),
        lambda a, _: function(scalar, a),
    ):
        (found,) = interpret(trace(call, one, one), x, y)
        expected = call(x, y)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-15)


@pytest.mark.parametrize("name", ["neg", "abs", "pos", "invert"])
def test_unary_operators_are_numpys(name: str) -> None:
    function = getattr(operator, name)
    x = np.asarray([[1, -2, 3], [0, 5, -6]], "int32")
    assert interpret(trace(function, I32), x)[0].tolist() == function(x).tolist()


def test_matrix_products() -> None:
    x = np.arange(6.0).reshape(2, 3)
    (found,) = interpret(trace(lambda a: a @ a.T, F64), x)
    assert found.tolist() == (x @ x.T).tolist()


def test_attributes_of_the_standard() -> None:
    def look(x):
        assert (x.ndim, x.shape, str(x.dtype), x.size) == (2, (2, 3), "float32", 6)
        assert x.__array_namespace__() is x.__array_namespace__("2024.12")
        assert repr(x) == "Tracer(x:f32[2,3])"
        assert hash(x) == hash(x)
        assert [row.shape for row in x] == [(3,), (3,)]
        return x

    trace(look, F32)


def _here(code: str) -> str:
    """A pattern of the line of this file that holds `code`."""
    lines = inspect.getsource(inspect.getmodule(_here)).splitlines()
    (number,) = [index for index, line in enumerate(lines, 1) if line.strip().startswith(code) and "_here" not in line]
    return rf"{re.escape(__file__)}:{number}\b"


def _branch(x):
    if x[0, 0] > 0:
        return x
    return -x


def _loop(x):
    while x[0, 1] > 0:
        x = x - 1
    return x


def _number(x):
    return x * float(x[1, 0])


def _whole(x):
    return x * int(x[1, 1])


def _index(x):
    return [1, 2, 3][x[1, 2]]


def _iterate(x):
    return list(pnp.sum(x))


def _iterate_unknown(x):
    return list(pnp.reshape(x, -1))


def _numpy(x):
    return np.exp(x + 17)


UNKNOWN = (
    (_branch, F32, "if x[0, 0]", "truth decides which Python code runs.*Use plica.numpy.where"),
    (_loop, F32, "while x[0, 1]", "truth decides"),
    (_number, F32, "return x * float(x[1, 0])", "a Python float was asked for"),
    (_whole, F32, "return x * int(x[1, 1])", "a Python integer was asked for"),
    (_index, I32, "return [1, 2, 3][x[1, 2]]", "a Python index was asked for.*plica.numpy.take"),
    (_iterate, F32, "return list(pnp.sum(x))", "Python iterates over it"),
    (_iterate_unknown, spec(("n", 2)), "return list(pnp.reshape(x, -1))", "Python iterates over it"),
    (_numpy, F32, "return np.exp(x + 17)", "numpy asked for its elements.*plica.numpy in place of numpy's"),
)


@pytest.mark.parametrize(
    ("function", "one", "code", "message"), UNKNOWN, ids=lambda value: getattr(value, "__name__", "")
)
def test_values_that_are_not_known_are_refused_with_the_users_line(function, one, code, message) -> None:
    with pytest.raises(TraceError, match=_here(code)) as caught:
        trace(function, one)
    assert re.search(message, str(caught.value))
    assert "is not known while the function is traced" in str(caught.value)


FOREIGN = (
    (lambda x: x + np.ones(3), "add was given ndarray beside a tracer; pass arrays as arguments"),
    (lambda x: np.ones(3) + x, "add was given ndarray"),
    (lambda x: torch.ones(3) * x, "multiply was given Tensor"),
    (lambda x: x + "a", "add was given str"),
    (lambda x: pnp.add(x, [1, 2, 3]), "add was given list"),
    (lambda x: pnp.where(x > 0, x, np.ones(3)), "where was given ndarray"),
    (lambda x: pnp.where(np.ones(3) > 0, x, x), "where was given ndarray"),
    (lambda x: pnp.concat([x, np.ones((2, 3))]), "concat was given ndarray"),
    (lambda x: pnp.einsum("ab,b->a", x, np.ones(3)), "einsum was given ndarray"),
    (lambda x: pnp.sum(2.5), "sum needs an array, found float 2.5"),
    (lambda x: {"a": x}, "returns arrays or a tuple of them, found dict"),
    (lambda x: None, "returns arrays or a tuple of them, found NoneType"),
    (lambda x: np.ones(3), "returns arrays or a tuple of them, found ndarray"),
)


@pytest.mark.parametrize(("function", "message"), FOREIGN, ids=[row[1] for row in FOREIGN])
def test_foreign_things_are_refused(function, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        trace(function, F32)


def test_arrays_of_another_trace_are_refused() -> None:
    kept: list[Tracer] = []
    trace(lambda x: kept.append(x) or x, F32)
    for use in (
        lambda y: y + kept[0],
        lambda y: kept[0] + y,
        lambda y: kept[0],
        lambda y: pnp.where(y > 0, y, kept[0]),
    ):
        with pytest.raises(TraceError, match="belongs to another traced function"):
            trace(use, F32)


@pytest.mark.parametrize(
    ("function", "count", "message"),
    [
        (lambda x: x, 2, r"takes 1 argument\(s\), but 2 spec\(s\) were given"),
        (lambda x, y: x, 1, r"takes 2 argument\(s\), but 1 spec\(s\) were given"),
        (lambda x, *ys: x, 0, "0 spec"),
    ],
)
def test_a_wrong_number_of_specs(function, count: int, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        trace(function, *[F32] * count)


def test_defaults_need_no_spec() -> None:
    assert len(trace(lambda x, scale=2.0: x * scale, F32).arguments) == 1


INDICES = (
    (lambda x: x[2], ShapeError, "index 2 does not lie within axis 0"),
    (lambda x: x[0, 0, 0], ShapeError, "indexes 3 axes, but"),
    (lambda x: x[1.5], TraceError, "1.5 is no index"),
    (lambda x: pnp.reshape(x, (2.5, 2)), ShapeError, "something else than integers"),
    (lambda x: pnp.arange(0.0, 1.0, 0.25), ShapeError, "something else than integers"),
    (lambda x: pnp.reshape(x, (-1, -1)), ShapeError, "cannot become"),
    (lambda x: pnp.sum(x, axis=2), ShapeError, "axis 2 does not exist"),
    (lambda x: x | x, DTypeError, "found float32, expected bool or int"),
)


@pytest.mark.parametrize(("function", "error", "message"), INDICES)
def test_misuse(function, error, message: str) -> None:
    with pytest.raises(error, match=message):
        trace(function, F32)


def test_sizes_that_may_differ_do_not_meet() -> None:
    with pytest.raises(ShapeError, match=r"meet only if n = m, which is not known.*the same name of a size"):
        trace(lambda x, y: x + y, spec("n"), spec("m"))
    with pytest.raises(ShapeError, match=r"do not broadcast: n meets n\+1"):
        trace(lambda x: x + pnp.zeros(x.shape[0] + 1), spec("n"))


def test_equations_carry_the_users_line() -> None:
    program = trace(lambda x: pnp.std(x), F32)
    assert {one.source for one in program.equations} == {f"{__file__}:{inspect.currentframe().f_lineno - 1}"}


def test_errors_carry_the_operation_and_the_users_line() -> None:
    with pytest.raises(ShapeError, match=rf"^matmul\(f32\[2,3\], f32\[2,3\]\) \({re.escape(__file__)}:\d+\): "):
        trace(lambda x: x @ x, F32)
