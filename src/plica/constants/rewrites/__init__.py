"""Programs rewritten so that more of them is constant, or smaller."""
