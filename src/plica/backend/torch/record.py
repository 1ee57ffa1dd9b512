"""Calls of a compiled circuit while a function is traced."""

from collections.abc import Callable
from typing import Any

import torch

from plica.backend.torch.leaves import Leaves, attribute_of
from plica.errors import InputError, UnsupportedError
from plica.ir.program import Program
from plica.lower.data import input_width
from plica.lower.leaves import opaque_keys
from plica.symbolic.circuit import Circuit
from plica.tracing.call import call_program
from plica.tracing.locations import user_line
from plica.tracing.scope import Reference
from plica.tracing.tracer import Tracer


def record_call(
    circuit: Circuit,
    leaves: Leaves,
    program_of: Callable[[torch.dtype | None], Program],
    x: Tracer | None,
    parameters: Any = None,
) -> Any:
    """The circuit's value for a tracer, or without data: a nested Program, whose parameters are captured by reference.

    Entries that are no category make a row NaN; nothing raises.

    Args:
        circuit: The circuit as it was described.
        leaves: Its tensors.
        program_of: Gives the Program for data of a dtype; of None, without data.
        x: The data; None without variables.
        parameters: The parameters of the call, which a traced call cannot have.
    """
    if parameters is not None:
        raise UnsupportedError(
            f"{user_line()}: a function that plica.jit traces cannot give parameters to a circuit; call the circuit "
            "outside of it, or keep the numbers in the circuit's own leaves."
        )
    modules = opaque_keys(circuit)
    if modules:
        raise UnsupportedError(
            f"{user_line()}: the circuit calls the module {next(iter(modules))}, which a function that plica.jit "
            "traces cannot; call the circuit outside of it."
        )
    _check_data(circuit, x)
    program = program_of(None if x is None else getattr(torch, x.dtype.value))
    references = [Reference(leaves, attribute_of(var.name)) for var in program.consts]
    (result,) = call_program(program, references, [] if x is None else [x], "circuit")
    return result


def _check_data(circuit: Circuit, x: Tracer | None) -> None:
    """Refuse data of another width, and data of a circuit without variables."""
    width = input_width(circuit)
    if not width and x is not None:
        raise InputError(
            f"{user_line()}: the circuit has no variables left, found {x.aval}; call it without an argument: circuit()."
        )
    if width and (x is None or x.ndim != 2 or x.dims[1] != width):
        given = "nothing" if x is None else x.aval
        raise InputError(f"{user_line()}: the circuit expects data of shape (B, {width}), found {given}.")
