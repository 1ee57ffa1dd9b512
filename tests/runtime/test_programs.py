"""Programs through the emitter, the compiler, a file and the runtime; what each operation gives is tested elsewhere."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.backend.native.build import compile_text
from plica.backend.native.mlir.emit import emit, module_text
from plica.errors import BoundsError
from plica.runtime.container import write
from plica.runtime.machine import architecture
from plica.runtime.manifest import ArrayType, Entry, Manifest, Target
from plica.runtime.module import NativeModule, load


def taken(x, i):
    return pnp.take(x, i, axis=0), 2 * x.shape[0]


PROGRAM = plica.trace(taken, plica.spec(("n", 3)), plica.spec(("k",), dtype="int64"))


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeModule]:
    entry = Entry(
        "taken",
        "taken",
        (ArrayType("x", "float32", ("n", 3)), ArrayType("i", "int64", ("k",))),
        (ArrayType("y", "float32", ("k", 3)), ArrayType("size", "int64", ())),
    )
    path: Path = tmp_path_factory.mktemp("program") / "taken.plicab"
    code = compile_text(module_text([emit(PROGRAM, "taken")]))
    manifest = Manifest("taken", (entry,), (Target("host", architecture(), (), "code"),), "3.13.0")
    write(path, {"code": code}, manifest)
    with load(path) as loaded:
        yield loaded


def test_a_program_gives_what_the_interpreter_gives(module: NativeModule) -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for indices in ([1, -1, 1, 0], [], [3]):
        i = np.array(indices, np.int64)
        for found, expected in zip(module(x, i), plica.interpret(PROGRAM, x, i), strict=True):
            assert np.array_equal(found, expected)


def test_its_errors_are_those_of_the_interpreter(module: NativeModule) -> None:
    """With the numbers of this call, which the code keeps until it is asked for them."""
    for size, index in ((4, 4), (3, -5), (4, 2**40)):
        x, i = np.zeros((size, 3), np.float32), np.array([0, index])
        with pytest.raises(BoundsError) as expected:
            plica.interpret(PROGRAM, x, i)
        with pytest.raises(BoundsError) as found:
            module(x, i)
        assert str(found.value) == str(expected.value)
