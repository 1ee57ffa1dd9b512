"""Contenders in processes of their own, as a server runs one of them: no threads, memory or caches of another's.

>>> from functools import partial
>>> with Elsewhere(partial, pow, 2) as process:  # makes `partial(pow, 2)` there
...     call = process.asked(5)
...     call(), call.timed(10) > 0
(32, True)
"""

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

_REST = 0.02  # seconds, in which threads of the process that was asked before stop turning on the spot


class Elsewhere:
    """A process that makes something that takes one argument, and calls it; leave it as a context manager.

    Args:
        make: What makes it there: a function of a module.
        arguments: What it is called with.

    Raises:
        RuntimeError: It fails there; the message says how.
    """

    def __init__(self, make: Callable[..., Callable[[Any], Any]], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, make, arguments), daemon=True)
        self._process.start()
        other.close()
        self._argument: Any = None
        self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.close()
        self._process.join()

    def asked(self, argument: Any) -> "Asked":
        """Its call with one argument."""
        return Asked(self, argument)

    def ask(self, argument: Any, repeats: int) -> tuple[Any, float]:
        """The result, and seconds for each of so many calls by the clock there; the argument is sent where it is new.

        Raises:
            RuntimeError: It fails there; the message says how.
        """
        if argument is not self._argument:
            self._pipe.send(argument)
            self._argument = argument
        self._pipe.send(_Repeats(repeats))
        found: tuple[Any, float] = self._answer()
        return found

    def _answer(self) -> Any:
        try:
            found, problem = self._pipe.recv()
        except EOFError:
            found, problem = None, "its process ended"
        if problem:
            raise RuntimeError(problem)
        return found


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that happens in another process.

    Args:
        process: The process.
        argument: What is passed.
    """

    process: Elsewhere
    argument: Any

    def __call__(self) -> Any:
        """The result."""
        return self.process.ask(self.argument, 1)[0]

    def timed(self, repeats: int) -> float:
        """Seconds for each of so many calls, without the way there and back."""
        time.sleep(_REST)
        return self.process.ask(self.argument, repeats)[1]


@dataclass(frozen=True, slots=True)
class _Repeats:
    """That the last argument is passed so many times.

    Args:
        count: How many.
    """

    count: int


def _serve(pipe: Connection, make: Callable[..., Callable[[Any], Any]], arguments: tuple[Any, ...]) -> None:
    """What the process does."""
    argument: Any = None
    try:
        call = make(*arguments)
        pipe.send((None, ""))
        while True:
            message = pipe.recv()
            if isinstance(message, _Repeats):
                pipe.send((_timed(call, argument, message.count), ""))
            else:
                argument = message
    except EOFError:  # nobody asks any more
        return
    except Exception as error:  # a library of others may fail in any way; whoever asks is told
        lines = str(error).splitlines() or [""]
        pipe.send((None, f"{type(error).__name__}: {lines[0][:200]}"))


def _timed(call: Callable[[Any], Any], argument: Any, repeats: int) -> tuple[Any, float]:
    call(argument)  # its threads are awake then, and its caches full
    start = time.perf_counter()
    for _ in range(repeats):
        result = call(argument)
    return result, (time.perf_counter() - start) / repeats
