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

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NotRequired, Protocol, TypeAlias, TypedDict, runtime_checkable

import numpy as np
from safetensors import SafetensorError, safe_open

from plica.arguments import elements, found, integer, keywords
from plica.errors import DTypeError, FileFormatError, InputError, PlicaError, UnsupportedError
from plica.files.budget import Budget, default_limit
from plica.files.encoding import Encoding, StoredEncoding
from plica.files.modules import check_shared, fill_modules, module_entries, shared_names
from plica.files.schema import cannot_rebuild, check, without_repeats
from plica.files.structure import CLASSES, Array, CircuitRecord, class_table, decode_circuit, encode_circuit
from plica.files.versions import VERSION, upgraded, version_of
from plica.ir.dtypes import DType
from plica.lower.checks import check_semiring
from plica.lower.data import column_domains
from plica.lower.fold.groups import single_groups
from plica.lower.leaves import leaf_keys
from plica.lower.queries.score import lower_score
from plica.lower.resolve import resolve_circuit
from plica.paths import as_path, check_is_file, replacing
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.parameters import LeafRow
from plica.symbolic.semirings import Semiring

if TYPE_CHECKING:
    from plica.backend.torch.module_states import Entry

KEY = "plica-model"  # of the description in the metadata of the file

_WEIGHT = "weight/"  # prefixes of the names of tensors in the file
_SETTING = "setting/"
_DIGEST = "sha256"  # the name of the tensor with the hash of all else, by which reading detects damage
_DTYPE_KINDS = {DataType.INTEGER: "iu", DataType.REAL: "f", DataType.COMPLEX: "c"}
_SHOWN = 6  # problems that one message lists
_MAX_AXES = 32  # of a tensor; numpy and torch have 64, and folding and products of shapes add some
# The dtypes that are written; complex numbers are pairs of floats.
_STORED = ("BOOL", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "F16", "F32", "F64")


@runtime_checkable
class Unread(Protocol):
    """An array that is read when it is written; each is held in memory alone."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of its numbers."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""

    def read(self) -> Array:
        """The numbers."""


LeafRows: TypeAlias = Mapping[type, LeafRow]


class FileRecord(TypedDict):
    """The description in the header of a file, beside the names, dtypes and shapes of the tensors.

    `complex` names the tensors that are stored as pairs of floats. `shared` groups the names of weights that are one
    tensor in the modules of layers.
    """

    version: int
    options: dict[str, Any]
    circuit: CircuitRecord
    complex: list[str]
    shared: NotRequired[list[list[str]]]


class KnownOptions(TypedDict, total=False):
    """The options that Plica reads; a file may hold others."""

    semiring: str
    dtype: Literal["float32", "float64"]
    image_shape: list[int] | None
    num_values: int | None
    data: str
    encoding: StoredEncoding | None
    recipe: dict[str, Any] | None
    target: int | None


@dataclass(frozen=True, slots=True, eq=False)
class ModelFile:
    """The contents of a model file.

    Attributes:
        circuit: The structure.
        tensors: The weights by the keys of a compiled circuit's `state_dict`.
        options: How to compile the circuit, and other values saved with it.
    """

    circuit: Circuit
    tensors: dict[str, Array]
    options: dict[str, Any]


def save_model(
    path: str | os.PathLike[str],
    circuit: Circuit,
    tensors: "Mapping[str, Array | Unread]",
    options: Mapping[str, Any],
    *,
    classes: Iterable[type | LeafRow] = (),
) -> None:
    """Write a model file, whole or not at all.

    Args:
        path: The file; by habit it ends in `.plica`.
        circuit: The structure.
        tensors: Weights by the keys of `state_dict`, unfolded, including those of modules that layers hold. Those that
            are `Unread` are read one after another, in the order of their keys.
        options: JSON values, such as the semiring and dtype to compile with.
        classes: Custom layers, parameter nodes and initializers that the circuit uses. For a leaf that is no
            `ComposedParameter`, pass the LeafRow of its context.

    Raises:
        UnsupportedError: The circuit holds an object that a file cannot name, or a module with a state that is not made
            of tensors.
        FileFormatError: The tensors do not fit the circuit, or the path cannot be written.
        DTypeError: An item of `classes` is neither a class nor a LeafRow, or `path` is no path.
    """
    tensors = {name: value if isinstance(value, Unread) else np.asarray(value) for name, value in tensors.items()}
    known, rows = _classes(classes)
    structure, arrays = encode_circuit(circuit, known)
    resolved = resolve_circuit(circuit, rows)
    entries = module_entries(circuit)
    _check_tensors("save_model: tensors", resolved, tensors, entries)
    stored = {_WEIGHT + name: value for name, value in tensors.items()}
    stored |= {_SETTING + name: value for name, value in arrays.items()}
    description = {
        "version": version_of(structure),
        "options": dict(options),
        "circuit": structure,
        "complex": sorted(name for name, value in stored.items() if value.dtype.kind == "c"),
    }
    shared = shared_names(entries)
    if shared:
        description["shared"] = shared
    try:
        text = json.dumps(description, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UnsupportedError(f"the options cannot be saved as JSON ({error}); use numbers, text and lists") from error
    _check_options(
        json.loads(json.dumps(description["options"])), resolved
    )  # through JSON, as a reader will get them: it turns tuples into lists
    with replacing(path) as temporary:
        try:
            _write(temporary, text, stored)
        except OSError as error:  # a full disk, for instance
            raise FileFormatError(f"{path}: cannot be written: {error}; what was there stays") from error


def _write(path: Path, text: str, stored: Mapping[str, "Array | Unread"]) -> None:
    """Write tensors in the safetensors format, one after another, and last the digest of all.

    Args:
        path: The file.
        text: The description.
        stored: The tensors by name; each is read once, in the order of names.

    Raises:
        FileFormatError: A tensor that was not read before has NaN.
    """
    digest = hashlib.sha256(text.encode())
    places = {name: _storable_place(value) for name, value in stored.items()}
    places[_DIGEST] = _Place("U8", (digest.digest_size,), digest.digest_size, 1)
    order = sorted(places, key=lambda name: (-places[name].itemsize, name))  # so that numbers lie at multiples of sizes
    header: dict[str, Any] = {"__metadata__": {KEY: text}}  # one key, because the format keeps no order of keys
    start, starts = 0, {}
    for name in order:
        place, starts[name] = places[name], start
        start += place.nbytes
        header[name] = {"dtype": place.dtype, "shape": list(place.shape), "data_offsets": [starts[name], start]}
    head = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    head += b" " * (-len(head) % _ALIGNED)
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for name in sorted(stored):
            value = _to_storable(stored[name])
            problem = _not_numbers(value) if isinstance(stored[name], Unread) else ""
            if problem:
                raise FileFormatError(f"save_model: {name.removeprefix(_WEIGHT)}: {problem}")
            _add_to_digest(digest, name, value)
            file.seek(8 + len(head) + starts[name])
            file.write(value.reshape(-1).view(np.uint8).data)
        file.seek(8 + len(head) + starts[_DIGEST])
        file.write(digest.digest())


_ALIGNED = 8  # bytes, of which the header has a multiple


@dataclass(frozen=True, slots=True)
class _Place:
    """What the header of a file says of a tensor."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    itemsize: int


def _storable_place(value: "Array | Unread") -> _Place:
    """The place of a tensor as `_to_storable` gives it."""
    dtype, shape = np.dtype(value.dtype), tuple(value.shape)
    if dtype.kind == "c":
        dtype, shape = np.zeros((), dtype).real.dtype, (*shape, 2)
    letter = {"b": "BOOL", "i": "I", "u": "U", "f": "F"}[dtype.kind]
    name = letter if dtype.kind == "b" else f"{letter}{8 * dtype.itemsize}"
    return _Place(name, shape, math.prod(shape) * dtype.itemsize, dtype.itemsize)


def load_model(
    path: str | os.PathLike[str],
    *,
    classes: Iterable[type | LeafRow] = (),
    modules: Mapping[str, Any] | None = None,
    max_bytes: int | None = None,
) -> ModelFile:
    """Read and check a model file; the circuit can be compiled.

    Files of older versions, which have no digest, are read without that check.

    Args:
        path: The file.
        classes: Custom classes that the circuit may use, as for `save_model`.
        modules: The modules that layers hold, by the prefix of the keys of their tensors (`"0.module"`). They must
            have the classes, sizes and dtypes of those that were saved. Once the whole file has passed its checks, they
            are filled with the saved tensors; the circuit holds these same objects.
        max_bytes: The memory that the sizes declared in the file may ask for; by default 1 GiB, and 1 KiB for each byte
            of the file.

    Raises:
        FileFormatError: The file is missing, damaged, of another kind or version, or its tensors or the modules do
            not fit; the message names the place in the file.
        UnsupportedError: A module has a state that is not made of tensors.
        DTypeError: `path` is no path, or an argument is of another type.
        ShapeError: `max_bytes` is below 1.
    """
    path = as_path(path)
    check_is_file(path)
    if max_bytes is not None:
        integer("a model file", "max_bytes", max_bytes, least=1)
    named_modules = keywords("a model file", "modules", modules or {})
    try:
        return _load(path, *_classes(classes), named_modules, Budget(max_bytes or default_limit(path.stat().st_size)))
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from error
    except (SafetensorError, OSError, MemoryError) as error:
        raise FileFormatError(
            f"{path}: not a readable model file ({' '.join(str(error).split())}); cut short, or of another kind?"
        ) from error


def _load(
    path: Path, classes: Mapping[str, type], rows: LeafRows, modules: Mapping[str, Any], budget: Budget
) -> ModelFile:
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata() or {}
        description = _description(metadata)
        stored = {name: _read_tensor(file, name) for name in file.keys()}  # noqa: SIM118 (the file is no mapping)
    digest = stored.pop(_DIGEST, None)
    is_whole = digest is None or np.array_equal(digest, _digest(metadata[KEY], stored))
    for name in description["complex"]:
        if name not in stored:
            raise FileFormatError(f"complex: there is no tensor {name!r} in the file")
        stored[name] = _from_pairs(name, stored[name])
    arrays = {name.removeprefix(_SETTING): value for name, value in stored.items() if name.startswith(_SETTING)}
    tensors = {name.removeprefix(_WEIGHT): value for name, value in stored.items() if name.startswith(_WEIGHT)}
    circuit = decode_circuit(description["circuit"], arrays, classes, modules=modules, budget=budget)
    options = dict(description["options"])
    resolved = _resolved(circuit, rows)
    _check_options(options, resolved)
    entries = module_entries(circuit)
    _check_tensors("tensors", resolved, tensors, entries, exactly=True)
    check_shared(description.get("shared", []), shared_names(entries))
    if not is_whole:
        raise FileFormatError(
            "the file is damaged: its digest does not match its contents, so its numbers may be wrong; "
            "copy it again, or save the model anew"
        )
    fill_modules(circuit, tensors)
    return ModelFile(circuit, tensors, options)


def _classes(extra: Iterable[type | LeafRow]) -> tuple[Mapping[str, type], LeafRows]:
    """Every class that a file may name, and the LeafRows by the classes of their leaves."""
    members = elements("a model file", "classes", extra)
    for member in members:
        if not isinstance(member, type | LeafRow):
            raise DTypeError(
                f"a model file: expected classes or LeafRows among the classes, found {found(member)}; no file holds a "
                "custom semiring: pass it to plica.compile(circuit, semiring=row)"
            )
    rows = {member.leaf: member for member in members if isinstance(member, LeafRow)}
    return class_table(
        (*CLASSES.values(), *(member.leaf if isinstance(member, LeafRow) else member for member in members))
    ), rows


def _resolved(circuit: Circuit, rows: LeafRows) -> Circuit:
    try:
        return resolve_circuit(circuit, rows)
    except PlicaError as error:
        raise FileFormatError(f"circuit: {error}") from error


def _description(metadata: Mapping[str, str]) -> dict[str, Any]:
    """The description of the file, checked and upgraded to the current version."""
    if KEY not in metadata:
        raise FileFormatError(f"a safetensors file, but not a model of Plica (no {KEY!r} in its metadata)")
    try:
        description = json.loads(metadata[KEY], object_pairs_hook=without_repeats, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"the description of the model is damaged ({type(error).__name__}: {error})") from error
    check(description, dict[str, Any], "the description of the model")
    version = description.get("version")
    check(version, int, "version")
    if not 1 <= version <= VERSION:
        raise FileFormatError(
            f"model format version {version}, expected 1 to {VERSION}; "
            "read it with the version of Plica that wrote it, or save it anew"
        )
    check(description, FileRecord, "the description of the model")
    try:
        current: dict[str, Any] = upgraded(description, VERSION)
    except (KeyError, TypeError, AttributeError) as error:  # among settings, which are checked when they are rebuilt
        raise cannot_rebuild(f"a model of version {version}", error) from error
    return current


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _read_tensor(file: Any, name: str) -> Array:
    where = f"tensor {name!r}"
    declared = file.get_slice(name)
    dtype, shape = declared.get_dtype(), declared.get_shape()
    if dtype not in _STORED:
        raise FileFormatError(f"{where}: expected one of {', '.join(_STORED)}, found {dtype}")
    if len(shape) > _MAX_AXES:
        raise FileFormatError(f"{where}: expected at most {_MAX_AXES} axes, found {len(shape)}")
    try:
        tensor: Array = file.get_tensor(name)
    except (ValueError, TypeError, OverflowError) as error:  # sizes of an empty tensor that numpy cannot count
        raise cannot_rebuild(where, error) from error
    return tensor


def _check_options(options: Mapping[str, Any], circuit: Circuit) -> None:
    """Raise unless the options that Plica reads fit the circuit."""
    known = {name: value for name, value in options.items() if name in KnownOptions.__annotations__}
    check(known, KnownOptions, "options")
    if known.get("encoding"):
        try:
            Encoding.of_json(known["encoding"]).check_domains(column_domains(circuit))
        except InputError as error:
            raise FileFormatError(f"options.encoding: {error}") from error
    if "semiring" in known:
        try:
            semiring = Semiring.from_name(known["semiring"])
            check_semiring(circuit, semiring)
            if any(
                parameter.dtype == DataType.COMPLEX
                for layer in circuit.layers
                for parameter in layer.all_evaluated_params.values()
            ):
                lower_score(
                    single_groups(circuit), semiring, DType.FLOAT32, DType.FLOAT32
                )  # not every operation takes complex numbers
        except PlicaError as error:
            raise FileFormatError(f"options.semiring: {str(error).splitlines()[0]}") from error


def _check_tensors(
    source: str,
    circuit: Circuit,
    tensors: "Mapping[str, Array | Unread]",
    entries: "Mapping[str, Entry]",
    *,
    exactly: bool = False,
) -> None:
    """Raise unless each leaf and each module entry has one tensor of its shape and kind, and no leaf has NaN.

    Args:
        source: The name of the tensors in messages.
        circuit: The circuit.
        tensors: By key.
        entries: The tensors that its modules need.
        exactly: Whether the tensors of modules must have equal dtypes; leaves take any dtype of their kind.
    """
    try:
        keys = leaf_keys(circuit)
    except PlicaError as error:
        raise FileFormatError(f"{source}: {error}") from error
    leaves = {key: leaf for leaf, key in keys.items() if leaf.initializer is not None}  # others have no value
    problems = [f"{name}: not expected" for name in tensors if name not in leaves and name not in entries]
    for name, leaf in leaves.items():
        problems += _misfit(name, tensors, leaf.dtype.name.lower(), leaf.shape, _DTYPE_KINDS[leaf.dtype])
    of_modules: list[str] = []
    for name, entry in entries.items():
        of_modules += _misfit(name, tensors, entry.dtype, entry.shape, entry.kinds, exactly=exactly)
    problems += of_modules
    problems += [f"{name}: {_not_numbers(tensors[name])}" for name in leaves if _not_numbers(tensors.get(name))]
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        is_given = exactly and of_modules
        advice = "; give modules of the sizes and dtypes of the file (module.to changes dtypes)" if is_given else ""
        raise FileFormatError(f"{source} do not fit the circuit: {'; '.join(problems[:_SHOWN])}{more}{advice}")


def _not_numbers(value: "Array | Unread | None") -> str:
    """A message with the number of NaN entries of a weight, which would make every result NaN; empty if none is."""
    if value is None or isinstance(value, Unread) or value.dtype.kind not in "fc":
        return ""
    count = int(np.isnan(value).sum())
    return f"{count} of {value.size} entries are NaN" if count else ""


def _misfit(
    name: str,
    tensors: "Mapping[str, Array | Unread]",
    dtype: str,
    shape: tuple[int, ...],
    kinds: str,
    *,
    exactly: bool = False,
) -> list[str]:
    """The problem of a tensor as a list of one line, or an empty list."""
    if name not in tensors:
        return [f"{name}: expected {dtype} {shape}, found none"]
    value = tensors[name]
    if value.shape == shape and value.dtype.kind in kinds and (not exactly or value.dtype.name == dtype):
        return []
    return [f"{name}: expected {dtype} {shape}, found {value.dtype} {value.shape}"]


def _digest(text: str, tensors: Mapping[str, Array]) -> Array:
    """The SHA-256 of a description and of all tensors as they are stored, by name: `(32,)` bytes."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        _add_to_digest(digest, name, tensors[name])
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def _add_to_digest(digest: Any, name: str, value: Array) -> None:
    digest.update(f"\n{name} {value.dtype.str} {value.shape}\n".encode())
    digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)


def _to_storable(value: "Array | Unread") -> Array:
    """C order, and complex numbers as pairs: the format has no complex numbers of double precision."""
    value = np.asarray(value.read() if isinstance(value, Unread) else value, order="C")
    return np.stack((value.real, value.imag), axis=-1) if value.dtype.kind == "c" else value


def _from_pairs(name: str, pairs: Array) -> Array:
    if pairs.ndim == 0 or pairs.shape[-1] != 2 or pairs.dtype.kind != "f":
        raise FileFormatError(
            f"tensor {name!r}: complex numbers are stored as pairs of floats, found {pairs.dtype} {pairs.shape}"
        )
    joined = np.empty(pairs.shape[:-1], dtype=np.result_type(pairs.dtype, np.complex64))
    joined.real, joined.imag = pairs[..., 0], pairs[..., 1]
    return joined
