"""Lowering: a circuit, folded into groups of alike layers, becomes a Program; queries become Programs of their own."""
