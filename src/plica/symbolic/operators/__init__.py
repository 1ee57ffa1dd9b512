"""Operators from circuit to circuit: the walks that apply the rules of layers (`symbolic/layers/operator_rows.py`)."""

from plica.symbolic.layers.operator_rows import CircuitBlock as CircuitBlock
from plica.symbolic.layers.operator_rows import OperatorRow as OperatorRow
