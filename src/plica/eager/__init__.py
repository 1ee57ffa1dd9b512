"""Eager calls: the array namespace on arrays and numbers at hand."""
