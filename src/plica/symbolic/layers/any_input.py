"""Rules of all input layers that have no nearer one: conjugates by parameters, and refusals by name.

>>> from plica.symbolic.layers import GaussianLayer
>>> _conjugate(GaussianLayer([0], 4)).output
GaussianLayer(scope={0}, 4)
"""

from plica.errors import UnsupportedError
from plica.symbolic.layers.base import InputLayer, held_layers
from plica.symbolic.layers.operator_rows import CircuitBlock, OperatorRow
from plica.symbolic.parameters import conjugated, is_real


def _conjugate(layer: InputLayer) -> CircuitBlock:
    """A layer of the conjugate parameters, if these give the conjugates of its units."""
    layers = [held for _, held in held_layers(layer)]
    without = next((held for held in layers if not (isinstance(held, InputLayer) and held.has_conjugate)), None)
    if without is not None and (without.opaque or not all(map(is_real, layer.all_params.values()))):
        what = "calls an object that may return complex numbers" if without.opaque else "has complex parameters"
        raise UnsupportedError(
            f"conjugate: {layer!r} {what}, and nothing says that conjugates of its parameters give the conjugates of "
            f"its units. If they do, set {type(without).__name__}.has_conjugate = True; else add a rule by "
            "`add_operator_rule`."
        )
    conjugates = {name: conjugated(parameter) for name, parameter in layer.all_params.items()}
    return CircuitBlock.from_layer(layer.with_params(conjugates))


def _multiply(first: InputLayer, second: InputLayer) -> CircuitBlock:
    shared = first.scope & second.scope
    why = f"their product over {shared!s} is no layer that Plica has" if shared else "they share no variable"
    raise UnsupportedError(
        f"multiply: no rule is known for {first!r} times {second!r}: {why}. Layers of states multiply with each other, "
        "and so do two layers of one family that is closed under products, such as Gaussian ones of equal scopes; or "
        "add a rule by `add_operator_rule`."
    )


def _differentiate(layer: InputLayer, *, variable: int, order: int) -> CircuitBlock:  # noqa: ARG001
    why = (
        "the variable takes whole numbers, and a function of these has no derivative"
        if layer.domain.whole
        else "its derivative is no layer that Plica has"
    )
    raise UnsupportedError(
        f"differentiate: {layer!r} cannot be differentiated by variable {variable}: {why}. Polynomial layers can; or "
        "add a rule by `add_operator_rule`."
    )


OPERATORS = (
    OperatorRow("conjugate", (InputLayer,), _conjugate),
    OperatorRow("multiply", (InputLayer, InputLayer), _multiply),
    OperatorRow("differentiate", (InputLayer,), _differentiate),
)
