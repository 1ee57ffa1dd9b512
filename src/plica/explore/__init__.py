"""The explorer: one page of HTML that shows a circuit or a Program as described, optimized and folded.

The page holds its data, script and style, and asks no host for anything. `page.py` writes it, and `record.py` makes its
data, which `schema.json` describes. The script is built from the folder `explorer` of the repository.
"""

from plica.explore.page import explore
from plica.explore.record import explore_record, schema

__all__ = ["explore", "explore_record", "schema"]
