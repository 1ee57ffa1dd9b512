"""Several processes that work as one, by `torch.distributed`.

>>> from plica.distributed import ranks
"""
