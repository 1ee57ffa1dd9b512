"""Training runs that give equal results whatever the number of processes, and what a process does of them.

`python -m tests.distributed.cases FOLDER CASE...` is one process; the first one writes the result of each case to the
folder.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.checkpoint.state_dict_saver import save
from torch.nn.parallel import DistributedDataParallel

import plica
from plica.backend.torch.circuits import TorchCircuit
from plica.distributed.ranks import current_ranks, launched
from plica.errors import InputError, UnsupportedError
from plica.learn import Adam, Anemone, FullEM, StepwiseEM, fit
from plica.learn.predicting import Predicting
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import GaussianLayer, HadamardLayer, Layer, SumLayer
from plica.symbolic.parameters import ExpParameter, Parameter, SumParameter, TensorParameter
from plica.templates import hclt
from plica.templates.normal_mixtures import normal_mixtures

RNG = np.random.default_rng(0)
HIDDEN = np.repeat(RNG.integers(0, 2, (53, 1)), 4, axis=1)
BITS = np.where(RNG.random(HIDDEN.shape) < 0.2, 1 - HIDDEN, HIDDEN)
REALS = RNG.normal(size=(53, 3)) @ RNG.normal(size=(3, 3)) + RNG.integers(0, 2, (53, 1)) * 3.0
REALS[::5, 1] = np.nan


def tree() -> TorchCircuit:
    """A hidden tree of bits."""
    model = plica.compile(hclt(BITS, 3)).double()
    model.reset_parameters(seed=1)
    return model


def normals() -> nn.Module:
    """An ensemble of mixtures of normal vectors."""
    return plica.compile(normal_mixtures(REALS, [0, 1, 2], members=(2, 2), seed=1)).double()


def softplus() -> nn.Module:
    """A mixture of normals, one of whose standard deviations has no closed form."""

    def leaf() -> TensorParameter:
        return TensorParameter(2, initializer=NormalInitializer(0.0, 0.3))

    first, second = leaf(), leaf()
    both = Parameter.from_binary(SumParameter((2,), (2,)), first, second)
    odd = GaussianLayer([0], 2, mean=leaf(), stddev=Parameter.from_unary(ExpParameter((2,)), both))
    usual = GaussianLayer([2], 2)
    product, mix = HadamardLayer(2, 2), SumLayer(2, 1)
    edges: dict[Layer, list[Layer]] = {odd: [], usual: [], product: [odd, usual], mix: [product]}
    model = plica.compile(plica.Circuit(list(edges), edges, [mix], data_scope=plica.Scope([0, 1, 2]))).double()
    model.reset_parameters(seed=1)
    return model


class Partly(nn.Module):
    """A module of which a parameter is never used, and another by some rows alone."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(4, 2, dtype=torch.float64))
        self.unused = nn.Parameter(torch.ones(3, dtype=torch.float64))
        self.rare = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Log-likelihoods of rows `(B, 4)`."""
        table = self.logits.log_softmax(1)
        logs = table.gather(1, x.T).sum(0)
        if bool((x[:, 0] == 1).any()):
            logs = logs - (self.rare**2) * (x[:, 0] == 1)
        return logs[:, None, None]


def predicting() -> nn.Module:
    """A model that is to predict a variable."""
    return Predicting(normals(), 0)


def conditional() -> nn.Module:
    """The same of a tree."""
    return Predicting(tree(), 1)


Case = tuple[Callable[[], nn.Module], Any, Mapping[str, Any]]
CASES: Mapping[str, Case] = {
    "adam": (tree, BITS, {"learner": Adam(0.1, "one-cycle", weight_decay=0.1, pseudocount=2.0), "valid": 0.2}),
    "adam-small-batches": (tree, BITS, {"learner": Adam(0.1, pseudocount=1.0), "batch": 2, "epochs": 2}),
    "adam-partly": (Partly, BITS, {"learner": Adam(0.1, "linear", weight_decay=0.1), "batch": 3}),
    "adam-predicting": (conditional, BITS.astype(float), {"learner": Adam(0.05)}),
    "adam-patience": (tree, BITS, {"learner": Adam(0.3, "constant"), "valid": 0.3, "epochs": 30, "patience": 2}),
    "full-em": (tree, BITS, {"learner": FullEM()}),
    "full-em-apart": (normals, REALS, {"learner": FullEM(apart=True), "batch": 7}),
    "full-em-rest": (softplus, REALS, {"learner": FullEM(), "batch": 8}),
    "full-em-predicting": (predicting, REALS, {"learner": FullEM(), "batch": 20}),
    "stepwise-em": (tree, BITS, {"learner": StepwiseEM(), "batch": 2, "epochs": 2}),
    "stepwise-em-rest": (softplus, REALS, {"learner": StepwiseEM(), "batch": 8}),
    "anemone": (tree, BITS, {"learner": Anemone(), "batch": 10}),
}


def learn(case: str, **settings: Any) -> dict[str, Any]:
    """The result of a case, as plain values and tensors."""
    make, rows, own = CASES[case]
    model = make()
    result = fit(model, rows, **{"epochs": 3, "batch": 10, "seed": 5, **own, **settings})
    return {
        "state": result.best_state,
        "history": [(e.number, e.train, e.valid, e.best, e.rate) for e in result.history],
        "end": (result.best_epoch, result.stopped_early, result.interrupted),
    }


def main(folder: Path, words: list[str]) -> None:
    """Do what words say, one after another: learn a case, or one of the following."""
    with launched(60.0) as ranks:
        assert ranks.size == current_ranks().size > 1
        for word in words:
            if word == "checkpoint":  # of torch, from all processes
                save(get_model_state_dict(DistributedDataParallel(tree())), checkpoint_id=folder / word)
            elif word == "others":  # rows of one process are not those of the others
                with pytest.raises(InputError, match="the data of process 1 is 53 x 4"):
                    fit(tree(), BITS if ranks.is_first else BITS[:, ::-1].copy())
                with pytest.raises(InputError, match=f"{ranks.size} processes for 1 rows"):
                    fit(tree(), BITS[:1])
                with pytest.raises(UnsupportedError, match="pass the module that DistributedDataParallel wraps"):
                    fit(DistributedDataParallel(tree()), BITS)
            else:
                case, *settings = word.split(":")
                found = learn_until(case, folder, *settings)
                if ranks.is_first:
                    torch.save(found, folder / case)


def learn_until(case: str, folder: Path, end: str = "", steps: str = "0", begin: str = "") -> dict[str, Any]:
    """The result of a case.

    Args:
        case: The case.
        folder: Where its checkpoint is, if it has one.
        end: `stop` for a run that Ctrl-C ends on the last process alone.
        steps: After so many steps.
        begin: `resume` to go on from the checkpoint.
    """
    seen = []

    def on_batch(_: int) -> None:
        seen.append(1)
        if end == "stop" and len(seen) == int(steps) and current_ranks().rank == current_ranks().size - 1:
            raise KeyboardInterrupt

    settings = {} if not end else {"checkpoint": folder / f"{case}.checkpoint", "resume": begin == "resume"}
    return learn(case, on_batch=on_batch, **settings)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
