"""Tensors that are watched: whatever changes them is noticed, and looking at them is a few calls."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from plica.backend.torch.sources import doubt
from plica.backend.torch.watch import Watch, can_watch
from tests.harness.work import count_calls


def _memory(tensor):
    tensor.data = tensor.data.clone()


WRITES = {
    "in place": lambda one: one.detach().add_(1.0),
    "entries of a small one": lambda one: one.data.fill_(2.0),
    "through numpy": lambda one: one.detach().numpy().__setitem__(0, 5.0),
    "other memory": _memory,
}


CHANGES: list[Callable[[torch.Tensor], torch.Tensor]] = [
    torch.t,
    lambda one: one[:150],
    lambda one: one.reshape(400, 100),
    lambda one: one.view(torch.bfloat16),
]


@pytest.mark.parametrize("change", CHANGES)
def test_another_layout_of_the_same_memory_is_noticed(change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    tensor = torch.nn.Parameter(torch.randn(200, 200, dtype=torch.float16))
    watch = Watch([tensor])
    tensor.data = change(tensor.data)  # which counts no version
    assert not watch.is_current([tensor])


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("place", [0, 1])
def test_a_write_is_noticed(name: str, place: int) -> None:
    tensors = [torch.nn.Parameter(torch.randn(3)), torch.randn(2, 4)[:, ::2]]
    watch = Watch(tensors)
    assert watch.is_current(tensors)
    state = watch.states[place]
    with torch.no_grad():
        WRITES[name](tensors[place])
    assert not watch.is_current(tensors)
    assert Watch(tensors).states[place] != state
    assert Watch(tensors).states[1 - place] == watch.states[1 - place]


def test_memory_that_is_given_back_is_not_taken_for_the_same() -> None:
    tensor = torch.nn.Parameter(torch.randn(300, 300))
    watch = Watch([tensor])
    for _ in range(5):
        tensor.data = tensor.data * 2
        assert not watch.is_current([tensor])


def test_other_tensors_are_others() -> None:
    tensors = [torch.zeros(3), torch.ones(3)]
    watch = Watch(tensors)
    assert not watch.is_current(tensors[:1])
    assert not watch.is_current([tensors[0], torch.ones(3)])


def test_what_is_in_doubt_is_read_and_what_is_as_it_was_has_its_state() -> None:
    tensors = [torch.randn(200, 200), torch.randn(200, 200)]
    first = Watch(tensors)
    states = first.states
    doubt(tensors)
    assert not first.is_current(tensors)
    second = Watch(tensors, before=first)
    assert second.states == states
    tensors[1].data.add_(1.0)
    doubt(tensors[:1])
    assert Watch(tensors, before=second).states == states, "the limit that is documented"
    doubt(tensors)
    third = Watch(tensors, before=second)
    assert [one == other for one, other in zip(third.states, states, strict=True)] == [True, False]


def test_what_was_watched_can_be_resized() -> None:
    tensors = [torch.randn(3), torch.randn(200, 200)]
    assert len(Watch(tensors).states) == 2
    for one in tensors:
        one.untyped_storage().resize_(0)


@pytest.mark.parametrize("size", [4, 2**17])
def test_tensors_of_inference_mode_are_told_by_their_entries(size: int) -> None:
    with torch.inference_mode():
        tensor = torch.zeros(size)
        watch = Watch([tensor])
        assert watch.is_current([tensor])
        tensor.add_(1.0)
        assert not watch.is_current([tensor])


@pytest.mark.parametrize("size", [4, 2**17])
def test_tensors_of_inference_mode_with_other_memory_count_no_versions_either(size: int) -> None:
    with torch.inference_mode():
        tensor = torch.nn.Parameter(torch.zeros(2, size))
    tensor.data = tensor.data.double()
    assert can_watch(tensor)
    watch = Watch([tensor])
    assert watch.is_current([tensor])
    tensor.data.add_(1.0)
    assert not watch.is_current([tensor])


@pytest.mark.parametrize("strides", ["dense", "transposed"])
def test_a_checksum_reads_all_entries(strides: str) -> None:
    tensor = torch.randn(200, 200, dtype=torch.complex64)
    tensor = tensor if strides == "dense" else tensor.T.conj()
    watch, other = Watch([tensor], checksum=True), Watch([tensor])
    tensor.data[3, 4] = 0.0
    assert not watch.is_current([tensor])
    assert other.is_current([tensor]), "the limit that is documented"


@pytest.mark.parametrize("make", [torch.zeros, lambda shape: torch.from_numpy(np.zeros(shape))])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_tensors_of_any_shape(shape: tuple[int, ...], make: Callable[..., torch.Tensor]) -> None:
    tensor = make(shape)  # of numpy's without entries, all strides are 0
    watch = Watch([tensor])
    assert watch.is_current([tensor])
    tensor.add_(1.0)
    assert not watch.is_current([tensor])


def test_what_has_no_numbers_is_not_watched() -> None:
    assert can_watch(torch.zeros(2))
    assert can_watch(torch.nn.Parameter(torch.zeros(2)))
    assert not can_watch(torch.zeros(2, device="meta"))
    torch.func.grad(lambda x: (_refuse(x), x.sum())[1])(torch.zeros(2))


def _refuse(x):
    assert not can_watch(x)


def test_looking_costs_few_calls() -> None:
    tensors = [torch.nn.Parameter(torch.zeros(200, 200)) for _ in range(20)]
    watch = Watch(tensors)
    assert count_calls(lambda: watch.is_current(tensors)) < 60  # one for the pointer of each, no frames


def test_a_step_of_another_model_changes_nothing() -> None:
    own, other = (torch.nn.Parameter(torch.randn(200, 200)) for _ in range(2))
    watch = Watch([own])
    for one, expected in ((other, True), (own, False)):
        one.grad = torch.ones_like(one)
        torch.optim.SGD([one], 0.1, fused=True).step()
        assert watch.is_current([own]) is expected
        assert watch.is_current([own]) is expected
