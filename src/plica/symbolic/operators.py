"""Rules for operators on circuits, by operator and classes of layers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from plica.symbolic.layers import Layer


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """What an operator makes of layers of given classes.

    Args:
        operator: Its name: `multiply`, `integrate`, ...
        layers: The class of the layer of each operand.
        rule: From those layers, and the settings of the operator, to the layers that stand for the result.
    """

    operator: str
    layers: tuple[type[Layer], ...]
    rule: Callable[..., Any]
