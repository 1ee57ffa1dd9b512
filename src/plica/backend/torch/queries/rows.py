"""Checks of the arguments of queries: rows that a circuit can read, counts, tensors with numbers."""

from __future__ import annotations

import operator
from typing import Any, NoReturn

import torch
from torch import Tensor

from plica.arguments import found, shown
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.values import cached
from plica.errors import DTypeError, InputError, StructuralPropertyError, UnsupportedError
from plica.lower.data import fills_whole
from plica.lower.queries.needs import Needs


def device_of(circuit: TorchCircuit, query: str) -> torch.device:
    """Where a circuit's tensors are, if there are numbers.

    Raises:
        UnsupportedError: The circuit is on the meta device.
    """
    device = circuit.leaves.device
    if device.type == "meta":
        raise UnsupportedError(
            f"{query}: the circuit is on the device meta, where tensors have no numbers; give it some, as "
            "circuit.to_empty(device='cpu') and load_state_dict do."
        )
    return device


def whole_layers(circuit: TorchCircuit, needs: Needs, x: Tensor) -> Tensor:
    """Rows in a dtype that Programs have, checked: some layers are filled in as a whole or not at all.

    Raises:
        InputError: A row does not fit the circuit, or has some of the variables of such a layer.
    """
    x = circuit.converted(x)
    several = cached(
        circuit,
        ("layers that are filled in as a whole",),
        lambda: [layer for layer in circuit.symbolic.live.input_layers if fills_whole(circuit.folded, layer)],
    )
    for layer in several if x.is_floating_point() else ():
        missing = x[:, list(layer.scope)].isnan()
        some = (missing.any(1) & missing.logical_not().any(1)).nonzero()
        if len(some):
            raise InputError(
                f"row {int(some[0])}: {needs.name} fills in all variables {layer.scope!s} of "
                f"{circuit.symbolic.layer_name(layer)} or none, and the row has some of them; give all of them, or "
                "make all of them missing."
            )
    return circuit.checked(x, needs.carrier(circuit.semiring))


def floating(x: Tensor) -> Tensor:
    """Rows in a dtype that has NaN, and all numbers that states and counts come to."""
    return x if x.is_floating_point() else x.to(torch.float32 if x.itemsize < 3 else torch.float64)


def mask_of(name: str, mask: Any, x: Tensor) -> Tensor:
    """A mask `(B, D)` for rows, from one of that shape or one `(D,)` for all of them.

    Raises:
        DTypeError: `mask` is no mask of booleans.
        InputError: `mask` has another shape.
    """
    try:
        given = torch.as_tensor(mask)
    except (TypeError, ValueError, RuntimeError):
        given = None
    if given is None or given.dtype != torch.bool:
        raise DTypeError(
            f"{name} is a mask of booleans, true or false for each entry of the data, found "
            f"{f'{mask!r:.80}' if given is None else given.dtype}; "
            f"compare to make one: {name}=numbers > 0, for instance."
        )
    if given.is_meta or given.layout is not torch.strided:
        raise DTypeError(
            f"{name} is a mask with a value for each entry, found a tensor that is "
            f"{'on the meta device' if given.is_meta else given.layout}; pass a dense one on {x.device}."
        )
    if given.shape not in (x.shape, x.shape[1:], (1, x.shape[1])):
        raise InputError(
            f"{name} has shape {tuple(given.shape)}, expected {tuple(x.shape)}, one entry for each of the data, or "
            f"{tuple(x.shape[1:])} for all rows alike."
        )
    return given.to(x.device).expand(x.shape)


def count(name: str, value: int) -> int:
    """A number that is no less than 0.

    Raises:
        InputError: `value` is no integer, or negative.
    """
    number = integer(name, value)
    if number < 0:
        raise InputError(f"{name} is {number}, expected at least 0.")
    return number


def integer(name: str, value: int) -> int:
    """A number without a fraction, of any library.

    Raises:
        InputError: `value` is no integer.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(f"{name} is {shown(value)}, expected an integer.") from None


def circuit_of(query: str, circuit: Any) -> TorchCircuit:
    """A compiled circuit.

    Raises:
        DTypeError: `circuit` is no compiled circuit.
    """
    if not isinstance(circuit, TorchCircuit):
        raise DTypeError(f"{query} takes a compiled circuit, {found(circuit)}; compile it: plica.compile(circuit).")
    return circuit


def check_total(log_value: Tensor) -> None:
    """Raise where the circuit's total is zero or not finite."""
    if not bool(torch.isfinite(log_value).all()):
        raise InputError(
            f"the logarithm of the circuit's total is {float(log_value)}, so there is nothing to sample from; "
            "check the weights for zeros or NaN."
        )


def check_known(log_value: Tensor, times: int, so: str = "nothing to sample from") -> None:
    """Raise if the evidence of a row, which stands for `times` rows, has probability zero."""
    wrong = torch.isfinite(log_value).logical_not().nonzero()
    if len(wrong):
        row = int(wrong[0])
        raise InputError(
            f"row {row // times}: the logarithm of the probability of the given values is {float(log_value[row])}, so "
            f"there is {so}; give values of positive probability."
        )


def refuse_signs(query: str, name: str) -> NoReturn:
    """Raise because a weight is negative.

    Args:
        query: The function by which users ask.
        name: The query's name in messages.

    Raises:
        StructuralPropertyError: Always.
    """
    squares = ", or ask its square, plica.templates.squared(circuit)" if query in OF_SQUARES else ""
    raise StructuralPropertyError(
        f"{name} needs weights that are not negative, but a layer has a negative one (or NaN); keep the weights "
        f"positive (softmax, for instance){squares}."
    )


OF_SQUARES = ("sample", "posterior", "mean", "variance", "quantile", "mpe_bounds")
"""The queries that squares answer by functions of their own (`squares.py`)."""
