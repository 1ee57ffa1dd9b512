"""The limit of a cache bounds what is alive, whatever uses the cache: memory is measured, no counter asked."""

import gc
import resource
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensor

import plica
import plica.numpy as pnp
from plica.errors import InputError
from plica.queries import mpe, sample
from tests.harness.eval_circuits import X, image

SIZE = 128
ONE = SIZE * SIZE * 4
LIMIT = 2 * ONE
X_OF_FUNCTIONS = np.ones((1, SIZE), "float32")
PROGRAM = plica.trace(
    lambda x, v, w: x @ pnp.softmax(v) + x @ pnp.tanh(w),
    *(plica.spec(shape) for shape in ((1, SIZE), *[(SIZE, SIZE)] * 2)),
)


def _tensor_bytes() -> int:
    """The bytes of all memory that tensors are alive of."""
    gc.collect()
    tensors = [one for one in gc.get_objects() if isinstance(one, Tensor) and not isinstance(one, FakeTensor)]
    storages = [one.untyped_storage() for one in tensors if not one.is_meta]
    return sum({one.data_ptr(): one.nbytes() for one in storages}.values())


def _array_bytes() -> int:
    gc.collect()
    filters = [tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)]
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(filters).traces)


def _weights(seed: int) -> list[Any]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((SIZE, SIZE)).astype("float32") for _ in range(2)]


def _value(v: Any, w: Any) -> Any:
    exponentials = np.exp(v.astype("float64"))
    return X_OF_FUNCTIONS @ (exponentials / exponentials.sum(-1, keepdims=True)) + X_OF_FUNCTIONS @ np.tanh(w)


def _functions(cache: plica.FoldCache, backend: str, make: Callable[[Any], Any]) -> Iterator[Callable[[], None]]:
    """Calls of five functions of one cache, each with constants of its own."""
    for seed in range(5):
        v, w = _weights(seed)
        sources = {"v": make(v), "w": make(w)}
        run = plica.fold_constants(PROGRAM, run_time=("v", "w")).compile(backend, cache=cache)
        x, expected = make(X_OF_FUNCTIONS), _value(v, w)

        def call(run: Any = run, sources: Any = sources, x: Any = x, expected: Any = expected) -> None:
            np.testing.assert_allclose(run(x, **sources), expected, rtol=2e-5, atol=1e-4)

        yield call


def _decorated(cache: plica.FoldCache) -> Iterator[Callable[[], None]]:
    """Calls of five functions that `jit` compiled for one cache."""
    for seed in range(5):
        v, w = _weights(seed)
        run = plica.jit(lambda x, v, w: x @ pnp.softmax(v) + x @ pnp.tanh(w), constants=("v", "w"), cache=cache)
        arguments, expected = [*map(torch.from_numpy, (X_OF_FUNCTIONS, v, w))], _value(v, w)

        def call(run: Any = run, arguments: Any = arguments, expected: Any = expected) -> None:
            np.testing.assert_allclose(run(*arguments), expected, rtol=2e-5, atol=1e-4)

        yield call


def _circuits(cache: plica.FoldCache) -> Iterator[Callable[[], None]]:
    """Calls of three circuits of one cache, and questions to them."""
    for _ in range(3):
        circuit = plica.PipelineContext(cache=cache).compile(image(units=32))
        x = X.double().clone()
        x[:, 3] = float("nan")
        with torch.no_grad():
            expected, values = circuit(X), mpe(circuit, x)[1]
            circuit.eval()

        def score(circuit: Any = circuit, expected: Tensor = expected) -> None:
            with torch.no_grad():
                torch.testing.assert_close(circuit(X), expected, rtol=1e-5, atol=1e-5)

        def ask(circuit: Any = circuit, x: Tensor = x, values: Tensor = values) -> None:
            with torch.no_grad():
                torch.testing.assert_close(mpe(circuit, x)[1], values, rtol=1e-5, atol=1e-5)
                assert sample(circuit, 2, given=x).shape == (4, 9)

        yield from (score, ask)


def _in_threads(calls: list[Callable[[], None]]) -> None:
    errors: list[BaseException] = []

    def work(own: list[Callable[[], None]]) -> None:
        try:
            for call in own:
                call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(calls[place:] + calls[:place],)) for place in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not errors, errors


def _in_turn(calls: list[Callable[[], None]]) -> None:
    for call in calls * 2:
        call()


KINDS: dict[str, Callable[[plica.FoldCache], Iterator[Callable[[], None]]]] = {
    "functions of torch": lambda cache: _functions(cache, "torch", torch.from_numpy),
    "functions of numpy": lambda cache: _functions(cache, "torch", np.asarray),
    "interpreted functions": lambda cache: _functions(cache, "interpreter", np.asarray),
    "decorated functions": _decorated,
    "circuits and queries": _circuits,
}


_FULL = ("functions of numpy", "interpreted functions", "decorated functions", "circuits and queries")


@pytest.mark.parametrize("how", [_in_turn, pytest.param(_in_threads, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.full if kind in _FULL else []) for kind in KINDS]
)
def test_no_more_is_alive_than_the_limit_says(kind: str, how: Callable[[list[Callable[[], None]]], None]) -> None:
    torch.manual_seed(0)
    alive = _array_bytes if kind == "interpreted functions" else _tensor_bytes
    with ExitStack() as stack:
        if alive is _array_bytes:
            tracemalloc.start()
            stack.callback(tracemalloc.stop)
        wide, cache = plica.FoldCache(), plica.FoldCache(max_bytes=LIMIT)
        first, calls = list(KINDS[kind](wide)), list(KINDS[kind](cache))
        before = alive()
        _in_turn(first)
        unlimited, middle = alive() - before, alive()
        how(calls)
        limited = alive() - middle
    assert unlimited > 2 * LIMIT, "without a limit more is kept"
    assert limited <= LIMIT + ONE // 8
    assert cache.num_bytes <= LIMIT
    assert cache.num_evictions


@pytest.mark.parametrize("backend", ["torch", "interpreter"])
def test_constants_that_change_leave_nothing_behind(backend: str) -> None:
    cache = plica.FoldCache(max_bytes=3 * ONE)
    run = plica.fold_constants(PROGRAM, run_time=("v", "w")).compile(backend, cache=cache)
    x = torch.from_numpy(X_OF_FUNCTIONS)
    before = _tensor_bytes()
    for seed in range(8):
        v, w = _weights(seed)
        run(x, v=torch.from_numpy(v), w=torch.from_numpy(w))
    assert _tensor_bytes() - before <= 3 * ONE + 2 * ONE, "what is kept, and the constants"


def test_a_process_does_not_grow_with_what_was_evicted() -> None:
    """Nothing is left of evicted values: a few bytes between their memory would keep the system from using it again."""
    cache = plica.FoldCache(max_bytes=4 * 2**20)
    sources = [torch.rand(512, 512, dtype=torch.float64) for _ in range(6)]
    runs = [plica.jit(lambda w, x: pnp.exp(w) + x, constants=("w",), cache=cache) for _ in sources]
    sizes = []
    for _ in range(50):
        for run, w in zip(runs, sources, strict=True):
            run(w, 1.0)
        sizes.append(_resident_bytes())
    assert cache.num_evictions >= 290
    assert sizes[-1] - sizes[9] < 64 * 2**20, "240 values of 2 MiB were evicted in between"


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def test_what_cannot_be_made_again_counts_and_stays() -> None:
    cache = plica.FoldCache(max_bytes=LIMIT)
    runs = [
        plica.fold_constants(PROGRAM, run_time=("v", "w")).compile(cache=cache, release_sources=True) for _ in range(3)
    ]
    other = plica.fold_constants(PROGRAM, run_time=("v", "w")).compile(cache=cache)
    x = torch.from_numpy(X_OF_FUNCTIONS)
    sources = dict(zip("vw", map(torch.from_numpy, _weights(9)), strict=True))
    for seed, run in enumerate(runs):
        other(x, **sources)
        run(x, **dict(zip("vw", map(torch.from_numpy, _weights(seed)), strict=True)))
    assert cache.num_bytes == 6 * ONE, "those of the other one went"
    for seed, run in enumerate(runs):
        np.testing.assert_allclose(run(x), _value(*_weights(seed)), rtol=2e-5, atol=1e-4)
    np.testing.assert_allclose(other(x), _value(*_weights(9)), rtol=2e-5, atol=1e-4)
    del runs, run
    gc.collect()
    assert cache.num_bytes <= LIMIT


def test_what_is_no_cache_is_refused() -> None:
    with pytest.raises(InputError, match=r"TorchCompiler: the cache is 100; give a plica.FoldCache"):
        plica.PipelineContext(cache=100)
    with pytest.raises(InputError, match=r"compile: the cache is 100; give a plica.FoldCache"):
        plica.fold_constants(PROGRAM).compile(cache=100)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"jit: the cache is 100; give a plica.FoldCache"):
        plica.jit(lambda x, w: x + w, constants="w", cache=100)  # type: ignore[arg-type]
