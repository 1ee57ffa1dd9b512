"""A circuit where each rule of the optimizer fires, and near misses where it must not: one table for all rules.

A row of another rule needs rows here; `tests/lower/optimize/test_rule_cases.py` says so where there is none.
"""

from tests.harness.rule_cases.fusing import FUSING
from tests.harness.rule_cases.parameters import PARAMETERS
from tests.harness.rule_cases.shattering import SHATTERING

RULE_CASES = (*FUSING, *SHATTERING, *PARAMETERS)
