"""Other libraries, measured through their public interface where they are installed; one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.contenders import CONTENDERS
from benchmarks.gpu.models import HiddenMarkov, Images, Model
from benchmarks.measures import training_step


@dataclass(frozen=True, slots=True)
class Peer:
    """A library.

    Args:
        package: What is imported.
        distribution: What is installed.
        models: The kinds of circuits that it is asked for.
        timed: From a circuit to a module on the CPU that maps rows to log-likelihoods.
        equal: The same with the parameters of `Model.equal`.
        training_step: From the module and rows to a step of what the library trains with.
        note: How its figures differ from Plica's.
    """

    package: str
    distribution: str
    models: tuple[type[Model], ...]
    timed: Callable[[Any], nn.Module]
    equal: Callable[[Any], nn.Module]
    training_step: Callable[[nn.Module, Tensor], Callable[[], object]] = training_step
    note: str = ""


def _pyjuice(model: HiddenMarkov) -> nn.Module:
    juice = import_module("pyjuice")
    root = juice.structures.HMM(
        model.length,
        model.num_states,
        model.num_values,
        homogeneous=True,
        alpha=torch.from_numpy(model.transitions()).float(),
        beta=torch.from_numpy(model.emissions()).float(),
        gamma=torch.from_numpy(model.initial()[0]).float(),
    )
    module: nn.Module = juice.compile(root, verbose=False)
    return module


def _expectation_maximization(module: Any, x: Tensor) -> Callable[[], object]:
    def call() -> None:
        module(x)
        module.backward(x, flows_memory=0.0)
        module.mini_batch_em(step_size=0.1, pseudocount=0.1)

    return call


def _cirkit(describe: str) -> Callable[[Any], nn.Module]:
    return lambda model: CONTENDERS["cirkit"].compile(getattr(model, describe)("cirkit"))


def _cirkit_unfolded(model: HiddenMarkov) -> nn.Module:
    context = import_module("cirkit.pipeline").PipelineContext
    module: nn.Module = context(backend="torch", semiring="lse-sum", fold=False, optimize=True).compile(
        model.describe("cirkit")
    )
    return module


PEERS: dict[str, Peer] = {
    "cirkit": Peer("cirkit", "libcirkit", (Images,), _cirkit("describe"), _cirkit("equal")),
    "cirkit, not folded": Peer(
        "cirkit",
        "libcirkit",
        (HiddenMarkov,),
        _cirkit_unfolded,
        _cirkit_unfolded,
        note="folded, cirkit 0.3.1 does not find tables that several layers share",
    ),
    "pyjuice": Peer(
        "pyjuice",
        "pyjuice",
        (HiddenMarkov,),
        _pyjuice,
        _pyjuice,
        _expectation_maximization,
        "a training step is one of mini-batch expectation maximization, not of Adam",
    ),
}


def installed() -> dict[str, str]:
    """The peers that are there, with their versions."""
    return {name: version(peer.distribution) for name, peer in PEERS.items() if find_spec(peer.package) is not None}
