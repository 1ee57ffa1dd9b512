"""Prints the table of rules for `docs/optimise.md`: `python -m plica.lower.optimise`."""

from plica.lower.optimise import DEFAULT_RULES


def rules_table() -> str:
    """One line of Markdown for each rule, in the order of the loop."""
    lines = ["| stage | rule | equation | why it holds |", "|---|---|---|---|"]
    for stage in ("parameters", "shatter", "fuse"):
        rules = getattr(DEFAULT_RULES, stage)
        lines += [f"| {stage} | `{rule.name}` | `{rule.equation}` | {rule.source} |" for rule in rules]
    return "\n".join(lines)


if __name__ == "__main__":
    print(rules_table())
