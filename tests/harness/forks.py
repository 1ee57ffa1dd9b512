"""Children of a process whose threads go on: whether they get right results, or wait for ever.

Run as a program, it forks while a thread does some work again and again, for each kind of work.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

LIMIT = 20.0
"""Seconds after which a child hangs, and is killed."""


def fate_of_child(work: Callable[[], bool], limit: float = LIMIT) -> str:
    """What becomes of a child that does some work: "right", "wrong" where that is false or fails, or "hangs"."""
    child = os.fork()
    if not child:
        code = 2
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    until = time.monotonic() + limit
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "right" if os.waitstatus_to_exitcode(status) == 0 else "wrong"
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"


def fate_of_process(work: Callable[[], bool], limit: float = LIMIT) -> str:
    """The same of a process that `multiprocessing` forks."""

    def leave() -> None:
        os._exit(0 if work() else 1)

    process = multiprocessing.get_context("fork").Process(target=leave)
    process.start()
    process.join(limit)
    if process.is_alive():
        process.kill()
        process.join()
        return "hangs"
    return "right" if process.exitcode == 0 else "wrong"


def _function(cache: Any = None) -> tuple[Callable[[], object], Callable[[], bool]]:
    import torch

    import plica
    import plica.numpy as pnp

    size = 300
    program = plica.trace(lambda x, w: x @ pnp.softmax(w @ w), plica.spec(("b", size)), plica.spec((size, size)))
    run = plica.fold_constants(program, run_time=("w",)).compile(cache=cache)
    x, w = torch.ones(1, size), torch.randn(size, size)
    run(x, w=w)
    expected = x @ torch.softmax(w @ w, 1)

    def again() -> None:
        w.mul_(1.0)
        run(x)

    return again, lambda: torch.allclose(run(x), expected)


def _limited() -> tuple[Callable[[], object], Callable[[], bool]]:
    import plica

    return _function(plica.FoldCache(max_bytes=1000))


def _circuit(ask: Callable[[Any, Any], Any]) -> tuple[Callable[[], object], Callable[[], bool]]:
    import torch

    from plica.backend.torch.compiler import TorchCompiler
    from tests.harness.eval_circuits import X, large

    circuit = TorchCompiler().compile(large()).eval()
    x = X.double().clone()
    x[:, 3] = float("nan")
    with torch.no_grad():
        expected = ask(circuit, x)

    def again() -> None:
        with torch.no_grad():
            for one in circuit.parameters():
                one.mul_(1.0)
            ask(circuit, x)

    def is_right() -> bool:
        with torch.no_grad():
            return torch.equal(ask(circuit, x), expected)

    return again, is_right


def _compiled_anew() -> tuple[Callable[[], object], Callable[[], bool]]:
    import numpy as np

    import plica
    import plica.numpy as pnp

    x = np.ones(5)

    def once(number: float) -> Any:
        return plica.jit(lambda x: pnp.cumulative_sum(x * number), backend="native")(x)

    once(1.0)
    return lambda: once(time.monotonic()), lambda: np.allclose(once(2.0), 2.0 * np.arange(1, 6))


def _scored() -> tuple[Callable[[], object], Callable[[], bool]]:
    return _circuit(lambda circuit, x: circuit(x))


def _completed() -> tuple[Callable[[], object], Callable[[], bool]]:
    from plica.queries import mpe

    return _circuit(lambda circuit, x: mpe(circuit, x)[1])


WORK = {
    "function": _function,
    "function with a limit": _limited,
    "circuit": _scored,
    "query": _completed,
    "native code": _compiled_anew,
}


def fates(name: str, num_forks: int) -> list[str]:
    """The fates of some children that are forked while a thread works, and of one process of `multiprocessing`."""
    again, is_right = WORK[name]()
    again()  # torch makes things of its own at the first call of each operation, under locks that a child cannot have
    assert is_right()
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            again()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        return [*(fate_of_child(is_right) for _ in range(num_forks)), fate_of_process(is_right)]
    finally:
        ended.set()
        thread.join()


if __name__ == "__main__":
    for name in WORK:
        print(f"{name}: {' '.join(fates(name, int(sys.argv[1])))}")
