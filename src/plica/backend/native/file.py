"""Writes entry points as one native file: one module of code for each target, and every constant array once.

Arrays of few bytes stand in the code. The others are tensors of the file, one for all arrays of equal contents; code
reads tensors where the file is mapped. Updatable arrays are tensors of their own, passed to functions as arguments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from plica.backend.native.build import compile_text
from plica.backend.native.circuits.updatable import UpdatableConstant, UpdatableFold
from plica.backend.native.circuits.with_constants import Array
from plica.backend.native.entry_programs import EntryProgram
from plica.backend.native.mlir.emit import Function, emit, module_text
from plica.backend.native.targets import Target
from plica.errors import UnsupportedError
from plica.runtime.manifest import ALIGNMENT, Fold, Manifest, NonNegativeCheck, Tensor
from plica.runtime.manifest import Target as Described
from plica.runtime.sessions import ALONE

TENSORS = "tensors"  # the part of the file that holds them
_PREFIX = "_w"  # of generated names
_ALWAYS = 2**48  # rows: more than any call has


@dataclass(slots=True)
class Store:
    """The constants of some entry points, each once.

    Args:
        is_gpu: Whether graphics processors compute the constants that depend on updatable arrays.

    Attributes:
        tensors: Their descriptions in the manifest.
        arrays: The arrays, by name.
        functions: Functions that compute the constants that depend on updatable arrays.
        folds: The calls of these functions.
        branching: The names of entry points in which the host runs branches or loops.
    """

    is_gpu: bool = False
    tensors: list[Tensor] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)
    branching: set[str] = field(default_factory=set)
    _names: dict[bytes, str] = field(default_factory=dict)
    _updatable: dict[UpdatableConstant, str] = field(default_factory=dict)
    _fold_outputs: dict[UpdatableFold, tuple[str, ...]] = field(default_factory=dict)
    _outputs_by_text: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = field(default_factory=dict)
    _size: int = 0

    def name(self, array: Array) -> str:
        """The name of the array with these contents, which is added if it is new."""
        array = np.asarray(array, order="C")
        content = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode() + array.tobytes()).digest()
        if content not in self._names:
            self._names[content] = self._add(array)
        return self._names[content]

    def updatable(self, constant: UpdatableConstant) -> str:
        """The name of an updatable array, which is added with the functions that compute it if it is new."""
        if constant not in self._updatable:
            self._updatable[constant] = (
                self._add(constant.array, constant.name, constant.parts, updatable=True)
                if constant.fold is None
                else self._outputs(constant.fold)[constant.index]
            )
        return self._updatable[constant]

    def _outputs(self, fold: UpdatableFold) -> tuple[str, ...]:
        """The names of the results of a fold. Folds of equal text and equal inputs become one function."""
        if fold not in self._fold_outputs:
            inputs = tuple(self.updatable(constant) for constant in fold.updatable)
            parameters = {var: self.name(array) for var, array in fold.constants.items()}
            name = f"runtime_fold{len(self.folds)}"
            function = emit(fold.program, name, parameters, is_gpu=self.is_gpu)
            key = function.text.replace(f"@{name}", "@"), inputs
            if key not in self._outputs_by_text:
                self._outputs_by_text[key] = tuple(self._add(array) for array in fold.first)
                self.functions.append(function)
                self.folds.append(Fold(name, inputs, self._outputs_by_text[key]))
            self._fold_outputs[fold] = self._outputs_by_text[key]
        return self._fold_outputs[fold]

    def _add(self, array: Array, name: str = "", parts: tuple[str, ...] = (), *, updatable: bool = False) -> str:
        array = np.asarray(array, order="C")
        name = name or f"{_PREFIX}{len(self.tensors)}"
        self.tensors.append(
            Tensor(name, array.dtype.name, array.shape, TENSORS, self._size, updatable=updatable, parts=parts)
        )
        self.arrays[name] = array
        self._size += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return name

    def part(self) -> bytes:
        """The bytes of all arrays, each at its offset."""
        return b"".join(array.tobytes() + bytes(-array.nbytes % ALIGNMENT) for array in self.arrays.values())


def module_of(
    entry_programs: Sequence[EntryProgram],
    store: Store,
    *,
    embedded: bool = False,
    is_gpu: bool = False,
    in_nests: bool = True,
) -> str:
    """The MLIR of some entry points.

    Args:
        entry_programs: The entry points.
        store: Where their constants go.
        embedded: Whether constants stand in the text too.
        is_gpu: Whether graphics processors run it.
        in_nests: Whether entry points without an axis of rows become loop nests, which one thread runs.
    """
    functions = []
    for entry_program in entry_programs:
        body = entry_program.body
        function = emit(
            body.program,
            entry_program.name,
            {var: store.name(array) for var, array in body.constants.items()},
            are_indices_in_bounds=entry_program.are_indices_in_bounds,
            is_gpu=is_gpu,
            in_nests=in_nests and not is_gpu and not entry_program.rows,
        )
        functions.append(function)
        if function.branches:
            store.branching.add(entry_program.name)
        checked = (check.updatable for check in entry_program.non_negative)
        for array in (*entry_program.updatable, *body.updatable.values(), *checked):
            store.updatable(array)
    return module_text([*functions, *store.functions], store.arrays if embedded else {})


def file_of(
    entry_programs: Sequence[EntryProgram],
    targets: Sequence[Target],
    driver: str,
    provenance: Mapping[str, str],
    also: Sequence[str] = (),
    *,
    in_nests: bool | None = None,
) -> tuple[dict[str, bytes], Manifest]:
    """The parts of a file and its manifest; the first entry point is the main one.

    Args:
        entry_programs: The functions of the file.
        targets: The best first.
        driver: The driver of the runtime, for targets that name none.
        provenance: Words about the origin of the file.
        also: The names of entry points that are called instead of the main one where the data has their dtype.
        in_nests: Whether entry points without an axis of rows become loop nests; by default if one thread runs them.

    Raises:
        UnsupportedError: A target cannot run an entry point, or several threads would run branches of the host.
    """
    kinds = dict.fromkeys(target.is_gpu for target in targets)
    written = {is_gpu: _for_processor(entry_programs, is_gpu=is_gpu) for is_gpu in kinds}
    entry_programs = written[targets[0].is_gpu]
    if len(kinds) > 1 and any(entry_program.updatable for entry_program in entry_programs):
        raise UnsupportedError(
            "what may be replaced is computed again in one way for all targets of a file: give those of processors or "
            "those of graphics processors, and write another file for the others."
        )
    store = Store(targets[0].is_gpu)
    in_nests = driver == ALONE if in_nests is None else in_nests
    texts = {is_gpu: module_of(some, store, is_gpu=is_gpu, in_nests=in_nests) for is_gpu, some in written.items()}
    for entry_program in entry_programs:
        if driver != ALONE and entry_program.name in store.branching and not entry_program.rows:
            raise UnsupportedError(
                f"{entry_program.name} has loops or branches that the host walks, which the thread that calls runs "
                f"alone; leave out driver={driver!r}."
            )
    parts = {target.name: compile_text(texts[target.is_gpu], target) for target in targets}
    if store.tensors:
        parts[TENSORS] = store.part()
    manifest = Manifest(
        main=entry_programs[0].name,
        also=tuple(also),
        entries=tuple(
            (replace(entry_program, alone=_ALWAYS) if entry_program.name in store.branching else entry_program).entry(
                tuple(map(store.updatable, entry_program.body.updatable.values()))
            )
            for entry_program in entry_programs
        ),
        targets=tuple(
            Described(
                target.name, target.architecture, target.features, part=target.name, driver=target.driver or driver
            )
            for target in targets
        ),
        iree=version("iree-base-compiler"),
        tensors=tuple(store.tensors),
        folds=tuple(store.folds),
        non_negative=tuple(
            NonNegativeCheck(store.updatable(check.updatable), check.names)
            for entry_program in entry_programs
            for check in entry_program.non_negative
        ),
        provenance={**dict(_versions()), **provenance},
    )
    return parts, manifest


def _for_processor(entry_programs: Sequence[EntryProgram], *, is_gpu: bool) -> list[EntryProgram]:
    """The entry points with the bodies that a kind of processor runs."""
    return [
        replace(entry_program, body=entry_program.plain)
        if is_gpu and entry_program.plain is not None
        else entry_program
        for entry_program in entry_programs
    ]


def _versions() -> Iterator[tuple[str, Any]]:
    yield "plica", version("plica")
    yield "made", datetime.now(UTC).isoformat(timespec="seconds")
