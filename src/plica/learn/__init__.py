"""Trains compiled circuits; only this folder and the torch backend import torch.

>>> from plica.learn import Adam, fit
"""

from plica.extras import require

require("torch")

from plica.learn.checkpoints import Checkpoint as Checkpoint  # noqa: E402
from plica.learn.fit import fit as fit  # noqa: E402
from plica.learn.history import Epoch as Epoch  # noqa: E402
from plica.learn.history import FitResult as FitResult  # noqa: E402
from plica.learn.learners import Adam as Adam  # noqa: E402
from plica.learn.progress import Progress as Progress  # noqa: E402
from plica.learn.scores import mean_log_likelihood as mean_log_likelihood  # noqa: E402
from plica.learn.tensorboard import TensorBoard as TensorBoard  # noqa: E402
