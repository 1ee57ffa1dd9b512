"""The progress of a training run: a bar on a terminal, else one line for each epoch."""

import sys
from types import TracebackType
from typing import Any, Self

from tqdm import tqdm  # type: ignore[import-untyped]

from plica.learn.fit import Epoch
from plica.learn.metrics import bits_per_dimension


class Progress:
    """One bar over all epochs on stderr: epoch, rows a second, and bits per dimension of the last and best epoch.

    A file or a pipe gets a line at the end of each epoch, since a bar would write a line for each change there.

    Args:
        rows: Training rows in an epoch.
        epochs: The most epochs.
        num_variables: In a row.
        unit: The word for a row.
        quiet: Whether to show nothing.
    """

    def __init__(self, rows: int, epochs: int, num_variables: int, unit: str, *, quiet: bool) -> None:
        self._epochs = epochs
        self._num_variables = num_variables
        self._best = float("inf")
        drawn = sys.stderr.isatty()
        self._tells = not quiet and not drawn
        self._bar: Any = tqdm(
            total=rows * epochs,
            desc=f"epoch 0/{epochs}",
            unit=unit,
            disable=quiet or not drawn,
            dynamic_ncols=True,
            smoothing=0.1,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.close()

    def on_batch(self, rows: int) -> None:
        """Move on by one batch."""
        self._bar.update(rows)

    def on_epoch(self, epoch: Epoch) -> None:
        """Show the figures of a finished epoch."""
        valid = bits_per_dimension(epoch.valid, self._num_variables)
        self._best = min(self._best, valid)
        shown = "" if epoch.train is None else f"train {bits_per_dimension(epoch.train, self._num_variables):.3f}, "
        where = f"epoch {epoch.number}/{self._epochs}"
        figures = f"{shown}valid {valid:.3f}, best {self._best:.3f} bits/dim"
        self._bar.set_postfix_str(figures, refresh=False)
        self._bar.set_description(where)
        if self._tells:
            print(f"{where}: {figures}", file=sys.stderr, flush=True)
