"""`plica complete`: a table with its missing cells filled in."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from plica.cli.asking import (
    DATA_OPTIONS,
    MODEL_OPTIONS,
    PATH,
    as_array,
    load,
    naming_impossible,
    output_option,
    with_options,
)
from plica.cli.errors import one_line_errors
from plica.files.rows.write import check_can_write
from plica.lower.data import column_domains
from plica.paths import check_is_other

if TYPE_CHECKING:
    import torch

    from plica.cli.model import Model


@click.command(short_help="Fill in the missing cells of a table.")
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
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of random numbers.")
@with_options(output_option(), *DATA_OPTIONS, *MODEL_OPTIONS)
@one_line_errors
def complete(model: Path, data: Path, out: Path, method: str, seed: int, device: str, **options: Any) -> None:
    """Write DATA with its missing cells (empty, NaN) filled in by MODEL, given the other cells of their row.

    All other cells stay as they are, also columns that the model ignores and categories that it has never seen.
    Filled cells have the format of their column.
    """
    check_can_write(out)
    check_is_other(out, model, data)
    loaded = load(model, device)
    fill = FILLERS[method]
    from plica.cli.layout import rewriting

    with rewriting(loaded, data, out, **options) as (layout, batches, write):
        for number, (batch, x) in enumerate(batches):
            with naming_impossible(loaded, batch, x):
                filled = as_array(fill(loaded, x, (seed, number)))
            write(layout.completed(batch, as_array(x), filled))


def _sample(model: "Model", x: "torch.Tensor", seed: tuple[int, int]) -> "torch.Tensor":
    from plica.queries import sample

    rows: torch.Tensor = sample(model.circuit, 1, given=x, seed=batch_seed(seed))
    return rows


def _mpe(model: "Model", x: "torch.Tensor", seed: tuple[int, int]) -> "torch.Tensor":  # noqa: ARG001
    from plica.queries import mpe

    rows: torch.Tensor = mpe(model.circuit, x)[0]
    return rows


def _mean(model: "Model", x: "torch.Tensor", seed: tuple[int, int]) -> "torch.Tensor":  # noqa: ARG001
    """The mean of reals, the nearest whole number for counts, the most probable category."""
    from plica.queries import posterior

    conditionals = posterior(model.circuit, x)
    filled: torch.Tensor = conditionals.mean.clone()
    domains = column_domains(model.circuit.symbolic)
    states = [variable for variable, domain in enumerate(domains) if domain.num_states is not None]
    integers = [variable for variable, domain in enumerate(domains) if domain.whole and domain.num_states is None]
    filled[:, integers] = filled[:, integers].round()
    if states:  # else there may be no probabilities at all
        filled[:, states] = conditionals.probabilities[:, states].argmax(dim=-1).to(filled.dtype)
    return filled


FILLERS: Mapping[str, Callable[["Model", "torch.Tensor", tuple[int, int]], "torch.Tensor"]] = {
    "sample": _sample,
    "mpe": _mpe,
    "mean": _mean,
}


def batch_seed(seed: tuple[int, int]) -> int:
    """A seed for one batch of a file."""
    return int(np.random.SeedSequence(seed).generate_state(1)[0])
