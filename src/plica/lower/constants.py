"""Refuses constants of a circuit that do not fit a dtype: infinite in it, or ends of an interval that become equal."""

from collections.abc import Callable, Mapping
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
    """Refuse constants of a circuit that `dtype` cannot represent; a circuit is checked once for each dtype.

    Layers that no output depends on are not checked.

    Args:
        circuit: The circuit as the user described it, since errors name its layers.
        dtype: The dtype of real parameters.
        row_of: The registry entry of a layer; None for a placeholder that stands for other layers.

    Raises:
        InputError: A finite constant is infinite in the dtype; or of two numbers that must increase, such as the ends
            of an interval, the second is not larger in the dtype, or infinitely far away.
    """
    checked = _CHECKED.setdefault(circuit, set())
    if dtype in checked:
        return
    for layer in circuit.live.layers:
        for prefix, sub_layer in held_layers(layer):
            for name, parameter in sub_layer.evaluated_params.items():
                _check_size(circuit, layer, prefix + name, parameter, dtype)
            row = row_of(sub_layer)
            if isinstance(row, InputRow) and row.increasing:
                parameters = {prefix + name: sub_layer.params[name] for name in row.increasing}
                _check_steps(circuit, layer, parameters, dtype)
    checked.add(dtype)


def _check_size(circuit: Circuit, layer: Layer, name: str, parameter: Parameter, dtype: DType) -> None:
    """Refuse a constant in the parameter `name` of a layer that is finite, and infinite in `dtype`."""
    for node in parameter.nodes:
        leaf = dereferenced(node)
        if not isinstance(leaf, ConstantParameter):
            continue
        value = np.asarray(leaf.value)
        parts = (value.real, value.imag) if leaf.dtype == DataType.COMPLEX else (value,)
        for part in parts:
            overflows = np.isinf(_rounded(part, dtype)) & np.isfinite(part)
            if overflows.any():
                number = float(part[overflows][0])
                _refuse(circuit, layer, f"the constant {number:g} in its {name} is too large for {dtype.value}", dtype)


def _check_steps(circuit: Circuit, layer: Layer, parameters: Mapping[str, Parameter], dtype: DType) -> None:
    """Refuse constants that do not increase by finite steps in `dtype`.

    They increase along the last axis of a single parameter, or from each parameter to the next (`InputRow.increasing`).
    """
    leaves = [dereferenced(parameter.output) for parameter in parameters.values()]
    constants = [leaf for leaf in leaves if isinstance(leaf, ConstantParameter)]
    if len(constants) < len(leaves):  # the layer checks learned and computed parameters at run time
        return
    values = [np.broadcast_to(np.asarray(leaf.value, np.float64), leaf.shape) for leaf in constants]
    numbers = values[0] if len(values) == 1 else np.stack(values, axis=-1)
    with np.errstate(over="ignore"):
        steps = np.diff(_rounded(numbers, dtype), axis=-1)
    wrong = np.argwhere(~((steps > 0) & np.isfinite(steps)))
    if len(wrong):
        index, last = tuple(wrong[0][:-1]), int(wrong[0][-1])
        low, high = (float(number) for number in numbers[(*index, slice(last, last + 2))])
        relation = "one number" if steps[tuple(wrong[0])] == 0 else "infinitely far apart"
        names = " and ".join(parameters)
        _refuse(circuit, layer, f"its {names} have {low!r} and {high!r}, which are {relation} in {dtype.value}", dtype)


def _rounded(numbers: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Numbers in `dtype`; too large ones become infinite."""
    with np.errstate(over="ignore"):
        return numbers.astype(dtype.value)


def _refuse(circuit: Circuit, layer: Layer, problem: str, dtype: DType) -> NoReturn:
    advice = "" if dtype == DType.FLOAT64 else "compile with dtype='float64', or "
    raise InputError(f"{circuit.layer_name(layer)}: {problem}; {advice}rescale the numbers (and those of the data).")
