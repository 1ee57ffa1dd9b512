"""Trains compiled circuits; only this folder and the torch backend import torch.

>>> from plica.learn import Adam, fit
"""

from plica.extras import require
from plica.public import listing

require("torch")

from plica.learn.checkpoints import Checkpoint as Checkpoint  # noqa: E402
from plica.learn.expected_counts import Flows as Flows  # noqa: E402 - torch first
from plica.learn.expected_counts import flows as flows  # noqa: E402
from plica.learn.fit import fit as fit  # noqa: E402
from plica.learn.history import Epoch as Epoch  # noqa: E402
from plica.learn.history import FitResult as FitResult  # noqa: E402
from plica.learn.learners import Adam as Adam  # noqa: E402
from plica.learn.learners import Anemone as Anemone  # noqa: E402
from plica.learn.learners import FullEM as FullEM  # noqa: E402
from plica.learn.learners import StepwiseEM as StepwiseEM  # noqa: E402
from plica.learn.progress import Progress as Progress  # noqa: E402
from plica.learn.resize import grow as grow  # noqa: E402
from plica.learn.resize import prune as prune  # noqa: E402
from plica.learn.scores import mean_log_likelihood as mean_log_likelihood  # noqa: E402
from plica.learn.tensorboard import TensorBoard as TensorBoard  # noqa: E402
from plica.learn.weights import to_linear as to_linear  # noqa: E402
from plica.learn.weights import to_softmax as to_softmax  # noqa: E402

__all__ = [
    "Adam",
    "Anemone",
    "Checkpoint",
    "Epoch",
    "FitResult",
    "Flows",
    "FullEM",
    "Progress",
    "StepwiseEM",
    "TensorBoard",
    "fit",
    "flows",
    "grow",
    "mean_log_likelihood",
    "prune",
    "to_linear",
    "to_softmax",
]

__dir__ = listing(__name__)
