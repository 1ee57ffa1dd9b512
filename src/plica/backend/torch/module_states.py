"""State dicts of modules that circuits hold, as model files keep them.

>>> [(name, one.shape, one.dtype) for name, one in entries("0.module", nn.Linear(2, 3)).items()]
[('0.module.weight', (3, 2), 'float32'), ('0.module.bias', (3,), 'float32')]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from plica.errors import UnsupportedError

_EXTRA = "_extra_state"  # what torch calls the results of `get_extra_state`


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor of a state dict.

    Attributes:
        shape: Its shape.
        dtype: The name of its dtype.
        kinds: The kinds of numpy dtypes that hold such numbers, one letter each.
        place: Where its memory begins; None if it has none.
    """

    shape: tuple[int, ...]
    dtype: str
    kinds: str
    address: Hashable


def entries(key: str, module: Any) -> dict[str, Entry]:
    """The tensors of a module's state dict, by names that begin with a key.

    Raises:
        UnsupportedError: `module` is no `nn.Module`, or its state has other entries than tensors of numbers.
    """
    if not isinstance(module, nn.Module):
        raise UnsupportedError(
            f"{key}: a model file keeps the state of a torch.nn.Module, found {type(module).__name__}"
        )
    return {f"{key}.{name}": _entry(f"{key}.{name}", value) for name, value in _state(module)}


def fill(modules: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> str | None:
    """Load tensors into the modules that their names begin with; what went wrong, if anything did.

    Args:
        modules: Modules by key.
        tensors: Of each module all that `entries` lists, in its shapes and dtypes, and any others.
    """
    for key, module in modules.items():
        own = {name: torch.from_numpy(np.array(tensors[f"{key}.{name}"])) for name, _ in _state(module)}
        try:
            module.load_state_dict(own)
        except Exception as error:  # of hooks of the module, or torch's
            return f"{key} does not load its tensors ({type(error).__name__}: {' '.join(str(error).split())})"
    for key, module in modules.items():
        for name, value in _state(module):
            if value.detach().cpu().numpy().tobytes() != tensors[f"{key}.{name}"].tobytes():
                return f"{key}.{name} holds other numbers after it was loaded: something of the module changes them"
    return None


def _state(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Names and values of a state dict; tied tensors are the same objects."""
    return iter(module.state_dict(keep_vars=True).items())


def _entry(name: str, value: Any) -> Entry:
    if name.rpartition(".")[2] == _EXTRA:
        raise _refused(name, "what get_extra_state returns, which may be any object; keep it in buffers")
    if not isinstance(value, Tensor):
        raise _refused(name, f"a {type(value).__name__}; keep it in buffers")
    if is_lazy(value):
        raise _refused(name, "a tensor without a shape yet; call the module with rows once")
    if value.is_meta or value.is_quantized or value.layout is not torch.strided:
        raise _refused(name, "a tensor that is not a plain array of numbers (meta, sparse or quantized)")
    kinds = "f" if value.is_floating_point() else "c" if value.is_complex() else "b"
    address = (str(value.device), value.data_ptr()) if value.numel() else None
    integers = kinds == "b" and value.dtype != torch.bool
    return Entry(tuple(value.shape), str(value.dtype).removeprefix("torch."), "iu" if integers else kinds, address)


def _refused(name: str, what: str) -> UnsupportedError:
    return UnsupportedError(f"{name} cannot be in a model file: it is {what}")
