"""`plica sample`: draws rows from a model, or completions of rows with missing cells."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plica.cli.asking import (
    DATA_OPTIONS,
    MODEL_OPTIONS,
    PATH,
    bar,
    load_or_native,
    location,
    output_option,
    with_options,
    write_answers,
)
from plica.cli.errors import one_line_errors
from plica.errors import InputError
from plica.paths import check_is_other
from plica.tables.answers import as_array, draw
from plica.tables.files import Location
from plica.tables.questions import Sample

if TYPE_CHECKING:
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
@click.option("--given", type=location, metavar="PATH", help="Rows with missing cells: each is filled in N times.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of random numbers.")
@with_options(output_option(), *DATA_OPTIONS, *MODEL_OPTIONS)
@one_line_errors
def sample(
    model: Path,
    number: int,
    given: Location | None,
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
    if given is not None:
        write_answers(Sample(number, seed), model, given, out, device, batch=batch, quiet=quiet, **options)
        return
    if options["engine"] is not None or options["workers"] is not None:
        raise InputError("--engine and --workers are for completions of rows; give these by --given")
    from plica.batch.native_answers import native_draws
    from plica.data.write import check_can_write, writing_rows
    from plica.files.tables import check_options

    check_can_write(out)
    delimiter = options["delimiter"]
    check_options(str(out), out.suffix.lower(), key=options["key"], delimiter=delimiter)
    check_is_other(out, model)
    loaded = load_or_native(model, device)
    is_array = out.suffix.lower() in (".npy", ".npz")
    shape = loaded.image_shape or (loaded.width,)
    with (
        writing_rows(
            out, loaded.names, shape, loaded.types, named=loaded.encoding is not None, delimiter=delimiter or ","
        ) as write,
        bar(number, quiet=quiet) as progress,
    ):
        drawing = draw if loaded.stated is None else native_draws
        for rows in drawing(loaded, number, seed, batch):
            write(_rows(loaded, is_array, out, as_array(rows)))
            progress.update(len(rows))


def _rows(model: "Model", is_array: bool, out: Path, values: "Array") -> Any:
    """Columns for tables, numbers for arrays."""
    if is_array:
        return model.numbers(values)
    import pyarrow as pa

    from plica.data.write import arrow_type, column_of

    is_text = out.suffix.lower() == ".csv"
    columns = [
        column_of(
            model.column(variable, model.rounded_column(variable, numbers), "text" if is_text else "typed"),
            arrow_type(str if is_text else model.types[variable]),
            model.names[variable],
        )
        for variable, numbers in enumerate(values.T)
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(model.names))
