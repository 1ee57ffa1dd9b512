"""Which values of a Program are constant, where they come from, and what they cost."""
