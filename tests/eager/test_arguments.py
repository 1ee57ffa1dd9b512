"""Odd arguments of `plica.numpy`, at once and traced: legal ones, which mean what numpy does, and refused ones."""

from typing import Any

import array_api_compat.numpy
import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import AxisError, DTypeError, PlicaError, ShapeError
from tests.harness.programs import assert_same, run_torch, to_torch
from tests.harness.together import grouped

ARRAYS = {
    "scalar": np.asarray(1.5, "float32"),
    "floats": np.asarray([[0.5, -1.5, 2.0], [3.0, 0.25, -2.0]], "float32"),
    "no rows": np.zeros((0, 3), "float32"),
    "no columns": np.zeros((2, 0)),
    "bytes": np.asarray([[1, -2, 3], [4, 5, -6]], "int8"),
    "unsigned": np.asarray([1, 2, 200], "uint8"),
    "truths": np.asarray([True, False, True]),
    "complex": np.asarray([[1 + 2j, -1j, 0.5], [2.0, 1j, -1 - 1j]], "complex64"),
    "cube": np.arange(6).reshape(1, 2, 3),
}
MATRICES = ("floats", "no rows", "no columns", "bytes", "cube")
REAL = ("scalar", "floats", "no rows", "bytes", "unsigned", "cube")

LEGAL = (
    # the call, of a namespace and an array; the arrays
    # axes: numpy's integers, negative ones, none at all
    (lambda xp, x: xp.sum(x, axis=np.int64(0), keepdims=True), MATRICES),
    (lambda xp, x: xp.prod(x, axis=(np.int8(-1), 0), keepdims=True), MATRICES),
    (lambda xp, x: xp.mean(x, axis=()), ("floats", "no columns")),
    (lambda xp, x: xp.var(x, axis=-1, correction=np.int64(1)), ("floats", "no rows")),
    (lambda xp, x: xp.std(x, correction=np.float32(0.5)), ("floats",)),
    (lambda xp, x: xp.any(x, axis=np.uint8(0)), MATRICES),
    (lambda xp, x: xp.count_nonzero(x, axis=np.int32(-1), keepdims=True), MATRICES),
    (lambda xp, x: xp.max(x, axis=np.int64(-1)), ("floats", "no rows", "bytes", "cube")),
    (lambda xp, x: xp.argmax(x, axis=np.int64(1), keepdims=np.bool_(True)), ("floats", "bytes", "cube")),
    (lambda xp, x: xp.argmin(x, keepdims=True), ("scalar", "floats", "unsigned", "cube")),
    (lambda xp, x: xp.cumulative_sum(x, axis=np.int64(-1), include_initial=np.bool_(True)), MATRICES),
    (lambda xp, x: xp.cumulative_prod(x, axis=0, dtype=np.float64), MATRICES),
    (lambda xp, x: xp.sort(x, axis=np.int64(0), descending=np.bool_(True), stable=False), MATRICES),
    (lambda xp, x: xp.flip(x, axis=(0, np.int64(-1))), MATRICES),
    (lambda xp, x: xp.flip(x, axis=()), tuple(ARRAYS)),
    (lambda xp, x: xp.roll(x, (1, np.int64(2)), axis=(0, np.int64(-1))), MATRICES),
    (lambda xp, x: xp.roll(x, np.int8(-7)), tuple(ARRAYS)),
    (lambda xp, x: xp.diff(x, n=np.int64(2)), MATRICES),
    (lambda xp, x: xp.diff(x, axis=np.int64(0), prepend=x, append=x), MATRICES),
    (lambda xp, x: xp.expand_dims(x, axis=np.int64(-1)), tuple(ARRAYS)),
    (lambda xp, x: xp.squeeze(xp.expand_dims(x, axis=0), (np.int64(0),)), tuple(ARRAYS)),
    (lambda xp, x: xp.squeeze(x, ()), tuple(ARRAYS)),
    (lambda xp, x: xp.concat((x, x), axis=np.int64(-1)), MATRICES),
    (lambda xp, x: xp.concat([x, x], axis=None), tuple(ARRAYS)),
    (lambda xp, x: xp.stack([x], axis=np.int64(-1)), tuple(ARRAYS)),
    (lambda xp, x: xp.unstack(x, axis=np.int64(1)), MATRICES),
    (lambda xp, x: xp.moveaxis(x, np.int64(0), np.int64(-1)), MATRICES),
    (lambda xp, x: xp.moveaxis(x, (np.int64(0), 1), (-1, 0)), MATRICES),
    (lambda xp, x: xp.permute_dims(x, [np.int64(one) for one in range(x.ndim)][::-1]), tuple(ARRAYS)),
    (lambda xp, x: xp.vecdot(x, x, axis=np.int64(-1)), MATRICES),
    (lambda xp, x: xp.tensordot(x, x, axes=np.int64(0)), ("scalar", "floats", "bytes")),
    (lambda xp, x: xp.tensordot(x, x, axes=([np.int64(-1)], (-1,))), ("floats", "no columns", "bytes")),
    (lambda xp, x: xp.linalg.vector_norm(x, axis=np.int64(0), ord=np.int64(1), keepdims=np.bool_(True)), ("floats",)),
    (lambda xp, x: xp.linalg.matrix_norm(x, ord=np.int64(1)), ("floats", "complex")),
    (lambda xp, x: xp.linalg.matrix_power(xp.matmul(x, xp.matrix_transpose(x)), np.int64(2)), ("floats", "bytes")),
    (lambda xp, x: xp.linalg.trace(x, offset=np.int64(1), dtype=np.float64), ("floats", "bytes")),
    (lambda xp, x: xp.linalg.pinv(x, rtol=np.float32(0.1)), ("floats",)),
    # sizes: numpy's integers, alone and among others
    (lambda xp, x: xp.reshape(x, (np.int64(3), 2)), ("floats", "bytes", "cube")),
    (lambda xp, x: xp.reshape(x, np.int64(-1)), tuple(ARRAYS)),
    (lambda xp, x: xp.reshape(x, shape=[3, np.uint8(0)], copy=True), ("no rows", "no columns")),
    (lambda xp, x: xp.broadcast_to(x, (np.int64(2), *x.shape)), tuple(ARRAYS)),
    (lambda xp, x: xp.tile(x, (np.int64(2), 1)), MATRICES),
    (lambda xp, x: xp.tile(x, ()), tuple(ARRAYS)),
    (lambda xp, x: xp.repeat(x, np.int64(2), axis=np.int64(0)), MATRICES),
    (lambda xp, x: xp.repeat(x, 0), tuple(ARRAYS)),
    (lambda xp, x: xp.tril(x, k=np.int64(-1)), MATRICES),
    (lambda xp, x: xp.triu(x, k=np.int8(1)), MATRICES),
    (lambda xp, x: xp.linalg.diagonal(x, offset=np.int64(1)), MATRICES),
    # dtypes
    (lambda xp, x: xp.astype(x, np.int8), ("floats", "bytes", "truths", "cube")),
    (lambda xp, x: xp.astype(x, np.dtype("float64"), copy=False), ("floats", "bytes", "truths")),
    (lambda xp, x: xp.sum(x, dtype=float), ("floats", "bytes", "truths")),
    (lambda xp, x: xp.zeros_like(x, dtype=np.uint16), tuple(ARRAYS)),
    (lambda xp, x: xp.full_like(x, np.float64(3)), REAL),
    # numbers and arrays
    (lambda xp, x: xp.add(x, np.int8(3)), ("bytes", "cube")),
    (lambda xp, x: xp.multiply(np.float32(2.5), x), ("scalar", "floats", "no columns")),
    (lambda xp, x: xp.maximum(x, np.float64(0)), ("no columns",)),
    (lambda xp, x: xp.subtract(True, x), ("floats", "bytes", "complex")),
    (lambda xp, x: xp.logical_and(x, np.bool_(True)), ("truths",)),
    (lambda xp, x: xp.equal(x, np.uint8(2)), ("unsigned", "bytes", "cube")),
    (lambda xp, x: xp.where(xp.isnan(x), np.float32(0), x), ("floats",)),
    (lambda xp, x: xp.clip(x, 0, np.int64(2)), ("cube",)),
    (lambda xp, x: xp.clip(x, max=np.float32(0.5)), ("floats",)),
    (lambda xp, x: xp.clip(x, None, None), tuple(ARRAYS)),
    (lambda xp, x: xp.clip(x, 2, 0), ("floats", "bytes")),
    (lambda xp, x: xp.divide(x, np.int64(-2)), ("cube",)),
    (lambda xp, x: xp.divide(x, -300.0), ("unsigned",)),
    (lambda xp, x: xp.pow(x, np.int64(2)), ("cube",)),
    # results of several arrays
    (lambda xp, x: xp.meshgrid(xp.reshape(x, (-1,)), xp.reshape(x, (-1,)), indexing="ij"), ("scalar", "floats")),
    (lambda xp, x: xp.broadcast_arrays(x, xp.expand_dims(x, axis=0)), tuple(ARRAYS)),
    (lambda xp, x: xp.nonzero(x), ("floats", "no rows", "truths", "complex", "cube")),
    (lambda xp, x: [*xp.unique_all(x)], ("floats", "bytes", "truths", "cube")),
)


@grouped("place, array", [(place, name) for place, (_, names) in enumerate(LEGAL) for name in names])
@pytest.mark.filterwarnings("ignore:Degrees of freedom", "ignore:invalid value", "ignore:divide by zero")
def test_at_once_is_traced_is_numpy(place: int, array: str) -> None:
    call, x = LEGAL[place][0], ARRAYS[array]
    with np.errstate(all="ignore"):
        expected = _listed(call(array_api_compat.numpy, x))
    program = plica.trace(lambda one: call(pnp, one), plica.spec(x.shape, x.dtype))
    for found in (
        _listed(call(pnp, x)),
        _listed(call(pnp, to_torch(x))),
        plica.interpret(program, x),
        run_torch(program, to_torch(x)),
    ):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, np.asarray(other), 5.0)


def _listed(results):
    return list(results) if isinstance(results, tuple | list) else [results]


# Arrays that are made of sizes and numbers alone: torch tensors, of numpy's numbers too

MADE = (
    lambda xp: xp.zeros(2, dtype=np.float32),
    lambda xp: xp.zeros((np.int64(2), 3), dtype=np.dtype("int8")),
    lambda xp: xp.ones(np.int64(3), dtype=int),
    lambda xp: xp.ones([], dtype=np.bool_),
    lambda xp: xp.full(np.int64(2), 3, dtype=np.uint16),
    lambda xp: xp.full((2, np.int8(0)), 2.5),
    lambda xp: xp.eye(np.int64(2), np.int64(3), k=np.int64(1), dtype=float),
    lambda xp: xp.eye(0, 2),
    lambda xp: xp.arange(np.int64(1), np.int64(7), np.int64(2)),
    lambda xp: xp.arange(5, 2),
    lambda xp: xp.arange(1, stop=7, step=3, dtype=np.float32),
    lambda xp: xp.linspace(0, np.float64(1), np.int64(3), endpoint=np.bool_(False)),
    lambda xp: xp.linspace(0, 1, num=1),
)


@pytest.mark.parametrize("place", range(len(MADE)))
def test_making_arrays_takes_numpys_numbers(place: int) -> None:
    expected = MADE[place](array_api_compat.numpy)
    found = MADE[place](pnp)
    assert isinstance(found, torch.Tensor)
    assert_same(found, expected)
    assert_same(plica.interpret(plica.trace(lambda: MADE[place](pnp)))[0], expected)


def test_numbers_of_numpy_are_arrays_of_the_library_that_they_meet() -> None:
    x, t = np.ones(2, "float32"), torch.ones(2)
    assert isinstance(pnp.add(x, np.float32(1)), np.ndarray)
    assert isinstance(pnp.add(np.float32(1), t), torch.Tensor)
    assert isinstance(pnp.add(np.float32(1), 2), np.ndarray)
    assert isinstance(pnp.sum(np.float64(1)), np.ndarray)
    # numpy's float64 and complex128 are Python numbers, and take the dtype of what they meet; the others have their own
    for one in (x, t):
        assert pnp.add(one, np.float64(1)).dtype == pnp.float32
        assert pnp.add(one, np.complex128(1j)).dtype == pnp.complex64
        assert pnp.add(pnp.astype(one, "int8"), np.int64(1)).dtype == pnp.int64
        assert pnp.where(one > 0, np.float64(1), one).dtype == pnp.float32
    types = [
        str(one.type) for one in plica.trace(lambda a: (a + np.float64(1), a + np.int64(1)), plica.spec(2)).results
    ]
    assert types == ["f32[2]", "f32[2]"]


def test_numbers_of_numpy_are_arguments_of_one_program(monkeypatch) -> None:
    traced = []
    from plica.eager import namespace

    original: Any = vars(namespace)["trace_function"]
    monkeypatch.setattr(namespace, "trace_function", lambda *args: traced.append(1) or original(*args))
    for value in np.linspace(0.1, 0.9, 7):
        assert pnp.multiply(np.full(3, 2.0), value).tolist() == [2.0 * value] * 3
        assert pnp.multiply(np.full(3, 2.0, "float32"), np.float32(value)).dtype == np.float32
    assert len(traced) <= 2


# What is refused, at once and traced

REFUSED = (
    (lambda x: pnp.sum(x, axis=2), AxisError, "sum: axis 2 does not exist in an array of 2"),
    (lambda x: pnp.sum(x, axis=(0, -3)), AxisError, "sum: axis -3 does not exist"),
    (lambda x: pnp.concat([x, x], axis=np.int64(5)), AxisError, "concat: axis 5 does not exist"),
    (lambda x: pnp.expand_dims(x, 4), AxisError, "expand_dims: axis 4 does not exist"),
    (lambda x: pnp.sort(x, axis=-3), AxisError, "sort: axis -3 does not exist"),
    (lambda x: pnp.permute_dims(x, (0, 2)), AxisError, "permute_dims: axis 2 does not exist"),
    (lambda x: pnp.linalg.vector_norm(x, axis=7), AxisError, r"linalg\.vector_norm: axis 7 does not exist"),
    (lambda x: pnp.sum(x, axis=(0, 0)), ShapeError, "sum: an axis is named twice"),
    (
        lambda x: pnp.sum(x, axis=1.0),
        ShapeError,
        "an axis is an integer that is known before the program runs, found 1.0",
    ),
    (lambda x: pnp.mean(x, axis="a"), ShapeError, "an axis is an integer that is known .* found 'a'"),
    (lambda x: pnp.tensordot(x, x, axes=1.5), ShapeError, "the number of axes of tensordot is an integer .* found 1.5"),
    (lambda x: pnp.reshape(x, (6.0,)), ShapeError, "a size is a scalar integer, found float 6.0"),
    (lambda x: pnp.full_like(pnp.astype(x, "uint8"), -1), DTypeError, "full_like: the number -1 does not fit uint8"),
    (lambda x: pnp.full(2, float("nan"), dtype="int64") + x, DTypeError, "full: the number nan does not fit int64"),
    (lambda x: pnp.full(2, 1j, dtype="float64") + x, DTypeError, "full: the number 1j does not fit float64"),
    (lambda x: pnp.add(x, 1 << 70), DTypeError, "does not fit int64"),
    (lambda x: pnp.astype(x, "float31"), DTypeError, "'float31' is no data type of Plica"),
    (lambda x: pnp.pow(x > 0, -1), DTypeError, "to the power -1 is no integer"),
)


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=[row[2] for row in REFUSED])
def test_odd_arguments_are_refused_where_they_are(call, error: type[PlicaError], message: str) -> None:
    x = np.ones((2, 3), "int64")
    for run in (
        lambda: call(x),
        lambda: call(to_torch(x)),
        lambda: plica.trace(call, plica.spec((2, 3), "int64")),
        lambda: plica.trace(call, plica.spec(("n", "m"), "int64")),
    ):
        with pytest.raises(error, match=message) as caught:
            run()
        assert str(caught.value).startswith(__file__)


def test_an_axis_that_does_not_exist_is_an_index_that_does_not() -> None:
    """As numpy's AxisError, it is a ValueError too."""
    for error in (IndexError, ValueError):
        with pytest.raises(error):
            pnp.sum(np.ones(2), axis=1)


def test_integers_to_negative_powers_are_alike_in_every_library() -> None:
    """The standard leaves them open; a Python integer that is known to be negative is refused."""
    x, y = np.asarray([2, 1, -1, -1, 0, 3, -2], "int8"), np.asarray([-1, -2, -3, -2, -1, 2, 3], "int8")
    for found in (pnp.pow(x, y), pnp.pow(to_torch(x), to_torch(y))):
        assert_same(found, np.asarray([0, 1, -1, 1, 0, 9, -8], "int8"))
