"""Writes the figures of a training run for TensorBoard, by torch's own writer."""

import os
from types import TracebackType
from typing import Self

from plica.extras import require
from plica.learn.history import Epoch


class TensorBoard:
    """Event files with the figures of each epoch; its `on_epoch` is passed to `fit`.

    A resumed run writes all its epochs again, and the board shows them once.

    Args:
        folder: Where the event files are written; made if missing.

    Raises:
        MissingExtraError: TensorBoard is not installed.

    >>> from pathlib import Path
    >>> with TensorBoard("runs/pets") as board:
    ...     board.on_epoch(Epoch(number=1, train=-2.5, valid=-2.0, best=True, seconds=0.1))
    >>> [path.name for path in Path("runs/pets").iterdir()]
    ['events.out.tfevents...']
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        require("tensorboard")
        self._writer = require("torch.utils.tensorboard").SummaryWriter(os.fspath(folder), purge_step=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._writer.close()

    def on_epoch(self, epoch: Epoch) -> None:
        """Write log-likelihoods in nats per row, the rate and the seconds of an epoch."""
        figures = {
            "log_likelihood/train": epoch.train,
            "log_likelihood/valid": epoch.valid,
            "rate": epoch.rate,
            "seconds": epoch.seconds,
        }
        for name, value in figures.items():
            if value is not None:
                self._writer.add_scalar(name, value, epoch.number)
        self._writer.flush()
