"""Reading at every kind of key, on sizes known and unknown, in the interpreter and in torch, against numpy."""

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis.extra.numpy import array_shapes, basic_indices, integer_array_indices

import plica.numpy as pnp
from plica.errors import BoundsError, DTypeError, InputError, PlicaError, ShapeError, TraceError
from plica.frontend.programs import interpret, parse, trace, verify
from plica.ir.interpret import interpret_program
from plica.ir.program import Program
from plica.ir.types import spec
from plica.ops import OPS
from plica.tracing.trace import trace_function
from tests.harness.programs import Array, assert_same, run_torch, to_torch
from tests.harness.together import grouped

SIZES = ((4, 5), (1, 2), (0, 3), (3, 0))


def array(*shape: int) -> Array:
    return np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape).astype("float32")


def like(*arrays: Array) -> list[Any]:
    """What these arrays are, sizes and all."""
    return [spec(one.shape, one.dtype) for one in arrays]


def same_as_numpy(program: Program, expected: Callable[..., Any], arrays: Sequence[Array]) -> None:
    """A program gives what numpy gives, or an error where numpy raises one."""
    try:
        wanted = expected()
    except IndexError:
        with pytest.raises(InputError):
            interpret(program, *arrays)
        with pytest.raises(IndexError):
            run_torch(program, *map(to_torch, arrays))
        return
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for results in (interpret(program, *arrays), run_torch(program, *map(to_torch, arrays))[-len(wanted) :]):
        found: Any
        for found, one in zip(results, wanted, strict=True):
            assert_same(found, np.asarray(one))


def read_back(program: Program) -> Program:
    verify(program)
    assert parse(str(program)) == program
    return program


KEYS = (
    np.s_[...],
    np.s_[()],
    np.s_[0],
    np.s_[-1],
    np.s_[2, 1],
    np.s_[:, -2],
    np.s_[..., 0],
    np.s_[1, ..., -1],
    np.s_[None],
    np.s_[:, None, ..., None],
    np.s_[None, 0, None],
    np.s_[1:],
    np.s_[:-1],
    np.s_[1:-1],
    np.s_[:2, 1:],
    np.s_[3:1],
    np.s_[1:3, -3:-1],
    np.s_[-3:2, -1:-3],
    np.s_[-2:, :-2],
    np.s_[5:-5, 7:],
    np.s_[::2, 1::3],
    np.s_[1:-1:2],
    np.s_[::-1],
    np.s_[::-2, ::-3],
    np.s_[:0:-1, 3::-1],
    np.s_[-1:-3:-1, -2::-1],
    np.s_[-2:0:-2, :-3:-1],
    np.s_[0:-1:-1, 1:3:-1],
    np.s_[9:-9:-2, 0:0],
    np.s_[::-1, 1, ::2],
    np.s_[1:, None, -1, ::-1],
)


@grouped("key", KEYS, ids=str)
def test_keys_known_now(key: Any) -> None:
    program = read_back(trace(lambda x: x[key], spec(("n", "m", 3))))
    for n, m in SIZES:
        x = array(n, m, 3)
        same_as_numpy(program, lambda x=x: x[key], [x])
        try:
            fixed = read_back(trace(lambda x: x[key], *like(x)))
        except BoundsError:
            with pytest.raises(IndexError):
                x[key]
            continue
        same_as_numpy(fixed, lambda x=x: x[key], [x])
        assert fixed.results[0].type.shape == x[key].shape


ALIKE = (
    (lambda x: (x[1:], x[:-1]), "max(n-1,0)"),
    (lambda x: (x[2:], x[1:-1], x[:-2], x[1:][1:]), "max(n-2,0)"),
    (lambda x: (x[:], x[::-1], x[0:], x[::1]), "n"),
    (lambda x: (x[::2], x[::-2]), "floordiv(n+1,2)"),
    (lambda x: (x[3:1], x[-1:-2], x[:0], x[2:2]), "0"),
    (lambda x: (x[-2:], x[:2], x[:1:-1][:2]), "-max(n-2,0)+n"),
)


@pytest.mark.parametrize(("function", "size"), ALIKE, ids=[row[1] for row in ALIKE])
def test_equal_sizes_have_equal_types(function: Callable[..., Any], size: str) -> None:
    assert {str(one.type) for one in trace(function, spec("n")).results} >= {f"f32[{size}]"}
    for one in trace(function, spec("n")).results[:-1]:
        assert str(one.type) == f"f32[{size}]"


def test_neighbours_meet_without_a_check() -> None:
    program = trace(lambda x: x[1:] - x[:-1], spec("n"))
    assert "assert_shape" not in str(program)
    for n in (0, 1, 5):
        same_as_numpy(program, lambda n=n: np.diff(array(n)), [array(n)])


I64 = spec((), "int64")
DYNAMIC = (
    # what is read, and pairs (i, j) of which some lie outside
    (lambda x, i, _: x[i], ((0, 0), (3, 0), (-4, 0), (-1, 0), (4, 0), (-5, 0))),
    (lambda x, i, j: x[i, j], ((3, -5), (-4, 4), (0, 5), (4, 0))),
    (lambda x, i, j: x[:, j, None, i - 4], ((4, 0), (3, 4), (2, -6))),
    (lambda x, i, j: x[i, ..., j], ((1, 2), (1, 3), (1, -4))),
)
SLICED = (
    (lambda x, i, j: x[i:j], ((0, 0), (1, 3), (4, 4), (0, 4)), ((3, 1), (0, 5), (-1, 2))),
    (lambda x, i, _: x[i : i + 2], ((0, 0), (2, 0)), ((3, 0), (-1, 0))),
    (lambda x, i, _: x[:, i:], ((0, 0), (5, 0)), ((6, 0), (-1, 0))),
    (lambda x, i, _: x[:i, :-1], ((0, 0), (4, 0)), ((5, 0), (-2, 0))),
    (lambda x, i, _: x[i:-1], ((0, 0), (3, 0)), ((4, 0), (-1, 0))),
    (lambda x, i, _: x[-2:i], ((2, 0), (4, 0)), ((1, 0), (5, 0))),
    (lambda x, i, j: x[i : i + 2 * j : j], ((0, 1), (0, 2), (2, 1)), ((3, 1), (0, 0), (2, -1))),
    (lambda x, i, j: x[i:j:2, ::-1], ((0, 4), (1, 4), (2, 2)), ((2, 1),)),
    (lambda x, i, j: x[i:j:-1], ((3, 1), (2, 0), (3, 2), (0, 0)), ((4, 1), (1, 3))),
    (lambda x, i, _: x[i::-2], ((0, 0), (3, 0), (2, 0)), ((4, 0),)),
    (lambda x, i, _: x[: x.shape[0] - i, x.shape[1] - 2 :], ((0, 0), (4, 0)), ((5, 0), (-1, 0))),
    (lambda x, i, j: x[i:j, i, ::j], ((1, 3), (0, 2)), ((1, 0), (3, 9))),
)


def _scalars(i: int, j: int) -> list[Array]:
    return [np.asarray(i), np.asarray(j)]


def _dynamic(function: Callable[..., Any], *, fixed: bool) -> Program:
    return read_back(trace(function, spec((4, 5, 3) if fixed else ("n", "m", 3)), I64, I64))


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("row", range(len(DYNAMIC)))
def test_scalars_known_at_run_time(row: int, fixed: bool) -> None:
    function, places = DYNAMIC[row]
    program = _dynamic(function, fixed=fixed)
    for i, j in places:
        arrays = [array(4, 5, 3), *_scalars(i, j)]
        same_as_numpy(program, lambda arrays=arrays: function(*arrays), arrays)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("row", range(len(SLICED)))
def test_bounds_known_at_run_time_are_never_clipped(row: int, fixed: bool) -> None:
    function, inside, outside = SLICED[row]
    program = _dynamic(function, fixed=fixed)
    for i, j in inside:
        arrays = [array(4, 5, 3), *_scalars(i, j)]
        same_as_numpy(program, lambda arrays=arrays: function(*arrays), arrays)
    for i, j in outside:
        arrays = [array(4, 5, 3), *_scalars(i, j)]
        with pytest.raises(InputError):
            interpret(program, *arrays)
        with pytest.raises(BoundsError):
            run_torch(program, *map(to_torch, arrays))


def test_the_size_of_a_window_is_its_width() -> None:
    program = trace(lambda x, i: x[i : i + 3], spec("n"), I64)
    assert str(program.results[0].type) == "f32[3]"
    program = trace(lambda x, i, w: x[i : i + w] + x[: w + 0], spec("n"), I64, I64)
    assert str(program.results[0].type) == "f32[w]"
    assert "assert_shape" not in str(program)


def test_integers_of_any_width_are_indices() -> None:
    for dtype in ("int8", "uint8", "int32", "uint64", "int64"):
        program = trace(lambda x, i: (x[i], x[:i]), spec("n"), spec((), dtype))
        x = array(4)
        same_as_numpy(program, lambda x=x: (x[2], x[:2]), [x, np.asarray(2, dtype)])


GATHERED = (
    # what is read; the shapes of i and j
    (lambda x, i, _: x[i], (2,), ()),
    (lambda x, i, _: x[i, :], (2, 3), ()),
    (lambda x, i, _: x[:, i], (3,), ()),
    (lambda x, i, _: x[..., i], (2, 1), ()),
    (lambda x, i, j: x[i, j], (2, 1), (3,)),
    (lambda x, i, j: x[i, :, j], (3,), (2, 1)),
    (lambda x, i, j: x[:, i, j], (2,), (2,)),
    (lambda x, i, j: x[i, None, j], (2,), (2,)),
    (lambda x, i, j: x[i, ..., j, :], (2,), (2,)),
    (lambda x, i, j: x[:, i, ..., j], (2,), (2,)),
    (lambda x, i, _: x[0, :, i], (2,), ()),
    (lambda x, i, _: x[0, i], (2,), ()),
    (lambda x, i, _: x[:, i, -1], (2,), ()),
    (lambda x, i, j: x[j, i], (2, 2), ()),
    (lambda x, i, j: x[i, :, j], (2, 2), ()),
    (lambda x, i, _: x[1:, i, ::-1], (3,), ()),
    (lambda x, i, _: x[::-1, None, :, i], (2,), ()),
    (lambda x, i, j: x[i, j, i], (3,), (1,)),
    (lambda x, i, _: x[i], (0,), ()),
)


@grouped("dtype", ["int64", "int8", "uint8"])
@grouped("row", range(len(GATHERED)))
def test_arrays_of_indices(row: int, dtype: str) -> None:
    function, *shapes = GATHERED[row]
    rng = np.random.default_rng(row)
    low = 0 if dtype.startswith("u") else -2
    places = [rng.integers(low, 2, shape).astype(dtype) for shape in shapes]
    program = read_back(trace(function, spec(("n", "m", 3)), *like(*places)))
    for n, m in ((4, 5), (2, 3)):
        arrays = [array(n, m, 3), *places]
        same_as_numpy(program, lambda arrays=arrays: function(*arrays), arrays)
        same_as_numpy(trace(function, *like(*arrays)), lambda arrays=arrays: function(*arrays), arrays)


@pytest.mark.parametrize("place", [3, -4])
@pytest.mark.parametrize("row", [0, 2, 3, 4, 5, 10])
def test_arrays_of_indices_outside(row: int, place: int) -> None:
    function, *shapes = GATHERED[row]
    places = [np.full(shape, 0) for shape in shapes]
    places[0][..., -1] = place
    arrays = [array(3, 3, 3), *places]
    same_as_numpy(trace(function, spec(("n", "m", 3)), *like(*places)), lambda: function(*arrays), arrays)


def test_index_arrays_of_unknown_size_meet() -> None:
    function = lambda x, i, j: x[i, j]  # noqa: E731
    program = read_back(trace(function, spec(("n", "m")), spec("k", "int64"), spec("l", "int64")))
    arrays = [array(3, 4), np.asarray([1, -1]), np.asarray([0, 3])]
    same_as_numpy(program, lambda: function(*arrays), arrays)
    arrays[2] = np.asarray([0, 3, 1])
    with pytest.raises(InputError, match="must be equal"):
        interpret(program, *arrays)
    with pytest.raises(PlicaError, match="must be equal"):
        run_torch(program, *map(to_torch, arrays))


MASKED = (
    lambda x, b, _: x[b],
    lambda x, _, r: x[r],
    lambda x, _, r: x[r, 1:],
    lambda x, _, r: x[r, ..., 0],
    lambda x, _, r: x[None, r],
    lambda x, b, _: x[b, 0],
    lambda x, b, _: x[None, b, None],
    lambda x, b, _: x[:, b[0]],
    lambda x, b, r: x[r][:, b[1]],
    lambda x, b, _: x[b[0, 0]],
    lambda x, b, _: x[:, b[0, 0]],
    lambda x, *_: x[True],
    lambda x, *_: x[:, False],
)


@pytest.mark.parametrize("row", range(len(MASKED)))
def test_masks(row: int) -> None:
    function = MASKED[row]
    program = read_back(trace(function, spec(("n", "m", 3)), spec(("n", "m"), "bool"), spec("n", "bool")))
    rng = np.random.default_rng(row)
    for n, m in ((4, 5), (2, 1)):
        for share in (0.0, 0.5, 1.0):
            arrays = [array(n, m, 3), rng.random((n, m)) < share, rng.random(n) < share]
            same_as_numpy(program, lambda arrays=arrays: function(*arrays), arrays)


def test_what_is_read_at_a_mask_goes_on() -> None:
    program = read_back(trace(lambda x: pnp.sum(x[x > 2] * 2) + x[x > 2].shape[0], spec("n")))
    same_as_numpy(program, lambda: np.float32(2 * (3 + 4 + 5) + 3), [array(5)])


def test_masks_of_another_size_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"the mask bool\[3\] does not fit axes 0 to 0 of f32\[4,2\]"):
        trace(lambda x, b: x[b], spec((4, 2)), spec(3, "bool"))
    program = trace(lambda x, b: x[b], spec("n"), spec("k", "bool"))
    same_as_numpy(program, lambda: array(3)[1:], [array(3), np.asarray([False, True, True])])
    with pytest.raises(InputError, match="must be equal"):
        interpret(program, array(3), np.asarray([True, True]))


@pytest.mark.parametrize("mask_shape", [(0,), (0, 4), (3, 0), (0, 0)])
@pytest.mark.parametrize("named", [(3, 4), ("n", 4), ("n", "m")])
def test_an_axis_of_size_0_of_a_mask_fits_every_axis(mask_shape: tuple[int, ...], named: Any) -> None:
    x, mask = array(3, 4), np.ones(mask_shape, bool)
    specs = spec(named), spec(mask_shape, "bool")
    read = read_back(trace(lambda x, b: x[b], *specs))
    same_as_numpy(read, lambda: x[mask], [x, mask])
    write = read_back(trace(lambda x, b: x.at[b].set(2.0), *specs))
    same_as_numpy(write, lambda: x, [x, mask])
    for convert in (np.asarray, to_torch):
        assert_same(pnp.index(convert(x), convert(mask)), x[mask])
        assert_same(pnp.at(convert(x))[convert(mask)].set(2.0), x)
        assert_same(pnp.at(convert(x))[convert(mask)].set(convert(x[mask])), x)


def test_a_mask_beside_an_axis_of_size_0_still_has_the_size_of_its_axis() -> None:
    for convert in (np.asarray, to_torch):
        with pytest.raises(IndexError, match="does not fit axes 0 to 1"):
            pnp.index(convert(array(3, 4)), convert(np.ones((0, 3), bool)))


def test_lists_and_arrays_of_the_surroundings_are_indices() -> None:
    x, kept = array(4, 3), np.asarray([True, False, True])
    functions = (
        lambda a: a[[2, -1]],
        lambda a: a[:, kept],
        lambda a: a[np.int64(1), np.asarray([0, 0])],
        lambda a: a[[[True, False, False]] * 4],
        lambda a: a[[]],
    )
    for function in functions:
        found = trace_function(function, like(x), lambda tracers: (tracers, {}), like(x)).bound
        assert len(found.leaves) == 1
        assert_same(interpret_program(found.program, OPS, [x], found.leaves)[0], function(x))
        read_back(found.program)
    for convert in (np.asarray, to_torch):
        assert_same(pnp.index(convert(x), [2, -1]), x[[2, -1]])
        assert_same(pnp.index(convert(x), (slice(None), convert(kept))), x[:, kept])


# Errors

REFUSED = (
    (lambda x: x[4], BoundsError, r"index 4 does not lie within axis 0 of size 4.*The array is f32\[4,5\]"),
    (lambda x: x[:, -6], BoundsError, "index -6 does not lie within axis 1 of size 5"),
    (lambda x: x[1, 2, 3], ShapeError, r"\[1, 2, 3\] indexes 3 axes, but f32\[4,5\] has 2"),
    (lambda x: x[..., ...], ShapeError, "has 2 ellipses, expected at most one"),
    (lambda x: x[1:2, ::-1, 3], ShapeError, r"\[1:2, ::-1, 3\] indexes 3 axes, but f32\[4,5\] has 2"),
    (lambda x: x[1.5], TraceError, "1.5 is no index"),
    (lambda x: x["a"], TraceError, "'a' is no index"),
    (lambda x: x[x], DTypeError, r"indices are integers or booleans, found f32\[4,5\]"),
    (lambda x: x[::0], ShapeError, "step of a slice is not 0"),
    (lambda x: x[: x[0, 0]], ShapeError, "a size is a scalar integer"),
    (lambda x: x[1.0:], ShapeError, "a size is a scalar integer"),
    (lambda x: x[pnp.zeros((2, 2, 2), dtype=bool)], ShapeError, r"bool\[2,2,2\]. indexes 3 axes"),
    (lambda x: x[pnp.zeros((4, 6), dtype=bool)], ShapeError, "does not fit axes 0 to 1"),
    (lambda x: x[pnp.arange(2), pnp.arange(3)], ShapeError, "do not broadcast"),
)


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row[2])
def test_keys_that_are_refused(row: Any) -> None:
    function, error, message = row
    with pytest.raises(error, match=message) as caught:
        trace(function, spec((4, 5)))
    assert "test_indexing.py:" in str(caught.value)


def test_a_slice_that_ends_beyond_its_axis_is_refused_where_that_is_known() -> None:
    with pytest.raises(BoundsError, match=r"slice 0:n\+1 does not lie within axis 0 of f32\[n\]"):
        trace(lambda x: x[: x.shape[0] + 1], spec("n"))
    with pytest.raises(BoundsError, match="does not lie within axis 0"):
        trace(lambda x, i: x[i + 2 : i], spec("n"), I64)


BEYOND = (
    (lambda x, i: x[i], 5, "index 5 does not lie within axis 0 of size 3; indices are -3 <= i < 3"),
    (lambda x, i: x[:, i], -3, "index -3 does not lie within axis 1 of size 2"),
    (lambda x, i: x[: i + 1], 3, r"slice 0:4 does not lie within axis 0 of size 3; .* never clipped"),
    (lambda x, i: x[:, i:], -1, "slice -1:2 does not lie within axis 1 of size 2"),
    (lambda x, i: x[pnp.stack([i, i])], 3, "index 3 does not lie within axis 0 of size 3"),
    (lambda x, i: x[0, pnp.stack([i, i])], -3, "index -3 does not lie within axis"),
    (lambda x, i: x[pnp.stack([i]), pnp.stack([i])], 2, "index 2 does not lie within axis 1 of size 2"),
    (lambda x, i: x.at[i].set(0), 3, "index 3 does not lie within axis 0 of size 3"),
    (lambda x, i: x.at[:, i:3].set(0), 1, "slice 1:3 does not lie within axis 1 of size 2"),
    (lambda x, i: x.at[0, pnp.stack([i])].add(1), -3, "index -3 does not lie within axis 1 of size 2"),
)


@pytest.mark.parametrize("row", BEYOND, ids=lambda row: row[2][:40])
def test_errors_name_index_axis_size_and_line(row: Any) -> None:
    function, place, message = row
    program = trace(function, spec(("n", "m")), I64)
    arrays = [array(3, 2), np.asarray(place)]
    line = rf"test_indexing\.py:{function.__code__.co_firstlineno}: "
    with pytest.raises(BoundsError, match=line + message):
        interpret(program, *arrays)
    with pytest.raises(BoundsError, match=line + message):
        run_torch(program, *map(to_torch, arrays))


# The functions of the standard


def test_take_counts_from_the_end() -> None:
    for axis in (0, 1, -1):
        function = lambda x, i, axis=axis: pnp.take(x, i, axis=axis)  # noqa: E731
        program = read_back(trace(function, spec(("n", "m", 3)), spec("k", "int64")))
        for places in ([0, -1, 1], [], [-3], [2, 3]):
            arrays = [array(3, 4, 3), np.asarray(places, "int64")]
            same_as_numpy(program, lambda a=arrays, axis=axis: np.take(a[0], a[1], axis=axis), arrays)
    assert_same(pnp.take(array(4), np.asarray([1, -1])), array(4)[[1, -1]])
    with pytest.raises(ShapeError, match="needs an axis"):
        trace(pnp.take, spec((2, 3)), spec(2, "int64"))
    with pytest.raises(ShapeError, match="one dimension"):
        trace(lambda x, i: pnp.take(x, i, axis=0), spec((2, 3)), spec((2, 2), "int64"))


def test_take_along_axis_counts_from_the_end_and_broadcasts() -> None:
    function = lambda x, i: pnp.take_along_axis(x, i, axis=1)  # noqa: E731
    for shape, places in (((3, 4), (3, 2)), ((3, 4), (1, 2)), ((1, 4), (3, 2))):
        for dtype in ("int64", "int8", "uint8"):
            i = (np.arange(np.prod(places)).reshape(places) % 4 - (0 if dtype == "uint8" else 2)).astype(dtype)
            arrays = [array(*shape), i]
            rows = max(shape[0], places[0])
            wide, at = (np.broadcast_to(a, (rows, a.shape[1])) for a in arrays)
            wanted = np.take_along_axis(wide, at, axis=1)
            same_as_numpy(trace(function, *like(*arrays)), lambda wanted=wanted: wanted, arrays)
    program = read_back(trace(function, spec(("n", "m")), spec(("n", 2), "int32")))
    arrays = [array(3, 4), np.asarray([[0, -1], [-4, 3], [1, 1]], "int32")]
    same_as_numpy(program, lambda: np.take_along_axis(arrays[0], arrays[1], axis=1), arrays)


def test_known_indices_are_taken_at_once() -> None:
    program = trace(lambda x, i: pnp.take(x, i, axis=1, nonnegative=True), spec(("n", 3)), spec("k", "int64"))
    assert [equation.op.name for equation in program.equations] == ["take"]
    program = trace(lambda x, i: pnp.take_along_axis(x, i, nonnegative=True), spec((2, 3)), spec((2, 3), "int64"))
    assert [equation.op.name for equation in program.equations] == ["take_along_axis"]


def test_nonzero() -> None:
    program = read_back(trace(pnp.nonzero, spec(("n", "m"))))
    x = array(3, 4) * (array(3, 4) % 3 == 0)
    for one in (x, x[:0], x * 0):
        same_as_numpy(program, lambda one=one: np.nonzero(one), [one])
    with pytest.raises(ShapeError, match="nonzero of the scalar"):
        trace(pnp.nonzero, spec(()))


UNIQUE = (
    np.asarray([[3.0, 1.0, 3.0], [2.0, -1.0, 1.0]]),
    np.asarray([np.nan, 1.0, np.nan, np.inf, 1.0]),
    np.asarray([], "float32"),
    np.asarray([[5, 5], [5, -7]], "int8"),
    np.asarray([True, False, True]),
    np.asarray([1 + 2j, 1 - 2j, 1 + 2j, 0]),
    np.asarray(3, "uint8"),
)


@pytest.mark.parametrize("x", UNIQUE, ids=lambda x: f"{x.dtype}{list(x.shape)}")
def test_unique(x: Array) -> None:
    values, indices, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    inverse = inverse.reshape(x.shape)
    wanted = {
        "unique_values": (values,),
        "unique_counts": (values, counts),
        "unique_inverse": (values, inverse),
        "unique_all": (values, indices, inverse, counts),
    }
    for name, results in wanted.items():
        program = read_back(trace(getattr(pnp, name), spec([f"n{axis}" for axis in range(x.ndim)], x.dtype)))
        same_as_numpy(program, lambda results=results: results, [x])
    found = pnp.unique_all(to_torch(x))
    assert_same(found.values, values)
    assert_same(found.inverse_indices, inverse)


# Derivatives


def test_derivatives() -> None:
    x = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(4, 6).requires_grad_()
    i, j = torch.tensor([1, -1, 1]), torch.tensor([[0], [3]])
    n = torch.tensor(2)
    functions = (
        lambda x, *_: (x[1:, ::-2], x[-1]),
        lambda x, i, j, n: (x[n], x[:n, n:], x[-n]),  # noqa: ARG005
        lambda x, i, j, n: (x[i], x[:, j], x[i, 0], x[j, i]),  # noqa: ARG005
        lambda x, *_: x[x > 0] * x[x > 0],
        lambda x, *_: pnp.unique_values(pnp.round(x * 0) + x) ** 2,
        lambda x, i, *_: pnp.take(x, i, axis=1),
        lambda x, i, *_: pnp.take_along_axis(x, pnp.reshape(i, (1, 3)), axis=1),
    )
    for function in functions:
        specs = [spec(("n", "m"), "float64"), spec(3, "int64"), spec((2, 1), "int64"), I64]
        program = trace(function, *specs)
        count = len(program.results)
        run = lambda x, program=program, count=count: run_torch(program, x, i, j, n)[-count:]  # noqa: E731
        assert torch.autograd.gradcheck(run, (x,))


# Properties


@given(st.data())
def test_basic_keys_are_numpys(data: st.DataObject) -> None:
    shape = data.draw(array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
    key = data.draw(basic_indices(shape, allow_newaxis=True, max_dims=6))
    x = array(*shape)
    same_as_numpy(trace(lambda x: x[key], *like(x)), lambda: x[key], [x])
    unknown = trace(lambda x: x[key], spec([f"n{axis}" for axis in range(x.ndim)]))
    same_as_numpy(unknown, lambda: x[key], [x])


@given(st.data())
def test_array_keys_are_numpys(data: st.DataObject) -> None:
    shape = data.draw(array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=4))
    places = data.draw(integer_array_indices(shape))
    kept = data.draw(st.integers(1, len(places)))
    entries: list[Any] = list(range(kept))
    for _ in range(len(shape) - kept):  # the other axes are slices, anywhere between
        entries.insert(data.draw(st.integers(0, len(entries))), None)
    mixed = [one if one is None else np.asarray(places[one] % 2 % shape[at]) for at, one in enumerate(entries)]
    x = array(*shape)

    def read(a: Any, *given: Any) -> Any:
        rest = iter(given)
        return a[tuple(slice(None, None, -1) if one is None else next(rest) for one in mixed)]

    arrays = [x, *(one for one in mixed if one is not None)]
    unknown = [spec([f"n{axis}" for axis in range(x.ndim)]), *like(*arrays[1:])]
    for specs in (like(*arrays), unknown):
        same_as_numpy(trace(read, *specs), lambda: read(*arrays), arrays)


# Text


def test_text() -> None:
    program = trace(lambda x, i, k: x[i:, None, k, -1], spec(("n", "m", 3)), I64, spec("l", "int32"))
    lines = [line.strip() for line in str(program).splitlines()[1:]]
    assert lines[:6] == [
        "a:f32[-i+n,m,3] = slice[axis=0 start=i stop=n step=1] x",
        "b:f32[-i+n,m,1] = slice[axis=2 start=2 stop=3 step=1] a",
        "c:f32[-i+n,m] = squeeze[axis=(2,)] b",
        "d:f32[-i+n,1,m] = expand_dims[axis=1] c",
        "e:f32[l,-i+n,1] = gather[axes=(2,)] d k",
        "f:f32[-i+n,1,l] = permute_dims[axes=(1,2,0)] e",
    ]
