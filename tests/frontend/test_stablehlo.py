import numpy as np
import pytest
import torch

import plica
import plica.native
import plica.numpy as pnp
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import InputError, UnsupportedError
from plica.frontend.native import entry_programs_of
from plica.ir.program import Program
from plica.templates.data_modalities import image_data
from tests.harness.case_circuits import circuit_of, data_of
from tests.harness.conformance import is_signed
from tests.harness.layer_cases import LAYER_CASES, LayerCase
from tests.harness.stablehlo import run, run_module

QUERIES = ("log-likelihood", "marginal", "sample", "conditional-sample", "mpe")

REFUSED = {"module": "code of another library"}


@pytest.fixture(scope="module")
def model():
    circuit = image_data(
        (1, 2, 2),
        "quad-tree-2",
        input_layer="categorical",
        num_values=3,
        num_input_units=2,
        sum_product_layer="cp",
        num_sum_units=2,
    )
    return plica.compile(circuit).eval()


def _arguments(program: Program, rows: int):
    rng = np.random.default_rng(rows)
    for var in program.arguments:
        if var.name == "x":
            x = rng.integers(3, size=(rows, 4))
            yield x if var.type.dtype.kind == "int" else np.where(x == 0, np.nan, x).astype(var.type.dtype.numpy)
        else:
            yield rng.random([dim if isinstance(dim, int) else rows for dim in var.type.shape], dtype="float32")


@pytest.mark.parametrize("query", [pytest.param(one, marks=[pytest.mark.full] * ("sample" in one)) for one in QUERIES])
def test_questions_to_a_circuit(model, query: str) -> None:
    text, arrays = plica.native.stablehlo(model, query)
    assert not arrays
    closed = entry_programs_of(model, [query])[-1].body
    for rows in (0, 1, 6):
        given = list(_arguments(closed.program, rows))
        for found, expected in zip(run(text, *given), closed(*given), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_circuit_for_a_given_number_of_rows(model) -> None:
    x = np.asarray([[0, 1, 2, 2], [1, 1, 0, 2]])
    text, _ = plica.native.stablehlo(model, sizes={"b": 2})
    np.testing.assert_allclose(run_module(text, [x])[0], model(torch.from_numpy(x)).detach(), rtol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("case", LAYER_CASES, ids=lambda one: one.name)
def test_layers(case: LayerCase) -> None:
    circuit = circuit_of(case)
    model = TorchCompiler(semiring="sum-product" if is_signed(case) else "lse-sum").compile(circuit).eval()
    if case.name in REFUSED:
        with pytest.raises(UnsupportedError, match=REFUSED[case.name]):
            plica.native.stablehlo(model)
        return
    text, _ = plica.native.stablehlo(model)
    closed = entry_programs_of(model, ["log-likelihood"])[-1].body
    (x,) = closed.program.arguments
    rows = data_of(circuit, LAYER_CASES, 4, 0.0).astype(x.type.dtype.numpy)
    for found, expected in zip(run(text, rows), closed(rows), strict=True):
        np.testing.assert_allclose(found, expected, rtol=5e-5, atol=5e-5)


def test_weights_that_stand_apart_come_first(model) -> None:
    text, arrays = plica.native.stablehlo(model, embedded=False)
    assert sum(f"// {name}: " in text for name in arrays) == len(arrays) > 0
    x = np.asarray([[0, 1, 2, 2]])
    (found,) = run(text, *arrays.values(), x)
    np.testing.assert_allclose(found, run(plica.native.stablehlo(model)[0], x)[0], rtol=1e-6)


def test_functions_and_programs() -> None:
    weight = np.arange(3.0)

    @plica.jit
    def scored(x: plica.spec(("n", 3), "float64")):
        return pnp.sum(x * weight, axis=1)

    for one in (scored, plica.trace(lambda x: pnp.sum(x, axis=1), plica.spec(("n", 3), "float64"))):
        text, _ = plica.native.stablehlo(one)
        assert run(text, np.ones((2, 3)))[0].tolist() == [3.0, 3.0]


def test_a_query_that_there_is_not(model) -> None:
    with pytest.raises(InputError, match="there is no query 'best'"):
        plica.native.stablehlo(model, "best")
