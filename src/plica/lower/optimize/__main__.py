"""Prints the table of rules for `docs/optimize.md`: `python -m plica.lower.optimize`."""

from plica.graph.optimize import Rule
from plica.lower.optimize import DEFAULT_RULES


def rules_table() -> str:
    """One line of Markdown for each rule, in the order of the loop."""
    lines = ["| stage | rule | equation | why it holds | laws |", "|---|---|---|---|---|"]
    for stage in ("parameters", "shatter", "fuse"):
        lines += [_line(stage, rule) for rule in getattr(DEFAULT_RULES, stage)]
    return "\n".join(lines)


def _line(stage: str, rule: Rule) -> str:
    laws = ", ".join(sorted(law.name.lower().replace("_", " ") for law in rule.laws or ()))
    return f"| {stage} | `{rule.name}` | `{rule.equation}` | {rule.source} | {laws} |"


if __name__ == "__main__":
    print(rules_table())
