"""Replaces the powers of two that rows were divided by with their exponents, if only logarithms read the powers.

    log2(powers) -> exponents;  log2(concat(powers, ...)) -> concat(exponents, ...)

A layer knows the exponents. To compute the logarithm of each power costs more than the sum of the logarithms.
"""

from __future__ import annotations

from dataclasses import replace

from plica.backend.native.circuits.operations import EXPONENTS
from plica.ir.program import Equation, Operand, Program


def with_exponents(program: Program) -> Program:
    """The Program without logarithms of the powers that its layers divide rows by."""
    powers = _read_by_logarithms(program)
    exponent_of: dict[Operand, Operand] = {
        equation.outputs[0]: equation.inputs[0]
        for equation in program.equations
        if equation.op.name == "log2" and equation.inputs[0] in powers
    }
    equations = []
    for equation in program.equations:
        if equation.outputs[0] in exponent_of:
            continue
        params = equation.params
        if equation.op.name == "sum_of_products" and equation.outputs[-1] in powers:
            params = {**params, "rescaled": EXPONENTS}
        inputs = tuple(exponent_of.get(operand, operand) for operand in equation.inputs)
        equations.append(replace(equation, inputs=inputs, params=params))
    outputs = tuple(exponent_of.get(output, output) for output in program.outputs)
    return replace(program, equations=tuple(equations), outputs=outputs)


def _read_by_logarithms(program: Program) -> dict[Operand, None]:
    """The powers, and concatenations of powers, whose only readers are logarithms and such concatenations."""
    readers: dict[Operand, list[Equation]] = {}
    for equation in program.equations:
        for operand in equation.inputs:
            readers.setdefault(operand, []).append(equation)
    layers = [
        equation
        for equation in program.equations
        if equation.op.name == "sum_of_products" and equation.params["rescaled"]
    ]
    powers: dict[Operand, None] = dict.fromkeys(layer.outputs[1] for layer in layers)
    joins = [
        equation
        for equation in program.equations
        if equation.op.name == "concat" and all(x in powers for x in equation.inputs)
    ]
    powers.update(dict.fromkeys(join.outputs[0] for join in joins))
    while True:
        otherwise_read: list[Operand] = [join.outputs[0] for join in joins if any(x not in powers for x in join.inputs)]
        otherwise_read += [
            var
            for var in powers
            if var in program.outputs
            or not all(reader.op.name == "log2" or reader.outputs[0] in powers for reader in readers.get(var, ()))
        ]
        if not any(power in powers for power in otherwise_read):
            return powers
        for operand in otherwise_read:
            powers.pop(operand, None)
