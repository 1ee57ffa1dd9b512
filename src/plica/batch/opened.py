"""What a process has open: models and jobs, each opened once, however often engines unpickle who asks for it.

>>> open_once("answer", lambda: 42), open_once("answer", lambda: 0)
(42, 42)
"""

from __future__ import annotations

import atexit
import hashlib
import os
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from plica.batch.native_answers import NATIVE, native_answers, native_model
from plica.errors import InputError
from plica.forks import ForkSafeLock, at_fork
from plica.paths import check_is_file
from plica.tables.model import Model, open_model
from plica.tables.questions import Answers, Question

Opened = TypeVar("Opened")
_MOST = 64  # what a process has open at one time


class _Cache:
    """What is open, by its key; a forked child opens its own."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._opened: dict[Hashable, Any] = {}
        at_fork(self)
        atexit.register(self.in_child)  # files are closed while the modules that close them are there

    def in_child(self) -> None:
        """Forget what the parent has open: files have one position for both."""
        self._opened = {}

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What has a key; `make` opens it the first time, in one thread."""
        with self._lock:
            if key not in self._opened:
                value = make()
                if len(self._opened) >= _MOST:
                    del self._opened[next(iter(self._opened))]
                self._opened[key] = value
            return self._opened[key]


_CACHE = _Cache()


def open_once(key: Hashable, make: Callable[[], Opened]) -> Opened:
    """What has a key in this process; `make` opens it the first time."""
    opened: Opened = _CACHE.get(key, make)
    return opened


def opened_model(path: Path, device: str, digest: str) -> Model:
    """The model of a `.plica` or `.plicab`.

    Args:
        path: The file.
        device: The device of torch.
        digest: The SHA-256 that the file has to have.

    Raises:
        InputError: It is another file.
    """
    return open_once(("model", str(path), device, digest), lambda: _loaded(path, device, digest))


def _loaded(path: Path, device: str, digest: str) -> Model:
    if digest_of(path) != digest:
        raise InputError(f"{path}: is another file than when the run began; run again, and leave it as it is meanwhile")
    if path.suffix.lower() == NATIVE:
        return native_model(path)
    return open_model(path, device)


def answers_of(question: Question, model: Model) -> Answers:
    """The answers of a model to a question."""
    return question.answers(model) if model.stated is None else native_answers(question, model)


def digest_of(path: Path) -> str:
    """The SHA-256 of a file.

    Raises:
        FileFormatError: There is no such file.
    """
    check_is_file(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch within the block, if it is installed: there are as many workers as processors."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch is loaded
    if find_spec("torch") is None:
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
