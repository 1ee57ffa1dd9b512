"""The code of a target that is a shared library: functions of numpy's arrays, each run on the thread that calls it."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from plica.errors import NativeFileError
from plica.runtime.arrays import Array, numpy_dtype
from plica.runtime.container import Image
from plica.runtime.faults import error_of
from plica.runtime.manifest import ArrayType, Dim, Fault, Function, Target
from plica.runtime.shared_library import NO_MEMORY, Left, Library, Signature
from plica.runtime.sizes import evaluate, symbols
from plica.runtime.tensors import NO_TENSORS, Tensors


def types_text(inputs: Sequence[ArrayType], results: Sequence[ArrayType]) -> str:
    """The types of a function as its library keeps them, to be compared with those of the manifest.

    >>> types_text([ArrayType("x", "float32", ("n", 2)), ArrayType("k", "int64", ())], [ArrayType("y", "bool", ("n",))])
    'float32[n,2] int64[] -> bool[n]'
    """
    return " ".join([*map(_text, inputs), "->", *map(_text, results)])


def _text(array: ArrayType) -> str:
    return f"{array.dtype}[{','.join(str(size).replace(' ', '') for size in array.shape)}]"


class LibraryCode:
    """The code of a file for one target; its functions keep nothing between calls.

    Args:
        image: The file.
        target: The target whose code is loaded.

    Raises:
        NativeFileError: The system does not load the code, or it does not fit the manifest.
    """

    gives_own = True

    def __init__(self, image: Image, target: Target) -> None:
        self._library = Library(image.part(target.part))
        self._functions = {
            function.name: _prepared(function, self._library.signatures.get(function.name))
            for function in image.manifest.functions()
        }

    def session(self, rows: int | None = None, alone: int = 0) -> nullcontext["LibraryCode"]:  # noqa: ARG002
        """The code itself, which any number of threads call at one time."""
        return nullcontext(self)

    def close(self) -> None:
        """Do nothing: the library goes with the last call and the last array that it left."""

    def call(
        self,
        function: str,
        arguments: Sequence[Array],
        results: tuple[ArrayType, ...],  # noqa: ARG002
        constants: tuple[str, ...] = (),
        tensors: Tensors = NO_TENSORS,
    ) -> list[Array]:
        """Run a function once; the results belong to the caller.

        Raises:
            PlicaError: A check of the function fails.
            MemoryError: There is no more memory.
        """
        prepared = self._functions[function]
        arrays = [array if array.flags.carray else _readable(array) for array in arguments]
        sizes = {name: arrays[index].shape[axis] for name, index, axis in prepared.sizes}
        try:
            written = [
                np.empty([_size(size, sizes) for size in shape], numpy_dtype(dtype))
                for shape, dtype in prepared.written
            ]
        except (ValueError, MemoryError):
            raise _too_large(function) from None
        addresses = tensors.addresses(constants)
        allocated = [Left(rank, numpy_dtype(dtype)) for rank, dtype in prepared.left]
        status, left, numbers = self._library.call(
            function, arrays, [*sizes.values()], written, allocated, constants=addresses
        )
        if status == NO_MEMORY:
            raise _too_large(function)
        if status:
            if not 0 < status <= len(prepared.faults):
                raise NativeFileError(f"its function {function} ends with {status}, which its manifest does not know")
            raise error_of(prepared.faults[status - 1], numbers)
        if not left:
            return written
        of_caller, of_library = iter(written), iter(left)
        return [next(of_library if is_left else of_caller) for is_left in prepared.is_left]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A function, ready to be called.

    Args:
        sizes: The sizes that it takes, each with the argument and the axis that have it.
        written: Shapes and dtypes of the results that the caller allocates.
        left: How many axes the results have that it allocates, and their dtypes.
        is_left: For each result whether the function allocates it.
        faults: The errors that end it.
    """

    sizes: tuple[tuple[str, int, int], ...]
    written: tuple[tuple[tuple[Dim, ...], str], ...]
    left: tuple[tuple[int, str], ...]
    is_left: tuple[bool, ...]
    faults: tuple[Fault, ...]


def _prepared(function: Function, signature: Signature | None) -> _Prepared:
    """A function of a manifest, which fits what its library says of it.

    Raises:
        NativeFileError: The library has no such function, or one of other types, which would read beyond its arrays.
    """
    if signature is None:
        raise NativeFileError(f"its code has no function {function.name}; export the model again")
    types = types_text(function.inputs, function.results)
    numbers = [part for fault in function.faults for part in fault.message if isinstance(part, int)]
    places: dict[Dim, tuple[int, int]] = {}
    for index, array in enumerate(function.inputs):
        for axis, size in enumerate(array.shape):
            places.setdefault(size, (index, axis))
    if signature.types != types or not places.keys() >= {*signature.sizes}:
        raise _misfit(function, f"has the types {signature.types}, expected {types}")
    if max(numbers, default=-1) >= signature.numbers:
        raise _misfit(function, f"reports {signature.numbers} numbers, expected {max(numbers) + 1}")
    is_left = tuple(
        not {name for size in result.shape for name in symbols(size)} <= {*signature.sizes}
        for result in function.results
    )
    results = [(result.shape, result.dtype) for result in function.results]
    return _Prepared(
        tuple((name, *places[name]) for name in signature.sizes),
        tuple(result for result, left in zip(results, is_left, strict=True) if not left),
        tuple((len(shape), dtype) for (shape, dtype), left in zip(results, is_left, strict=True) if left),
        is_left,
        function.faults,
    )


def _misfit(function: Function, problem: str) -> NativeFileError:
    return NativeFileError(
        f"its code does not fit its manifest: {function.name} {problem:.300}; export the model again"
    )


def _readable(array: Array) -> Array:
    """An array whose entries lie in order and where the processor expects them."""
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else array.copy(order="C")


def _size(size: Dim, sizes: Mapping[str, int]) -> int:
    """A size of a result. Where it is negative, or divides by 0, the function itself says so."""
    if isinstance(size, int):
        return size
    try:
        return max(evaluate(size, sizes), 0)
    except NativeFileError:
        return 0


def _too_large(function: str) -> MemoryError:
    return MemoryError(f"its function {function} needs more memory than there is; take smaller sizes")
