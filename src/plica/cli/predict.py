"""`plica predict`: the distribution of one column in each row, given the other cells of the row."""

from pathlib import Path
from typing import Any

import click

from plica.cli.asking import (
    DATA_OPTIONS,
    KEEP,
    MODEL_OPTIONS,
    PATH,
    location,
    output_option,
    with_options,
    write_answers,
)
from plica.cli.errors import one_line_errors
from plica.tables.files import Location
from plica.tables.questions import Predict


def parse_levels(_context: click.Context, _option: click.Parameter, value: str | None) -> tuple[float, ...]:
    """`.05,.5,.95` as numbers.

    Raises:
        click.BadParameter: A part is no number.
    """
    try:
        return tuple(map(float, value.split(","))) if value else ()
    except ValueError:
        raise click.BadParameter(f"{value!r:.60} is no list of numbers; write .05,.5,.95") from None


@click.command(short_help="Predict a column of each row of a table.")
@click.argument("model", type=PATH)
@click.argument("data", type=location)
@click.option("--column", required=True, metavar="COLUMN", help="The column to predict, by name or number.")
@click.option(
    "--quantiles",
    metavar="LEVELS",
    callback=parse_levels,
    help="Quantiles of a column of numbers, dates or times, as .05,.5,.95.",
)
@with_options(output_option(), KEEP, *DATA_OPTIONS, *MODEL_OPTIONS)
@one_line_errors
def predict(
    model: Path,
    data: Location,
    column: str,
    quantiles: tuple[float, ...],
    out: Path,
    keep: tuple[str, ...],
    device: str,
    **options: Any,
) -> None:
    """Write the exact distribution of a column in each row of DATA, given the other cells of the row.

    Of categories: the probability of each, in columns of their names. Of numbers, dates and times: the mean, and one
    column for each level of --quantiles.

    DATA need not have the column, and cells that are there are not looked at. In the result, columns that the model
    does not read and the cells of the predicted column come first, or the columns of --keep, except in arrays.
    """
    write_answers(Predict(column, quantiles, keep), model, data, out, device, **options)
