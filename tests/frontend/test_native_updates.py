"""Native files whose arrays may be replaced: circuits with other weights, functions with other arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica import native, queries
from plica.errors import DTypeError, InputError, NativeFileError, ShapeError, UnsupportedError
from plica.frontend.native import entry_programs_of
from plica.runtime.module import NativeModule
from plica.symbolic.initializers import UniformInitializer
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer
from plica.symbolic.parameters import TensorParameter
from tests.harness.circuits import product_then_sum
from tests.harness.native_circuits import compiled

_ALL = ("log-likelihood", "marginal", "sample", "conditional-sample", "mpe")
_CLOSE = {torch.float16: 1e-2, torch.float32: 1e-4, torch.float64: 1e-12}


def _plain(shape: tuple[int, ...]) -> object:
    """Weights as they are, which training could make negative."""
    return TensorParameter(*shape, initializer=UniformInitializer(0.1, 1.0))


@pytest.fixture(scope="module")
def circuit() -> Any:
    """Three variables of three states; weights that no softmax keeps from being negative."""
    inputs = [CategoricalLayer([v], 3, num_categories=3) for v in range(3)]
    return compiled(product_then_sum(HadamardLayer(3, 3), inputs, weight_factory=_plain))


@pytest.fixture(scope="module")
def path(circuit: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its file."""
    path = tmp_path_factory.mktemp("native") / "c.plicab"
    native.compile(circuit, path, queries=("log-likelihood", "marginal", "mpe"), updatable=True)
    return path


def _same(module: NativeModule, circuit: Any) -> None:
    """What the file answers is what torch answers, for whole rows and rows with missing entries."""
    rng = np.random.default_rng(0)
    for rows in (0, 1, 7, 130):
        x = rng.integers(0, 3, (rows, 3))
        known = np.where(rng.random((rows, 3)) < 0.4, np.nan, x).astype("float32")
        for data in (x, known):
            with torch.no_grad():
                expected = circuit(torch.from_numpy(data)).numpy()
            np.testing.assert_allclose(module(data), expected, rtol=1e-5, atol=1e-5)
        found, values = module.mpe(known)
        with torch.no_grad():
            best, most = queries.mpe(circuit, torch.from_numpy(known))
        np.testing.assert_allclose(found, best.numpy(), rtol=1e-5)
        np.testing.assert_allclose(values, most.numpy(), rtol=1e-5, atol=1e-5)


def _state(circuit: Any) -> dict[str, np.ndarray[Any, Any]]:
    return {name: tensor.numpy().copy() for name, tensor in circuit.state_dict().items()}


def test_weights_of_a_circuit(path: Path, circuit: Any) -> None:
    """A state dict, parts of one, and back again: never a stale number."""
    first = _state(circuit)
    with native.load(path) as module:
        assert sorted(module.constants) == sorted(first)
        assert all(np.array_equal(module.constants[name], first[name]) for name in first)
        _same(module, circuit)
        rng = np.random.default_rng(1)
        others = {name: rng.uniform(0.01, 5.0, one.shape).astype("float32") for name, one in first.items()}
        some = {"0.logits": others["0.logits"] * -3}
        far = {"2.logits": np.asarray([[-500.0, 0.0, 90.0]] * 3, "float32")}
        for change in (others, some, far, first):
            before = module(np.zeros((1, 3), int))
            module.update(change)
            assert module(np.zeros((1, 3), int)) != before
            circuit.load_state_dict({name: torch.from_numpy(one) for name, one in change.items()}, strict=False)
            _same(module, circuit)


def test_refused_updates(path: Path, circuit: Any) -> None:
    """What is wrong replaces nothing, whatever stands beside it."""
    state = _state(circuit)
    weight = next(name for name in state if name.endswith("weight"))
    good = {"0.logits": state["0.logits"] + np.arange(3, dtype="float32")}
    negative = state[weight].copy()
    negative[0, -1] = -0.25
    with native.load(path) as module:
        for wrong, error, message in (
            ({"9.logits": state["0.logits"]}, InputError, "9.logits cannot be updated; those that can: 0.logits"),
            ({weight: state[weight][:, :1]}, ShapeError, f"{weight}: float32"),
            ({weight: state[weight].astype("float64")}, DTypeError, "found an array of dtype float64"),
            ({weight: negative}, UnsupportedError, r"weight_of_layer_\d+ would have a negative entry \(-0.25\)"),
            ({weight: negative * np.nan}, UnsupportedError, "weights would have an entry that is negative or NaN"),
        ):
            with pytest.raises(error, match=message):
                module.update({**good, **wrong})
            assert np.array_equal(module.constants["0.logits"], state["0.logits"])
            assert np.array_equal(module.constants[weight], state[weight])
            _same(module, circuit)
        with pytest.raises(InputError, match="found 2 argument"):
            module(np.zeros((1, 3), int), np.zeros((1, 3), int))


def test_the_kind_of_data_decides_who_is_asked(path: Path) -> None:
    """Integers are whole rows, floats may have missing entries: arrays of any library, lists, by position and name."""
    with native.load(path) as module:
        whole, missing = module.log_likelihood([[0, 1, 2]]), module.marginal([[0, 1, np.nan]])
        given: Any
        for given in ([[0, 1, 2]], np.asarray([[0, 1, 2]]), torch.tensor([[0, 1, 2]])):
            assert module(given) == module(x=given) == whole
        for given in ([[0, 1, np.nan]], np.asarray([[0, 1, np.nan]], "float32"), torch.tensor([[0, 1, torch.nan]])):
            assert module(given) == module(x=given) == missing
        with pytest.raises(DTypeError, match="marginal: expected x: float32"):
            module(np.asarray([[0.1, 1.0, np.nan]], "float64"))
        with pytest.raises(InputError, match="log_likelihood: takes"):
            module()
        with pytest.raises(InputError, match="log_likelihood: expected x: int64"):
            module([[0], [1, 2]])


def test_some_of_the_weights(circuit: Any) -> None:
    """The others are constants; the numbers are those of a file that is fixed."""
    (scores, *_), (fixed, *_) = (entry_programs_of(circuit, None, which) for which in (("0.logits",), ()))
    (held,) = {
        one.fold.updatable[0] for one in scores.body.updatable.values() if one.fold is not None and one.fold.updatable
    }
    assert [name for name in held.parts if name] == ["0.logits"]
    assert not scores.non_negative
    assert not fixed.body.updatable
    x = np.arange(12).reshape(4, 3) % 3
    np.testing.assert_allclose(scores.body(x)[0], fixed.body(x)[0], rtol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_draws(dtype: torch.dtype, tmp_path: Path) -> None:
    """Real variables: after an update, draws are those of a file that was written with these weights."""
    inputs = [GaussianLayer([v], 3) for v in range(3)]
    model = compiled(product_then_sum(HadamardLayer(3, 3), inputs, weight_factory=_plain), dtype=dtype)
    native.compile(model, tmp_path / "u.plicab", queries=_ALL, updatable=True)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((130, 3)).astype(str(dtype).removeprefix("torch."))
    x[rng.random(x.shape) < 0.5] = np.nan
    with native.load(tmp_path / "u.plicab") as module:
        for _ in range(2):
            with torch.no_grad():
                for tensor in model.parameters():
                    tensor.copy_(torch.from_numpy(rng.uniform(0.1, 2.0, tensor.shape)))
            module.update(_state(model))
            native.compile(model, tmp_path / "f.plicab", queries=_ALL)
            with native.load(tmp_path / "f.plicab") as fresh:
                for asked in (
                    lambda one: (one.sample(n=300, seed=1),),
                    lambda one: one.conditional_sample(x, seed=2),
                    lambda one: one.mpe(x),
                    lambda one: (one(x), one.marginal(x)),
                ):
                    for found, expected in zip(asked(module), asked(fresh), strict=True):
                        np.testing.assert_allclose(found, expected, rtol=_CLOSE[dtype], atol=_CLOSE[dtype])


def test_wrong_names(circuit: Any, tmp_path: Path) -> None:
    for updatable, error, message in (
        ("0.logit", InputError, "the circuit has no tensor '0.logit'; it has 0.logits"),
        ({"0.logits": 3}, InputError, "a circuit has its tensors already"),
    ):
        with pytest.raises(error, match=message):
            native.compile(circuit, tmp_path / "x.plicab", updatable=updatable)
    assert not list(tmp_path.iterdir())


_W1, _W2 = (np.linspace(-1.0, 1.0, 12, dtype="float32").reshape(4, 3) * scale for scale in (1, 3))


def _layer(x: Any, w1: Any, w2: Any) -> Any:
    return pnp.tanh(x @ pnp.softmax(w1, axis=0)) * pnp.sum(pnp.exp(w2), axis=0) + w2[0]


def _layer_and_more(x: Any, w1: Any, w2: Any, unread: Any) -> Any:
    del unread
    return _layer(x, w1, w2)


_SPECS = (plica.spec(("b", 4)), plica.spec((4, 3)), plica.spec((4, 3)))


def test_folded_programs(tmp_path: Path) -> None:
    """What is known at compile time is fixed; what has its value later is computed again when it is replaced."""
    program = plica.trace(_layer_and_more, *_SPECS, plica.spec((2,)))
    folded = plica.fold_constants(program, compile_time={"w1": _W1}, run_time=("w2", "unread"), form="split")
    with pytest.raises(InputError, match="the values of w2, unread are not known; give the first ones"):
        native.compile(folded, tmp_path / "f.plicab")
    native.compile(folded, tmp_path / "f.plicab", updatable={"w2": _W2, "unread": np.ones(2, "float32")})
    with native.load(tmp_path / "f.plicab") as module:
        assert [one.function for one in module.manifest.folds] == ["runtime_fold0", "runtime_fold1"]
        assert list(module.constants) == ["w2", "unread"]
        for w2 in (None, _W2 * 2, _W1):
            if w2 is not None:
                module.update(w2=w2, unread=w2[0, :2])
            for rows in (0, 1, 5):
                x = np.arange(rows * 4, dtype="float32").reshape(rows, 4) / 7
                (expected,) = plica.interpret(program, x, _W1, _W2 if w2 is None else w2, _W1[0, :2])
                np.testing.assert_allclose(module(x), expected, rtol=1e-5)


def test_captured_arrays(tmp_path: Path) -> None:
    """Arrays that a function captures, by names that the caller chooses; numpy's and torch's."""
    w1, w2 = torch.from_numpy(_W1), _W2.copy()

    @plica.jit(abstracted_axes=({0: "b"},))
    def layer(x: Any) -> Any:
        return pnp.tanh(x @ pnp.softmax(w1, axis=0)) * pnp.sum(pnp.exp(w2), axis=0)

    x = np.arange(8, dtype="float32").reshape(2, 4)
    layer(x)
    native.compile(layer, tmp_path / "f.plicab", updatable={"w2": w2, "first": w1})
    with native.load(tmp_path / "f.plicab") as module:
        module.update(w2=_W2 + 1)
        module.update(first=_W1 * 5)
        expected = _layer(x, _W1 * 5, _W2 + 1) - (_W2 + 1)[0]
        np.testing.assert_allclose(module(x), np.asarray(expected), rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="the array 'again' has another name already"):
        native.compile(layer, tmp_path / "x.plicab", updatable={"w2": w2, "again": w2})
    with pytest.raises(NativeFileError, match="a name of letters, digits"):
        native.compile(layer, tmp_path / "x.plicab", updatable={"w 2": w2})


def test_views_are_refused(tmp_path: Path) -> None:
    """What numpy computed of a captured array while the function was traced would stay as it was."""
    w = _W1.copy()
    layer = plica.jit(lambda x: x @ w + w[0])
    layer(np.ones((2, 4), "float32"))
    with pytest.raises(InputError, match="the Program captures a part of w, which no update would change"):
        native.compile(layer, tmp_path / "x.plicab", updatable={"w": w})


@pytest.mark.parametrize(
    ("updatable", "error", "message"),
    [
        ("w2", InputError, "'w2' is no array that the Program captures; give its first value"),
        ("v", InputError, "'v' is no array that the Program captures; its arguments are x, w1, w2"),
        ({"w2": _W2[:2]}, ShapeError, r"w2 has shape \(2, 3\)"),
        ({"w2": _W2.astype("float64")}, DTypeError, "w2 is float64"),
        ({"x": _W2.T}, InputError, "has sizes that are not known"),
    ],
)
def test_refused_arrays(updatable: Any, error: type[Exception], message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        native.compile(plica.trace(_layer, *_SPECS), tmp_path / "f.plicab", updatable=updatable)
