"""Products of arrays of any rank: traced with unknown sizes, eager, and numpy's own, in value, shape and dtype."""

import numpy as np
import pytest
import torch

import plica.numpy as pnp
from plica.errors import DTypeError, InputError, ShapeError
from plica.frontend.programs import interpret, trace, verify
from plica.ir.types import spec
from tests.harness.programs import assert_same, run_torch, to_torch

SIZES = ({"b": 2, "n": 3, "m": 4}, {"b": 1, "n": 5, "m": 2}, {"b": 0, "n": 2, "m": 3})
DTYPES = ("int32", "float32", "complex128")


def array(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-4, 5, shape).astype("float64")
    return (numbers + 1j * rng.integers(-4, 5, shape) if dtype.startswith("complex") else numbers).astype(dtype)


def check(call, reference, shapes, sizes, dtype):
    """`call` on tracers of unknown sizes, run by both backends, and at once on both kinds of arrays."""
    arrays = [array([sizes.get(size, size) for size in shape], dtype, seed) for seed, shape in enumerate(shapes)]
    program = trace(call, *[spec(shape, dtype) for shape in shapes])
    verify(program)
    expected = np.asarray(reference(*arrays))
    assert_same(interpret(program, *arrays)[0], expected)
    assert_same(run_torch(program, *map(to_torch, arrays))[0], expected)
    assert_same(call(*arrays), expected)
    assert_same(call(*map(to_torch, arrays)), expected)


MATMUL = (
    ("n", "n"),
    ("n", ("n", "m")),
    (("m", "n"), "n"),
    (("b", "m", "n"), "n"),
    ("n", ("b", "n", "m")),
    (("b", "m", "n"), ("n", "m")),
    (("m", "n"), ("b", "n", 2)),
    ((3, "b", "m", "n"), ("b", "n", 1)),
    ((3, 1, "m", "n"), ("b", "n", "m")),
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", MATMUL, ids=str)
def test_matmul(shapes, dtype) -> None:
    for sizes in SIZES:
        check(pnp.matmul, np.matmul, [(one,) if isinstance(one, str) else one for one in shapes], sizes, dtype)


VECDOT = (
    ((("n",), ("n",)), -1),
    ((("n",), ("n",)), 0),
    ((("b", "n"), ("n",)), -1),
    ((("b", 1, "n"), ("b", "m", "n")), -1),
    ((("n", "m"), ("n", "m")), 0),
    ((("b", "n", "m"), ("n", 1)), -2),
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shapes", "axis"), VECDOT, ids=str)
def test_vecdot(shapes, axis, dtype) -> None:
    for sizes in SIZES:
        check(
            lambda x, y: pnp.vecdot(x, y, axis=axis),
            lambda x, y: np.vecdot(np.moveaxis(x, axis, -1), np.moveaxis(y, axis, -1)),
            shapes,
            sizes,
            dtype,
        )


TENSORDOT = (
    ((("b", "n", "m"), ("n", "m", 2)), 2),
    ((("b", "n"), ("n", "m")), 1),
    ((("n",), ("m",)), 0),
    (((), ("m",)), 0),
    ((("b", "n", "m"), ("m", 2, "n")), ((-1, 1), (0, 2))),
    ((("b", "n"), ("n", "b")), ([0, 1], [1, 0])),
    ((("b", "n"), ("m", "b")), ((0,), (1,))),
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shapes", "axes"), TENSORDOT, ids=str)
def test_tensordot(shapes, axes, dtype) -> None:
    for sizes in SIZES:
        check(
            lambda x, y: pnp.tensordot(x, y, axes=axes),
            lambda x, y: np.tensordot(x, y, axes=axes).astype(dtype),
            shapes,
            sizes,
            dtype,
        )


def test_tensordot_sums_two_axes_unless_told() -> None:
    check(pnp.tensordot, np.tensordot, [("b", "n", "m"), ("n", "m", 2)], SIZES[0], "float32")


EINSUM = (
    ("ab,bc->ca", (("b", "n"), ("n", "m"))),
    ("ab, cb", (("b", "n"), ("m", "n"))),
    ("ba", (("b", "n"),)),
    ("aa->a", (("n", "n"),)),
    ("aa", (("n", "n"),)),
    ("aab->ab", (("n", "n", "m"),)),
    ("aba,b->a", (("n", "m", "n"), ("m",))),
    ("...ab,...bc->...ac", (("b", "n", "m"), ("m", "n"))),
    ("...ab,...bc", (("b", 1, "n", "m"), (3, "m", "n"))),
    ("...a,...a->...", (("b", 1, "n"), (1, "m", "n"))),
    ("a...b->b...a", (("n", "b", 1, "m"),)),
    ("a...,a", (("n", "b"), ("n",))),
    ("...,...->...", (("b", "n"), ("n",))),
    ("...,...", ((1, "n"), ("b", 1))),
    ("...", (("b", 1),)),
    (",a->a", ((), ("n",))),
    ("ab,bc,cd->ad", (("b", "n"), ("n", "m"), ("m", "b"))),
)


@pytest.mark.parametrize(("equation", "shapes"), EINSUM, ids=str)
def test_einsum(equation, shapes) -> None:
    for sizes in SIZES:
        for dtype in DTYPES:
            check(
                lambda *xs: pnp.einsum(equation, *xs),
                lambda *xs: np.einsum(equation, *xs).copy(),
                shapes,
                sizes,
                dtype,
            )


def test_dtypes_are_promoted() -> None:
    x, y = array((2, 3), "int32"), array((3, 2), "float64")
    for found in (pnp.matmul(x, y), pnp.tensordot(x, y, axes=1), pnp.einsum("ab,bc", x, y), pnp.vecdot(x, y.T)):
        assert found.dtype == np.float64


def test_sizes_that_may_differ_are_compared_when_the_program_runs() -> None:
    program = trace(pnp.matmul, spec(("n", "m")), spec(("k",)))
    x, y = array((2, 3), "float32"), array((3,), "float32")
    assert_same(interpret(program, x, y)[0], x @ y)
    assert_same(run_torch(program, to_torch(x), to_torch(y))[0], x @ y)
    for run in (lambda: interpret(program, x, y[:2]), lambda: run_torch(program, to_torch(x), to_torch(y[:2]))):
        with pytest.raises(InputError, match=r"shape \(2,\), but \(3,\) is needed"):
            run()


REFUSED = (
    (lambda x, _: pnp.matmul(x, 2.0), ShapeError, "matmul takes no scalars"),
    (lambda x, y: pnp.matmul(x > 0, y > 0), DTypeError, "found bool"),
    (lambda x, _: pnp.matmul(x, x), ShapeError, "3 against 2"),
    (lambda x, y: pnp.vecdot(x, y[0], axis=0), ShapeError, "counts axes from the end, found 0"),
    (lambda x, y: pnp.vecdot(x, y[:, :2]), ShapeError, "3 against 2"),
    (lambda x, y: pnp.tensordot(x, y, axes=3), ShapeError, "tensordot cannot contract 3 axes"),
    (lambda x, y: pnp.tensordot(x, y, axes=-1), ShapeError, "tensordot cannot contract -1 axes"),
    (lambda x, y: pnp.tensordot(x, y, axes=((0,), (0, 1))), ShapeError, "tensordot pairs axes"),
    (lambda x, y: pnp.tensordot(x, y, axes=((0, 0), (0, 1))), ShapeError, "tensordot pairs axes, each named once"),
    (lambda x, y: pnp.tensordot(x, y, axes=((2,), (0,))), ShapeError, "axis 2 does not exist"),
    (lambda x, y: pnp.tensordot(x, y, axes=((0,), (1,))), ShapeError, "axis 'a' is both 2 and 3"),
    (lambda x, y: pnp.einsum("ab,ab,ab", x, y), ShapeError, "one term for each of 2 operands"),
    (lambda x, _: pnp.einsum("abc", x), ShapeError, "the term 'abc' does not fit"),
    (lambda x, _: pnp.einsum("ab->aa", x), ShapeError, "must occur once there"),
    (lambda x, _: pnp.einsum("ab->ac", x), ShapeError, "must occur once there and in an operand"),
    (lambda x, _: pnp.einsum("...abc", x), ShapeError, "a term has more letters than its operand has axes"),
    (lambda x, _: pnp.einsum("...a->a", x), ShapeError, "the result needs '...' too"),
    (lambda x, _: pnp.einsum("a..->a", x), ShapeError, "does not fit"),
    (lambda x, _: pnp.einsum("...,...", x, x[:, :2]), ShapeError, "is both 3 and 2"),
)


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row[2])
def test_misfits_are_refused(row) -> None:
    call, error, message = row
    with pytest.raises(error, match=message.replace("(", r"\(").replace(".", r"\.")):
        call(torch.zeros(2, 3), torch.zeros(2, 3))
