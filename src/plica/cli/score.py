"""`plica score` and `plica marginal`: the log-likelihood of each row, or of some of its columns."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plica.cli.asking import DATA_OPTIONS, MODEL_OPTIONS, PATH, load, output_option, reading, with_options
from plica.cli.beside import beside
from plica.cli.errors import one_line_errors
from plica.errors import InputError
from plica.files.rows.write import check_can_write
from plica.paths import check_is_other
from plica.tables.answers import ComparableScore, as_array, variable_of

if TYPE_CHECKING:
    import torch

    from plica.tables.model import Model

_NAME, _COMPARABLE = "log_likelihood", "comparable_score"


@click.command(short_help="Write the log-likelihood of each row.")
@click.argument("model", type=PATH)
@click.argument("data", type=PATH)
@click.option(
    "--comparable",
    is_flag=True,
    help="Write a score by which rows with different missing cells compare, as their log-likelihoods do not: about 0 "
    "for usual rows, and -3 for unusual ones.",
)
@with_options(output_option(), *DATA_OPTIONS, *MODEL_OPTIONS)
@one_line_errors
def score(model: Path, data: Path, out: Path, comparable: bool, device: str, **options: Any) -> None:
    """Write the log-likelihood of each row of DATA under MODEL, in natural logarithms.

    Missing cells (empty, NaN) are summed out. A row that is impossible under the model gets -inf.
    In the result, columns that the model does not read come first.
    """
    check_can_write(out)
    check_is_other(out, model, data)
    loaded = load(model, device)
    if comparable:
        _write(loaded, data, out, _COMPARABLE, ComparableScore.of(loaded), **options)
    else:
        _write(loaded, data, out, _NAME, lambda x: _log_likelihood(loaded, x), **options)


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
    read = {variable_of(loaded.names, name, "--of ", "; --of takes one, and may be repeated") for name in columns}
    hidden = [variable for variable in range(loaded.width) if variable not in read]

    def score_of(x: "torch.Tensor") -> "torch.Tensor":
        import torch

        x = x.to(torch.float64) if not x.is_floating_point() else x.clone()
        x[:, hidden] = float("nan")
        return _log_likelihood(loaded, x)

    _write(loaded, data, out, _NAME, score_of, **options)


def _log_likelihood(model: "Model", x: "torch.Tensor") -> "torch.Tensor":
    from plica.queries import log_likelihood

    scores: torch.Tensor = log_likelihood(model.circuit, x)
    return scores


def _write(
    model: "Model",
    data: Path,
    out: Path,
    name: str,
    score_of: Callable[["torch.Tensor"], "torch.Tensor"],
    **options: Any,
) -> None:
    """Write a column `name` with the scores of rows, which `score_of` computes for a batch."""
    import torch

    if not model.width:
        raise InputError(
            "the model has no variables, so that there are no rows to score; its value is what plica.load(MODEL)() "
            "gives, and what `plica run` writes of the file that `plica export` makes of it"
        )
    with (
        torch.no_grad(),
        reading(model, data, **options) as (rows, batches),
        beside(model, rows, out, {name: float}) as write,
    ):
        for batch, x in batches:
            write(batch, [as_array(score_of(x))])
