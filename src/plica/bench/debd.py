"""`plica bench debd`: binary sets that the field compares models on, beside published figures.

Each set is learned as `plica train X.npz` learns it with nothing else: by the rule of `plica.tables.rules`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from plica.errors import InputError
from plica.files.datasets import Dataset, from_path
from plica.tables.recipe import Recipe

_ROWS_AT_ONCE = 512
_PREFIX = "debd_"


@dataclass(frozen=True, slots=True)
class Published:
    """A figure of a paper.

    Attributes:
        nats: The mean log-likelihood of the test rows.
        model: The name of the model.
        source: The paper.
    """

    nats: float
    model: str
    source: str


_SINGLE = ("best single circuit", "the best single model known to this project; its paper is not recorded here")
_MADE = ("MADE", "Germain et al., MADE: Masked Autoencoder for Distribution Estimation, ICML 2015")
_EONADE = ("EoNADE", "Uria et al., A Deep and Tractable Density Estimator, ICML 2014, as cited by Germain et al. 2015")

# A set that has none is measured alone.
PUBLISHED: Mapping[str, Published] = {
    "nltcs": Published(-5.99, *_SINGLE),
    "plants": Published(-12.81, *_SINGLE),
    "pumsb_star": Published(-22.75, *_SINGLE),
    "dna": Published(-79.05, *_SINGLE),
    "mushrooms": Published(-9.68, *_MADE),
    "nips": Published(-272.4, *_EONADE),
}


@dataclass(frozen=True, slots=True)
class Run:
    """One training of one set.

    Attributes:
        name: The name of the set.
        seed: The seed of weights and shuffling.
        recipe: What the rule chose.
        parameters: The number of learned numbers.
        valid: The mean log-likelihood of the validation rows, in nats.
        test: That of the test rows.
        epochs: Passes that ran.
        best_epoch: The pass whose state was kept.
        seconds: Time of building and training.
        cpu_seconds: Time of all threads.
    """

    name: str
    seed: int
    recipe: Recipe
    parameters: int
    valid: float
    test: float
    epochs: int
    best_epoch: int
    seconds: float
    cpu_seconds: float

    def as_json(self) -> dict[str, Any]:
        """The run as JSON values, with the published figure and its source."""
        published = PUBLISHED.get(self.name)
        return asdict(self) | {"published": None if published is None else asdict(published)}


def sets_of(folder: Path, names: Sequence[str] = ()) -> dict[str, Path]:
    """The files of a folder by the names of their sets, smallest files first.

    Args:
        folder: Has files `debd_NAME.npz`.
        names: The sets to take; all if it is empty.

    Raises:
        InputError: The folder has no such files, or not one of `names`.
    """
    paths = sorted(folder.glob(f"{_PREFIX}*.npz"), key=lambda path: (path.stat().st_size, path.name))
    found = {path.stem.removeprefix(_PREFIX): path for path in paths}
    if not found:
        raise InputError(f"{folder}: expected files {_PREFIX}NAME.npz with arrays train, valid and test, found none")
    unknown = [name for name in names if name not in found]
    if unknown:
        raise InputError(f"{folder}: there is no {_PREFIX}{unknown[0]}.npz; there are {', '.join(sorted(found))}")
    return {name: path for name, path in found.items() if not names or name in names}


def runs(
    sets: Mapping[str, Path], seeds: Sequence[int], on_epoch: Callable[[Any], None] | None = None
) -> Iterator[Run]:
    """The results of all sets, as they come."""
    for name, path in sets.items():
        data = from_path(path)
        for seed in seeds:
            yield run(name, data, seed, on_epoch)


def run(name: str, data: Dataset, seed: int, on_epoch: Callable[[Any], None] | None = None) -> Run:
    """Train one set by the rule, and measure it."""
    from plica.learn.fit import mean_log_likelihood
    from plica.tables.fitting import train, untrained
    from plica.tables.trials import decide

    start, cpu_start = time.perf_counter(), time.process_time()
    recipe = decide(data, seed=seed, dtype="float32")
    model = untrained(recipe, data, seed=seed, dtype="float32")
    result = train(model, data, recipe, seed=seed, on_epoch=on_epoch)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    valid, test = (mean_log_likelihood(model, rows, _ROWS_AT_ONCE) for rows in (data.valid, data.test))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Run(
        name,
        seed,
        recipe,
        parameters,
        valid,
        test,
        result.epochs_run,
        result.best_epoch,
        seconds,
        cpu_seconds,
    )


def line_of(result: Run) -> str:
    """A run as a line of the table whose head is `HEAD`."""
    published = PUBLISHED.get(result.name)
    beside = "-" if published is None else f"{published.nats:.2f} ({published.model})"
    return (
        f"{result.name:12} {result.seed:4} {result.valid:10.3f} {result.test:10.3f} {result.parameters:12,} "
        f"{result.best_epoch:5} {result.seconds:8.1f}  {beside}"
    )


HEAD = f"{'set':12} {'seed':>4} {'valid':>10} {'test':>10} {'parameters':>12} {'epoch':>5} {'seconds':>8}  published"
