"""Data at hand, checked against a circuit: its shape, and the entries that are no state of their variable."""

from typing import final

import torch
from torch import Tensor

from plica.errors import DTypeError, InputError
from plica.lower.data import input_width, state_limits
from plica.symbolic.circuit import Circuit


@final
class DataCheck:
    """What data a circuit takes.

    Args:
        circuit: The circuit as it was described.
    """

    def __init__(self, circuit: Circuit) -> None:
        self._circuit = circuit
        self._width = input_width(circuit)
        self._limits = _limit_tensor(circuit)

    @property
    def width(self) -> int:
        """The number of columns."""
        return self._width

    @property
    def has_states(self) -> bool:
        """Whether some variable has states."""
        return self._limits is not None

    def check_shape(self, x: Tensor) -> None:
        """Raise where `x` is no real tensor of one column for each variable."""
        if not isinstance(x, Tensor):
            raise DTypeError(f"a circuit takes a torch tensor, found {type(x).__name__}; try torch.as_tensor(x).")
        if x.is_complex():
            raise DTypeError(f"a circuit takes integers or floats, found {x.dtype}; take real numbers.")
        if x.ndim != 2 or x.shape[1] != self._width:
            raise InputError(
                f"the circuit expects data of shape (B, {self._width}), one column for each variable up to "
                f"{self._width - 1}, found {tuple(x.shape)}; reshape or select columns."
            )

    def check(self, x: Tensor) -> None:
        """Raise where an entry of `x` is no state of its variable, or is missing and cannot be summed out."""
        wrong = self._wrong_entries(x)
        if wrong is None or not bool(wrong.any()):
            return
        row, column = (int(place) for place in wrong.nonzero()[0])
        value = x[row, column].item()
        if isinstance(value, float) and value != value:
            self._circuit.check_smooth_and_decomposable("a missing value (NaN)")
        assert self._limits is not None, "only states can be wrong"
        raise InputError(
            f"row {row}, variable {column}: the value {value:g} is none of the {int(self._limits[column])} states "
            f"0 to {int(self._limits[column]) - 1}; encode the data as these integers"
            f"{', or NaN where it is missing' if isinstance(value, float) else ''}."
        )

    def _wrong_entries(self, x: Tensor) -> Tensor | None:
        limits = self._limits
        properties = self._circuit.properties
        missing = torch.isnan(x) if x.is_floating_point() else None
        wrong = None
        if limits is not None:
            x = x.byte() if x.dtype == torch.bool else x
            limits = limits.to(x.device)
            state = limits.isfinite()
            wrong = state & ((x < 0) | (x >= limits) | (x != x.floor() if x.is_floating_point() else False))
            wrong = wrong if missing is None else wrong & ~missing
        if missing is not None and not (properties.smooth and properties.decomposable):
            wrong = missing if wrong is None else wrong | missing
        return wrong


def _limit_tensor(circuit: Circuit) -> Tensor | None:
    limits = torch.from_numpy(state_limits(circuit))
    return limits if bool(limits.isfinite().any()) else None
