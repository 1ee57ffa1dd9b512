"""Trains compiled circuits; only this folder and the torch backend import torch."""

from plica.extras import require

require("torch")

from plica.learn.expected_counts import Flows as Flows  # noqa: E402 - torch first
from plica.learn.expected_counts import flows as flows  # noqa: E402
from plica.learn.learners.anemone import Anemone as Anemone  # noqa: E402
from plica.learn.learners.full_em import FullEM as FullEM  # noqa: E402
from plica.learn.learners.stepwise_em import StepwiseEM as StepwiseEM  # noqa: E402
from plica.learn.weights import to_linear as to_linear  # noqa: E402
from plica.learn.weights import to_softmax as to_softmax  # noqa: E402
