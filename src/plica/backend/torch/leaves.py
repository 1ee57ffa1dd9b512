"""Leaves in torch: the folded tensors of a compiled circuit, and their unfolded names and shapes in a state dict."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from keyword import kwlist
from typing import Any, Self, final
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor, nn

from plica.backend.torch.divided import divided_like, folds_of, is_divided, own_part
from plica.backend.torch.looks import Looks, add_holder
from plica.backend.torch.sources import seal
from plica.backend.torch.state import KEY_PATHS, Problems, first_word, pop_fold, rename, stacked
from plica.errors import DTypeError, InputError, ShapeError, UnsupportedError
from plica.ir.dtypes import as_dtype
from plica.ir.program import Program
from plica.lower.arrays import InitializerRows, draw
from plica.lower.leaves import Constant, Leaf, Owners, owners_of
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import Initializer
from plica.symbolic.parameters import TensorParameter


class Leaves(nn.Module):
    """The tensors that a Program captures, as attributes named like its variables.

    Where a name is taken the attribute has another (`attribute_of`). Learnable leaves are parameters and the others
    buffers, `(F, *shape)` each. In a state dict each fold is an entry of its own: `3.weight` of shape `(*shape,)`.
    Constants are plain attributes that follow the module from device to device but never change their dtype.
    """

    def __new__(cls) -> Self:
        """A module, which may be a copy, whose tensors are looked at."""
        leaves = super().__new__(cls)
        add_holder(leaves)
        return leaves

    def __init__(self) -> None:
        super().__init__()
        self._leaves: dict[str, Leaf] = {}
        self._keys: dict[str, tuple[str | None, ...]] = {}
        self._order: dict[str, int] = {}
        self._constants: dict[str, Constant] = {}
        self._module_keys: dict[str, str] = {}
        self.first_words: dict[str, str] = {}  # of keys, each with the attribute of the circuit where paths begin
        self._store: LeafStore | None = None
        self.looks: dict[Hashable, Looks] = {}
        self._units: dict[str, tuple[str, nn.Module]] = {}  # by attribute, where a leaf was moved
        self._is_sharded = False
        self.device = torch.get_default_device()
        self.register_load_state_dict_post_hook(_publish)  # type: ignore[no-untyped-call]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_store": None, "looks": {}}  # a copy has tensors of its own

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Leaves:
        if self._is_sharded:  # FSDP gathers into memory that it keeps, of the first dtype
            for dtype in {tensor.dtype for _, tensor in self.items()}:
                if fn(torch.empty(0, dtype=dtype)).dtype != dtype:
                    raise UnsupportedError(
                        f"the circuit is divided among processes, and its numbers stay {dtype}; give compile the "
                        "dtype, or call .to(dtype) before plica.distributed.shard"
                    )
        self.looks.clear()  # and so keep no tensor
        super()._apply(partial(_keeping_kind, fn), recurse)  # type: ignore[no-untyped-call]
        self._move_constants(fn(torch.empty(0, device=self.device)).device)
        _publish(self)
        return self

    def tensors(self) -> list[Tensor] | None:
        """The tensors of all leaves; None where one is no tensor but computed: parametrized, or pruned."""
        tables: dict[str, Any] = {**self._parameters, **self._buffers} if self._buffers else self._parameters
        try:
            return [tables[name] for name in self._leaves]
        except KeyError:
            return None

    @property
    def is_sharded(self) -> bool:
        """Whether leaves are divided among processes, so that the parameters here are parts of them."""
        return self._is_sharded

    @property
    def is_shared(self) -> bool:
        """Whether other circuits hold leaves of this one."""
        return self._store is not None and len(self._store.holders) > 1

    def tensor(self, attribute: str) -> Tensor:
        """The tensor of one leaf; where it is divided, as it is now: a part, or all of it while it is gathered."""
        if attribute in self._units:
            return self._units[attribute][1]._parameters[attribute]  # type: ignore[return-value]  # it holds the leaf
        tensor: Tensor = getattr(self, attribute)
        return tensor

    def divide(self, units: Sequence[tuple[nn.Module, Sequence[str]]]) -> None:
        """Move leaves into modules of their own, since all are divided from now on.

        Args:
            units: The modules, each with the attributes of its leaves.
        """
        self._is_sharded = True
        for number, (module, attributes) in enumerate(units):
            self.add_module(f"_unit_{number}", module)
            for attribute in attributes:
                module.register_parameter(attribute, self._parameters.pop(attribute))
                self._units[attribute] = f"_unit_{number}.", module

    @property
    def units(self) -> Mapping[str, nn.Module]:
        """The module that holds each leaf that was moved, by attribute."""
        return {attribute: module for attribute, (_, module) in self._units.items()}

    def publish(self) -> None:
        """Tell the compiler that leaves are other tensors now."""
        _publish(self)

    @property
    def is_autocast(self) -> bool:
        """Whether torch would compute in other dtypes than those of the tensors."""
        kind = self.device.type
        return kind != "meta" and torch.is_autocast_enabled(kind)

    def _move_constants(self, device: torch.device) -> None:
        self.device = device
        for name, constant in self._constants.items():
            self.set_constant(name, constant)

    def set_constant(self, name: str, constant: Constant) -> None:
        """Hold one constant under the name of its variable, on the device of the module."""
        self._constants[name] = constant
        # a constant of the first call is there for training too, and outside of the transform that it was made in
        with torch.inference_mode(False), torch._C._DisableFuncTorch():
            tensor = torch.from_numpy(np.array(constant.value)).to(self.device)
            object.__setattr__(self, attribute_of(name), seal(tensor))

    def add_own_module(self, name: str, key: str, module: nn.Module) -> None:
        """Add a user's module under a name; in state dicts the names of its tensors begin with `key`."""
        self._module_keys[attribute_of(name)] = key
        self.first_words[first_word(key)] = KEY_PATHS
        self.add_module(attribute_of(name), module)

    def share(self, store: LeafStore) -> None:
        """Follow `store` from now on: if another circuit replaces a tensor that both have, so does this one."""
        self._store = store
        store.holders.add(self)

    def replace_tensors(self, tensors: Mapping[Leaf, Tensor]) -> None:
        """Replace the tensor of each leaf by that in `tensors`."""
        for name, leaf in self._leaves.items():
            table = self._parameters if leaf.learnable else self._buffers
            table[name] = tensors[leaf]  # type: ignore[assignment]  # a parameter if it is learnable
        self.follow_leaves()

    def follow_leaves(self) -> None:
        """Move constants to the device of the leaves, which `load_state_dict(assign=True)` may have replaced."""
        self.looks.clear()
        devices = {tensor.device for _, tensor in self.items()}
        if len(devices) == 1 and devices != {self.device}:
            self._move_constants(devices.pop())

    def register(self, name: str, leaf: Leaf, tensor: Tensor, keys: Mapping[TensorParameter, str]) -> None:
        """Register the tensor of one leaf under the name of its variable.

        Args:
            name: The name of the variable.
            leaf: The leaf that the tensor holds.
            tensor: `(F, *shape)`.
            keys: The names of the circuit's tensors in a state dict, which leaves out folds of other circuits.
        """
        name = attribute_of(name)
        self._leaves[name] = leaf
        self._keys[name] = tuple(keys.get(member) for member in leaf.members)
        if len(self._order) != len(keys):
            self._order = {key: number for number, key in enumerate(keys.values())}
            self.first_words |= dict.fromkeys(map(first_word, keys.values()), KEY_PATHS)
        if leaf.learnable:
            self.register_parameter(name, tensor)  # type: ignore[arg-type]  # made by new_tensor
        else:
            self.register_buffer(name, tensor)

    def adopt(
        self,
        program: Program,
        captured: Iterable[Leaf | Constant],
        store: LeafStore,
        keys: Mapping[TensorParameter, str],
        real: torch.dtype,
    ) -> list[tuple[Leaf, Tensor]]:
        """Own the leaves of a Program, those of `store` as they are.

        Args:
            program: The Program.
            captured: The source of each variable that it captures.
            store: The tensors that exist already; new ones are added, and the module holds those in it from now on.
            keys: The names of the tensors in a state dict.
            real: The dtype of new real tensors.

        Returns:
            The leaves that are new, with tensors that are still to be filled.
        """
        new = []
        for var, leaf in zip(program.consts, captured, strict=True):
            if isinstance(leaf, Leaf):
                if leaf not in store.tensors:
                    store.tensors[leaf] = new_tensor(leaf, real, self.device)
                    new.append((leaf, store.tensors[leaf]))
                self.register(var.name, leaf, store.tensors[leaf], keys)
        self.share(store)
        return new

    def with_folds(self, folds: Mapping[TensorParameter, Tensor], alone: Mapping[str, Leaf]) -> Leaves:
        """The same tensors with others in place of some folds, through which gradients reach those.

        Args:
            folds: Tensors `(*shape,)` in place of symbolic ones.
            alone: The leaves that exist nowhere else, by names of variables.
        """
        leaves = copy(self)
        leaves._parameters, leaves._buffers = dict(self._parameters), dict(self._buffers)
        leaves._leaves, leaves._keys = dict(self._leaves), dict(self._keys)
        for name, leaf in alone.items():
            leaves._leaves[attribute_of(name)], leaves._keys[attribute_of(name)] = leaf, (None,)
        for name, leaf in leaves._leaves.items():
            if any(member in folds for member in leaf.members):
                parameter = leaves._parameters.pop(name, None)  # none of those that were replaced already
                own = leaves._buffers.get(name) if parameter is None else parameter
                folded = [folds[member] if member in folds else own[at] for at, member in enumerate(leaf.members)]  # type: ignore[index]  # there unless all are given
                leaves._buffers[name] = torch.stack(folded)
        return leaves

    def __len__(self) -> int:
        return len(self._leaves)

    def items(self) -> Iterator[tuple[Leaf, Tensor]]:
        """The leaves with their tensors."""
        return ((leaf, self.tensor(name)) for name, leaf in self._leaves.items())

    @property
    def owners(self) -> Owners:
        """The leaf that holds each symbolic tensor."""
        return owners_of(self._leaves.values())

    def attributes(self) -> Iterator[tuple[str, Leaf]]:
        """The leaves with the attributes that hold their tensors."""
        return iter(self._leaves.items())

    def unfold(self, state: dict[str, Any], prefix: str, folded_prefix: str) -> None:
        """In `state`, replace folded tensors by one entry for each fold, in the order of the circuit's layers."""
        folds: dict[str, Tensor] = {}
        for name, keys in self._keys.items():
            tensor = state.pop(self._path(folded_prefix, name), None)
            if tensor is not None:
                of_leaf = folds_of(tensor)
                folds.update((key, of_leaf[fold]) for fold, key in enumerate(keys) if key is not None)
        state.update((f"{prefix}{key}", folds[key]) for key in sorted(folds, key=self._order.__getitem__))
        for name, key in self._module_keys.items():
            rename(state, f"{folded_prefix}{name}.", f"{prefix}{key}.")

    def fold(self, state: dict[str, Any], prefix: str, folded_prefix: str) -> Problems:
        """In `state`, replace entries of folds by folded tensors. Entries that do not fit stay, and are returned."""
        problems = Problems([], [], [])
        for name, key in self._module_keys.items():
            problems.unexpected.extend(rename(state, f"{prefix}{key}.", f"{folded_prefix}{name}."))
        for name, own_keys in self._keys.items():
            folded = self._path(folded_prefix, name)
            keys = [None if key is None else f"{prefix}{key}" for key in own_keys]
            if folded in state:
                if not any(key in state for key in keys):
                    continue  # already folded: a dict of `named_parameters`
                problems.unexpected.append(folded)
            own = self.tensor(name).detach()
            own_folds = folds_of(own)
            folds = [pop_fold(state, key, own_folds[fold], problems) for fold, key in enumerate(keys)]
            state[folded] = divided_like(own, folds) if is_divided(own) else stacked(folds, keys, own, problems)
        return problems

    def _path(self, prefix: str, attribute: str) -> str:
        """The key of a leaf before it is unfolded."""
        unit = self._units.get(attribute)
        return f"{prefix}{unit[0] if unit else ''}{attribute}"


@final
class LeafStore:
    """The tensors of the leaves of one compiler's circuits: one for each, which all circuits hold that read it.

    Attributes:
        tensors: The tensor of each leaf, as it is now.
        holders: The modules that hold some.
    """

    def __init__(self) -> None:
        self.tensors: dict[Leaf, Tensor] = {}
        self.holders: WeakSet[Leaves] = WeakSet()

    def publish(self, source: Leaves) -> None:
        """Take over what `source` holds: `.double()` and `load_state_dict(assign=True)` replace tensors."""
        self.tensors.update(source.items())
        for holder in self.holders:
            if holder is not source:
                holder.replace_tensors(self.tensors)


def _keeping_kind(fn: Callable[[Tensor], Tensor], tensor: Tensor) -> Tensor:
    """`fn` applied to a tensor whose numbers stay real or complex: `.to(torch.float64)` makes complex64 complex128.

    Raises:
        DTypeError: There are no complex numbers as narrow.
    """
    if not tensor.is_complex():
        return _real(fn(tensor))
    parts = torch.view_as_real(tensor.detach().resolve_conj())
    changed = _real(fn(parts))
    if changed.dtype not in (torch.float32, torch.float64):
        raise DTypeError(
            f"the circuit has complex parameters, which are complex64 or complex128, and none are as narrow as "
            f"{changed.dtype}; take torch.float32 or torch.float64."
        )
    return tensor if changed is parts else torch.view_as_complex(changed)


def _real(tensor: Tensor) -> Tensor:
    """The real parts, in memory of their own: of real numbers that were made complex."""
    return tensor.real.contiguous() if tensor.is_complex() else tensor


def _publish(leaves: Leaves, _: object = None) -> None:
    leaves.follow_leaves()
    if leaves._store is not None:
        leaves._store.publish(leaves)


def attribute_of(name: str) -> str:
    """The attribute that holds the leaf of the variable `name`, by which generated code reads it.

    That is `name`, unless it is a word of Python or something that a module has already: then `_` is added. No two
    names get one attribute, since `_` is added to `if_` too.
    """
    is_reserved = any(name[:end] in _RESERVED for end in range(len(name.rstrip("_")), len(name) + 1))
    return f"{name}_" if is_reserved else name


_RESERVED = frozenset({*kwlist, "__debug__", *dir(Leaves())})


def torch_dtype(kind: DataType, real: torch.dtype) -> torch.dtype:
    """The dtype of a leaf of one kind beside real leaves of `real`."""
    if kind == DataType.COMPLEX:
        return real.to_complex()  # here alone: torch.compile does not trace it
    return torch.int64 if kind == DataType.INTEGER else real


def new_tensor(leaf: Leaf, real: torch.dtype, device: torch.device) -> Tensor:
    """An uninitialized tensor for a leaf: a parameter if it is learnable."""
    tensor = torch.empty(leaf.shape, dtype=torch_dtype(leaf.kind, real), device=device)
    return nn.Parameter(tensor) if leaf.learnable else tensor


@torch.no_grad()
def foldwise_initializer_(tensor: Tensor, *, initializers: Sequence[Callable[[Tensor], object] | None]) -> Tensor:
    """Fill a folded tensor with an initializer for each fold; with `functools.partial`, one initializer made of many.

    Args:
        tensor: `(F, ...)`, filled in place.
        initializers: F functions, each of which fills the fold `(...)` that it is given in place; None leaves it as
            it is.

    Returns:
        `tensor`.

    Raises:
        ShapeError: There is not one initializer for each fold.

    >>> foldwise_initializer_(torch.zeros(3, 2), initializers=[nn.init.ones_, None, lambda fold: fold.fill_(7)])
    tensor([[1., 1.],
            [0., 0.],
            [7., 7.]])
    """
    if len(initializers) != len(tensor):
        raise ShapeError(
            f"foldwise_initializer_: {len(initializers)} initializers for the {len(tensor)} folds of a tensor of shape "
            f"{tuple(tensor.shape)}; give one for each fold, or None to keep a fold"
        )
    for fold, initializer in zip(tensor.unbind(), initializers, strict=True):
        if initializer is not None:
            initializer(fold)
    return tensor


def initialize(
    leaves: Iterable[tuple[Leaf, Tensor]], numbers: Mapping[TensorParameter, int], seed: int, drawing: InitializerRows
) -> None:
    """Fill every fold from its own initializer.

    Draws depend on `seed` and on the number of the symbolic tensor alone, so they are alike whatever was folded and on
    every device. Folds of tensors without a number belong to other circuits and stay as they are. Tensors of the meta
    device have no numbers. Of a divided tensor each process keeps its part of the draws, one fold after another.
    """
    for leaf, tensor in leaves:
        if tensor.is_meta:
            continue
        axis, part = own_part(tensor) if is_divided(tensor) else (0, slice(None))
        within = (slice(None),) * (axis - 1) + (part,) if axis else ()
        own = [
            partial(_fill_member, member=member, seed=[seed, numbers[member]], drawing=drawing, part=within)
            if member in numbers
            else None
            for member in leaf.members
        ]
        local = tensor.to_local() if is_divided(tensor) else tensor  # type: ignore[attr-defined]  # of DTensor
        foldwise_initializer_(local, initializers=own if axis else own[part])


def _fill_member(
    fold: Tensor, member: TensorParameter, seed: list[int], drawing: InitializerRows, part: tuple[slice, ...]
) -> None:
    """Fill a part of a fold, which has draws of its own whatever the part is."""
    assert member.initializer is not None, "a leaf without a value of its own has no tensor"
    generator = np.random.default_rng(seed)
    if part:
        whole = torch.empty(member.shape, dtype=fold.dtype)
        fold.copy_(_fill(whole, member.initializer, generator, drawing)[part])
    else:
        _fill(fold, member.initializer, generator, drawing)


@torch.no_grad()
def fill(tensor: Tensor, initializer: Initializer, generator: np.random.Generator, drawing: InitializerRows) -> Tensor:
    """Fill a tensor in place from an initializer, by the context's row for it if there is one.

    Raises:
        ShapeError: The row draws another shape than that of the tensor.
        DTypeError: The tensor would lose the fractions or imaginary parts of the draws.
        InputError: The tensor cannot be written to.
    """
    return _fill(tensor, initializer, generator, drawing)


def _fill(tensor: Tensor, initializer: Initializer, generator: np.random.Generator, drawing: InitializerRows) -> Tensor:
    drawn = draw(initializer, tuple(tensor.shape), as_dtype(tensor.dtype), generator, drawing)
    wide = drawn.astype(np.float64) if drawn.dtype.kind == "u" else drawn  # torch has not all of numpy's
    try:
        return tensor.copy_(torch.as_tensor(wide))
    except RuntimeError as error:  # memory that entries share, sparse tensors, those of inference mode
        raise InputError(f"the tensor cannot be filled in place ({error}); fill torch.empty(...) instead") from error
