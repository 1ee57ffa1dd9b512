"""The PyTorch backend: Programs become generated Python over torch calls, inside an `nn.Module`."""

from plica.extras import require

require("torch")
