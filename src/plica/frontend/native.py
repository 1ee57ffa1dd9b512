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
from numpy.typing import NDArray

from plica.backend.native.build import COMMAND
from plica.backend.native.circuits.choices import choice_question
from plica.backend.native.circuits.scores import check_is_closed, score_questions, walked
from plica.backend.native.circuits.tables import share_tables
from plica.backend.native.circuits.updatable import UpdatableConstant
from plica.backend.native.circuits.with_constants import with_constants
from plica.backend.native.file import TENSORS, Store, file_of, module_of
from plica.backend.native.questions import Question
from plica.backend.native.targets import target_of
from plica.errors import InputError, UnsupportedError
from plica.frontend.circuits import taken_model
from plica.frontend.folding import FoldedProgram
from plica.frontend.native_trees import with_trees
from plica.frontend.native_updates import Updatable, check_weights, floors_of, updatable_leaves, updatable_program
from plica.ir.dtypes import DType
from plica.ir.program import Bound, Program
from plica.lower.arrays import CircuitArrays
from plica.lower.compiled import CompiledCircuit
from plica.lower.leaves import Leaf
from plica.lower.queries.query import Choosing, Entry, Query, Upward
from plica.paths import as_path, check_is_other
from plica.runtime.container import write
from plica.runtime.signature import PrivateKey
from plica.symbolic.semirings import LSE_SUM

_DRIVERS = ("local-sync", "local-task")
_OF_KINDS = {"log_likelihood", "marginal"}  # of which `module(x)` asks the one whose data is of the kind of x


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
        model: A compiled circuit; a circuit, as the active context has compiled it, or with the values of its
            initializers; the path of a model file; a Program with or without what it captures; or a compiled function
            (`plica.jit`) that was called, or whose arguments are told. Without a context, neither circuits nor model
            files need torch.
        path: Where; what is there is replaced in one step.
        targets: The machines that it is for, the best first: "host", or as `plica.backend.native.targets` names them.
        queries: What is asked of a circuit, the main question first: "log-likelihood" (the default, with "marginal"
            where data of integers cannot be missing), "marginal", "sample", "conditional-sample", "mpe", and the
            entries of further queries of the circuit's context.
        updatable: What `NativeModule.update` may replace: tensors of a circuit, by their keys in its state dict, or
            True for all of them; arguments of a Program with their first values, by name, and arrays that it
            captures, by any names.
        driver: What runs the code: "local-sync", one thread for each call, or "local-task", several; by default
            several where a call of a circuit has so many rows that these are faster. Questions with loops or branches
            of the host are answered by one.
        key: The Ed25519 private key, as 32 bytes, to sign the file with.
        embedded: Whether the arrays stand in the file; else in one beside it, whose name holds their hash.

    Raises:
        InputError: There is no such target, query, driver or array.
        UnsupportedError: Something of the model has no native code, or a function has loops or branches of the host
            and is to run on several threads; the message names it.
        FileFormatError: Nothing can be written there, or it is the model file that is read.
    """
    if driver is not None and driver not in _DRIVERS:
        raise InputError(f"there is no driver {driver!r}; there are {', '.join(_DRIVERS)}.")
    # "host" may be one of the others
    chosen = list(dict.fromkeys(map(target_of, (targets,) if isinstance(targets, str) else targets)))
    if not chosen:
        raise InputError("a native file is for at least one target; give 'host'.")
    if isinstance(model, str | os.PathLike):
        check_is_other(as_path(path), as_path(model))
    taken = taken_model(model)
    questions = _walked(questions_of(taken, (queries,) if isinstance(queries, str) else queries, updatable))
    if driver is not None:
        questions = [replace(one, alone=0) for one in questions]
    usual = _DRIVERS[any(one.rows for one in questions)]
    also = [one.name for one in questions if {one.name, questions[0].name} == _OF_KINDS]
    parts, manifest = file_of(questions, chosen, driver or usual, {"source": _source(taken)}, also)
    write(path, parts, manifest, key, beside=() if embedded else (TENSORS,))


def mlir(
    model: Any, queries: str | Sequence[str] | None = None, *, embedded: bool = False
) -> tuple[str, Mapping[str, NDArray[Any]]]:
    """The module of a native file as MLIR text, and the arrays that it reads as parameters of the scope "plica".

    Its first line says how `iree-compile` makes code of it.

    Args:
        model: As for `compile`.
        queries: As for `compile`.
        embedded: Whether the arrays stand in the text instead.

    Raises:
        InputError: There is no such query.
        UnsupportedError: Something of the model has no native code; the message names it.
    """
    store = Store()
    questions = _walked(questions_of(model, (queries,) if isinstance(queries, str) else queries))
    text = COMMAND + module_of(questions, store, embedded=embedded)
    return text, {} if embedded else store.arrays


def questions_of(model: Any, queries: Sequence[str] | None = None, updatable: Updatable = ()) -> list[Question]:
    """What a native file of a model answers, the main question first."""
    model = taken_model(model)
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
        found: tuple[Mapping[str, Any], Any] = model.trees
        return found
    program = model.program
    results = tuple(range(len(program.results))) if len(program.results) > 1 else 0
    return {var.name: place for place, var in enumerate(program.arguments)}, results


def _walked(questions: Sequence[Question]) -> list[Question]:
    """The questions as code answers them; those without rows are no circuit's."""
    return [walked(one) if one.rows else one for one in questions]


def _source(model: Any) -> str:
    return repr(model.compiled.symbolic) if isinstance(model, CircuitArrays) else type(model).__name__


def _of_folded(model: FoldedProgram, queries: Sequence[str] | None, updatable: Updatable) -> Question:
    """What is known when it is compiled is fixed, and what has its value later may be replaced."""
    given = updatable if isinstance(updatable, Mapping) else {}
    missing = [name for name in model.run_time if name not in model.leaves and name not in given]
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


def _of_program(program: Program | Bound, name: str, queries: Sequence[str] | None, updatable: Updatable) -> Question:
    if queries:
        raise InputError(f"queries are asked of circuits, found {', '.join(queries)} for a Program; leave them out.")
    bound = program if isinstance(program, Bound) else Bound(program, ())
    if len(bound.leaves) != len(bound.program.consts):
        raise InputError(
            f"the Program captures {len(bound.program.consts)} arrays whose values are not known; give the `bound` of "
            "a compiled function."
        )
    opened, arrays = updatable_program(bound, updatable)
    made = with_constants(opened, arrays)
    count = len(made.program.results)
    results = ("result",) if count == 1 else tuple(f"result{place}" for place in range(count))
    return Question(name, made, results, given=tuple(one for one in arrays if isinstance(one, UpdatableConstant)))


# Circuits


@dataclass(frozen=True, slots=True)
class _Circuit:
    """A compiled circuit as it is now.

    Args:
        compiled: The circuit.
        leaves: Its arrays, and those that may be replaced.
        dtype: The dtype of its real numbers.
        usual: The dtype of its data, where none is missing.
    """

    compiled: CompiledCircuit
    leaves: Sequence[tuple[Leaf, Any]]
    dtype: DType
    usual: DType

    @property
    def entries(self) -> Mapping[str, tuple[Query[Any], Entry]]:
        """What a file may answer, by the names that callers use.

        Raises:
            InputError: Two queries have an entry of one name.
        """
        entries: dict[str, tuple[Query[Any], Entry]] = {}
        for query in self.compiled.queries.values():
            for entry in query.entries:
                other, _ = entries.setdefault(entry.name, (query, entry))
                if other is not query:
                    raise InputError(
                        f"{other.function} and {query.function} both have an entry {entry.name!r}; rename one of them."
                    )
        return entries

    def questions(self, name: str) -> Iterator[Question]:
        """The functions of a file that answer an entry."""
        query, entry = self.entries[name]
        yield from _BY_POLICY[type(query.policy)](self, query, entry)

    def data_of(self, entry: Entry, real: DType) -> DType | None:
        """The dtype of the rows that an entry takes, beside real numbers of `real`."""
        if entry.data == "none":
            return None
        return real if entry.data == "floats" and self.usual.kind == "int" else self.usual


def _scored(circuit: _Circuit, query: Query[Upward], entry: Entry) -> Iterator[Question]:  # noqa: ARG001
    folded, semiring, dtype = circuit.compiled.folded, circuit.compiled.semiring, circuit.dtype
    data = circuit.data_of(entry, dtype)
    assert data is not None, "a score is of rows"
    text = entry.text.format(missing="; NaN: missing, summed out" if data.kind == "float" else "")
    return score_questions(folded, semiring, dtype, data, circuit.leaves, entry.function, text)


def _chosen(circuit: _Circuit, query: Query[Choosing], entry: Entry) -> Iterator[Question]:
    real = DType.FLOAT32 if circuit.dtype == DType.FLOAT16 else circuit.dtype
    data = circuit.data_of(entry, real)
    folded, leaves = circuit.compiled.folded, circuit.leaves
    yield choice_question(query, folded, real, data, leaves, entry.function, entry.text)


_BY_POLICY: Mapping[type, Callable[..., Iterator[Question]]] = {Upward: _scored, Choosing: _chosen}


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


def _of_circuit(circuit: CircuitArrays, queries: Sequence[str] | None, updatable: Updatable) -> Iterator[Question]:
    compiled, dtype = circuit.compiled, circuit.dtype
    found = _Circuit(
        compiled,
        updatable_leaves(compiled.folded, circuit.leaves, updatable) if updatable else circuit.leaves,
        dtype,
        compiled.usual_input(dtype) if compiled.folded.scope else DType.FLOAT32,
    )
    check_is_closed(compiled.folded, "native code")
    _check_weights(circuit)
    if queries is None:
        queries = ["log-likelihood", *(["marginal"] if found.usual.kind == "int" else [])]
    wanted = list(dict.fromkeys(queries))
    if not wanted:
        raise InputError(f"a native file answers at least one query; there are {', '.join(found.entries)}.")
    for one in wanted:
        if one not in found.entries:
            raise InputError(f"there is no query {one!r} of native files; there are {', '.join(found.entries)}.")
    if not updatable:
        for one in wanted:
            yield from found.questions(one)
        return
    main, *others = [question for one in wanted for question in found.questions(one)]
    given = tuple(one for _, one in found.leaves if isinstance(one, UpdatableConstant))
    carrier = LSE_SUM if any(one.floors for one in (main, *others)) else compiled.semiring
    floors = floors_of(compiled, carrier, found.dtype, found.leaves)
    yield replace(main, given=given, floors=(*floors, *main.floors))
    yield from others


__all__ = ["UnsupportedError", "compile", "mlir", "questions_of"]
