"""`plica explore`: writes a page of HTML on which one walks through a saved model."""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plica.cli.asking import DATA_OPTIONS, PATH, load, reading, with_options
from plica.cli.errors import one_line_errors
from plica.errors import PlicaError
from plica.explore.page import explore as write_page
from plica.paths import check_is_other

if TYPE_CHECKING:
    from plica.files.rows.batch import Array
    from plica.tables.model import Model

_TIMED = 128  # rows


@click.command(short_help="Write a page that shows a saved model layer by layer.")
@click.argument("model", type=PATH)
@click.option("-o", "--out", type=PATH, help="The page. Default: MODEL with the ending .html.")
@click.option("--rows", "data", type=PATH, metavar="DATA", help="File of rows to show in every layer.")
@click.option("-n", "number", type=click.IntRange(1), default=4, show_default=True, help="How many rows of DATA.")
@with_options(*DATA_OPTIONS)
@one_line_errors
def explore(model: Path, out: Path | None, data: Path | None, number: int, **options: Any) -> None:
    """Write a page of HTML with the layers of MODEL: as described, as optimized, and as folded.

    A click on a layer, or Enter, shows its scope, parameters, fold, equations, generated code and share of the time.
    With --rows, each layer shows its values for the first rows of DATA, and the most probable states. The page is one
    file, and asks no host for anything.
    """
    out = out or model.with_suffix(".html")
    check_is_other(out, model, data)
    loaded = load(model, "cpu")
    rows = None if data is None else _first_rows(loaded, data, number, **options)
    write_page(
        loaded.circuit,
        out,
        title=model.name,
        names=None if loaded.encoding is None else loaded.names,
        image_shape=loaded.image_shape,
        rows=rows,
        texts=None if loaded.encoding is None else lambda x: _texts(loaded, x),
        seconds=_seconds(loaded),
    )
    click.echo(f"wrote {out}")


def _first_rows(model: "Model", data: Path, number: int, **options: Any) -> "Array":
    import numpy as np

    with reading(model, data, batch=number, quiet=True, **options) as (_, batches):
        parts = [x.double().numpy() for _, x in islice(batches, 1)]
    return np.concatenate(parts) if parts else np.zeros((0, model.width))


def _texts(model: "Model", x: "Array") -> list[list[str]]:
    return [list(map(str, row)) for row in model.cells(model.rounded(x), ["text"] * model.width)]


def _seconds(model: "Model") -> Mapping[str, float] | None:
    """The time of each part of the Program for rows that the model draws; None where it draws none."""
    from plica.backend.torch.profile import profile
    from plica.queries import sample

    try:
        rows = sample(model.circuit, _TIMED, seed=0)
        return {part.name: part.seconds for part in profile(model.circuit, rows)}
    except PlicaError:
        return None
