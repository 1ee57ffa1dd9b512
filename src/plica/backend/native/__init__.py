"""Native code of Programs: machine code in files, and of loops at once."""
