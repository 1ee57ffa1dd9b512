"""`plica.native.compile`: what becomes a file, and what it answers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica import native, queries
from plica.backend.native.file import file_of
from plica.backend.native.targets import target_of
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import InputError, StructuralPropertyError, UnsupportedError
from plica.frontend.native import entry_programs_of as native_entry_programs
from plica.runtime.module import NativeModule
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    CategoricalLayer,
    DiagonalGaussianLayer,
    GaussianLayer,
    HadamardLayer,
    ModuleLayer,
    PoissonLayer,
)
from plica.symbolic.parameters import Parameter
from plica.symbolic.scope import Scope
from plica.templates.data_modalities import image_data
from tests.harness.circuits import constant, product_then_sum
from tests.harness.forged_files import ask_forgeries
from tests.harness.native_circuits import compiled
from tests.harness.own_layers import PAIRS_IN_PART, PairLayer


def _scaled(x: object, w: object) -> object:
    return pnp.tanh(x @ pnp.softmax(w, axis=0)) * 2


def test_functions(tmp_path: Path) -> None:
    """A Program, and a compiled function with the array that it captures."""
    w = np.linspace(-1.0, 1.0, 12, dtype="float32").reshape(4, 3)
    x = np.arange(8, dtype="float32").reshape(2, 4)
    program = plica.trace(_scaled, plica.spec(("b", 4)), plica.spec((4, 3)))
    native.compile(program, tmp_path / "p.plicab")
    expected = plica.interpret(program, x, w)
    with native.load(tmp_path / "p.plicab") as module:
        np.testing.assert_allclose(module(x, w), np.asarray(expected).reshape(2, 3), rtol=1e-5)
        assert module(x[:0], w).shape == (0, 3)


@pytest.fixture(scope="module")
def circuit() -> Any:
    """Three variables of three states."""
    inputs = [CategoricalLayer([v], 3, num_categories=3) for v in range(3)]
    return compiled(product_then_sum(HadamardLayer(3, 3), inputs))


@pytest.fixture(scope="module")
def module(circuit: Any, tmp_path_factory: pytest.TempPathFactory) -> NativeModule:
    """Queries of it."""
    path = tmp_path_factory.mktemp("native") / "q.plicab"
    native.compile(circuit, path, queries=("conditional-sample", "mpe"))
    return native.load(path)


def test_most_probable_rows(module: NativeModule, circuit: Any) -> None:
    x = np.asarray([[0, 1, np.nan], [np.nan, 2, np.nan], [np.nan] * 3, [2, 0, 1]], dtype="float32")
    rows, values = module.mpe(x)
    expected = queries.mpe(circuit, torch.from_numpy(x))
    assert np.array_equal(rows, expected[0].numpy())
    assert rows.dtype == np.int64
    np.testing.assert_allclose(values, expected[1].detach().numpy(), rtol=1e-5)


@pytest.mark.full
def test_a_change_whose_hashes_are_right_ends_no_process(tmp_path: Path) -> None:
    """Code reads where tensors of integers say: other numbers in their places were the end of the process."""
    settings: dict[str, Any] = {"num_values": 4, "num_input_units": 3, "num_sum_units": 3, "sum_product_layer": "cp"}
    model = plica.compile(image_data((1, 3, 3), "quad-graph", input_layer="categorical", **settings))
    native.compile(model, tmp_path / "m.plicab", queries="marginal")
    assert ask_forgeries(tmp_path / "m.plicab", 1000)


def test_rows_that_cannot_be_completed(module: NativeModule) -> None:
    """Their logarithm is NaN: entries that are no state, and layers of which some variables are known and not all."""
    x = np.asarray([[0, 3, np.nan], [np.nan, 0.5, 1], [0, 1, np.nan]], dtype="float32")
    for _, values in (module.mpe(x), module.conditional_sample(x, seed=0)):
        assert np.isnan(values).tolist() == [True, True, False]
    pair = PairLayer(Scope([0, 1]), 1, 2, Parameter.from_input(constant([[0.1, 0.2, 0.3, 0.4]])))
    y = np.asarray([[1, np.nan], [1, 0], [np.nan, np.nan]], dtype="float32")
    for layer, row, wrong in ((pair, PAIRS_IN_PART, True), (DiagonalGaussianLayer([0, 1], 1), None, False)):
        compiler = TorchCompiler()
        if row is not None:
            compiler.add_layer_rule(row)
        model = compiler.compile(Circuit([layer], {}, [layer])).eval()
        for entry_program in native_entry_programs(model, ["mpe", "conditional-sample"]):
            uniforms = [np.full((2, 3), 0.3, "float32")] if entry_program.draws else []
            assert np.isnan(entry_program.body(y, *uniforms)[1]).tolist() == [wrong, False, False]


def test_completions(module: NativeModule, circuit: Any) -> None:
    """What is known stays, and what is drawn has the conditional distribution."""
    x = np.tile(np.asarray([1, np.nan, np.nan], dtype="float32"), (4000, 1))
    rows, known = module.conditional_sample(x, seed=0)
    assert (rows[:, 0] == 1).all()
    again, _ = module.conditional_sample(x, seed=0)
    assert np.array_equal(rows, again)
    ask = torch.from_numpy(x[:1])
    with torch.no_grad():
        np.testing.assert_allclose(known[:1], circuit(ask)[:, 0, 0].numpy(), rtol=1e-5)
        pairs = np.stack(np.meshgrid([1], range(3), range(3), indexing="ij"), -1).reshape(-1, 3)
        exact = torch.exp(circuit(torch.from_numpy(pairs))[:, 0, 0] - known[0]).numpy()
    counts = np.asarray([(rows == pair).all(axis=1).mean() for pair in pairs])
    np.testing.assert_allclose(counts, exact, atol=5 * np.sqrt(0.25 / 4000))


def test_rows_of_states_and_real_numbers() -> None:
    """They are floats, whatever is asked: integers would hold no real number."""
    inputs = [CategoricalLayer([0], 3, num_categories=3), GaussianLayer([1], 3), PoissonLayer([2], 3)]
    model = compiled(product_then_sum(HadamardLayer(3, 3), inputs))
    x = np.asarray([[0, 0.5, 2], [2, -1.25, 0]], dtype="float32")
    expected = model(torch.from_numpy(x)).detach().numpy()
    [entry_program] = native_entry_programs(model, ["log-likelihood"])[-1:]
    assert entry_program.body.program.arguments[0].type.dtype.value == "float32"
    np.testing.assert_allclose(entry_program.body(x)[0], expected, rtol=1e-5)
    assert "log_likelihood" in [one.name for one in native_entry_programs(model)]
    whole = compiled(product_then_sum(HadamardLayer(3, 2), [inputs[0], PoissonLayer([1], 3)]))
    assert native_entry_programs(whole, ["log-likelihood"])[0].body.program.arguments[0].type.dtype.value == "int64"


@pytest.mark.full
def test_samples(circuit: Any, tmp_path: Path) -> None:
    native.compile(circuit, tmp_path / "s.plicab", queries="sample")
    with native.load(tmp_path / "s.plicab") as module:
        rows = module.sample(n=4000, seed=1)
    assert rows.shape == (4000, 3)
    with torch.no_grad():
        for variable in range(3):
            x = torch.full((3, 3), torch.nan)
            x[:, variable] = torch.arange(3.0)
            exact = circuit(x)[:, 0, 0].exp().numpy()
            counts = np.bincount(rows[:, variable], minlength=3) / 4000
            np.testing.assert_allclose(counts, exact, atol=5 * np.sqrt(0.25 / 4000))


def test_tables_are_shared() -> None:
    """What knows no missing data reads the table of what does, so that a file has it once."""
    settings: dict[str, Any] = {"num_values": 9, "num_input_units": 3, "num_sum_units": 3, "sum_product_layer": "cp"}
    model = compiled(image_data((1, 2, 2), "quad-tree-2", input_layer="categorical", **settings))
    alone, both = (
        [tensor.shape for tensor in file_of(native_entry_programs(model, one), [target_of("host")], {})[1].tensors]
        for one in (["marginal"], ["log-likelihood", "marginal"])
    )
    rows = max(shape[0] for shape in alone)
    assert rows == 4 * 10  # one state more than pixels have
    assert [shape[0] for shape in both if len(shape) == 2] == [rows]
    x = np.arange(12).reshape(3, 4) % 9
    scores, marginals = native_entry_programs(model)
    np.testing.assert_allclose(scores.body(x)[0], marginals.body(x.astype("float32"))[0], rtol=1e-6)


def test_refused(tmp_path: Path, circuit: Any) -> None:
    """What is wrong is told before anything is compiled."""
    path = tmp_path / "x.plicab"
    with pytest.raises(InputError, match="there is no query 'best' of native files; there are log-likelihood"):
        native.compile(circuit, path, queries="best")
    with pytest.raises(InputError, match="answers at least one query; there are log-likelihood"):
        native.compile(circuit, path, queries=())
    with pytest.raises(InputError, match="there is no target 'pdp-11'"):
        native.compile(circuit, path, targets="pdp-11")
    with pytest.raises(InputError, match="found int; compile or trace it first"):
        native.compile(3, path)
    with pytest.raises(InputError, match="there is no driver 'threads'"):
        native.compile(circuit, path, driver="threads")
    assert not path.exists()


def test_drivers_say_how_many_threads_share_rows(circuit: Any, tmp_path: Path) -> None:
    path, alone = tmp_path / "x.plicab", {}
    for driver in (None, "local-sync", "local-task"):
        native.compile(circuit, path, driver=driver)
        with native.load(path) as module:
            alone[driver] = [one.rows.alone for one in module.manifest.entries if one.rows is not None]
    assert min(alone["local-sync"]) > 2**40 > max(alone[None]) >= min(alone[None]) > 0 == max(alone["local-task"])
    program = plica.trace(lambda x: x * 2, plica.spec(("n",)))
    with pytest.raises(UnsupportedError, match=r"main has no rows that threads could share.*leave out driver="):
        native.compile(program, path, driver="local-task")
    native.compile(program, path, driver="local-sync")


def test_modules_refused(tmp_path: Path) -> None:
    """Code of another library is in no file."""

    class Normal(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return -(x**2).expand(-1, 2) / 2

    layer = ModuleLayer([0], 2, module=Normal())
    with pytest.raises(UnsupportedError, match="calls a Normal, which is code of another library"):
        native.compile(compiled(Circuit([layer], {}, [layer])), tmp_path / "x.plicab")


def test_weights_of_nan_refused(tmp_path: Path) -> None:
    """The layer of the fold is named, by the key of its `state_dict`."""
    model = compiled(
        product_then_sum(HadamardLayer(3, 3), [CategoricalLayer([v], 3, num_categories=3) for v in range(3)])
    )
    state = model.state_dict()
    state["1.logits"][2, 0] = float("nan")
    model.load_state_dict(state)
    with pytest.raises(InputError, match=r"^1\.logits: some entries are NaN"):
        native.compile(model, tmp_path / "x.plicab")
    assert not (tmp_path / "x.plicab").exists()


def test_negative_weights_refused(tmp_path: Path) -> None:
    """A circuit one of whose weights has become negative describes no distribution to draw from."""
    inputs = [CategoricalLayer([v], 2, num_categories=2) for v in range(2)]
    circuit = product_then_sum(HadamardLayer(2, 2), inputs, weight_factory=_plain)
    for semiring, error in (("lse-sum", UnsupportedError), ("sum-product", StructuralPropertyError)):
        model = compiled(circuit, semiring)
        with torch.no_grad():
            for tensor in model.leaves.tensors():
                tensor.fill_(-1.0)
        with pytest.raises(error, match="negative"):
            native.compile(model, tmp_path / "x.plicab", queries="sample")


def _plain(shape: tuple[int, ...]) -> object:
    from plica.symbolic.initializers import UniformInitializer
    from plica.symbolic.parameters import TensorParameter

    return TensorParameter(*shape, initializer=UniformInitializer(0.1, 1.0))


def test_a_function_that_calls_a_compiled_circuit(tmp_path):
    """The circuit's weights are read as they are when the file is written."""
    structure = image_data(
        (1, 1, 2), "quad-tree-2", input_layer="categorical", num_values=3, num_input_units=2, num_sum_units=2,
        sum_product_layer="cp",
    )  # fmt: skip
    circuit = plica.compile(structure).eval()
    scores = plica.jit(lambda x: circuit(x)[:, 0, 0] * 2, abstracted_axes={0: "n"})
    x = torch.tensor([[0, 2], [1, 1]])
    expected = scores(x).detach().numpy()
    native.compile(scores, tmp_path / "m.plicab")
    np.testing.assert_allclose(native.load(tmp_path / "m.plicab")(x.numpy()), expected, rtol=1e-5)
