"""Calls of a compiled circuit while a function is traced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from plica.backend.torch.leaves import attribute_of
from plica.errors import InputError, UnsupportedError
from plica.lower.data import input_width
from plica.lower.leaves import opaque_keys
from plica.tracing.call import call_program
from plica.tracing.places import user_line
from plica.tracing.scope import Reference
from plica.tracing.tracer import Tracer

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit


def record_call(circuit: TorchCircuit, x: Tracer, parameters: Any = None) -> Any:
    """The circuit's value for a tracer: a nested Program, whose parameters are captured by reference.

    Entries that are no category make a row NaN; nothing raises.
    """
    if parameters is not None:
        raise UnsupportedError(
            f"{user_line()}: a function that plica.jit traces cannot give parameters to a circuit; call the circuit "
            "outside of it, or keep the numbers in the circuit's own leaves."
        )
    held = opaque_keys(circuit.symbolic)
    if held:
        raise UnsupportedError(
            f"{user_line()}: the circuit calls the module {next(iter(held))}, which a function that plica.jit traces "
            "cannot; call the circuit outside of it."
        )
    circuit.take_parameters(None)  # raises where a leaf has no value of its own
    width = input_width(circuit.symbolic)
    if x.ndim != 2 or x.dims[1] != width:
        raise InputError(f"{user_line()}: the circuit expects data of shape (B, {width}), found {x.aval}.")
    program = circuit.prepared(getattr(torch, x.dtype.value)).program
    leaves = [Reference(circuit.leaves, attribute_of(var.name)) for var in program.consts]
    (result,) = call_program(program, leaves, [x], "circuit")
    return result
