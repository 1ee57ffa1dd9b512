"""Hashes of whole numbers, by operations on whole arrays."""

from __future__ import annotations

import numpy as np

from plica.files.rows.batch import Array


def mixed(bits: Array) -> Array:
    """Numbers of 64 bits, their bits mixed; different numbers stay different.

    Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (SplitMix64).
    """
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: Array = bits ^ (bits >> np.uint64(31))
    return result
