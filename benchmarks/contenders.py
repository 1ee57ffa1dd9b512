"""Who is measured: ways to make a torch module of a circuit. A peer's library is one more row.

A row has two steps, so that compiling is timed alone: `describe` makes the library's own description of the circuit,
`compile` the module, which takes integers `(B, D)` and gives log-likelihoods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.circuits import CircuitSpec

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class Contender:
    """One library, or one setting of it.

    Args:
        describe: From a named circuit to what `compile` takes.
        compile: From that to a module.
    """

    describe: Callable[[CircuitSpec], Any]
    compile: Callable[[Any], nn.Module]


def _plica(fold: bool = True, optimize: bool = True) -> Contender:
    return Contender(CircuitSpec.build, partial(_compile_with_plica, fold, optimize))


def _compile_with_plica(fold: bool, optimize: bool, circuit: Any) -> nn.Module:
    from plica.backend.torch.compiler import TorchCompiler

    return TorchCompiler(fold=fold, optimize=optimize).compile(circuit)


FLAGS = ("plica", "plica fold=False", "plica optimize=False", "plica fold=False optimize=False")

CONTENDERS: dict[str, Contender] = {
    "plica": _plica(),
    "plica fold=False": _plica(fold=False),
    "plica optimize=False": _plica(optimize=False),
    "plica fold=False optimize=False": _plica(fold=False, optimize=False),
}
