"""`plica score` and `plica marginal`: the log-likelihood of each row, or of some of its columns."""

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
from plica.tables.questions import Score


@click.command(short_help="Write the log-likelihood of each row.")
@click.argument("model", type=PATH)
@click.argument("data", type=location)
@click.option(
    "--comparable",
    is_flag=True,
    help="Write a score by which rows with different missing cells compare, as their log-likelihoods do not: about 0 "
    "for usual rows, and -3 for unusual ones.",
)
@with_options(output_option(), KEEP, *DATA_OPTIONS, *MODEL_OPTIONS)
@one_line_errors
def score(
    model: Path, data: Location, out: Path, keep: tuple[str, ...], comparable: bool, device: str, **options: Any
) -> None:
    """Write the log-likelihood of each row of DATA under MODEL, in natural logarithms.

    Missing cells (empty, NaN) are summed out. A row that is impossible under the model gets -inf.
    In the result, columns that the model does not read come first, or those of --keep.
    """
    write_answers(Score(comparable, keep=keep), model, data, out, device, **options)


@click.command(short_help="Write the log-likelihood of some columns of each row.")
@click.argument("model", type=PATH)
@click.argument("data", type=location)
@click.option(
    "--of",
    "columns",
    required=True,
    multiple=True,
    metavar="COLUMN",
    help="A column by name or number; may be repeated.",
)
@with_options(output_option(), KEEP, *DATA_OPTIONS, *MODEL_OPTIONS)
@one_line_errors
def marginal(
    model: Path, data: Location, columns: tuple[str, ...], out: Path, keep: tuple[str, ...], device: str, **options: Any
) -> None:
    """Write the log-likelihood of some columns of each row of DATA under MODEL; all others are summed out.

    Columns are named as in the table, or by their numbers, counted from 0, where it has no names.
    """
    write_answers(Score(of=columns, keep=keep), model, data, out, device, **options)
