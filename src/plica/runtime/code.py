"""What a loaded file asks of its code: sessions that run functions, whatever kind of code it is."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from plica.runtime.arrays import Array
from plica.runtime.manifest import ArrayType
from plica.runtime.tensors import Tensors


class Session(Protocol):
    """Runs functions for one thread."""

    @property
    def gives_own(self) -> bool:
        """Whether results are arrays of the caller; else they are valid until the next call."""

    def call(
        self,
        function: str,
        arguments: Sequence[Array],
        results: tuple[ArrayType, ...],
        constants: tuple[str, ...] = ...,
        tensors: Tensors = ...,
    ) -> list[Array]:
        """Run a function once.

        Args:
            function: Its name.
            arguments: Arrays of the right dtypes and shapes.
            results: The types of its results.
            constants: Names of tensors, passed after the arguments.
            tensors: The values of tensors by name.
        """


class Code(Protocol):
    """The code of a file for one target."""

    def session(self, rows: int | None = None, alone: int = 0) -> AbstractContextManager[Session]:
        """A session that no other thread uses.

        Args:
            rows: How many rows the call has; None if it has none.
            alone: Up to this many rows, the thread that calls computes alone.
        """

    def close(self) -> None:
        """Release what waits for calls; those that run finish."""
