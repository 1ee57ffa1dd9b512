"""The options of `plica train` as one value, and how an image shape is written on the command line."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from plica.symbolic.layers import DISTRIBUTIONS

ImageShape = tuple[int, int, int]

INPUTS = tuple(DISTRIBUTIONS)
DTYPES = ("float32", "float64")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a training run was asked to do; goes into its report as it is.

    Attributes:
        data: `digits`, or the path of a file.
        out: The folder for the results.
        key: Which array of a `.npz`.
        image_shape: (channels, height, width), for flat rows that are images.
        num_values: Values of each variable, where they cannot be inferred.
        input: The name of the input distribution.
        region_graph: How variables are split; None chooses by the data.
        layer: The kind of sum and product layers.
        units: In each layer.
        epochs: At most.
        batch: Rows in one step.
        lr: Adam's step size at the start.
        seed: Of the first weights, the shuffling, the samples and a random split.
        device: Where to train.
        dtype: Of the weights.
    """

    data: str
    out: Path
    key: str | None
    image_shape: ImageShape | None
    num_values: int | None
    input: str
    region_graph: str | None
    layer: str
    units: int
    epochs: int
    batch: int
    lr: float
    seed: int
    device: str
    dtype: str

    def as_json(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return dataclasses.asdict(self) | {"out": str(self.out)}


def parse_image_shape(_context: click.Context, _option: click.Parameter, value: str | None) -> ImageShape | None:
    """`8x8` or `3x32x32` as (channels, height, width).

    Raises:
        click.BadParameter: It is neither.
    """
    if value is None:
        return None
    parts = value.lower().split("x")
    if len(parts) not in (2, 3) or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise click.BadParameter(f"{value!r} is not an image shape; write 8x8, or 3x32x32 with channels first")
    *channels, height, width = (int(part) for part in parts)
    return (channels[0] if channels else 1, height, width)
