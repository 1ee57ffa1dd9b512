"""Several processes that work as one, by `torch.distributed`: `shard` divides a circuit among them.

>>> from plica.distributed import ranks
"""

from plica.distributed.sharding import shard

__all__ = ["shard"]
