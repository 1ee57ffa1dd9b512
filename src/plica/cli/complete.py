"""`plica complete`: a table with its missing cells filled in."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from plica.cli.asking import DATA_OPTIONS, MODEL_OPTIONS, PATH, as_array, load, output_option, reading, with_options
from plica.cli.errors import one_line_errors
from plica.files.columns import whole_of
from plica.files.rows.write import check_can_write, writing_rows
from plica.lower.data import column_domains
from plica.paths import check_is_other

if TYPE_CHECKING:
    import torch

    from plica.cli.model import Model
    from plica.files.rows import Batch, RowFile
    from plica.files.rows.batch import Array


@click.command(short_help="Fill in what is missing in a table.")
@click.argument("model", type=PATH)
@click.argument("data", type=PATH)
@click.option(
    "--method",
    type=click.Choice(("sample", "mpe", "mean")),
    default="sample",
    show_default=True,
    help="sample: drawn from the exact conditional. mpe: the most probable explanation. mean: of numbers the "
    "conditional mean, of categories the most probable one, each cell by itself.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of what is drawn.")
@with_options(output_option(), *DATA_OPTIONS, *MODEL_OPTIONS)
@one_line_errors
def complete(model: Path, data: Path, out: Path, method: str, seed: int, device: str, **options: Any) -> None:
    """Write DATA with what is missing (an empty cell, NaN) filled in by MODEL, given the rest of its row.

    Cells that are there stay as they are, columns that the model ignores too, and with --unknown missing categories
    that the model has never seen.
    """
    check_can_write(out)
    check_is_other(out, model, data)
    loaded = load(model, device)
    fill = FILLERS[method]
    with (
        reading(loaded, data, **options) as (rows, batches),
        writing_rows(
            out, loaded.names_of(rows), rows.row_shape, _types(loaded, rows), named=named(loaded, rows)
        ) as write,
    ):
        endings = {data.suffix.lower(), out.suffix.lower()}
        verbatim = len(endings) == 1 or endings == {".npy", ".npz"}
        for number, (batch, x) in enumerate(batches):
            write(_completed(loaded, rows, batch, as_array(x), as_array(fill(loaded, x, (seed, number))), verbatim))


def named(model: "Model", rows: "RowFile | None" = None) -> bool:
    """Whether columns have names, of the model or of a file."""
    return model.encoding is not None or (rows is not None and rows.names is not None)


def _types(model: "Model", rows: "RowFile") -> tuple[Any, ...]:
    """What the cells of each column are once it is filled in, or how the file stores it."""
    types: list[Any] = list(rows.stored or rows.types)
    for place, one in zip(model.places(rows), model.types, strict=True):
        if not (one is rows.types[place] is str):  # other texts are stored as these are, other numbers need not fit
            types[place] = one
    return tuple(types)


def _completed(model: "Model", rows: "RowFile", batch: "Batch", x: "Array", filled: "Array", verbatim: bool) -> Any:
    """The cells of a batch, those that are missing from what is filled in, the others as they are, or in its form."""
    if x.dtype.kind != "f":
        # Whole numbers have no NaN: nothing is missing. Truth values are those of arrays alone.
        return batch.cells if verbatim or x.dtype.kind != "b" else x.astype(np.uint8)
    unread = np.isnan(x)
    if batch.cells.dtype != object and model.encoding is None:
        return np.where(unread, filled, batch.cells).astype(batch.cells.dtype)
    from plica.cli.model import shortened

    cells, places = batch.cells.astype(object), model.places(rows)
    missing = unread if model.encoding is None else model.encoding.missing(batch.cells[:, list(places)])
    found = model.cells(np.where(unread, shortened(filled), x))
    if batch.cells.dtype != object and verbatim:  # numbers of categories and of reals, in the dtype of the array
        cells = batch.cells.copy()
    kept = unread & ~missing  # categories that the model has never seen: the user's own, whatever the model says
    for variable, place in enumerate(places):
        # Truth values and numbers beside categories that are text: "True" is true, and true would be another text.
        translated = cells.dtype == object and model.types[variable] is str and rows.types[place] is not str
        written = missing[:, variable] | (translated or not verbatim) & ~kept[:, variable]
        for row in np.flatnonzero(written).tolist():
            cells[row, place] = found[row][variable]
        if not verbatim and model.types[variable] is int:
            for row in np.flatnonzero(kept[:, variable]).tolist():
                number = whole_of(cells[row, place])
                cells[row, place] = cells[row, place] if number is None else number
    return cells


def _sample(model: "Model", x: "torch.Tensor", seed: tuple[int, int]) -> "torch.Tensor":
    from plica.queries import sample

    found: torch.Tensor = sample(model.circuit, 1, given=x, seed=batch_seed(seed))
    return found


def _mpe(model: "Model", x: "torch.Tensor", seed: tuple[int, int]) -> "torch.Tensor":  # noqa: ARG001
    from plica.queries import mpe

    rows: torch.Tensor = mpe(model.circuit, x)[0]
    return rows


def _mean(model: "Model", x: "torch.Tensor", seed: tuple[int, int]) -> "torch.Tensor":  # noqa: ARG001
    """Of reals the mean, of counts the whole number next to it, of categories the most probable."""
    from plica.queries import posterior

    found = posterior(model.circuit, x)
    filled: torch.Tensor = found.mean.clone()
    domains = column_domains(model.circuit.symbolic)
    states = [place for place, domain in enumerate(domains) if domain.num_states is not None]
    whole = [place for place, domain in enumerate(domains) if domain.whole and domain.num_states is None]
    filled[:, whole] = filled[:, whole].round()
    if states:  # else there may be no probabilities at all
        filled[:, states] = found.probabilities[:, states].argmax(dim=-1).to(filled.dtype)
    return filled


FILLERS: Mapping[str, Callable[["Model", "torch.Tensor", tuple[int, int]], "torch.Tensor"]] = {
    "sample": _sample,
    "mpe": _mpe,
    "mean": _mean,
}


def batch_seed(seed: tuple[int, int]) -> int:
    """A seed for one batch of a file."""
    return int(np.random.SeedSequence(seed).generate_state(1)[0])
