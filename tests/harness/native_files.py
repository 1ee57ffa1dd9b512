"""A native file whose code is written by hand: one module, compiled once for a session of tests."""

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from plica.backend.native.build import compile_text
from plica.runtime.container import write
from plica.runtime.faults import VALUES, marked
from plica.runtime.machine import LEVELS, architecture
from plica.runtime.manifest import ArrayType, Entry, Fallback, Fold, Manifest, Rows, Target, Tensor
from plica.runtime.module import NativeModule

MODULE = f"""
module @plica {{
  util.global private @weight = #stream.parameter.named<"plica"::"weight"> : tensor<4x3xf32>

  // y = x @ weight, a parameter in the mapped file
  func.func @product(%x: tensor<?x4xf32>) -> tensor<?x3xf32> {{
    %axis = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    %n = tensor.dim %x, %axis : tensor<?x4xf32>
    %weight = util.global.load @weight : tensor<4x3xf32>
    %room = tensor.empty(%n) : tensor<?x3xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%room : tensor<?x3xf32>) -> tensor<?x3xf32>
    %y = linalg.matmul ins(%x, %weight : tensor<?x4xf32>, tensor<4x3xf32>)
        outs(%zeros : tensor<?x3xf32>) -> tensor<?x3xf32>
    return %y : tensor<?x3xf32>
  }}

  // score = x * x, proven where x < 10; the fallback gives -x
  func.func @quick(%x: tensor<?xf64>) -> (tensor<?xf64>, tensor<?xi1>) {{
    %axis = arith.constant 0 : index
    %n = tensor.dim %x, %axis : tensor<?xf64>
    %room = tensor.empty(%n) : tensor<?xf64>
    %flags = tensor.empty(%n) : tensor<?xi1>
    %y, %proven = linalg.generic {{
        indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
        iterator_types = ["parallel"]
      }} ins(%x : tensor<?xf64>) outs(%room, %flags : tensor<?xf64>, tensor<?xi1>) {{
      ^bb0(%a: f64, %o: f64, %p: i1):
        %ten = arith.constant 10.0 : f64
        %square = arith.mulf %a, %a : f64
        %small = arith.cmpf olt, %a, %ten : f64
        linalg.yield %square, %small : f64, i1
      }} -> (tensor<?xf64>, tensor<?xi1>)
    return %y, %proven : tensor<?xf64>, tensor<?xi1>
  }}
  func.func @slow(%x: tensor<?xf64>) -> tensor<?xf64> {{
    %axis = arith.constant 0 : index
    %n = tensor.dim %x, %axis : tensor<?xf64>
    %room = tensor.empty(%n) : tensor<?xf64>
    %y = linalg.generic {{
        indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]
      }} ins(%x : tensor<?xf64>) outs(%room : tensor<?xf64>) {{
      ^bb0(%a: f64, %o: f64):
        %negative = arith.negf %a : f64
        linalg.yield %negative : f64
      }} -> tensor<?xf64>
    return %y : tensor<?xf64>
  }}

  // s = x + y, entry by entry: of arguments, of draws, of a constant that is passed
  func.func @plus(%x: tensor<?x3xf32>, %y: tensor<?x3xf32>) -> tensor<?x3xf32> {{
    %axis = arith.constant 0 : index
    %n = tensor.dim %x, %axis : tensor<?x3xf32>
    %room = tensor.empty(%n) : tensor<?x3xf32>
    %s = linalg.generic {{
        indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]
      }} ins(%x, %y : tensor<?x3xf32>, tensor<?x3xf32>) outs(%room : tensor<?x3xf32>) {{
      ^bb0(%a: f32, %b: f32, %o: f32):
        %sum = arith.addf %a, %b : f32
        linalg.yield %sum : f32
      }} -> tensor<?x3xf32>
    return %s : tensor<?x3xf32>
  }}
  func.func @shifted(%x: tensor<?x3xf32>, %c: tensor<3xf32>) -> tensor<?x3xf32> {{
    %axis = arith.constant 0 : index
    %n = tensor.dim %x, %axis : tensor<?x3xf32>
    %room = tensor.empty(%n) : tensor<?x3xf32>
    %s = linalg.generic {{
        indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]
      }} ins(%x, %c : tensor<?x3xf32>, tensor<3xf32>) outs(%room : tensor<?x3xf32>) {{
      ^bb0(%a: f32, %b: f32, %o: f32):
        %sum = arith.addf %a, %b : f32
        linalg.yield %sum : f32
      }} -> tensor<?x3xf32>
    return %s : tensor<?x3xf32>
  }}
  // doubled = shift + shift: what `runtime_fold` is for a circuit
  func.func @fold(%c: tensor<3xf32>) -> tensor<3xf32> {{
    %room = tensor.empty() : tensor<3xf32>
    %s = linalg.generic {{
        indexing_maps = [affine_map<(j) -> (j)>, affine_map<(j) -> (j)>], iterator_types = ["parallel"]
      }} ins(%c : tensor<3xf32>) outs(%room : tensor<3xf32>) {{
      ^bb0(%a: f32, %o: f32):
        %sum = arith.addf %a, %a : f32
        linalg.yield %sum : f32
      }} -> tensor<3xf32>
    return %s : tensor<3xf32>
  }}

  // gives its arguments, fails where there are three or more
  util.global private mutable @seen : i64
  func.func @echo(%x: tensor<?xi64>, %flag: tensor<?xi1>, %z: tensor<2x?xf32>, %s: tensor<i64>)
      -> (tensor<?xi64>, tensor<?xi1>, tensor<2x?xf32>, tensor<i64>) {{
    %axis = arith.constant 0 : index
    %three = arith.constant 3 : index
    %n = tensor.dim %x, %axis : tensor<?xi64>
    %i = arith.index_cast %n : index to i64
    %few = arith.cmpi slt, %n, %three : index
    scf.if %few {{
    }} else {{
      util.global.store %i, @seen : i64
    }}
    cf.assert %few, "{marked("BoundsError", "{0} entries are too many; expected less than 3.")}"
    return %x, %flag, %z, %s : tensor<?xi64>, tensor<?xi1>, tensor<2x?xf32>, tensor<i64>
  }}
  func.func @kinds(%a: tensor<?xbf16>, %b: tensor<?xf16>, %c: tensor<?xcomplex<f64>>, %d: tensor<?xi8>)
      -> (tensor<?xbf16>, tensor<?xf16>, tensor<?xcomplex<f64>>, tensor<?xi8>) {{
    return %a, %b, %c, %d : tensor<?xbf16>, tensor<?xf16>, tensor<?xcomplex<f64>>, tensor<?xi8>
  }}
  func.func @{VALUES}() -> i64 {{
    %i = util.global.load @seen : i64
    return %i : i64
  }}
}}
"""

WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3)
SHIFT = np.array([1, 2, 3], np.float32)

_ROWS = Rows("n", chunk=100)
_X3 = ArrayType("x", "float32", ("n", 3))
_S3 = ArrayType("s", "float32", ("n", 3))
_X, _SCORE = ArrayType("x", "float64", ("n",)), ArrayType("score", "float64", ("n",))
_ECHOED = (
    ArrayType("x", "int64", ("n",)),
    ArrayType("flag", "bool", ("n",)),
    ArrayType("z", "float32", (2, "2*n-1")),
    ArrayType("s", "int64", ()),
)
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
    Entry("exact", "slow", (_X,), (_SCORE,), rows=Rows("n", chunk=7), public=False),
    Entry("plus", "plus", (_X3, replace(_X3, name="y")), (_S3,)),
    Entry("noisy", "plus", (_X3,), (_S3,), draws=(replace(_X3, name="u"),), rows=_ROWS),
    Entry("drawn", "product", (), (ArrayType("y", "float32", ("n", 3)),), draws=(ArrayType("u", "float32", ("n", 4)),)),
    Entry("shifted", "shifted", (_X3,), (_S3,), constants=("doubled",)),
    Entry("echo", "echo", _ECHOED, _ECHOED),
    Entry("kinds", "kinds", _KINDS, _KINDS),
)
TENSORS = (
    Tensor("weight", "float32", (4, 3), "tensors"),
    Tensor("shift", "float32", (3,), "tensors", offset=64, updatable=True),
    Tensor("doubled", "float32", (3,), "tensors", offset=128),
)
MANIFEST = Manifest(
    "product",
    ENTRIES,
    (Target("host", architecture(), LEVELS.get("x86-64-v2", ()) if architecture() == "x86_64" else (), "code/host"),),
    "3.13.0",
    TENSORS,
    (Fold("fold", ("shift",), ("doubled",)),),
    {"source": "written by hand"},
)


@functools.cache
def code() -> bytes:
    """The code of `MODULE` for this machine."""
    return compile_text(MODULE)


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
