"""The table of rules in `docs/optimize.md`."""

from plica.graph.optimize import Rule
from plica.lower.optimize import DEFAULT_RULES
from plica.passes.algebra import ALGEBRA

TABLES = {
    "parameters": DEFAULT_RULES.parameters,
    "shatter": DEFAULT_RULES.shatter,
    "fuse": DEFAULT_RULES.fuse,
    "Programs": ALGEBRA,
}


def rules_table() -> str:
    """One line of Markdown for each rule, in the order of the loop; one that stands in two tables has both stages."""
    stages: dict[Rule, list[str]] = {}
    for stage, rules in TABLES.items():
        for rule in rules:
            stages.setdefault(rule, []).append(stage)
    lines = ["| stage | rule | equation | why it holds | laws |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *(_line(rule, rule_stages) for rule, rule_stages in stages.items())])


def _line(rule: Rule, stages: list[str]) -> str:
    laws = ", ".join(sorted(law.name.lower().replace("_", " ") for law in rule.laws or ()))
    return f"| {', '.join(stages)} | `{rule.name}` | `{rule.equation}` | {rule.source} | {laws} |"
