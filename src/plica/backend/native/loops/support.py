"""The functions that nests call: for memory, for products, and the entry that Python calls.

Allocations of a nest are in a list, so that a run that ends early frees all of them.
"""

import ctypes
from functools import cache
from importlib import import_module

import numpy as np

from plica.backend.native.loops.nest import Allocate, Buffer, Nest
from plica.backend.native.scalars import Scalar
from plica.backend.native.scalars.llvm import llvm_type
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType

NOT_CONTIGUOUS = -1
"""The status that `entry` returns for an array with gaps."""

HEADER_BYTES = 32
"""The size of the header in front of each allocation of a nest."""

_OBJECT = object.__basicsize__  # bytes of the header of every Python object
_DATA, _DIMENSIONS, _FLAGS = _OBJECT, _OBJECT + 16, _OBJECT + 48  # offsets of fields in numpy's array objects
_CONTIGUOUS = 0x101  # the flags of arrays in C order that are aligned

SUPPORT = """
declare ptr @malloc(i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)

define internal void @link(ptr %head, ptr %p) {
  %first = load ptr, ptr %head
  %next = getelementptr i8, ptr %p, i64 8
  store ptr %head, ptr %p
  store ptr %first, ptr %next
  store ptr %p, ptr %head
  %none = icmp eq ptr %first, null
  br i1 %none, label %done, label %more
more:
  store ptr %next, ptr %first
  br label %done
done:
  ret void
}

define internal void @unlink(ptr %p) {
  %before = load ptr, ptr %p
  %next = getelementptr i8, ptr %p, i64 8
  %after = load ptr, ptr %next
  store ptr %after, ptr %before
  %none = icmp eq ptr %after, null
  br i1 %none, label %done, label %more
more:
  store ptr %before, ptr %after
  br label %done
done:
  ret void
}

define internal i64 @bytes(i64 %count, i64 %each) {
  %far = icmp ugt i64 %count, 72057594037927936
  %bytes = mul i64 %count, %each
  %more = add i64 %bytes, 32
  %size = select i1 %far, i64 -1, i64 %more
  ret i64 %size
}

define noalias ptr @plica.take(ptr %head, i64 %count, i64 %each) {
  %size = call i64 @bytes(i64 %count, i64 %each)
  %p = call ptr @malloc(i64 %size)
  %none = icmp eq ptr %p, null
  br i1 %none, label %fail, label %done
done:
  call void @link(ptr %head, ptr %p)
  %data = getelementptr i8, ptr %p, i64 32
  ret ptr %data
fail:
  ret ptr null
}

define void @plica.give(ptr %data) {
  %none = icmp eq ptr %data, null
  br i1 %none, label %done, label %more
more:
  %p = getelementptr i8, ptr %data, i64 -32
  call void @unlink(ptr %p)
  call void @free(ptr %p)
  br label %done
done:
  ret void
}

define ptr @plica.keep(ptr %data) {
  %p = getelementptr i8, ptr %data, i64 -32
  call void @unlink(ptr %p)
  ret ptr %data
}

define ptr @plica.grow(ptr %head, ptr %data, i64 %count, i64 %each) {
  %p = getelementptr i8, ptr %data, i64 -32
  call void @unlink(ptr %p)
  %size = call i64 @bytes(i64 %count, i64 %each)
  %q = call ptr @realloc(ptr %p, i64 %size)
  %none = icmp eq ptr %q, null
  br i1 %none, label %fail, label %done
done:
  call void @link(ptr %head, ptr %q)
  %moved = getelementptr i8, ptr %q, i64 32
  ret ptr %moved
fail:
  call void @link(ptr %head, ptr %p)
  ret ptr null
}

define void @plica.give_all(ptr %head) {
  br label %ask
ask:
  %p = load ptr, ptr %head
  %none = icmp eq ptr %p, null
  br i1 %none, label %done, label %more
more:
  %next = getelementptr i8, ptr %p, i64 8
  %after = load ptr, ptr %next
  store ptr %after, ptr %head
  call void @free(ptr %p)
  br label %ask
done:
  ret void
}
"""
"""The text of the module of these functions, which is compiled once for all nests."""

CALLED = """
declare noalias ptr @plica.take(ptr, i64, i64) nounwind
declare void @plica.give(ptr) nounwind
declare ptr @plica.keep(ptr) nounwind
declare ptr @plica.grow(ptr, ptr, i64, i64) nounwind
declare void @plica.give_all(ptr) nounwind
"""
"""The declarations of these functions."""

INDEX_ARITHMETIC = {
    "index_add": "add nsw i64 {}, {}",
    "index_subtract": "sub nsw i64 {}, {}",
    "index_multiply": "mul nsw i64 {}, {}",
}
"""The instructions of arithmetic on sizes and indices."""

INTERLEAVED = 2  # the number of its metadata node
METADATA = (
    '!0 = !{!"branch_weights", i32 1, i32 2000}',
    '!1 = !{!"branch_weights", i32 2000, i32 1}',
    f"!{INTERLEAVED} = distinct !{{!{INTERLEAVED}, !3}}",
    '!3 = !{!"llvm.loop.interleave.count", i32 2}',
)
"""`!0` and `!1`: the weights of branches to errors, if the error is the first or the second label. `INTERLEAVED`:
how many vectors an interleaved loop reduces at once."""

PRODUCTS = {DType.FLOAT32: "product.f32", DType.FLOAT64: "product.f64"}
"""The functions that multiply matrices."""
_KERNELS = {DType.FLOAT32: "sgemm", DType.FLOAT64: "dgemm"}


@cache
def _kernel(name: str) -> int:
    """The address of a function of BLAS in scipy."""
    capsule = import_module("scipy.linalg.cython_blas").__pyx_capi__[name]
    get_name, get = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int = get(capsule, get_name(capsule))
    return address


def product_text(dtype: DType, *_: object) -> str:
    """The function of a product of matrices in row-major order, by BLAS, which reads them as transposed matrices.

    C = A B, (m, n) = (m, k) (k, n), is C^T = B^T A^T by columns. Rows of C, A and B, as they are stored, lie `%ldc`,
    `%lda` and `%ldb` entries apart.
    """
    type_ = llvm_type(dtype)
    numbers = ("m", "n", "k", "ldc", "lda", "ldb")
    cells = "\n".join(f"  %{name}.p = alloca i32\n  %{name}.w = trunc i64 %{name} to i32" for name in numbers)
    stores = "\n".join(f"  store i32 %{name}.w, ptr %{name}.p" for name in numbers)
    head = ", ".join([*(f"ptr %{name}" for name in "cab"), *(f"i64 %{name}" for name in numbers)])
    return f"""
define internal void @{PRODUCTS[dtype]}({head}, i1 %left, i1 %right) noinline {{
{cells}
  %alpha = alloca {type_}
  %beta = alloca {type_}
  %ta = alloca i8
  %tb = alloca i8
{stores}
  store {type_} 1.0, ptr %alpha
  store {type_} 0.0, ptr %beta
  %ta.w = select i1 %left, i8 84, i8 78
  %tb.w = select i1 %right, i8 84, i8 78
  store i8 %ta.w, ptr %ta
  store i8 %tb.w, ptr %tb
  %gemm = inttoptr i64 {_kernel(_KERNELS[dtype])} to ptr
  call void %gemm(ptr %tb, ptr %ta, ptr %n.p, ptr %m.p, ptr %k.p, ptr %alpha, ptr %b, ptr %ldb.p, ptr %a, ptr %lda.p, ptr %beta, ptr %c, ptr %ldc.p)
  ret void
}}"""  # noqa: E501 - one call


def stored(dtype: DType) -> str:
    """The type of an entry in memory: a byte for a boolean."""
    return "i8" if dtype == DType.BOOL else llvm_type(dtype)


def bytes_of(dtype: DType) -> int:
    """How many bytes an entry takes in memory."""
    return dtype.numpy.itemsize


_ON_STACK = 2048  # the most bytes of an array on the stack


def is_on_stack(statement: Allocate) -> bool:
    """Whether memory is on the stack: it is small, of known size, ends with its block, and the stack has room."""
    return (
        not (statement.leaves or statement.stack_is_full)
        and isinstance(statement.count, int)
        and statement.count * bytes_of(statement.buffer.dtype) <= _ON_STACK
    )


def argument_type(dtype: DType) -> str:
    """The type in which `entry` takes a number: one that ctypes can pass."""
    return "i8" if dtype == DType.BOOL else "float" if dtype.kind == "float" and dtype.bits == 16 else llvm_type(dtype)


def is_object(parameter: Buffer | Scalar) -> bool:
    """Whether `entry` takes an array object: for arrays, and for complex numbers, which ctypes cannot pass."""
    return isinstance(parameter, Buffer) or parameter.dtype.kind == "complex"


def require_layout() -> None:
    """Check that array objects have their fields at the offsets that `entry` reads.

    Raises:
        UnsupportedError: The objects of this version of numpy or Python have other offsets.
    """
    array = np.zeros((2, 3))
    address = id(array)
    data = ctypes.c_void_p.from_address(address + _DATA).value
    dimensions = ctypes.c_void_p.from_address(address + _DIMENSIONS).value
    flags = ctypes.c_int.from_address(address + _FLAGS).value
    shape = None if dimensions is None else tuple((ctypes.c_ssize_t * 2).from_address(dimensions))
    if data != array.ctypes.data or shape != array.shape or flags & _CONTIGUOUS != _CONTIGUOUS:
        raise UnsupportedError(
            f"the native backend of jit does not know the memory layout of arrays of numpy {np.__version__}; use "
            'backend="torch".'
        )


def entry_text(nest: Nest) -> str:
    """The text of `entry`, which Python calls: it reads pointers and sizes from numpy's array objects."""
    head: list[str] = []
    lines: list[str] = []
    has_gaps: list[str] = []
    values = []
    for parameter in nest.parameters:
        if isinstance(parameter, Buffer):
            name = f"%{parameter.name}"
            head.append(f"ptr {name}")
            lines += _read(name, "i32", _FLAGS, "flags")
            lines.append(f"{name}.and = and i32 {name}.flags, {_CONTIGUOUS}")
            lines.append(f"{name}.bad = icmp ne i32 {name}.and, {_CONTIGUOUS}")
            has_gaps.append(f"{name}.bad")
            lines += _read(name, "ptr", _DATA, "data")
            values.append(f"ptr {name}.data")
        elif is_object(parameter):
            name, type_ = f"%{parameter.text}", llvm_type(parameter.dtype)
            head.append(f"ptr {name}")
            lines += [*_read(name, "ptr", _DATA, "data"), f"{name}.value = load {type_}, ptr {name}.data"]
            values.append(f"{type_} {name}.value")
        else:
            name, type_, wanted = f"%{parameter.text}", argument_type(parameter.dtype), llvm_type(parameter.dtype)
            head.append(f"{type_} {name}")
            if parameter.dtype == DType.BFLOAT16:  # the upper bits of a float32
                lines += [f"{name}.bits = bitcast float {name} to i32", f"{name}.upper = lshr i32 {name}.bits, 16"]
                lines.append(f"{name}.value = trunc i32 {name}.upper to i16")
                name += ".value"
            elif type_ != wanted:
                convert = f"icmp ne i8 {name}, 0" if wanted == "i1" else f"fptrunc float {name} to {wanted}"
                lines.append(f"{name}.value = {convert}")
                name += ".value"
            values.append(f"{wanted} {name}")
    sizes = []
    for size, parameter_number, axis in nest.sizes:
        source = nest.parameters[parameter_number]
        assert isinstance(source, Buffer), "scalars have no sizes"
        name = f"%{source.name}"
        if f"{name}.dims = load ptr, ptr {name}.dims.p" not in lines:
            lines += _read(name, "ptr", _DIMENSIONS, "dims")
        lines.append(f"%{size.text}.p = getelementptr i64, ptr {name}.dims, i64 {axis}")
        lines.append(f"%{size.text} = load i64, ptr %{size.text}.p")
        sizes.append(f"i64 %{size.text}")
    for result in nest.results:
        if result.is_caller_allocated:
            head.append(f"ptr %{result.buffer.name}")
            lines += _read(f"%{result.buffer.name}", "ptr", _DATA, "data")
            values.append(f"ptr %{result.buffer.name}.data")
    lines += _read("%info", "ptr", _DATA, "data")
    any_has_gaps = "false"
    for parameter_number, flag in enumerate(has_gaps):
        lines.append(f"%any{parameter_number} = or i1 {any_has_gaps}, {flag}")
        any_has_gaps = f"%any{parameter_number}"
    arguments = ", ".join(["ptr %info.data", *sizes, *values])
    return "\n".join(
        [
            f"define i64 @entry({', '.join([*head, 'ptr %info'])}) {{",
            *lines,
            f"br i1 {any_has_gaps}, label %refuse, label %go",
            "go:",
            f"%status = call i64 @run({arguments})",
            "ret i64 %status",
            "refuse:",
            f"ret i64 {NOT_CONTIGUOUS}",
            "}",
        ]
    )


def _read(name: str, type_: str, offset: int, field: str) -> list[str]:
    """The lines that read a field of an object."""
    return [
        f"{name}.{field}.p = getelementptr i8, ptr {name}, i64 {offset}",
        f"{name}.{field} = load {type_}, ptr {name}.{field}.p",
    ]
