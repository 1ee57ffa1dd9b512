"""Checks of constants in a dtype: numbers that are infinite in it, and interval ends that round to one number."""

from collections.abc import Callable
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from plica.errors import InputError
from plica.ir.dtypes import DType
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.layers import InputRow, Layer, LayerRow, held_layers
from plica.symbolic.parameters import ConstantParameter, Parameter, dereferenced

_CHECKED: WeakKeyDictionary[Circuit, set[DType]] = WeakKeyDictionary()


def check_constants(circuit: Circuit, dtype: DType, row_of: Callable[[Layer], LayerRow | None]) -> None:
    """Refuse constants of a circuit that real numbers of `dtype` do not hold; each dtype is checked once.

    Args:
        circuit: The circuit as it was described.
        dtype: The dtype of real parameters.
        row_of: The row of a layer; None for a placeholder of another layer.

    Raises:
        InputError: A constant is finite and too large for the dtype, or numbers that must increase by finite steps do
            not in this dtype.
    """
    checked = _CHECKED.setdefault(circuit, set())
    if dtype in checked:
        return
    for layer in circuit.live.layers:
        for start, sub_layer in held_layers(layer):
            for name, parameter in sub_layer.evaluated_params.items():
                _check_size(circuit, layer, start + name, parameter, dtype)
            row = row_of(sub_layer)
            if isinstance(row, InputRow) and row.increasing:
                _check_steps(circuit, layer, start, [sub_layer.params[name] for name in row.increasing], row, dtype)
    checked.add(dtype)


def _check_size(circuit: Circuit, layer: Layer, name: str, parameter: Parameter, dtype: DType) -> None:
    for node in parameter.nodes:
        leaf = dereferenced(node)
        if not isinstance(leaf, ConstantParameter):
            continue
        value = np.asarray(leaf.value)
        parts = (value.real, value.imag) if leaf.dtype == DataType.COMPLEX else (value,)
        for part in parts:
            lost = np.isinf(_as(part, dtype)) & np.isfinite(part)
            if lost.any():
                number = float(part[lost][0])
                _refuse(circuit, layer, f"the constant {number:g} in its {name} is too large for {dtype.value}", dtype)


def _check_steps(
    circuit: Circuit, layer: Layer, start: str, parameters: list[Parameter], row: InputRow, dtype: DType
) -> None:
    leaves = [dereferenced(parameter.output) for parameter in parameters]
    constants = [leaf for leaf in leaves if isinstance(leaf, ConstantParameter)]
    if len(constants) < len(leaves):  # the layer checks others when it computes
        return
    values = [np.broadcast_to(np.asarray(leaf.value, np.float64), leaf.shape) for leaf in constants]
    numbers = values[0] if len(values) == 1 else np.stack(values, axis=-1)
    with np.errstate(over="ignore"):
        steps = np.diff(_as(numbers, dtype), axis=-1)
    wrong = np.argwhere(~((steps > 0) & np.isfinite(steps)))
    if len(wrong):
        index, last = tuple(wrong[0][:-1]), int(wrong[0][-1])
        low, high = (float(number) for number in numbers[(*index, slice(last, last + 2))])
        relation = "one number" if steps[tuple(wrong[0])] == 0 else "infinitely far apart"
        names = " and ".join(start + name for name in row.increasing)
        _refuse(circuit, layer, f"its {names} have {low!r} and {high!r}, which are {relation} in {dtype.value}", dtype)


def _as(numbers: NDArray[Any], dtype: DType) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        return numbers.astype(dtype.value)


def _refuse(circuit: Circuit, layer: Layer, what: str, dtype: DType) -> NoReturn:
    advice = "" if dtype == DType.FLOAT64 else "compile with dtype='float64', or "
    raise InputError(f"{circuit.layer_name(layer)}: {what}; {advice}rescale the numbers (and those of the data).")
