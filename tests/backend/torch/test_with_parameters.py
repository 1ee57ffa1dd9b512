"""Questions to circuits with parameters: `with_parameters` binds one set for all rows."""

from typing import Any

import pytest
import torch

from plica import queries
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import InputError, UnsupportedError
from plica.symbolic.layers import CategoricalLayer, SumLayer
from tests.harness.circuits import chain, tensor
from tests.harness.given import MEANS, X, close, compiled_conditional, conditional

QUERIES: dict[str, Any] = {
    "log_likelihood": lambda c: queries.log_likelihood(c, X),
    "conditional_log_likelihood": lambda c: queries.conditional_log_likelihood(
        c, X[:2], torch.tensor([[True, False]] * 2)
    ),
    "sample": lambda c: queries.sample(c, 4, seed=0),
    "filled": lambda c: queries.sample(c, 2, given=X, seed=0),
    "mpe": lambda c: queries.mpe(c, X)[0],
    "mean": lambda c: queries.mean(c, X),
    "variance": lambda c: queries.variance(c, X),
    "posterior": lambda c: queries.posterior(c, X).mean,
    "cdf": lambda c: queries.cdf(c, X[:2]),
    "value": lambda c: c(X),
}


@pytest.mark.parametrize(
    ("fold", "training"),
    [
        (True, True),
        (False, False),
        *(pytest.param(fold, not fold, marks=pytest.mark.full) for fold in (True, False)),
    ],
)
def test_queries_of_a_circuit_with_parameters(fold: bool, training: bool) -> None:
    compiled = compiled_conditional(fold=fold).train(training)
    plain = TorchCompiler(fold=fold, dtype="float64").compile(conditional(tensor([0.0, 0.0]))).train(training)
    plain.load_state_dict({**plain.state_dict(), **compiled.state_dict()})
    own = compiled.state_dict()["1.mean"].clone()
    other = own + 1
    with torch.no_grad():
        for mean in MEANS[:2]:
            bound = compiled.with_parameters({"mean": mean, "1.mean": other})
            plain.load_state_dict({**plain.state_dict(), "0.mean": mean, "1.mean": other})
            for name, ask in QUERIES.items():
                assert torch.allclose(ask(bound), ask(plain), atol=1e-9, equal_nan=True), name
        assert torch.equal(compiled.state_dict()["1.mean"], own), "the circuit is as it was"


def test_circuits_with_parameters_share_programs() -> None:
    compiled = compiled_conditional()
    queries.log_likelihood(compiled.with_parameters({"mean": MEANS[0]}), X)
    programs, asked = list(compiled._functions), list(compiled.queries)
    queries.log_likelihood(compiled.with_parameters({"mean": MEANS[1]}), X)
    assert (list(compiled._functions), list(compiled.queries)) == (programs, asked)


def test_gradients_through_queries_reach_what_is_given() -> None:
    compiled = compiled_conditional()
    mean = MEANS[0].clone().requires_grad_()
    queries.log_likelihood(compiled.with_parameters({"mean": mean}), X).sum().backward()
    again = MEANS[0].clone().requires_grad_()
    compiled(X, parameters={"mean": again}).sum().backward()
    assert mean.grad is not None
    assert again.grad is not None
    assert close(mean.grad, again.grad.numpy())


def test_a_circuit_with_parameters_has_one_set() -> None:
    compiled = compiled_conditional()
    with pytest.raises(InputError, match="with_parameters takes one set for all rows"):
        compiled.with_parameters({"mean": MEANS})
    with pytest.raises(InputError, match="'mean' has no value of its own"):
        compiled.with_parameters({})
    for ask in (queries.log_likelihood, queries.mpe):
        with pytest.raises(InputError, match=r"'mean' has no value of its own.*circuit\.with_parameters"):
            ask(compiled, X)


@pytest.mark.parametrize("fold", [True, False])
def test_a_circuit_with_parameters_is_given_more(fold: bool) -> None:
    """Of layers that fold, first one has been given its means, and then the other."""
    compiled = TorchCompiler(fold=fold, dtype="float64").compile(conditional(tensor([0.0, 0.0])))
    both = {"0.mean": MEANS[0], "1.mean": MEANS[1]}
    expected = compiled(X, parameters=both)
    first = compiled.with_parameters({"0.mean": MEANS[0]})
    for other in (first.with_parameters({"1.mean": MEANS[1]}), first.with_parameters(both)):
        assert torch.equal(other(X), expected)
    assert torch.equal(first(X, parameters={"1.mean": MEANS[1]}), expected)
    assert torch.equal(first(X), compiled(X, parameters={"0.mean": MEANS[0]}))


def test_doubtful_weights_of_a_circuit_with_parameters_are_looked_at() -> None:
    compiled = TorchCompiler().compile(
        chain(CategoricalLayer([0], 2, num_categories=2), SumLayer(2, 1, weight=tensor([[0.5, 0.5]])))
    )
    x = torch.zeros(3, 1, dtype=torch.int64)
    for ask in (lambda c: c(x), lambda c: queries.log_likelihood(c, x)):
        for weight in (torch.tensor([[0.5, 0.25]]), torch.tensor([[0.5, 0.75]])):
            assert ask(compiled.with_parameters({"1.weight": weight})).isfinite().all()
        with pytest.raises(UnsupportedError, match=r"its weight has the entry -0\.25"):
            ask(compiled.with_parameters({"1.weight": torch.tensor([[0.5, -0.25]])}))


@pytest.mark.parametrize("query", ["mean", "mpe"])
def test_queries_of_a_circuit_without_a_value_are_refused_after_those_of_one_with_it(query: str) -> None:
    compiled = compiled_conditional()
    ask = {"mean": lambda one: queries.mean(one, X), "mpe": lambda one: queries.mpe(one, X)}[query]
    ask(compiled.with_parameters({"mean": MEANS[0]}))
    with pytest.raises(InputError, match="the leaf 'mean' has no value of its own"):
        ask(compiled)
