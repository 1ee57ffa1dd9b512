"""`plica score` and `plica marginal`: the log-likelihood of each row, or of some of its columns."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from plica.cli.asking import DATA_OPTIONS, MODEL_OPTIONS, PATH, as_array, load, output_option, reading, with_options
from plica.cli.errors import one_line_errors
from plica.errors import InputError
from plica.files.rows.write import check_can_write, writing_rows
from plica.paths import check_is_other

if TYPE_CHECKING:
    from plica.cli.model import Model
    from plica.files.rows import RowFile

_NAME = "log_likelihood"


@click.command(short_help="Write the log-likelihood of each row.")
@click.argument("model", type=PATH)
@click.argument("data", type=PATH)
@with_options(output_option(), *DATA_OPTIONS, *MODEL_OPTIONS)
@one_line_errors
def score(model: Path, data: Path, out: Path, device: str, **options: Any) -> None:
    """Write the log-likelihood of each row of DATA under MODEL, in natural logarithms.

    Missing cells (empty, NaN) are summed out. A row that is impossible under the model gets -inf.
    In the result, columns that the model does not read come first.
    """
    check_can_write(out)
    check_is_other(out, model, data)
    loaded = load(model, device)
    _write(loaded, data, out, set(), **options)


@click.command(short_help="Write the log-likelihood of some columns of each row.")
@click.argument("model", type=PATH)
@click.argument("data", type=PATH)
@click.option(
    "--of",
    "columns",
    required=True,
    multiple=True,
    metavar="COLUMN",
    help="A column by name or number; may be repeated.",
)
@with_options(output_option(), *DATA_OPTIONS, *MODEL_OPTIONS)
@one_line_errors
def marginal(model: Path, data: Path, columns: tuple[str, ...], out: Path, device: str, **options: Any) -> None:
    """Write the log-likelihood of some columns of each row of DATA under MODEL; all others are summed out.

    Columns are named as in the table, or by their numbers, counted from 0, where it has no names.
    """
    check_can_write(out)
    check_is_other(out, model, data)
    loaded = load(model, device)
    columns = tuple(name.strip() for name in columns)
    unknown = [name for name in columns if name not in loaded.names]
    if unknown:
        shown = ", ".join(loaded.names[:20]) + (", ..." if len(loaded.names) > 20 else "")
        raise InputError(
            f"--of {unknown[0]}: the model has no such column; it has {shown}; --of takes one, and may be repeated."
        )
    hidden = {variable for variable, name in enumerate(loaded.names) if name not in columns}
    _write(loaded, data, out, hidden, **options)


def _write(model: "Model", data: Path, out: Path, hidden: set[int], **options: Any) -> None:
    """Write the scores of rows, with the `hidden` variables summed out."""
    import torch

    from plica.queries import log_likelihood

    if not model.width:
        raise InputError(
            "the model has no variables, so that there are no rows to score; its value is what plica.load(MODEL)() "
            "gives, and what `plica run` writes of the file that `plica export` makes of it"
        )
    hidden_variables = sorted(hidden)
    with torch.no_grad(), reading(model, data, **options) as (rows, batches):
        extra_columns = _extra_columns(model, rows, out)
        names, types = model.names_of(rows), rows.stored or rows.types
        names = (*(names[position] for position in extra_columns), _NAME)
        stored = (*(types[position] for position in extra_columns), float)
        with writing_rows(out, names, None if extra_columns else (), stored, delimiter=rows.delimiter) as write:
            for batch, x in batches:
                if hidden_variables:
                    x = x.to(torch.float64) if not x.is_floating_point() else x.clone()
                    x[:, hidden_variables] = float("nan")
                scores = as_array(log_likelihood(model.circuit, x))[:, None]
                beside = batch.cells[:, extra_columns].astype(object)
                write(np.concatenate([beside, scores], axis=1) if extra_columns else scores)


def _extra_columns(model: "Model", rows: "RowFile", out: Path) -> list[int]:
    """The columns of a table that the model does not read, such as identifiers of rows; none for arrays."""
    if model.encoding is None or out.suffix.lower() in (".npy", ".npz"):
        return []
    names, read = model.names_of(rows), set(model.positions(rows))
    return [position for position in range(rows.width) if position not in read and names[position].strip() != _NAME]
