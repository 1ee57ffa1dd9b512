"""Whether constants have changed since they were folded, and who is told where nothing notices it."""
