"""`plica sample`: rows drawn from a model, or drawn to fill in what others lack."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from plica.cli.asking import (
    DATA_OPTIONS,
    MODEL_OPTIONS,
    PATH,
    as_array,
    bar,
    load,
    output_option,
    reading,
    with_options,
)
from plica.cli.complete import batch_seed, named
from plica.cli.errors import one_line_errors
from plica.files.rows.write import check_can_write, writing_rows
from plica.paths import check_is_other

if TYPE_CHECKING:
    import torch

    from plica.cli.model import Model


@click.command(short_help="Draw rows from a model.")
@click.argument("model", type=PATH)
@click.option(
    "-n", "number", type=click.IntRange(0), default=1, show_default=True, help="Rows, or rows for each given."
)
@click.option("--given", type=PATH, help="File of rows with missing cells: each is filled in N times.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of what is drawn.")
@with_options(output_option(), *DATA_OPTIONS, *MODEL_OPTIONS)
@one_line_errors
def sample(
    model: Path,
    number: int,
    given: Path | None,
    seed: int,
    out: Path,
    key: str | None,
    unknown: str,
    batch: int,
    device: str,
    quiet: bool,
) -> None:
    """Write N rows drawn from MODEL, exact and independent, or N completions of each row of a file.

    A table has the columns that the model knows. In arrays, categories that are text are the numbers of their states.
    """
    check_can_write(out)
    check_is_other(out, model, given)
    loaded = load(model, device)
    shape = loaded.image_shape or (loaded.width,)
    with writing_rows(out, loaded.names, shape, loaded.types, named=named(loaded)) as write:

        def add(rows: "torch.Tensor", drawn: "torch.Tensor | None" = None) -> None:
            write(_rows(loaded, out, rows, drawn))

        if given is None:
            _draw(loaded, number, seed, batch, quiet, add)
        else:
            _fill(loaded, given, number, seed, add, key=key, unknown=unknown, batch=batch, quiet=quiet)


def _draw(model: "Model", number: int, seed: int, batch: int, quiet: bool, add: Any) -> None:
    from plica.queries import sample as draw

    with bar(number, quiet=quiet) as progress:
        for start in range(0, number, batch):
            rows = draw(model.circuit, min(batch, number - start), seed=batch_seed((seed, start // batch)))
            add(rows)
            progress.update(len(rows))


def _fill(model: "Model", given: Path, number: int, seed: int, add: Any, **options: Any) -> None:
    from plica.queries import sample as draw

    with reading(model, given, **options) as (_, batches):
        for place, (_batch, x) in enumerate(batches):
            rows = draw(model.circuit, number, given=x, seed=batch_seed((seed, place)))
            add(rows, x.isnan().repeat_interleave(number, dim=0) if x.is_floating_point() else None)


def _rows(model: "Model", out: Path, rows: "torch.Tensor", drawn: "torch.Tensor | None") -> Any:
    """Cells, or numbers where an array cannot hold the cells; `drawn` says which were drawn, if some were given."""
    from plica.cli.model import shortened

    values = as_array(rows)
    if out.suffix.lower() in (".npy", ".npz"):
        return model.numbers(values)
    return model.cells(values if drawn is None else np.where(as_array(drawn), shortened(values), values))
