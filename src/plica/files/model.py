"""A trained circuit in one file: structure as JSON and weights as tensors, in the safetensors format; no pickle.

>>> import tempfile, pathlib
>>> from plica.symbolic.circuit import Circuit
>>> from plica.symbolic.layers import CategoricalLayer
>>> layer = CategoricalLayer([0], 2, num_categories=3)
>>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.plica"
>>> logits = np.zeros((2, 3), dtype=np.float32)
>>> save_model(path, Circuit([layer], {}, [layer]), {"0.logits": logits}, {"semiring": "lse-sum"})
>>> load_model(path).tensors["0.logits"].shape
(2, 3)
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from plica.errors import FileFormatError, UnsupportedError
from plica.files.paths import check_is_file, replacing
from plica.files.structure import CLASSES, Array, class_table, decode_circuit, encode_circuit
from plica.lower.leaves import leaf_keys
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType

KEY = "plica-model"  # of the description in the metadata of the file
VERSION = 1

_WEIGHT = "weight/"  # prefixes of the names of tensors in the file
_SETTING = "setting/"
_DTYPE_KINDS = {DataType.INTEGER: "iu", DataType.REAL: "f", DataType.COMPLEX: "c"}
_SHOWN = 6  # problems that one message lists


@dataclass(frozen=True, slots=True, eq=False)
class ModelFile:
    """What a model file holds.

    Attributes:
        circuit: The structure.
        tensors: The weights by the keys of a compiled circuit's `state_dict`.
        options: How to compile it and what else was saved with it.
    """

    circuit: Circuit
    tensors: dict[str, Array]
    options: dict[str, Any]


def save_model(
    path: str | os.PathLike[str],
    circuit: Circuit,
    tensors: Mapping[str, Array],
    options: Mapping[str, Any],
    *,
    classes: Iterable[type] = (),
) -> None:
    """Write a model file, whole or not at all.

    Args:
        path: Where to; by habit it ends in `.plica`.
        circuit: The structure.
        tensors: Weights by the keys of `state_dict`, unfolded.
        options: JSON values, such as the semiring and dtype to compile with.
        classes: Layers, parameter nodes and initializers of one's own that the circuit uses.

    Raises:
        UnsupportedError: The circuit holds something that a file cannot name.
        FileFormatError: The tensors do not fit the circuit.
    """
    tensors = {name: np.asarray(value) for name, value in tensors.items()}
    _check_tensors("save_model", circuit, tensors)
    structure, arrays = encode_circuit(circuit, _classes(classes))
    stored = {_WEIGHT + name: value for name, value in tensors.items()}
    stored |= {_SETTING + name: value for name, value in arrays.items()}
    description = {
        "version": VERSION,
        "options": dict(options),
        "circuit": structure,
        "complex": [name for name, value in stored.items() if value.dtype.kind == "c"],
    }
    try:
        text = json.dumps(description, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UnsupportedError(f"the options cannot be saved as JSON ({error}); use numbers, text and lists") from error
    plain = {name: _to_storable(value) for name, value in stored.items()}
    with replacing(path) as temporary:
        save_file(plain, temporary, metadata={KEY: text})  # one key, because the format keeps no order of keys


def load_model(path: str | os.PathLike[str], *, classes: Iterable[type] = ()) -> ModelFile:
    """Read and check a model file.

    Args:
        path: The file.
        classes: Classes of one's own that the circuit may use.

    Raises:
        FileFormatError: The file is missing, damaged, of another kind or version, or its tensors do not fit.
    """
    path = Path(path)
    check_is_file(path)
    try:
        with safe_open(path, framework="numpy") as file:
            description = _description(path, file.metadata() or {})
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (the file is no mapping)
    except (SafetensorError, OSError) as error:
        raise FileFormatError(
            f"{path}: not a readable model file ({' '.join(str(error).split())}); cut short, or of another kind?"
        ) from error
    try:
        structure, options = description["circuit"], dict(description["options"])
        for name in description["complex"]:
            stored[name] = _from_pairs(stored[name])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FileFormatError(f"{path}: the description of the model is damaged ({error!r})") from error
    arrays = {name.removeprefix(_SETTING): value for name, value in stored.items() if name.startswith(_SETTING)}
    tensors = {name.removeprefix(_WEIGHT): value for name, value in stored.items() if name.startswith(_WEIGHT)}
    try:
        circuit = decode_circuit(structure, arrays, _classes(classes))
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from error
    _check_tensors(str(path), circuit, tensors)
    return ModelFile(circuit, tensors, options)


def _classes(extra: Iterable[type]) -> Mapping[str, type]:
    return class_table((*CLASSES.values(), *extra))


def _description(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    """What the file says of itself, after checking that it is a model of this version."""
    if KEY not in metadata:
        raise FileFormatError(f"{path}: a safetensors file, but not a model of Plica (no {KEY!r} in its metadata)")
    try:
        description = json.loads(metadata[KEY])
        version = description["version"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: the description of the model is damaged ({type(error).__name__})") from error
    if version != VERSION:
        raise FileFormatError(
            f"{path}: model format version {version}, expected {VERSION}; "
            "read it with the version of Plica that wrote it, or save it anew"
        )
    found: dict[str, Any] = description
    return found


def _check_tensors(source: str, circuit: Circuit, tensors: Mapping[str, Array]) -> None:
    """Raise unless there is one tensor for each leaf, of its shape and kind of number."""
    leaves = {key: leaf for leaf, key in leaf_keys(circuit).items()}
    problems = [f"{name}: not expected" for name in tensors if name not in leaves]
    for name, leaf in leaves.items():
        expected = f"{name}: expected {leaf.dtype.name.lower()} {leaf.shape}"
        if name not in tensors:
            problems.append(f"{expected}, found none")
            continue
        found = tensors[name]
        if found.shape != leaf.shape or found.dtype.kind not in _DTYPE_KINDS[leaf.dtype]:
            problems.append(f"{expected}, found {found.dtype} {found.shape}")
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise FileFormatError(f"{source}: tensors do not fit the circuit: {'; '.join(problems[:_SHOWN])}{more}")


def _to_storable(value: Array) -> Array:
    """C order, and complex numbers as pairs: the format has no complex numbers of double precision."""
    value = np.array(value, order="C")
    return np.stack((value.real, value.imag), axis=-1) if value.dtype.kind == "c" else value


def _from_pairs(pairs: Array) -> Array:
    if pairs.ndim == 0 or pairs.shape[-1] != 2 or pairs.dtype.kind != "f":
        raise ValueError(f"complex numbers are stored as pairs of floats, found {pairs.dtype} {pairs.shape}")
    joined = np.empty(pairs.shape[:-1], dtype=np.result_type(pairs.dtype, np.complex64))
    joined.real, joined.imag = pairs[..., 0], pairs[..., 1]
    return joined
