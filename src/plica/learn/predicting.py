"""The objective of a model that is to predict one variable."""

import torch
from torch import Tensor, nn


class Predicting(nn.Module):
    """A model whose objective is to predict one variable: log p(target | others) + log p(others) / D.

    Source: Bouchard and Triggs, "The tradeoff between generative and discriminative classifiers", 2004.
    """

    def __init__(self, model: nn.Module, target: int) -> None:
        super().__init__()
        self.model, self.target = model, target

    def forward(self, x: Tensor) -> Tensor:
        """The objective of rows `(B, D)`, `(B, 1, 1)`."""
        without = x.clone()
        without[:, self.target] = torch.nan
        whole, others = self.model(x), self.model(without)
        objective: Tensor = whole - (1.0 - 1.0 / x.shape[1]) * others
        return objective
