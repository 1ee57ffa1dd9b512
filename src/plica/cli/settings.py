"""The options of `plica train` as one value, and the parsers of some options."""

import dataclasses
import math
import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from plica.symbolic.layers import DISTRIBUTIONS
from plica.tables.recipe import SMOOTH_CATEGORICAL

ImageShape = tuple[int, int, int]

INPUTS = (*DISTRIBUTIONS, SMOOTH_CATEGORICAL)
_MOST_DIGITS = 9  # of one size of an image
DTYPES = ("float32", "float64")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a training run; its report lists them.

    Attributes:
        data: `digits`, or the path of a file.
        out: The folder for the results.
        key: Which array of a `.npz`.
        image_shape: (channels, height, width), for flat rows that are images.
        num_values: The number of values of each variable; None infers it.
        input: The name of the input distribution; None chooses by the data.
        region_graph: The name of the region graph; None chooses by the data.
        layer: The kind of sum and product layers; None, here and below, leaves it to the rule of
            `plica.tables.rules`.
        units: In each layer.
        trees: Hidden trees.
        start: How hidden trees start.
        epochs: The most epochs.
        batch: Rows in one step.
        lr: The learner's rate; None leaves it to the learner.
        seed: Of the first weights, the shuffling, the samples and a random split.
        device: Where to train.
        dtype: Of the weights.
        columns: `auto`, or the path of a file that describes columns; None if all have one kind.
        missing: Words that mean that a cell is missing.
        delimiter: The delimiter of a `.csv`; None if its first lines decide.
        learner: `NAME` or `NAME:SETTING=VALUE,...`.
        pseudocount: Imaginary rows for each distribution.
        soften: The share of their probability that inputs of states take evenly from all states.
        patience: Epochs without a gain after which training ends.
        min_delta: The gain in nats per row that counts.
    """

    data: str
    out: Path
    key: str | None
    image_shape: ImageShape | None
    num_values: int | None
    input: str | None
    region_graph: str | None
    layer: str | None
    units: int | None
    trees: int | None
    start: str | None
    epochs: int | None
    batch: int | None
    lr: float | None
    seed: int
    device: str
    dtype: str
    columns: str | None = None
    missing: tuple[str, ...] = ()
    delimiter: str | None = None
    learner: str | None = None
    pseudocount: float | None = None
    soften: float | None = None
    patience: int | None = None
    min_delta: float | None = None

    def as_json(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return dataclasses.asdict(self) | {"out": str(self.out)}


def finite(_context: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    """A number that is neither infinite nor NaN, or None.

    Raises:
        click.BadParameter: The number is infinite or NaN.
    """
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number")
    return value


def parse_out(_context: click.Context, _option: click.Parameter, value: str | None) -> Path | None:
    """A folder by its name, or None.

    Raises:
        click.BadParameter: The name is empty, as after `--out $UNSET` in a shell.
    """
    if value is None:
        return None
    if not value:
        raise click.BadParameter("the name of the folder is empty; write . for the current one")
    return Path(value)


def parse_image_shape(_context: click.Context, _option: click.Parameter, value: str | None) -> ImageShape | None:
    """`8x8` or `3x32x32` as (channels, height, width).

    Raises:
        click.BadParameter: The text has another form.
    """
    if value is None:
        return None
    parts = value.lower().split("x")
    sizes = [int(part) if part.isdecimal() and len(part) <= _MOST_DIGITS else 0 for part in parts]
    if len(parts) not in (2, 3) or 0 in sizes:
        raise click.BadParameter(
            f"{reprlib.repr(value)} is not an image shape; write 8x8, or 3x32x32 with channels first"
        )
    *channels, height, width = sizes
    return (channels[0] if channels else 1, height, width)
