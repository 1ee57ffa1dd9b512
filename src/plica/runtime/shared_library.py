"""A shared library, loaded from memory and called with numpy arrays: the code of `loops/shared_library.py`."""

import ctypes
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plica.errors import NativeFileError
from plica.runtime.elf import check_whole

Array = np.ndarray[Any, np.dtype[Any]]
Release = Callable[[int], object]

ENTRY = "plica_run_"
"""The prefix of the names of entries, so that none equals the name of a function of the C library."""
RELEASE = "plica_release"
"""The function that frees a result."""
TYPES = "plica_types"
"""The name of the text that describes the entries: a line for each, the fields of its `Signature` separated by tabs."""
NO_MEMORY = -2
"""The status that an entry returns if memory cannot be allocated."""


@dataclass(frozen=True, slots=True)
class Signature:
    """An entry, as a library describes it.

    Args:
        numbers: How many numbers the entry reports: addresses and sizes of results that it allocates, or of an error.
        sizes: The names of the sizes that it takes.
        types: The types of its arguments and results (`types_text`).
    """

    numbers: int
    sizes: tuple[str, ...]
    types: str


@dataclass(frozen=True, slots=True)
class SelfAllocated:
    """A result that the entry allocates, since its sizes are known only after the run.

    Args:
        rank: How many axes it has.
        dtype: Its dtype.
    """

    rank: int
    dtype: np.dtype[Any]


class Owner:
    """Memory that native code allocated, which is freed with the last array that uses it.

    Args:
        address: Its address.
        shape: The shape of its array.
        dtype: The dtype of its array.
        release: Frees the memory at an address.
    """

    __slots__ = ("__array_interface__", "_address", "_release")

    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], release: Release) -> None:
        self._address, self._release = address, release
        self.__array_interface__ = {"data": (address, False), "shape": shape, "typestr": dtype.str, "version": 3}

    def __del__(self) -> None:
        self._release(self._address)


class Library:
    """A shared library, which stays loaded as long as this object, or an array that its entries allocated, exists.

    Several threads may call it at one time, and Python's lock is not held meanwhile.

    Args:
        code: The bytes of the library. They must be trusted: their code may do whatever the process may.

    Attributes:
        signatures: The signature of each entry, by its name.

    Raises:
        NativeFileError: It is no whole library, or the system does not load it.
    """

    def __init__(self, code: bytes | memoryview) -> None:
        check_whole(code)
        try:
            file = os.memfd_create("plica")
            with os.fdopen(file, "wb") as target:
                target.write(code)
                target.flush()
                self._library = ctypes.CDLL(_path(file))
        except OSError as error:
            raise NativeFileError(f"the system cannot load its code: {error}") from error
        closing = weakref.finalize(self, _close, self._library._handle)
        closing.atexit = False  # its arrays may be freed even later, by code of the library
        self._functions: dict[str, Any] = {}
        try:
            self.signatures: Mapping[str, Signature] = dict(map(_signature, self._text().splitlines()))
        except ValueError as error:
            raise NativeFileError(f"its symbol {TYPES} is damaged ({error!s:.100}); export the model again") from error

    def _text(self) -> str:
        try:
            text = ctypes.c_char.in_dll(self._library, TYPES)
        except ValueError as error:
            raise NativeFileError(f"its code has no symbol {TYPES}; export the model again") from error
        return ctypes.string_at(ctypes.addressof(text)).decode()

    def _function(self, name: str, *arguments: type, result: type | None) -> Any:
        """A function, with its types."""
        if name not in self._functions:
            try:
                function = self._library[name]
            except AttributeError as error:
                raise NativeFileError(f"its code has no function {name.removeprefix(ENTRY)}") from error
            function.argtypes, function.restype = arguments, result
            self._functions[name] = function
        return self._functions[name]

    def _release(self, address: int) -> None:
        self._function(RELEASE, ctypes.c_void_p, result=None)(address)

    def call(
        self,
        name: str,
        arguments: Sequence[Array],
        sizes: Sequence[int],
        results: Sequence[Array],
        self_allocated: Sequence[SelfAllocated] = (),
        *,
        constants: Sequence[int] = (),
    ) -> tuple[int, list[Array], list[int]]:
        """Run an entry once.

        Args:
            name: Its name.
            arguments: The arrays that it reads, row-major; numbers as arrays of no dimension.
            sizes: The values of `Signature.sizes`.
            results: The arrays that it writes, row-major.
            self_allocated: The results that it allocates.
            constants: The addresses of the arrays that it reads after the arguments.

        Returns:
            The status (0, or the number of the site that ended the run), the results that it allocated, and the
            numbers of an error.

        Raises:
            NativeFileError: There is no such entry.
        """
        function = self._function(f"{ENTRY}{name}", *[ctypes.c_void_p] * 4, result=ctypes.c_int64)
        info = (ctypes.c_int64 * self.signatures[name].numbers)()
        size_array = (ctypes.c_int64 * len(sizes))(*sizes)
        status: int = function(_pointers(arguments, constants), size_array, _pointers(results), info)
        if status:
            return status, [], list(info)
        arrays, position = [], 0
        for result in self_allocated:
            address, *shape = info[position : position + 1 + result.rank]
            arrays.append(array_at(address, tuple(shape), result.dtype, self._release))
            position += 1 + result.rank
        return 0, arrays, []


def array_at(address: int, shape: tuple[int, ...], dtype: np.dtype[Any], release: Release) -> Array:
    """The array in memory that native code allocated; the memory is freed with the array."""
    array: Array = np.asarray(Owner(address, shape, dtype, release))
    return array if array.dtype == dtype else array.view(dtype)  # numpy's type string of bfloat16 is that of raw bytes


def _pointers(arrays: Sequence[Array], further: Sequence[int] = ()) -> Any:
    count = len(arrays) + len(further)
    return (ctypes.c_void_p * count)(*[array.ctypes.data for array in arrays], *further)


def _path(file: int) -> str:
    """A path of an open file, different at each call: the system loads no second library from a path that it knows."""
    bits = f"{int.from_bytes(os.urandom(8)):b}"
    return f"/proc/self/fd/{'/'.join('.' if bit == '1' else '' for bit in bits)}/{file}"


def _signature(line: str) -> tuple[str, Signature]:
    name, numbers, sizes, types = line.split("\t")
    return name, Signature(int(numbers), tuple(sizes.split(",")) if sizes else (), types)


def _close(handle: int) -> None:
    from _ctypes import dlclose  # which only some systems have

    dlclose(handle)
