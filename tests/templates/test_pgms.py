import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy.special
import torch

import plica
from plica.errors import InputError, ShapeError
from plica.symbolic.layers import DISTRIBUTIONS, GaussianLayer
from plica.symbolic.parameters import SoftmaxParameter, dereferenced
from plica.templates.parameterization import Parameterization
from plica.templates.pgms import fully_factorized, hmm
from tests.harness.oracle import Oracle, all_states, numbers

THREE = {"num_categories": 3}


def compiled_of(circuit: Any, **settings: Any) -> Any:
    return plica.compile(circuit, dtype=torch.float64, **settings)


# Independent variables


def test_independent_variables_are_a_product() -> None:
    circuit = fully_factorized(3, input_layer_kwargs=THREE)
    compiled = compiled_of(circuit)
    tables = [scipy.special.log_softmax(one, axis=-1)[0] for one in numbers(compiled).values()]
    states = all_states(circuit)
    expected = [sum(table[value] for table, value in zip(tables, row, strict=True)) for row in states]
    found = compiled(torch.as_tensor(states)).detach().numpy()[:, 0, 0]
    np.testing.assert_allclose(found, np.array(expected), atol=1e-12)
    assert np.exp(found).sum() == pytest.approx(1)
    assert [group.num_folds for group in compiled.layers] == [3, 1]


def test_independent_variables_of_any_layer() -> None:
    assert (
        repr(fully_factorized(1, input_layer_kwargs=THREE))
        == "Circuit(1 layers, 1 variables, 1 output(s) of 1 unit(s))"
    )
    reals = fully_factorized(4, "gaussian", {"mean": Parameterization("uniform")})
    assert all(isinstance(layer, GaussianLayer) for layer in reals.input_layers)
    assert reals.is_omni_compatible
    with pytest.raises(ShapeError, match="fully_factorized: expected at least one variable, found num_variables=0"):
        fully_factorized(0)


# Hidden Markov models


def forward(values: dict[str, np.ndarray], circuit: Any, ordering: Sequence[int], row: np.ndarray) -> float:
    """The log-likelihood of a row by the forward procedure, from the numbers of a state dict; NaN is missing."""
    oracle = Oracle(circuit, values)

    def weight(layer: Any) -> np.ndarray:
        return np.log(oracle.parameter(layer.weight).astype(float))

    emissions = {layer.scope: oracle.parameter(layer.params["logits"]).astype(float) for layer in circuit.input_layers}
    *moves, start = circuit.sum_layers
    score = weight(start)[0]
    for step, variable in enumerate(ordering):
        if step:  # the circuit lists the last move first
            score = scipy.special.logsumexp(score[:, None] + weight(moves[-step]), axis=0)
        table = next(table for scope, table in emissions.items() if variable in scope)
        score = score + (0 if np.isnan(row[variable]) else table[:, int(row[variable])])
    return float(scipy.special.logsumexp(score))


@pytest.mark.parametrize("homogeneous", [False, True])
@pytest.mark.parametrize("ordering", [[0], [1, 0], [2, 0, 3, 1]])
def test_a_chain_is_the_forward_procedure(ordering: list[int], homogeneous: bool) -> None:
    circuit = hmm(ordering, num_latent_states=2, input_layer_kwargs=THREE, homogeneous=homogeneous)
    compiled = compiled_of(circuit)
    states = all_states(circuit)
    found = compiled(torch.as_tensor(states)).detach().numpy()[:, 0, 0]
    values = numbers(compiled)
    expected = [forward(values, circuit, ordering, row.astype(float)) for row in states]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert np.exp(found).sum() == pytest.approx(1, abs=1e-9)


def test_a_chain_against_the_sum_over_all_paths() -> None:
    """Twelve lines that know nothing of circuits: the probability of symbols is a sum over all sequences of states."""
    steps, states, symbols = 4, 3, 2
    circuit = hmm(
        [3, 1, 0, 2], num_latent_states=states, input_layer_kwargs={"num_categories": symbols}, homogeneous=True
    )
    compiled = compiled_of(circuit)
    leaves = {tuple(one.shape): one for one in numbers(compiled).values()}
    emit, move, start = (
        scipy.special.softmax(leaves[shape], axis=-1) for shape in ((states, symbols), (states, states), (1, states))
    )
    for row in itertools.product(range(symbols), repeat=steps):
        seen = [row[variable] for variable in (3, 1, 0, 2)]
        expected = 0.0
        for path in itertools.product(range(states), repeat=steps):
            moves = np.prod([move[one, other] for one, other in itertools.pairwise(path)])
            expected += start[0, path[0]] * moves * np.prod(emit[path, seen])
        assert compiled(torch.tensor([row])).exp().item() == pytest.approx(expected, rel=1e-9)


def test_steps_share_one_transition_and_one_emission() -> None:
    settings: dict[str, Any] = {"num_latent_states": 4, "input_layer_kwargs": THREE}
    apart, shared = (compiled_of(hmm(range(6), **settings, homogeneous=one)) for one in (False, True))
    assert len(apart.state_dict()) == 6 + 5 + 1
    assert sorted(map(tuple, (one.shape for one in shared.state_dict().values()))) == [(1, 4), (4, 3), (4, 4)]
    assert len(list(shared.parameters())) == 3
    assert [group.num_folds for group in shared.layers if group.kind == "input"] == [6]


def test_gradients_of_shared_parameters_add_up() -> None:
    circuit = hmm(range(5), num_latent_states=2, input_layer_kwargs=THREE, homogeneous=True)
    compiled = compiled_of(circuit)
    row = np.array([0, 2, 1, 1, np.nan])
    compiled(torch.as_tensor(row[None])).sum().backward()
    values = {name: value.astype(float) for name, value in numbers(compiled).items()}
    gradients = {tuple(one.shape[1:]): one.grad.numpy()[0] for one in compiled.parameters()}
    assert len(gradients) == len(values) == 3
    for name, value in values.items():
        for place in np.ndindex(value.shape):
            step = np.zeros(value.shape)
            step[place] = 1e-6
            ends = [forward({**values, name: value + sign * step}, circuit, range(5), row) for sign in (1, -1)]
            assert gradients[value.shape][place] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-7)


def test_real_observations_and_parameters_as_asked() -> None:
    circuit = hmm(
        np.array([1, 0, 2]),
        "gaussian",
        2,
        {"mean": Parameterization("uniform")},
        weight_param=Parameterization("uniform", "softmax"),
        homogeneous=True,
    )
    assert all(isinstance(layer, GaussianLayer) for layer in circuit.input_layers)
    assert all(isinstance(layer.weight.output, SoftmaxParameter) for layer in circuit.sum_layers)
    compiled = compiled_of(circuit)
    values = {name: one.item() if one.numel() == 1 else one for name, one in compiled.state_dict().items()}
    assert len(values) == 2 + 1 + 1
    assert compiled(torch.full((1, 3), float("nan"), dtype=torch.float64)).item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", sorted(DISTRIBUTIONS))
def test_emissions_of_every_distribution_are_shared(name: str) -> None:
    settings: dict[str, Any] = {"num_latent_states": 2, "input_layer_kwargs": DISTRIBUTIONS[name].settings_for(4)}
    circuit = hmm([2, 0, 1], name, **settings, homogeneous=True)
    assert circuit.domains == dict.fromkeys(range(3), DISTRIBUTIONS[name].domain(4))
    first, *others = circuit.input_layers
    for layer in others:
        assert type(layer) is type(first)
        for key, parameter in layer.params.items():
            mine, theirs = ([dereferenced(leaf) for leaf in one.leaves] for one in (parameter, first.params[key]))
            assert mine == theirs
    apart = hmm([2, 0, 1], name, **settings)
    tensors = len(compiled_of(apart, semiring="sum-product").state_dict())
    assert len(compiled_of(circuit, semiring="sum-product").state_dict()) == (tensors - 3) // 3 + 2


def test_settings_of_their_own_belong_to_the_steps_in_their_order() -> None:
    settings = [{"num_categories": number} for number in (2, 3, 4)]
    chain = hmm([2, 0, 1], num_latent_states=2, input_layer_kwargs=settings)
    apart = fully_factorized(3, input_layer_kwargs=tuple(settings))
    for circuit, numbers_of_states in ((chain, [3, 4, 2]), (apart, [2, 3, 4])):
        rows = torch.as_tensor(list(itertools.product(*map(range, numbers_of_states))))
        assert compiled_of(circuit)(rows).exp().sum().item() == pytest.approx(1)


def test_one_state_is_independence() -> None:
    chain = compiled_of(hmm(range(3), input_layer_kwargs=THREE))
    apart = compiled_of(fully_factorized(3, input_layer_kwargs=THREE))
    tables = {key: one for key, one in chain.state_dict().items() if tuple(one.shape) == (1, 3)}
    assert len(tables) == 3
    rows = torch.as_tensor(all_states(hmm(range(3), input_layer_kwargs=THREE)))
    order = [key for key, _ in sorted(tables.items(), key=lambda item: -int(item[0].split(".")[0]))]
    apart.load_state_dict(dict(zip(apart.state_dict(), (tables[key] for key in order), strict=True)))
    torch.testing.assert_close(chain(rows), apart(rows))


def test_a_long_sequence_does_not_underflow() -> None:
    steps = 120
    circuit = hmm(range(steps), num_latent_states=3, input_layer_kwargs={"num_categories": 1000}, homogeneous=True)
    compiled = compiled_of(circuit)
    row = np.random.default_rng(0).integers(1000, size=steps)
    found = compiled(torch.as_tensor(row[None])).item()
    assert found == pytest.approx(forward(numbers(compiled), circuit, range(steps), row.astype(float)), rel=1e-12)
    assert found < -800  # no float64 holds the probability itself


@pytest.mark.full
def test_two_thousand_steps() -> None:
    circuit = hmm(range(2000), num_latent_states=4, input_layer_kwargs={"num_categories": 5}, homogeneous=True)
    compiled = compiled_of(circuit)
    rows = np.random.default_rng(0).integers(5, size=(2, 2000))
    expected = [forward(numbers(compiled), circuit, range(2000), row.astype(float)) for row in rows]
    for mode in (True, False):
        found = compiled.train(mode)(torch.as_tensor(rows)).detach().numpy()[:, 0, 0]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ordering": []}, r"ordering must be a permutation of 0..n-1, each variable once; found \[\]"),
        ({"ordering": [0, 2]}, r"found \[0, 2\]"),
        ({"ordering": [0, 0]}, r"found \[0, 0\]"),
        ({"ordering": 3}, r"found 3; for 3 steps in a row pass range\(3\)"),
        ({"ordering": [1, 2, 3]}, r"found \[1, 2, 3\]"),
        ({"ordering": [0, "a"]}, r"found \[0, 'a'\]"),
        ({"ordering": range(1, 300)}, r"found \[1, 2, 3, 4, 5, 6, 7, 8, ...\] of 299"),
        ({"input_layer": "normal"}, "unknown input layer 'normal'"),
        ({"input_layer_kwargs": {}}, r"templates take it as input_layer_kwargs=\{'num_categories': ...\}"),
        ({"input_layer_kwargs": [THREE] * 2}, "input_layer_kwargs holds 2 settings, expected one for each of the 3"),
        ({"input_layer_kwargs": [THREE, THREE, {}]}, "num_categories"),
        ({"input_layer_kwargs": [THREE] * 3, "homogeneous": True}, "share one emission"),
        ({"input_params": {"mean": Parameterization()}}, "'categorical' has no parameter 'mean'; .* are logits, probs"),
    ],
)
def test_refuses(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        hmm(**{"ordering": range(3), "input_layer_kwargs": THREE, **settings})
