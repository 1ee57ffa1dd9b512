"""Threads that call something new at the same time compile it once, whatever the backend."""

import copy
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.backend.torch.program_module
import plica.numpy as pnp
from plica.frontend.executors import EXECUTORS
from plica.pipeline import PipelineContext
from plica.templates.pgms import hmm

_THREADS = 8


def _at_once(run: Any) -> list[Any]:
    """What `run(number)` gives, or raises, in several threads that begin together."""
    barrier = Barrier(_THREADS)

    def call(number: int) -> Any:
        barrier.wait()
        try:
            return run(number)
        except Exception as error:
            return error

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(call, range(_THREADS)))


class _Counted:
    """A function that counts how often it is traced, slowly enough for other threads to come meanwhile."""

    def __init__(self) -> None:
        self.traced = 0

    def __call__(self, x: Any) -> Any:
        self.traced += 1
        time.sleep(0.05)
        return pnp.sum(x * 2)


@pytest.mark.parametrize("backend", EXECUTORS)
def test_a_function_is_traced_and_compiled_once(backend: str) -> None:
    function = _Counted()
    run = plica.jit(function, backend=backend)
    assert [float(result) for result in _at_once(lambda _: run(np.ones(3)))] == [6.0] * _THREADS
    assert (function.traced, run.num_compilations) == (1, 1)


def test_arrays_of_two_kinds_share_one_compilation() -> None:
    function = _Counted()
    run = plica.jit(function)
    kinds = (np.ones(3), torch.ones(3, dtype=torch.float64))
    assert [float(result) for result in _at_once(lambda number: run(kinds[number % 2]))] == [6.0] * _THREADS
    assert (function.traced, run.num_compilations) == (1, 1)


def test_arguments_that_differ_are_compiled_each_once() -> None:
    function = _Counted()
    run = plica.jit(function)
    assert [float(result) for result in _at_once(lambda number: run(np.ones(1 + number % 2)))] == [2.0, 4.0] * 4
    assert function.traced == 2


def test_a_copy_of_an_annotated_function_and_a_method_are_compiled_once() -> None:
    traced = []

    def function(x: plica.spec((3,), "float64")) -> Any:
        traced.append(1)
        time.sleep(0.05)
        return pnp.sum(x)

    class Model:
        @plica.jit
        def total(self, x: Any) -> Any:
            traced.append(1)
            time.sleep(0.05)
            return pnp.sum(x)

    run = copy.copy(plica.jit(function))
    traced.clear()
    assert [float(result) for result in _at_once(lambda _: run(np.ones(3)))] == [3.0] * _THREADS
    assert len(traced) == 1
    model = Model()
    assert [float(result) for result in _at_once(lambda _: model.total(np.ones(3)))] == [3.0] * _THREADS
    assert len(traced) == 2


@pytest.mark.parametrize("backend", EXECUTORS)
def test_an_error_reaches_all_and_the_next_call_tries_again(backend: str) -> None:
    calls = []

    def function(x: Any) -> Any:
        calls.append(1)
        time.sleep(0.05)
        if len(calls) < 2:
            raise ValueError("not yet")
        return x + 1

    run = plica.jit(function, backend=backend)
    results = _at_once(lambda _: run(np.zeros(1)))
    assert isinstance(results[0], ValueError | np.ndarray)
    assert sum(isinstance(result, ValueError) for result in results) >= 1
    assert run(np.zeros(1)) == 1.0
    assert len(calls) <= 3


def test_a_function_may_call_itself_and_others_while_it_is_traced() -> None:
    @plica.jit
    def inner(x: Any) -> Any:
        return x + 1

    @plica.jit
    def power(x: Any, times: int) -> Any:
        return x if times == 0 else inner(power.__wrapped__(x, times - 1))

    run = plica.jit(lambda x: power.__wrapped__(x, 3))
    assert _at_once(lambda _: float(run(np.zeros(()))))[0] == 3.0


def test_a_circuit_is_compiled_lowered_and_generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, int] = {}

    def counting(module: Any, name: str) -> Any:
        function = getattr(module, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            made[name] = made.get(name, 0) + 1
            time.sleep(0.05)
            return function(*args, **kwargs)

        return counted

    for module, name in ((plica.lower.compiled, "lower_score"), (plica.backend.torch.program_module, "emit")):
        monkeypatch.setattr(module, name, counting(module, name))
    circuit, context = (
        hmm(list(range(4)), "categorical", 2, input_layer_kwargs={"num_categories": 3}),
        PipelineContext(),
    )
    compiled = _at_once(lambda _: context.compile(circuit))
    assert len({id(one) for one in compiled}) == 1
    assert made.pop("lower_score") == 1
    x = torch.zeros((2, 4), dtype=torch.float32)
    results = _at_once(lambda _: compiled[0](x).detach())
    assert all(torch.equal(result, results[0]) for result in results)
    assert made == {"emit": 1} or made == {"emit": 1, "lower_score": 1}
