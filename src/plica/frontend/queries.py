"""Questions to compiled circuits: rows of data in, rows out; NaN is what is missing.

>>> import plica
>>> from plica.symbolic.layers import CategoricalLayer
>>> layer = CategoricalLayer([0], 1, num_categories=3)
>>> circuit = plica.compile(plica.Circuit([layer], {}, [layer]))
>>> sample(circuit, 5, seed=0).shape
torch.Size([5, 1])

They take circuits compiled for any backend and answer with its arrays. The circuit must be smooth and decomposable and
have one output of one unit; it need not be normalized.
"""

from __future__ import annotations

import importlib
from typing import Any

from plica.errors import UnsupportedError
from plica.lower.queries.answers import Explanations

__all__ = ["Explanations", "mpe", "mpe_bounds", "sample"]

_BACKENDS = {"torch": "plica.backend.torch.queries"}


def sample(circuit: Any, n: int = 1, given: Any = None, seed: int | None = None) -> Any:
    """Exact, independent samples, or exact completions of rows.

    Args:
        circuit: A compiled circuit.
        n: How many samples; with `given`, how many of each row.
        given: Rows `(R, D)` with NaN in place of what is to be drawn, from the distribution given the rest of its row.
        seed: The samples depend on it alone (and on the device), not on how the circuit was compiled; by default they
            come from the backend's own generator.

    Returns:
        `(n, D)`, or `(R * n, D)` with those of row r from `r * n` on. Column v is variable v, or 0 where no layer reads
        it. int64 if every variable has states; else the dtype of the circuit, or that of `given` if it is floating
        (float32 in place of float16 where some variable has states or is a count, which float16 rounds).

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable, or has negative weights.
        ShapeError: More than one output or unit.
        InputError: `n` is negative, a row does not fit the circuit, or what is given has probability zero.
        UnsupportedError: A layer does not say how it is sampled.
    """
    return room("sample", circuit).sample(circuit, n, given, seed)


def mpe(circuit: Any, x: Any) -> tuple[Any, Any]:
    """The most probable explanation of rows: what completes each best, and how probable that is.

    Every sum of a circuit stands for a latent variable, whose value is the term that it chooses. The answer is the
    completion that is the most probable *together with the terms that are chosen for it*. In a deterministic circuit a
    row has one choice of terms, so that it is the most probable completion. In others another completion may have a
    larger probability, shared by several choices; finding that one is NP-hard. `mpe_bounds` says which it is, and how
    far from the largest probability the answer may be.

    Args:
        circuit: A compiled circuit.
        x: Rows `(R, D)` with NaN in place of what is to be filled in.

    Returns:
        Rows `(R, D)`, and logarithms `(R,)` of the circuit's value of each row together with its choices, which is at
        most that of the row, and its probability where the circuit is normalized (`log_likelihood` subtracts the total,
        this does not); `-inf` where every completion has probability zero, and the completion means nothing. Rows are
        int64 if every variable has states; else of the dtype of `x` if it is floating, or the circuit's (float32 in
        place of float16 where some variable has states or is a count, which float16 rounds).

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable, or has negative weights.
        ShapeError: More than one output or unit.
        InputError: A row does not fit the circuit.
        UnsupportedError: A layer does not say where it is largest.
    """
    found: tuple[Any, Any] = room("mpe", circuit).mpe(circuit, x)
    return found


def mpe_bounds(circuit: Any, x: Any) -> Explanations:
    """What `mpe` finds, and how far from the most probable completions it may be.

    Args:
        circuit: A compiled circuit.
        x: Rows `(R, D)`; NaN is what is missing.

    Returns:
        The completions, the values found and an upper bound of the largest: see `Explanations`.

    Raises:
        StructuralPropertyError, ShapeError, InputError, UnsupportedError: As for `mpe`.
    """
    found: Explanations = room("mpe_bounds", circuit).mpe_bounds(circuit, x)
    return found


def room(query: str, circuit: Any) -> Any:
    """The module of queries of a circuit's backend."""
    backend = getattr(circuit, "backend", None)
    if backend not in _BACKENDS:
        raise UnsupportedError(
            f"{query} takes a compiled circuit, found {type(circuit).__name__}; compile it: plica.compile(circuit)."
        )
    return importlib.import_module(_BACKENDS[backend])
