"""Who is measured: ways to make a torch module of a circuit. A peer's library is one more row.

A row has two steps, so that compiling is timed alone: `describe` makes the library's own description of the circuit,
`compile` the module, which takes integers `(B, D)` and gives log-likelihoods. `equal` describes the circuit with the
same numbers for every row (`agreement.py`), so that values can be compared before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from benchmarks.agreement import described
from benchmarks.circuits import CircuitSpec, Spec

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class Contender:
    """One library, or one setting of it.

    Args:
        describe: From a named circuit to what `compile` takes.
        compile: From that to a module.
        equal: From a named circuit to what `compile` takes, with given parameters.
    """

    describe: Callable[[Spec], Any]
    compile: Callable[[Any], nn.Module]
    equal: Callable[[Spec], Any] = described


def _plica(fold: bool = True, optimize: bool = True) -> Contender:
    return Contender(methodcaller("build"), partial(_compile_with_plica, fold, optimize))


def _compile_with_plica(fold: bool, optimize: bool, circuit: Any) -> nn.Module:
    from plica.backend.torch.compiler import TorchCompiler

    return TorchCompiler(fold=fold, optimize=optimize).compile(circuit)


FLAGS = ("plica", "plica fold=False", "plica optimize=False", "plica fold=False optimize=False")


def _describe_for_cirkit(spec: Spec) -> Any:
    from cirkit.templates.data_modalities import image_data
    from cirkit.templates.utils import Parameterization

    normal = Parameterization(activation="none", initialization="normal")
    softmax = Parameterization(activation="softmax", initialization="normal")
    assert isinstance(spec, CircuitSpec), "only images are described for this peer"
    assert spec.num_values == 256, "this peer's images have 256 values"
    return image_data(
        (1, spec.side, spec.side),
        region_graph=spec.region_graph,
        input_layer="categorical",
        num_input_units=spec.num_units,
        sum_product_layer=spec.sum_product,
        num_sum_units=spec.num_units,
        input_params={"logits": normal},
        sum_weight_param=softmax,
    )


def _compile_with_cirkit(circuit: Any) -> Any:
    from cirkit.pipeline import PipelineContext

    return PipelineContext(backend="torch", semiring="lse-sum", fold=True, optimize=True).compile(circuit)


def _torch_compiled(contender: Contender) -> Contender:
    """The same module through torch's own compiler, for each batch size anew (the peer fails with dynamic sizes)."""

    def compile_(description: Any) -> Any:
        import torch

        return torch.compile(contender.compile(description), dynamic=False)

    return Contender(contender.describe, compile_, contender.equal)


_CIRKIT = Contender(_describe_for_cirkit, _compile_with_cirkit, partial(described, package="cirkit"))

CONTENDERS: dict[str, Contender] = {
    "plica": _plica(),
    "cirkit": _CIRKIT,
    "plica torch.compile": _torch_compiled(_plica()),
    "cirkit torch.compile": _torch_compiled(_CIRKIT),
    "plica fold=False": _plica(fold=False),
    "plica optimize=False": _plica(optimize=False),
    "plica fold=False optimize=False": _plica(fold=False, optimize=False),
}
