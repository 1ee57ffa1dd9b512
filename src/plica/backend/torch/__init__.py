"""The PyTorch backend: Programs become generated Python over torch calls, inside an `nn.Module`."""

from plica.extras import require

torch = require("torch")
torch.backends.cpu.get_cpu_capability()  # torch asks once, under a lock that is never freed in a child forked meanwhile
