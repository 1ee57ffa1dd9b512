"""Arguments of wrong types and values: each is refused with one line that says what was expected."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from plica.errors import PlicaError
from plica.symbolic.layers import CategoricalLayer, InputLayer
from plica.symbolic.scope import Scope
from plica.templates import hclt
from plica.templates.data_modalities import image_data, tabular_data
from plica.templates.pgms import fully_factorized, hmm
from plica.templates.region_graph import (
    ChowLiuTree,
    FullyFactorized,
    LinearTree,
    PoonDomingos,
    QuadGraph,
    QuadTree,
    RandomBinaryTree,
)
from plica.templates.tensor_factorizations import cp
from plica.templates.utils import parameterization_to_factory
from tests.harness.together import grouped

ROWS = np.random.default_rng(0).integers(0, 3, size=(30, 4)).astype(float)
UNITS: dict[str, Any] = {"num_input_units": 2, "sum_product_layer": "cp", "num_sum_units": 2}
image: Any = partial(image_data, input_layer="categorical", **UNITS)
table: Any = partial(tabular_data, **UNITS)
build: Any = partial(QuadGraph((1, 2, 2)).build_circuit, sum_product="cp")


def _elsewhere(_: Scope, units: int) -> InputLayer:
    return CategoricalLayer([0], units, num_categories=2)


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: image(None), "expected an image shape"),
    (lambda: image(4), "expected an image shape"),
    (lambda: image("abc"), "expected an image shape"),
    (lambda: image((1, 2.0, 2)), "expected an image shape"),
    (lambda: image((1, 2, 2), sum_weight_param="softmax"), "expected a Parameterization"),
    (lambda: image((1, 2, 2), input_params={"logits": "softmax"}), "expected a Parameterization"),
    (lambda: QuadTree(5), "expected an image shape"),  # type: ignore[arg-type]
    (lambda: table(num_features=2.5, input_layers={"name": "bernoulli"}), "at least one variable, found num_features="),
    (lambda: table(num_features="3", input_layers={"name": "bernoulli"}), "at least one variable, found num_features="),
    (lambda: table(num_features=0, input_layers={"name": "bernoulli"}), "at least one variable, found num_features=0"),
    (lambda: table(num_features=2, input_layers=None), "input_layers is None"),
    (lambda: table(num_features=2, input_layers={"name": "bernoulli", "args": [1]}), "the args of"),
    (lambda: table(data=ROWS * 1j, input_layers={"name": "bernoulli"}), "found complex ones"),
    (lambda: table(data=ROWS, input_layers={"name": "bernoulli"}), "holds 2, which is none of the 2 states"),
    (lambda: table(data=-ROWS - 1, input_layers={"name": "gamma"}), "row 0, column 0 .* which is below 0"),
    (
        lambda: table(data=ROWS, input_layers={"name": "categorical", "args": {"num_categories": 2}}),
        "none of the 2 states 0 to 1",
    ),
    (lambda: fully_factorized(2.5, "bernoulli"), "found num_variables=2.5"),  # type: ignore[arg-type]
    (lambda: fully_factorized("2", "bernoulli"), "found num_variables='2'"),  # type: ignore[arg-type]
    (lambda: hmm(3, "bernoulli"), "ordering must be a permutation"),  # type: ignore[arg-type]
    (lambda: hmm([], "bernoulli"), "ordering must be a permutation"),
    (lambda: hmm([[0, 1]], "bernoulli"), "ordering must be a permutation"),  # type: ignore[list-item]
    (lambda: cp(3, 2), "expected the shape of a tensor"),  # type: ignore[arg-type]
    (lambda: FullyFactorized(3.0), "expected at least one variable"),  # type: ignore[arg-type]
    (lambda: LinearTree("3"), "expected at least one variable"),  # type: ignore[arg-type]
    (lambda: RandomBinaryTree(3, num_repetitions=1.5), "num_repetitions=1.5"),  # type: ignore[arg-type]
    (lambda: RandomBinaryTree(3, depth=1.5), "depth must be an integer"),  # type: ignore[arg-type]
    (lambda: PoonDomingos(4, delta=1), "expected a shape such as"),  # type: ignore[arg-type]
    (lambda: PoonDomingos((1, 2.0, 2), delta=1), "expected a shape such as"),  # type: ignore[arg-type]
    (lambda: PoonDomingos((2, 2), delta=None), "numbers of at least 1 as delta"),  # type: ignore[arg-type]
    (lambda: PoonDomingos((2, 2), delta=1, max_depth=1.5), "max_depth must be an integer"),  # type: ignore[arg-type]
    (lambda: ChowLiuTree(ROWS * 1j, "categorical"), "complex numbers"),
    (lambda: hclt(ROWS, "4"), "found num_latents='4'"),  # type: ignore[arg-type]
    (lambda: hclt(ROWS, 2, pseudocount=np.inf), "pseudocount must be at least 0, found"),
    (lambda: hclt(ROWS, 2, pseudocount=np.nan), "pseudocount must be at least 0, found"),
    (lambda: parameterization_to_factory("softmax"), "expected a Parameterization"),  # type: ignore[arg-type]
    (lambda: build(input_factory=lambda *_: 3), "gave 3 for .0.; expected an input layer"),
    (lambda: build(input_factory=_elsewhere), "was asked for an input layer of .1. and gave CategoricalLayer"),
]


@grouped(("make", "message"), WRONG, ids=[message for _, message in WRONG])
def test_refused_with_one_line(make: Callable[[], object], message: str) -> None:
    with pytest.raises(PlicaError, match=message) as caught:
        make()
    assert len(str(caught.value).splitlines()) == 1


def test_delta_may_be_an_array() -> None:
    delta: Any = np.array([2, 1])
    found, expected = PoonDomingos((1, 4, 4), delta=delta), PoonDomingos((1, 4, 4), delta=[2, 1])
    assert repr(found) == repr(expected)


@pytest.mark.parametrize("name", ["beta", "von-mises"])
def test_columns_of_tiny_numbers_have_a_start_where_floats_tell_them_apart(name: str) -> None:
    circuit = table(data=ROWS * 1e-290, input_layers={"name": name})
    assert circuit.num_variables == 4
    with pytest.raises(PlicaError, match=r"differ by .*e-311, too little for float64; rescale them"):
        table(data=ROWS * 1e-310, input_layers={"name": name})
