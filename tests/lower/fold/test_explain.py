"""What folding tells: the groups, and why layers that look alike stayed apart."""

from typing import Any

import pytest

from plica.backend.torch.compiler import TorchCompiler
from plica.lower.fold.explain import explain_folds
from plica.lower.fold.groups import fold_circuit, single_groups
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import softmax_normal
from tests.harness.circuits import bag, chain, coin, mixing, mixture, several_sizes


def two_sums(first: SumLayer, second: SumLayer) -> Circuit:
    inputs = [coin([v], 2) for v in range(first.arity + second.arity)]
    edges: dict[Any, Any] = {first: inputs[: first.arity], second: inputs[first.arity :]}
    return Circuit([*inputs, first, second], edges, [first, second])


def probs_and_logits() -> Circuit:
    inputs = [coin([0], 2), CategoricalLayer([1], 2, num_categories=2, probs_factory=softmax_normal)]
    return bag(HadamardLayer(2, 2), *inputs)


def units_and_categories() -> Circuit:
    """Of 2, 2 and 3 units, with 2, 5 and 5 categories: the first two fold."""
    inputs = [coin([0], 2, 2), coin([1], 2, 5), coin([2], 3, 5)]
    product, total, last = HadamardLayer(2, 2), SumLayer(2, 3), HadamardLayer(3, 2)
    edges: dict[Any, Any] = {product: inputs[:2], total: [product], last: [total, inputs[2]]}
    return Circuit([*inputs, product, total, last], edges, [last])


# name: (circuit, the line on layers that stayed apart)
APART = {
    "arity": (
        lambda: two_sums(SumLayer(2, 2, 1), SumLayer(2, 2, 2)),
        "SumLayer: 2 groups; they differ in arity (1, 2), the shape of weight ((2, 2), (2, 4))",
    ),
    "units": (
        lambda: chain(coin([0], 2), SumLayer(2, 1), SumLayer(1, 3)),
        "SumLayer: 2 groups; they differ in num_input_units (2, 1), num_output_units (1, 3), "
        "the shape of weight ((1, 2), (3, 1))",
    ),
    "mixing": (
        lambda: two_sums(SumLayer(2, 2, 2), SumLayer(2, 2, 2, weight_factory=mixing)),
        "SumLayer: 2 groups; they differ in the shape of weight ((2, 4), (2, 2)), mixing (False, True)",
    ),
    "kinds of parameters": (
        probs_and_logits,
        "CategoricalLayer: 2 groups; they differ in the shape of logits ((2, 2), none), "
        "the shape of probs (none, (2, 2))",
    ),
    "what differs within a group is no reason": (
        units_and_categories,
        "CategoricalLayer: 2 groups; they differ in num_output_units (2, 3)",
    ),
    "one after another": (
        lambda: chain(coin([0], 2), *[SumLayer(2, 2) for _ in range(3)]),
        "SumLayer: 3 groups; 3 are alike but read one another's results",
    ),
}


@pytest.mark.parametrize("name", APART)
def test_why_layers_stayed_apart(name: str) -> None:
    build, line = APART[name]
    text = explain_folds(fold_circuit(build())).splitlines()
    kind, _, _ = line.partition(":")
    assert [one.strip() for one in text if one.strip().startswith(f"{kind}:")] == [line]


def test_groups_are_listed_with_their_settings() -> None:
    text = explain_folds(fold_circuit(mixture(3)))
    assert text.splitlines() == [
        "folded: 4 layers became 2 groups",
        "    0 3 x CategoricalLayer(num_output_units=3, num_categories=3)",
        "    1 1 x SumLayer(num_input_units=3, num_output_units=2, arity=3)",
    ]


def test_layers_of_different_kinds_are_not_compared() -> None:
    """Categoricals of 2 and 4 states fold; a Gaussian does not look alike."""
    text = explain_folds(fold_circuit(several_sizes()))
    assert "2 x CategoricalLayer" in text
    assert "differ" not in text
    inputs = [GaussianLayer([0], 2), coin([1], 2)]
    assert "groups;" not in explain_folds(fold_circuit(bag(HadamardLayer(2, 2), *inputs)))


def test_without_folding_there_is_one_line() -> None:
    assert explain_folds(single_groups(mixture(3))) == "folded: 4 layers became 4 groups"


@pytest.mark.parametrize("fold", [True, False])
def test_compiled_circuits_tell_it(fold: bool) -> None:
    compiled = TorchCompiler(fold=fold).compile(mixture(3))
    assert explain_folds(compiled.folded) in compiled.explain()
    assert f"{2 if fold else 4} groups of 4 layers" in compiled.explain()
