"""The objective of a model that is to predict one variable."""

import torch
from torch import Tensor, nn


class Predicting(nn.Module):
    """A model that is to predict one variable.

    In training mode its objective is log p(target | others) + log p(others) / D, so that the model keeps a rest of what
    rows look like. In eval mode, in which epochs are compared, it is log p(target | others). Adam learns it by
    gradients, and `FullEM` by expected counts.

    Source: Bouchard and Triggs, "The tradeoff between generative and discriminative classifiers", 2004.
    """

    def __init__(self, model: nn.Module, target: int) -> None:
        super().__init__()
        self.model, self.target = model, target

    def forward(self, x: Tensor) -> Tensor:
        """The objective of rows `(B, D)`, `(B, 1, 1)`."""
        whole, others = self.model(x), self.model(self.without_target(x))
        objective: Tensor = whole - (self.share(x) if self.training else 1.0) * others
        return objective

    def without_target(self, x: Tensor) -> Tensor:
        """The rows with their target missing."""
        others = x.clone()
        others[:, self.target] = torch.nan
        return others

    @staticmethod
    def share(x: Tensor) -> float:
        """The share of log p(others) that the objective of training lacks: 1 - 1 / D."""
        return 1.0 - 1.0 / x.shape[1]
