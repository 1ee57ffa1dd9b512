"""State dicts of compiled circuits: folded tensors outside as unfolded ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

_FOLDED = "leaves."  # where the tensors of a circuit are


def unfold_states(module: nn.Module) -> None:
    """Have a module with `leaves` write and read state dicts with an entry for each tensor as it was described."""
    module.register_state_dict_post_hook(_unfold_state)  # type: ignore[no-untyped-call]
    module.register_load_state_dict_pre_hook(_fold_state)  # type: ignore[no-untyped-call]


def state_arrays(module: nn.Module) -> dict[str, NDArray[Any]]:
    """The state dict as arrays of numpy, which has no bfloat16: float32 stands for it."""
    tensors = {name: tensor.detach().cpu() for name, tensor in module.state_dict().items()}
    return {
        name: np.asarray(tensor.float() if tensor.dtype == torch.bfloat16 else tensor)
        for name, tensor in tensors.items()
    }


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
    _unexpected: list[str],
    errors: list[str],
) -> None:
    problems = circuit.leaves.fold(state, prefix, f"{prefix}{_FOLDED}")
    missing.extend(problems.missing)
    errors.extend(problems.shapes)
