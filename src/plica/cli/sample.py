"""`plica sample`: draws rows from a model, or completions of rows with missing cells."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from plica.cli.asking import DATA_OPTIONS, MODEL_OPTIONS, PATH, bar, load, output_option, reading, with_options
from plica.cli.errors import one_line_errors
from plica.files.rows.write import check_can_write, writing_rows
from plica.paths import check_is_other
from plica.tables.answers import as_array, batch_seed
from plica.tables.checks import naming_impossible

if TYPE_CHECKING:
    import torch

    from plica.files.rows import Batch
    from plica.files.rows.batch import Array
    from plica.tables.model import Model


@click.command(short_help="Draw rows from a model.")
@click.argument("model", type=PATH)
@click.option(
    "-n",
    "number",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Rows to draw, or draws for each given row.",
)
@click.option("--given", type=PATH, help="File of rows with missing cells: each is filled in N times.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of random numbers.")
@with_options(output_option(), *DATA_OPTIONS, *MODEL_OPTIONS)
@one_line_errors
def sample(
    model: Path,
    number: int,
    given: Path | None,
    seed: int,
    out: Path,
    batch: int,
    device: str,
    quiet: bool,
    **options: Any,
) -> None:
    """Write N rows drawn from MODEL, exact and independent, or N completions of each row of a file.

    Completions have the columns of the file, other tables those of the model. In arrays, categories of text are the
    numbers of their states, and dates and times are counted from 1970 or midnight.
    """
    check_can_write(out)
    check_is_other(out, model, given)
    loaded = load(model, device)
    if given is None or out.suffix.lower() in (".npy", ".npz"):
        with writing_rows(
            out, loaded.names, loaded.image_shape or (loaded.width,), loaded.types, named=loaded.encoding is not None
        ) as write:
            if given is None:
                _draw(loaded, number, seed, batch, quiet, lambda rows: write(_rows(loaded, out, as_array(rows))))
            else:
                with reading(loaded, given, batch=batch, quiet=quiet, **options) as (_, batches):
                    for _batch, _x, rows in _filled(loaded, batches, number, seed):
                        write(loaded.numbers(as_array(rows)))
        return
    from plica.cli.rewriting import rewriting
    from plica.files.rows import Batch

    with rewriting(loaded, given, out, batch=batch, quiet=quiet, **options) as (layout, batches, write):
        for part, x, rows in _filled(loaded, batches, number, seed):
            repeated = Batch(
                np.repeat(part.cells, number, axis=0), [label for label in part.labels for _ in range(number)]
            )
            write(layout.completed(repeated, np.repeat(as_array(x), number, axis=0), as_array(rows), keep=False))


def _draw(model: "Model", number: int, seed: int, batch: int, quiet: bool, add: Any) -> None:
    from plica.queries import sample as draw

    with bar(number, quiet=quiet) as progress:
        for start in range(0, number, batch):
            rows = draw(model.circuit, min(batch, number - start), seed=batch_seed((seed, start // batch)))
            add(rows)
            progress.update(len(rows))


def _filled(
    model: "Model", batches: Iterator[tuple["Batch", "torch.Tensor"]], number: int, seed: int
) -> Iterator[tuple["Batch", "torch.Tensor", "torch.Tensor"]]:
    """Each batch with its rows, and `number` completions of each row, row by row."""
    from plica.queries import sample as draw

    for index, (batch, x) in enumerate(batches):
        with naming_impossible(model, batch, x):
            rows = draw(model.circuit, number, given=x, seed=batch_seed((seed, index)))
        yield batch, x, rows


def _rows(model: "Model", out: Path, values: "Array") -> Any:
    """Cells for tables, numbers for arrays."""
    if out.suffix.lower() in (".npy", ".npz"):
        return model.numbers(values)
    return model.cells(model.rounded(values), ["text" if out.suffix.lower() == ".csv" else "typed"] * model.width)
