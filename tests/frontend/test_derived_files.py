"""Files, text and commands of circuits that were made from others: each equal to the compiled circuit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import plica
from plica import native
from plica.cli.main import main
from plica.errors import InputError, PlicaError
from plica.pipeline import PipelineContext
from plica.symbolic.circuit import Circuit
from plica.symbolic.scope import Scope
from tests.harness.derived_circuits import integrated, observed, product, sums_over, tree
from tests.harness.oracle import numbers
from tests.harness.pairwise import by_turns, first_usual
from tests.harness.stablehlo import run as run_stablehlo

X = np.array([[0, 1, 2, 0, 7], [2, 2, 0, 1, -3], [1, 0, 1, 2, 0]])
SEMIRINGS = ["lse-sum", "sum-product", "complex-lse-sum"]
MADE: dict[str, Callable[[], Circuit]] = {
    "integral": lambda: integrated(tree(), [4]),
    "integral of two outputs": lambda: integrated(tree(2), [4]),
    "evidence": lambda: observed(tree(), {4: 1}),
    "product": lambda: product(observed(tree(), {2: 0, 3: 0, 4: 1}), observed(tree(), {0: 1, 1: 1, 4: 1})),
    "total": lambda: integrated(tree(), range(5)),
    "totals": lambda: integrated(tree(2), range(5)),
}


def _rows(circuit: Circuit) -> tuple[Any, ...]:
    return (X,) if circuit.scope else ()


def _values(compiled: Any, *x: Any) -> Any:
    with torch.no_grad():
        return compiled(*map(torch.from_numpy, x)).numpy()


@by_turns(name=list(MADE), semiring=SEMIRINGS)
def test_model_files(tmp_path: Path, name: str, semiring: str) -> None:
    circuit = MADE[name]()
    compiled = plica.compile(circuit, semiring=semiring, dtype="float64")
    plica.save(compiled, tmp_path / "m.plica")
    loaded = plica.load(tmp_path / "m.plica")
    assert loaded.data_scope == circuit.data_scope
    assert loaded.symbolic.operation is None
    x = _rows(circuit)
    assert np.array_equal(_values(loaded, *x), _values(compiled, *x))
    plica.save(loaded, tmp_path / "again.plica")
    assert (tmp_path / "again.plica").read_bytes() == (tmp_path / "m.plica").read_bytes()


@pytest.mark.one_in(2)
@by_turns(name=list(MADE), semiring=SEMIRINGS[:2])
def test_native_files(tmp_path: Path, name: str, semiring: str) -> None:
    circuit = MADE[name]()
    compiled = plica.compile(circuit, semiring=semiring, dtype="float64").eval()
    native.compile(compiled, tmp_path / "c.plicab")
    expected = _values(compiled, *_rows(circuit))
    with native.load(tmp_path / "c.plicab") as module:
        for x in (_rows(circuit), tuple(rows.astype(float) for rows in _rows(circuit))):
            found = module(*x)
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
        if circuit.scope:
            with pytest.raises(PlicaError, match=r"found shape \(3, 4\): axis 1 of x has size 4, expected 5"):
                module(X[:, :4])


@pytest.mark.full
@pytest.mark.parametrize("name", MADE)
def test_native_files_of_complex_numbers(tmp_path: Path, name: str) -> None:
    test_native_files(tmp_path, name, "complex-lse-sum")


def test_a_native_total_equals_the_sum_over_all_states(tmp_path: Path) -> None:
    c = tree(2)
    context = PipelineContext(dtype="float64")
    native.compile(context.compile(integrated(c, range(5))), tmp_path / "z.plicab")
    with native.load(tmp_path / "z.plicab") as module:
        assert module().shape == (2, 1)
        expected = sums_over(c, numbers(context[c]), range(5), X[:1])[0]
        np.testing.assert_allclose(np.exp(module()), expected.astype(float), rtol=1e-11)


@pytest.mark.parametrize("name", first_usual(["total", "integral"]))
def test_tensors_of_native_files_may_be_replaced(tmp_path: Path, name: str) -> None:
    circuit = MADE[name]()
    compiled = plica.compile(circuit, dtype="float64").eval()
    native.compile(compiled, tmp_path / "c.plicab", updatable=True)
    with native.load(tmp_path / "c.plicab") as module:
        np.testing.assert_allclose(module(*_rows(circuit)), _values(compiled, *_rows(circuit)), rtol=1e-12)
        with torch.no_grad():
            for parameter in compiled.parameters():
                parameter.mul_(2.0)
        module.update({key: value.numpy() for key, value in compiled.state_dict().items()})
        np.testing.assert_allclose(module(*_rows(circuit)), _values(compiled, *_rows(circuit)), rtol=1e-12)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", MADE)
def test_text_for_xla(name: str) -> None:
    circuit = MADE[name]()
    compiled = plica.compile(circuit, dtype="float64").eval()
    text, _ = native.stablehlo(compiled)
    outputs = len(circuit.outputs)
    assert f"-> (tensor<{'?x' if circuit.scope else ''}{outputs}x1xf64>)" in text
    (found,) = run_stablehlo(text, *_rows(circuit))
    np.testing.assert_allclose(found, _values(compiled, *_rows(circuit)), rtol=1e-9, atol=1e-12)


def test_commands(tmp_path: Path) -> None:
    circuit = MADE["integral"]()
    compiled = plica.compile(circuit, dtype="float64").eval()
    plica.save(compiled, tmp_path / "m.plica")
    np.save(tmp_path / "x.npy", np.abs(X))

    def plica_command(*words: Any) -> Any:
        return CliRunner().invoke(main, list(map(str, words)))

    done = plica_command("score", tmp_path / "m.plica", tmp_path / "x.npy", "--out", tmp_path / "y.npy")
    assert done.exit_code == 0, done.output
    expected = plica.queries.log_likelihood(compiled, torch.from_numpy(X)).detach()
    np.testing.assert_allclose(np.load(tmp_path / "y.npy").flatten(), expected, rtol=1e-6)
    plica.save(plica.compile(MADE["totals"](), dtype="float64"), tmp_path / "z.plica")
    refused = plica_command("score", tmp_path / "z.plica", tmp_path / "x.npy", "--out", tmp_path / "y.npy")
    assert refused.exit_code == 2
    assert "the model has no variables, so that there are no rows to score" in refused.stderr
    assert plica_command("export", tmp_path / "z.plica", "-o", tmp_path / "z.plicab").exit_code == 0
    done = plica_command("run", tmp_path / "z.plicab", "--output", tmp_path / "z.npy")
    assert done.exit_code == 0, done.output
    assert np.load(tmp_path / "z.npy").shape == (2, 1)


def test_a_file_says_only_what_differs_from_the_scope(tmp_path: Path) -> None:
    from safetensors import safe_open

    for name, expected in (("integral", list(range(5))), ("total", None)):
        plica.save(plica.compile(MADE[name]()), tmp_path / "m.plica")
        with safe_open(tmp_path / "m.plica", framework="numpy") as file:
            text = file.metadata()["plica-model"]
        assert ('"data_scope"' in text) == (expected is not None)
        assert f'"version": {2 if expected is None else 4}' in text
    with pytest.raises(InputError, match=r"which data_scope .* lacks"):
        Circuit(*_parts(tree()), data_scope=Scope(range(4)))


def _parts(circuit: Circuit) -> tuple[Any, Any, Any]:
    return circuit.layers, circuit.layers_inputs, circuit.outputs
