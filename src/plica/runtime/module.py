"""A loaded native file, whose entry points take and return numpy arrays.

    module = plica.native.load("digits.plicab")
    module(x)  # its main entry, for any number of rows
    module.sample(n=10, seed=0)  # another entry
    module.update(w2=...)  # constants that may change

`backend/native` makes such files.
"""

import os
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Self

import numpy as np

from plica.errors import InputError, NativeFileError, UnsupportedError
from plica.forks import ForkSafeLock
from plica.runtime.arrays import Array, Sizes
from plica.runtime.container import Image, read
from plica.runtime.entries import answer
from plica.runtime.entry_points import EntryPoint, signature
from plica.runtime.library_code import LibraryCode
from plica.runtime.machine import misfit
from plica.runtime.manifest import Entry, Manifest, NonNegativeCheck, Target
from plica.runtime.signature import PublicKey
from plica.runtime.tensors import Tensors, first_values, owned_copy


def load(
    path: str | os.PathLike[str],
    *,
    public_key: PublicKey | None = None,
    target: str | None = None,
    threads: int | None = None,
) -> "NativeModule":
    """Load a native file, every byte of which is checked before anything of it runs.

    A file holds machine code: hashes detect damage, a signature proves who made the file. Load only files of people
    whom you trust.

    Args:
        path: A file that `plica.native.compile` or `plica export` wrote.
        public_key: The Ed25519 public key, as 32 bytes, of the required signer; None: anyone.
        target: The name of a target of the file; None: the first target that this machine can run.
        threads: The most threads that share a call; None: one for each processor that the process may use.

    Raises:
        NativeFileError: The file is damaged, of another version, for other machines, or not signed by that key.
        FileFormatError: There is no such file.
    """
    image = read(path, public_key)
    try:
        return NativeModule(image, _chosen(image.manifest.targets, target), public_key, threads)
    except NativeFileError as error:
        raise NativeFileError(f"{image.path}: {error}") from error.__cause__


class NativeModule:
    """A native file that is loaded; several threads may call it at one time.

    Entry points are attributes; calling the module calls the main one. Use it as a context manager, or `close` it, to
    release its memory early.

    Attributes:
        path: The file.
        manifest: Its manifest.
        target: The target whose code runs.
        signer: The public key that the file names as its signer's; empty if it is not signed.

    >>> import plica, plica.native
    >>> from plica.symbolic.layers import BernoulliLayer
    >>> from plica.symbolic.parameters import ConstantParameter
    >>> coin = BernoulliLayer([0], 1, probs=ConstantParameter(1, value=[0.25]))
    >>> plica.native.compile(plica.Circuit([coin], {}, [coin]), "coin.plicab")
    >>> with load("coin.plicab") as module:
    ...     module.entries, np.exp(module(np.array([[0], [1]]))).flatten()
    (('log_likelihood', 'marginal'), array([0.75, 0.25], dtype=float32))
    """

    def __init__(
        self, image: Image, target: Target, public_key: PublicKey | None = None, threads: int | None = None
    ) -> None:
        self.path = image.path
        self.manifest: Manifest = image.manifest
        self.target = target
        self.signer = image.signer
        self._key, self._threads = public_key, threads
        self._digest = image.digest
        self._entries = {entry.name: entry for entry in image.manifest.entries if entry.public}
        self._updating = ForkSafeLock()
        self._updated = False
        self._state: tuple[LibraryCode, Tensors] | None = (LibraryCode(image, target), first_values(image))

    def __call__(self, /, *arguments: Any, **named: Any) -> Any:
        """Calls the main entry, or the entry of `Manifest.also` whose argument has the data's kind of dtype."""
        entry = self._entries[self.manifest.main]
        if self.manifest.also:
            entry = _of_kind(
                [entry, *(self._entries[name] for name in self.manifest.also)], (*arguments, *named.values())
            )
        return EntryPoint(entry, self.answer, self.path)(*arguments, **named)

    def __getattr__(self, name: str) -> EntryPoint:
        entry = self.__dict__.get("_entries", {}).get(name)
        if entry is None:
            raise AttributeError(f"{self.__dict__.get('path')}: no entry {name!r}; it has {', '.join(self.entries)}")
        return EntryPoint(entry, self.answer, self.path)

    def __getitem__(self, name: str) -> EntryPoint:
        if name not in self._entries:
            raise InputError(f"{self.path}: no entry {name!r}; it has {', '.join(self._entries)}")
        return EntryPoint(self._entries[name], self.answer, self.path)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._entries})

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of the entry points."""
        return tuple(self.__dict__.get("_entries", ()))

    @property
    def constants(self) -> Mapping[str, Array]:
        """The arrays that `update` replaces, read-only, with their names."""
        _, tensors = self._open()
        arrays = {
            name: tensors[tensor.name].view() if index is None else tensors[tensor.name][index, ...]
            for tensor in self.manifest.tensors
            for name, (_, index) in tensor.updates.items()
        }
        for array in arrays.values():
            array.flags.writeable = False
        return MappingProxyType(arrays)

    def update(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Replace constants, all or none: running calls see the old values, later calls the new ones.

        The update computes again all values that depend on them, so that no call sees a stale value.

        Args:
            values: New values by name, also for names that Python does not allow as keywords.
            named: New values by name.

        Raises:
            InputError: The file has no such constant, or it is fixed.
            ShapeError: A value has another shape than the old one.
            DTypeError: A value has another dtype.
            UnsupportedError: A weight of a circuit that carries no negative numbers would be negative.
        """
        new_values = {**(values or {}), **named}
        known = {tensor.name: tensor for tensor in self.manifest.tensors}
        updates = {name: (tensor.name, *update) for tensor in known.values() for name, update in tensor.updates.items()}
        for name in new_values:
            if name not in updates:
                free = ", ".join(updates) or "none"
                raise InputError(f"{self.path}: {name} cannot be updated; those that can: {free}")
        with self._updating:
            code, tensors = self._open()
            changed = dict(tensors)
            replaced: set[str] = set()
            for name, value in new_values.items():
                tensor, type_, index = updates[name]
                [array] = Sizes("update").arrays([value], (type_,))
                if index is None:
                    changed[tensor] = owned_copy(array)
                else:
                    if tensor not in replaced:
                        changed[tensor] = owned_copy(changed[tensor])
                    changed[tensor][index] = array
                replaced.add(tensor)
            for fold in self.manifest.folds:
                if replaced.isdisjoint(fold.inputs):
                    continue
                results = code.call(fold.function, [changed[name] for name in fold.inputs])
                changed |= {name: owned_copy(array) for name, array in zip(fold.outputs, results, strict=True)}
                replaced.update(fold.outputs)
            for check in self.manifest.non_negative:
                _refuse_negative(check, changed[check.tensor])
            self._open()
            self._state = (code, Tensors(changed))
            self._updated = True

    def close(self) -> None:
        """Release the file and its memory; running calls finish."""
        self._state = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._updated:
            raise UnsupportedError(
                f"{self.path}: a module whose constants were updated cannot be pickled; load the file where it is "
                "needed and update it there"
            )
        return _reloaded, (os.path.abspath(self.path), self._digest, self._key, self.target.name, self._threads)  # noqa: PTH100

    def __repr__(self) -> str:
        state = f"for {self.target.name}" if self._state is not None else "closed"
        return (
            f"<NativeModule {self.path} ({state}): {', '.join(signature(entry) for entry in self._entries.values())}>"
        )

    def answer(self, entry: Entry, given: list[Array], sizes: Mapping[str, int]) -> list[Array]:
        """The results of an entry for checked arguments and draws; entry points call this."""
        code, tensors = self._open()
        return answer(code, self.manifest, entry, given, sizes, tensors, self._threads)

    def _open(self) -> tuple[LibraryCode, Tensors]:
        """The code and the current constants."""
        if (state := self._state) is None:
            raise NativeFileError(f"{self.path}: is closed; load it again")
        return state


def _reloaded(path: str, digest: str, key: PublicKey | None, target: str, threads: int | None = None) -> NativeModule:
    module = load(path, public_key=key, target=target, threads=threads)
    if module._digest != digest:
        raise NativeFileError(f"{path}: is another file than the one that was pickled; load it by its path")
    return module


def _of_kind(entries: list[Entry], arguments: tuple[Any, ...]) -> Entry:
    """The first entry whose argument has the kind of the data, integers or floats; else the first entry."""
    if len(arguments) == 1:
        try:
            dtype = getattr(arguments[0], "dtype", None) or np.asarray(arguments[0]).dtype
        except (TypeError, ValueError):  # no array: the entry says so
            return entries[0]
        # `bfloat16` is of kind V; the name of a dtype of numpy takes longer than a call of small code
        is_float = dtype.kind in "fV" if isinstance(dtype, np.dtype) else "float" in str(dtype)
        for entry in entries:
            if ("float" in entry.arguments[0].dtype) == is_float:
                return entry
    return entries[0]


def _refuse_negative(check: NonNegativeCheck, numbers: Array) -> None:
    wrong = (numbers < 0).nonzero()[0]
    if wrong.size:
        number = numbers[wrong[0]]
        entry = "an entry that is negative or NaN" if np.isinf(number) else f"a negative entry ({number:.6g})"
        raise UnsupportedError(
            f"update: {check.names[wrong[0]]} would have {entry}, which the circuit's semiring cannot represent; "
            "nothing is replaced"
        )


def _chosen(targets: tuple[Target, ...], name: str | None) -> Target:
    candidates = [target for target in targets if name in (None, target.name)]
    if not candidates:
        raise NativeFileError(f"has no target {name}; it has {', '.join(target.name for target in targets)}")
    reasons = [misfit(target) for target in candidates]
    for target, reason in zip(candidates, reasons, strict=True):
        if not reason:
            return target
    reasons_shown = "; ".join(f"{target.name} {reason}" for target, reason in zip(candidates, reasons, strict=True))
    raise NativeFileError(f"has no code for this machine: {reasons_shown}; export it with a --target that fits")
