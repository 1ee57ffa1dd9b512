"""Exponents of what rows are divided by, where nothing but logarithms of these powers of two is read.

    log2(powers) -> exponents;  log2(concat(powers, ...)) -> concat(exponents, ...)

A layer knows the exponents anyway; a logarithm of each costs more than what it is computed for.
"""

from __future__ import annotations

from dataclasses import replace

from plica.backend.native.circuits.operations import EXPONENTS
from plica.ir.program import Equation, Operand, Program


def with_exponents(program: Program) -> Program:
    """The Program without logarithms of powers that its layers rescale by."""
    found = _read_by_logarithms(program)
    gone: dict[Operand, Operand] = {
        one.outputs[0]: one.inputs[0] for one in program.equations if one.op.name == "log2" and one.inputs[0] in found
    }
    equations = []
    for equation in program.equations:
        if equation.outputs[0] in gone:
            continue
        params = equation.params
        if equation.op.name == "sum_of_products" and equation.outputs[-1] in found:
            params = {**params, "rescaled": EXPONENTS}
        inputs = tuple(gone.get(one, one) for one in equation.inputs)
        equations.append(replace(equation, inputs=inputs, params=params))
    outputs = tuple(gone.get(one, one) for one in program.outputs)
    return replace(program, equations=tuple(equations), outputs=outputs)


def _read_by_logarithms(program: Program) -> dict[Operand, None]:
    """The powers, and joins of them, that logarithms and such joins alone read."""
    readers: dict[Operand, list[Equation]] = {}
    for equation in program.equations:
        for one in equation.inputs:
            readers.setdefault(one, []).append(equation)
    layers = [one for one in program.equations if one.op.name == "sum_of_products" and one.params["rescaled"]]
    found: dict[Operand, None] = dict.fromkeys(one.outputs[1] for one in layers)
    joins = [one for one in program.equations if one.op.name == "concat" and all(x in found for x in one.inputs)]
    found.update(dict.fromkeys(one.outputs[0] for one in joins))
    while True:
        wrong: list[Operand] = [one.outputs[0] for one in joins if any(x not in found for x in one.inputs)]
        wrong += [
            var
            for var in found
            if var in program.outputs
            or not all(one.op.name == "log2" or one.outputs[0] in found for one in readers.get(var, ()))
        ]
        if not any(one in found for one in wrong):
            return found
        for one in wrong:
            found.pop(one, None)
