"""`compile`: circuits, Programs and functions in one file that runs without the library that they were trained with.

plica.native.compile("digits.plica", path="digits.plicab")
plica.native.load("digits.plicab")(x)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plica.backend.native.circuits.choices import choice_entry_program
from plica.backend.native.circuits.scores import require_no_opaque_modules, score_entry_programs, with_joined_trees
from plica.backend.native.circuits.tables import share_tables
from plica.backend.native.circuits.updatable import UpdatableConstant
from plica.backend.native.circuits.with_constants import with_constants
from plica.backend.native.entry_programs import EntryProgram
from plica.backend.native.file import TENSORS, file_of
from plica.backend.native.targets import target_of
from plica.errors import InputError, UnsupportedError
from plica.files.native_tables import table_as_json
from plica.frontend.circuits import with_arrays
from plica.frontend.folding import FoldedProgram
from plica.frontend.native_trees import with_trees
from plica.frontend.native_updates import (
    Updatable,
    check_weights,
    non_negative_checks,
    updatable_leaves,
    updatable_program,
)
from plica.ir.dtypes import DType
from plica.ir.program import Bound, Program
from plica.logger import LOGGER
from plica.lower.arrays import CircuitArrays
from plica.lower.compiled import CompiledCircuit
from plica.lower.data import column_domains
from plica.lower.leaves import Leaf
from plica.lower.queries.query import Choosing, Entry, Query, Upward
from plica.paths import as_path, check_is_other, check_is_target
from plica.runtime.container import write
from plica.runtime.signature import PrivateKey
from plica.symbolic.semirings import LSE_SUM

_MAX_ROWS_ALONE: Mapping[str, int] = {"local-sync": 2**48, "local-task": 0}
"""The most rows that the calling thread computes alone, by drivers; no call has as many as for `local-sync`."""
_CHOSEN_BY_KIND = {
    "log_likelihood",
    "marginal",
}  # `module(x)` calls the one whose data has the kind of x: integers, floats


def compile(  # noqa: A001 - the word of the field
    model: Any,
    path: str | os.PathLike[str],
    *,
    targets: str | Sequence[str] = ("host",),
    queries: str | Sequence[str] | None = None,
    updatable: Updatable = (),
    driver: str | None = None,
    key: PrivateKey | None = None,
    embedded: bool = True,
) -> None:
    """Write a native file.

    Args:
        model: One of these: a compiled circuit; a circuit, which the active context compiles (without a context, it
            gets the values of its initializers); the path of a model file; a Program with or without its captured
            arrays; a compiled function (`plica.jit`) that was called or has annotations. Without a context, neither
            circuits nor model files need torch.
        path: The path of the file; a file that exists is replaced in one step.
        targets: The machines that the file is for, the best first: "host", or names of `plica.backend.native.targets`.
        queries: The questions to a circuit, the main one first: "log-likelihood" (the default, with "marginal" where
            data of integers cannot be missing), "marginal", "sample", "conditional-sample", "mpe", and the entries of
            further queries of the circuit's context.
        updatable: The arrays that `NativeModule.update` may replace: tensors of a circuit, by their keys in its state
            dict, or True for all of them; arguments of a Program with their first values, by name, and arrays that it
            captures, by any names.
        driver: "local-sync" computes all rows of a call on the calling thread, "local-task" on several threads. By
            default, several threads compute calls of so many rows that this is faster. Functions have no rows, and run
            on one thread.
        key: The Ed25519 private key, as 32 bytes, to sign the file with.
        embedded: Whether the file contains the arrays; else a second file does, whose name contains their hash.

    Raises:
        InputError: There is no such target, query, driver or array.
        UnsupportedError: A part of the model, which the message names, has no native code; or the driver would run a
            function on several threads.
        MissingExtraError: A compiler is not installed (`pip install '.[native]'` in a checkout).
        FileFormatError: The file cannot be written, or `path` is the model file itself.
    """
    if driver is not None and driver not in _MAX_ROWS_ALONE:
        raise InputError(f"there is no driver {driver!r}; there are {', '.join(_MAX_ROWS_ALONE)}.")
    # "host" may be one of the others
    chosen = list(dict.fromkeys(map(target_of, (targets,) if isinstance(targets, str) else targets)))
    if not chosen:
        raise InputError("a native file is for at least one target; give 'host'.")
    check_is_target(path)
    if isinstance(model, str | os.PathLike):
        check_is_other(as_path(path), as_path(model))
    loaded = with_arrays(model)
    entry_programs = _with_joined_trees(
        entry_programs_of(loaded, (queries,) if isinstance(queries, str) else queries, updatable)
    )
    if driver is not None:
        entry_programs = [_with_driver(entry_program, driver) for entry_program in entry_programs]
    also = [
        entry_program.name
        for entry_program in entry_programs
        if {entry_program.name, entry_programs[0].name} == _CHOSEN_BY_KIND
    ]
    parts, manifest = file_of(entry_programs, chosen, {"source": _source(loaded)}, also)
    if isinstance(loaded, CircuitArrays) and loaded.encoding is not None:
        domains = column_domains(loaded.compiled.symbolic)
        manifest = replace(manifest, encoding=table_as_json(loaded.encoding, domains))
    write(path, parts, manifest, key, beside=() if embedded else (TENSORS,))
    LOGGER.info("wrote %s: %d entries, %d bytes", path, len(manifest.entries), as_path(path).stat().st_size)


def entry_programs_of(
    model: Any, queries: Sequence[str] | None = None, updatable: Updatable = ()
) -> list[EntryProgram]:
    """The entry points of a native file of a model, the main one first."""
    model = with_arrays(model)
    if isinstance(model, Program | Bound):
        return [_of_program(model, "main", queries, updatable)]
    if isinstance(model, FoldedProgram):
        return [_of_folded(model, queries, updatable)]
    if isinstance(model, CircuitArrays):
        return share_tables(list(_of_circuit(model, queries, updatable)))
    bound = getattr(model, "bound", None)
    if isinstance(bound, Bound):
        return [with_trees(_of_program(bound, "main", queries, updatable), bound.program, *_trees(model))]
    raise InputError(
        f"native code is made of circuits, model files, Programs (plica.trace) and compiled functions, found "
        f"{type(model).__name__}; compile or trace it first."
    )


def _trees(model: Any) -> tuple[Mapping[str, Any], Any]:
    """The arguments and results of a function as trees, or those of a Program: an array, or a tuple of several."""
    if hasattr(model, "trees"):
        trees: tuple[Mapping[str, Any], Any] = model.trees
        return trees
    program = model.program
    results = tuple(range(len(program.results))) if len(program.results) > 1 else 0
    return {var.name: index for index, var in enumerate(program.arguments)}, results


def _with_joined_trees(entry_programs: Sequence[EntryProgram]) -> list[EntryProgram]:
    """The entry points, those of circuits with layers joined; entry points without rows have no circuit."""
    return [
        with_joined_trees(entry_program) if entry_program.rows else entry_program for entry_program in entry_programs
    ]


def _with_driver(entry_program: EntryProgram, driver: str) -> EntryProgram:
    """The entry point, with the number of rows up to which a driver uses only the calling thread."""
    if not entry_program.rows and not _MAX_ROWS_ALONE[driver]:
        raise UnsupportedError(
            f"{entry_program.name} has no rows that threads could share, so that the thread that calls runs it alone; "
            f"leave out driver={driver!r}."
        )
    return replace(entry_program, alone=_MAX_ROWS_ALONE[driver])


def _source(model: Any) -> str:
    return repr(model.compiled.symbolic) if isinstance(model, CircuitArrays) else type(model).__name__


def _of_folded(model: FoldedProgram, queries: Sequence[str] | None, updatable: Updatable) -> EntryProgram:
    """The entry point of a folded Program: compile-time constants are fixed, and run-time constants may be replaced."""
    first_values = updatable if isinstance(updatable, Mapping) else {}
    missing = [name for name in model.run_time if name not in model.leaves and name not in first_values]
    if missing:
        raise InputError(
            f"the values of {', '.join(missing)} are not known; give the first ones, as updatable={{{missing[0]!r}: "
            "array}}."
        )
    program = model.program
    fixed = [var for var in program.arguments if var.name in model.compile_time]
    inputs = tuple(var for var in program.inputs if var not in fixed)
    leaves = {**model.leaves, **model.compile_time}
    consts = (*program.consts, *fixed)
    known = tuple(leaves[var.name] for var in consts if var.name in leaves)
    return _of_program(Bound(replace(program, consts=consts, inputs=inputs), known), "main", queries, updatable)


def _of_program(
    program: Program | Bound, name: str, queries: Sequence[str] | None, updatable: Updatable
) -> EntryProgram:
    if queries:
        raise InputError(f"queries are asked of circuits, found {', '.join(queries)} for a Program; leave them out.")
    bound = program if isinstance(program, Bound) else Bound(program, ())
    if len(bound.leaves) != len(bound.program.consts):
        raise InputError(
            f"the Program captures {len(bound.program.consts)} arrays whose values are not known; give the `bound` of "
            "a compiled function."
        )
    program_with_consts, arrays = updatable_program(bound, updatable)
    block = with_constants(program_with_consts, arrays)
    count = len(block.program.results)
    results = ("result",) if count == 1 else tuple(f"result{index}" for index in range(count))
    return EntryProgram(
        name, block, results, updatable=tuple(array for array in arrays if isinstance(array, UpdatableConstant))
    )


# Circuits


@dataclass(frozen=True, slots=True)
class _Circuit:
    """A compiled circuit with its current arrays.

    Args:
        compiled: The circuit.
        leaves: The array of each leaf, or the updatable constant that holds it.
        dtype: The dtype of its real numbers.
        data_dtype: The dtype of data without missing values.
    """

    compiled: CompiledCircuit
    leaves: Sequence[tuple[Leaf, Any]]
    dtype: DType
    data_dtype: DType

    @property
    def entries(self) -> Mapping[str, tuple[Query[Any], Entry]]:
        """The entries that a file may have, by the names that callers use.

        Raises:
            InputError: Two queries have an entry of one name.
        """
        entries: dict[str, tuple[Query[Any], Entry]] = {}
        functions: dict[str, Query[Any]] = {}
        for query in self.compiled.queries.values():
            for entry in query.entries:
                entries[entry.name] = (query, entry)
                other = functions.setdefault(entry.function, query)
                if other is not query:
                    raise InputError(
                        f"{other.function} and {query.function} both have an entry {entry.name!r}; rename one of them."
                    )
        return entries

    def entry_programs(self, name: str) -> Iterator[EntryProgram]:
        """The functions of a file that answer an entry."""
        query, entry = self.entries[name]
        yield from _BY_POLICY[type(query.policy)](self, query, entry)

    def data_of(self, entry: Entry, real: DType) -> DType | None:
        """The dtype of the rows that an entry takes, if real numbers have dtype `real`; None if it takes no rows."""
        if entry.data == "none":
            return None
        return real if entry.data == "floats" and self.data_dtype.kind == "int" else self.data_dtype


def _scored(circuit: _Circuit, query: Query[Upward], entry: Entry) -> Iterator[EntryProgram]:  # noqa: ARG001
    folded, semiring, dtype = circuit.compiled.folded, circuit.compiled.semiring, circuit.dtype
    data = circuit.data_of(entry, dtype)
    assert data is not None, "a score is of rows"
    text = entry.text.format(missing="; NaN: missing, summed out" if data.kind == "float" else "")
    return score_entry_programs(folded, semiring, dtype, data, circuit.leaves, entry.function, text)


def _chosen(circuit: _Circuit, query: Query[Choosing], entry: Entry) -> Iterator[EntryProgram]:
    real = DType.FLOAT32 if circuit.dtype == DType.FLOAT16 else circuit.dtype
    data = circuit.data_of(entry, real)
    folded, leaves = circuit.compiled.folded, circuit.leaves
    yield choice_entry_program(query, folded, real, data, leaves, entry.function, entry.text)


_BY_POLICY: Mapping[type, Callable[..., Iterator[EntryProgram]]] = {Upward: _scored, Choosing: _chosen}


def _check_weights(circuit: CircuitArrays) -> None:
    """Refuse weights that are NaN, and those that have become negative where the semiring carries no such numbers."""
    names = circuit.compiled.keys
    for leaf, array in circuit.leaves:
        if array.dtype.kind in "fc" and np.isnan(array).any():
            fold = int(np.argwhere(np.isnan(array))[0, 0])
            raise InputError(
                f"{names.get(leaf.members[fold], 'a weight')}: some entries are NaN, and so would be every answer; "
                "train the model anew, with a smaller learning rate or in float64"
            )
    check_weights(circuit)


def _of_circuit(circuit: CircuitArrays, queries: Sequence[str] | None, updatable: Updatable) -> Iterator[EntryProgram]:
    compiled, dtype = circuit.compiled, circuit.dtype
    file_circuit = _Circuit(
        compiled,
        updatable_leaves(compiled.folded, circuit.leaves, updatable) if updatable else circuit.leaves,
        dtype,
        compiled.usual_input(dtype) if compiled.folded.scope else DType.FLOAT32,
    )
    require_no_opaque_modules(compiled.folded, "native code")
    _check_weights(circuit)
    if queries is None:
        queries = ["log-likelihood", *(["marginal"] if file_circuit.data_dtype.kind == "int" else [])]
    query_names = list(dict.fromkeys(queries))
    if not query_names:
        raise InputError(f"a native file answers at least one query; there are {', '.join(file_circuit.entries)}.")
    for name in query_names:
        if name not in file_circuit.entries:
            raise InputError(
                f"there is no query {name!r} of native files; there are {', '.join(file_circuit.entries)}."
            )
    if not updatable:
        for name in query_names:
            yield from file_circuit.entry_programs(name)
        return
    main, *others = [entry_program for name in query_names for entry_program in file_circuit.entry_programs(name)]
    arrays = tuple(array for _, array in file_circuit.leaves if isinstance(array, UpdatableConstant))
    number_format = (
        LSE_SUM if any(entry_program.non_negative for entry_program in (main, *others)) else compiled.semiring
    )
    checks = non_negative_checks(compiled, number_format, file_circuit.dtype, file_circuit.leaves)
    yield replace(main, updatable=arrays, non_negative=(*checks, *main.non_negative))
    yield from others


__all__ = ["UnsupportedError", "compile", "entry_programs_of"]
