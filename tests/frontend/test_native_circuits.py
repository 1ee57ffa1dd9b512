"""Circuits and model files that are compiled without torch: what they hold, and that nothing else is needed."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica import native
from plica.errors import DTypeError, FileFormatError, InputError, UnsupportedError
from plica.files.model import save_model
from plica.lower.arrays import initial_arrays
from plica.pipeline import PipelineContext
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer, Initializer
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer
from plica.symbolic.parameters import ConstantParameter, TensorParameter
from tests.harness.circuits import CIRCUITS, product_then_sum

X = np.arange(12).reshape(4, 3) % 3


def circuit() -> Circuit:
    return product_then_sum(HadamardLayer(3, 3), [CategoricalLayer([v], 3, num_categories=3) for v in range(3)])


def test_a_circuit_has_the_values_of_its_initializers(tmp_path: Path) -> None:
    """Those that torch draws from the seed 0."""
    described = circuit()
    native.compile(described, tmp_path / "c.plicab")
    compiled = plica.compile(described)
    compiled.reset_parameters(seed=0)
    with native.load(tmp_path / "c.plicab") as module, torch.no_grad():
        np.testing.assert_allclose(module(X), compiled(torch.from_numpy(X)).numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("semiring", "dtype", "kind"),
    [
        ("sum-product", "float64", Path),
        *(pytest.param("lse-sum", dtype, str, marks=pytest.mark.full) for dtype in ("float32", "float64")),
    ],
)
def test_a_model_file_is_compiled_as_it_was_saved(tmp_path: Path, semiring: str, dtype: str, kind: type) -> None:
    compiled = plica.compile(circuit(), semiring=semiring, dtype=dtype)
    plica.save(compiled, tmp_path / "m.plica")
    for model, name in ((compiled, "a"), (kind(tmp_path / "m.plica"), "b")):
        native.compile(model, tmp_path / name)
    expected, found = (native.load(tmp_path / name)(X) for name in "ab")
    assert expected.dtype == dtype
    assert np.array_equal(found, expected)
    assert native.stablehlo(compiled)[0] == native.stablehlo(tmp_path / "m.plica")[0]


def test_a_circuit_is_compiled_as_the_active_context_has_it(tmp_path: Path) -> None:
    described = circuit()
    with PipelineContext(semiring="sum-product", dtype="float64"):
        compiled = plica.compile(described)
        native.compile(described, tmp_path / "c.plicab")
    with native.load(tmp_path / "c.plicab") as module, torch.no_grad():
        np.testing.assert_allclose(module(X), compiled(torch.from_numpy(X)).numpy(), rtol=1e-12)


def test_a_model_file_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "m.plica"
    plica.save(plica.compile(circuit()), path)
    (tmp_path / "link.plica").symlink_to(path)
    before = path.read_bytes()
    for out in (path, tmp_path / "link.plica", str(path)):
        with pytest.raises(FileFormatError, match="the output would overwrite this input"):
            native.compile(path, out)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("", FileFormatError, "is a folder"),
        ("none/c.plicab", FileFormatError, "there is no folder"),
        (3, DTypeError, "3"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_code_is_made(
    tmp_path: Path, name: Any, error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plica.frontend.native.file_of", None)
    with pytest.raises(error, match=message):
        native.compile(circuit(), tmp_path / name if isinstance(name, str) else name)


def test_one_question_at_a_time_is_a_text() -> None:
    with pytest.raises(InputError, match=r"expected the name of one query, found \['mpe'\]"):
        native.stablehlo(circuit(), ["mpe"])  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "is_refused"), [(None, True), ("0.5", True), (np.longdouble(0.5), False)])
def test_draws_are_numbers_whatever_compiles(tmp_path: Path, value: Any, is_refused: bool) -> None:
    class Own(Initializer):
        @property
        def config(self) -> dict[str, Any]:
            return {}

        def allows_shape(self, shape: tuple[int, ...]) -> bool:
            return len(shape) > 0

        def draw(self, generator: Any, shape: tuple[int, ...]) -> Any:
            del generator
            return np.full(shape, value)

    for compile_ in (plica.compile, lambda one: native.compile(one, tmp_path / "x.plicab")):
        logits = TensorParameter(1, 3, initializer=Own())
        layer = CategoricalLayer([0], 1, num_categories=3, logits=logits)
        described = Circuit([layer], {}, [layer])
        if is_refused:
            with pytest.raises(DTypeError, match=r"draws of Own are .*, expected numbers"):
                compile_(described)
        else:
            compile_(described)


def test_every_initial_value_is_that_of_torch() -> None:
    for name, make in CIRCUITS.items():
        compiled = plica.compile(make(), semiring="complex-lse-sum")
        compiled.reset_parameters(seed=3)
        for (leaf, array), (_, tensor) in zip(
            initial_arrays(compiled.compiled, seed=3).leaves, compiled.leaves.items(), strict=True
        ):
            assert np.array_equal(array, tensor.detach().numpy()), (name, leaf)


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from pathlib import Path
import numpy as np
import plica
from plica.cli.main import main
from plica.symbolic.layers import CategoricalLayer
layer = CategoricalLayer([0], 1, num_categories=3)
folder = Path(sys.argv[1])
plica.native.compile(plica.Circuit([layer], {}, [layer]), folder / "a.plicab")
assert plica.native.load(folder / "a.plicab")(np.array([[0], [2]])).shape == (2, 1, 1)
assert "stablehlo" in plica.native.stablehlo(folder / "m.plica")[0]
sys.argv = ["plica", "export", str(folder / "m.plica"), "-o", str(folder / "b.plicab"), "--updatable", "all"]
main()
"""


def test_no_torch_is_needed(tmp_path: Path) -> None:
    layer = CategoricalLayer([0], 1, num_categories=3)
    plica.save(plica.compile(Circuit([layer], {}, [layer])), tmp_path / "m.plica")
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path)], check=False, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    with native.load(tmp_path / "b.plicab") as module:
        assert module(np.array([[0], [2]])).shape == (2, 1, 1)


def _without_value() -> Circuit:
    mean = TensorParameter(1, initializer=None, name="mean")
    layer = GaussianLayer([0], 1, mean=mean, stddev=ConstantParameter(1, value=1.0))
    return Circuit([layer], {}, [layer])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda folder: folder / "none.plica", FileFormatError, "no such file"),
        (lambda _: _without_value(), InputError, "the leaf 'mean' has no value of its own"),
        (lambda _: 3, InputError, "found int"),
    ],
)
def test_what_has_no_values_is_refused(
    tmp_path: Path, make: Callable[[Path], Any], error: type[Exception], message: str
) -> None:
    for write in (lambda model: native.compile(model, tmp_path / "x.plicab"), native.stablehlo):
        with pytest.raises(error, match=message):
            write(make(tmp_path))
    assert not (tmp_path / "x.plicab").exists()


def test_weights_that_became_negative_are_refused_in_a_file_too(tmp_path: Path) -> None:
    weight = TensorParameter(1, 2, initializer=ConstantTensorInitializer(0.5))
    described = product_then_sum(
        HadamardLayer(2, 1), [CategoricalLayer([0], 2, num_categories=2)], weight_factory=lambda _: weight
    )
    compiled = plica.compile(described)
    state = {key: tensor.numpy().copy() for key, tensor in compiled.state_dict().items()}
    key = next(key for key in state if key.endswith("weight"))
    state[key][0, 1] = -0.25
    save_model(tmp_path / "m.plica", described, state, {"semiring": "lse-sum"})
    with pytest.raises(UnsupportedError, match=r"weight has the entry -0\.25, and lse-sum stores"):
        native.compile(tmp_path / "m.plica", tmp_path / "x.plicab")
