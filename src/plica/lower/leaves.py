"""Leaves of a lowered circuit: the symbolic tensors of each captured variable of its Program.

A leaf is a folded tensor `(F, *shape)` of F symbolic tensors of one shape, kind and learnability. The first Program
that needs its tensors makes it; every other Program reads the same leaf. The key of a tensor names its first owner in
a circuit, `LAYER.PARAMETER` with the layer's topological index, or is the tensor's own name.
"""

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from numpy.typing import NDArray

from plica.errors import GraphError, InputError, ShapeError
from plica.ir.builder import const_key
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.layers import held_layers
from plica.symbolic.parameters import TensorParameter, dereferenced


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A folded tensor: the symbolic tensors of its folds; compared by identity."""

    members: tuple[TensorParameter, ...]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Leaf":
        """The same object: it is immutable, and compared by identity."""
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """`(F, *shape)`."""
        return (len(self.members), *self.members[0].shape)

    @property
    def learnable(self) -> bool:
        """Whether training changes it."""
        return self.members[0].learnable

    @property
    def kind(self) -> DataType:
        """The kind of its numbers."""
        return self.members[0].dtype


@dataclass(frozen=True, slots=True)
class Pointer:
    """Some folds of a leaf: all of them, one, a run of evenly spaced ones, or any list.

    Args:
        leaf: The leaf.
        folds: The indices of its folds, in the order in which they are read; one may come more than once.

    Raises:
        GraphError: `folds` is empty, or has an index that is negative or too large.

    >>> from plica.symbolic.initializers import NormalInitializer
    >>> tensors = [TensorParameter(2, initializer=NormalInitializer()) for _ in range(4)]
    >>> owners = owners_of([Leaf(tuple(tensors))])
    >>> single, run = Pointer.to(tensors[2:3], owners), Pointer.to(tensors[::2], owners)
    >>> single.folds, run.folds, Pointer.join([run, single]).folds
    ((2,), (0, 2), (0, 2, 2))
    >>> run.view([10, 11, 12, 13]), run.shape
    ([10, 12], (2, 2))
    """

    leaf: Leaf
    folds: tuple[int, ...]

    def __post_init__(self) -> None:
        number = len(self.leaf.members)
        if not self.folds or any(not 0 <= fold < number for fold in self.folds):
            raise GraphError(
                f"a pointer to the folds {tuple(self.folds)} of a leaf that has {number}; give at least one of them, "
                f"counted from 0 to {number - 1}"
            )

    @staticmethod
    def to(tensors: Iterable[TensorParameter], owners: "Owners") -> "Pointer":
        """The pointer to symbolic tensors, which one leaf holds.

        Raises:
            GraphError: No leaf holds one of them, or several leaves hold them.
        """
        pointers = []
        for tensor in tensors:
            if tensor not in owners:
                raise GraphError(f"no leaf holds the tensor {tensor.name or tensor!r}; compile a circuit that has it")
            pointers.append(Pointer(owners[tensor], (owners[tensor].members.index(tensor),)))
        return Pointer.join(pointers)

    @staticmethod
    def join(pointers: Sequence["Pointer"]) -> "Pointer":
        """Pointers to one leaf as one, which reads the folds of each in turn.

        Raises:
            GraphError: They point to several leaves, or there are none.
        """
        leaves = list(dict.fromkeys(pointer.leaf for pointer in pointers))
        if len(leaves) != 1:
            raise GraphError(
                f"pointers that fold must point to one leaf, found {len(leaves)} leaves; read each pointer on its own, "
                "or compile first a circuit that folds all these parameters together"
            )
        return Pointer(leaves[0], tuple(fold for pointer in pointers for fold in pointer.folds))

    @property
    def shape(self) -> tuple[int, ...]:
        """`(len(folds), *shape)`."""
        return (len(self.folds), *self.leaf.shape[1:])

    @property
    def members(self) -> tuple[TensorParameter, ...]:
        """The symbolic tensors that it points to."""
        return tuple(self.leaf.members[fold] for fold in self.folds)

    def view(self, array: Any) -> Any:
        """Its folds of the leaf's array `(F, *shape)`: a view, and a copy of folds that are not evenly spaced.

        Raises:
            ShapeError: The array has other folds than the leaf.
        """
        if len(array) != len(self.leaf.members):
            raise ShapeError(
                f"a pointer into a leaf of {len(self.leaf.members)} folds was given an array of {len(array)}; give the "
                "array of all folds"
            )
        if self.folds == tuple(range(len(self.leaf.members))):
            return array
        steps = {after - before for before, after in itertools.pairwise(self.folds)} or {1}
        step = min(steps)
        is_even = len(steps) == 1 and step > 0
        return array[self.folds[0] : self.folds[-1] + 1 : step] if is_even else array[list(self.folds)]


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """An array that the Program captures and that never changes: a constant parameter or fold indices."""

    value: NDArray[Any]

    @property
    def digest(self) -> str:
        """Eight letters that stand for shape, dtype and contents."""
        text = f"{self.value.shape}{self.value.dtype}".encode()
        return hashlib.sha256(text + self.value.tobytes()).hexdigest()[:8]


Owners = Mapping[TensorParameter, Leaf]


def owners_of(captured: Iterable[Leaf | Constant]) -> dict[TensorParameter, Leaf]:
    """The leaf that holds each tensor."""
    leaves = (leaf for leaf in captured if isinstance(leaf, Leaf))
    return {member: leaf for leaf in leaves for member in leaf.members}


_KEYS: WeakKeyDictionary[Circuit, dict[TensorParameter, str]] = WeakKeyDictionary()


def leaf_keys(circuit: Circuit) -> Mapping[TensorParameter, str]:
    """The key of every tensor of `circuit`, in the order of layers and of parameter nodes.

    The only tensor of a parameter is called `3.weight`, several `3.weight.0`, `3.weight.1`; shared tensors have the key
    of their first owner.

    Raises:
        GraphError: Two tensors ask for one name.
    """
    if circuit not in _KEYS:
        _KEYS[circuit] = _leaf_keys(circuit)
    return _KEYS[circuit]


def _leaf_keys(circuit: Circuit) -> dict[TensorParameter, str]:
    keys: dict[TensorParameter, str] = {}
    for index, layer in enumerate(circuit.layers):
        for name, parameter in layer.all_params.items():
            tensors = list(_tensors(parameter.nodes))
            for number, tensor in enumerate(tensors):
                suffix = f".{number}" if len(tensors) > 1 else ""
                keys.setdefault(tensor, tensor.name or f"{index}.{name}{suffix}")
    _refuse_repeats(keys)
    return keys


def refuse_without_value(key: str) -> NoReturn:
    """Refuse a computation that needs the value of a leaf that has none of its own.

    Raises:
        InputError: Always.
    """
    raise InputError(
        f"the leaf {key!r} has no value of its own, so that each call of a circuit gives it: "
        f"circuit(x, parameters={{{key!r}: tensor}}), and queries are asked of "
        f"circuit.with_parameters({{{key!r}: tensor}})."
    )


def name_of(key: str) -> str:
    """A key as the name of a variable: `3.weight` is `weight_3`."""
    return const_key("_".join(reversed(key.split(".", 1))))


def opaque_keys(circuit: Circuit) -> dict[str, Any]:
    """The objects of a backend that layers hold, by keys such as `3.module`; the first layer gives the name."""
    named_objects: dict[int, tuple[str, Any]] = {}
    for index, layer in enumerate(circuit.layers):
        for start, sub_layer in held_layers(layer):
            for name, backend_object in sub_layer.opaque.items():
                named_objects.setdefault(id(backend_object), (f"{index}.{start}{name}", backend_object))
    return dict(named_objects.values())


def _tensors(nodes: Iterable[Any]) -> Iterable[TensorParameter]:
    seen: dict[TensorParameter, None] = {}
    for node in nodes:
        target = dereferenced(node)
        if isinstance(target, TensorParameter):
            seen.setdefault(target)
    return seen


def _refuse_repeats(keys: dict[TensorParameter, str]) -> None:
    owner: dict[str, TensorParameter] = {}
    for tensor, key in keys.items():
        if owner.setdefault(key, tensor) is not tensor:
            raise GraphError(
                f"two tensors of the circuit have the key {key!r}; give them different names, or share one tensor "
                "through ReferenceParameter."
            )
