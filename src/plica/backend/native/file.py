"""Writes entry points as one native file: the code of each target, and every constant array once.

Numbers stand in the code. Arrays are tensors of the file, one for all arrays of equal contents; code reads tensors
where the file is mapped. Updatable arrays are tensors of their own. Shared libraries get all tensors as arguments,
IREE's code those that are updatable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from plica.backend.native.circuits.updatable import UpdatableConstant, UpdatableFold
from plica.backend.native.circuits.with_constants import Array
from plica.backend.native.code import Code, LibraryCode, ModuleCode, Written
from plica.backend.native.entry_programs import EntryProgram
from plica.backend.native.targets import Target
from plica.errors import UnsupportedError
from plica.extras import require
from plica.runtime.manifest import ALIGNMENT, LIBRARY, Fold, Manifest, NonNegativeCheck, Tensor
from plica.runtime.manifest import Target as Described
from plica.runtime.sessions import ALONE

TENSORS = "tensors"  # the part of the file that holds them
_PREFIX = "_w"  # of generated names
_GPU = "gpu"  # the kind of code for graphics processors
_ALWAYS = 2**48  # rows: more than any call has


@dataclass(slots=True)
class Store:
    """The constants of some entry points, each once.

    Args:
        code: The functions that compute the constants that depend on updatable arrays go there.

    Attributes:
        tensors: Their descriptions in the manifest.
        arrays: The arrays, by name.
        folds: The calls of these functions.
    """

    code: Code
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
        """The names of the results of a fold. Folds that compute the same of the same become one function."""
        if fold not in self._fold_outputs:
            inputs = tuple(self.updatable(constant) for constant in fold.updatable)
            constants = {var: self.name(array) for var, array in fold.constants.items()}
            function = self.code.written(f"runtime_fold{len(self.folds)}", fold.program, constants)
            key = self.code.key(function), (*inputs, *function.constants)
            if key not in self._outputs_by_key:
                self._outputs_by_key[key] = tuple(self._add(array) for array in fold.first)
                self.code.add(function)
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


def write_functions(entry_programs: Sequence[EntryProgram], store: Store, code: Code) -> list[Written]:
    """The functions of some entry points, which are added to code; their constants go to a store."""
    functions = []
    for entry_program in entry_programs:
        body = entry_program.body
        constants = {var: store.name(array) for var, array in body.constants.items()}
        function = code.written(
            entry_program.name, body.program, constants, are_indices_in_bounds=entry_program.are_indices_in_bounds
        )
        code.add(function)
        functions.append(function)
        checked = (check.updatable for check in entry_program.non_negative)
        for array in (*entry_program.updatable, *body.updatable.values(), *checked):
            store.updatable(array)
    return functions


def file_of(
    entry_programs: Sequence[EntryProgram],
    targets: Sequence[Target],
    driver: str,
    provenance: Mapping[str, str],
    also: Sequence[str] = (),
) -> tuple[dict[str, bytes], Manifest]:
    """The parts of a file and its manifest; the first entry point is the main one.

    Args:
        entry_programs: The functions of the file.
        targets: The best first.
        driver: The driver of the runtime, for targets that name none. Functions without an axis of rows that one thread
            runs become shared libraries instead.
        provenance: Words about the origin of the file.
        also: The names of entry points that are called instead of the main one where the data has their dtype.

    Raises:
        UnsupportedError: A target cannot run an entry point, or several threads would run branches of the host.
        MissingExtraError: The compiler or the linker is not installed.
    """
    if driver == ALONE and not any(entry_program.rows for entry_program in entry_programs):
        driver = LIBRARY
    kinds = {target.name: _GPU if target.is_gpu else driver for target in targets}
    if len({*kinds.values()}) > 1 and any(entry_program.updatable for entry_program in entry_programs):
        raise UnsupportedError(
            "what may be replaced is computed again in one way for all targets of a file: give those of processors or "
            "those of graphics processors, and write another file for the others."
        )
    codes = {kind: _code(kind, passes_constants=LIBRARY in kinds.values()) for kind in kinds.values()}
    store = Store(codes[kinds[targets[0].name]])
    written = {
        kind: write_functions(_for_processor(entry_programs, is_gpu=kind == _GPU), store, code)
        for kind, code in codes.items()
    }
    branching = {function.name for functions in written.values() for function in functions if function.branches}
    for entry_program in entry_programs:
        if driver not in (ALONE, LIBRARY) and entry_program.name in branching and not entry_program.rows:
            raise UnsupportedError(
                f"{entry_program.name} has loops or branches that the host walks, which the thread that calls runs "
                f"alone; leave out driver={driver!r}."
            )
    entry_programs = _for_processor(entry_programs, is_gpu=targets[0].is_gpu)
    functions = written.get(LIBRARY) or next(iter(written.values()))
    manifest = Manifest(
        main=entry_programs[0].name,
        also=tuple(also),
        entries=tuple(
            (replace(entry_program, alone=_ALWAYS) if entry_program.name in branching else entry_program).entry(
                (*map(store.updatable, entry_program.body.updatable.values()), *function.constants), function.faults
            )
            for entry_program, function in zip(entry_programs, functions, strict=True)
        ),
        targets=tuple(
            Described(target.name, target.architecture, target.features, target.name, target.driver or driver)
            for target in targets
        ),
        iree="" if {*kinds.values()} == {LIBRARY} else version("iree-base-compiler"),
        tensors=tuple(store.tensors),
        folds=tuple(store.folds),
        non_negative=tuple(
            NonNegativeCheck(store.updatable(check.updatable), check.names)
            for entry_program in entry_programs
            for check in entry_program.non_negative
        ),
        provenance={**dict(_versions()), **provenance},
    )
    parts = {target.name: codes[kinds[target.name]].compiled(target, manifest) for target in targets}
    if store.tensors:
        parts[TENSORS] = store.part()
    return parts, manifest


def _code(kind: str, *, passes_constants: bool) -> Code:
    """Code of a kind: of the driver of processors, or `_GPU`."""
    if kind == LIBRARY:
        return LibraryCode()
    require("iree.compiler")  # before a long time passes
    return ModuleCode(is_gpu=kind == _GPU, passes_constants=passes_constants)


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
