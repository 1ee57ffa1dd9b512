"""One text serves every size; weights stand in it or are arguments; what StableHLO cannot say is refused by name."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.backend.native.stablehlo.emit import emit
from plica.errors import InputError, PlicaError, ShapeError, UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.program import Program, Var
from plica.ir.types import array_type
from plica.lower.leaves import Constant
from plica.templates.data_modalities import image_data
from tests.harness.programs import assert_same
from tests.harness.stablehlo import refined, run, run_by_iree, run_module

SIZES = (0, 1, 5)


def _shapes(x, y):
    n, m = x.shape[0], 3
    return (
        pnp.concat([x, x[: n // 2], pnp.zeros((2, m))]),
        pnp.reshape(pnp.permute_dims(pnp.stack([x, -x]), (2, 0, 1)), (m, 2 * n)),
        pnp.broadcast_to(pnp.expand_dims(x, axis=1), (n, 4, m))[:, 1:3, ::2],
        pnp.flip(x, axis=0),
        pnp.roll(x, 2, axis=0),
        pnp.tril(pnp.matmul(x, pnp.permute_dims(x, (1, 0)))),
        pnp.arange(n * n + 1),
        pnp.unstack(x, axis=1)[1] * y,
    )


def _numbers(x, y):
    return (
        pnp.logsumexp(x, axis=1),
        pnp.softmax(x, axis=1) * pnp.sum(x, axis=0),
        pnp.mean(x, axis=1) + pnp.prod(x + y, axis=1),
        pnp.cumulative_sum(x, axis=0),
        pnp.sort(x, axis=0),
        pnp.argsort(x, axis=1, descending=True),
        pnp.argmax(x, axis=1),
        pnp.any(x > 0, axis=0),
        pnp.where(x > y, pnp.exp(x), pnp.floor_divide(x, 0.75)),
        pnp.isin(x, pnp.reshape(x[: x.shape[0] // 2], (-1,))),
    )


def _places(x, y):
    places = pnp.arange(x.shape[0])
    return (
        pnp.take(x, pnp.arange(2) * 2, axis=1),
        pnp.take_along_axis(x, pnp.expand_dims(places % 3, axis=1), axis=1),
        x[:, 1] + y,
        x.at[:, 0].set(y),
        x.at[places, places % 3].add(10.0),
        pnp.einsum("na,nb->nab", x, x * 2),
        pnp.linalg.vector_norm(x, axis=1),
    )


def _control(x, y):
    n = x.shape[0]

    @plica.for_loop(0, n)
    def sums(i, total):
        return total + x[i] * pnp.astype(i, "float64")

    @plica.while_loop(lambda z: pnp.sum(z) > 1.0)
    def halves(z):
        return z * 0.5

    @plica.cond(pnp.sum(x) > 0.0)
    def scaled(z):
        return z * 2.0 + y

    @scaled.otherwise
    def scaled(z):
        return z - 1.0

    def step(carry, row):
        carry = carry * 0.5 + row
        return carry, pnp.sum(carry)

    return (
        sums(pnp.zeros((3,), dtype="float64")),
        halves(pnp.abs(x)),
        scaled(x),
        *plica.scan(step, pnp.zeros((3,), dtype="float64"), x),
        *plica.scan(step, pnp.zeros((3,), dtype="float64"), x, reverse=True),
    )


@pytest.mark.parametrize("function", [_shapes, _numbers, _places, _control], ids=lambda one: one.__name__[1:])
def test_one_text_serves_all_sizes(function) -> None:
    program = plica.trace(function, plica.spec(("n", 3), "float64"), plica.spec((), "float64"))
    text = emit(program)
    rng = np.random.default_rng(0)
    for size in SIZES:
        arrays = rng.normal(size=(size, 3)), np.asarray(0.25)
        expected = plica.interpret(program, *arrays)
        for one, other in zip(run(text, *arrays), expected, strict=True):
            assert_same(one, other)


RUNNERS = [run_module, pytest.param(run_by_iree, marks=pytest.mark.full)]


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("function", [_shapes, _numbers, _places, _control], ids=lambda one: one.__name__[1:])
def test_a_text_for_given_sizes_is_compiled_as_it_is(function, runner) -> None:
    program = plica.trace(function, plica.spec(("n", 3), "float64"), plica.spec((), "float64"))
    rng = np.random.default_rng(0)
    for size in SIZES:
        text = emit(program, sizes={"n": size})
        assert "?" not in text
        assert "dynamic" not in text.replace("dynamic_slice", "").replace("dynamic_update_slice", "")
        arrays = rng.normal(size=(size, 3)), np.asarray(0.25)
        for one, other in zip(runner(text, arrays), plica.interpret(program, *arrays), strict=True):
            assert_same(one, other)


@pytest.mark.full
@pytest.mark.parametrize(("side", "height", "units"), [(2, 1, 2), pytest.param(3, 3, 4, marks=pytest.mark.full)])
def test_iree_takes_the_text_of_a_circuit_for_a_given_number_of_rows(side: int, height: int, units: int) -> None:
    program, leaves = _circuit(side, height, units=units)
    x = np.random.default_rng(1).integers(17, size=(4, height * side))
    (expected,) = plica.interpret(program, x, consts=leaves)
    assert_same(run_by_iree(emit(program, leaves, sizes={"b": 4}), [x])[0], expected, 4.0)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"m": 3}, "sizes: expected one of n, found 'm'"),
        ({"n": -1}, "sizes: expected n from 0 to 2147483647, found -1"),
        ({"n": 2.0}, "sizes: expected n from 0 .* found 2.0"),
        ({"n": True}, "sizes: expected n from 0 .* found True"),
        ([3], "sizes: expected numbers by name, .* found .3."),
    ],
)
def test_sizes_that_there_are_not_are_refused(sizes, message: str) -> None:
    program = plica.trace(lambda x: x * 2.0, plica.spec(("n",), "float32"))
    with pytest.raises(InputError, match=message):
        emit(program, sizes=sizes)


_CONTRADICTED = {
    "reshape": lambda x, y: pnp.reshape(pnp.concat([x, y]), (2, -1)),
    "add": lambda x, y: x + y,
    "branch": lambda x, y: plica.cond(pnp.sum(x) > 0.0, lambda: x * y, lambda: y),
    "loop": lambda x, y: plica.for_loop(0, 2, 1, lambda _, carry: carry + x, y),
    "concat": lambda x, y: pnp.concat([x, y]) + pnp.concat([y, x]),
}


@pytest.mark.parametrize("name", _CONTRADICTED)
def test_sizes_that_contradict_each_other_are_refused_as_arrays_are(name: str) -> None:
    program = plica.trace(_CONTRADICTED[name], plica.spec(("n",), "float32"), plica.spec(("m",), "float32"))
    for n, m in itertools.product((2, 3, 4), repeat=2):
        arrays = np.arange(n, dtype="float32"), np.arange(m, dtype="float32") - 1.0
        sizes: Any = {"n": np.int64(n), "m": m}
        try:
            expected = plica.interpret(program, *arrays)
        except PlicaError:
            with pytest.raises(ShapeError, match=r"test_emit.py:\d+: .*with the given sizes, expected an array"):
                emit(program, sizes=sizes)
            continue
        for one, other in zip(run_module(emit(program, sizes=sizes), arrays), expected, strict=True):
            assert_same(one, other)


def _circuit(side: int, height: int = 0, units: int = 4) -> tuple[Program, list[np.ndarray]]:
    """The log-space Program of the demo's circuit, smaller, and its leaves."""
    circuit = image_data(
        (1, height or side, side),
        "quad-tree-2",
        input_layer="categorical",
        num_values=17,
        num_input_units=units,
        sum_product_layer="cp",
        num_sum_units=units,
    )
    compiled = plica.compile(circuit)
    lowered, tensors = compiled.lowered(torch.int64), dict(compiled.leaves.items())
    leaves = [one.value if isinstance(one, Constant) else tensors[one].numpy(force=True) for one in lowered.captured]
    return lowered.program, leaves


@pytest.mark.parametrize("side", [3, pytest.param(8, marks=pytest.mark.full)])
def test_a_circuit_with_its_weights_in_the_text(side: int) -> None:
    program, leaves = _circuit(side)
    text = emit(program, leaves)
    assert text.count("%arg0: ") == 1
    assert "%arg1" not in text
    for size in SIZES[::2]:
        x = np.random.default_rng(size).integers(17, size=(size, side**2))
        x[1:2, 3] = 99  # no category: NaN for that row alone
        found = run(text, x)
        (expected,) = plica.interpret(program, x, consts=leaves)
        assert_same(found[0], expected, 4.0)
        assert np.isnan(expected).sum() == (size > 1)


def test_weights_may_be_arguments() -> None:
    program, leaves = _circuit(3)
    text = emit(program)
    assert all(f"// {var.name}: {var.type}\n" in text for var in (*program.consts, *program.arguments))
    x = np.random.default_rng(0).integers(17, size=(3, 9))
    (expected,) = plica.interpret(program, x, consts=leaves)
    assert_same(run(text, *leaves, x)[0], expected, 4.0)


def test_the_text() -> None:
    program = plica.trace(lambda x: pnp.concat([x, x]) * 2.0, plica.spec(("n",), "float32"))
    assert emit(program, name="twice") == (
        "// x: f32[n]\n"
        "module @twice {\n"
        "  func.func public @main(%arg0: tensor<?xf32>) -> (tensor<?xf32>) {\n"
        '    %1 = "stablehlo.get_dimension_size"(%arg0) <{dimension = 0 : i64}> : (tensor<?xf32>) -> tensor<i32>\n'
        '    %2 = "stablehlo.convert"(%1) : (tensor<i32>) -> tensor<i64>\n'
        "    %4 = stablehlo.constant dense<0x40000000> : tensor<f32>\n"
        "    %5 = stablehlo.constant dense<2> : tensor<i64>\n"
        '    %6 = "stablehlo.multiply"(%2, %5) : (tensor<i64>, tensor<i64>) -> tensor<i64>\n'
        '    %7 = "stablehlo.reshape"(%6) : (tensor<i64>) -> tensor<1xi64>\n'
        '    %3 = "stablehlo.concatenate"(%arg0, %arg0) <{dimension = 0 : i64}> '
        ": (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>\n"
        '    %8 = "stablehlo.dynamic_broadcast_in_dim"(%4, %7) <{broadcast_dimensions = array<i64>}> '
        ": (tensor<f32>, tensor<1xi64>) -> tensor<?xf32>\n"
        '    %9 = "stablehlo.multiply"(%3, %8) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>\n'
        "    return %9 : tensor<?xf32>\n"
        "  }\n"
        "}\n"
    )


def test_sizes_that_were_named_alike_and_differ_are_refused_when_shapes_are_put_in() -> None:
    text = emit(plica.trace(lambda x, y: x + y, *[plica.spec(("n",), "float32")] * 2))
    with pytest.raises(Exception, match=r"2.*3|3.*2"):
        refined(text, [((2,), "float32"), ((3,), "float32")])


def _growing(x):
    @plica.for_loop(0, 3)
    def longer(i, found):  # noqa: ARG001 - loops give it
        return pnp.concat([found, x])

    return longer(x)


def _branching(x):
    @plica.cond(pnp.sum(x) > 0.0)
    def either():
        return pnp.concat([x, x])

    @either.otherwise
    def either():
        return x

    return either()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_growing, "test_emit.py:[0-9]+.*for_loop: the size of a carried array changes between iterations"),
        (_branching, "test_emit.py:[0-9]+.*cond: the branches return results of different sizes"),
        (lambda x: x[x > 0.0], "nonzero: the size .* depends on the values of arrays"),
    ],
)
def test_sizes_that_depend_on_data_are_refused_by_name(function, message: str) -> None:
    program = plica.trace(function, plica.spec(("n",), "float32"))
    with pytest.raises(UnsupportedError, match=message):
        emit(program)


def test_a_size_that_is_an_argument_is_refused_by_name() -> None:
    program = plica.trace(lambda n: pnp.zeros((n,)), int)
    with pytest.raises(
        UnsupportedError, match=r"full: the size n of .* depends on the values of arrays; .* --to native"
    ):
        emit(program)


def test_a_slice_may_start_where_data_says() -> None:
    program = plica.trace(lambda x, i: x[i : i + 2], plica.spec(("n",), "float32"), int)
    (found,) = run(emit(program), np.arange(5, dtype="float32"), np.int64(2))
    assert found.tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    "leaf",
    [
        np.asarray([[True, False], [False, True]]),
        np.asarray([0.5]),
        np.asarray(-0.0, "float32"),
        np.zeros((0, 3), "int16"),
        np.asarray([1 + 2j, np.inf - 1j], "complex64"),
        np.asarray([2**64 - 1, 1], "uint64"),
        np.asarray([np.nan, -np.inf, 5e-324]),
        np.arange(3.0).astype(">f8"),
    ],
    ids=lambda one: f"{one.dtype}{list(one.shape)}",
)
def test_constants_keep_every_bit(leaf: np.ndarray) -> None:
    const = Var("c", array_type(leaf.shape, DType(leaf.dtype.name)))
    program = Program((const,), (), (), (const,))
    (found,) = run(emit(program, [leaf]))
    assert found.tobytes() == leaf.astype(leaf.dtype.newbyteorder("=")).tobytes()
