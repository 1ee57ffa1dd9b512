"""Questions to compiled circuits: rows of data in, rows out; NaN is what is missing."""

from plica.frontend.queries import mpe, sample

__all__ = ["mpe", "sample"]
