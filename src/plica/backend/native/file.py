"""Writes entry points as one native file: the code of each target, and every constant array once.

Single numbers are written into the code. Arrays are tensors of the file: one tensor for all constants of equal
contents, and one for each updatable array. Functions get pointers to the tensors, which lie in the mapped file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from plica.backend.native.circuits.updatable import UpdatableConstant, UpdatableFold
from plica.backend.native.circuits.with_constants import Array
from plica.backend.native.entry_programs import EntryProgram
from plica.backend.native.functions import Function, FunctionSet
from plica.backend.native.targets import Target
from plica.runtime.manifest import ALIGNMENT, Fold, Manifest, NonNegativeCheck, Tensor
from plica.runtime.manifest import Target as TargetEntry

TENSORS = "tensors"  # the part of the file that holds them
_PREFIX = "_w"  # of generated names


@dataclass(slots=True)
class Store:
    """The constants of some entry points, each once.

    Args:
        functions: Receives the functions that compute constants from updatable arrays.

    Attributes:
        tensors: Their descriptions in the manifest.
        arrays: The arrays, by name.
        folds: The calls of the functions that compute constants from updatable arrays.
    """

    functions: FunctionSet
    tensors: list[Tensor] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    folds: list[Fold] = field(default_factory=list)
    _names: dict[bytes, str] = field(default_factory=dict)
    _updatable: dict[UpdatableConstant, str] = field(default_factory=dict)
    _fold_outputs: dict[UpdatableFold, tuple[str, ...]] = field(default_factory=dict)
    _outputs_by_key: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = field(default_factory=dict)
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
        """The names of the results of a fold. Folds with equal code and equal inputs become one function."""
        if fold not in self._fold_outputs:
            inputs = tuple(self.updatable(constant) for constant in fold.updatable)
            constants = {var: self.name(array) for var, array in fold.constants.items()}
            function = self.functions.written(f"runtime_fold{len(self.folds)}", fold.program, constants)
            key = function.key, (*inputs, *function.constants)
            if key not in self._outputs_by_key:
                self._outputs_by_key[key] = tuple(self._add(array) for array in fold.first)
                self.functions.add(function)
                self.folds.append(Fold(function.name, key[1], self._outputs_by_key[key], function.faults))
            self._fold_outputs[fold] = self._outputs_by_key[key]
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


def _written(entry_program: EntryProgram, store: Store) -> Function:
    """The function of an entry point; adds it, and its constants, to a store."""
    body = entry_program.body
    constants = {var: store.name(array) for var, array in body.constants.items()}
    function = store.functions.written(entry_program.name, body.program, constants)
    store.functions.add(function)
    checked = (check.updatable for check in entry_program.non_negative)
    for array in (*entry_program.updatable, *body.updatable.values(), *checked):
        store.updatable(array)
    return function


def file_of(
    entry_programs: Sequence[EntryProgram],
    targets: Sequence[Target],
    provenance: Mapping[str, str],
    also: Sequence[str] = (),
) -> tuple[dict[str, bytes], Manifest]:
    """The parts of a file and its manifest; the first entry point is the main one.

    Args:
        entry_programs: The functions of the file.
        targets: The best first.
        provenance: The origin of the file: `{"source": ...}`.
        also: The names of entry points that are called instead of the main one where the data has their dtype.

    Raises:
        UnsupportedError: An operation has no loop nest, or the linker refuses the code of a target.
        MissingExtraError: The compiler or the linker is not installed.
        WriteError: The folder for temporary files is full, or is not writable.
    """
    store = Store(FunctionSet())
    functions = [_written(entry_program, store) for entry_program in entry_programs]
    manifest = Manifest(
        main=entry_programs[0].name,
        also=tuple(also),
        entries=tuple(
            entry_program.entry(
                (*map(store.updatable, entry_program.body.updatable.values()), *function.constants), function.faults
            )
            for entry_program, function in zip(entry_programs, functions, strict=True)
        ),
        targets=tuple(
            TargetEntry(target.name, target.architecture, target.features, target.name) for target in targets
        ),
        tensors=tuple(store.tensors),
        folds=tuple(store.folds),
        non_negative=tuple(
            NonNegativeCheck(store.updatable(check.updatable), check.names)
            for entry_program in entry_programs
            for check in entry_program.non_negative
        ),
        provenance={**dict(_versions()), **provenance},
    )
    parts = {target.name: store.functions.compiled(target.name, manifest) for target in targets}
    if store.tensors:
        parts[TENSORS] = store.part()
    return parts, manifest


def _versions() -> Iterator[tuple[str, Any]]:
    yield "plica", version("plica")
    yield "made", datetime.now(UTC).isoformat(timespec="seconds")
