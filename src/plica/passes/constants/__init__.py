"""Constants: which values are, where they come from, and a Program split into what runs once and what runs always."""
