"""Traced functions as torch runs them: what is converted, what is captured, and what the code is called."""

from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.backend.torch.functions import TorchFunction, from_dlpack, from_numpy, to_numpy
from plica.ir.program import Bound
from plica.ir.types import spec
from plica.tracing.scope import Reference


def _function(fn: Any, *specs: Any, leaves: tuple[Any, ...] = (), name: str = "run", **settings: Any) -> TorchFunction:
    return TorchFunction(Bound(plica.trace(fn, *specs), leaves), name, **settings)


def _field() -> np.ndarray:
    """An array whose elements lie five bytes apart."""
    record = np.zeros(3, dtype=[("number", "f4"), ("flag", "i1")])
    record["number"] = [1, 2, 3]
    return record["number"]


def _frozen() -> np.ndarray:
    array = np.ones(3)
    array.flags.writeable = False
    return array


VIEWS = (
    # array, whether the tensor shares its memory
    (np.ones(3), True),
    (np.ones((4, 3)).T, True),
    (np.ones((4, 3))[::2], True),
    (np.asarray(2.0), True),
    (np.ones((0, 3)), True),
    (np.ones((4, 3))[::-1], False),
    (np.broadcast_to(np.ones(1), (3,)), False),
    (np.ones(3, ">f8"), False),
    (_field(), False),
    (_frozen(), False),
    (np.float32(2.5), False),
)


@pytest.mark.parametrize(("array", "shared"), VIEWS, ids=range(len(VIEWS)))
def test_numpy_arrays_become_tensors(array, shared: bool) -> None:
    tensor = from_numpy(array)
    assert (tuple(tensor.shape), tensor.tolist()) == (np.shape(array), np.asarray(array).tolist())
    assert np.shares_memory(tensor.numpy(), array) == (shared and tensor.numel() > 0)


TENSORS = (
    torch.ones(2, 3).T,
    torch.ones(2, requires_grad=True) * 2,
    torch.tensor([1 + 2j]).conj(),
    torch.tensor([1 + 2j]).conj().imag,
    torch.tensor(True),
)


@pytest.mark.parametrize("tensor", TENSORS, ids=range(len(TENSORS)))
def test_tensors_become_numpy_arrays(tensor) -> None:
    array = to_numpy(tensor)
    assert isinstance(array, np.ndarray)
    assert (array.shape, array.tolist()) == (tuple(tensor.shape), tensor.tolist())


def test_objects_with_the_exchange_protocol_share_their_memory() -> None:
    array = np.ones(2)
    from_dlpack(array)[0] = 5
    assert array.tolist() == [5.0, 1.0]


def test_numbers_that_count_stay_numbers() -> None:
    run = _function(lambda x, k, a: (x[:k] * a, k + 1), spec("n"), int, float, numbers=frozenset({1, 2}))
    assert "float(" not in run.code, "a float may be a tensor that has a gradient"
    call = run.specialize([torch.ones(3), 2, 0.5])
    found = call([torch.ones(3), 2, 0.5])
    assert [one.tolist() for one in found] == [[0.5, 0.5], 3]
    a = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    scaled, _ = run.specialize([torch.ones(3), 2, a])([torch.ones(3), 2, a])
    assert torch.autograd.grad(scaled.sum(), a)[0] == 2.0


def test_integers_may_be_tensors_or_numpys() -> None:
    run = _function(lambda n: pnp.ones([n]), int, numbers=frozenset({0}))
    for value in (3, torch.tensor(3), np.int64(3)):
        assert run.specialize([value])([value]).tolist() == [1.0] * 3


@pytest.mark.parametrize(("name", "called"), [("run", "run"), ("<lambda>", "function"), ("torch", "function")])
def test_the_code_has_a_name_of_python(name: str, called: str) -> None:
    assert _function(lambda x: x + 1, spec("n"), name=name).code.startswith(f"def {called}(leaves, x):\n")


class _Holder:
    def __init__(self) -> None:
        self.weight = torch.ones(2)


def test_what_is_captured_is_read_at_each_call() -> None:
    holder, tensor, array = _Holder(), torch.ones(2), np.ones(2, "float32")
    text = "{ lambda a:f32[2] b:f32[2] c:f32[2] ; x:f32[2] . let d:f32[2] = add a b e:f32[2] = add d c in (e, x) }"
    run = TorchFunction(Bound(plica.parse(text), (Reference(holder, "weight"), tensor, array)), "run")
    call = run.specialize([torch.ones(2)])
    assert call([torch.ones(2)])[0].tolist() == [3.0, 3.0]
    holder.weight = torch.full((2,), 10.0)
    tensor.fill_(20)
    array[:] = 30
    assert call([torch.ones(2)])[0].tolist() == [60.0, 60.0]


def test_arguments_of_one_name_are_compared() -> None:
    run = _function(lambda x, y: x + y, spec("n"), spec("n"))
    call = run.specialize([torch.ones(2), torch.ones(2)])
    with pytest.raises(plica.errors.InputError, match=r"axis 0 of argument y has size 3, but 2 \(n\) is needed"):
        call([torch.ones(2), torch.ones(3)])


def test_programs_are_cleaned_before_they_run() -> None:
    run = _function(lambda x: (pnp.exp(x) * 1, pnp.exp(x), x + 5)[:2], spec("n"))
    assert [one.op.name for one in run.program.equations] == ["exp"]
