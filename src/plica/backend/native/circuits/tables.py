"""Tables that several Programs of a circuit look rows up in, kept once.

Data that may be missing has one more state for each fold, whose row stands for a variable that is summed out. Whoever
knows no missing data reads the same table, with other starts: the rows of its own are the first of each fold there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from plica.backend.native.circuits.operations import LOOKED_UP, sources_of
from plica.backend.native.circuits.with_constants import Array, ProgramWithConstants
from plica.backend.native.questions import Question
from plica.ir.dtypes import DType
from plica.ir.program import Equation, Operand, Var
from plica.ir.types import array_type
from plica.passes.replaced import names_of


def share_tables(questions: Sequence[Question]) -> list[Question]:
    """The questions, each with the largest tables of all that hold its own."""
    tables: dict[tuple[Var, Var], tuple[Array, Array]] = {}
    for question in questions:
        known = question.body.constants
        for table, starts in _lookups(question.body):
            tables[table, starts] = known[table], known[starts]
    largest = sorted(tables.values(), key=lambda one: -len(one[0]))
    return [replace(one, body=_with_tables(one.body, largest)) for one in questions]


def _lookups(body: ProgramWithConstants) -> Iterator[tuple[Var, Var]]:
    """Tables and starts."""
    for equation in body.program.equations:
        for table, _, _, starts in _looked_up(equation):
            if isinstance(table, Var) and isinstance(starts, Var) and {table, starts} <= body.constants.keys():
                yield table, starts


def _looked_up(equation: Equation) -> Iterator[tuple[Operand, ...]]:
    if equation.op.name == "look_up":
        yield equation.inputs
    elif equation.op.name == "sum_of_products":
        sources = sources_of(equation.inputs, equation.params["looked_up"])
        yield from (one for one in sources if len(one) == LOOKED_UP)


def _with_tables(body: ProgramWithConstants, tables: Sequence[tuple[Array, Array]]) -> ProgramWithConstants:
    new: dict[Var, Array] = {}
    replaced: dict[tuple[Operand, Operand], tuple[Var, Var]] = {}
    names = names_of(body.program)
    for table, starts in dict.fromkeys(_lookups(body)):
        found = _found(body.constants[table], body.constants[starts], tables)
        if found is None:
            continue
        pair = tuple(Var(names.fresh(), array_type(one.shape, DType(one.dtype.name))) for one in found)
        replaced[table, starts] = pair[0], pair[1]
        new.update(zip(pair, found, strict=True))
    if not replaced:
        return body
    equations = []
    for equation in body.program.equations:
        inputs = list(equation.inputs)
        for source in _looked_up(equation):
            if (source[0], source[3]) in replaced:
                places = range(len(inputs) - LOOKED_UP + 1)
                at = next(one for one in places if tuple(inputs[one : one + LOOKED_UP]) == source)
                inputs[at], inputs[at + 3] = replaced[source[0], source[3]]
        equations.append(replace(equation, inputs=tuple(inputs)))
    return body.rewritten(replace(body.program, equations=tuple(equations)), new)


def _found(table: Array, starts: Array, others: Sequence[tuple[Array, Array]]) -> tuple[Array, Array] | None:
    """A larger table that holds the rows, and where those of each fold begin there."""
    folds = np.unique(starts)
    states = len(table) // len(folds)
    if not np.array_equal(folds, np.arange(len(folds)) * states):
        return None
    for other, _ in others:
        more = len(other) // len(folds)
        if more <= states or len(other) != more * len(folds) or other.shape[1:] != table.shape[1:]:
            continue
        rows = other.reshape(len(folds), more, -1)[:, :states]
        if other.dtype == table.dtype and np.array_equal(rows, table.reshape(len(folds), states, -1)):
            return other, starts // states * more
    return None
