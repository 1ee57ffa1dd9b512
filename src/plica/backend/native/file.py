"""Questions become one native file: one module of code for each target, and every constant array once.

Arrays of few bytes stand in the code; the others are tensors of the file, told apart by their contents, which code
reads where the file is mapped. Those that may change are tensors of their own, which functions are given.
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
from plica.backend.native.mlir.emit import Function, emit, module_text
from plica.backend.native.questions import Question
from plica.backend.native.targets import Target
from plica.errors import UnsupportedError
from plica.ir.program import Var
from plica.runtime.manifest import ALIGNMENT, Floor, Fold, Manifest, Tensor
from plica.runtime.manifest import Target as Described
from plica.runtime.sessions import ALONE

TENSORS = "tensors"  # the part that holds them
_OWN = "_w"  # what names that no user gave begin with
_ALWAYS = 2**48  # rows: more than there are


@dataclass(slots=True)
class Store:
    """The constants of some questions, each once.

    Args:
        is_gpu: Whether graphics processors compute those that depend on arrays that may change.

    Attributes:
        tensors: What the file says of them.
        arrays: The arrays, by name.
        functions: What computes those that depend on arrays that may change.
        folds: When these run.
        branching: The names of questions on whose way the host branches.
    """

    is_gpu: bool = False
    tensors: list[Tensor] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)
    branching: set[str] = field(default_factory=set)
    _names: dict[bytes, str] = field(default_factory=dict)
    _held: dict[UpdatableConstant, str] = field(default_factory=dict)
    _made: dict[UpdatableFold, tuple[str, ...]] = field(default_factory=dict)
    _written: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = field(default_factory=dict)
    _size: int = 0

    def name(self, array: Array) -> str:
        """The name of an array with these contents, which is added where there is none."""
        array = np.asarray(array, order="C")
        content = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode() + array.tobytes()).digest()
        if content not in self._names:
            self._names[content] = self._added(array)
        return self._names[content]

    def updatable(self, one: UpdatableConstant) -> str:
        """The name of an array that may change, which is added with all that computes it."""
        if one not in self._held:
            self._held[one] = (
                self._added(one.array, one.name, one.parts, updatable=True)
                if one.made is None
                else self._outputs(one.made)[one.place]
            )
        return self._held[one]

    def _outputs(self, made: UpdatableFold) -> tuple[str, ...]:
        """The names of what a part of the folding gives; parts of one text that read the same are one."""
        if made not in self._made:
            inputs = tuple(self.updatable(one) for one in made.updatable)
            parameters = {var: self.name(array) for var, array in made.constants.items()}
            name = f"runtime_fold{len(self.folds)}"
            function = emit(made.program, name, parameters, is_gpu=self.is_gpu)
            key = function.text.replace(f"@{name}", "@"), inputs
            if key not in self._written:
                self._written[key] = tuple(self._added(array) for array in made.first)
                self.functions.append(function)
                self.folds.append(Fold(name, inputs, self._written[key]))
            self._made[made] = self._written[key]
        return self._made[made]

    def _added(self, array: Array, name: str = "", parts: tuple[str, ...] = (), *, updatable: bool = False) -> str:
        array = np.asarray(array, order="C")
        name = name or f"{_OWN}{len(self.tensors)}"
        self.tensors.append(
            Tensor(name, array.dtype.name, array.shape, TENSORS, self._size, updatable=updatable, parts=parts)
        )
        self.arrays[name] = array
        self._size += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return name

    def part(self) -> bytes:
        """All of them, each at its offset."""
        return b"".join(one.tobytes() + bytes(-one.nbytes % ALIGNMENT) for one in self.arrays.values())


def module_of(questions: Sequence[Question], store: Store, *, embedded: bool = False, is_gpu: bool = False) -> str:
    """The MLIR of some questions, whose constants go into a store; with `embedded` they stand in the text too."""
    functions = []
    for one in questions:
        parameters: Mapping[Var, str] = {var: store.name(array) for var, array in one.body.constants.items()}
        known = one.are_places_known
        function = emit(one.body.program, one.name, parameters, are_places_known=known, is_gpu=is_gpu)
        functions.append(function)
        if function.branches:
            store.branching.add(one.name)
        for array in (*one.given, *one.body.updatable.values(), *(floor.updatable for floor in one.floors)):
            store.updatable(array)
    return module_text([*functions, *store.functions], store.arrays if embedded else {})


def file_of(
    questions: Sequence[Question],
    targets: Sequence[Target],
    driver: str,
    provenance: Mapping[str, str],
    also: Sequence[str] = (),
) -> tuple[dict[str, bytes], Manifest]:
    """The parts of a file and its manifest; the first question is the main one.

    Args:
        questions: What it answers.
        targets: The best first.
        driver: What runs it where the target does not say.
        provenance: Words about where it comes from.
        also: Those that are asked in place of the main one where data is of the kind of theirs.

    Raises:
        UnsupportedError: There is no code of a question for a target, or several threads would run branches.
    """
    kinds = dict.fromkeys(one.is_gpu for one in targets)
    written = {is_gpu: _written(questions, is_gpu=is_gpu) for is_gpu in kinds}
    questions = written[targets[0].is_gpu]
    if len(kinds) > 1 and any(one.given for one in questions):
        raise UnsupportedError(
            "what may be replaced is computed again in one way for all targets of a file: give those of processors or "
            "those of graphics processors, and write another file for the others."
        )
    store = Store(targets[0].is_gpu)
    texts = {is_gpu: module_of(some, store, is_gpu=is_gpu) for is_gpu, some in written.items()}
    for one in questions:
        if driver != ALONE and one.name in store.branching and not one.rows:
            raise UnsupportedError(
                f"{one.name} has loops or branches that the host walks, which the thread that calls runs alone; "
                f"leave out driver={driver!r}."
            )
    parts = {one.name: compile_text(texts[one.is_gpu], one) for one in targets}
    if store.tensors:
        parts[TENSORS] = store.part()
    made = Manifest(
        main=questions[0].name,
        also=tuple(also),
        entries=tuple(
            (replace(one, alone=_ALWAYS) if one.name in store.branching else one).entry(
                tuple(map(store.updatable, one.body.updatable.values()))
            )
            for one in questions
        ),
        targets=tuple(
            Described(one.name, one.architecture, one.features, part=one.name, driver=one.driver or driver)
            for one in targets
        ),
        iree=version("iree-base-compiler"),
        tensors=tuple(store.tensors),
        folds=tuple(store.folds),
        floors=tuple(Floor(store.updatable(floor.updatable), floor.names) for one in questions for floor in one.floors),
        provenance={**dict(_versions()), **provenance},
    )
    return parts, made


def _written(questions: Sequence[Question], *, is_gpu: bool) -> list[Question]:
    """The questions as a kind of processor is asked them."""
    return [replace(one, body=one.plain) if is_gpu and one.plain is not None else one for one in questions]


def _versions() -> Iterator[tuple[str, Any]]:
    yield "plica", version("plica")
    yield "made", datetime.now(UTC).isoformat(timespec="seconds")
