"""What a circuit keeps in eval mode is never stale, whatever changes its tensors, and many threads compute it once."""

import copy
import threading
import weakref
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.utils.prune
from torch.multiprocessing.reductions import StorageWeakRef

from plica.backend.torch import constants
from plica.backend.torch.compiler import TorchCompiler
from plica.constants.policy import FoldPolicy
from plica.constants.store.cache import FoldCache
from plica.errors import UnsupportedError
from plica.lower import cascade
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, SumLayer
from plica.symbolic.semirings import Bound
from tests.harness.circuits import chain, tensor
from tests.harness.eval_circuits import X, edges, image, large, operations, unfolded

assert_close = partial(torch.testing.assert_close, rtol=1e-6, atol=0.0)  # what is folded is added up in another order


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def _step(make):
    def change(circuit) -> None:
        for one in circuit.parameters():
            one.grad = torch.randn_like(one)
        make(circuit.parameters()).step()

    return change


def _move(circuit) -> None:
    for one in circuit.parameters():
        one.data = one.data * 2


def _replace(circuit) -> None:
    for name, one in list(circuit.leaves.named_parameters()):
        setattr(circuit.leaves, name, torch.nn.Parameter(one.detach() * 2))


def _write_small(circuit) -> None:
    for one in circuit.parameters():
        if one.nbytes < 2**16:
            one.data.mul_(2.0)


def _write_all(circuit) -> None:
    for one in circuit.parameters():
        one.data.mul_(2.0)
    circuit.eval()


def _other_state(circuit):
    return {key: value * 2 for key, value in circuit.state_dict().items()}


def _vector(circuit) -> None:
    vector = torch.nn.utils.parameters_to_vector(circuit.parameters())
    torch.nn.utils.vector_to_parameters(vector * 2, circuit.parameters())


CHANGES = {
    "in place": lambda circuit: [one.mul_(2.0) for one in circuit.parameters()],
    "a fold": lambda circuit: [one[0].zero_() for one in circuit.parameters()],
    **{
        f"{kind.__name__}, {how}": _step(lambda found, kind=kind, how=how: kind(found, 0.1, **{how: True}))
        for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad)
        for how in ("fused", "foreach")
    },
    "load_state_dict": lambda circuit: circuit.load_state_dict(_other_state(circuit)),
    "load_state_dict, assign": lambda circuit: circuit.load_state_dict(_other_state(circuit), assign=True),
    "double": lambda circuit: circuit.double(),
    "there and back": lambda circuit: [one.mul_(2.0) for one in circuit.double().parameters()] and circuit.float(),
    "reset": lambda circuit: circuit.reset_parameters(seed=3),
    "train and eval": lambda circuit: circuit.train().eval(),
    "entries of small tensors": _write_small,
    "entries of all, and eval": _write_all,
    "other memory": _move,
    "other parameters": _replace,
    "a vector": _vector,
}


def some_changes(turn: int) -> Any:
    """Every change, of optimizers every second one: each of them and each way of theirs in two turns."""
    steps = [name for name in CHANGES if name.endswith(("fused", "foreach"))]
    left_out = [name for place, name in enumerate(steps) if (place // 2 + place + turn) % 2]
    params = [pytest.param(name, marks=pytest.mark.full if name in left_out else []) for name in CHANGES]
    return pytest.mark.parametrize("name", params)


@pytest.mark.one_in(3)
@some_changes(0)
def test_a_change_is_seen_by_the_next_call(name) -> None:
    circuit = TorchCompiler().compile(large()).eval()
    with torch.no_grad():
        before = circuit(X)
        CHANGES[name](circuit)
        after = circuit(X)
        assert_close(after, unfolded(circuit))
        assert operations(circuit, X) == 0
    assert name == "train and eval" or not torch.equal(before.to(after.dtype), after)


@pytest.mark.one_in(3)
@some_changes(1)
def test_a_change_is_seen_by_another_circuit_with_the_same_tensors(name) -> None:
    compiler = TorchCompiler()
    one = compiler.compile(large()).eval()
    other = compiler.compile(Circuit(one.symbolic.layers, edges(one.symbolic), one.symbolic.outputs[:1])).eval()
    with torch.no_grad():
        one(X), other(X)
        CHANGES[name](one)
        assert_close(other(X), unfolded(other))
        assert_close(one(X), unfolded(one))


@pytest.mark.parametrize("change", ["eval", "train and eval", "elsewhere"])
def test_a_change_of_mode_alone_computes_nothing_again(change) -> None:
    compiler = TorchCompiler()
    circuit = compiler.compile(large()).eval()
    other = compiler.compile(Circuit(circuit.symbolic.layers, edges(circuit.symbolic), circuit.symbolic.outputs[:1]))
    with torch.no_grad():
        circuit(X)
    (circuit.train() if change == "train and eval" else other.train() if change == "elsewhere" else circuit).eval()
    assert operations(circuit, X) == 0


def test_a_write_that_nothing_counts_is_seen_after_a_change_of_mode_and_costs_what_depends_on_it() -> None:
    circuit = TorchCompiler().compile(large()).eval()
    wide = max(circuit.parameters(), key=torch.Tensor.numel)
    with torch.no_grad():
        circuit(X)
        wide.data.mul_(2.0)
        circuit.train().eval()
        assert 0 < operations(circuit, X) < operations(copy.deepcopy(circuit), X)
        assert_close(circuit(X), unfolded(circuit))


class _Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = 2.0

    def forward(self, x):
        return x * self.factor


COMPUTED = {
    "parametrized": lambda leaves, name: torch.nn.utils.parametrize.register_parametrization(leaves, name, _Scaled()),
    "weight norm": torch.nn.utils.parametrizations.weight_norm,
    "pruned": lambda leaves, name: torch.nn.utils.prune.random_unstructured(leaves, name, amount=0.5),
}


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("is_known", [True, False])
def test_a_tensor_that_is_computed_is_computed_at_each_call(name, is_known) -> None:
    circuit = TorchCompiler().compile(image()).eval()
    leaf, _ = next(circuit.leaves.named_parameters())
    with torch.no_grad():
        before = circuit(X) if is_known else unfolded(circuit)
        COMPUTED[name](circuit.leaves, leaf)
        after = circuit(X)
        assert not torch.equal(before, after) or name == "weight norm"
        assert_close(circuit.train()(X), after)
        if name == "parametrized":
            for one in circuit.eval().modules():
                if isinstance(one, _Scaled):
                    one.factor = 3.0
            assert not torch.equal(circuit(X), after)
            torch.nn.utils.parametrize.remove_parametrizations(circuit.leaves, leaf)
            for tensor_ in circuit.parameters():
                before = circuit(X)
                tensor_.mul_(2.0)
                assert not torch.equal(circuit(X), before), "whichever place the tensor has among the others now"


def test_memory_that_was_replaced_is_let_go() -> None:
    circuit = TorchCompiler().compile(image()).eval()
    old = []
    with torch.no_grad():
        circuit(X)
        for one in circuit.parameters():
            old.append(StorageWeakRef(one.untyped_storage()))
            one.data = one.data * 2.0
            circuit(X)
    assert all(one.expired() for one in old)


def test_a_large_tensor_is_read_where_the_policy_says_so() -> None:
    circuit = TorchCompiler(policy=FoldPolicy(max_growth=None, check="checksum")).compile(large()).eval()
    with torch.no_grad():
        circuit(X)
        for one in circuit.parameters():
            one.data.mul_(2.0)
        assert_close(circuit(X), unfolded(circuit))


def test_a_tensor_of_inference_mode() -> None:
    circuit = TorchCompiler().compile(large()).eval()
    with torch.inference_mode():
        circuit.load_state_dict(_other_state(circuit), assign=True)
        circuit(X)
        for one in circuit.parameters():
            one.mul_(2.0)
        assert_close(circuit(X), unfolded(circuit))


def test_other_tensors_for_one_call() -> None:
    circuit = TorchCompiler().compile(image()).eval()
    other = {name: one.detach() * 2 for name, one in circuit.named_parameters()}
    with torch.no_grad():
        expected = circuit(X), torch.func.functional_call(copy.deepcopy(circuit).train(), other, (X,))
        for _ in range(2):
            assert_close(torch.func.functional_call(circuit, other, (X,)), expected[1])
            assert_close(circuit(X), expected[0])


def test_changing_one_tensor_computes_what_depends_on_it() -> None:
    circuit = TorchCompiler().compile(image()).eval()
    changed = []
    with torch.no_grad():
        circuit(X)
        (program,) = circuit.constants._programs.values()
        for one in circuit.leaves.tensors():
            before = program.values()
            one.mul_(2.0)
            circuit(X)
            pairs = zip(before, program.values(), strict=True)
            changed.append(sum(value is not other for value, other in pairs))
    assert min(changed) > 0
    assert len(changed) > 3
    numbers = [one for one in program.values() if not one.is_floating_point()]
    assert len(numbers) == 1, "where each fold begins in the table of all, which depends on no tensor"
    assert sum(changed) == len(program.values()) - 1, "each other one depends on one tensor"


def test_memory_that_is_replaced_is_not_held_by_what_is_made_of_other_tensors() -> None:
    circuit = TorchCompiler().compile(image()).eval()
    with torch.no_grad():
        circuit(X)
        for one in circuit.parameters():
            memory = StorageWeakRef(one.untyped_storage())
            one.data = one.data * 2
            circuit(X)
            assert memory.expired()


@pytest.mark.parametrize("first", [0, 10**12], ids=["bounded", "exact"])
def test_what_has_changed_goes_before_the_new_is_made(first: int, monkeypatch) -> None:
    monkeypatch.setitem(cascade.FROM, Bound.OF_WEIGHTS, first)
    circuit = TorchCompiler().compile(image()).eval()
    with torch.no_grad():
        circuit(X)
    (program,) = circuit.constants._programs.values()
    before = [weakref.ref(one) for one in program.values() if one.is_floating_point()]  # others depend on no tensor
    alive = []
    own = constants._own

    def count(value, watch, is_transposed):
        alive.append(sum(one() is not None for one in before))
        return own(value, watch, is_transposed)

    monkeypatch.setattr(constants, "_own", count)
    with torch.no_grad():
        for one in circuit.parameters():
            one.mul_(2.0)
        circuit(X)
    assert alive
    assert not any(alive)


def test_many_threads_call_first_and_while_weights_are_replaced() -> None:
    circuit = TorchCompiler().compile(image()).eval()
    states = [circuit.state_dict(), {key: value * 2 for key, value in circuit.state_dict().items()}]
    states[0] = {key: value.clone() for key, value in states[0].items()}
    allowed = []
    for state in states:
        circuit.load_state_dict(state)
        allowed.append(unfolded(circuit))
    errors: list[str] = []

    def call() -> None:
        for _ in range(20):
            with torch.no_grad():
                found = circuit(X)
            if not found.isfinite().all():
                errors.append(str(found))

    threads = [threading.Thread(target=call) for _ in range(16)]
    for one in threads:
        one.start()
    for number in range(20):
        circuit.load_state_dict(states[number % 2])
    for one in threads:
        one.join()
    assert not errors
    with torch.no_grad():
        assert_close(circuit(X), allowed[1])


def test_weights_that_are_written_to_during_a_fold_do_not_stand_for_those_before(monkeypatch) -> None:
    circuit = TorchCompiler().compile(image()).eval()
    before = {key: value.clone() for key, value in circuit.state_dict().items()}
    expected = unfolded(circuit)
    own = constants._own

    def fold_while_another_thread_writes(*given):
        circuit.load_state_dict({key: value * 2 for key, value in before.items()})
        return own(*given)

    with torch.no_grad():
        monkeypatch.setattr(constants, "_own", fold_while_another_thread_writes)
        circuit(X)
        monkeypatch.setattr(constants, "_own", own)
        circuit.load_state_dict(before)
        assert_close(circuit(X), expected)


def test_threads_that_call_first_fold_once(monkeypatch) -> None:
    circuit = TorchCompiler(cache=FoldCache()).compile(image()).eval()  # alone, so that it finds nothing made
    made = []
    own = constants._own
    monkeypatch.setattr(constants, "_own", lambda *given: (made.append(1), own(*given))[1])
    with torch.no_grad():
        threads = [threading.Thread(target=torch.no_grad()(circuit), args=(X,)) for _ in range(16)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    (program,) = circuit.constants._programs.values()
    assert len(made) == len(program.values())


def test_an_error_while_folding_is_told_and_the_next_call_tries_again(monkeypatch) -> None:
    circuit = TorchCompiler().compile(image()).eval()
    own = constants._own

    def fail(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(constants, "_own", fail)
    with torch.no_grad():
        for _ in range(2):
            with pytest.raises(MemoryError, match="no room"):
                circuit(X)
        monkeypatch.setattr(constants, "_own", own)
        assert_close(circuit(X), unfolded(circuit))


def test_a_fused_step_to_a_negative_weight_is_refused() -> None:
    weight = tensor(np.full((1, 20000), 0.5))  # of more than 64 KiB
    circuit = TorchCompiler().compile(
        chain(CategoricalLayer([0], 20000, num_categories=2), SumLayer(20000, 1, weight=weight))
    )
    x = torch.zeros(1, 1, dtype=torch.int64)
    optimizer = torch.optim.SGD(circuit.parameters(), 1.0, fused=True)
    circuit(x)
    for one in circuit.parameters():
        one.grad = torch.ones_like(one)
    optimizer.step()
    for mode in (True, False):
        with torch.no_grad(), pytest.raises(UnsupportedError, match="stores logarithms"):
            circuit.train(mode)(x)
