"""Checks of a copy of the source to which `tests/test_additions.py` adds a distribution, an operation and a query.

python -m tests.harness.additions    # in the copy
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats

import plica
import plica.numpy as pnp
from plica import queries
from plica.cli.export import _entry_names
from plica.files.model import load_model, save_model
from plica.symbolic import layers
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.parameters import TensorParameter
from tests.harness.conformance import checks_of
from tests.harness.examples import EXAMPLES
from tests.harness.generated import generated_files, made, write
from tests.harness.layer_cases import LAYER_CASES
from tests.harness.query_checks import QUERY_CHECKS, Asked
from tests.harness.samples import CASES
from tests.harness.wrong_arguments import CALLS

LOC, SCALE, WEIGHT = np.array([-1.0, 2.0]), np.array([0.5, 1.5]), np.array([[0.3, 0.7]])


def _leaf(values: Any) -> TensorParameter:
    return TensorParameter(*values.shape, initializer=ConstantTensorInitializer(values))


def _mixture() -> Circuit:
    layer = layers.DISTRIBUTIONS["logistic"].layer([0], 2, loc=_leaf(LOC), scale=_leaf(SCALE))
    total = layers.SumLayer(2, 1, weight=_leaf(WEIGHT))
    return Circuit([layer, total], {total: [layer]}, [total])


def _densities(x: Any, loc: Any = LOC) -> Any:
    return np.log(WEIGHT[0] @ stats.logistic.pdf(x, loc[:, None], SCALE[:, None]))


def check_distribution() -> None:
    """Value, gradient, query and file against SciPy; its case is among those of layers, and its constructor's calls."""
    circuit, x = plica.compile(_mixture(), dtype="float64"), np.array([-3.0, 0.2, 5.0])
    scores = circuit(torch.from_numpy(x[:, None]))
    np.testing.assert_allclose(scores.detach().numpy().ravel(), _densities(x), rtol=1e-12)
    scores.sum().backward()
    (slope,) = [tensor.grad for name, tensor in circuit.named_parameters() if "loc" in name]
    step = np.array([1e-6, 0.0])
    difference = (_densities(x, LOC + step) - _densities(x, LOC - step)).sum() / 2e-6
    np.testing.assert_allclose(slope.ravel()[0].item(), difference, rtol=1e-7)
    (median,) = queries.quantile(circuit, 0, 0.5).ravel().tolist()
    np.testing.assert_allclose(WEIGHT[0] @ stats.logistic.cdf(median, LOC, SCALE), 0.5, atol=1e-9)
    with tempfile.TemporaryDirectory() as folder:
        tensors = {name: value.numpy() for name, value in circuit.state_dict().items()}
        save_model(Path(folder) / "model.plica", circuit.folded.described, tensors, {})
        again = load_model(Path(folder) / "model.plica")
        assert [type(layer).__name__ for layer in again.circuit.layers] == ["LogisticLayer", "SumLayer"]
    (case,) = [case for case in LAYER_CASES if case.name == "logistic"]
    for name in ("reference", "constructor", "file"):
        checks_of(case)[name](case)
    assert "LogisticLayer" in {str(call) for call in CALLS["layers"]()}


def check_operation() -> None:
    """Value and gradient in every backend's way; its example and its samples are among those of operations."""

    def total(x: Any) -> Any:
        return pnp.sum(pnp.rsqrt(x), axis=0)

    x = np.array([0.25, 2.0, 9.0])
    tensor = torch.tensor(x, requires_grad=True)
    result = plica.jit(total)(tensor)
    np.testing.assert_allclose(result.item(), (x**-0.5).sum(), rtol=1e-12)
    (slope,) = torch.autograd.grad(result, [tensor])
    np.testing.assert_allclose(slope.numpy(), -0.5 * x**-1.5, rtol=1e-12)
    np.testing.assert_allclose(pnp.rsqrt(x), x**-0.5, rtol=1e-12)
    program = plica.trace(total, plica.spec("n", "float64"))
    assert "rsqrt" in str(program)
    assert plica.parse(str(program)) == program
    text, *_ = plica.native.stablehlo(program)
    assert "sqrt" in text
    assert "rsqrt" not in text
    assert "rsqrt" in {example.name for example in EXAMPLES}
    assert "rsqrt" in {case.op for case in CASES}


def check_query() -> None:
    """Its answer by the oracle, its entry in native files, and its name for the command line."""
    described = _mixture()
    asked = Asked(described, plica.compile(described, dtype="float64").eval(), LAYER_CASES)
    QUERY_CHECKS["greedy"](asked)
    assert "greedy" in queries.__all__
    assert "greedy-completion" in _entry_names()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "greedy.plicab"
        plica.native.compile(asked.compiled, path, queries="greedy-completion")
        assert plica.native.load(path).entries == ("greedy_completion",)


def check_generated() -> None:
    """Pages and stubs have been made again, with all three."""
    text = "".join(path.read_text() for path in generated_files())
    assert all(path.read_text() == made(path) for path in generated_files())
    for line in ("| `LogisticLayer` | `logistic` |", "| `rsqrt` | elementwise |", "| `greedy` | up and down |"):
        assert line in text, line
    assert "def rsqrt(x: Any, /)" in text
    assert "import greedy\n" in text


if __name__ == "__main__":
    write()
    for check in (check_distribution, check_operation, check_query, check_generated):
        check()
