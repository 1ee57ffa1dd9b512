"""What a model of tables answers, for rows of numbers: the command line and Python ask here.

Rows are tensors `(B, D)` with NaN in place of missing cells. Importing this module loads nothing; its functions load
torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.errors import InputError
from plica.files.columns import decode
from plica.files.kinds import Cell
from plica.files.rows.batch import Array
from plica.lower.data import column_domains
from plica.tables.model import Model

if TYPE_CHECKING:
    import torch

MEAN = "mean"  # the name of the column of means
_TEMPORAL = ("date", "timestamp", "time")


def batch_seed(seed: tuple[int, int]) -> int:
    """A seed for one batch of rows."""
    return int(np.random.SeedSequence(seed).generate_state(1)[0])


def as_array(tensor: torch.Tensor) -> Array:
    """A tensor as an array of numpy."""
    array: Array = tensor.detach().cpu().numpy()
    return array


def _sample(model: Model, x: torch.Tensor, seed: int) -> torch.Tensor:
    from plica.queries import sample

    rows: torch.Tensor = sample(model.circuit, 1, given=x, seed=seed)
    return rows


def _mpe(model: Model, x: torch.Tensor, seed: int) -> torch.Tensor:  # noqa: ARG001
    from plica.queries import mpe

    rows: torch.Tensor = mpe(model.circuit, x)[0]
    return rows


def _mean(model: Model, x: torch.Tensor, seed: int) -> torch.Tensor:  # noqa: ARG001
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


FILLERS: Mapping[str, Callable[[Model, torch.Tensor, int], torch.Tensor]] = {
    "mean": _mean,
    "mpe": _mpe,
    "sample": _sample,
}
"""By the name of a method, a function from rows and a seed to rows without missing cells."""


def cell_log_likelihoods(model: Model, x: torch.Tensor) -> torch.Tensor:
    """The logarithm of the probability (or density) of each known cell, given the other known cells of its row.

    That is the log-likelihood of the row less that of the row without the cell: one pass for each column.

    Returns:
        `(B, D)` in float64; NaN for missing cells, and for a cell of a row that is impossible without it too.
    """
    import torch

    from plica.queries import log_likelihood

    with torch.no_grad():
        x = x.to(torch.float64)
        whole = log_likelihood(model.circuit, x).to(torch.float64)
        result = torch.full_like(x, torch.nan)
        for variable in range(x.shape[1]):
            is_known = ~x[:, variable].isnan()
            rows = x[is_known]
            rows[:, variable] = torch.nan
            if len(rows):
                result[is_known, variable] = whole[is_known] - log_likelihood(model.circuit, rows).to(torch.float64)
    return result


def log_likelihood_per_cell(model: Model, x: torch.Tensor) -> torch.Tensor:
    """The mean of `cell_log_likelihoods` over the known cells of each row, `(B,)`; NaN for rows without known cells."""
    mean: torch.Tensor = cell_log_likelihoods(model, x).nanmean(dim=1)
    return mean


@dataclass(frozen=True, slots=True)
class Prediction:
    """The distribution of one column in B rows, given their other cells.

    Args:
        names: Of the columns of the prediction: the categories, or the mean and the levels of the quantiles.
        cells: For each of them the B cells: probabilities; means and quantiles as the column's own values.
    """

    names: tuple[str, ...]
    cells: tuple[Sequence[Cell], ...]


def predict(model: Model, x: torch.Tensor, variable: int, quantiles: Sequence[float] = ()) -> Prediction:
    """The distribution of a variable given the rest of each row; its own cells are not looked at.

    Args:
        model: The model.
        x: Rows `(B, D)`.
        variable: The variable.
        quantiles: Levels between 0 and 1, for columns of numbers, dates and times.

    Raises:
        InputError: Quantiles of categories are asked for, or a level is not between 0 and 1.
    """
    import torch

    from plica.queries import posterior, quantile

    levels = check_levels(model, variable, quantiles)
    with torch.no_grad():
        x = x.to(torch.float64, copy=True)
        x[:, variable] = torch.nan
        conditionals = posterior(model.circuit, x)
        categories = categories_of(model, variable)
        if categories is not None:
            probabilities = as_array(conditionals.probabilities[:, variable, : len(categories)])
            return Prediction(tuple(map(str, categories)), tuple(column.tolist() for column in probabilities.T))
        means = as_array(conditionals.mean[:, variable])
        values = [as_array(quantile(model.circuit, variable, level, given=x)) for level in levels]
    cells = (_cells(model, variable, means, is_mean=True), *(_cells(model, variable, part) for part in values))
    return Prediction((MEAN, *map(_level_name, levels)), cells)


def check_levels(model: Model, variable: int, quantiles: Sequence[float]) -> tuple[float, ...]:
    """The levels of quantiles of a variable.

    Raises:
        InputError: The column has categories, or a level is not between 0 and 1.
    """
    levels = tuple(float(level) for level in quantiles)
    if levels and categories_of(model, variable) is not None:
        raise InputError(
            f"column {model.names[variable]!r} has categories, which have probabilities and no quantiles; "
            "leave the quantiles out"
        )
    for level in levels:
        if not 0.0 < level < 1.0:
            raise InputError(f"quantiles: {level:g} is no level; expected numbers above 0 and below 1, such as 0.05")
    if len(set(levels)) < len(levels):
        raise InputError(f"quantiles: a level occurs twice in {', '.join(map(_level_name, levels))}; name each once")
    return levels


def _level_name(level: float) -> str:
    return repr(level)


def categories_of(model: Model, variable: int) -> tuple[Any, ...] | None:
    """The categories of a variable, or the numbers of its states; None where it has numbers, dates or times."""
    if model.encoding is not None:
        return model.encoding.modelled[variable].categories if model.is_closed(variable) else None
    states = column_domains(model.circuit.symbolic)[variable].num_states
    return None if states is None else tuple(range(states))


def _cells(model: Model, variable: int, numbers: Array, *, is_mean: bool = False) -> Sequence[Cell]:
    """Numbers of a variable as cells: dates as dates, the mean of counts and whole numbers with its decimals."""
    numbers = numbers.astype(str).astype(np.float64) if numbers.dtype == np.float32 else numbers
    if model.encoding is None:
        cells: list[Cell] = numbers.tolist()
        return cells
    column = model.encoding.modelled[variable]
    if column.kind in _TEMPORAL:
        return decode(column, np.round(numbers))
    if is_mean:
        shifted: list[Cell] = (numbers + column.origin).tolist()
        return shifted
    return decode(column, numbers)
