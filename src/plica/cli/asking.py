"""What the commands that ask a trained model have in common: options, and rows read in batches beside a bar."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from plica.cli.signals import leaving_at_once
from plica.errors import InputError

if TYPE_CHECKING:
    import torch

    from plica.cli.model import Model
    from plica.files.kinds import TableColumn
    from plica.files.rows import Batch
    from plica.files.rows.batch import Array

_SHOWN = 3  # categories that a warning names

Command = TypeVar("Command", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)

DELIMITER = click.option(
    "--delimiter", metavar="LETTER", help="Delimiter of the cells of a .csv. Default: the one its first lines show."
)
DATA_OPTIONS = (
    DELIMITER,
    click.option("--key", help="Array of a .npz file to read. Default: the only one, else images, else train."),
    click.option(
        "--unknown",
        type=click.Choice(("error", "missing")),
        default="missing",
        show_default=True,
        help="How to read a category that the model has never seen: as a missing value, or as an error.",
    ),
)
MODEL_OPTIONS = (
    click.option("--batch", type=click.IntRange(1), default=256, show_default=True, help="Rows computed at once."),
    click.option("--device", default="cpu", show_default=True, help="Device of torch, such as cpu or cuda."),
    click.option("--quiet", is_flag=True, help="Show no progress bar."),
)


def with_options(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """A command with some options, in their order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def output_option(required: bool = True) -> Callable[[Any], Any]:
    """The file for the results."""
    return click.option(
        "-o", "--out", type=PATH, required=required, help="File for the results: .csv, .npy, .npz or .parquet."
    )


def load(path: Path, device: str) -> "Model":
    """The model of a file; loads torch."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch is loaded: threads wait asleep
    with leaving_at_once():
        from plica.cli.model import open_model
    return open_model(path, device)


@contextmanager
def reading(
    model: "Model", data: Path, *, key: str | None, delimiter: str | None, unknown: str, batch: int, quiet: bool
) -> Iterator[tuple[Any, Iterator[tuple["Batch", "torch.Tensor"]]]]:
    """The open file of rows, and its batches with their rows as a tensor on the model's device."""
    import torch

    counted = Unknown(data)
    with model.reading(data, key, delimiter) as rows:
        read = model.reader(rows, unknown=counted if unknown == "missing" else None)

        def batches() -> Iterator[tuple["Batch", "torch.Tensor"]]:
            with bar(rows.num_rows, quiet=quiet) as progress:
                for part in rows.batches(batch):
                    yield part, torch.from_numpy(read(part)).to(model.circuit.leaves.device)
                    progress.update(len(part))

        yield rows, batches()
    counted.warn()


class Unknown:
    """Counts categories that a model has never seen.

    Args:
        source: The file.
    """

    def __init__(self, source: Path) -> None:
        self._source = source
        self._seen: Counter[tuple[str, str]] = Counter()

    def __call__(self, column: "TableColumn", cell: Any) -> None:
        """Count a cell."""
        self._seen[column.name, str(cell)] += 1

    def warn(self) -> None:
        """Say in one line how many there were."""
        if not self._seen:
            return
        shown = ", ".join(f"{cell!r:.40} in column {name!r:.40}" for (name, cell), _ in self._seen.most_common(_SHOWN))
        total, more = sum(self._seen.values()), ", ..." if len(self._seen) > _SHOWN else ""
        click.echo(
            f"plica: warning: {self._source}: {total:,} cell{'s have' if total > 1 else ' has'} a category that the "
            f"model has never seen ({shown}{more}), read as missing; to refuse such cells, pass --unknown error",
            err=True,
        )


@contextmanager
def naming_impossible(model: "Model", batch: "Batch", x: "torch.Tensor") -> Iterator[None]:
    """Where a query refuses a row that the model cannot have, the error names its place in the file and the cell.

    Args:
        model: The model.
        batch: The rows as they lie in the file.
        x: `(B, D)` their numbers.

    Raises:
        InputError: A row has a probability of 0.
    """
    try:
        yield
    except InputError as error:
        import torch

        from plica.queries import log_likelihood

        x = x.to(torch.float64)
        bad = torch.isinf(log_likelihood(model.circuit, x)).nonzero()
        if not len(bad):
            raise
        row = int(bad[0])
        alone = torch.full((x.shape[1], x.shape[1]), torch.nan, dtype=x.dtype, device=x.device)
        alone.diagonal().copy_(x[row])
        column = int(log_likelihood(model.circuit, alone).argmin())
        shown = f"column {model.names[column]!r}: {x[row, column].item():g} is least likely there"
        raise InputError(
            f"{batch.labels[row]}: the model gives the row a probability of 0, so that nothing can be filled in; "
            f"{shown}; correct the cell, or leave it empty where the value is not known"
        ) from error


def bar(total: int | None, *, quiet: bool) -> Any:
    """A bar of rows on a terminal; nothing elsewhere."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    return tqdm(total=total, unit="row", disable=quiet or not sys.stderr.isatty(), dynamic_ncols=True)


def as_array(tensor: "torch.Tensor") -> "Array":
    """A tensor as an array of numpy."""
    array: Array = tensor.detach().cpu().numpy()
    return array
