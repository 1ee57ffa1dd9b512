"""A native file made by hand: one library of small functions, compiled once for a session of tests."""

import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import plica
import plica.numpy as pnp
from plica.backend.native.functions import FunctionSet
from plica.backend.native.targets import target_of
from plica.ir.program import Program
from plica.ir.rewrite import rewrite
from plica.ir.sizes import Size
from plica.runtime.container import write
from plica.runtime.manifest import ArrayType, Entry, Fallback, Fault, Fold, Manifest, Rows, Target, Tensor
from plica.runtime.module import NativeModule


def _echo() -> Program:
    """Gives its arguments, of which the third has 2n - 1 columns; fails where there are three rows or more."""

    def echo(x: Any, flag: Any, z: Any, s: Any) -> Any:
        few = pnp.arange(3)[x.shape[0]]
        return x + pnp.minimum(few, 0), flag, z, s

    axes = ({0: "n"}, {0: "n"}, {1: "k"}, None)
    kinds = plica.spec(9, "int64"), plica.spec(9, "bool"), plica.spec((2, 9), "float32"), plica.spec((), "int64")
    program = plica.trace(echo, *kinds, abstracted_axes=axes)
    n, k = program.inputs[:2]
    assert (n.name, k.name, program.num_implicit_inputs) == ("n", "k", 2)
    known = rewrite(program, lambda var: var.name, {k: 2 * Size.of(n) - 1})
    return replace(known, inputs=(known.inputs[0], *known.inputs[2:]), num_implicit_inputs=1)


def _programs() -> Mapping[str, Program]:
    rows, numbers = plica.spec(("n", 3), "float32"), plica.spec(("n",), "float64")
    kinds = [plica.spec(("n",), dtype) for dtype in ("bfloat16", "float16", "complex128", "uint8")]
    return {
        "product": plica.trace(lambda x, weight: x @ weight, plica.spec(("n", 4)), plica.spec((4, 3))),
        "quick": plica.trace(lambda x: (x * x, x < 10.0), numbers),  # whose fallback is `slow`
        "slow": plica.trace(lambda x: -x, numbers),
        "plus": plica.trace(lambda x, y: x + y, rows, rows),
        "shifted": plica.trace(lambda x, doubled: x + doubled, rows, plica.spec((3,))),
        "fold": plica.trace(lambda shift: shift + shift, plica.spec((3,))),
        "echo": _echo(),
        "kinds": plica.trace(lambda a, b, c, d: (a, b, c, d), *kinds),
    }


WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3)
SHIFT = np.array([1, 2, 3], np.float32)

_ROWS = Rows("n", chunk=100, alone=2**48)
_X3 = ArrayType("x", "float32", ("n", 3))
_S3 = ArrayType("s", "float32", ("n", 3))
_X, _SCORE = ArrayType("x", "float64", ("n",)), ArrayType("score", "float64", ("n",))
_ECHOED = (
    ArrayType("x", "int64", ("n",)),
    ArrayType("flag", "bool", ("n",)),
    ArrayType("z", "float32", (2, "2*n-1")),
    ArrayType("s", "int64", ()),
)
_FAULT = Fault("BoundsError", (0, " entries are too many; expected less than 3."))
_KINDS = tuple(
    ArrayType(name, dtype, ("n",))
    for name, dtype in (("a", "bfloat16"), ("b", "float16"), ("c", "complex128"), ("d", "uint8"))
)
ENTRIES = (
    Entry(
        "product",
        "product",
        (ArrayType("x", "float32", ("n", 4)),),
        (ArrayType("y", "float32", ("n", 3)),),
        constants=("weight",),
        rows=_ROWS,
        text="The product of each row with the weight.",
    ),
    Entry(
        "score",
        "quick",
        (_X,),
        (_SCORE, ArrayType("proven", "bool", ("n",))),
        rows=_ROWS,
        fallback=Fallback("exact", bound="proven"),
    ),
    Entry("exact", "slow", (_X,), (_SCORE,), rows=replace(_ROWS, chunk=7), public=False),
    Entry("plus", "plus", (_X3, replace(_X3, name="y")), (_S3,)),
    Entry("noisy", "plus", (_X3,), (_S3,), draws=(replace(_X3, name="u"),), rows=_ROWS),
    Entry(
        "drawn",
        "product",
        (),
        (ArrayType("y", "float32", ("n", 3)),),
        draws=(ArrayType("u", "float32", ("n", 4)),),
        constants=("weight",),
    ),
    Entry("shifted", "shifted", (_X3,), (_S3,), constants=("doubled",)),
    Entry("echo", "echo", _ECHOED, _ECHOED, faults=(_FAULT,)),
    Entry("kinds", "kinds", _KINDS, _KINDS),
)
TENSORS = (
    Tensor("weight", "float32", (4, 3), "tensors"),
    Tensor("shift", "float32", (3,), "tensors", offset=64, updatable=True),
    Tensor("doubled", "float32", (3,), "tensors", offset=128),
)
_HOST = target_of("host")
MANIFEST = Manifest(
    "product",
    ENTRIES,
    (Target("host", _HOST.architecture, _HOST.features, "code/host"),),
    tensors=TENSORS,
    folds=(Fold("fold", ("shift",), ("doubled",)),),
    provenance={"source": "written by hand"},
)


@functools.cache
def code() -> bytes:
    """The library of `MANIFEST`, for this machine."""
    functions = FunctionSet()
    for name, program in _programs().items():
        functions.add(functions.written(name, program, {}))
    return functions.compiled(_HOST.name, MANIFEST)


def parts() -> dict[str, bytes]:
    """The parts of a file of `MANIFEST`."""
    rooms = [one.tobytes().ljust(64, b"\0") for one in (WEIGHT, SHIFT, 2 * SHIFT)]
    return {"tensors": b"".join(rooms), "code/host": code()}


def native_file(path: Path, key: bytes | None = None, **changed: Any) -> Path:
    """A file of `MANIFEST`, or of one with other fields."""
    write(path, parts(), replace(MANIFEST, **changed), key)
    return path


def code_of(module: NativeModule) -> Any:
    """The code of a module that is open."""
    state = module._state
    assert state is not None, "it is open"
    return state[0]
