"""Native files for several machines, those of graphics processors among them, which the tests have none of."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica import native
from plica.backend.native.build import compile_text
from plica.backend.native.file import file_of
from plica.backend.native.targets import target_of
from plica.errors import NativeFileError, UnsupportedError
from plica.frontend.native import entry_programs_of
from plica.runtime.container import read, write
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer
from tests.harness.circuits import product_then_sum
from tests.harness.native_circuits import compiled

_ALL = ("log-likelihood", "marginal", "sample", "conditional-sample", "mpe")
_TABLE = np.linspace(-1.0, 1.0, 3000, dtype="float32").reshape(30, 100)


def _looked_up() -> Any:
    found = plica.jit(lambda x: pnp.take(_TABLE, x, axis=0, nonnegative=True) * 2, abstracted_axes=({0: "b"},))
    found(np.zeros(1, int))
    return found


def test_one_file_for_several_machines(tmp_path: Path) -> None:
    """Constants stand in it once; where there is no such device, the code of a processor runs."""
    path = tmp_path / "f.plicab"
    native.compile(_looked_up(), path, targets=("cuda", "host", "cuda", target_of("host").name))
    with native.load(path) as module:
        assert [one.name for one in module.manifest.targets] == ["cuda", target_of("host").name]
        assert [one.shape for one in module.manifest.tensors] == [_TABLE.shape]
        assert [one.driver for one in module.manifest.targets] == ["cuda", "library"]
        assert module.target.driver == "library"
        x = np.asarray([0, 29, 7])
        assert np.array_equal(module(x), _TABLE[x] * 2)
    with pytest.raises(NativeFileError, match="cuda needs a device for cuda, and this machine has none") as caught:
        native.load(path, target="cuda")
    assert "\n" not in str(caught.value)


def _circuit(layer: Any, **settings: Any) -> Any:
    return compiled(product_then_sum(HadamardLayer(3, 3), [layer([v], 3, **settings) for v in range(3)]))


@pytest.mark.full
@pytest.mark.parametrize("target", ["aarch64", "cuda", "vulkan"])
def test_circuits_compile_for_every_machine(target: str, tmp_path: Path) -> None:
    native.compile(_circuit(CategoricalLayer, num_categories=3), tmp_path / "c.plicab", targets=target, queries=_ALL)
    (found,) = read(tmp_path / "c.plicab").manifest.targets
    assert found.name == target


@pytest.mark.full
@pytest.mark.parametrize(("layer", "settings"), [(CategoricalLayer, {"num_categories": 3}), (GaussianLayer, {})])
def test_what_graphics_processors_are_given(layer: Any, settings: dict[str, Any], tmp_path: Path) -> None:
    """Code of other operations, with the same answers, as the processor here runs it."""
    entry_programs = entry_programs_of(_circuit(layer, **settings), _ALL)
    for name, is_gpu in (("gpu", True), ("cpu", False)):
        parts, manifest = file_of(entry_programs, [replace(target_of("host"), is_gpu=is_gpu)], "local-sync", {})
        write(tmp_path / name, parts, manifest)
    rng = np.random.default_rng(0)
    with native.load(tmp_path / "gpu") as other, native.load(tmp_path / "cpu") as module:
        for rows in (0, 1, 130):
            x = rng.integers(0, 3, (rows, 3)).astype("float32" if layer is GaussianLayer else "int64")
            known = np.where(rng.random(x.shape) < 0.4, np.nan, x).astype("float32")
            for found, expected in (
                ((other(x),), (module(x),)),
                ((other.marginal(known),), (module.marginal(known),)),
                (other.mpe(known), module.mpe(known)),
                (other.conditional_sample(known, seed=1), module.conditional_sample(known, seed=1)),
                ((other.sample(n=rows, seed=1),), (module.sample(n=rows, seed=1),)),
            ):
                for one, wanted in zip(found, expected, strict=True):
                    np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-4)


def test_the_least_processor_is_compiled_for_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    compile_text("func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }", "x86-64")
    assert capfd.readouterr().err == ""


def test_refused(tmp_path: Path) -> None:
    """What no compiler makes code of, in one line and not in its words alone."""
    for text in ("func.func @f() { nothing }", "module { func.func private @f(%x: tensor<2xf99>) }"):
        with pytest.raises(UnsupportedError, match="makes no code of this model for target cuda: it says: ") as caught:
            compile_text(text, "cuda")
        assert "\n" not in str(caught.value)
    circuit = _circuit(CategoricalLayer, num_categories=3)
    for target in ("cuda", "vulkan"):
        with pytest.raises(UnsupportedError, match="computed again in one way for all targets of a file"):
            native.compile(circuit, tmp_path / "x.plicab", targets=("host", target), updatable=True)
    assert not list(tmp_path.iterdir())
