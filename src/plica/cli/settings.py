"""The options of `plica train` as one value, and the kinds of option that click does not bring."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

INPUTS = ("categorical", "gaussian")
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
        input: The kind of input distribution.
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
    image_shape: tuple[int, int, int] | None
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


class ImageShapeOption(click.ParamType):
    """`8x8` or `3x32x32`: height and width, or channels, height and width."""

    name = "[CxHxW]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int, int] | None:
        """The shape as three integers."""
        if value is None or isinstance(value, tuple):
            return value
        parts = str(value).lower().split("x")
        if len(parts) not in (2, 3) or not all(part.isdecimal() and int(part) > 0 for part in parts):
            self.fail(f"{value!r} is not an image shape; write 8x8, or 3x32x32 with channels first", param, ctx)
        *channels, height, width = (int(part) for part in parts)
        return (channels[0] if channels else 1, height, width)
