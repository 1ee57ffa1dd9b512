"""Rules for operators on circuits, by operator and classes of layers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from plica.symbolic.layers import Layer


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """A registry entry: the rule of an operator for layers of given classes.

    Args:
        operator: Its name: `multiply`, `integrate`, ...
        layers: The class of the layer of each operand.
        rule: Gives the layers of the result, from those layers and the settings of the operator.
    """

    operator: str
    layers: tuple[type[Layer], ...]
    rule: Callable[..., Any]
