"""Functions of the namespace on sizes that are not known yet: types, checks at run time, and what is refused."""
# ruff: noqa: ARG005 - the tables hold functions of one array

import numpy as np
import pytest

import plica.numpy as pnp
from plica.errors import DTypeError, InputError, ShapeError, TraceError, UnsupportedError
from plica.frontend.programs import interpret, trace
from plica.ir.types import spec
from tests.harness.programs import run_torch, to_torch
from tests.harness.together import grouped

X, V = spec(("n", "m")), spec(("n",))
TYPES = (
    # a function of x:f32[n,m], and the types of its results
    (lambda x: pnp.arange(x.shape[0]), "i64[n]"),
    (lambda x: pnp.arange(1, x.shape[0] + 1), "i64[n]"),
    (lambda x: pnp.arange(0, 2 * x.shape[0], 2), "i64[n]"),
    (lambda x: pnp.linspace(0, 1, x.shape[0] + x.shape[1]), "f64[m+n]"),
    (lambda x: pnp.eye(x.shape[0]), "f64[n,n]"),
    (lambda x: pnp.eye(x.shape[0], x.shape[1] * 2, dtype="bool"), "bool[n,2*m]"),
    (lambda x: pnp.reshape(x, (-1,)), "f32[m*n]"),
    (lambda x: pnp.reshape(x, (x.shape[1], -1)), "f32[m,n]"),
    (lambda x: pnp.reshape(pnp.concat([x, x]), (2, -1, x.shape[1])), "f32[2,n,m]"),
    (lambda x: pnp.tile(x, (2, x.shape[0])), "f32[2*n,m*n]"),
    (lambda x: pnp.repeat(x, 3, axis=0), "f32[3*n,m]"),
    (lambda x: pnp.repeat(x, x.shape[1]), "f32[m^2*n]"),
    (lambda x: pnp.cumulative_sum(x, axis=1, include_initial=True), "f32[n,m+1]"),
    (lambda x: pnp.meshgrid(x[:, 0], x[0, :])[0], "f32[m,n]"),
    (lambda x: pnp.meshgrid(x[:, 0], x[0, :], indexing="ij")[0], "f32[n,m]"),
    (lambda x: pnp.stack([x, x], axis=1), "f32[n,2,m]"),
    (lambda x: pnp.argmax(x, keepdims=True), "i64[1,1]"),
    (lambda x: pnp.broadcast_arrays(x, pnp.ones(x.shape[1]))[1], "f64[n,m]"),
    (lambda x: pnp.asarray(x.shape), "i64[2]"),
    (lambda x: pnp.pow(x.shape[0], 2), "i64[]"),
    (lambda x: pnp.ones(x.shape[0] ** 2) + pnp.ones(x.shape[0] * x.shape[0]), "f64[n^2]"),
    (lambda x: pnp.mean(x, axis=0) * x.shape[0], "f32[m]"),
    (lambda x: pnp.divide(x.shape[0], 2) * x, "f32[n,m]"),
    (lambda x: pnp.var(x, correction=1), "f32[]"),
    (lambda x: pnp.roll(x, x.shape[0], axis=0), "f32[n,m]"),
    (lambda x: pnp.diff(pnp.concat([x, x[:1]]), axis=0, prepend=0), None),
)


@pytest.mark.parametrize("number", range(len(TYPES)))
def test_types_of_results(number: int) -> None:
    function, expected = TYPES[number]
    (result,) = trace(function, X).results
    assert expected is None or str(result.type) == expected


CHECKED = (
    # a function of v:f32[n], a size at which it runs, the shape of its result, and a size at which it does not
    (lambda v: pnp.reshape(v, (2, -1)), 6, (2, 3), 5),
    (lambda v: pnp.reshape(v, (2, 3)), 6, (2, 3), 5),
    (lambda v: pnp.reshape(pnp.tile(v, (2, 1)), (3, 4)), 6, (3, 4), 5),
    (lambda v: pnp.squeeze(v, 0), 1, (), 2),
    (lambda v: pnp.broadcast_to(v, (2, 3)), 3, (2, 3), 1),
    (lambda v: pnp.broadcast_arrays(v, pnp.ones(3))[0], 3, (3,), 1),
    (lambda v: pnp.broadcast_arrays(pnp.ones((2, 3)), v)[1], 3, (2, 3), 1),
    (lambda v: pnp.stack([v, pnp.ones(3, dtype="float32")]), 3, (2, 3), 1),
    (lambda v: v + pnp.ones(4), 4, (4,), 1),
    (lambda v: pnp.clip(v, pnp.zeros(3), 1.0), 3, (3,), 4),
    (lambda v: pnp.where(v > 0, pnp.ones(3), 0.0), 3, (3,), 1),
    (lambda v: pnp.repeat(v, pnp.asarray([1, 2, 0])), 3, (3,), 2),
)


@pytest.mark.parametrize("number", range(len(CHECKED)))
def test_sizes_are_checked_when_a_program_runs(number: int) -> None:
    function, good, shape, bad = CHECKED[number]
    program = trace(function, V)
    consts = [np.asarray([1, 2, 0])] if program.consts else []
    (found,) = interpret(program, np.arange(good, dtype="float32"), consts=consts)
    assert found.shape == shape
    with pytest.raises(InputError, match="paired sizes must be equal"):
        interpret(program, np.arange(bad, dtype="float32"), consts=consts)
    if not consts:
        assert run_torch(program, to_torch(np.arange(good, dtype="float32")))[0].shape == shape
        with pytest.raises(InputError, match="paired sizes must be equal"):
            run_torch(program, to_torch(np.arange(bad, dtype="float32")))


REFUSED = (
    # a function of x:f32[n,m], the error, part of the message
    (lambda x: pnp.ones(x.shape[0]) + pnp.ones(x.shape[0] + 1), ShapeError, "do not broadcast: n against n.1"),
    (lambda x: pnp.reshape(x, (-1, -1)), ShapeError, "-1 stands for one size"),
    (lambda x: pnp.reshape(x, (0, -1)), ShapeError, "-1 stands for one size"),
    (lambda x: pnp.reshape(x, (2.0, -1)), ShapeError, "a size is a scalar integer, found float 2.0"),
    (
        lambda x: pnp.reshape(pnp.ones((2, 3)), (4, -1)),
        ShapeError,
        r"\(2, 3\) cannot become \(4, -1\): 6 elements are no multiple of 4",
    ),
    (lambda x: pnp.ones(x), ShapeError, r"a size is a scalar integer, found f32\[n,m\]"),
    (lambda x: pnp.ones(-1), ShapeError, "negative size -1"),
    (lambda x: pnp.unstack(x), ShapeError, r"axis 0 of f32\[n,m\] is long, which is not known .*plica.for_loop"),
    (lambda x: pnp.concat([]), ShapeError, "concat joins one array or more, found none"),
    (lambda x: pnp.stack([]), ShapeError, "stack joins one array or more, found none"),
    (lambda x: pnp.concat([x, x[0]]), ShapeError, "must have equal sizes outside axis 0"),
    (lambda x: pnp.moveaxis(x, (0, 1), 0), ShapeError, "2 axes and 1 places"),
    (lambda x: pnp.moveaxis(x, (0, 0), (0, 1)), ShapeError, "named twice"),
    (lambda x: pnp.matrix_transpose(x[0]), ShapeError, "takes matrices"),
    (lambda x: pnp.squeeze(pnp.ones((2, 1)), 0), ShapeError, "has size 2, so it cannot be squeezed"),
    (lambda x: pnp.roll(x, (1, 2, 3), axis=(0, 1)), ShapeError, r"3 shift\(s\) for 2 axes"),
    (lambda x: pnp.repeat(x, pnp.ones(3)), DTypeError, "an array of one dimension of integers, found f64"),
    (lambda x: pnp.meshgrid(x), ShapeError, "meshgrid takes arrays of one dimension"),
    (lambda x: pnp.meshgrid(x[0], indexing="yx"), ShapeError, "'xy' or 'ij', found 'yx'"),
    (lambda x: pnp.arange(0, x.shape[0], 0), ShapeError, "a step that is not 0"),
    (lambda x: pnp.linspace(0, 1, -1), ShapeError, "num is 0 or more"),
    (lambda x: pnp.diff(x, n=-1), ShapeError, "n is 0 or more"),
    (lambda x: pnp.cumulative_sum(x), ShapeError, "cumulative_sum of .* needs an axis"),
    (lambda x: pnp.cumulative_prod(x), ShapeError, "cumulative_prod of .* needs an axis"),
    (lambda x: pnp.pow(pnp.arange(3), -1), DTypeError, "to the power -1 is no integer"),
    (lambda x: pnp.sort(pnp.astype(x, "complex64")), DTypeError, "found complex64"),
    (lambda x: pnp.sort(pnp.ones(())), ShapeError, "axis -1 does not exist"),
    (lambda x: pnp.max(pnp.ones((0, 2)), axis=0), ShapeError, "an axis of size 0"),
    (lambda x: pnp.asarray(["a"]), DTypeError, "asarray needs numbers and arrays"),
    (lambda x: pnp.asarray("a"), TraceError, "needs an array, found str"),
    (lambda x: pnp.zeros_like(x, device="cuda"), UnsupportedError, "a program runs wherever its arguments are"),
    (lambda x: pnp.bitwise_left_shift(x, 1), DTypeError, "found float32, expected int"),
    (lambda x: pnp.less(pnp.astype(x, "complex64"), 1), DTypeError, "found complex64, expected int or float"),
)


@grouped("number", range(len(REFUSED)))
def test_what_does_not_fit_is_refused(number: int) -> None:
    function, error, message = REFUSED[number]
    with pytest.raises(error, match=message):
        trace(function, X)


def test_a_list_of_numbers_is_a_captured_constant() -> None:
    program = trace(lambda x: x + pnp.asarray([[1.0], [2.0]]), spec((2, "n")))
    assert [str(one.type) for one in program.consts] == ["f64[2,1]"]
    assert len(program.equations) == 2


def test_outer_arrays_are_captured_by_reference() -> None:
    outer = np.asarray([1.0, 2.0, 3.0])
    for function in (
        lambda x: pnp.sum(outer) + x,
        lambda x: pnp.reshape(outer, (3, 1)) + x,
        lambda x: pnp.sort(outer) + x,
        lambda x: pnp.concat([outer, x]),
        lambda x: pnp.zeros_like(outer) + x,
        lambda x: pnp.clip(x, outer, pnp.add(outer, 1)),
    ):
        program = trace(function, spec(3, "float64"))
        assert [str(one.type) for one in program.consts] == ["f64[3]"]
