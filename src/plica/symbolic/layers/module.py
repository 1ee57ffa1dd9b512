"""The module layer: densities that an object of a backend computes, such as a torch module.

The circuit knows only the methods of the object. Its own backend calls it, and it never folds with others. A model file
has its tensors, but not its code: the caller that loads the file gives the object.

>>> class Network:
...     def forward(self, x): ...
>>> ModuleLayer([0, 1], 4, module=Network())
ModuleLayer(scope={0, 1}, 4)
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, final

from plica.arguments import elements, flag, known
from plica.errors import InputError, UnsupportedError
from plica.symbolic.domains import REALS, Domain
from plica.symbolic.layers.base import FieldsLayer, InputLayer, assign, input_scope, positive
from plica.symbolic.layers.rows import InputRow
from plica.symbolic.parameters import Array, Namespace
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value

ANSWERS = ("log_partition", "sample", "mode")
"""The methods that a module may have, besides `forward`."""


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class ModuleLayer(FieldsLayer, InputLayer):
    """Units that a module computes from rows of data.

    Args:
        scope: The variables, V of them.
        num_output_units: K.
        module: Called with `(B, V)`, the columns in ascending order of variables, it returns the logarithms of the
            units, `(B, K)`. It must not write to its argument. The circuit does not copy it: its tensors are in the
            circuit's state dict as `3.module.*`, move and are trained with the circuit.
        domain: The values of each variable; whole numbers arrive as int64.
        log_space: Whether the module returns logarithms; else it returns the numbers themselves.
        normalized: Whether each unit sums or integrates to one over the variables.
        answers: The further methods of the module. `log_partition()` gives the logarithms of the integrals of units,
            `(K,)`; `sample(units, uniforms)` draws rows `(B, V)` from units `(B,)` by uniform numbers `(B, V)`;
            `mode()` gives the rows at which each unit is largest, `(K, V)`.

    Raises:
        InputError: An answer is none of these, the module lacks a method, or both `normalized` and `log_partition` are
            given.
    """

    scope: Scope
    num_output_units: int
    module: Any
    domain: Domain
    log_space: bool
    normalized: bool
    answers: tuple[str, ...]

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        module: Any,
        domain: Domain = REALS,
        log_space: bool = True,
        normalized: bool = False,
        answers: Iterable[str] = (),
    ) -> None:
        name = "ModuleLayer"
        units, names = positive(name, "num_output_units", num_output_units), elements(name, "answers", answers)
        normalized = flag(name, "normalized", normalized)
        unknown = [answer for answer in names if not known(answer, ANSWERS)]
        if unknown:
            raise InputError(f"{name}: a module answers some of {', '.join(ANSWERS)}, found {unknown[0]!r}")
        lacking = [method for method in ("forward", *names) if not callable(getattr(module, method, None))]
        if lacking:
            raise InputError(
                f"{name}: {type(module).__name__} has no method {lacking[0]!r}; write it, or leave it out of `answers`"
            )
        if normalized and "log_partition" in names:
            raise InputError(f"{name}: normalized and log_partition exclude each other; pass one of them")
        assign(self, scope=input_scope(name, scope), num_output_units=units, module=module, domain=domain)
        assign(self, log_space=flag(name, "log_space", log_space), answers=names)
        assign(self, normalized=normalized)

    @property
    def opaque(self) -> dict[str, Any]:
        """The module."""
        return {"module": self.module}

    @property
    def unsummed(self) -> str | None:
        """Why its variables cannot be summed out, if the integrals of units are not known."""
        if self.normalized or "log_partition" in self.answers:
            return None
        return (
            "nothing says what its module integrates to; pass normalized=True, or give the module a method "
            "`log_partition` and name it in `answers`"
        )

    def fold_settings(self) -> Hashable:
        """The layer itself: modules are called one by one."""
        return (ModuleLayer, self)


def _require(layer: ModuleLayer, answer: str) -> None:
    if answer not in layer.answers:
        raise UnsupportedError(
            f"{layer!r}: its module does not answer {answer!r}; write the method {answer} and name it in `answers`."
        )


def _body(xp: Namespace, semiring: Semiring, layer: ModuleLayer, params: Params, x: Array) -> Value:
    rows = xp.squeeze(x, axis=0)  # (B, V): such layers do not fold
    values = params.call("module", "forward", (rows,), (rows.shape[0], layer.num_output_units))
    return _value(xp, semiring, layer, values)


def _value(xp: Namespace, semiring: Semiring, layer: ModuleLayer, values: Array) -> Value:
    numbers = xp.expand_dims(values, axis=0)
    return semiring.from_log(xp, numbers) if layer.log_space else semiring.from_linear(xp, numbers)


def _marginal(xp: Namespace, semiring: Semiring, layer: ModuleLayer, params: Params) -> Value:
    if layer.unsummed is not None:
        raise UnsupportedError(f"{layer!r} cannot be summed out: {layer.unsummed}.")
    if layer.normalized:
        return semiring.one(xp, (1, 1, layer.num_output_units), params.dtype)
    total = params.call("module", "log_partition", (), (layer.num_output_units,))
    return semiring.from_log(xp, xp.reshape(total, (1, 1, layer.num_output_units)))


def _sample(xp: Namespace, layer: ModuleLayer, params: Params, units: Array, uniforms: Array) -> Array:
    _require(layer, "sample")
    chosen, numbers = xp.squeeze(units, axis=0), xp.squeeze(uniforms, axis=0)
    rows = params.call("module", "sample", (chosen, numbers), numbers.shape)
    return xp.expand_dims(rows, axis=0)


def _mode(xp: Namespace, layer: ModuleLayer, params: Params) -> Array:
    _require(layer, "mode")
    modes = params.call("module", "mode", (), (layer.num_output_units, layer.num_variables))
    return xp.expand_dims(modes, axis=0)


def _maximum(xp: Namespace, semiring: Semiring, layer: ModuleLayer, params: Params) -> Value:
    modes, units = _mode(xp, layer, params), layer.num_output_units
    rows = xp.squeeze(modes, axis=0)
    rows = xp.astype(rows, xp.int64) if layer.domain.whole else rows
    values = params.call("module", "forward", (rows,), (units, units))
    maxima = xp.sum(xp.where(xp.eye(units, dtype=xp.bool), values, 0.0), axis=0)  # each unit at its own mode
    return _value(xp, semiring, layer, xp.expand_dims(maxima, axis=0))


ROW = InputRow(ModuleLayer, body=_body, marginal=_marginal, sample=_sample, mode=_mode, maximum=_maximum)
