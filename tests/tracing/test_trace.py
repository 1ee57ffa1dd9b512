"""Tracing: what is recorded, under which names and types, and what cannot be recorded."""
# ruff: noqa: ARG005 - the tables hold functions of a given number of arguments

import inspect
import operator
import re
from typing import Any

import numpy as np
import pytest

import plica.numpy as pnp
from plica.errors import ShapeError, TraceError
from plica.frontend.programs import interpret, trace, verify
from plica.ir.types import spec
from tests.harness.together import grouped

F32, F64, I32, BOOL = (spec((2, 3), name) for name in ("float32", "float64", "int32", "bool"))


def _lines(function, *specs) -> list[str]:
    program = trace(function, *specs)
    verify(program)
    return [line.strip() for line in str(program).splitlines()[1:-1]]


RECORDED: Any = (
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
    # sizes; those of results that are no inputs are computed as well
    (
        lambda x: pnp.reshape(x, (-1,)),
        (spec(("n", "m")),),
        ["a:f32[m*n] = reshape[shape=(m*n,)] x", "b:i64[] = multiply m n"],
    ),
    (
        lambda x: pnp.zeros(x.shape[0] + 1),
        (spec("n"),),
        ["a:f64[n+1] = full[shape=(n+1,)] 0.0:f64[]", "b:i64[] = add n 1:i64[]"],
    ),
    (
        lambda x: pnp.sum(pnp.concat([x, x], axis=None)),
        (spec(("n", 2)),),
        [
            "a:f32[2*n] = reshape[shape=(2*n,)] x",
            "b:f32[2*n] = reshape[shape=(2*n,)] x",
            "c:f32[4*n] = concat[axis=0] a b",
            "d:f32[] = sum[axis=(0,) keepdims=False] c",
        ],
    ),
    (
        lambda x: pnp.sum(pnp.arange(2, x.shape[0], 3)),
        (spec("n"),),
        [
            "a:i64[floordiv(max(n-2,0)+2,3)] = arange[size=floordiv(max(n-2,0)+2,3) dtype=i64]",
            "b:i64[floordiv(max(n-2,0)+2,3)] = multiply a 3:i64[]",
            "c:i64[floordiv(max(n-2,0)+2,3)] = add b 2:i64[]",
            "d:i64[] = sum[axis=(0,) keepdims=False] c",
        ],
    ),
    (lambda x: pnp.arange(5, 2), (F32,), ["a:i64[0] = arange[size=0 dtype=i64]", "b:i64[0] = add a 5:i64[]"]),
    # arithmetic on sizes becomes equations where an array needs the number, once
    (
        lambda x: x * (x.shape[0] + 1) + (1 + x.shape[0]),
        (spec("n"),),
        [
            "a:i64[] = add n 1:i64[]",
            "b:f32[] = astype[dtype=f32] a",
            "c:f32[n] = multiply x b",
            "d:f32[] = astype[dtype=f32] a",
            "e:f32[n] = add c d",
        ],
    ),
    (lambda x: x.shape[0] - x.shape[0], (spec("n"),), []),
    (lambda x: x.shape[0] + 1 > x.shape[0], (spec("n"),), []),
    (lambda x: x.shape[0] > 3, (spec("n"),), ["a:bool[] = greater n 3:i64[]"]),
)


@grouped(("function", "specs", "lines"), RECORDED)
def test_what_is_recorded(function, specs, lines) -> None:
    assert _lines(function, *specs) == lines


def test_names_of_arguments_are_kept() -> None:
    program = trace(lambda weight, torch, inf, a: weight + torch + inf + a, *[spec(())] * 4)
    assert [var.name for var in program.arguments] == ["weight", "torch", "inf_1", "a"]
    many = trace(lambda x, *xs: xs[0] + x, spec("x"), spec("x"))
    assert [var.name for var in many.inputs] == ["x", "x_1", "a"]
    tree = trace(lambda x, y: x["a"] + x["b"][0] + y, {"a": F32, "b": [F32]}, F32)
    assert [var.name for var in tree.inputs] == ["x_0", "x_1", "y"]


def test_results_may_be_several_none_or_scalars() -> None:
    assert str(trace(lambda x: (x, [x][0], 2, True), F32)).endswith("in (x, x, 2:i64[], True:bool[]) }")
    assert str(trace(lambda x: {"b": x, "a": [None, 3.0]}, F32)).endswith("in (3.0:f64[], x) }")
    assert str(trace(lambda x: [], F32)).endswith("in () }")
    assert str(trace(lambda x: None, F32)).endswith("in () }")
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
        return x

    trace(look, F32)


@pytest.mark.parametrize(
    ("function", "count", "message"),
    [
        (lambda x: x, 2, r"test_trace.py:\d+: <lambda>\(x\) cannot take these arguments: too many positional"),
        (lambda x, y: x, 1, r"<lambda>\(x, y\) cannot take these arguments: missing a required argument: 'y'"),
        (lambda x, *ys: x, 0, "missing a required argument: 'x'"),
    ],
)
def test_a_wrong_number_of_specs(function, count: int, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        trace(function, *[F32] * count)


NAMED = (
    ({0: "n"}, "{n:i64[]} x:f32[n,3] y:f32[n,3]"),
    ({-1: "m"}, "{m:i64[]} x:f32[2,m] y:f32[2,m]"),
    ({0: "n", 1: "n"}, "{n:i64[]} x:f32[n,n] y:f32[n,n]"),
    (({0: "n"}, None), "{n:i64[]} x:f32[n,3] y:f32[2,3]"),
    ((("n", "m"), {1: "m"}), "{n:i64[]} {m:i64[]} x:f32[n,m] y:f32[2,m]"),
    ([(None, "m"), ("m",)], "{m:i64[]} x:f32[2,m] y:f32[m,3]"),
    ((None, None), "x:f32[2,3] y:f32[2,3]"),
)


@pytest.mark.parametrize(("axes", "binders"), NAMED, ids=str)
def test_axes_may_be_named_beside_the_specs(axes, binders: str) -> None:
    program = trace(lambda x, y: (x, y), F32, F32, abstracted_axes=axes)
    assert str(program).startswith(f"{{ lambda ; {binders} . let")


def test_axes_of_all_leaves_of_an_argument_are_named_alike() -> None:
    program = trace(lambda t: t["a"] + t["b"], {"a": F32, "b": F32}, abstracted_axes=(("n",),))
    assert [str(var.type) for var in program.arguments] == ["f32[n,3]", "f32[n,3]"]


MISNAMED = (
    (({0: "n"},), TraceError, r"abstracted_axes has 1 entries for 2 argument\(s\); give one for each, or one mapping"),
    ((("a", "b", "c"), None), ShapeError, r"abstracted_axes names 3 axes \('a', 'b', 'c'\) of an array with 2"),
    (({0: "3n"}, None), ShapeError, "'3n' .* is neither a non-negative integer nor a name such as 'n'"),
)


@pytest.mark.parametrize(("axes", "error", "message"), MISNAMED, ids=str)
def test_names_of_axes_that_do_not_fit(axes, error, message: str) -> None:
    with pytest.raises(error, match=message):
        trace(lambda x, y: x, F32, F32, abstracted_axes=axes)


def test_defaults_need_no_spec() -> None:
    assert len(trace(lambda x, scale=2.0: x * scale, F32).arguments) == 1


@pytest.mark.parametrize("one", ["float32", 3, (F32, "x")], ids=str)
def test_specs_are_specs_or_types_of_numbers(one) -> None:
    with pytest.raises(TraceError, match=r"described by plica.spec\(\.\.\.\) or by int, float, bool or complex"):
        trace(lambda x: x, one)


def test_equations_carry_the_users_line() -> None:
    program = trace(lambda x: pnp.std(x), F32)
    assert {one.source for one in program.equations} == {f"{__file__}:{inspect.currentframe().f_lineno - 1}"}


def test_errors_carry_the_operation_and_the_users_line() -> None:
    with pytest.raises(ShapeError, match=rf"^matmul\(f32\[2,3\], f32\[2,3\]\) \({re.escape(__file__)}:\d+\): "):
        trace(lambda x: x @ x, F32)
