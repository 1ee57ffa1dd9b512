"""State dicts of compiled circuits: folded tensors outside as unfolded ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from plica.backend.torch.divided import as_array

_FOLDED = "leaves."  # where the tensors of a circuit are
KEY_PATHS = "key_paths"  # the attribute of a circuit where paths of keys begin


class KeyPath:
    """A place on the path that the words of a key make, for those who look at modules by keys of a state dict.

    >>> KeyPath().weight.linear
    KeyPath()
    """

    def __getattr__(self, name: str) -> KeyPath:
        if name == "_fqn_modifiers" or name.startswith("__"):
            raise AttributeError(name)
        return self

    def __repr__(self) -> str:
        return "KeyPath()"


def first_word(key: str) -> str:
    """The first word of a key of a state dict.

    >>> first_word("3.weight")
    '3'
    """
    return key.partition(".")[0]


def unfold_states(module: nn.Module) -> None:
    """Have a module with `leaves` write and read state dicts with an entry for each tensor as it was described."""
    module.register_state_dict_post_hook(_unfold_state)  # type: ignore[no-untyped-call]
    module.register_load_state_dict_pre_hook(_fold_state)  # type: ignore[no-untyped-call]


def state_arrays(module: nn.Module) -> dict[str, NDArray[Any]]:
    """The state dict as arrays of numpy, which has no bfloat16: float32 stands for it."""
    return {name: as_array(tensor) for name, tensor in module.state_dict().items()}


def load_arrays(module: nn.Module, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Load such a state dict."""
    module.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})


def _unfold_state(circuit: Any, state: dict[str, Any], prefix: str, _: object) -> None:
    circuit.leaves.unfold(state, prefix, f"{prefix}{_FOLDED}")


def _fold_state(
    circuit: Any,
    state: dict[str, Any],
    prefix: str,
    _local: object,
    _strict: bool,
    missing: list[str],
    unexpected: list[str],
    errors: list[str],
) -> None:
    problems = circuit.leaves.fold(state, prefix, f"{prefix}{_FOLDED}")
    missing.extend(problems.missing)
    unexpected.extend(problems.unexpected)
    errors.extend(problems.shapes)


@dataclass(frozen=True, slots=True)
class Problems:
    """Problems of a state dict: missing keys, unexpected keys, and sentences on unfit entries."""

    missing: list[str]
    unexpected: list[str]
    shapes: list[str]


def pop_fold(state: dict[str, Any], key: str | None, own: Tensor, problems: Problems) -> Tensor:
    """The entry `key`, taken out of `state`; else `own`, with the problem noted."""
    if key is None:
        return own
    if key not in state:
        problems.missing.append(key)
        return own
    given = state.pop(key)
    if not isinstance(given, Tensor):
        problems.shapes.append(f"kind mismatch for {key}: expected a tensor, found {type(given).__name__}.")
        return own
    if given.shape != own.shape:
        problems.shapes.append(
            f"size mismatch for {key}: expected shape {tuple(own.shape)}, found {tuple(given.shape)}."
        )
        return own
    if given.is_complex() and not own.is_complex():
        problems.shapes.append(f"kind mismatch for {key}: expected real numbers, found {given.dtype}.")
        return own
    return given


def stacked(folds: Sequence[Tensor], keys: Sequence[str | None], own: Tensor, problems: Problems) -> Tensor:
    """Folds as one tensor, where the tensor of the circuit is unless all are elsewhere; else that, and the problem."""
    if len({fold.device for fold in folds}) > 1:
        empty = [key or "a fold of another circuit" for key, fold in zip(keys, folds, strict=True) if fold.is_meta]
        if empty:
            problems.shapes.append(
                f"{empty[0]} is on the meta device and has no numbers, but is stored in one tensor with other entries; "
                "give numbers for all of them."
            )
            return own
        folds = [fold.to(own.device) for fold in folds]
    return torch.stack(tuple(folds)) if len(folds) > 1 else folds[0].unsqueeze(0)


def rename(state: dict[str, Any], before: str, after: str) -> list[str]:
    """Give the entries of a state dict whose keys begin in one way keys that begin in another.

    Returns:
        The new keys that other entries had, which are gone.
    """
    renamed = {f"{after}{key.removeprefix(before)}": state.pop(key) for key in list(state) if key.startswith(before)}
    occupied = [key for key in renamed if key in state]
    state.update(renamed)
    return occupied
