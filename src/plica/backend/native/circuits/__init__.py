"""What of a circuit goes into a native file: Programs with their weights folded, and which of them asks which next."""
