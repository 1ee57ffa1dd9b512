"""How models learn from rows: each learner is a class of settings, and one file."""
