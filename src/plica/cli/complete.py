"""`plica complete`: a table with its missing cells filled in."""

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
from plica.tables.answers import FILLERS
from plica.tables.files import Location
from plica.tables.questions import Complete


@click.command(short_help="Fill in the missing cells of a table.")
@click.argument("model", type=PATH)
@click.argument("data", type=location)
@click.option(
    "--method",
    type=click.Choice(tuple(FILLERS)),
    default="mean",
    show_default=True,
    help="mean: of numbers the conditional mean, of categories the most probable one, each cell by itself. mpe: the "
    "most probable explanation. sample: drawn from the exact conditional.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of random numbers.")
@with_options(output_option(), KEEP, *DATA_OPTIONS, *MODEL_OPTIONS)
@one_line_errors
def complete(
    model: Path, data: Location, out: Path, keep: tuple[str, ...], method: str, seed: int, device: str, **options: Any
) -> None:
    """Write DATA with its missing cells (empty, NaN) filled in by MODEL, given the other cells of their row.

    All other cells stay as they are, also columns that the model ignores and categories that it has never seen.
    Filled cells have the format of their column. With --keep, the result has the columns of the model and the ones that
    are named, which are not filled in.
    """
    write_answers(Complete(method, seed, keep), model, data, out, device, **options)
