"""Every cell of the tables of queries: those that say yes agree with the oracle, the others refuse by name."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import plica.queries
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import InputError, StructuralPropertyError, UnsupportedError
from plica.ir.op import Unsupported
from plica.lower.queries.needs import Needs
from plica.lower.queries.table import QUERIES
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import (
    LAYER_ROWS,
    CategoricalLayer,
    EmbeddingLayer,
    HadamardLayer,
    HistogramLayer,
    InputRow,
    PolynomialLayer,
    UniformLayer,
)
from plica.symbolic.parameters import ConstantParameter, Parameter, TensorParameter
from plica.symbolic.semirings import SEMIRINGS
from tests.harness.case_circuits import circuit_of, data_of
from tests.harness.circuits import product_then_sum
from tests.harness.layer_cases import CASES, LAYER_CASES, LayerCase, polynomial
from tests.harness.layer_cases.categorical import exp_normal
from tests.harness.pairwise import pairwise
from tests.harness.queries import one_unit
from tests.harness.query_checks import QUERY_CHECKS, Asked, check_impossible
from tests.harness.spaces import LINEAR
from tests.harness.tables.queries import NEEDS

# The first case of each layer, and those of a user's own layers of which most queries know nothing. Not those whose
# values have any sign: a circuit of them describes a distribution for some parameters alone, which tests below give.
POSITIVE = [case for case in LAYER_CASES if "any sign" not in case.name and not case.name.startswith("polynomial")]
FIRST = [*{case.row.layer: case for case in reversed(POSITIVE)}.values()][::-1]
FIRST += [case for case in CASES if case.name in ("joint of two", "poisson")]


def asked_of(case: LayerCase, semiring: str = "lse-sum", dtype: str = "float64", **flags: Any) -> Asked:
    """A circuit around a layer, compiled."""
    torch.manual_seed(1)
    compiler = TorchCompiler(semiring, dtype=dtype, **flags)
    if case.row.layer not in LAYER_ROWS:
        compiler.add_layer_rule(case.row)
    circuit = one_unit(circuit_of(case))
    return Asked(circuit, compiler.compile(circuit), [*LAYER_CASES, case])


def check_cell(asked: Asked, needs: Needs, case: LayerCase) -> None:
    """The query answers as the oracle does, or names the layer and the reason.

    Where the algebra cannot reduce the variables of the layer, it may do either.
    """
    layer = next(layer for layer in asked.circuit.layers if type(layer) is case.row.layer)
    lacking = needs.lacking(case.row, layer)
    reduction = case.row.reduction(asked.compiled.semiring) if isinstance(case.row, InputRow) else None
    if lacking is None:
        unreduced = UnsupportedError if isinstance(reduction, Unsupported) else ()
        try:
            QUERY_CHECKS[needs.function](asked)
        except unreduced as error:
            if reduction.why not in str(error):
                raise
        return
    name = case.row.layer.__name__
    asks = rf"({needs.name}|row \d+: variable \d+ is missing, and) "
    with pytest.raises(UnsupportedError, match=rf"{asks}.*{name}\(.*{re.escape(lacking.why[:20])}"):
        QUERY_CHECKS[needs.function](asked)


def test_public_functions_are_those_of_the_table() -> None:
    assert {name: getattr(plica.queries, name) for name in QUERIES} == {
        name: query.ask for name, query in QUERIES.items()
    }
    assert all(name == query.function for name, query in QUERIES.items())
    assert {"ask", "Explanations", "Posterior", *QUERIES} == set(plica.queries.__all__)
    name = "temperature"
    with pytest.raises(AttributeError, match="has no attribute 'temperature'"):
        getattr(plica.queries, name)


@pytest.mark.full
def test_values_of_any_sign_in_log_space() -> None:
    """What adds up to a probability though some of it is negative, and 600 factors of a hundredth."""
    tables = [[[1.5, -0.5], [-0.5, 1.5]], *([[[0.01, 0.99], [0.01, 0.99]]] * 300)]
    layers = [
        CategoricalLayer([v], 2, num_categories=2, probs=ConstantParameter(2, 2, value=table))
        for v, table in enumerate(tables)
    ]
    weight = Parameter.from_input(ConstantParameter(1, 2, value=[[0.5, 0.5]]))
    circuit = product_then_sum(HadamardLayer(2, 301), layers, weight=weight)
    for semiring in ("sum-product", "signed-lse-sum", "complex-lse-sum"):
        compiled = TorchCompiler(semiring, dtype="float64").compile(circuit)
        found = plica.queries.log_likelihood(compiled, torch.zeros(1, 301, dtype=torch.int64))
        assert found.item() == pytest.approx(np.log(0.5) + 300 * np.log(0.01), rel=1e-12)


def test_the_table_says_of_classes_what_holds_for_layers() -> None:
    """A query that spares some layers of a class, as those with states, says so of all of them."""
    for case in LAYER_CASES:
        circuit = circuit_of(case)
        layers = [layer for layer in circuit.layers if type(layer) is case.row.layer]
        for needs in NEEDS:
            found = {needs.lacking(case.row, layer) is None for layer in layers}
            assert found == {needs.lacking(case.row) is None}, (case, needs.function)


def signed_weight() -> Circuit:
    """A circuit whose values are positive though a weight is negative."""
    weight = ConstantParameter(1, 2, value=[[1.5, -0.5]])
    tables = [[[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]], [[0.5, 0.25, 0.25], [0.1, 0.3, 0.6]]]
    layers = [
        CategoricalLayer([v], 2, num_categories=3, probs=ConstantParameter(2, 3, value=table))
        for v, table in enumerate(tables)
    ]
    return product_then_sum(HadamardLayer(2, 2), layers, weight=Parameter.from_input(weight))


def signed_inputs(sign: float = -1) -> Circuit:
    """A circuit whose values are positive though numbers of its input layers are negative, if the sign is."""
    weight = ConstantParameter(1, 2, value=[[0.5, 0.7]])
    tables = [[[1.0, 0.2 * sign, 0.5], [0.5, 0.5, 0.6]], [[1.0, 0.6, 0.2 * sign], [0.5, 0.7, 0.9]]]
    layers = [EmbeddingLayer([v], 2, num_states=3, weight=start((2, 3), table)) for v, table in enumerate(tables)]
    return product_then_sum(HadamardLayer(2, 2), layers, weight=Parameter.from_input(weight))


def start(shape: tuple[int, ...], values: Any) -> Parameter:
    """A tensor that is learned, whose sign nobody knows before a call."""
    return Parameter.from_input(TensorParameter(*shape, initializer=ConstantTensorInitializer(np.array(values))))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("circuit", [signed_weight, signed_inputs])
@pytest.mark.parametrize("semiring", [name for name, row in SEMIRINGS.items() if row.negative])
def test_cells_of_negative_numbers(semiring: str, circuit: Any) -> None:
    own = SEMIRINGS[semiring]
    described = circuit()
    asked = Asked(described, TorchCompiler(semiring, dtype="float64").compile(described), LAYER_CASES)
    for needs in NEEDS:
        if needs.carrier(own).negative:
            QUERY_CHECKS[needs.function](asked)
        else:
            with pytest.raises(StructuralPropertyError, match="needs weights that are not negative"):
                QUERY_CHECKS[needs.function](asked)


@pytest.mark.parametrize("semiring", [name for name, row in SEMIRINGS.items() if not row.negative])
def test_negative_numbers_are_refused_where_nothing_carries_them(semiring: str) -> None:
    described = signed_inputs(sign=1)
    asked = Asked(described, TorchCompiler(semiring, dtype="float64").compile(described), LAYER_CASES)
    negative = TorchCompiler("sum-product", dtype="float64").compile(signed_inputs())
    asked.compiled.load_state_dict(negative.state_dict())
    for needs in NEEDS:
        with pytest.raises((StructuralPropertyError, UnsupportedError), match="negative"):
            QUERY_CHECKS[needs.function](asked)


@pytest.mark.parametrize("semiring", [name for name, row in SEMIRINGS.items() if row.negative])
def test_cells_of_polynomials(semiring: str) -> None:
    """Which have no integral, so that most queries are refused; some units are negative at other data."""
    (case,) = polynomial.CASES
    powers = replace(
        case,
        build=polynomial.of(2, coeff_factory=exp_normal),
        alike=(),
        draw=lambda _, rng, rows: rng.random((rows, 1)),
    )
    asked = asked_of(powers, semiring)
    for needs in NEEDS:
        check_cell(asked, needs, powers)


def test_rows_with_negative_units_have_no_posterior_however_many_are_asked() -> None:
    """Scaled numbers, which many rows are carried in, would hand on probabilities below 0 and above 1."""
    (case,) = polynomial.CASES
    asked = asked_of(case, "sum-product")
    x = data_of(asked.circuit, [case], 200, 0.0)
    values = asked.oracle().layers(LINEAR, x)
    inputs = np.concatenate([one for layer, one in values.items() if isinstance(layer, PolynomialLayer)], axis=1)
    row = x[(asked.values(x) > 0) & (inputs.min(axis=1) < 0)][:1]
    for count in (1, 5000):
        with pytest.raises(InputError, match="row 0: the logarithm of the probability of the given values is nan"):
            plica.queries.latent_posterior(asked.compiled, torch.from_numpy(np.repeat(row, count, axis=0)))


@pytest.mark.parametrize("case", [case for case in FIRST if case.row.layer in (HistogramLayer, UniformLayer)], ids=str)
def test_numbers_outside_of_bins_and_intervals_are_impossible(case: LayerCase) -> None:
    asked = asked_of(case)
    check_impossible(asked, np.full((3, asked.circuit.num_variables), -1e3))


def test_impossible_states() -> None:
    tables = [[[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]], [[0.0, 0.25, 0.75], [0.1, 0.3, 0.6]]]
    layers = [CategoricalLayer([v], 2, num_categories=3, probs=start((2, 3), table)) for v, table in enumerate(tables)]
    weight = Parameter.from_input(ConstantParameter(1, 2, value=[[0.5, 0.7]]))
    circuit = product_then_sum(HadamardLayer(2, 2), layers, weight=weight)
    for semiring, fold in (("sum-product", True), ("max-sum", False)):
        asked = Asked(circuit, TorchCompiler(semiring, dtype="float64", fold=fold).compile(circuit), LAYER_CASES)
        check_impossible(asked, np.array([[2.0, 1.0], [2.0, 0.0]]))


# Pairs of layers, queries, semirings, flags, dtypes and modes: each cell of the tables is among them; the whole product
# in the full suite.
CHOICES: dict[str, Any] = {
    "semiring": list(SEMIRINGS),
    "fold": [False, True],
    "optimize": [False, True],
    "dtype": ["float32", "float64"],
    "mode": ["train", "eval"],
    "grad": [False, True],
}
PAIRS = list(pairwise({"case": FIRST, "needs": NEEDS, **CHOICES}))


def check_way(way: dict[str, Any], case: LayerCase, queries: Sequence[Needs]) -> None:
    """Some queries of a circuit that is compiled and run in one way."""
    asked = asked_of(case, **{name: way[name] for name in ("semiring", "fold", "optimize", "dtype")})
    getattr(asked.compiled, way["mode"])()
    with torch.set_grad_enabled(way["grad"]):
        for needs in queries:
            check_cell(asked, needs, case)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", FIRST, ids=str)
def test_cells_in_pairs(case: LayerCase) -> None:
    """A sixteenth of the queries, others for the next layer; the full suite has every pair of a query and a way."""
    ways = {way["needs"].function: way for way in PAIRS if way["case"] is case}
    assert set(ways) == {needs.function for needs in NEEDS}
    for needs in NEEDS[FIRST.index(case) % 16 :: 16]:
        check_way(ways[needs.function], case, [needs])


@pytest.mark.full
@pytest.mark.parametrize("case", FIRST, ids=str)
def test_cells_in_all_pairs(case: LayerCase) -> None:
    for way in PAIRS:
        if way["case"] is case:
            check_way(way, case, [way["needs"]])


def test_pairs_have_each_query_in_each_semiring() -> None:
    assert {(way["needs"].function, way["semiring"]) for way in PAIRS} == {
        (needs.function, semiring) for needs in NEEDS for semiring in SEMIRINGS
    }


EVERY = [*POSITIVE, *FIRST[-2:]]


@pytest.mark.full
@pytest.mark.parametrize("case", EVERY, ids=str)
def test_cells_in_full(case: LayerCase) -> None:
    """All queries in one semiring; flags, dtypes, modes and gradients by turns, others for the next case."""
    *names, _, _ = CHOICES
    products = [*itertools.product(*(CHOICES[name] for name in names))]
    flags, semiring = divmod(EVERY.index(case), len(SEMIRINGS))
    place = 8 * semiring + (flags + semiring) % 8
    turn = place.bit_count() + place // 16
    values = dict(zip(names, products[place], strict=True))
    check_way({**values, "mode": ("train", "eval")[turn % 2], "grad": turn // 2 % 2 == 1}, case, NEEDS)
