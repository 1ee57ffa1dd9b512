"""Arrays in the bodies of requests and answers: JSON, or numpy's own format.

JSON has no NaN and no infinities: `null` is NaN, "Infinity" and "-Infinity" are the infinities.
"""

import io
import json
import math
import threading
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from plica.errors import InputError

JSON, NPY, NPZ = "application/json", "application/x-npy", "application/x-npz"
HEADERS = threading.Lock()
"""Held while numpy reads a header, by `ast`: Python 3.11 counts the depth of the trees of all threads together, and may
raise a SystemError where two make some at one time (CPython issue 106905)."""
_WORDS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan, None: math.nan}


def from_json(body: bytes) -> dict[str, Any]:
    """The fields of a JSON object; arrays are lists of numbers.

    Raises:
        InputError: It is no such object.
    """
    try:
        found = json.loads(body)
        if not isinstance(found, dict):
            raise InputError(f'expected an object such as {{"x": [[0, 1]]}}, found {type(found).__name__}')
        return {name: _numbers(value) for name, value in found.items()}
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the body is no JSON that can be read: {str(error)[:200]}") from None


def _numbers(value: Any) -> Any:
    if isinstance(value, list) and _are_numbers(value):
        return value
    if isinstance(value, list):
        return [_numbers(one) for one in value]
    if value is None or isinstance(value, str):
        if value not in _WORDS:
            raise InputError(f'expected numbers, null, "Infinity" or "-Infinity", found {value!r:.60}')
        return _WORDS[value]
    if isinstance(value, dict):
        raise InputError("expected lists of numbers, found an object within one")
    return value


def _are_numbers(value: list[Any]) -> bool:
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except ValueError:  # lists of several lengths, which the entry refuses
        return False


def from_npy(body: bytes) -> np.ndarray[Any, Any]:
    """The array of an `.npy` file; its memory is that of the body.

    Raises:
        InputError: It is no such file, it holds Python objects, or it is not as long as it says.
    """
    file = io.BytesIO(body)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        with HEADERS:
            shape, by_columns, dtype = readers[np.lib.format.read_magic(file)](file)
    except Exception as error:  # what numpy raises for headers that are no Python, or no header, is of many kinds
        raise InputError(f"the body is no .npy file that can be read: {str(error)[:200]}") from None
    if dtype.kind not in "biufcV" or dtype.names is not None or dtype.subdtype is not None or not dtype.itemsize:
        raise InputError(f"expected an array of numbers, found the dtype {dtype}")
    count, rest = math.prod(shape), len(body) - file.tell()
    if rest != count * dtype.itemsize or min(shape, default=0) < 0:
        raise InputError(
            f"an array of shape {shape} and dtype {dtype} has {count * dtype.itemsize} bytes, found {rest}"
        )
    try:
        array = np.frombuffer(body, dtype, count, file.tell()).reshape(shape, order="F" if by_columns else "C")
    except (TypeError, ValueError) as error:  # too many axes, or sizes that no array has, of which one is 0
        raise InputError(f"there is no array of shape {str(shape)[:200]}: {error}") from None
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def to_json(results: Mapping[str, np.ndarray[Any, Any]], **beside: Any) -> bytes:
    """Results by name, and what stands beside them."""
    listed = {name: _listed(array) for name, array in results.items()}
    return json.dumps({"results": listed, **beside}, allow_nan=False).encode()


def _listed(array: np.ndarray[Any, Any]) -> Any:
    if array.dtype.kind in "biu":
        return array.tolist()
    whole = array.astype("float64")
    if np.isfinite(whole).all():
        return whole.tolist()
    words = whole.astype(object)
    words[np.isnan(whole)] = None
    words[whole == math.inf] = "Infinity"
    words[whole == -math.inf] = "-Infinity"
    return words.tolist()


def to_npy(array: np.ndarray[Any, Any]) -> bytes:
    """An `.npy` file."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def to_npz(results: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """An `.npz` file: one `.npy` file for each result."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as found:
        for name, array in results.items():
            found.writestr(f"{name}.npy", to_npy(array))
    return file.getvalue()
