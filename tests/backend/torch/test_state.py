"""Loading state dicts: a circuit says and does what a module with one parameter for each entry says and does."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.leaves import Leaves
from tests.harness.eval_circuits import image


def _twin(state: dict[str, Tensor]) -> nn.Module:
    """A module of torch's alone with these entries."""
    module = nn.Module()
    for key, value in state.items():
        owner = module
        *path, name = key.split(".")
        for step in path:
            if step not in owner._modules:
                owner.add_module(step, nn.Module())
            owner = owner.get_submodule(step)
        owner.register_parameter(name, nn.Parameter(value.clone()))
    return module


def _circuit(fold: bool) -> TorchCircuit:
    torch.manual_seed(0)
    return TorchCompiler(fold=fold).compile(image(units=2, side=2))


def _said(module: nn.Module, state: dict[str, Any], **options: bool) -> tuple[str, set[str], set[str]]:
    """How loading ends, which keys are missing, and which are unexpected."""
    try:
        found = module.load_state_dict(state, **options)
        return "loaded", set(found.missing_keys), set(found.unexpected_keys)
    except RuntimeError as error:
        said = [re.search(rf"{word} key\(s\) in state_dict: (.*)\. ", str(error)) for word in ("Missing", "Unexpected")]
        missing, unexpected = (set(re.findall(r'"([^"]+)"', one[1])) if one else set() for one in said)
        return "refused", missing, unexpected


def _changed(state: dict[str, Tensor], generated: dict[str, Any], generator: np.random.Generator) -> dict[str, Any]:
    """A state dict in which entries are other ones, gone, misshapen, no tensors, or beside what nothing has."""
    found: dict[str, Any] = {key: one * 2 + 1 for key, one in state.items()}
    for key in found:
        chance = generator.integers(20)
        if chance == 0:
            found[key] = torch.zeros(7)
        elif chance == 1:
            found[key] = [1.0, 2.0]
        elif chance == 2:
            found[key] = None
        elif chance == 3:
            found[key] = found[key].double()
    for key in list(found):
        if generator.random() < 0.1:
            del found[key]
    others = [*generated, "leaves.other", "leaves", "other", "0", "0.logits.more", "_real"]
    for key in others:
        if generator.random() < 0.2:
            found[key] = torch.zeros(3)
    return found


@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 40), marks=pytest.mark.full)], ids=str)
@pytest.mark.parametrize("prefix", ["", "inner.module."])
@pytest.mark.parametrize("fold", [True, False])
def test_any_state_dict_is_taken_as_torch_takes_it(fold: bool, prefix: str, seeds: range) -> None:
    for seed in seeds:
        generator = np.random.default_rng(seed)
        circuit = _circuit(fold)
        own = dict(circuit.state_dict())
        module: nn.Module = circuit
        if prefix:
            module = nn.ModuleDict({"inner": nn.ModuleDict({"module": circuit})})
        twin = _twin({f"{prefix}{key}": one for key, one in own.items()})
        changed = _changed(own, {name: None for name, _ in circuit.named_parameters()}, generator)
        state = {f"{prefix}{key}": one for key, one in changed.items()}
        before = dict(state)
        for name, keys in circuit.leaves._keys.items():
            if not any(key in changed for key in keys):
                state.pop(f"{prefix}leaves.{name}", None)  # a dict of named_parameters, which is taken too
        options = {"strict": bool(generator.random() < 0.5), "assign": bool(generator.random() < 0.3)}
        assert _said(module, state, **options) == _said(twin, state, **options), (seed, options)
        assert all(state[key] is before[key] for key in state), "the dict is the caller's"
        for key, value in module.state_dict().items():
            torch.testing.assert_close(value, twin.state_dict()[key], rtol=0, atol=0, check_dtype=False)


def test_a_dict_of_parameters_is_taken_where_it_is_alone() -> None:
    circuit = _circuit(fold=True)
    named = {name: one.detach() * 2 for name, one in circuit.named_parameters()}
    expected = {key: one * 2 for key, one in circuit.state_dict().items()}
    assert _said(circuit, named) == ("loaded", set(), set())
    for key, value in circuit.state_dict().items():
        assert torch.equal(value, expected[key])
    name = next(iter(named))
    assert _said(circuit, {**circuit.state_dict(), name: named[name] * 5}) == ("refused", set(), {name})
    assert _said(circuit, {**circuit.state_dict(), name: named[name]}, strict=False) == ("loaded", set(), {name})


def test_numbers_without_memory_are_refused_beside_others() -> None:
    numbers = dict(_circuit(fold=True).state_dict())
    key = next(iter(numbers))
    empty, whole = _circuit(fold=True).to("meta"), _circuit(fold=True)
    with pytest.raises(RuntimeError, match=r"logits is on the meta device and has no numbers.*give numbers for all"):
        empty.load_state_dict({key: numbers[key]}, strict=False, assign=True)
    with pytest.raises(RuntimeError, match=rf"{key} is on the meta device"):
        whole.load_state_dict({**numbers, key: numbers[key].to("meta")})
    assert torch.equal(whole.state_dict()[key], numbers[key])
    assert _said(empty, numbers, assign=True) == ("loaded", set(), set())
    assert all(torch.equal(one, numbers[name]) for name, one in empty.state_dict().items())


def test_the_tensors_of_a_held_module_have_one_name() -> None:
    leaves = Leaves()
    leaves.add_own_module("network_3", "3.module", nn.Linear(2, 1, bias=False))
    state: dict[str, Any] = {"3.module.weight": torch.ones(1, 2), "leaves.network_3.weight": torch.zeros(1, 2)}
    problems = leaves.fold(state, "", "leaves.")
    assert (problems.missing, problems.unexpected) == ([], ["leaves.network_3.weight"])
    assert torch.equal(state["leaves.network_3.weight"], torch.ones(1, 2))
