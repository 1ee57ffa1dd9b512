"""Questions become one native file: one module of code for each target, and every constant array once.

Arrays of few bytes stand in the code; the others are tensors of the file, told apart by their contents, which code
reads where the file is mapped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from plica.backend.native.build import compile_text
from plica.backend.native.circuits.closed import Array
from plica.backend.native.mlir.emit import emit, module_text
from plica.backend.native.questions import Question
from plica.backend.native.targets import Target
from plica.ir.program import Var
from plica.runtime.manifest import ALIGNMENT, Manifest, Tensor
from plica.runtime.manifest import Target as Described

_TENSORS = "tensors"  # the part that holds them


@dataclass(slots=True)
class Store:
    """The constants of some questions, each once.

    Attributes:
        tensors: What the file says of them.
        arrays: The arrays, by name.
    """

    tensors: list[Tensor] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    _names: dict[bytes, str] = field(default_factory=dict)
    _size: int = 0

    def name(self, array: Array) -> str:
        """The name of an array with these contents, which is added where there is none."""
        array = np.asarray(array, order="C")
        content = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode() + array.tobytes()).digest()
        if content not in self._names:
            name = f"w{len(self.tensors)}"
            self._names[content] = name
            self.tensors.append(Tensor(name, array.dtype.name, array.shape, _TENSORS, self._size))
            self.arrays[name] = array
            self._size += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return self._names[content]

    def part(self) -> bytes:
        """All of them, each at its offset."""
        return b"".join(one.tobytes() + bytes(-one.nbytes % ALIGNMENT) for one in self.arrays.values())


def module_of(questions: Sequence[Question], store: Store, *, embedded: bool = False) -> str:
    """The MLIR of some questions, whose constants go into a store; with `embedded` they stand in the text too."""
    functions = []
    for one in questions:
        parameters: Mapping[Var, str] = {var: store.name(array) for var, array in one.closed.constants.items()}
        functions.append(emit(one.closed.program, one.name, parameters, are_places_known=one.are_places_known))
    return module_text(functions, store.arrays if embedded else {})


def file_of(
    questions: Sequence[Question], targets: Sequence[Target], driver: str, provenance: Mapping[str, str]
) -> tuple[dict[str, bytes], Manifest]:
    """The parts of a file and its manifest; the first question is the main one.

    Args:
        questions: What it answers.
        targets: The best first.
        driver: What runs it where the target does not say.
        provenance: Words about where it comes from.
    """
    store = Store()
    text = module_of(questions, store)
    parts = {one.name: compile_text(text, one) for one in targets}
    if store.tensors:
        parts[_TENSORS] = store.part()
    made = Manifest(
        main=questions[0].name,
        entries=tuple(one.entry for one in questions),
        targets=tuple(
            Described(one.name, one.architecture, one.features, part=one.name, driver=one.driver or driver)
            for one in targets
        ),
        iree=version("iree-base-compiler"),
        tensors=tuple(store.tensors),
        provenance={**dict(_versions()), **provenance},
    )
    return parts, made


def _versions() -> Iterator[tuple[str, Any]]:
    yield "plica", version("plica")
    yield "made", datetime.now(UTC).isoformat(timespec="seconds")
