"""The code of a target, a shared library: functions of numpy arrays, each of which runs on the thread that calls it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plica import errors
from plica.errors import NativeFileError
from plica.runtime.arrays import Array, numpy_dtype
from plica.runtime.container import Image
from plica.runtime.manifest import ArrayType, Dim, Fault, Function, Target
from plica.runtime.shared_library import NO_MEMORY, Library, SelfAllocated, Signature
from plica.runtime.sizes import evaluate, symbols
from plica.runtime.tensors import NO_TENSORS, Tensors


def types_text(inputs: Sequence[ArrayType], results: Sequence[ArrayType]) -> str:
    """The types of a function as text; a library contains the same text, which is compared with the manifest.

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

    def __init__(self, image: Image, target: Target) -> None:
        self._library = Library(image.part(target.part))
        self._functions = {
            function.name: _prepared(function, self._library.signatures.get(function.name))
            for function in image.manifest.functions()
        }

    def call(
        self,
        function: str,
        arguments: Sequence[Array],
        constants: tuple[str, ...] = (),
        tensors: Tensors = NO_TENSORS,
    ) -> list[Array]:
        """Run a function once; the results belong to the caller.

        Raises:
            PlicaError: A check of the function fails.
            MemoryError: There is no more memory.
        """
        prepared = self._functions[function]
        arrays = [array if array.flags.carray else _contiguous(array) for array in arguments]
        sizes = {name: arrays[index].shape[axis] for name, index, axis in prepared.sizes}
        try:
            caller_allocated = [
                np.empty([_size(size, sizes) for size in shape], numpy_dtype(dtype))
                for shape, dtype in prepared.caller_allocated
            ]
        except (ValueError, MemoryError):
            raise _too_large(function) from None
        addresses = tensors.addresses(constants)
        allocated = [SelfAllocated(rank, numpy_dtype(dtype)) for rank, dtype in prepared.self_allocated]
        status, self_allocated, numbers = self._library.call(
            function, arrays, [*sizes.values()], caller_allocated, allocated, constants=addresses
        )
        if status == NO_MEMORY:
            raise _too_large(function)
        if status:
            if not 0 < status <= len(prepared.faults):
                raise NativeFileError(
                    f"its function {function} returned the unknown status {status}; export the model again"
                )
            raise _error(prepared.faults[status - 1], numbers)
        if not self_allocated:
            return caller_allocated
        of_caller, of_library = iter(caller_allocated), iter(self_allocated)
        return [
            next(of_library if is_self_allocated else of_caller) for is_self_allocated in prepared.is_self_allocated
        ]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A function, ready to be called.

    Args:
        sizes: The sizes that it takes; for each, the argument and the axis from which it is read.
        caller_allocated: Shapes and dtypes of the results that the caller allocates.
        self_allocated: The number of axes and the dtype of each result that the function allocates.
        is_self_allocated: For each result whether the function allocates it.
        faults: The errors that end it.
    """

    sizes: tuple[tuple[str, int, int], ...]
    caller_allocated: tuple[tuple[tuple[Dim, ...], str], ...]
    self_allocated: tuple[tuple[int, str], ...]
    is_self_allocated: tuple[bool, ...]
    faults: tuple[Fault, ...]


def _prepared(function: Function, signature: Signature | None) -> _Prepared:
    """A function of a manifest, checked against the signature in its library.

    Raises:
        NativeFileError: The library has no such function, or one of other types, which would read beyond its arrays.
    """
    if signature is None:
        raise NativeFileError(f"its code has no function {function.name}; export the model again")
    types = types_text(function.inputs, function.results)
    numbers = [part for fault in function.faults for part in fault.message if isinstance(part, int)]
    axis_of_size: dict[Dim, tuple[int, int]] = {}
    for index, array in enumerate(function.inputs):
        for axis, size in enumerate(array.shape):
            axis_of_size.setdefault(size, (index, axis))
    if signature.types != types or not axis_of_size.keys() >= {*signature.sizes}:
        raise _misfit(function, f"has the types {signature.types}, expected {types}")
    if max(numbers, default=-1) >= signature.numbers:
        raise _misfit(function, f"reports {signature.numbers} numbers, expected {max(numbers) + 1}")
    is_self_allocated = tuple(
        not {name for size in result.shape for name in symbols(size)} <= {*signature.sizes}
        for result in function.results
    )
    results = [(result.shape, result.dtype) for result in function.results]
    return _Prepared(
        tuple((name, *axis_of_size[name]) for name in signature.sizes),
        tuple(result for result, self_allocated in zip(results, is_self_allocated, strict=True) if not self_allocated),
        tuple(
            (len(shape), dtype)
            for (shape, dtype), self_allocated in zip(results, is_self_allocated, strict=True)
            if self_allocated
        ),
        is_self_allocated,
        function.faults,
    )


def _misfit(function: Function, problem: str) -> NativeFileError:
    return NativeFileError(
        f"its code does not fit its manifest: {function.name} {problem:.300}; export the model again"
    )


def _contiguous(array: Array) -> Array:
    """The array if it is row-major without gaps and aligned; else a copy that is."""
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else array.copy(order="C")


def _size(size: Dim, sizes: Mapping[str, int]) -> int:
    """A size of a result; 0 if it is negative or divides by 0, for which the function raises its own error."""
    if isinstance(size, int):
        return size
    try:
        return max(evaluate(size, sizes), 0)
    except NativeFileError:
        return 0


def _too_large(function: str) -> MemoryError:
    return MemoryError(f"its function {function} needs more memory than there is; take smaller sizes")


def _error(fault: Fault, numbers: Sequence[int]) -> errors.PlicaError:
    """The error of a fault, with the numbers that the function reported.

    >>> _error(Fault("BoundsError", ("index ", 0, " does not lie within axis 1 of size ", 1, ".")), [7, 3])
    BoundsError('index 7 does not lie within axis 1 of size 3.')
    """
    message = "".join(part if isinstance(part, str) else str(numbers[part]) for part in fault.message)
    error: errors.PlicaError = getattr(errors, fault.error)(message)
    return error
