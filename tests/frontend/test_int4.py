"""int4 and uint4 through both backends: what moves them, casts, control flow, constants; arithmetic is refused."""

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica import PackedArray
from plica.errors import DTypeError, InputError
from plica.ir.op import View
from plica.ops import OPS
from tests.harness.samples import SAMPLES
from tests.harness.together import grouped

BACKENDS = ["torch", "interpreter"]
W = (np.arange(48) * 7 % 16 - 8).reshape(6, 8).astype(ml_dtypes.int4)
SCALE = np.linspace(0.5, 1.5, 6, dtype="float32")
KINDS = {
    "numpy": lambda array: array,
    "packed": PackedArray.of,
    "packed in torch": lambda array: PackedArray.of(torch.from_numpy(array.astype("int8")), array.dtype.name),
}


def _values(found):
    return np.asarray(found.cpu() if isinstance(found, torch.Tensor) else found).astype("float64").tolist()


MOVED = {
    "transposed": lambda w: pnp.permute_dims(w, (1, 0)),
    "cut": lambda w: w[1::2, :-1],
    "one entry": lambda w: w[2, 3],
    "packed": lambda w: pnp.pack(w, (0, 1), (4, 4), padding_value=0),
    "unpacked": lambda w: pnp.unpack(pnp.pack(w, (1,), (4,)), (1,), (4,)),
    "joined": lambda w: pnp.concat([w, pnp.flip(w, axis=0)]),
    "chosen": lambda w: pnp.where(pnp.astype(w, "int8") > 0, w, 0),
    "taken": lambda w: pnp.take(w, pnp.asarray([5, 0]), axis=0),
    "expanded": lambda w: pnp.broadcast_to(w, (2, 6, 8)),
    "in a loop": lambda w: plica.for_loop(0, 3)(lambda _, a: pnp.roll(a, 1, axis=1))(w),
    "in a branch": lambda w: plica.cond(pnp.astype(w[0, 0], "int64") > 0, lambda: w, lambda: pnp.flip(w)),
    "itself": lambda w: w,
    "wide": lambda w: pnp.astype(w, "float32") * 0.5,
    "there and back": lambda w: pnp.astype(pnp.astype(w, "int32") + 3, w.dtype),
    "to the other": lambda w: pnp.astype(w, "uint4" if w.dtype == "int4" else "int4"),
}


@grouped("name", MOVED)
@grouped("dtype", ["int4", "uint4"])
def test_what_moves_and_converts_agrees_between_backends_and_kinds_of_array(dtype, name) -> None:
    weights = W.astype("int8").astype(dtype)
    program = plica.trace(MOVED[name], plica.spec(weights.shape, dtype))
    plica.verify(program)
    assert plica.parse(str(program)) == program
    expected = plica.jit(MOVED[name], backend="interpreter")(weights)
    for backend in BACKENDS:
        for kind, make in KINDS.items():
            found = plica.jit(MOVED[name], backend=backend)(make(weights))
            assert isinstance(found, np.ndarray) == (kind != "packed in torch")
            assert found.dtype == expected.dtype or found.dtype == getattr(torch, expected.dtype.name)
            assert _values(found) == _values(expected)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("source", ["int8", "uint8", "int64", "float32", "float64", "bool"])
def test_numbers_wrap_around_as_in_numpy(dtype, source) -> None:
    numbers = np.arange(-20, 20).astype(source)
    expected = numbers.astype(dtype)
    for backend in BACKENDS:
        found = plica.jit(lambda x: pnp.astype(x, dtype), backend=backend)(numbers)
        assert found.dtype == expected.dtype
        assert _values(found) == _values(expected)


def test_sizes_may_be_dynamic_and_devices_of_torch() -> None:
    @plica.jit(abstracted_axes=(("n", "m"),))
    def fn(w):
        return pnp.astype(w, "float32") * w.shape[0]

    for shape in ((2, 3), (4, 1), (0, 2)):
        w = np.ones(shape, ml_dtypes.int4)
        assert fn(PackedArray.of(w)).tolist() == (np.ones(shape) * shape[0]).tolist()
    assert fn.num_compilations == 1


@grouped("name", [name for name, row in OPS.items() if not row.regions])
def test_every_operation_moves_it_or_refuses_it(name: str) -> None:
    row = OPS[name]
    for case in [one for one in SAMPLES if one.op == name and one.inputs]:
        arrays = [np.zeros(one.shape, "int4") for one in case.inputs]
        program = plica.trace(lambda *found: found, *(plica.spec(one.shape, "int4") for one in arrays))
        types = [var.type for var in program.arguments]
        if row.converts or row.view is View.MOVED:
            assert row.types(types, case.params)
        elif row.view is View.NONE:
            with pytest.raises(DTypeError, match=r"nothing is computed in int4, .* with astype\(x, 'int8'\)"):
                row.types(types, case.params)


REFUSED = {
    "times a number": lambda w: w * 2,
    "times a float": lambda w: w * 0.5,
    "with another": lambda w: w + w,
    "with another dtype": lambda w: w + pnp.zeros((8,), dtype="int8"),
    "a product": lambda w: pnp.ones((2, 6)) @ w,
    "a sum": pnp.sum,
    "a mean": pnp.mean,
    "a function": pnp.exp,
    "a comparison": lambda w: w > 0,
    "an order": pnp.sort,
    "an index": lambda w: pnp.zeros((9,))[w[0]],
    "an update": lambda w: w.at[0].set(1),
    "a range": lambda w: pnp.arange(3, dtype=w.dtype),
}


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_is_computed_in_it(name) -> None:
    with pytest.raises(DTypeError) as caught:
        plica.trace(REFUSED[name], plica.spec((6, 8), "int4"))
    assert "nothing is computed in int4, in which numbers are only stored and moved; convert first" in str(caught.value)
    assert "test_int4.py:" in str(caught.value), "the line is named"


def test_other_integers_are_not_taken_for_it() -> None:
    compiled = plica.jit(plica.trace(lambda w: w[0], plica.spec((6,), "int4")))
    with pytest.raises(DTypeError, match="argument w has dtype int8, but the program was made for int4"):
        compiled(np.zeros(6, "int8"))
    run = plica.fold_constants(plica.trace(lambda w: w + 1, plica.spec(())), run_time=())
    assert run.compile()(1.0) == 2.0
    scalar = plica.fold_constants(plica.trace(lambda w: pnp.astype(w, "int8"), plica.spec((), "int4"))).compile()
    with pytest.raises(InputError, match="argument w is the number 3; give an array of int4"):
        scalar(3)


# Constants


def _layer(x, w, scale):
    return x @ pnp.permute_dims(pnp.astype(w, "float32") * scale[:, None], (1, 0))


PROGRAM = plica.trace(_layer, plica.spec(("b", 8)), plica.spec((6, 8), "int4"), plica.spec((6,)))
X = np.linspace(-1, 1, 16, dtype="float32").reshape(2, 8)


def _expected(w=W, scale=SCALE):
    return X @ (w.astype("float32") * scale[:, None]).T


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["runtime", "split"])
def test_constants_are_kept_packed(form, kind, backend) -> None:
    make = KINDS[kind]
    folded = plica.fold_constants(PROGRAM, compile_time={"w": make(W)}, run_time=("scale",), form=form)
    report = folded.report()
    assert (report.before, report.after) == (48 // 2 + 24, 48 // 2 + 24), "half a byte for each entry"
    (cast,) = [one for one in report.values if one.operation == "astype"]
    assert cast.why == "widened: a constant of 4 bits for each entry holds the same numbers"
    run = folded.compile(backend)
    assert np.allclose(run(X, scale=SCALE), _expected(), atol=1e-5)
    assert run.num_bytes == report.after
    assert run(X).tolist() == run(X, scale=SCALE).tolist()
    folds = run.num_folds
    other = (-W.astype("int8") // 2).astype("int4")
    run.update(w=make(other))
    assert np.allclose(run(X), _expected(other), atol=1e-5)
    assert run.num_folds == folds + 1, "the scales are not folded again"


def test_one_of_an_odd_number_takes_a_whole_byte() -> None:
    program = plica.trace(lambda w: pnp.astype(pnp.flip(w), "float32"), plica.spec((5,), "int4"))
    folded = plica.fold_constants(program, run_time=("w",))
    assert (folded.report().before, folded.report().after) == (3, 3)
    assert "kept, 3 bytes" in str(folded.report())
    run = folded.compile()
    assert run(W[0, :5]).tolist() == W[0, :5].astype("float32")[::-1].tolist()
    assert run.num_bytes == 3


def test_the_peak_counts_what_is_unpacked_to_be_moved() -> None:
    program = plica.trace(
        lambda x, w: x * pnp.astype(pnp.flip(w), "float32"), plica.spec((64,)), plica.spec((64,), "int4")
    )
    report = plica.fold_constants(program, run_time=("w",)).report()
    assert report.peak == 64 + 64 + 32, "unpacked, turned around, and packed again"
    refused = plica.fold_constants(program, run_time=("w",), policy=plica.FoldPolicy(max_peak=100))
    assert refused.report().after == 32
    assert refused.runtime_fold is None


def test_a_budget_counts_bits() -> None:
    """Of a constant that the rest reads too, half the bytes of int8 are kept."""

    def fn(x, w):
        return x * pnp.astype(pnp.flip(w), "float32") + pnp.astype(w, "float32")

    for dtype, least in (("int4", 32), ("int8", 64)):
        program = plica.trace(fn, plica.spec((64,)), plica.spec((64,), dtype))
        for growth, is_kept in ((least - 1, False), (least, True)):
            policy = plica.FoldPolicy(max_growth=growth)
            folded = plica.fold_constants(program, run_time=("w",), policy=policy)
            assert (folded.runtime_fold is not None) is is_kept


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_change_of_the_entries_is_noticed(backend, kind) -> None:
    run = plica.fold_constants(PROGRAM, run_time=("w", "scale")).compile(backend)
    w = KINDS[kind](W.copy())
    assert np.allclose(run(X, w=w, scale=SCALE), _expected(), atol=1e-5)
    if kind == "numpy":
        w[:] = 1
    else:
        w.data[:] = 0x11
    assert np.allclose(run(X), _expected(np.ones((6, 8))), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_sources_are_released(kind) -> None:
    run = plica.fold_constants(PROGRAM, run_time=("w", "scale")).compile(release_sources=True)
    weights = KINDS[kind](W.copy())
    assert np.allclose(run(X, w=weights, scale=SCALE), _expected(), atol=1e-5)
    source = weakref.ref(weights)
    del weights
    gc.collect()
    assert source() is None
    assert np.allclose(run(X), _expected(), atol=1e-5)
    other = (-W.astype("int8") // 2).astype("int4")
    run.update(w=KINDS[kind](other))
    assert np.allclose(run(X), _expected(other), atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_decorated_functions_take_packed_constants(backend) -> None:
    model = plica.jit(_layer, constants=("w", "scale"), backend=backend, abstracted_axes=(("b", None), None, None))
    for w in (W, PackedArray.of(W)):
        assert np.allclose(model(X, w, SCALE), _expected(), atol=1e-5)
        assert np.allclose(model(X[:1], w, SCALE), _expected()[:1], atol=1e-5)


def test_a_function_may_close_over_packed_weights() -> None:
    packed = PackedArray.of(W)
    for weights in (W, packed):
        model = plica.jit(lambda x, weights=weights: _layer(x, weights, SCALE))
        assert np.allclose(model(X), _expected(), atol=1e-5)
