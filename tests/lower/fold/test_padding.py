"""Layers of unequal lengths in one group: what is padded, and where a group of its own costs less."""

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
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, InputLayer
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
    histogram,
    histogram_reference,
    polynomial,
    polynomial_reference,
    table,
)

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
    assert "CategoricalLayer: 2 groups; 2 are alike of lengths that cost more to fill up than a group" in (
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


def test_what_no_row_pads_is_refused_in_one_group() -> None:
    """`fold_settings` of a layer's own puts unequal lengths together, and its row says nothing of padding."""
    inputs = [table(size)([place], 2) for place, size in enumerate((2, 3))]
    circuit = product_then_sum(HadamardLayer(2, 2), inputs)
    compiler = TorchCompiler()
    compiler.add_layer_rule(replace(TABLE_ROW, padding={}))
    with pytest.raises(
        ShapeError, match=r"group 0: 2 like Table.*\(2, 2\) and \(2, 3\); layers fold .* `padding` names"
    ):
        compiler.compile(circuit)


def test_states_that_are_filled_in_are_refused() -> None:
    circuit = product_of([table(2), table(4)])
    compiler = TorchCompiler(dtype="float64")
    compiler.add_layer_rule(TABLE_ROW)
    compiled = compiler.compile(circuit)
    with pytest.raises(InputError, match="row 0, variable 0: the value 3 is none of the"):
        compiled(torch.tensor([[3, 0]]))
