"""Circuits of automata, and their products with hidden Markov models, against all words of a length."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.errors import InputError, StructuralPropertyError
from plica.pipeline import PipelineContext
from plica.queries import sample
from plica.symbolic.circuit import are_compatible
from plica.symbolic.functional import integrate, multiply, normalize, rename
from plica.templates.automata import DFA
from plica.templates.pgms import hmm
from tests.harness.pairwise import by_turns

LETTERS = "abc"
AUTOMATA = {
    "pattern": DFA.from_regex("(ab|c)*a?", LETTERS),
    "words": DFA.contains_in_order(["ab", "c"], LETTERS),
    "not": ~DFA.contains_any(["aa", "bc"], LETTERS),
    "padded": DFA.from_regex("(ab?)+", LETTERS).padded("c"),
    "after": DFA.contains_in_order(["ab", "c"], LETTERS).after("ab"),
    "nothing": DFA([[-1, -1, -1]], [], alphabet=LETTERS),
    "too long": DFA.from_regex("[abc]{9,}", LETTERS),
    "useless states": DFA([[1, 2, -1], [1, 3, 2], [2, 2, 2], [0, 3, 1], [0, 0, 0]], [3, 4], alphabet=LETTERS),
}
ORDERINGS: list[list[int]] = [[0], [1, 0], [2, 0, 1], [0, 1, 2, 3, 4]]


def all_rows(length: int) -> torch.Tensor:
    return torch.tensor(list(itertools.product(range(3), repeat=length)))


def accepted(automaton: DFA, ordering: Sequence[int]) -> np.ndarray:
    rows = all_rows(len(ordering)).tolist()
    return np.array([automaton.accepts("".join(LETTERS[row[v]] for v in ordering)) for row in rows], dtype=float)


def forward(chain: Any, ordering: Sequence[int], rows: np.ndarray) -> np.ndarray:
    """The probability of rows by the forward procedure, from the tensors of a homogeneous compiled model."""
    emission, transition, start = (torch.softmax(leaf.double(), -1).numpy() for leaf in chain.state_dict().values())
    state = start[0] * emission[:, rows[:, ordering[0]]].T
    for variable in ordering[1:]:
        state = state @ transition * emission[:, rows[:, variable]].T
    return state.sum(axis=1)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("ordering", ORDERINGS, ids=str)
@pytest.mark.parametrize("name", AUTOMATA)
def test_a_circuit_is_1_at_the_words_and_0_elsewhere(name: str, ordering: list[int]) -> None:
    automaton, rows = AUTOMATA[name], all_rows(len(ordering))
    circuit, expected = automaton.build_circuit(ordering), accepted(AUTOMATA[name], ordering)
    missing = torch.full((1, len(ordering)), math.nan)
    for semiring in ("sum-product", "lse-sum", "max-product", "boolean"):
        compiled = plica.compile(circuit, semiring=semiring)
        values, total = compiled(rows).flatten(), compiled(missing).item()
        if semiring == "lse-sum":
            values, total = values.exp(), math.exp(total)
        np.testing.assert_array_equal(values.numpy(), expected)
        counts = semiring in ("sum-product", "lse-sum")
        assert total == pytest.approx(expected.sum() if counts else expected.max(), rel=1e-6)
    assert circuit.is_structured_decomposable
    assert automaton.count(len(ordering)) == expected.sum()


@pytest.mark.one_in(3)
@by_turns(name=list(AUTOMATA), ordering=ORDERINGS)
def test_a_product_with_a_hidden_markov_model(name: str, ordering: list[int]) -> None:
    rows, settings = all_rows(len(ordering)), {"num_categories": 3}
    described = hmm(ordering, num_latent_states=4, input_layer_kwargs=settings, homogeneous=True)
    constraint = AUTOMATA[name].build_circuit(ordering)
    assert are_compatible(described, constraint)
    products = multiply(described, constraint), multiply(constraint, described)
    with PipelineContext(dtype=torch.float64) as context:
        chain = context.compile(described)
        compiled = [context.compile(product) for product in products]
        z, density = context.compile(integrate(products[0])), context.compile(normalize(products[0]))
    values = forward(chain, ordering, rows.numpy()) if len(ordering) > 1 else chain(rows).exp().detach().flatten()
    expected = np.asarray(values) * accepted(AUTOMATA[name], ordering)
    for product in compiled:
        found = product(rows).exp().detach().flatten().numpy()
        np.testing.assert_allclose(found, expected, atol=1e-12)
        assert (found[expected == 0] == 0).all()
    assert z().exp().item() == pytest.approx(expected.sum(), abs=1e-12)
    assert (z().item() == -math.inf) == (expected.sum() == 0)
    if expected.sum():
        np.testing.assert_allclose(density(rows).exp().detach().flatten(), expected / expected.sum(), atol=1e-12)
    z().sum().backward()
    assert all(bool(leaf.grad.isfinite().all()) for leaf in z.parameters())


def test_the_gradient_of_the_probability_of_a_constraint() -> None:
    automaton, ordering = AUTOMATA["words"], range(5)
    described = hmm(ordering, num_latent_states=2, input_layer_kwargs={"num_categories": 3}, homogeneous=True)
    z = plica.compile(integrate(multiply(described, automaton.build_circuit(ordering))), dtype=torch.float64)
    z().sum().backward()
    for leaf in z.parameters():
        numeric = torch.zeros_like(leaf)
        for entry in itertools.product(*map(range, leaf.shape)):
            ends = []
            for change in (1e-5, -1e-5):
                with torch.no_grad():
                    leaf[entry] += change
                    ends.append(z().item())
                    leaf[entry] -= change
            numeric[entry] = (ends[0] - ends[1]) / 2e-5
        torch.testing.assert_close(leaf.grad, numeric, rtol=1e-6, atol=1e-8)


def test_every_sample_of_a_product_is_accepted_and_as_often_as_it_should() -> None:
    automaton, ordering = AUTOMATA["words"], [2, 0, 3, 1]
    described = hmm(ordering, num_latent_states=3, input_layer_kwargs={"num_categories": 3})
    compiled = plica.compile(multiply(described, automaton.build_circuit(ordering)), dtype=torch.float64)
    compiled.reset_parameters(seed=0)
    drawn = sample(compiled, 4000, seed=1)
    words = ["".join(LETTERS[int(row[v])] for v in ordering) for row in drawn.tolist()]
    assert all(map(automaton.accepts, words))
    values = compiled(all_rows(4)).exp().detach().flatten()
    expected = 4000 * values / values.sum()
    counts = torch.bincount((drawn.long() * torch.tensor([27, 9, 3, 1])).sum(1), minlength=81)
    likely = expected > 5
    statistic = ((counts - expected)[likely] ** 2 / expected[likely]).sum().item()
    degrees = int(likely.sum()) - 1
    assert statistic < degrees + 4 * math.sqrt(2 * degrees)


def test_circuits_of_two_automata_multiply_to_that_of_both() -> None:
    first, second = AUTOMATA["not"], AUTOMATA["pattern"]
    product = multiply(first.build_circuit(range(5)), second.build_circuit(range(5)))
    values = plica.compile(product, semiring="sum-product")(all_rows(5)).flatten()
    np.testing.assert_array_equal(values.numpy(), accepted(first & second, range(5)))


def test_a_circuit_is_linear_in_the_length_and_shares_its_constants() -> None:
    automaton = AUTOMATA["words"]
    sizes = [len(automaton.build_circuit(range(length)).layers) for length in (10, 20, 2000)]
    assert sizes[1] - sizes[0] == 4 * 10
    assert sizes[2] - sizes[1] == 4 * 1980
    described = hmm(range(2000), num_latent_states=2, input_layer_kwargs={"num_categories": 3}, homogeneous=True)
    product = multiply(described, automaton.build_circuit(range(2000)))
    assert len(product.layers) < 5 * 2000
    assert max(layer.num_output_units for layer in product.layers) == 2 * 7
    compiled = plica.compile(automaton.build_circuit(range(20)), semiring="sum-product")
    assert not list(compiled.parameters())
    assert str(compiled.layers[1]).startswith("19 x EmbeddingLayer"), "they fold"


def test_values_and_orders_that_do_not_fit_are_refused() -> None:
    automaton = AUTOMATA["words"]
    compiled = plica.compile(automaton.build_circuit(range(3)), semiring="sum-product")
    with pytest.raises(InputError, match="variable 2: the value 3 is none of the 3 states 0 to 2"):
        compiled(torch.tensor([[0, 1, 3]]))
    for wrong in ([], [1, 2], [0, 0], 3, "ab", [0.5]):
        with pytest.raises(InputError, match=r"DFA.build_circuit: ordering must be a permutation of 0..n-1"):
            automaton.build_circuit(wrong)  # type: ignore[arg-type]
    chain = hmm(range(3), num_latent_states=2, input_layer_kwargs={"num_categories": 3})
    backwards = automaton.build_circuit([2, 1, 0])
    assert not are_compatible(chain, backwards)
    with pytest.raises(StructuralPropertyError, match="factors of two products share variables crosswise"):
        multiply(chain, backwards)
    assert compiled(torch.zeros(0, 3, dtype=torch.int64)).shape == (0, 1, 1)


def test_products_are_saved_and_loaded(tmp_path: Path) -> None:
    described = hmm(range(4), num_latent_states=3, input_layer_kwargs={"num_categories": 3})
    product = rename(multiply(described, AUTOMATA["not"].build_circuit(range(4))), {3: 5})
    compiled = plica.compile(product)
    plica.save(compiled, tmp_path / "model.plica")
    loaded = plica.load(tmp_path / "model.plica")
    rows = torch.cat([all_rows(4)[:, :3], all_rows(4)[:, [0, 0, 3]]], 1)
    torch.testing.assert_close(loaded(rows), compiled(rows))
