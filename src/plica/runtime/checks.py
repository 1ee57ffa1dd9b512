"""Checks that the pieces of a manifest fit together, before a file is written and before a file that was read runs."""

from collections.abc import Iterable, Iterator, Mapping
from math import prod

from plica import errors
from plica.errors import NativeFileError
from plica.runtime.manifest import (
    ALIGNMENT,
    ArrayType,
    Entry,
    Fallback,
    Fault,
    Fold,
    Manifest,
    NonNegativeCheck,
    Tensor,
    Tree,
)
from plica.runtime.sizes import is_symbol, symbols

ITEM_SIZES: Mapping[str, int] = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "bfloat16": 2,
    "float16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}
"""The dtypes that arguments and tensors have, with the bytes of an entry."""

RESERVED = ("answer", "close", "constants", "entries", "manifest", "path", "signer", "target", "update")
"""The attributes of a loaded file beside its entries, which no entry may be named after."""

SEED = "seed"  # the keyword that a caller passes beside the arguments
_UNIFORMS = ("float32", "float64")


def check_manifest(manifest: Manifest, parts: Mapping[str, int]) -> None:
    """Raise unless names are unique, references name what exists, and each array lies within its part.

    Args:
        manifest: The manifest.
        parts: The parts of the file, with their bytes.

    Raises:
        NativeFileError: A check fails; the message says where.
    """
    _unique("entry", (entry.name for entry in manifest.entries))
    _unique("tensor", (tensor.name for tensor in manifest.tensors))
    _unique("target", (target.name for target in manifest.targets))
    entries = {entry.name: entry for entry in manifest.entries}
    tensors = {tensor.name: tensor for tensor in manifest.tensors}
    main = entries.get(manifest.main)
    _require(main is not None and main.public, f"the main entry {manifest.main} is not among the public entries")
    for name in manifest.also:
        alternative = entries.get(name)
        fits = all(entry is not None and entry.public and len(entry.arguments) == 1 for entry in (main, alternative))
        _require(fits, f"the entry {name} cannot run in place of {manifest.main}")
    _require(bool(manifest.targets), "there is no target")
    for target in manifest.targets:
        _require(parts.get(target.part, 0) > 0, f"target {target.name}: its part {target.part} is missing or empty")
    for tensor in manifest.tensors:
        _check_tensor(tensor, parts)
    _check_offsets(manifest.tensors, parts)
    for entry in manifest.entries:
        _check_entry(entry, entries, tensors)
    _check_folds(manifest.folds, tensors)
    _unique("constant", (name for tensor in manifest.tensors for name in tensor.updates))
    for check in manifest.non_negative:
        _check_non_negative(check, tensors)


def _check_tensor(tensor: Tensor, parts: Mapping[str, int]) -> None:
    where = f"tensor {tensor.name}"
    _require(tensor.dtype in ITEM_SIZES, f"{where}: unknown dtype {tensor.dtype}")
    _require(tensor.part in parts, f"{where}: there is no part {tensor.part}")
    fits = not tensor.parts or (tensor.updatable and tensor.shape[:1] == (len(tensor.parts),))
    _require(fits, f"{where}: has {len(tensor.parts)} updatable parts, but the shape {tensor.shape}")
    end = tensor.offset + prod(tensor.shape) * ITEM_SIZES[tensor.dtype]
    _require(end <= parts[tensor.part], f"{where}: ends at byte {end} of {parts[tensor.part]} in {tensor.part}")


def _check_offsets(tensors: Iterable[Tensor], parts: Mapping[str, int]) -> None:
    """Raise unless the tensors fill their parts without overlap; a tensor at a wrong offset reads others' numbers."""
    ends: dict[str, int] = {}
    for tensor in tensors:
        expected = _aligned(ends.get(tensor.part, 0))
        _require(
            tensor.offset == expected,
            f"tensor {tensor.name}: begins at {tensor.offset}, expected {expected}: tensors follow each other, each at "
            f"the next multiple of {ALIGNMENT}",
        )
        ends[tensor.part] = expected + prod(tensor.shape) * ITEM_SIZES[tensor.dtype]
    for name, end in ends.items():
        fits = end <= parts[name] <= _aligned(end)
        _require(fits, f"the tensors of part {name} end at byte {end}, but it has {parts[name]} bytes")


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _check_entry(entry: Entry, entries: Mapping[str, Entry], tensors: Mapping[str, Tensor]) -> None:
    where = f"entry {entry.name}"
    _require(entry.name.isidentifier() and not entry.name.startswith("_"), f"{where}: its name cannot be an attribute")
    _require(entry.name not in RESERVED, f"{where}: a loaded file has a {entry.name} already; choose another name")
    inputs = (*entry.arguments, *entry.draws)
    has_no_seed_argument = not entry.draws or all(array.name != SEED for array in inputs)
    _require(
        has_no_seed_argument, f"{where}: an entry that draws takes {SEED}, so no other argument can have this name"
    )
    _unique(f"{where}: argument", (array.name for array in inputs))
    _unique(f"{where}: result", (array.name for array in entry.results))
    for array in (*inputs, *entry.results):
        _check_array(where, array)
    bound = {size for argument in entry.arguments for size in argument.shape if is_symbol(size)}
    for argument in entry.arguments:
        unbound = [symbol for size in argument.shape for symbol in symbols(size) if symbol not in bound]
        _require(not unbound, f"{where}: no argument determines {', '.join(unbound)} of {argument}")
    for draw in entry.draws:
        _require(draw.dtype in _UNIFORMS, f"{where}: cannot draw {draw}; expected {' or '.join(_UNIFORMS)}")
    for name in entry.constants:
        _require(name in tensors, f"{where}: there is no tensor {name}")
    for tree, arrays in ((entry.takes, entry.arguments), (entry.gives, entry.shown)):
        if tree is not None:
            leaves = list(_leaves(tree, where))
            _require(
                sorted(leaves) == list(range(len(arrays))),
                f"{where}: expected a tree of {len(arrays)} arrays, found those at {leaves[:9]}",
            )
    names = () if entry.takes is None else entry.takes.keys
    fits = entry.takes is None or entry.takes.kind == "dict"
    _require(
        fits and all(isinstance(key, str) and key != SEED for key in names), f"{where}: its arguments have no names"
    )
    _check_faults(where, entry.faults)
    if entry.rows is not None:
        _check_rows(where, entry, entry.rows.symbol, entry.rows.chunk)
    if entry.fallback is not None:
        _check_fallback(where, entry, entry.fallback, entries)


def _leaves(tree: Tree | int | None, where: str) -> Iterator[int]:
    """The indices of the arrays of a tree, whose nodes are checked."""
    if not isinstance(tree, Tree):
        yield from () if tree is None else (tree,)
        return
    _require(tree.kind in ("tuple", "list", "dict", "named"), f"{where}: unknown kind of tree {tree.kind}")
    keys = len(tree.items) if tree.kind in ("dict", "named") else 0
    _require(len(tree.keys) == len(set(tree.keys)) == keys, f"{where}: a {tree.kind} of wrong keys {tree.keys[:9]}")
    is_named = tree.kind != "named" or all(str(word).isidentifier() for word in (tree.name, *tree.keys))
    _require(is_named, f"{where}: {tree.name} of {tree.keys[:9]} is no named tuple")
    for item in tree.items:
        yield from _leaves(item, where)


def _check_array(where: str, array: ArrayType) -> None:
    _require(array.dtype in ITEM_SIZES, f"{where}: {array} has an unknown dtype")
    for size in array.shape:
        symbols(size)


def _check_rows(where: str, entry: Entry, rows: str, chunk: int | None) -> None:
    _require(is_symbol(rows), f"{where}: the size of rows {rows} is no symbol")
    _require(chunk is None or chunk > 0, f"{where}: expected pieces of at least one row, found {chunk}")
    _require(any(rows in array.shape for array in (*entry.arguments, *entry.draws)), f"{where}: no argument has {rows}")
    for array in (*entry.arguments, *entry.draws, *entry.results):
        inside = [size for size in array.shape if rows in symbols(size)]
        _require(inside in ([], [rows]), f"{where}: {array} cannot be cut into pieces of {rows}")
    for array in entry.results:
        _require(rows in array.shape, f"{where}: the result {array} has no axis of {rows}")


def _check_fallback(where: str, entry: Entry, fallback: Fallback, entries: Mapping[str, Entry]) -> None:
    bounds = [result for result in entry.results if result.name == fallback.bound]
    _require(entry.rows is not None, f"{where}: has a fallback and no rows")
    rows = entry.rows.symbol if entry.rows is not None else ""
    _require(
        [(result.dtype, result.shape) for result in bounds] == [("bool", (rows,))],
        f"{where}: no result {fallback.bound} tells for which rows its bound holds",
    )
    seen = {entry.name}
    step = entry
    while step.fallback is not None:
        following = entries.get(step.fallback.entry)
        if following is None or following.name in seen:
            raise NativeFileError(f"{where}: its fallback {step.fallback.entry} is missing or leads back to it")
        seen.add(following.name)
        step = following
    exact = entries[fallback.entry]
    same = (entry.arguments, entry.draws, entry.shown) == (exact.arguments, exact.draws, exact.shown)
    _require(same and exact.rows is not None, f"{where}: its fallback {exact.name} has other arguments or results")


def _check_folds(folds: tuple[Fold, ...], tensors: Mapping[str, Tensor]) -> None:
    computed_before: set[str] = set()
    outputs = [name for fold in folds for name in fold.outputs]
    _unique("output of a fold", outputs)
    for fold in folds:
        where = f"fold {fold.function}"
        for name in (*fold.inputs, *fold.outputs):
            _require(name in tensors, f"{where}: there is no tensor {name}")
        for name in fold.outputs:
            _require(not tensors[name].updatable, f"{where}: computes {name}, which callers may replace")
        computed_later = [name for name in fold.inputs if name in outputs and name not in computed_before]
        _require(not computed_later, f"{where}: reads {', '.join(computed_later)}, which a later fold computes")
        computed_before.update(fold.outputs)
        _check_faults(where, fold.faults)


def _check_faults(where: str, faults: tuple[Fault, ...]) -> None:
    for fault in faults:
        kind = getattr(errors, fault.error, None)
        is_known = isinstance(kind, type) and issubclass(kind, errors.PlicaError)
        _require(is_known, f"{where}: unknown error {fault.error}")


def _check_non_negative(check: NonNegativeCheck, tensors: Mapping[str, Tensor]) -> None:
    tensor = tensors.get(check.tensor)
    fits = tensor is not None and tensor.dtype in _UNIFORMS and tensor.shape == (len(check.names),)
    _require(fits, f"non-negative check: {check.tensor} is no tensor of {len(check.names)} numbers")


def _unique(kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        _require(name not in seen, f"{kind} {name} occurs twice")
        seen.add(name)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise NativeFileError(message)
