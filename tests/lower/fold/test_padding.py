"""Layers of unequal lengths in one group: what is padded, and where a group of its own costs less."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import InputError, ShapeError
from plica.lower.fold.explain import explain_folds
from plica.lower.fold.groups import fold_circuit
from plica.lower.fold.settings import GROUP, fold_settings_of
from plica.lower.registry import CompilationRules
from plica.queries import cdf
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import LAYER_ROWS, CategoricalLayer, HadamardLayer, InputLayer
from tests.harness.circuits import coin, product_then_sum
from tests.harness.folding import check_folding
from tests.harness.layer_cases import references
from tests.harness.layer_cases.holding import CASES as HOLDING
from tests.harness.layer_cases.holding import WEIGHED_ROW, weighed
from tests.harness.layer_cases.unequal import (
    CASES,
    HISTOGRAM_ROW,
    POLYNOMIAL_ROW,
    TABLE_ROW,
    HistogramLayer,
    PolynomialLayer,
    TableLayer,
    histogram,
    histogram_reference,
    polynomial,
    polynomial_reference,
    table,
)
from tests.harness.oracle import Oracle, all_states, numbers

CATEGORICAL_ROW: Any = LAYER_ROWS[CategoricalLayer]
Builder = Callable[[Sequence[int], int], InputLayer]
REFERENCES: dict[Any, Any] = {
    **references([*CASES, *HOLDING]),
    HistogramLayer: histogram_reference,
    PolynomialLayer: polynomial_reference,
}

# name: (a builder for each length, the row)
UNEQUAL: dict[str, tuple[Callable[[int], Any], Any]] = {
    "tables": (table, TABLE_ROW),
    "histograms": (histogram, HISTOGRAM_ROW),
    "polynomials": (polynomial, POLYNOMIAL_ROW),
    "held categoricals": (weighed, WEIGHED_ROW),
}


def categorical_of(size: int) -> Builder:
    return lambda scope, units: coin(scope, units, size)


def product_of(builders: Sequence[Builder], units: int = 2) -> Circuit:
    inputs = [build([variable], units) for variable, build in enumerate(builders)]
    return product_then_sum(HadamardLayer(units, len(inputs)), inputs)


def data(circuit: Circuit, rows: int = 6) -> Any:
    """Legal values, some of which are missing."""
    rng = np.random.default_rng(0)
    columns = [
        rng.random(rows) if (states := layer.domain.num_states) is None else rng.integers(0, states, rows)
        for layer in circuit.input_layers
    ]
    x = np.stack(columns, axis=1).astype(float)
    x[rng.random(x.shape) < 0.2] = np.nan
    return x


@pytest.mark.parametrize("name", UNEQUAL)
@pytest.mark.parametrize("semiring", ["lse-sum", "sum-product"])
def test_unequal_lengths_are_one_group(name: str, semiring: str) -> None:
    make, row = UNEQUAL[name]
    circuit = product_of([make(length) for length in (2, 5, 1, 5)])
    compiled = check_folding(circuit, data(circuit), semiring, [row], REFERENCES)
    (group,) = [group for group in compiled.layers if group.kind == "input"]
    assert group.num_folds == 4
    assert group.representative is circuit.layers[1], "rules are given the longest layer"


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_polynomials_of_any_degrees_fold(degrees: list[int]) -> None:
    circuit = product_of([polynomial(degree) for degree in degrees])
    check_folding(circuit, data(circuit, 3), "sum-product", [POLYNOMIAL_ROW], REFERENCES)


def test_tensors_are_as_long_as_they_were_given() -> None:
    circuit = product_of([polynomial(degree) for degree in (0, 4)])
    compiler = TorchCompiler()
    compiler.add_layer_rule(POLYNOMIAL_ROW)
    shapes = [tuple(value.shape) for key, value in compiler.compile(circuit).state_dict().items() if "coeff" in key]
    assert shapes == [(2, 1), (2, 5)]


def test_lengths_that_cost_more_than_a_group_stay_apart() -> None:
    """2 to 30 categories fill up hundreds of numbers; 40000 would fill up more than a group costs."""
    inputs = [coin([variable], 2, size) for variable, size in enumerate((2, 30, 40_000, 39_000, 7))]
    product = HadamardLayer(2, 5)
    folded = fold_circuit(Circuit([*inputs, product], {product: inputs}, [product]))
    assert [group.scope_idx for group in folded.groups[:-1]] == [((0,), (1,), (4,)), ((2,), (3,))]
    assert "CategoricalLayer: 2 groups; 2 are alike of lengths whose padding costs more than a group" in (
        explain_folds(folded)
    )


def cost(sizes: Sequence[int], parts: Sequence[int]) -> int:
    groups: dict[int, list[int]] = {}
    for size, part in zip(sizes, parts, strict=True):
        groups.setdefault(part, []).append(size)
    return sum(GROUP + sum(max(group) - size for size in group) for group in groups.values())


@given(st.lists(st.sampled_from([1, 500, 9_000, 17_000, 30_000, 50_000]), min_size=1, max_size=6), st.data())
def test_no_other_split_costs_less(sizes: list[int], choose: st.DataObject) -> None:
    layers = [CategoricalLayer([place], 1, num_categories=size) for place, size in enumerate(sizes)]
    settings = fold_settings_of(layers)
    numbers = {key: number for number, key in enumerate(dict.fromkeys(settings.values()))}
    chosen = [numbers[settings[layer]] for layer in layers]
    other = [choose.draw(st.integers(0, len(sizes) - 1)) for _ in sizes]
    assert cost(sizes, chosen) <= cost(sizes, other)


def test_no_layer_with_the_longest_of_all_parameters_is_no_group() -> None:
    """Rules are given one layer: of two that are each longer in another parameter, none stands for both."""

    class Crossed(HistogramLayer):
        @property
        def params(self) -> dict[str, Any]:
            return {"weight": self.weight, "edges": self.edges}

        @property
        def padded(self) -> dict[str, str]:
            return {"weight": "num_bins", "edges": "num_bins"}

    long, short = histogram(6)([0], 2), histogram(3)([1], 2)
    layers = [Crossed(short.scope, 2, 3, short.weight, long.edges), Crossed(long.scope, 2, 6, long.weight, short.edges)]
    first, second = (fold_settings_of(layers)[layer] for layer in layers)
    assert first != second


@pytest.mark.parametrize(
    ("builders", "row"),
    [
        ([table(2), table(5), table(5)], replace(TABLE_ROW, padding={})),
        ([categorical_of(size) for size in (2, 5, 5)], replace(CATEGORICAL_ROW, padding={})),
        ([weighed(2), weighed(5), weighed(5)], replace(CATEGORICAL_ROW, padding={})),
    ],
    ids=["a row of one's own", "a row in place of Plica's", "a row of what is held"],
)
def test_what_no_row_pads_stays_apart(builders: list[Builder], row: Any) -> None:
    """The class says that its row pads, and the row of this context does not."""
    circuit = product_of(builders)
    rules = CompilationRules()
    rules.layers.add(WEIGHED_ROW)
    rules.layers.add(row, override=True)
    compiled = TorchCompiler(compilation_rules=rules).compile(circuit)
    assert [group.num_folds for group in compiled.layers if group.kind == "input"] == [1, 2]
    assert compiled(torch.zeros(2, 3, dtype=torch.int64)).isfinite().all()
    assert "2 groups; they differ in " in explain_folds(compiled.folded)


class Lumped(TableLayer):
    """Tables that fold with those of all lengths, whatever their row says."""

    @property
    def padded(self) -> dict[str, str]:
        return {}

    def fold_settings(self) -> Any:
        return "alike"


def test_settings_that_put_unequal_lengths_together_are_refused() -> None:
    inputs = [table(size)([place], 2) for place, size in enumerate((2, 3))]
    lumped = [Lumped(one.scope, 2, one.num_states, one.weight) for one in inputs]
    compiler = TorchCompiler()
    compiler.add_layer_rule(replace(TABLE_ROW, layer=Lumped, padding={}))
    with pytest.raises(ShapeError, match=r"group 0: 2 like Lumped.*\(2, 2\) and \(2, 3\)\. .* in the row's `padding`"):
        compiler.compile(product_then_sum(HadamardLayer(2, 2), lumped))


@pytest.mark.parametrize("fill", [-1.0, math.inf, math.nan, 1e5])
@pytest.mark.parametrize("builder", [table, categorical_of], ids=["weights", "logarithms of weights"])
def test_weights_are_padded_with_any_number(builder: Any, fill: float) -> None:
    """No state of the data reads it: that its logarithm is none, or its exponential infinite, does not matter."""
    circuit = product_of([builder(2), builder(5)])
    x = torch.as_tensor(np.nan_to_num(data(circuit))).to(torch.int64)
    row = TABLE_ROW if builder is table else CATEGORICAL_ROW
    compiled = []
    for padding in (row.padding, dict.fromkeys(row.padding, fill)):
        rules = CompilationRules()
        rules.layers.add(replace(row, padding=padding), override=True)
        compiled.append(TorchCompiler("sum-product", dtype="float64", compilation_rules=rules).compile(circuit))
    compiled[1].load_state_dict(compiled[0].state_dict())
    torch.testing.assert_close(compiled[0](x), compiled[1](x))


def test_states_that_are_filled_in_are_refused() -> None:
    circuit = product_of([table(2), table(4)])
    compiler = TorchCompiler(dtype="float64")
    compiler.add_layer_rule(TABLE_ROW)
    compiled = compiler.compile(circuit)
    with pytest.raises(InputError, match="row 0, variable 0: the value 3 is none of the"):
        compiled(torch.tensor([[3, 0]]))


@pytest.mark.parametrize("semiring", ["lse-sum", "signed-lse-sum", "sum-product"])
def test_tables_of_unequal_lengths_are_summed_over_some_of_their_states(semiring: str) -> None:
    """A sum with a padded table as its weight, whose logarithms are padded too."""
    circuit = product_then_sum(HadamardLayer(3, 2), [coin([0], 3, 4), coin([1], 3, 2)])
    compiled = TorchCompiler(semiring, dtype="float64").compile(circuit)
    assert compiled.layers[0].num_folds == 2
    states = all_states(circuit)
    masses = Oracle(circuit, numbers(compiled)).linear(states)[:, 0, 0].astype(float)
    upper = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 1.0]])
    expected = [masses[(states <= row.numpy()).all(axis=1)].sum() for row in upper]
    np.testing.assert_allclose(cdf(compiled, upper).flatten(), expected, rtol=1e-9)
