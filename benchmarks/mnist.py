"""Handwritten digits of 28x28 pixels, learned by Plica and by a peer with one recipe, and by Plica's own recipe.

    python -m benchmarks.mnist --data FOLDER [--contenders plica cirkit own-recipe] [--epochs 20] [--out FILE]

The figures are test bits per dimension.

The folder holds `mnist_t10k.npz`, the 10,000 test images of MNIST: the first 8,000 are for training, the next 1,000 to
choose the best epoch by and the last 1,000 to test. Both learn a quad graph whose weights and pixel probabilities are
softmaxes of normal draws, by Adam with the same batches, rates and epochs (`plica.learn.fit`, which takes any torch
module); the initial draws are each library's own. `own-recipe` is what `plica train` chooses for such images
(`plica.tables.recipe`), whose epochs, batch and rate it takes instead of those of the command line.

Speed is not compared here: `benchmarks.inference` and `benchmarks.run` do that.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness import Settings
from benchmarks.machine import save, use_threads

if TYPE_CHECKING:
    from torch import nn

_SHAPE = (1, 28, 28)


def splits(folder: Path) -> tuple[Any, Any, Any]:
    """Rows `(N, 784)` for training, validation and test: eight tenths, one and one."""
    with np.load(folder / "mnist_t10k.npz") as archive:
        rows = archive["images"].reshape(-1, 784).astype(np.int64)
    tenth = len(rows) // 10
    return rows[: 8 * tenth], rows[8 * tenth : 9 * tenth], rows[9 * tenth :]


def of_plica(units: int) -> nn.Module:
    """The circuit in Plica."""
    import plica
    from plica.templates.data_modalities import image_data
    from plica.templates.utils import Parameterization

    softmax = Parameterization(activation="softmax", initialization="normal")
    return plica.compile(image_data(_SHAPE, **_described(units, {"probs": softmax}, softmax)))


def of_cirkit(units: int) -> nn.Module:
    """The circuit in the peer.

    Its pixels have logits and the circuit is divided by its total, which is the same model of the same draws. With
    probabilities it gives every image of this size the log-likelihood -708.3964, the logarithm of the smallest normal
    number of double precision (version 0.3.1).
    """
    from cirkit.pipeline import PipelineContext
    from cirkit.templates.data_modalities import image_data
    from cirkit.templates.utils import Parameterization

    softmax = Parameterization(activation="softmax", initialization="normal")
    free = Parameterization(activation="none", initialization="normal")
    described = image_data(_SHAPE, **_described(units, {"logits": free}, softmax))
    with PipelineContext(backend="torch", semiring="lse-sum", fold=True, optimize=True) as context:
        circuit = context.compile(described)
        return _divided(circuit, context.integrate(circuit))


def _divided(circuit: Any, total: Any) -> nn.Module:
    """A module of log-likelihoods; the total shares the parameters of the circuit."""
    from torch import nn

    class Divided(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.circuit, self.total = circuit, [total]

        def forward(self, x: Any) -> Any:
            return self.circuit(x) - self.total[0]()

    return Divided()


def learn_own(parts: Sequence[Any], options: argparse.Namespace) -> dict[str, Any]:
    """What `plica train` does with such images."""
    from plica.files.datasets import Dataset
    from plica.tables.build import build_circuit, compile_circuit
    from plica.tables.fitting import train
    from plica.tables.rules import choose

    train_rows, valid, test = parts
    data = Dataset("mnist", train_rows, valid, test, _SHAPE, 256)
    recipe = choose(data)
    start = time.perf_counter()
    model = compile_circuit(build_circuit(recipe, data, seed=options.seed, dtype="float32"), {})
    model.reset_parameters(seed=options.seed)
    result = train(model, data, recipe, seed=options.seed, on_epoch=partial(_tell, OWN, start))
    return {"recipe": dataclasses.asdict(recipe), **_figures(model, result, data.test, start)}


def _described(units: int, inputs: dict[str, Any], weights: Any) -> dict[str, Any]:
    return {
        "region_graph": "quad-graph",
        "input_layer": "categorical",
        "num_input_units": units,
        "sum_product_layer": "cp-t",
        "num_sum_units": units,
        "input_params": inputs,
        "sum_weight_param": weights,
    }


OWN = "own-recipe"
CONTENDERS = {"plica": of_plica, "cirkit": of_cirkit}


def learn(name: str, parts: Sequence[Any], options: argparse.Namespace) -> dict[str, Any]:
    """One contender trained and tested."""
    import torch

    from plica.learn import Adam, fit

    torch.manual_seed(options.seed)
    model = CONTENDERS[name](options.units)
    train, valid, test = parts
    start = time.perf_counter()
    result = fit(
        model,
        train,
        valid,
        learner=Adam(options.lr),
        epochs=options.epochs,
        batch=options.batch,
        seed=options.seed,
        on_epoch=partial(_tell, name, start),
    )
    return _figures(model, result, test, start)


def _tell(name: str, start: float, epoch: Any) -> None:
    """Print the score of an epoch."""
    from plica.learn.metrics import bits_per_dimension

    bits = bits_per_dimension(epoch.valid, 784)
    print(f"{name}: epoch {epoch.number}, valid {bits:.4f}, {time.perf_counter() - start:.0f} s", flush=True)


def _figures(model: nn.Module, result: Any, test: Any, start: float) -> dict[str, Any]:
    """What a trained model reaches."""
    from plica.learn import mean_log_likelihood
    from plica.learn.metrics import bits_per_dimension

    return {
        "test bits per dimension": round(bits_per_dimension(mean_log_likelihood(model, test, 250), 784), 4),
        "best epoch": result.best_epoch,
        "seconds": round(time.perf_counter() - start, 1),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Train each contender, and print and save what it reaches."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mnist", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with mnist_t10k.npz")
    parser.add_argument("--contenders", nargs="+", default=[*CONTENDERS, OWN], choices=[*CONTENDERS, OWN])
    parser.add_argument("--units", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    options = parser.parse_args(arguments)
    use_threads(options.threads)
    parts = splits(options.data)
    report: dict[str, Any] = {
        "recipe": {name: getattr(options, name) for name in ("units", "epochs", "batch", "lr", "seed")}
    }
    for name in options.contenders:
        report[name] = learn_own(parts, options) if name == OWN else learn(name, parts, options)
        print(name, report[name], flush=True)
        save(options.out, report, Settings(rounds=1), options.threads)


if __name__ == "__main__":
    main()
