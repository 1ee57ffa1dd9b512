"""What the commands that ask a trained model have in common: options, and rows read in batches beside a bar."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from plica.cli.engines import ENGINE_OPTIONS, run_on_engine
from plica.cli.signals import leaving_at_once
from plica.errors import InputError
from plica.paths import check_is_other
from plica.tables.files import Location, local_path, open_table
from plica.tables.reading import Unknown, read_batches

if TYPE_CHECKING:
    import torch

    from plica.files.rows import Batch, RowFile
    from plica.tables.model import Model
    from plica.tables.questions import Question

Command = TypeVar("Command", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)


def location(value: str) -> Location:
    """Where rows lie: an address such as s3://bucket/rows as text, all else as a path."""
    return value if "://" in value else Path(value)


KEEP = click.option(
    "--keep",
    multiple=True,
    metavar="COLUMN",
    help="A column of the table to copy to the result as it is, by name; may be repeated. Default: all columns that "
    "the model does not read.",
)

DELIMITER = click.option(
    "--delimiter",
    metavar="LETTER",
    help="Delimiter of the cells of a .csv. Default: the one its first lines show; in a new table a comma.",
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
    *ENGINE_OPTIONS,
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
        "-o",
        "--out",
        type=PATH,
        required=required,
        help="File for the results: .csv, .npy, .npz or .parquet; with --engine a folder.",
    )


def load(path: Path, device: str) -> "Model":
    """The model of a file; loads torch."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch is loaded: threads wait asleep
    with leaving_at_once():
        from plica.tables.model import open_model
    return open_model(path, device)


def load_or_native(path: Path, device: str) -> "Model":
    """The model of a file, which loads torch, or of a native file, which does not."""
    from plica.batch.native_answers import NATIVE, native_model

    return native_model(path) if path.suffix.lower() == NATIVE else load(path, device)


@contextmanager
def reading(
    model: "Model",
    data: Location,
    *,
    key: str | None,
    delimiter: str | None,
    unknown: str,
    batch: int,
    quiet: bool,
    unread: str | None = None,
) -> Iterator[tuple["RowFile", Iterator[tuple["Batch", "torch.Tensor"]]]]:
    """The open file of rows, and its batches with their rows as a tensor on the model's device."""
    counted = Unknown(str(data))
    with open_table(data, key=key, named=model.encoding is not None, delimiter=delimiter) as rows:
        parts = read_batches(model, rows, batch, unknown=counted if unknown == "missing" else None, unread=unread)

        def batches() -> Iterator[tuple["Batch", "torch.Tensor"]]:
            with bar(rows.num_rows, quiet=quiet) as progress:
                for part, x in parts:
                    yield part, x
                    progress.update(len(part))

        yield rows, batches()
    warning = counted.message("--unknown error")
    if warning is not None:
        click.echo(f"plica: warning: {warning}", err=True)


def write_answers(
    question: "Question",
    model: Path,
    data: Location,
    out: Path,
    device: str,
    engine: str | None = None,
    workers: int | None = None,
    **options: Any,
) -> None:
    """Ask a model about each row of a file, and write the answers.

    Args:
        question: What is asked.
        model: The file of the model.
        data: The rows: a path or an address.
        out: The file that is written; it appears once all is written.
        device: Where to compute.
        engine: The engine whose processes compute, so that `out` is a folder; None for this process.
        workers: How many processes the engine has.
        options: The other arguments of `reading`.

    Raises:
        InputError: There are workers and no engine.
    """
    check_is_other(out, model, local_path(data))
    if engine is not None:
        quiet = options.pop("quiet")
        run_on_engine(
            question,
            model,
            data,
            out,
            engine=engine,
            workers=workers,
            device=device,
            bar=partial(bar, quiet=quiet),
            **options,
        )
        return
    if workers is not None:
        raise InputError(f"--workers {workers} needs an engine; add --engine processes")
    from plica.data.write import check_can_write

    check_can_write(out)
    from plica.batch.opened import answers_of

    loaded = load_or_native(model, device)
    answers = answers_of(question, loaded)
    with reading(loaded, data, unread=answers.unread, **options) as (rows, batches):
        written = answers.written(rows, out)
        with written.writing(out) as write:
            for number, (batch, x) in enumerate(batches):
                write(written.rows(number, batch, x))


def bar(total: int | None, *, quiet: bool) -> Any:
    """A bar of rows on a terminal; nothing elsewhere."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    return tqdm(total=total, unit="row", disable=quiet or not sys.stderr.isatty(), dynamic_ncols=True)
