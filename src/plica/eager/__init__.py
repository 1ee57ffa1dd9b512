"""Eager calls: the array namespace applied to arrays and numbers instead of tracers."""
