"""Shares the tables in which several Programs of a circuit look rows up.

Where data may be missing, a table has one more row for each fold, for a variable that is summed out. A Program without
missing data reads the same table with other starts: its rows are the first ones of each fold there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from plica.backend.native.circuits.operations import LOOKED_UP, sources_of
from plica.backend.native.circuits.with_constants import Array, ProgramWithConstants
from plica.backend.native.entry_programs import EntryProgram
from plica.ir.dtypes import DType
from plica.ir.program import Equation, Operand, Var
from plica.ir.types import array_type
from plica.passes.replacements import names_of


def share_tables(entry_programs: Sequence[EntryProgram]) -> list[EntryProgram]:
    """The entry points, each with the largest table that contains the rows of its own table."""
    tables: dict[tuple[Var, Var], tuple[Array, Array]] = {}
    for entry_program in entry_programs:
        known = entry_program.body.constants
        for table, starts in _lookups(entry_program.body):
            tables[table, starts] = known[table], known[starts]
    largest = sorted(tables.values(), key=lambda pair: -len(pair[0]))
    return [replace(entry_program, body=_with_tables(entry_program.body, largest)) for entry_program in entry_programs]


def _lookups(body: ProgramWithConstants) -> Iterator[tuple[Var, Var]]:
    """The constant tables and starts of all lookups."""
    for equation in body.program.equations:
        for table, _, _, starts in _looked_up(equation):
            if isinstance(table, Var) and isinstance(starts, Var) and {table, starts} <= body.constants.keys():
                yield table, starts


def _looked_up(equation: Equation) -> Iterator[tuple[Operand, ...]]:
    if equation.op.name == "look_up":
        yield equation.inputs
    elif equation.op.name == "sum_of_products":
        sources = sources_of(equation.inputs, equation.params["looked_up"])
        yield from (source for source in sources if len(source) == LOOKED_UP)


def _with_tables(body: ProgramWithConstants, tables: Sequence[tuple[Array, Array]]) -> ProgramWithConstants:
    new: dict[Var, Array] = {}
    replaced: dict[tuple[Operand, Operand], tuple[Var, Var]] = {}
    names = names_of(body.program)
    for table, starts in dict.fromkeys(_lookups(body)):
        shared = _larger_table(body.constants[table], body.constants[starts], tables)
        if shared is None:
            continue
        pair = tuple(Var(names.fresh(), array_type(array.shape, DType(array.dtype.name))) for array in shared)
        replaced[table, starts] = pair[0], pair[1]
        new.update(zip(pair, shared, strict=True))
    if not replaced:
        return body
    equations = []
    for equation in body.program.equations:
        inputs = list(equation.inputs)
        for source in _looked_up(equation):
            if (source[0], source[3]) in replaced:
                starts_of_sources = range(len(inputs) - LOOKED_UP + 1)
                first = next(start for start in starts_of_sources if tuple(inputs[start : start + LOOKED_UP]) == source)
                inputs[first], inputs[first + 3] = replaced[source[0], source[3]]
        equations.append(replace(equation, inputs=tuple(inputs)))
    return body.rewritten(replace(body.program, equations=tuple(equations)), new)


def _larger_table(table: Array, starts: Array, tables: Sequence[tuple[Array, Array]]) -> tuple[Array, Array] | None:
    """The first of `tables` that is larger and contains the same rows, and where each fold's rows begin in it."""
    folds = np.unique(starts)
    states = len(table) // len(folds)
    if not np.array_equal(folds, np.arange(len(folds)) * states):
        return None
    for candidate, _ in tables:
        rows_per_fold = len(candidate) // len(folds)
        if (
            rows_per_fold <= states
            or len(candidate) != rows_per_fold * len(folds)
            or candidate.shape[1:] != table.shape[1:]
        ):
            continue
        rows = candidate.reshape(len(folds), rows_per_fold, -1)[:, :states]
        if candidate.dtype == table.dtype and np.array_equal(rows, table.reshape(len(folds), states, -1)):
            return candidate, starts // states * rows_per_fold
    return None
