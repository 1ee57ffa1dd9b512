"""`IntegrateQuery`: the value of a circuit with some variables of each row summed out, as its algebra reduces them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.rows import circuit_of, floating, mask_of
from plica.backend.torch.queries.values import values
from plica.backend.torch.sources import untraced
from plica.errors import DTypeError, InputError
from plica.lower.queries.likelihood import integration
from plica.symbolic.scope import Scope


@final
class IntegrateQuery:
    """Scores rows of which some entries are hidden: the variables are summed out, or maximized over.

    Hidden entries may be any number, or NaN: they contribute neither to the value nor to gradients.

    Args:
        circuit: A compiled circuit, smooth and decomposable.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        UnsupportedError: A layer does not say what it comes to without its variables in the algebra of the circuit.

    Example:
        >>> import torch
        >>> from plica import Circuit, Scope, compile
        >>> from plica.symbolic.layers import CategoricalLayer
        >>> layer = CategoricalLayer([0], 1, num_categories=3)
        >>> query = IntegrateQuery(compile(Circuit([layer], {}, [layer])))
        >>> query(torch.tensor([[1], [9]]), integrate_vars=Scope([0])).exp().round(decimals=4).tolist()
        [[[1.0]], [[1.0]]]
    """

    def __init__(self, circuit: TorchCircuit) -> None:
        self._circuit = circuit_of("IntegrateQuery", circuit)
        folded = circuit.folded
        integration(circuit.semiring).check(folded.described, folded.row)

    @untraced
    def __call__(self, x: Tensor, *, integrate_vars: Any = None, observed: Any = None) -> Tensor:
        """The value of each row without the variables that are hidden in it.

        Args:
            x: Rows `(B, D)` of integers or floats, where NaN is hidden too.
            integrate_vars: The variables to sum out: booleans `(B, D)`, or `(D,)` for all rows; a `Scope`, or a
                sequence of scopes, one for each row or one for all.
            observed: In its place the variables that are known, in the same forms.

        Returns:
            `(B, outputs, units)` in the circuit's semiring.

        Raises:
            DTypeError: The argument is neither a mask of booleans nor made of scopes.
            InputError: The argument does not fit the rows, or has a variable that is not the circuit's; or none or both
                are given.
        """
        x = self._circuit.converted(x)
        if (integrate_vars is None) == (observed is None):
            raise InputError(
                "IntegrateQuery takes one of integrate_vars, true where a variable is summed out, and observed, true "
                f"where it is known; found {'none' if observed is None else 'both'}."
            )
        if observed is None:
            hidden = self._mask("integrate_vars", integrate_vars, x)
        else:
            hidden = self._mask("observed", observed, x).logical_not()
        return values(self._circuit, torch.where(hidden, torch.nan, floating(x)))

    def _mask(self, name: str, given: Any, x: Tensor) -> Tensor:
        """`(B, D)`, from any of the forms."""
        scopes = [given] if isinstance(given, Scope) else given
        if isinstance(scopes, Sequence) and all(isinstance(scope, Scope) for scope in scopes):
            return self._mask_of_scopes(name, scopes, x)
        if isinstance(scopes, Sequence) and scopes and all(type(entry) is int for entry in scopes):
            raise DTypeError(f"{name} is a mask or made of scopes, found numbers: {given}; try {name}=Scope({given}).")
        return mask_of(name, given, x)

    def _mask_of_scopes(self, name: str, scopes: Sequence[Scope], x: Tensor) -> Tensor:
        if len(scopes) not in (1, len(x)):
            raise InputError(
                f"{name} has {len(scopes)} scopes for {len(x)} rows; give one for each row, or one for all."
            )
        foreign = Scope.union(*scopes) - self._circuit.scope if scopes else None
        if foreign:
            raise InputError(f"{name}: {foreign!s} is not among the variables of the circuit, {self._circuit.scope!s}.")
        known: dict[Scope, list[bool]] = {
            scope: [variable in scope for variable in range(x.shape[1])] for scope in dict.fromkeys(scopes)
        }
        rows = torch.tensor([known[scope] for scope in scopes], dtype=torch.bool, device=x.device)
        return rows.reshape(len(scopes), x.shape[1]).expand(x.shape)
