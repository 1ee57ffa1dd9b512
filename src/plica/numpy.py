"""The array namespace: names and meaning of the Python Array API standard, and what circuits need beside them.

On tracers a function is recorded; on arrays what it would record runs at once (torch tensors in torch, numpy arrays in
the interpreter), so that a function means the same whether it is traced or not. Numbers alone make torch tensors.

>>> import numpy
>>> import plica.numpy as pnp
>>> pnp.logsumexp(numpy.zeros((2, 4)), axis=1).round(4).tolist()
[1.3863, 1.3863]
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plica.eager.names import *  # noqa: F403 - what is found by name, for editors

    __array_api_version__: str

    def __getattr__(name: str) -> Any: ...

else:
    from plica.eager.namespace import (  # noqa: F401 - whatever else is asked for is found there
        __array_api_version__,
        __array_namespace_info__,
        __dir__,
        __getattr__,
    )
