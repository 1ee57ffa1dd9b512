"""Rows of data put together from the values that layers choose for their variables."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from plica.graph.fold import FoldIndex
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim
from plica.lower.data import input_width
from plica.lower.fold.groups import FoldedLayer
from plica.lower.fold.read import read_folds
from plica.lower.lowering import LoweringScope
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer

_ALWAYS, _NEVER = (0, 0), (1, 0)


@dataclass(slots=True)
class FilledRows:
    """Values by variable; a row reaches at most one of the layers of a variable.

    Args:
        scope: The Program under construction.
        count: B, the number of rows.
        dtype: The dtype of the rows.
    """

    scope: LoweringScope
    count: Dim
    dtype: DType
    _values: list[Tracer] = field(init=False)  # (F * num_variables, B) each
    _reached: list[Tracer] = field(init=False)  # (F, B) each: which rows reach a layer
    _folds: dict[int, list[tuple[FoldIndex, FoldIndex]]] = field(default_factory=dict)  # into both lists, by variable

    def __post_init__(self) -> None:
        self._values = [xp.zeros((1, self.count), dtype=self.dtype)]
        self._reached = [xp.full((1, self.count), is_reached, dtype=DType.BOOL) for is_reached in (True, False)]

    def add(self, group: FoldedLayer, values: Tracer, reached: Tracer | None) -> None:
        """Add the values that a group of input layers has chosen.

        Shapes: values (F, B, num_variables), reached (F, B), or None for all.
        """
        width = len(group.scope_idx[0])
        flat = xp.reshape(xp.permute_dims(values, (0, 2, 1)), (group.num_folds * width, self.count))
        for fold, variables in enumerate(group.scope_idx):
            reached_at = _ALWAYS if reached is None else (len(self._reached), fold)
            for index, variable in enumerate(variables):
                value = (len(self._values), fold * width + index)
                self._folds.setdefault(variable, []).append((value, reached_at))
        self._values.append(self._cast(flat))
        if reached is not None:
            self._reached.append(reached)

    def _cast(self, values: Tracer) -> Tracer:
        """`values` in the dtype of the rows; numbers beyond its range become its largest or least number."""
        if self.dtype.kind == values.dtype.kind == "float" and self.dtype.numpy.itemsize <= values.dtype.numpy.itemsize:
            limits = np.finfo(self.dtype.value)
            values = xp.clip(values, float(limits.min), float(limits.max))
        return xp.astype(values, self.dtype)

    def rows(self) -> Tracer:
        """`(B, D)`; 0 in columns that no layer reads."""
        width = input_width(self.scope.folded.described)
        folds_of = [self._folds.get(variable, []) for variable in range(width)]
        columns = xp.zeros((width, self.count), dtype=self.dtype)
        for number in range(max(map(len, folds_of), default=0)):
            chosen = [entries[number] if number < len(entries) else ((0, 0), _NEVER) for entries in folds_of]
            values = read_folds(self._values, [value for value, _ in chosen], self.scope.constant)
            if all(reached_at == _ALWAYS for _, reached_at in chosen):
                columns = values
            else:
                reached = read_folds(self._reached, [reached_at for _, reached_at in chosen], self.scope.constant)
                columns = xp.where(reached, values, columns)
        return xp.permute_dims(columns, (1, 0))
