"""The table of rules in `docs/optimize.md`."""

from plica.graph.optimize import Rule
from plica.lower.optimize import DEFAULT_RULES
from plica.lower.optimize.checks import TABLES
from tests.harness.tables import markdown


def rules_table() -> str:
    """One line of Markdown for each rule, in the order of the loop; one that stands in two tables has both stages."""
    stages: dict[Rule, list[str]] = {}
    for stage in TABLES:
        for rule in getattr(DEFAULT_RULES, stage):
            stages.setdefault(rule, []).append("Programs" if stage == "programs" else stage)
    rows = [
        (", ".join(names), f"`{rule.name}`", f"`{rule.equation}`", rule.source, ", ".join(_laws(rule)))
        for rule, names in stages.items()
    ]
    return markdown(("stage", "rule", "equation", "why it holds", "laws"), rows)


def _laws(rule: Rule) -> list[str]:
    return sorted(law.name.lower().replace("_", " ") for law in rule.laws or ())
