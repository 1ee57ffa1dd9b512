"""Writing at every kind of key: `x.at[key]` in the interpreter and in torch against numpy's writing in place."""
# ruff: noqa: ARG005 - the tables hold functions of a given number of arguments

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis.extra.numpy import array_shapes, basic_indices

import plica.numpy as pnp
from plica.errors import BoundsError, DTypeError, InputError, PlicaError, ShapeError, TraceError
from plica.frontend.programs import interpret, trace
from plica.ir.types import spec
from plica.ops.update import MODES
from tests.harness.programs import Array, assert_same, run_torch, to_torch
from tests.tracing.test_indexing import array, like, read_back, same_as_numpy

IN_PLACE = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


class InNumpy:
    """What `x.at` is for a tracer, for a numpy array."""

    def __init__(self, x: Array) -> None:
        self.x = x

    def __getitem__(self, key: Any) -> Callable[[str, Any], Array]:
        def update(mode: str, values: Any) -> Array:
            result = self.x.copy()
            if mode == "set":
                result[key] = values
            else:
                IN_PLACE[mode].at(result, key, values)
            return result

        return update


class Traced:
    """The same for a tracer, with the same calls."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __getitem__(self, key: Any) -> Callable[[str, Any], Any]:
        return lambda mode, values: getattr(self.x.at[key], mode)(values)


def compare(
    function: Callable[..., Any], arrays: Sequence[Array], specs: Sequence[Any], modes: Sequence[str] = MODES
) -> None:
    """`function(at, mode, *others)` of a tracer is `function` of a numpy array, which stays as it is."""
    for mode in modes:
        program = read_back(trace(lambda x, *rest, mode=mode: function(Traced(x), mode, *rest), *specs))
        before = [one.copy() for one in arrays]
        same_as_numpy(program, lambda mode=mode: function(InNumpy(arrays[0]), mode, *arrays[1:]), arrays)
        for one, kept in zip(arrays, before, strict=True):
            assert_same(one, kept)


KEYS = (
    np.s_[...],
    np.s_[1],
    np.s_[-1, 2],
    np.s_[:, -2],
    np.s_[1:],
    np.s_[1:-1, ::2],
    np.s_[:2, ..., None, 0],
    np.s_[None, :, 1],
    np.s_[::-1],
    np.s_[::-2, 1:],
    np.s_[3:0:-2, ::-1, None],
    np.s_[2:1],
    np.s_[-2:9, -9:2],
)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_keys_known_now(key: Any) -> None:
    for n, m in ((4, 5), (2, 3)):
        x = array(n, m, 3)
        values = -2.5 * array(*x[key].shape)
        for specs in (like(x, values), [spec(("n", "m", 3)), *like(values)]):
            compare(lambda at, mode, v: at[key](mode, v), [x, values], specs)
        compare(lambda at, mode: at[key](mode, 2), [x], [spec(("n", "m", 3))])


def test_values_broadcast() -> None:
    x = array(4, 5)
    specs = [spec(("n", "m"))]
    for key, shape in (
        (np.s_[1:], (5,)),
        (np.s_[1:], (1, 5)),
        (np.s_[1:], (3, 1)),
        (np.s_[::-1, :2], (2,)),
        (np.s_[None, 2], (5,)),
        (np.s_[:, None, ::-1], (4, 1, 1)),
        (np.s_[[0, 2]], (5,)),
        (np.s_[:, [0, 2]], (2,)),
        (np.s_[:, [0, 2]], (4, 1)),
    ):
        if any(isinstance(one, list) for one in (key if isinstance(key, tuple) else (key,))):
            values, place = array(*shape), np.asarray([0, 2])
            at_place = (lambda i: i) if isinstance(key, list) else (lambda i: (slice(None), i))
            compare(
                lambda at, mode, v, i, f=at_place: at[f(i)](mode, v), [x, values, place], [*specs, *like(values, place)]
            )
        else:
            values = array(*shape)
            compare(lambda at, mode, v, key=key: at[key](mode, v), [x, values], [*specs, *like(values)])


def test_slices_shift_without_a_check() -> None:
    program = read_back(trace(lambda x: x.at[1:].set(x[:-1]).at[0].set(0), spec("n")))
    assert "assert_shape" not in str(program)
    for n in (1, 4):
        same_as_numpy(program, lambda n=n: np.concatenate([[0], array(n)[:-1]]).astype("float32"), [array(n)])


I64 = spec((), "int64")
DYNAMIC = (
    # what is written to; places (i, j) within, and some outside
    (lambda at, i, _: at[i], ((0, 0), (-4, 0), (3, 0)), ((4, 0), (-5, 0))),
    (lambda at, i, j: at[i, j], ((0, -1), (3, 4)), ((0, 5),)),
    (lambda at, i, j: at[:, j, None], ((0, -1), (3, 4)), ((0, 5),)),
    (lambda at, i, j: at[i:j], ((0, 0), (1, 3)), ((3, 1), (0, 5), (-1, 2))),
    (lambda at, i, j: at[i:, j], ((0, 0), (4, 3)), ((5, 0),)),
    (lambda at, i, j: at[i : i + 2, 1:], ((0, 0), (2, 0)), ((3, 0),)),
    (lambda at, i, j: at[i:j:2, ::-1], ((0, 4), (1, 4)), ((2, 1),)),
    (lambda at, i, j: at[i:j:-1, i], ((3, 1), (1, 1)), ((4, 1),)),
)


@pytest.mark.parametrize("row", range(len(DYNAMIC)))
def test_places_known_at_run_time(row: int) -> None:
    place, inside, outside = DYNAMIC[row]

    def function(at: Any, mode: str, i: Any, j: Any) -> Any:
        return place(at, i, j)(mode, 2.5)

    for i, j in inside:
        arrays = [array(4, 5), np.asarray(i), np.asarray(j)]
        compare(function, arrays, [spec(("n", "m")), I64, I64])
    program = trace(lambda x, i, j: function(Traced(x), "add", i, j), spec(("n", "m")), I64, I64)
    for i, j in outside:
        arrays = [array(4, 5), np.asarray(i), np.asarray(j)]
        with pytest.raises(InputError):
            interpret(program, *arrays)
        with pytest.raises(BoundsError):
            run_torch(program, *map(to_torch, arrays))


def test_a_window_of_values() -> None:
    for i in (0, 2):
        arrays = [array(4, 3), -array(2, 3), np.asarray(i)]
        specs = [spec(("n", "m")), spec((2, "m")), I64]
        compare(lambda at, mode, v, i: at[i : i + 2](mode, v), arrays, specs)
    program = trace(lambda x, v, i: x.at[i : i + v.shape[0]].set(v), spec("n"), spec("k"), I64)
    assert "assert_shape" not in str(program)
    assert_same(interpret(program, array(4), -array(3), np.asarray(1))[0], np.asarray([1, -1, -2, -3], "float32"))


GATHERED = (
    # what is written to; the shapes of i and j
    (lambda at, i, _: at[i], (4,), ()),
    (lambda at, i, _: at[:, i], (3,), ()),
    (lambda at, i, _: at[..., i], (2, 1), ()),
    (lambda at, i, j: at[i, j], (2, 1), (3,)),
    (lambda at, i, j: at[i, :, j], (3,), (2, 1)),
    (lambda at, i, j: at[:, i, j], (2,), (2,)),
    (lambda at, i, j: at[i, None, j], (2,), (2,)),
    (lambda at, i, _: at[0, :, i], (2,), ()),
    (lambda at, i, _: at[:, i, -1], (2,), ()),
    (lambda at, i, j: at[j, i], (2, 2), ()),
    (lambda at, i, _: at[1:, i, ::-1], (3,), ()),
    (lambda at, i, _: at[::-1, None, :, i], (2,), ()),
    (lambda at, i, _: at[i], (0,), ()),
)


@pytest.mark.parametrize("row", range(len(GATHERED)))
def test_arrays_of_indices_add_as_often_as_they_name_an_element(row: int) -> None:
    place, *shapes = GATHERED[row]
    rng = np.random.default_rng(row)
    x = array(2, 3, 3)
    places = [rng.integers(-2, 2, shape) for shape in shapes]
    values = rng.normal(size=place(InNumpyReader(x), *places).shape).astype("float32")

    def function(at: Any, mode: str, v: Any, i: Any, j: Any) -> Any:
        return place(at, i, j)(mode, v)

    repeated = [mode for mode in MODES if mode != "set"]
    for specs in (like(x, values, *places), [spec(("n", "m", 3)), *like(values, *places)]):
        compare(function, [x, values, *places], specs, repeated)
    single = np.full_like(values, 7)  # one value for all, so that it does not matter which comes last
    compare(function, [x, single, *places], like(x, single, *places), ["set"])


class InNumpyReader:
    """Reads instead of writing."""

    def __init__(self, x: Array) -> None:
        self.x = x

    def __getitem__(self, key: Any) -> Array:
        return self.x[key]


@pytest.mark.parametrize("place", [3, -4])
@pytest.mark.parametrize("mode", MODES)
def test_arrays_of_indices_outside(mode: str, place: int) -> None:
    i = np.asarray([0, place])
    for function in (lambda at, mode, i: at[i](mode, 1), lambda at, mode, i: at[:, i, i](mode, 1)):
        compare(function, [array(3, 3, 3), i], [spec(("n", "m", 3)), *like(i)], [mode])


MASKED = (
    (lambda at, b, r: at[b], "scalar"),
    (lambda at, b, r: at[r], "scalar"),
    (lambda at, b, r: at[r], "row"),
    (lambda at, b, r: at[:, b[0]], "scalar"),
    (lambda at, b, r: at[b, :1], "scalar"),
    (lambda at, b, r: at[r, None, 1:], "scalar"),
    (lambda at, b, r: at[b[0, 0]], "scalar"),
)


@pytest.mark.parametrize("row", range(len(MASKED)))
def test_masks(row: int) -> None:
    place, kind = MASKED[row]
    values = {"scalar": np.float32(-1.5), "row": -array(5, 2)}[kind]
    rng = np.random.default_rng(row)
    for share in (0.0, 0.5, 1.0):
        arrays = [array(4, 5, 2), rng.random((4, 5)) < share, rng.random(4) < share, np.asarray(values)]
        specs = [spec(("n", "m", 2)), spec(("n", "m"), "bool"), spec("n", "bool"), *like(np.asarray(values))]
        compare(lambda at, mode, b, r, v: place(at, b, r)(mode, v), arrays, specs)


def test_masks_with_as_many_values_as_elements() -> None:
    x, mask = array(3, 2), np.asarray([[True, False], [True, True], [False, False]])
    for specs in (like(x, mask, array(3)), [spec(("n", "m")), spec(("n", "m"), "bool"), spec("k")]):
        compare(lambda at, mode, b, v: at[b](mode, v), [x, mask, -array(3)], specs)
    program = trace(lambda x, b, v: x.at[b].set(v), spec(("n", "m")), spec(("n", "m"), "bool"), spec("k"))
    with pytest.raises(InputError, match="must be equal"):
        interpret(program, x, mask, array(2))
    with pytest.raises(PlicaError, match="must be equal"):
        run_torch(program, *map(to_torch, (x, mask, array(2))))


def test_masks_of_one_value_wait_for_no_count() -> None:
    for mode in MODES:
        program = trace(lambda x, b, mode=mode: getattr(x.at[b], mode)(2), spec(("n", 3)), spec("n", "bool"))
        assert "nonzero" not in str(program)


# Dtypes

KINDS = (
    # the array, the values, whether they fit
    ("float32", "float64", True),
    ("float32", "int64", True),
    ("float64", "bool", True),
    ("int8", "int64", True),
    ("int64", "uint8", True),
    ("complex64", "float64", True),
    ("int32", "float32", False),
    ("uint8", "int64", False),
    ("float32", "complex64", False),
    ("bool", "int64", False),
)


@pytest.mark.parametrize("row", KINDS, ids=str)
def test_values_are_cast_within_their_kind(row: Any) -> None:
    own, given_, fits = row
    assert np.can_cast(given_, own, "same_kind") == fits
    x, values = array(3).astype(own), np.ones(2, given_)
    if fits:
        compare(
            lambda at, mode, v: at[1:](mode, v.astype(own) if isinstance(v, np.ndarray) else v),
            [x, values],
            like(x, values),
            ["set"],
        )
    else:
        with pytest.raises(DTypeError, match=f"values of dtype {given_} do not fit an array of {own}"):
            trace(lambda x, v: x.at[1:].set(v), *like(x, values))


def test_python_numbers_take_the_dtype_of_the_array() -> None:
    for dtype, value in (("float32", 2), ("int8", -3), ("complex64", 1.5), ("bool", True), ("uint8", 255)):
        assert trace(lambda x, value=value: x.at[0].set(value), spec(2, dtype)).results[0].type.dtype == dtype
    for dtype, value, message in (
        ("int32", 1.5, "do not fit an array of int32"),
        ("bool", 1, "do not fit an array of bool"),
        ("uint8", 256, "does not fit uint8"),
    ):
        with pytest.raises(DTypeError, match=message):
            trace(lambda x, value=value: x.at[0].set(value), spec(2, dtype))
    program = trace(lambda x: x.at[0].set(x.shape[0]), spec("n"))
    same_as_numpy(program, lambda: np.asarray([3, 2, 3], "float32"), [array(3)])


# Errors

REFUSED = (
    (lambda x: x.at[4].set(0), BoundsError, "index 4 does not lie within axis 0 of size 4"),
    (lambda x: x.at[1:].set(x), ShapeError, r"values of shape \(4, 5\) do not broadcast to \(3, 5\)"),
    (lambda x: x.at[0].set(x), ShapeError, r"values of shape \(4, 5\) do not broadcast to \(5\)"),
    (lambda x: x.at[None, 0].set(x[None]), ShapeError, "more dimensions than the 2 that are updated"),
    (lambda x: x.at[None, 0].set(x[:2]), ShapeError, "squeeze"),
    (lambda x: x.at[x > 0].set(pnp.zeros((1, 1))), ShapeError, "do not broadcast"),
    (lambda x: x.at[0, 0, 0].set(0), ShapeError, "indexes 3 axes"),
    (lambda x: x.at[0].set("a"), TraceError, "update needs an array"),
    (lambda x: x.at[True, 0].set(pnp.zeros((1, 5))), TraceError, "the mask of an update needs at least one axis"),
    (lambda x: pnp.update(x, 0, 1, "subtract"), TraceError, "there is no update 'subtract'"),
    (lambda x: (x > 0).at[0].add(True), DTypeError, "found bool, expected int"),
)


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row[2])
def test_updates_that_are_refused(row: Any) -> None:
    function, error, message = row
    with pytest.raises(error, match=message) as caught:
        trace(function, spec((4, 5)))
    assert "test_updates.py:" in str(caught.value)


# Derivatives


@pytest.mark.parametrize("mode", MODES)
def test_derivatives(mode: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    v = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    i = torch.tensor([1, -1, 0] if mode == "set" else [1, -1, 1])
    n = torch.tensor(2)
    places = (
        lambda at, n, i: at[1:],
        lambda at, n, i: at[n - 2 : n + 1, ::-1],
        lambda at, n, i: at[n],
        lambda at, n, i: at[i],
        lambda at, n, i: at[:, i],
        lambda at, n, i: at[n, i],
    )
    for place in places:

        def function(x: Any, v: Any, n: Any, i: Any, place: Any = place) -> Any:
            shape = place(InNumpyReader(np.zeros((4, 3))), 2, np.zeros(3, int)).shape
            values = {(3, 3): v, (3,): v[0], (4, 3): pnp.concat([v, v[:1]])}[shape]
            return getattr(place(x.at, n, i), mode)(values)

        program = trace(function, spec(("n", "m"), "float64"), spec((3, 3), "float64"), I64, spec(3, "int64"))
        assert torch.autograd.gradcheck(lambda x, v, program=program: run_torch(program, x, v, n, i)[0], (x, v))


@pytest.mark.parametrize("mode", MODES)
def test_derivatives_at_masks(mode: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    v = torch.randn(3, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([True, False, True, False])
    program = trace(
        lambda x, v, b: getattr(x.at[b], mode)(v), spec(("n", "m"), "float64"), spec("m", "float64"), spec("n", "bool")
    )
    assert torch.autograd.gradcheck(lambda x, v: run_torch(program, x, v, mask)[0], (x, v))


def test_elements_that_a_mask_leaves_alone_keep_their_derivatives() -> None:
    x = torch.ones(2, requires_grad=True)
    program = trace(lambda x, b: x.at[b].multiply(pnp.inf), spec("n"), spec("n", "bool"))
    run_torch(program, x, torch.tensor([True, False]))[0].sum().backward()
    assert x.grad.tolist() == [float("inf"), 1.0]


# Eager


def test_arrays_are_updated_at_once() -> None:
    x, i, v = array(4, 3), np.asarray([1, -1, 1]), np.asarray([1.0, 2.0, 3.0], "float32")
    for at in (pnp.at, pnp.updates):
        for convert in (np.asarray, to_torch):
            given_ = convert(x)
            assert_same(at(given_)[2].set(0), InNumpy(x)[2]("set", 0))
            assert_same(at(given_)[1:, -1].add(convert(v)), InNumpy(x)[1:, -1]("add", v))
            assert_same(at(given_)[convert(i), 0].multiply(convert(v)), InNumpy(x)[i, 0]("multiply", v))
            assert_same(at(given_)[convert(x > 3)].min(2.0), InNumpy(x)[x > 3]("min", 2.0))
            assert_same(at(given_)[::-1, np.int64(1)].max(5.0), InNumpy(x)[::-1, 1]("max", 5.0))
            assert_same(given_, x)
            for place in (4, -5):  # the line of this call, not of the first one
                message = rf"^{__file__}:\d+: update: index {place} does not lie within axis 0 of size 4"
                with pytest.raises(BoundsError, match=message):
                    at(given_)[place].set(0)


def test_one_function_runs_traced_and_at_once() -> None:
    def function(x: Any, i: Any) -> Any:
        return pnp.at(x)[i].add(10)

    x, i = array(4), np.asarray(2)
    wanted = function(x, i)
    same_as_numpy(trace(function, spec("n"), I64), lambda: wanted, [x, i])
    assert_same(function(to_torch(x), to_torch(i)), wanted)
    assert wanted.tolist() == [1, 2, 13, 4]


# Properties and text


@given(st.data())
def test_basic_keys_are_numpys(data: st.DataObject) -> None:
    shape = data.draw(array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    key = data.draw(basic_indices(shape, allow_newaxis=True, max_dims=6))
    mode = data.draw(st.sampled_from(MODES))
    x = array(*shape)
    values = np.asarray(-0.5 * array(*x[key].shape))
    unknown = [spec([f"n{axis}" for axis in range(x.ndim)]), *like(values)]
    for specs in (like(x, values), unknown):
        compare(lambda at, mode, v: at[key](mode, v), [x, values], specs, [mode])


def test_text() -> None:
    program = trace(
        lambda x, i, k: x.at[i:, k, ::-1].add(1).at[0, -1].set(x.shape[0]),
        spec(("n", "m", 3)),
        I64,
        spec("l", "int32"),
    )
    lines = [line.strip() for line in str(program).splitlines()[1:-1]]
    assert lines == [
        "a:f32[n,m,3] = update[mode='add' index=((i,n,1),'at',None)] x 1.0:f32[] k",
        "b:f32[] = astype[dtype=f32] n",
        "c:f32[n,m,3] = update[mode='set' index=('at','at',None)] a b 0:i64[] -1:i64[]",
    ]
