"""bfloat16 through both backends: operations, control flow, arguments and results of numpy, constants."""

import ml_dtypes
import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import DTypeError, ShapeError
from plica.ops import ELEMENTWISE, OPS
from tests.harness.samples import SAMPLES
from tests.harness.together import grouped

BF16 = np.dtype(ml_dtypes.bfloat16)
EPS = float(ml_dtypes.finfo(BF16).eps)
BACKENDS = ["torch", "interpreter"]
X = np.linspace(-2.0, 3.0, 12).reshape(3, 4).astype(BF16)


def _wide(value):
    return np.asarray(value).astype("float64")


def _near(found, expected, scale=1.0):
    assert np.asarray(found).dtype == np.asarray(expected).dtype == BF16
    limit = 2 * EPS * scale * np.maximum(1.0, np.abs(_wide(expected)))
    assert np.array_equal(np.isnan(_wide(found)), np.isnan(_wide(expected)))
    assert not (np.abs(_wide(found) - _wide(expected)) > limit).any()


def _unary():
    """Elementwise operations of one array of floats that give one."""
    for row in ELEMENTWISE:
        inputs = [case.inputs for case in SAMPLES if case.op == row.name and not case.params]
        if any(len(one) == 1 and one[0].dtype == np.float32 for one in inputs):
            yield row.name


@grouped("name", list(_unary()))
def test_elementwise_operations_agree_between_backends(name) -> None:
    sample = next(
        case.inputs[0] for case in SAMPLES if case.op == name and [one.dtype for one in case.inputs] == [np.float32]
    ).astype(BF16)
    shape = "2,3" if sample.shape == (2, 3) else ",".join(map(str, sample.shape))
    (type_,) = OPS[name].types([plica.parse(f"{{ lambda ; x:bf16[{shape}] . let in (x,) }}").results[0].type], {})
    program = plica.parse(f"{{ lambda ; x:bf16[{shape}] . let a:{type_} = {name} x in (a,) }}")
    (expected,) = plica.interpret(program, sample)
    found = plica.jit(program)(sample)
    if expected.dtype == BF16:
        _near(found, expected, scale=OPS[name].tolerance)
    else:
        assert np.array_equal(found, expected)


FUNCTIONS = {
    "matmul": lambda x: x @ pnp.permute_dims(x, (1, 0)),
    "sum": pnp.sum,
    "mean": lambda x: pnp.mean(x, axis=0),
    "softmax": pnp.softmax,
    "nextafter": lambda x: pnp.nextafter(x, x + 1),
    "sort": lambda x: pnp.sort(x, axis=1, descending=True),
    "take": lambda x: pnp.take(x, pnp.asarray([2, 0]), axis=0),
    "where": lambda x: pnp.where(x > 0, x, 0),
    "concat": lambda x: pnp.concat([x, x * 2]),
    "update": lambda x: x.at[1].set(7).at[:, 0].add(1),
    "full": lambda x: x + pnp.full((3, 4), 0.5, dtype="bfloat16"),
    "literal": lambda x: x * 0.1 + 1,
    "pack": lambda x: pnp.pack(x, inner_dims_pos=(0, 1), inner_tiles=(3, 2)),
    "loop": lambda x: plica.for_loop(0, 3)(lambda _, a: a * 0.5 + x)(x),
    "branch": lambda x: plica.cond(pnp.sum(x) > 0, lambda: x * 2, lambda: x),
    "casts": lambda x: pnp.astype(pnp.astype(x, "float32") * 3, "bfloat16"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_agree_between_backends_and_kinds_of_array(name) -> None:
    program = plica.trace(FUNCTIONS[name], plica.spec((3, 4), "bfloat16"))
    assert plica.parse(str(program)) == program
    found = [plica.jit(FUNCTIONS[name], backend=backend)(X) for backend in BACKENDS]
    _near(found[0], found[1], scale=4.0)
    tensor = torch.from_numpy(X.astype("float32")).to(torch.bfloat16)
    for backend, one in zip(BACKENDS, found, strict=True):
        result = plica.jit(FUNCTIONS[name], backend=backend)(tensor)
        assert result.dtype == torch.bfloat16
        assert np.array_equal(result.float().numpy(), np.asarray(one).astype("float32"))


COMPARING = {
    "sort": lambda x: pnp.sort(x, axis=-1),
    "argsort": lambda x: pnp.argsort(x, axis=-1, descending=True),
    "searchsorted": lambda x: pnp.searchsorted(pnp.sort(pnp.reshape(x, (-1,))), x[0]),
    "nonzero": lambda x: pnp.nonzero(x),
    "unique_all": lambda x: pnp.unique_all(pnp.reshape(x, (-1,))),
    "argmax": lambda x: pnp.argmax(x, axis=0),
    "argmin": lambda x: pnp.argmin(x),
    "count_nonzero": lambda x: pnp.count_nonzero(x, axis=1),
    "isin": lambda x: pnp.isin(x, x[0]),
    "cumulative_sum": lambda x: pnp.cumulative_sum(x, axis=1),
}


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_machine_code_compares_numbers_of_16_bits(dtype, special) -> None:
    """All functions in one compilation."""
    x = np.asarray([[1.5, 0.0, -2.0, 1.5], [0.25, -0.0, 3.0, -2.0], [0.0, 0.25, 1.5, 0.0]]).astype(dtype)
    if special:
        x[0, 1], x[1, 0], x[2, 3] = np.inf, -np.inf, np.nan

    def each(x):
        results = [function(x) for function in COMPARING.values()]
        return [array for result in results for array in (result if isinstance(result, tuple) else (result,))]

    found, expected = (plica.jit(each, backend=backend)(x) for backend in ("native", "interpreter"))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(_wide(one), _wide(other))


def test_neighbours_are_those_of_the_dtype() -> None:
    one = np.ones(1, BF16)
    for backend in BACKENDS:
        assert plica.jit(pnp.nextafter, backend=backend)(one, 2 * one).tolist() == [1 + EPS]


def test_dtypes_meet_and_have_limits() -> None:
    assert pnp.result_type("bfloat16", "float16") == pnp.float32
    assert pnp.result_type("bfloat16", "float64") == pnp.float64
    assert pnp.result_type("bfloat16", "int64") == pnp.bfloat16
    assert pnp.result_type("bfloat16", "complex64") == pnp.complex64
    assert pnp.bfloat16 == torch.bfloat16
    assert pnp.bfloat16 == BF16
    assert (pnp.finfo(pnp.bfloat16).eps, pnp.finfo("bfloat16").bits) == (2.0**-7, 16)


def test_what_there_is_not_in_bfloat16_is_refused() -> None:
    x = plica.spec((4,), "bfloat16")
    with pytest.raises(ShapeError, match=r"Fourier transforms do not take bf16\[4\]; convert it to float32"):
        plica.trace(lambda x: pnp.fft.rfft(x), x)
    with pytest.raises(DTypeError, match="values of dtype complex64 do not fit an array of bfloat16"):
        plica.trace(lambda x, y: x.at[0].set(y[0]), x, plica.spec((4,), "complex64"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_constants_in_bfloat16_are_kept_and_not_widened(backend) -> None:
    def fn(x, w):
        return x @ pnp.astype(pnp.permute_dims(w, (1, 0)), "float32") + pnp.astype(pnp.sum(w), "float32")

    program = plica.trace(fn, plica.spec(("b", 4)), plica.spec((3, 4), "bfloat16"))
    folded = plica.fold_constants(program, run_time=("w",))
    assert folded.report().after == 3 * 4 * 2 + 4, "the array as it is, and one number"
    run = folded.compile(backend)
    x = np.ones((2, 4), "float32")
    expected = x @ X.astype("float32").T + X.astype("float32").sum()
    assert np.allclose(run(x, w=X), expected, atol=0.05)
    weight = X.copy()
    run(x, w=weight)
    weight[0] = 0.0
    assert not np.allclose(run(x), expected, atol=0.05)
