"""Looks at learned weights that nobody waits for: what they allow, when, and what they warn of."""

import gc
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import plica
from plica.backend.torch import exact, kernels, looks, sources
from plica.backend.torch.leaves import Leaves
from tests.harness.devices import forbid_branches

_HOLDERS: list[Leaves] = []


@pytest.fixture(autouse=True)
def holders() -> Iterator[list[Leaves]]:
    """What holds the tensors of a test, as a compiled circuit does."""
    yield _HOLDERS
    _HOLDERS.clear()


@pytest.fixture
def arrival(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether copies arrive, as its last entry says; of devices, on the CPU."""
    forbid_branches(monkeypatch)
    arrives = [True]
    monkeypatch.setattr(looks, "_has_arrived", lambda _: arrives[-1])
    return arrives


@pytest.fixture
def both_ways(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often sums were computed in both ways."""
    calls = [0]
    of_all_rows: Callable[..., Any] = exact.of_all_rows

    def counted(*arguments: Any) -> Any:
        calls[0] += 1
        return of_all_rows(*arguments)

    monkeypatch.setattr(exact, "of_all_rows", counted)
    return calls


def _held(tensor: Tensor) -> Tensor:
    """A tensor of a circuit."""
    holder = Leaves()
    if isinstance(tensor, nn.Parameter):
        holder.register_parameter("weight", tensor)
    else:
        holder.register_buffer("weight", tensor)
    _HOLDERS.append(holder)
    return tensor


def _logits(least: float, most: float = 0.0) -> Tensor:
    return _held(nn.Parameter(torch.tensor([[[most, least]]])))


def _sum(logits: Tensor, x: Tensor) -> Tensor:
    return kernels.log_matmul_exp(x, torch.softmax(logits, -1), logits, logs="log_softmax")


def _step(logits: Tensor, change: float = 0.0) -> None:
    with torch.no_grad():
        logits[..., 1] += change


X = torch.tensor([[[-300.0, 0.0]]])


@pytest.mark.usefixtures("arrival")
def test_large_weights_are_summed_in_one_way_from_the_second_call_on(both_ways: list[int]) -> None:
    logits = _logits(-5.0)
    for _ in range(40):
        found = _sum(logits, X)
        assert found.item() == pytest.approx(torch.log_softmax(logits, -1)[..., 1].item(), rel=1e-6)
        _step(logits, -0.01)
    assert both_ways == [1]


@pytest.mark.usefixtures("arrival")
def test_large_weights_are_known_where_nothing_is_learned_too(both_ways: list[int]) -> None:
    """As in a validation between two steps."""
    logits = _logits(-5.0)
    with torch.no_grad():
        for _ in range(5):
            _sum(logits, X)
    assert both_ways == [1]


@pytest.mark.usefixtures("arrival")
def test_small_weights_are_summed_in_both_ways(both_ways: list[int]) -> None:
    logits = _logits(-120.0)
    for _ in range(40):
        assert _sum(logits, X).item() == pytest.approx(-120.0)
        _step(logits)
    assert both_ways == [40]


@pytest.mark.usefixtures("arrival")
def test_weights_that_become_small_step_by_step_lose_nothing(both_ways: list[int]) -> None:
    """By a factor of e in each step, to far below what a sum keeps."""
    logits = _logits(0.0)
    for _ in range(150):
        found = _sum(logits, X)
        assert found.item() == pytest.approx(torch.log_softmax(logits, -1)[..., 1].item(), rel=1e-5)
        _step(logits, -1.0)
    assert 50 < both_ways[0] < 150


def test_nothing_is_relied_on_before_a_copy_has_arrived(arrival: list[bool], both_ways: list[int]) -> None:
    logits = _logits(-5.0)
    arrival.append(False)
    for _ in range(5):
        _sum(logits, X)
    assert both_ways == [5]
    arrival.append(True)
    _sum(logits, X)
    assert both_ways == [5]


@pytest.mark.usefixtures("arrival")
def test_a_leap_is_told() -> None:
    logits = _logits(-5.0)

    def train() -> None:
        for step in range(40):
            _sum(logits, X)
            _step(logits, -200.0 if step == 20 else 0.0)

    with pytest.warns(RuntimeWarning, match="a softmax weight fell below .* within 16 training steps"):
        train()
    assert _sum(logits, X).item() == pytest.approx(-205.0)


@pytest.mark.usefixtures("arrival")
def test_weights_of_no_leaf_are_summed_in_both_ways(both_ways: list[int]) -> None:
    logits = _logits(-5.0)
    for _ in range(3):
        _sum(logits * 1.0, X)
    assert both_ways == [3]


@pytest.mark.usefixtures("arrival")
def test_a_weight_of_nan_is_never_large(both_ways: list[int]) -> None:
    logits = _logits(float("nan"))
    for _ in range(3):
        _sum(logits, X)
    assert both_ways == [3]


def _right(logits: Tensor) -> float:
    return torch.logsumexp(X.double() + torch.log_softmax(logits.double(), -1), -1).item()


@pytest.mark.usefixtures("arrival")
@pytest.mark.parametrize("grad", [True, False])
def test_steps_that_torch_does_not_count_are_looked_at(grad: bool) -> None:
    logits = _logits(-5.0)
    step = torch.optim.SGD([logits], 1.0, fused=True)
    with torch.set_grad_enabled(grad), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the leap
        for _ in range(40):
            logits.grad = torch.tensor([[[0.0, 10.0]]])
            step.step()
            _sum(logits, X)
        assert _sum(logits, X).item() == pytest.approx(_right(logits))


@pytest.mark.usefixtures("arrival")
def test_what_is_written_before_an_evaluation_is_looked_at() -> None:
    """Such as a checkpoint that is restored, or the last steps of a training."""
    logits = _logits(-5.0)
    _sum(logits, X), _sum(logits, X)
    with torch.no_grad():
        logits.copy_(torch.tensor([[[0.0, -205.0]]]))
        for _ in range(3):
            assert _sum(logits, X).item() == pytest.approx(-205.0)


@pytest.mark.usefixtures("arrival")
def test_weights_that_are_used_twice_are_looked_at_in_training_too() -> None:
    logits = _logits(-5.0)
    _sum(logits, X), _sum(logits, X)
    _step(logits, -200.0)
    _sum(logits, X), _sum(logits, X)
    with pytest.warns(RuntimeWarning, match="a softmax weight fell below"):
        found = _sum(logits, X)
    assert found.item() == pytest.approx(-205.0)


@pytest.mark.usefixtures("arrival")
def test_nothing_is_assumed_after_many_steps() -> None:
    """Other functions may have trained the weight meanwhile."""
    logits = _logits(-5.0)
    _sum(logits, X), _sum(logits, X)
    for _ in range(10):
        for _ in range(100):
            _step(logits, -0.5)
        assert _sum(logits, X).item() == pytest.approx(_right(logits))


@pytest.mark.usefixtures("arrival")
def test_second_derivatives_are_finite_at_every_call() -> None:
    logits = _logits(-46.0)
    for _ in range(3):
        x = X.clone().requires_grad_()
        (first,) = torch.autograd.grad(_sum(logits, x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first[..., 1].sum(), x)
        torch.testing.assert_close(second, torch.zeros_like(second))


@pytest.mark.usefixtures("arrival")
@pytest.mark.parametrize("how", ["other memory", "through data"])
def test_a_constant_that_is_written_to_is_looked_at(how: str) -> None:
    weight, x = _held(torch.full((1, 1, 2), 0.5)), torch.tensor([[[0.0, -200.0]]])
    kernels.log_matmul_exp(x, weight), kernels.log_matmul_exp(x, weight)
    other = torch.tensor([[[0.0, 1.0]]])
    if how == "other memory":
        weight.data = other
    else:
        weight.data.copy_(other)
        plica.invalidate()
    assert kernels.log_matmul_exp(x, weight).item() == pytest.approx(-200.0)


@pytest.mark.usefixtures("arrival")
def test_a_weight_that_was_looked_at_may_be_swapped() -> None:
    logits = _logits(-5.0)
    _sum(logits, X), _sum(logits, X)
    torch.utils.swap_tensors(logits, _logits(-205.0))
    assert _sum(logits, X).item() == pytest.approx(-205.0)


@pytest.mark.usefixtures("arrival")
def test_two_threads_may_read_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, inner = _logits(-5.0), [False]
    _sum(logits, X)

    def has_arrived(_: object) -> bool:
        if not inner[0]:
            inner[0] = True
            _sum(logits, X)  # as another thread does meanwhile
        return True

    monkeypatch.setattr(looks, "_has_arrived", has_arrived)
    assert _sum(logits, X).item() == pytest.approx(-5.0, rel=1e-2)


@pytest.mark.usefixtures("arrival")
def test_weights_without_memory_of_their_own_are_summed_in_both_ways(
    both_ways: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def location_of(_: Tensor) -> Any:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    monkeypatch.setattr(looks, "location_of", location_of)
    logits = _logits(-5.0)
    for _ in range(3):
        assert _sum(logits, X).item() == pytest.approx(_right(logits))
    assert both_ways == [3]


# States that may be taken for others


@pytest.mark.usefixtures("arrival")
def test_nothing_is_assumed_after_what_may_have_written_uncounted() -> None:
    module = nn.Module()
    module.weight = nn.Parameter(_logits(-5.0).detach())
    logits = _held(module.weight)
    _sum(logits, X), _sum(logits, X)
    module.load_state_dict({"weight": torch.tensor([[[0.0, -205.0]]])})
    assert _sum(logits, X).item() == pytest.approx(-205.0)


HALF = torch.full((1, 1, 2), 0.5)
LOST = torch.tensor([[[0.0, 1.0]]])  # of X_LAST
X_LAST = torch.tensor([[[0.0, -200.0]]])


def _linear(weight: Tensor, x: Tensor = X_LAST) -> float:
    return float(kernels.log_matmul_exp(x, weight).item())


@pytest.mark.usefixtures("arrival")
@pytest.mark.parametrize("alias", [lambda w: w.data, lambda w: nn.Parameter(w.data, False), lambda w: w.detach()])
def test_tensors_that_no_circuit_holds_are_summed_in_both_ways(alias: Callable[[Tensor], Tensor]) -> None:
    """They may share memory with others whose writes torch counts apart."""
    weight = HALF.clone()
    for _ in range(3):
        _linear(alias(weight))
    weight.copy_(LOST)
    assert _linear(alias(weight)) == pytest.approx(-200.0)


@pytest.mark.usefixtures("arrival")
def test_memory_that_is_put_back_is_looked_at() -> None:
    weight, average = _held(HALF.clone()), HALF.clone()
    own = weight.data
    weight.data = average
    _linear(weight), _linear(weight)
    weight.data = own
    average.copy_(LOST)
    weight.data = average
    plica.invalidate()
    assert _linear(weight) == pytest.approx(-200.0)


@pytest.mark.usefixtures("arrival")
def test_a_tensor_in_place_of_another_is_looked_at(holders: list[Leaves]) -> None:
    _held(HALF.clone())
    for entries in (HALF, HALF, LOST):
        holders[-1].register_buffer("weight", entries.clone())
        for _ in range(2):
            found = _linear(holders[-1].get_buffer("weight"))
    assert found == pytest.approx(-200.0)
    assert len(holders[-1].looks) == 1


@pytest.mark.usefixtures("arrival")
def test_parts_of_a_tensor_are_told_apart() -> None:
    weight = _held(torch.cat([HALF, LOST]))
    for _ in range(3):
        assert [_linear(one) for one in weight.split(1)] == pytest.approx([math.log(0.5), -200.0])


@pytest.mark.usefixtures("arrival")
def test_tensors_of_inference_mode_are_summed_in_both_ways() -> None:
    with torch.inference_mode():
        weight = _held(HALF.clone())
        for _ in range(3):
            _linear(weight)
        weight.copy_(LOST)
        assert _linear(weight) == pytest.approx(-200.0)


@pytest.mark.usefixtures("arrival")
def test_a_tensor_and_its_softmax_are_told_apart() -> None:
    weight = _logits(1.0, most=200.0)
    with torch.no_grad():
        for _ in range(3):
            assert _linear(weight, X) == pytest.approx(0.0)
    for _ in range(3):
        assert _sum(weight, X).item() == pytest.approx(-199.0)


@pytest.mark.usefixtures("arrival")
def test_sums_that_overflow_are_none_of_large_weights() -> None:
    weight, x = _held(torch.full((1, 1, 4), 1e38)), torch.zeros(1, 1, 4)
    for _ in range(3):
        assert _linear(weight, x) == pytest.approx(torch.logsumexp(weight.double().log(), -1).item())


@pytest.mark.usefixtures("arrival")
def test_what_a_look_found_is_replaced_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may ask meanwhile."""
    weight = _held(HALF.clone())
    _linear(weight), _linear(weight)
    weight.copy_(LOST)
    begun, found = looks._begun, list[float]()

    class Arrived:
        def __init__(self, ends: Tensor) -> None:
            self.ends = ends

        def tolist(self) -> list[float]:
            if not found:
                found.append(0.0)
                found[0] = _linear(weight)
            return self.ends.tolist()

    monkeypatch.setattr(looks, "_begun", lambda weight: (Arrived(begun(weight)[0]), None))
    outer = [_linear(weight), _linear(weight)]
    assert found + outer == pytest.approx([-200.0] * 3)


# Derivatives


@pytest.mark.usefixtures("arrival")
def test_second_derivatives_are_finite_a_few_steps_later() -> None:
    logits = _logits(-34.0)
    _sum(logits, X), _sum(logits, X)
    _step(logits, -16.0)  # whose square is no number
    x = X.clone().requires_grad_()
    (first,) = torch.autograd.grad(_sum(logits, x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first[..., 1].sum(), x)
    torch.testing.assert_close(second, torch.zeros_like(second))


def test_what_a_checkpoint_computes_again_is_computed_in_the_same_way(arrival: list[bool]) -> None:
    logits, x = _logits(-5.0), X.clone().requires_grad_()
    for _ in range(2):
        arrival.append(False)
        made = checkpoint(lambda x: _sum(logits, x), x, use_reentrant=False)
        arrival.append(True)
        made.sum().backward()
        _step(logits, -0.01)
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.tensor([[[0.0, 2.0]]]))


@pytest.mark.usefixtures("arrival")
def test_a_look_in_a_transform_is_read_in_the_next_one() -> None:
    weight = _held(HALF.clone())
    for _ in range(3):
        found = torch.func.grad(lambda x: kernels.log_matmul_exp(x, weight).sum())(X_LAST)
        torch.testing.assert_close(found, torch.tensor([[[1.0, 0.0]]]))


@pytest.mark.usefixtures("arrival")
def test_softmax_weights_that_are_frozen_are_summed_in_one_way(both_ways: list[int], holders: list[Leaves]) -> None:
    logits = _held(torch.tensor([[[0.0, -5.0]]]))
    for _ in range(5):
        _sum(logits, X)
    assert both_ways == [1]
    assert len(holders[-1].looks) == 1


# What nobody writes to


@pytest.mark.usefixtures("arrival")
def test_memory_that_nobody_writes_to_is_looked_at_once(both_ways: list[int]) -> None:
    weight = sources.seal(HALF.clone())
    for _ in range(5):
        _linear(weight[:])
    assert both_ways == [1]


def test_memory_that_is_gone_is_forgotten() -> None:
    before = len(sources._SEALED)
    for _ in range(100):
        assert sources.facts_of(sources.seal(HALF.clone())) == {}
        assert len(sources._SEALED) <= before


def test_facts_stay_while_a_view_of_the_memory_lives() -> None:
    whole = sources.seal(HALF.clone())
    facts = sources.facts_of(whole)
    view = whole.flatten()[1:]
    del whole
    gc.collect()
    assert facts is not None
    assert sources.facts_of(view) is facts
