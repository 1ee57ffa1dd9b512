"""Test images with their lower halves hidden, filled in by the model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from plica.files.datasets import Dataset
from plica.files.tables import Array

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit

_IMAGES = 8
_FILLINGS = 3  # of each image that are drawn


@dataclass(frozen=True, slots=True, eq=False)
class Inpainted:
    """The images of an inpainting picture.

    Attributes:
        columns: Images `(N, D)`, by the title of their column.
        real: The original images, `(N, D)`.
        hidden: Which values were hidden, `(D,)`.
    """

    columns: Mapping[str, Array]
    real: Array
    hidden: Array


def inpaint(model: "TorchCircuit", data: Dataset, seed: int) -> Inpainted | None:
    """The first test images filled in: draws from the exact conditional, and the most probable explanation.

    None if rows are not images, or images of a single line.
    """
    if data.shape is None or data.shape[1] < 2:
        return None
    import torch

    from plica.queries import mpe, sample

    _, height, width = data.shape
    hidden = np.tile(np.repeat(np.arange(height) >= height // 2, width), data.shape[0])
    real = data.test[:_IMAGES]
    visible = torch.from_numpy(np.where(hidden, np.nan, real.astype(np.float64))).to(model.leaves.device)
    drawn = sample(model, _FILLINGS, given=visible, seed=seed).reshape(len(real), _FILLINGS, -1).cpu().numpy()
    columns = {f"sample {number + 1}": drawn[:, number] for number in range(_FILLINGS)}
    best, _ = mpe(model, visible)
    return Inpainted({**columns, "most probable": best.cpu().numpy(), "truth": real}, real, hidden)
