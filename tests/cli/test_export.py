"""`plica export`: a saved model to a native file that `plica run` asks, and to StableHLO."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from plica.backend.torch.compiler import TorchCompiler
from plica.files.model import save_model
from tests.harness import stablehlo
from tests.harness.circuits import CIRCUITS

Plica = Callable[..., Result]
X = np.asarray([[0, 1], [1, 0], [1, 1]])


@pytest.fixture
def expected(plica: Plica) -> np.ndarray:  # noqa: ARG001 - which moves to an empty folder
    """The log-likelihoods of the model that is saved."""
    import torch

    circuit = CIRCUITS["kronecker of 2"]()
    compiled = TorchCompiler(dtype="float32").compile(circuit)
    tensors = {key: value.numpy() for key, value in compiled.state_dict().items()}
    save_model("m.plica", circuit, tensors, {"semiring": "lse-sum", "dtype": "float32"})
    np.save("x.npy", X)
    found: np.ndarray = compiled(torch.from_numpy(X)).detach().numpy()
    return found


def _done(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def test_native(plica: Plica, expected: np.ndarray) -> None:
    _done(plica("export", "m.plica", "-o", "m.plicab"))
    _done(plica("run", "m.plicab", "--input", "x.npy", "--output", "y.npy"))
    np.testing.assert_allclose(np.load("y.npy"), expected, rtol=1e-6)
    np.save("x.npy", [[np.nan, 1], *X[1:]])  # as `module(x)`, asked of the entry that takes what is missing
    _done(plica("run", "m.plicab", "--input", "x.npy", "--output", "y.npy"))
    np.testing.assert_allclose(np.load("y.npy")[1:], expected[1:], rtol=1e-6)
    result = plica("run", "m.plicab", "--input", "x.npy", "--output", "y.npy", "--entry", "log_likelihood")
    assert "found NaN; whole numbers have no missing values" in result.stderr
    assert "log_likelihood(x: int64[b, 2])" in _done(plica("inspect", "m.plicab"))


def test_native_with_weights_beside_it(plica: Plica, expected: np.ndarray) -> None:
    _done(plica("export", "m.plica", "-o", "m.plicab", "--query", "log-likelihood", "--weights", "external"))
    [weights] = Path().glob("weights-*.bin")
    assert f"beside  {weights}, {weights.stat().st_size:,} bytes" in _done(plica("inspect", "m.plicab"))
    without_torch = "import sys; sys.modules['torch'] = None; import plica.native; "
    code = f"{without_torch}print(plica.native.load('m.plicab')({X.tolist()}).tolist())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    np.testing.assert_allclose(json.loads(found.stdout), expected, rtol=1e-6)
    weights.unlink()
    for words in (("inspect",), ("run", "-i", "x.npy", "-o", "z.npy")):
        result = plica(*words, "m.plicab")
        assert result.exit_code == 2
        assert result.stderr.startswith(f"plica: error: m.plicab: its part tensors is the file {weights}, which is not")


def test_text_without_its_weights_is_not_written(plica: Plica, expected: np.ndarray) -> None:
    del expected
    Path("m.mlir").write_text("old")
    Path("m.mlir.npz").mkdir()
    result = plica("export", "m.plica", "-o", "m.mlir", "--to", "stablehlo", "--weights", "external")
    assert result.exit_code == 2
    assert result.stderr.startswith("plica: error: m.mlir.npz: is a folder")
    assert Path("m.mlir").read_text() == "old"
    assert sorted(path.name for path in Path().iterdir()) == ["m.mlir", "m.mlir.npz", "m.plica", "x.npy"]


def test_stablehlo(plica: Plica, expected: np.ndarray) -> None:
    _done(plica("export", "m.plica", "-o", "m.mlir", "--to", "stablehlo"))
    np.testing.assert_allclose(stablehlo.run(Path("m.mlir").read_text(), X)[0], expected, rtol=1e-6)
    assert not Path("m.mlir.npz").exists()
    _done(plica("export", "m.plica", "-o", "m.mlir", "--to", "stablehlo", "--weights", "external"))
    with np.load("m.mlir.npz") as arrays:
        found = stablehlo.run(Path("m.mlir").read_text(), *(arrays[name] for name in arrays.files), X)
    np.testing.assert_allclose(found[0], expected, rtol=1e-6)
    _done(plica("export", "m.plica", "-o", "m.mlir", "--to", "stablehlo", "--size", f"b={len(X)}"))
    np.testing.assert_allclose(stablehlo.run_module(Path("m.mlir").read_text(), [X])[0], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--to", "stablehlo", "--target", "host"), "--target applies to --to native alone"),
        (("--to", "stablehlo", "--query", "mpe", "--query", "marginal"), "writes one function, found 2 queries"),
        (("--target", "abacus"), "there is no target 'abacus'; there are host, x86-64"),
        (("--to", "stablehlo", "--updatable", "all"), "--updatable applies to --to native alone"),
        (("--to", "stablehlo", "--size", "n=3"), "sizes: expected one of b, found 'n'"),
        (("--to", "stablehlo", "--size", "b"), "--size b: expected a name and a number"),
        (("--size", "b=3"), "--size applies to --to stablehlo alone"),
        (("--updatable", "9.weight"), "updatable: the circuit has no tensor '9.weight'; it has 0.logits"),
    ],
)
def test_refused(plica: Plica, expected: np.ndarray, words: tuple[str, ...], message: str) -> None:
    del expected
    result = plica("export", "m.plica", "-o", "out", *words)
    assert result.exit_code == 2
    assert result.stderr.startswith("plica: error: ")
    assert message in result.stderr
    assert not Path("out").exists()
