"""The progress of a training run: a bar on a terminal or in a notebook, else one line for each epoch."""

import sys
from types import TracebackType
from typing import Any, Self

from tqdm.auto import tqdm  # type: ignore[import-untyped]

from plica.learn.history import Epoch
from plica.learn.metrics import bits_per_dimension

_IN_NOTEBOOK = any(kind.__module__ == "tqdm.notebook" for kind in tqdm.__mro__)


class _Bar:
    """A bar within a block, which a file or a pipe does not get.

    Args:
        quiet: Whether to show nothing.
        settings: Those of tqdm.
    """

    def __init__(self, *, quiet: bool, **settings: Any) -> None:
        drawn = sys.stderr.isatty() or _IN_NOTEBOOK
        self._tells = not quiet and not drawn  # lines in its place
        self._bar: Any = tqdm(disable=quiet or not drawn, dynamic_ncols=True, smoothing=0.1, **settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.close()


class TrialProgress(_Bar):
    """A bar over short trials on stderr, which goes when they have ended; a file or a pipe gets one line.

    Args:
        quiet: Whether to show nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet, desc="trying settings", unit="trial", leave=False)

    def on_trial(self, ended: int, trials: int) -> None:
        """Show that `ended` of all trials have ended."""
        if self._tells and not ended:
            print(f"trying {trials} settings", file=sys.stderr, flush=True)
        self._bar.total = trials
        self._bar.update(ended - self._bar.n)
        self._bar.refresh()


class Progress(_Bar):
    """One bar over all epochs on stderr: epoch, rows a second, and log-likelihoods of the last and best epoch.

    A file or a pipe gets a line at the end of each epoch, since a bar would write a line for each change there.

    Args:
        rows: Training rows in an epoch.
        epochs: The most epochs.
        num_variables: In a row, to show bits per dimension; None shows nats.
        unit: The word for a row.
        scored: The word for what chooses the best epoch.
        quiet: Whether to show nothing.

    >>> import contextlib
    >>> with contextlib.redirect_stderr(sys.stdout), Progress(rows=100, epochs=2) as progress:
    ...     progress.on_epoch(Epoch(number=1, train=-2.5, valid=-2.0, best=True, seconds=0.1))
    epoch 1/2: train -2.500, valid -2.000, best -2.000 nats
    """

    def __init__(
        self,
        rows: int,
        epochs: int,
        num_variables: int | None = None,
        unit: str = "row",
        scored: str = "valid",
        *,
        quiet: bool = False,
    ) -> None:
        self._rows, self._epochs, self._scored = rows, epochs, scored
        self._num_variables = num_variables
        self._best = float("-inf")
        super().__init__(quiet=quiet, total=rows * epochs, desc=f"epoch 0/{epochs}", unit=unit)

    def on_batch(self, rows: int) -> None:
        """Move on by one batch."""
        self._bar.update(rows)

    def on_epoch(self, epoch: Epoch) -> None:
        """Show the figures of a finished epoch."""
        self._best = max(self._best, epoch.valid)
        shown = "" if epoch.train is None else f"train {self._figure(epoch.train)}, "
        where = f"epoch {epoch.number}/{self._epochs}"
        unit = "nats" if self._num_variables is None else "bits/dim"
        figures = f"{shown}{self._scored} {self._figure(epoch.valid)}, best {self._figure(self._best)} {unit}"
        if not self._bar.disable:
            self._bar.update(epoch.number * self._rows - self._bar.n)  # epochs of a resumed run have no batches
        self._bar.set_postfix_str(figures, refresh=False)
        self._bar.set_description(where)
        if self._tells:
            print(f"{where}: {figures}", file=sys.stderr, flush=True)

    def _figure(self, log_likelihood: float) -> str:
        if self._num_variables is None:
            return f"{log_likelihood:.3f}"
        return f"{bits_per_dimension(log_likelihood, self._num_variables):.3f}"
