"""Rows for which a bound does not hold, computed again by the next stage of a cascade (`lower/cascade.py`)."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_NONE = torch.empty(0, dtype=torch.int64)


def rows_without(holds: Tensor) -> Tensor:
    """The numbers of the rows for which a bound `(B,)` does not hold; this waits for the device."""
    return _NONE if bool(holds.all()) else holds.logical_not().nonzero().squeeze(1)


def computed_again(
    results: Sequence[Tensor], axes: Sequence[int], rows: Tensor, again: Callable[[Tensor], Sequence[Tensor]]
) -> Sequence[Tensor]:
    """Results in which some rows are those of another computation.

    Args:
        results: The results.
        axes: The axis of rows of each.
        rows: The numbers of the rows.
        again: Computes all results for rows of these numbers.
    """
    if not len(rows):
        return results
    pairs = zip(results, axes, again(rows), strict=True)
    return [result.index_copy(axis, rows, corrected) for result, axis, corrected in pairs]
