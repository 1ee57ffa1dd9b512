"""The questions that users ask most as methods of compiled circuits; each calls the query of that name.

>>> import plica
>>> from plica.symbolic.layers import CategoricalLayer
>>> layer = CategoricalLayer([0], 1, num_categories=3)
>>> circuit = plica.compile(plica.Circuit([layer], {}, [layer]))
>>> circuit.sample(5, seed=0).shape, circuit.log_likelihood([[0], [2]]).shape
(torch.Size([5, 1]), torch.Size([2]))
"""

from typing import Any

from plica.errors import InputError
from plica.lower.queries.table import QUERIES

_COMPLETIONS = ("mpe", "sample", "mean")


class QueryMethods:
    """Methods of compiled circuits that call `plica.queries`, which has more questions, and says more of these."""

    def log_likelihood(self, x: Any) -> Any:
        """`plica.queries.log_likelihood(circuit, x)`: of rows `(B, D)`, NaN is missing; `(B,)`."""
        return QUERIES["log_likelihood"].ask(self, x)

    def sample(self, n: int = 1, given: Any = None, seed: int | None = None) -> Any:
        """`plica.queries.sample(circuit, n, given, seed)`: `(n, D)`, or `n` completions of each row `(R, D)`."""
        return QUERIES["sample"].ask(self, n, given, seed)

    def complete(self, x: Any, method: str = "mpe", seed: int | None = None) -> Any:
        """Rows `(B, D)` whose missing entries are filled in.

        Args:
            x: Rows; NaN is missing.
            method: `mpe` takes the most probable values of all missing entries together, `sample` draws them, and
                `mean` takes the mean of each.
            seed: Of the draws.

        Raises:
            InputError: There is no such method, or a row does not fit the circuit.
            UnsupportedError: A layer does not have what the method needs.
        """
        if method not in _COMPLETIONS:
            raise InputError(f"complete: method must be one of {', '.join(_COMPLETIONS)}, found {method!r}")
        if method == "sample":
            return self.sample(1, x, seed)
        answer = QUERIES[method].ask(self, x)
        return answer[0] if method == "mpe" else answer
