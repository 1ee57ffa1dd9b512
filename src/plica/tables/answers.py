"""What a model of tables answers, for rows of numbers: the command line and Python ask here.

Rows are tensors `(B, D)` with NaN in place of missing cells. Importing this module loads nothing; its functions load
torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.arguments import found, number
from plica.errors import DTypeError, InputError
from plica.files.columns import bounded, decode, is_whole
from plica.files.kinds import Cell
from plica.files.rows import Batch
from plica.files.rows.batch import Array, CellType
from plica.tables.model import TEMPORAL, Model, widened
from plica.tables.reading import naming_impossible

if TYPE_CHECKING:
    import torch

MEAN = "mean"  # the name of the column of means
_REFERENCE_ROWS, _REFERENCE_BATCH = 1000, 256
_SHOWN = 20  # columns that a message names


def batch_seed(seed: tuple[int, int]) -> int:
    """A seed for one batch of rows."""
    return int(np.random.SeedSequence(seed).generate_state(1)[0])


def as_array(tensor: torch.Tensor | Array) -> Array:
    """A tensor as an array of numpy."""
    if isinstance(tensor, np.ndarray):
        return tensor
    array: Array = tensor.detach().cpu().numpy()
    return array


def _sample(model: Model, x: torch.Tensor, seed: int) -> torch.Tensor:
    from plica.queries import sample

    rows: torch.Tensor = sample(model.circuit, 1, given=x, seed=seed)
    return rows


def _mpe(model: Model, x: torch.Tensor, seed: int) -> torch.Tensor:  # noqa: ARG001
    from plica.queries import mpe

    rows: torch.Tensor
    rows, values = mpe(model.circuit, x)
    if values.isneginf().any():  # as `posterior` refuses them
        raise InputError("mpe: a row has a probability of 0")
    return rows


def _mean(model: Model, x: torch.Tensor, seed: int) -> torch.Tensor:  # noqa: ARG001
    """The mean of reals, the nearest whole number for counts, the most probable category."""
    from plica.queries import posterior

    conditionals = posterior(model.circuit, x)
    filled: torch.Tensor = conditionals.mean.clone()
    domains = model.domains
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


def draw(model: Model, number: int, seed: int, batch: int) -> Iterator[torch.Tensor]:
    """`number` rows drawn from a model, in batches."""
    from plica.queries import sample

    for start in range(0, number, batch):
        yield sample(model.circuit, min(batch, number - start), seed=batch_seed((seed, start // batch)))


def completions_of(
    model: Model, batch: Batch, x: torch.Tensor, number: int, seed: int
) -> tuple[Batch, torch.Tensor, torch.Tensor]:
    """`number` completions of each row of a batch, row by row: the cells, the known numbers, the completed ones.

    Cells and known numbers are repeated `number` times, `(B * number, ...)`.
    """
    from plica.queries import sample

    with naming_impossible(model, batch, x):
        rows = sample(model.circuit, number, given=x, seed=seed)
    return batch.repeated(number), x.repeat_interleave(number, dim=0), rows


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


@dataclass(frozen=True, slots=True, eq=False)
class ComparableScore:
    """A score by which rows with different missing cells compare, as their log-likelihoods do not.

    It is the sum of `cell_log_likelihoods` over the known cells of a row, less the means of their columns. Its unit is
    the standard deviation that the sum would have of independent cells: it is about 0 for usual rows, and -3 for
    unusual ones. The mean
    alone would not do: columns differ in scale, and it spreads more where fewer cells are known.

    Args:
        model: The model.
        mean: `(D,)` the mean of `cell_log_likelihoods` in rows drawn from the model.
        variance: `(D,)` their variance.
    """

    model: Model
    mean: torch.Tensor
    variance: torch.Tensor

    @staticmethod
    def of(model: Model) -> ComparableScore:
        """The score of a model; it takes a thousand draws of a fixed seed."""
        import torch

        drawn = torch.cat([cell_log_likelihoods(model, x) for x in draw(model, _REFERENCE_ROWS, 0, _REFERENCE_BATCH)])
        return ComparableScore(model, drawn.mean(dim=0), drawn.var(dim=0, correction=0))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The score of rows `(B, D)`: `(B,)`, -inf for impossible rows, NaN for rows without known cells."""
        import torch

        from plica.queries import log_likelihood

        x = x.to(torch.float64)
        cells = cell_log_likelihoods(self.model, x)
        is_known = ~x.isnan()
        deviation = torch.where(is_known, cells - self.mean, 0.0).sum(dim=1)
        spread = torch.where(is_known, self.variance, 0.0).sum(dim=1).sqrt()
        score = deviation / torch.where(spread > 0, spread, 1.0)
        is_impossible = log_likelihood(self.model.circuit, x) == -torch.inf
        score = torch.where(is_impossible, -torch.inf, score)  # else NaN where a row is impossible without a cell too
        return torch.where(is_known.any(dim=1), score, torch.nan)


def variable_of(columns: Sequence[str], name: str, where: str = "column ", advice: str = "") -> int:
    """The variable of a column.

    Args:
        columns: The names of the model's variables.
        name: The name of the column.
        where: The beginning of the message.
        advice: Its end.

    Raises:
        InputError: The model has no such column.
    """
    names = [known.strip() for known in columns]
    if name.strip() not in names:
        shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        raise InputError(f"{where}{name}: the model has no such column; it has {shown}{advice}")
    return names.index(name.strip())


def prediction_names(model: Model, variable: int, quantiles: Sequence[float] | Array) -> tuple[str, ...]:
    """The columns of a prediction: the categories, or `mean` and the levels of the quantiles.

    Raises:
        InputError: Quantiles of categories are asked for, or a level is not between 0 and 1.
    """
    levels = check_levels(model, variable, quantiles)
    categories = categories_of(model, variable)
    return (MEAN, *map(repr, levels)) if categories is None else tuple(map(str, categories))


def prediction_types(model: Model, variable: int, quantiles: Sequence[float] | Array) -> tuple[CellType, ...]:
    """The types of the cells of these columns."""
    if categories_of(model, variable) is not None:
        return (float,) * len(prediction_names(model, variable, quantiles))
    own = model.types[variable]
    return (float if own is int else own, *(own for _ in quantiles))


def predict(
    model: Model, x: torch.Tensor, variable: int, quantiles: Sequence[float] | Array = ()
) -> tuple[Sequence[Cell] | Array, ...]:
    """The distribution of a variable given the rest of each row; its own cells are not looked at.

    Args:
        model: The model.
        x: Rows `(B, D)`.
        variable: The variable.
        quantiles: Levels between 0 and 1, for columns of numbers, dates and times.

    Returns:
        For each column of `prediction_names` the B cells: probabilities; means and quantiles as values of the column.

    Raises:
        InputError: A row has probability 0.
    """
    import torch

    from plica.queries import posterior, quantile

    with torch.no_grad():
        x = x.to(torch.float64, copy=True)
        x[:, variable] = torch.nan
        conditionals = posterior(model.circuit, x)
        categories = categories_of(model, variable)
        if categories is not None:
            return tuple(as_array(conditionals.probabilities[:, variable, : len(categories)]).T)
        means = as_array(conditionals.mean[:, variable])
        levels = tuple(map(float, quantiles))
        values = (
            first_whole(model, variable, as_array(quantile(model.circuit, variable, levels, given=x))).T
            if levels
            else ()
        )
    return (_cells(model, variable, means, is_mean=True), *(_cells(model, variable, part) for part in values))


def first_whole(model: Model, variable: int, numbers: Array) -> Array:
    """Quantiles of a column of whole numbers whose variable is real: a whole number w stands for w - 1/2 to w + 1/2.

    So the probability up to w is that up to w + 1/2, and the first w that suffices for a quantile q is that from
    q - 1/2 on.
    """
    column = None if model.encoding is None else model.encoding.modelled[variable]
    if column is None or not is_whole(column) or model.domains[variable].whole:
        return numbers
    result: Array = np.ceil(numbers.astype(np.float64) - 0.5) + 0.0
    return result


def check_levels(model: Model, variable: int, quantiles: Sequence[float] | Array) -> tuple[float, ...]:
    """The levels of quantiles of a variable.

    Raises:
        DTypeError: The levels are no numbers.
        InputError: The column has categories, or a level is not between 0 and 1.
    """
    if not isinstance(quantiles, Iterable):
        raise DTypeError(f"quantiles: expected levels between 0 and 1, such as (0.05, 0.95), {found(quantiles)}")
    levels = tuple(number("predict", "a quantile's level", level) for level in quantiles)
    if levels and categories_of(model, variable) is not None:
        raise InputError(
            f"column {model.names[variable]!r} has categories, which have probabilities and no quantiles; "
            "leave the quantiles out"
        )
    for level in levels:
        if not 0.0 < level < 1.0:
            raise InputError(f"quantiles: {level:g} is no level; expected numbers above 0 and below 1, such as 0.05")
    if len(set(levels)) < len(levels):
        raise InputError(f"quantiles: a level occurs twice in {', '.join(map(repr, levels))}; name each once")
    return levels


def categories_of(model: Model, variable: int) -> tuple[Any, ...] | None:
    """The categories of a variable, or the numbers of its states; None where it has numbers, dates or times."""
    if model.encoding is not None:
        return model.encoding.modelled[variable].categories if model.is_closed(variable) else None
    states = model.domains[variable].num_states
    return None if states is None else tuple(range(states))


def _cells(model: Model, variable: int, numbers: Array, *, is_mean: bool = False) -> Sequence[Cell] | Array:
    """Numbers of a variable as cells: dates as dates, the mean of counts and whole numbers with its decimals."""
    numbers = widened(numbers)
    if model.encoding is None:
        return numbers
    column = model.encoding.modelled[variable]
    numbers = bounded(column, numbers)
    if column.kind in TEMPORAL:
        return decode(column, np.round(numbers))
    if is_mean or column.kind == "real":
        shifted: Array = numbers + column.origin
        return shifted
    return decode(column, numbers)
