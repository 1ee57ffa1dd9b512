"""`ProgramModule`: an `nn.Module` that runs Programs on folded tensors: a compiled circuit, or a part of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from plica.backend.torch.constants import CircuitConstants
from plica.backend.torch.emit import emit, source
from plica.backend.torch.leaves import LeafStore, Leaves, initialize
from plica.backend.torch.sharding import ShardedRun
from plica.backend.torch.sources import constant_result
from plica.backend.torch.state import KeyPath, unfold_states
from plica.backend.torch.watch import Watch
from plica.ir.program import Program
from plica.lower.arrays import InitializerRows
from plica.lower.leaves import Constant, Leaf, Owners, owners_of
from plica.lower.queries.score import Lowered
from plica.single_flight import SingleFlight
from plica.symbolic.parameters import TensorParameter


class ProgramModule(nn.Module, ABC):
    """A module with folded tensors, the Programs that read them, and the functions generated from these.

    Args:
        dtype: The dtype of its real tensors.
        drawing: The registry entries of the context for initializers.
        constants: The cache of what eval mode computes once from the tensors.
    """

    _real: Tensor
    _forgotten: tuple[str, ...] = ("_functions", "_runs")
    """Attributes that are empty in copies and pickles: generated functions are made again where they are needed."""

    def __init__(self, dtype: torch.dtype, drawing: InitializerRows, constants: CircuitConstants) -> None:
        super().__init__()
        self.leaves, self.key_paths = Leaves(), KeyPath()
        self.register_buffer("_real", torch.empty(0, dtype=dtype), persistent=False)  # follows .to(device or dtype)
        self.constants = constants
        self._drawing = drawing
        self._functions: dict[Any, Callable[..., Any]] = {}  # by key of the Program; several modules may share it
        self._runs: dict[Any, Callable[..., Any]] = {}  # those whose constants are among the leaves of this module
        self._flights = SingleFlight()
        unfold_states(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **{name: {} for name in self._forgotten}}

    def _fqn_modifiers(self) -> Mapping[str, str]:
        """Where `torch.distributed.checkpoint.state_dict` finds the first words of keys, which are no attributes.

        This method is its own hook for modules whose keys are no paths. With the three below, it walks through a
        circuit as if each tensor of the state dict were where its key says.
        """
        return self.leaves.first_words

    def named_children(self) -> Iterator[tuple[str, nn.Module]]:
        """Modules by the names that begin the keys of their tensors: none, since `leaves` is part of no key."""
        return iter(())

    def children(self) -> Iterator[nn.Module]:
        """The modules that it holds."""
        return (module for module in self._modules.values() if module is not None)

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers by name; without recursion also the tensors of the state dict, as parts of those that are folded."""
        yield from super().named_buffers(prefix, recurse, remove_duplicate)
        if not recurse:
            yield from self.state_dict(prefix=f"{prefix}." if prefix else "").items()

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Parameters by name, in the order of the leaves; how they are divided among processes changes neither.

        So the state of an optimizer fits a circuit that another number of processes divides, or none.
        """
        if not (recurse and self.leaves.is_sharded):
            yield from super().named_parameters(prefix, recurse, remove_duplicate)
            return
        for attribute, leaf in self.leaves.attributes():
            if leaf.learnable:
                yield f"{prefix}.leaves.{attribute}".lstrip("."), cast(nn.Parameter, self.leaves.tensor(attribute))

    @property
    @abstractmethod
    def _keys(self) -> Mapping[TensorParameter, str]:
        """The name of each symbolic tensor in a state dict."""

    @property
    @abstractmethod
    def _usual_key(self) -> Hashable:
        """The key of `program`."""

    @abstractmethod
    def _lower(self, key: Any) -> Lowered:
        """The Program of a key, lowered once."""

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of real tensors."""
        for leaf, tensor in self.leaves.items():
            if leaf.kind.name == "REAL":
                return tensor.dtype
        return self._real.dtype

    @property
    def program(self) -> Program:
        """The Program for inputs of the usual dtype: int64 if a variable has states, else that of the parameters."""
        return self._lower(self._usual_key).program

    @property
    def code(self) -> str:
        """The generated Python of `program`."""
        return source(self.program)

    def adopt(self, store: LeafStore, lowered: Lowered | None = None) -> Owners:
        """Take the leaves of a Program: those in `store` as they are, new ones filled and added there.

        Args:
            store: The tensors that exist already.
            lowered: The Program; by default `program`.

        Returns:
            The leaf of each symbolic tensor.
        """
        lowered = self._lower(self._usual_key) if lowered is None else lowered
        self._fill(self.leaves.adopt(lowered.program, lowered.captured, store, self._keys, self.dtype))
        return owners_of(lowered.captured)

    def forget_functions(self) -> None:
        """Generate functions anew where they are needed, since leaves are divided now."""
        for name in self._forgotten:
            setattr(self, name, {})

    def _fill(self, leaves: Iterable[tuple[Leaf, Tensor]], seed: int | None = None) -> None:
        """Fill tensors from their initializers; without a seed, torch's global generator draws one."""
        numbers = {tensor: number for number, tensor in enumerate(self._keys)}
        drawn = int(torch.randint(2**62, (), device="cpu")) if seed is None else seed
        initialize(leaves, numbers, drawn, self._drawing)

    def _call(self, key: Hashable, watch: Watch | None, arguments: Sequence[Tensor]) -> Any:
        """The results of the Program of a key; with what constants give folded where a `watch` says they are."""
        self._specialize(key)
        if watch is None:
            return self._runs[key](self.leaves, *arguments)
        return self.constants.of(key, partial(self._lower, key), self.leaves, watch)(*arguments)

    @constant_result
    def _specialize(self, key: Hashable) -> None:
        """Generate the function of a key; no work after the first call."""
        if key not in self._runs:
            self._flights.once(("run", key), partial(self._add_run, key))

    def _add_run(self, key: Hashable) -> None:
        if key in self._runs:
            return
        lowered = self._lower(key)
        self._keep_constants(lowered)
        if self.leaves.is_sharded:
            self._runs[key] = ShardedRun(lowered.program, self.leaves)
            return
        if key not in self._functions:
            self._functions[key] = emit(lowered.program, reuses=True)
        self._runs[key] = self._functions[key]

    def _keep_constants(self, lowered: Lowered) -> None:
        """Add the constant arrays that a Program captures to the leaves."""
        for var, captured in zip(lowered.program.consts, lowered.captured, strict=True):
            if isinstance(captured, Constant):
                self.leaves.set_constant(var.name, captured)
